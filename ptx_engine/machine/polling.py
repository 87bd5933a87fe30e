"""Loops that wait for memory: which backward branches poll, and on which values control depends.

A loop polls if it loads by a strong load or an atomic, or tests an mbarrier, and has no other effect. If no register is carried from one
turn to the next, a turn that sees the same memory does the same: such a loop looks again only after a store (STRICT); so does one that
looks by plain loads, or no more (the compiler has moved the load out). Else it lets others run first (LOOSE), and
is as good as strict once it carries the same values again; unless a clock may end it, or that others leave it (TIMED). A loop also goes on
where lanes of its warp wait for it to meet them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from operator import is_
from typing import TYPE_CHECKING

import numpy as np

from ptx_engine.isa.values import Sym, Value
from ptx_engine.machine.influence import is_strong, is_wait
from ptx_engine.syntax.ast import Instruction, IntLit, Reg, Vec

if TYPE_CHECKING:
    from ptx_engine.isa.group import Group
    from ptx_engine.machine.program import Block, Program, Terminator
    from ptx_engine.machine.warp_syncs import Standing, WarpSyncs


class Poll(Enum):
    """What a backward branch does with the group that takes it."""

    NO = "no"
    STRICT = "strict"
    LOOSE = "loose"
    TIMED = "timed"


@dataclass(eq=False)
class Polling:
    """A group at the end of a turn of a loop that waits for memory: where the loop begins, and the writes seen when it looked. ``blind``:
    it loads nothing."""

    group: Group
    pc: int
    target: int
    strict: bool
    writes: int
    on_mbarrier: bool
    blind: bool


class Pollers:
    """The groups of a batch that wait for memory. ``failed`` is told of threads that have looked in vain."""

    def __init__(self, failed: Callable[[np.ndarray], None] | None = None) -> None:
        self._failed = failed
        self.waiting: list[Polling] = []
        self._looked_at = -1
        #: those who stood at warp syncs when loops went on for their sake last
        self._stood: list[Standing] = []
        #: by branch and number of columns: what each thread carried at the end of its last turn, and the writes that there were then
        self._carried: dict[tuple[int, int], np.ndarray] = {}

    def add(self, group: Group, end: Terminator, writes: int) -> None:
        """A group has come to the end of a turn."""
        if self._failed is not None:
            self._failed(group.threads)
        strict = end.poll is Poll.STRICT or (end.poll is Poll.LOOSE and self._repeats(group, end, writes))
        self.waiting.append(Polling(group, end.pc, end.targets[0], strict, writes, end.waits, end.blind))

    def _repeats(self, group: Group, end: Terminator, writes: int) -> bool:
        """Whether all threads of a group carry what they carried a turn ago, while nothing was written."""
        columns = [c for r in end.carried for c in integer_columns(group.R[r])]
        now = np.empty((len(columns) + 1, group.n), np.int64)
        now[0] = writes
        for row, column in enumerate(columns):
            now[row + 1] = column
        last = int(group.threads[-1]) + 1
        known = self._carried.get((end.pc, len(columns)))
        if known is None or known.shape[1] < last:
            grown = np.full((len(columns) + 1, last), -1, np.int64)
            if known is not None:
                grown[:, : known.shape[1]] = known
            known = self._carried[end.pc, len(columns)] = grown
        same = bool((known[:, group.threads] == now).all())
        known[:, group.threads] = now
        return same

    def due(self, writes: int) -> list[Polling]:
        """Those that something was stored for since they looked, taken out."""
        if not self.waiting:
            return []
        found = [p for p in self.waiting if p.writes != writes]
        self.waiting = [p for p in self.waiting if p.writes == writes]
        return found

    def ready(self, writes: int) -> list[Polling]:
        """Those that may look again, taken out: something was stored since they did, or all of them once more after the last store
        (one may have looked before it); none for a deadlock."""
        found = [p for p in self.waiting if not p.strict or p.writes != writes]
        if not found and writes != self._looked_at:
            self._looked_at, found = writes, list(self.waiting)
        self.waiting = [p for p in self.waiting if p not in found]
        return found

    def awaited(self, syncs: WarpSyncs) -> list[Polling]:
        """Those, taken out, that lanes of their warp wait for: one turn more may meet these, though nothing was stored. None where the last
        such turn has met nobody."""
        if not self.waiting or (len(syncs.waiting) == len(self._stood) and all(map(is_, syncs.waiting, self._stood))):
            return []
        self._stood = list(syncs.waiting)
        missing = syncs.awaited()
        found = [p for p in self.waiting if np.isin(p.group.threads, missing).any()]
        self.waiting = [p for p in self.waiting if p not in found]
        return found


def integer_columns(value: Value) -> list[np.ndarray]:
    """Numbers that are equal where a register's value is: its bits, or the ids of its parts."""
    if isinstance(value, Sym):
        return [np.asarray(ids, np.int64) for _, ids in value.parts]
    return [np.asarray(-1 if value is None else value).astype(np.int64)]


