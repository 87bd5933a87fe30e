"""Accesses to memory under a condition on symbolic data: made for all lanes that may make them, known to be made for none.

What is ordered, in bounds and initialised for all of them is so for those that do access. A store leaves what was there where the condition
fails: a selection between what is stored and that. Lanes that may store to one place do so one after another, so that for any inputs what
is computed is what a run computes of those lanes that do. A finding about such an access is one if there are inputs at which the conditions
hold, all of those under which its threads come to it, and two stores differ; else it is shown as a note, and nothing is proved.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from gmpy2 import mpq

from ptx_engine.decide.enclosure import Enclosure
from ptx_engine.decide.levels import plan
from ptx_engine.decide.oracle import Reals, random_inputs
from ptx_engine.decide.precise import Cone
from ptx_engine.errors import NotStructuredError
from ptx_engine.findings import Finding, Severity, Site
from ptx_engine.isa.compare import compare_terms, select, typed
from ptx_engine.isa.group import WARP, Group
from ptx_engine.isa.values import FLOATS, PRED, Fmt, Sym, Value, take
from ptx_engine.machine.cells import without_holes
from ptx_engine.machine.execution import ptx_lines
from ptx_engine.machine.findings_log import FindingLog
from ptx_engine.machine.influence import STRONG
from ptx_engine.machine.memory import Memory
from ptx_engine.machine.order_port import NoOrder
from ptx_engine.syntax.ast import Instruction
from ptx_engine.terms import Ids, Op

#: what is said before a finding
IF, FOR_SOME = "if the data choose so: ", "for some inputs: "
#: conditions that are kept at most
_KEPT = 1 << 22
#: sets of points at which they are tried, nodes that they may have together, and bits of the bounds
_SEEDS, _NODES, _BITS = 8, 20_000, 128
#: points that are looked at closely
_TRIED = 16
#: threads that may store to one place at most
_ROUNDS = 256
#: pairs of stores of two threads whose values are compared
_PAIRS = 64
NEVER, ALWAYS = 0, 1


def is_access(instruction: Instruction) -> bool:
    """A load or a store that may be made under a condition on data."""
    return instruction.opcode in ("ld", "st") and instruction.predicate is None and (STRONG | {"release"}).isdisjoint(instruction.modifiers)


def _rounds(g: Group, space: str, address: "int | np.ndarray") -> list[np.ndarray]:
    """The lanes of a group, parted so that no two of a part go to one place; all of one access are of one size, and aligned."""
    window = np.asarray(g.slots if space == "shared" else g.threads if space == "local" else 0)
    order = np.lexsort((np.broadcast_to(np.asarray(address), (g.n,)), np.broadcast_to(window, (g.n,))))
    place = np.stack([np.broadcast_to(np.asarray(x).astype(np.uint64), (g.n,))[order] for x in (window, address)])
    first = np.concatenate([[0], 1 + np.flatnonzero((place[:, 1:] != place[:, :-1]).any(axis=0))])
    turn = np.zeros(g.n, np.int64)
    turn[order] = np.arange(g.n) - np.repeat(first, np.diff([*first, g.n]))
    if (count := int(turn.max()) + 1) > _ROUNDS:
        raise NotStructuredError(
            f"a store under a condition on symbolic data that {count} threads may make to one place",
            feature="store under a symbolic condition", hint="check a smaller launch, or let each thread own an element",
        )  # fmt: skip
    return [np.flatnonzero(turn == number) for number in range(count)]


class PossibleAccesses:
    """The accesses of a launch under conditions on data."""

    def __init__(self, memory: Memory, log: FindingLog, instructions: Sequence[Instruction]) -> None:
        self._memory, self._log, self._instructions = memory, log, instructions
        #: by instruction that was executed under a condition: threads of the grid and their conditions, each time
        self._conditions: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
        #: by such a store: threads, formats and terms of what they store, each time; None where that is bits
        self._stored: dict[int, list[tuple[np.ndarray, tuple[Fmt, ...], np.ndarray] | None]] = {}
        #: conditions that hold together for some inputs, or for none that are known
        self._held: dict[bytes, bool] = {}
        self._left = _KEPT

    def under(self, condition: Ids, g: Group, accesses: Sequence[int], run: Callable[[], None]) -> None:
        """Run instructions, of which some access memory, for lanes with a condition each."""
        if bool(np.all(np.asarray(condition) == ALWAYS)):
            run()
            return
        threads = self._in_grid(g)
        self._left -= g.n * len(accesses)
        for pc in accesses:
            kept = self._conditions.setdefault(pc, [])
            if self._left > 0:
                kept.append((threads, np.broadcast_to(np.asarray(condition), (g.n,))))
        self._memory.kept = lambda *access: self._store(condition, *access)
        try:
            run()
        finally:
            self._memory.kept = None

    def _in_grid(self, g: Group) -> np.ndarray:
        slots, tids = np.divmod(g.threads, g.block_threads)
        return np.asarray(np.asarray(self._log.ctas)[slots] * g.block_threads + tids)

    def _store(
        self, condition: Ids, g: Group, space: str, address: "int | np.ndarray", values: list[Value], widths: tuple[int, ...],
        instruction: int,
    ) -> None:  # fmt: skip
        """A store under a condition: memory holds the values then, or what was there. Lanes that go to one place store one after another:
        those of them that do store are not known."""
        memory = self._memory
        kept, memory.kept = memory.kept, None
        if self._left > 0:
            self._stored.setdefault(instruction, []).append(self._terms(g, values, widths))
        ids = np.broadcast_to(np.asarray(condition), (g.n,))
        try:
            for where in _rounds(g, space, address):
                sub = g if len(where) == g.n else g.subset(where, ())
                at = address if isinstance(address, int) else address[where]
                new = [take(value, where) for value in values]
                memory.stored = (sub.threads, new)
                memory.store(sub, space, at, self._kept(ids[where], sub, space, at, new, widths, instruction), widths, instruction)
        finally:
            memory.kept, memory.stored = kept, None

    def _kept(
        self, condition: Ids, g: Group, space: str, address: "int | np.ndarray", values: list[Value], widths: tuple[int, ...],
        instruction: int,
    ) -> list[Value]:  # fmt: skip
        """What memory holds after a store under a condition: the values, or what was there."""
        p, arena = Sym(((PRED, condition),)), self._memory.arena
        kind = self._instructions[instruction].modifiers[-1]
        numbers = kind in FLOATS or kind[:1] in ("s", "u")
        found = []
        for new, old, width in zip(values, self._before(g, space, address, widths, instruction), widths):
            chosen = typed(arena, p, new, old, kind, width) if numbers else new
            found.append(select(arena, p, chosen, old, width, "a store under a condition on symbolic data"))
        return found

    def _before(self, g: Group, space: str, address: "int | np.ndarray", widths: tuple[int, ...], instruction: int) -> list[Value]:
        """What was there; nobody is told of a load. Raises NotStructuredError where that is not known, but for places that the store
        itself finds not to be there."""
        memory, log, order = self._memory, self._memory.log, self._memory.order
        memory.log, memory.order = FindingLog(log.launch), NoOrder()
        memory.log.ctas = log.ctas
        try:
            values = memory.load(g, space, address, widths, instruction)
            found = [each for each in memory.log.findings() if each.kind not in ("out of bounds", "misaligned")]
        finally:
            memory.log, memory.order = log, order
        if found:
            raise NotStructuredError(
                f"a store under a condition on symbolic data, which leaves what was there in other cases ({found[0].message})",
                feature="store under a symbolic condition", hint="store in both cases, or choose the value by a select",
            )  # fmt: skip
        return without_holes(values)[0]  # (lanes that fault store nothing)

    def _terms(self, g: Group, values: list[Value], widths: tuple[int, ...]) -> tuple[np.ndarray, tuple[Fmt, ...], np.ndarray] | None:
        """The threads of a group, with formats and terms of what they store; None where that is bits."""
        parts = [part for value in values if isinstance(value, Sym) for part in value.parts]
        if sum(fmt.bits for fmt, _ in parts) != sum(widths) or any(fmt.kind in ("bits", "piece", "partial") for fmt, _ in parts):
            return None
        columns = np.stack([np.broadcast_to(np.asarray(ids, np.int32), (g.n,)) for _, ids in parts])
        return self._in_grid(g), tuple(fmt for fmt, _ in parts), columns

    def judged(self, findings: Sequence[Finding]) -> list[Finding]:
        """The findings; those of which no inputs are known at which they are some are notes."""
        return [self._judged(f) for f in findings]

    def _judged(self, finding: Finding) -> Finding:
        sites = [site for site in finding.sites if site.instruction in self._conditions]
        if finding.severity is not Severity.ERROR or not sites:
            return finding
        ids = np.setdiff1d(np.concatenate([self._of(site) for site in sites]), [ALWAYS])
        if self._left > 0 and not len(ids):
            return finding  # its threads have come there for certain
        if finding.kind == "data race" and all(site.role == "store" for site in finding.sites):
            ids = np.union1d(ids, self._differences(*finding.sites)).astype(np.int32)
        if self._left > 0 and self._hold_together(ids):
            return replace(finding, message=FOR_SOME + finding.message)
        return replace(finding, severity=Severity.NOTE, message=IF + finding.message)

    def _thread(self, site: Site) -> int:
        launch = self._log.launch
        (x, y, z), (width, height, _) = site.cta, launch.grid
        return ((z * height + y) * width + x) * launch.threads + site.warp * WARP + site.lane

    def _differences(self, one: Site, other: Site) -> list[int]:
        """Conditions under which what two threads store differs, whichever of the times they do; none where that is not known in terms."""
        rows, others = (self._stored.get(site.instruction, [None]) for site in (one, other))
        found: list[int] = []
        for row, against in itertools.product(rows, others):
            if row is None or against is None:
                return []
            (left, fmts, values), (right, formats, theirs) = row, against
            mine, its = np.flatnonzero(left == self._thread(one)), np.flatnonzero(right == self._thread(other))
            if not len(mine) or not len(its):
                continue
            if [fmt.bits for fmt in fmts] != [fmt.bits for fmt in formats] or len(found) == _PAIRS:
                return []
            arena = self._memory.arena
            differ: Ids = NEVER
            for a, b in zip(values[:, mine[0]].tolist(), theirs[:, its[0]].tolist()):
                differ = arena.logic(Op.OR, differ, compare_terms(arena, "ne", a, b))
            if differ != NEVER:  # (else it is not these times that are unordered and differ)
                found.append(int(differ))
        return found

    def _of(self, site: Site) -> np.ndarray:
        """All conditions under which a thread came to an instruction."""
        thread = self._thread(site)
        found = [ids[threads == thread] for threads, ids in self._conditions[site.instruction]]
        return np.concatenate([np.zeros(0, np.int32), *found])

    def _hold_together(self, conditions: np.ndarray) -> bool:
        """Whether some conditions, ascending, hold for some inputs, as far as is known."""
        known = conditions.tobytes()
        if known not in self._held:
            self._held[known] = self._hold(conditions)
        return self._held[known]

    def _hold(self, conditions: np.ndarray) -> bool:
        """Whether some conditions hold at one of a few points, between bounds that are rounded outwards."""
        arena = self._memory.arena
        cone = Cone(arena, conditions)
        if len(cone.nodes) > _NODES:
            return False
        inputs = np.array(cone.inputs, np.int32)
        order = plan(arena, conditions)
        tried = 0
        for seed in range(_SEEDS):
            drawn = random_inputs(arena, seed=seed)
            values = Reals(arena, conditions, drawn, order=order).of(conditions)
            for point in np.flatnonzero((values == 1).all(axis=0)).tolist()[: _TRIED - tried]:
                tried += 1
                at = {ident: mpq(value) for ident, value in zip(cone.inputs, drawn(inputs)[:, point].tolist())} if cone.inputs else {}
                sure = Enclosure(cone, at, _BITS)
                if all(sure[ident] == 1 for ident in conditions.tolist()):
                    return True
        return False


def possible_reasons(findings: Sequence[Finding]) -> list[str]:
    """Why nothing is proved, of findings that are only if the data choose so."""
    found: dict[str, None] = {}
    for finding in findings:
        if finding.message.startswith(IF):
            lines = ptx_lines(site.ptx_line for site in finding.sites)
            found[f"{finding.kind}: whether it happens hangs on data that choose what is accessed ({lines})"] = None
    return list(found)