#: instructions with an effect beyond registers
_EFFECTS = frozenset(["st", "red", "cp", "bar", "barrier", "stmatrix", "ret", "exit", "trap", "brx", "wmma", "bulk", "mbarrier"])


def is_strong_load(instruction: Instruction) -> bool:
    """A load that may see another thread's store without a barrier, or a test of an mbarrier."""
    return is_strong(instruction) or is_wait(instruction)


@dataclass
class Flow:
    """Register-file slots that one step reads and writes."""

    reads: frozenset[int]
    writes: frozenset[int]


#: stands for shared memory among the slots: the last CTA of a grid tells its threads by a flag there
SHARED_MEMORY = -1


def flow_of(instruction: Instruction, reads: set[int], writes: set[int]) -> Flow:
    """The flow of one instruction; generic accesses may be to shared memory."""
    spaces = {m.split("::")[0] for m in instruction.modifiers}
    if spaces.isdisjoint(("global", "local", "const", "param")):
        reads = reads | {SHARED_MEMORY} if instruction.opcode in ("ld", "atom") else reads
        writes = writes | {SHARED_MEMORY} if instruction.opcode in ("st", "atom") else writes
    return Flow(frozenset(reads), frozenset(writes))


def control_slots(roots: set[int], flows: list[Flow]) -> set[int]:
    """Registers that branch or guard predicates are computed from, whatever the order of instructions."""
    found = set(roots)
    changed = True
    while changed:
        changed = False
        for flow in flows:
            if not found.isdisjoint(flow.writes) and not flow.reads <= found:
                found |= flow.reads
                changed = True
    return found


def mark_polling(program: Program, looks: bool) -> set[int]:
    """Set ``end.poll`` of polling branches; the strong loads of strict loops whose value is not used after the loop. ``looks``: whether
    there are strong loads at all."""
    polled: set[int] = set()
    for block in program.blocks.values():
        if block.end.kind != "branch" or (header := block.end.targets[0]) > block.start:
            continue
        carries = not (block.defines | block.guarded).isdisjoint(program.blocks[header].live)
        if looks or not carries:  # a loop of plain loads that carries something is not looked at any further: most are of that kind
            polled |= _mark(program, block)
    return polled


def _mark(program: Program, last: Block) -> set[int]:
    loop = program.analysis.turns(last.end.targets[0], last.start, _has_effect)
    if loop is None:
        return set()
    region = [program.blocks[start] for start in sorted(loop.blocks)]
    instructions = [(pc, program.flat.instructions[pc]) for b in region for pc in range(b.start, b.start + b.size)]
    loads = {pc for pc, i in instructions if is_strong_load(i)}
    if any(_has_effect(i) for _, i in instructions):
        return set()
    defined = set().union(*(b.defines | b.guarded for b in region))
    carried = tuple(sorted(defined & set(program.blocks[loop.header].live)))
    if not loads:
        last.end.blind = all(i.opcode == "bra" for _, i in instructions)
        spins = last.end.blind or any(i.opcode == "ld" for _, i in instructions)
        if spins and not carried and not program.analysis.timed(loop):
            last.end.poll = Poll.STRICT
        return set()
    last.end.carried = carried
    last.end.waits = program.analysis.waits(loop)
    program.polling |= loads
    last.end.poll = Poll.TIMED if program.analysis.timed(loop) else Poll.LOOSE if last.end.carried else Poll.STRICT
    if last.end.poll is not Poll.STRICT:
        return set()
    after: set[int] = set()
    for b in region:
        for target in b.end.targets:
            if target not in loop.blocks and target in program.blocks:
                after.update(program.blocks[target].live)
    return {pc for pc in loads if _only_looks(program.flat.instructions[pc]) and after.isdisjoint(_targets(program, pc))}


def _only_looks(instruction: Instruction) -> bool:
    """A load, or an atomic that leaves what it finds: the addition of zero."""
    leaves = instruction.opcode == "atom" and not {"add", "or", "xor"}.isdisjoint(instruction.modifiers)
    return instruction.opcode == "ld" or (leaves and isinstance(zero := instruction.operands[2], IntLit) and zero.value == 0)


def _has_effect(instruction: Instruction) -> bool:
    return instruction.opcode in _EFFECTS and instruction.modifiers[:1] != ("warp",) and not is_wait(instruction)


def _targets(program: Program, pc: int) -> set[int]:
    operand = program.flat.instructions[pc].operands[0]
    elements = operand.elements if isinstance(operand, Vec) else (operand,)
    return {program.register(e.name) for e in elements if isinstance(e, Reg)}
