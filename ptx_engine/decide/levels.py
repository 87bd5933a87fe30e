"""Traversal shared by every evaluator: the terms below some outputs, in batches whose operands are all in later batches.

Nodes are released from the outputs downwards (Kahn's algorithm over columns): a node joins a batch when all its users
are in earlier ones, so the number of batches is the depth of the terms, not their number. Each node carries a mask of
the parts it is needed in: bit 0 is the value itself; the argument of an exponential is needed one level up (its part in
the field of exponents), see ``fingerprint``. Evaluation runs over the batches backwards.

Two modes. ``WHOLE`` also walks what no output uses, and takes a dot record as one unit (matrix products). ``CONE`` walks
only what the outputs use and splits records into their live nodes: for a few outputs of a large arena.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

import numpy as np

from ptx_engine.terms.arena import CONST_CAP, Arena
from ptx_engine.terms.ops import TABLE, Op

#: parts that exist: the value, its exponent part, the exponent part of that
LEVELS = 3
_ALL_PARTS = (1 << LEVELS) - 1

#: operators whose value at one level is made from their argument's value at the next
RAISING = frozenset((Op.EXP2, Op.TANH))

_ID_SLOTS: dict[Op, tuple[bool, bool, bool]] = {
    op: tuple(slot < row.arity and "abc"[slot] not in row.plain for slot in range(3))  # type: ignore[misc]
    for op, row in TABLE.items()
}
_RECORDS = frozenset(op for op, row in TABLE.items() if row.record)


class Mode(Enum):
    """WHOLE: every node of the arena, records as units. CONE: only nodes below the outputs, records node by node."""

    WHOLE = "whole"
    CONE = "cone"


@dataclass(slots=True)
class Step:
    """Nodes of one operator that can be evaluated at once. ``need`` holds the part mask of each node.

    ``a``, ``b``, ``c`` hold operand ids or plain ints as the operator's row says. Records carry ``rows`` (n,M,K), ``cols``
    (n,N,K), ``acc`` (n,M,N) with ``ids`` (n,M,N), or ``operands`` (n,L) with ``ids`` (n,); ``need`` is per ``n``.
    """

    op: Op
    ids: np.ndarray
    need: np.ndarray
    a: np.ndarray | None = None
    b: np.ndarray | None = None
    c: np.ndarray | None = None
    rows: np.ndarray | None = None
    cols: np.ndarray | None = None
    operands: np.ndarray | None = None

    def restricted(self, bit: int) -> Step | None:
        """The part of this step that is needed at a level (itself if all of it is)."""
        wanted = (self.need & bit) != 0
        if wanted.all():
            return self
        if not wanted.any():
            return None
        return self.pick(np.flatnonzero(wanted))

    def pick(self, chosen: "np.ndarray | slice") -> Step:
        """The step over a selection of its first axis."""
        parts = (self.ids, self.need, self.a, self.b, self.c, self.rows, self.cols, self.operands)
        return Step(self.op, *(None if x is None else x[chosen] for x in parts))  # type: ignore[arg-type]

    def operand_ids(self) -> list[np.ndarray]:
        """All arrays of operand ids (plain slots left out)."""
        slots = _ID_SLOTS[self.op]
        found = [x for x, used in zip((self.a, self.b, self.c), slots) if used and x is not None]
        if self.rows is not None and self.cols is not None and self.c is not None:
            found += [self.rows, self.cols, self.c]
        if self.operands is not None:
            found.append(self.operands)
        return found


@dataclass
class Plan:
    """Batches, outputs first; ``need[id]`` is a part mask, with input ids (negative) at the end of the array."""

    arena: Arena
    size: int
    steps: list[Step]
    need: np.ndarray

    def upward(self, level: int) -> Iterator[Step]:
        """Steps in evaluation order (operands first), restricted to the nodes needed at a level."""
        bit = 1 << level
        for step in reversed(self.steps):
            part = step.restricted(bit)
            if part is not None:
                yield part

    def inputs(self, level: int = -1) -> np.ndarray:
        """Ids of the inputs that are needed at a level (any level if negative), ascending by storage index."""
        mask = _ALL_PARTS if level < 0 else 1 << level
        flat = len(self.need) - 1 - np.flatnonzero(self.need[self.size :] & mask) - self.size
        return np.sort(-1 - flat)[::-1].astype(np.int32)

    def constants(self, level: int = -1) -> np.ndarray:
        """Ids of the interned constants that are needed at a level (any level if negative)."""
        mask = _ALL_PARTS if level < 0 else 1 << level
        return np.flatnonzero(self.need[:CONST_CAP] & mask).astype(np.int32)

    @property
    def levels(self) -> list[int]:
        """The levels at which anything is needed, highest first."""
        present = int(np.bitwise_or.reduce(self.need)) if len(self.need) else 0
        return [level for level in reversed(range(LEVELS)) if present >> level & 1]


def raised(need: np.ndarray) -> np.ndarray:
    """The mask for the argument of an exponential; at the top level the argument is hashed at its own level."""
    top = 1 << (LEVELS - 1)
    return ((need << 1) & _ALL_PARTS) | (need & top)


def plan(arena: Arena, outputs: np.ndarray, mode: Mode | None = None) -> Plan:
    """Order the terms below ``outputs`` (ids, any shape). Without a mode: CONE for few outputs of a large arena."""
    outputs = np.unique(np.asarray(outputs, np.int32))
    if mode is None:
        mode = Mode.CONE if len(outputs) < 256 and len(arena) - CONST_CAP > 1 << 17 else Mode.WHOLE
    sweep = _Sweep(arena, mode)
    sweep.need[outputs] = 1
    nodes = outputs[outputs >= CONST_CAP]
    sweep.count_uses(nodes)
    steps = sweep.release_all(nodes)
    return Plan(arena, sweep.size, steps, sweep.need)


class _Sweep:
    """State of one walk: use counts, part masks, unfinished records."""

    def __init__(self, arena: Arena, mode: Mode) -> None:
        self.arena, self.mode = arena, mode
        self.op, self.a, self.b, self.c = arena.columns()
        self.size = len(self.op)
        inputs = sum(entry.count for entry in arena.inputs)
        self.need = np.zeros(self.size + inputs, np.uint8)
        self.uses = np.zeros(self.size, np.int32)
        self.left = {Op.DOT: np.zeros(0, np.int64)}

    # --- use counts -----------------------------------------------------------------------------

    def count_uses(self, outputs: np.ndarray) -> None:
        if self.mode is Mode.CONE:
            self._count_cone(outputs)
        else:
            self._count_whole()

    def _count_whole(self) -> None:
        """Counts over the whole arena at once; operand slots that hold plain ints are masked by operator."""
        tail = slice(CONST_CAP, self.size)
        op = self.op[tail]
        present = np.flatnonzero(np.bincount(op, minlength=len(TABLE)))
        for slot, column in enumerate((self.a, self.b, self.c)):
            users = [Op(int(code)) for code in present if _ID_SLOTS[Op(int(code))][slot]]
            if not users:
                continue
            part = column[tail]
            if len(users) < len(present):
                table = np.zeros(256, bool)
                table[users] = True
                part = part[table[op]]
            self._add_uses(part)
        for record in self.arena.dots:
            for part in (record.rows, record.cols, record.acc):
                self._add_uses(part)
        for nary in self.arena.naries:
            self._add_uses(nary.operands)
        self.left = {Op.DOT: np.array([r.acc.size for r in self.arena.dots], np.int64)}
        lengths = np.array([len(r.operands) for r in self.arena.naries], np.int64)
        self.left.update(dict.fromkeys((Op.NSUM, Op.NMAX, Op.NMIN), lengths))

    def _add_uses(self, ids: np.ndarray) -> None:
        found = ids[ids >= CONST_CAP]
        if found.size:
            low, high = int(found.min()), int(found.max()) + 1
            if high - low > 8 * found.size:  # scattered: do not sweep the span
                unique, counts = _counted(found)
                self.uses[unique] += counts
            else:
                self.uses[low:high] += np.bincount(found - low, minlength=high - low).astype(np.int32)

    def _count_cone(self, outputs: np.ndarray) -> None:
        seen = np.zeros(self.size, bool)
        seen[outputs] = True
        frontier = outputs
        while frontier.size:
            targets = [x[x >= CONST_CAP] for step in self._steps_of(frontier) for x in step.operand_ids()]
            unique, counts = _counted(np.concatenate(targets) if targets else np.zeros(0, np.int32))
            self.uses[unique] += counts
            frontier = unique[~seen[unique]]
            seen[frontier] = True

    # --- release --------------------------------------------------------------------------------

    def release_all(self, outputs: np.ndarray) -> list[Step]:
        """Batches from the outputs down."""
        steps: list[Step] = []
        if self.mode is Mode.CONE:
            frontier = outputs[self.uses[outputs] == 0]
        else:
            frontier = (np.flatnonzero(self.uses[CONST_CAP:] == 0) + CONST_CAP).astype(np.int32)
        while frontier.size:
            targets: list[np.ndarray] = []
            for step in self._steps_of(frontier):
                self._pass_need(step)
                targets += [x[x >= CONST_CAP] for x in step.operand_ids()]
                if step.need.any():
                    steps.append(step)
            if not targets:
                break
            unique, counts = _counted(np.concatenate(targets))
            rest = self.uses[unique] - counts
            self.uses[unique] = rest
            frontier = unique[rest == 0]
        return steps

    def _pass_need(self, step: Step) -> None:
        need = raised(step.need) if step.op in RAISING else step.need
        low, high = int(need.min()), int(need.max())
        if high == 0:
            return
        for operands in step.operand_ids():
            if low == high:
                self.need[operands] |= np.uint8(low)
                continue
            for level in range(LEVELS):
                chosen = operands[(need >> level & 1) != 0]
                self.need[chosen] |= np.uint8(1 << level)

    # --- nodes to steps -------------------------------------------------------------------------

    def _steps_of(self, frontier: np.ndarray) -> list[Step]:
        """The frontier as steps, one per operator and (for records) operand shape."""
        ops = self.op[frontier]
        if len(frontier) > 1 and (ops != ops[0]).any():
            order = np.argsort(ops, kind="stable")
            frontier, ops = frontier[order], ops[order]
            cuts = [0, *(np.flatnonzero(ops[1:] != ops[:-1]) + 1).tolist(), len(ops)]
        else:
            cuts = [0, len(ops)]
        steps: list[Step] = []
        for start, stop in pairwise(cuts):
            op, ids = Op(int(ops[start])), frontier[start:stop]
            if op is Op.CONST:
                steps.append(Step(op, ids, self.need[ids], self.a[ids]))
            elif op in _RECORDS:
                steps += self._record_steps(op, ids)
            else:
                steps.append(self._plain_step(op, ids))
        return steps

    def _plain_step(self, op: Op, ids: np.ndarray) -> Step:
        row = TABLE[op]
        used = [slot < row.arity or "abc"[slot] in row.plain for slot in range(3)]
        columns = [column[ids] if keep else None for column, keep in zip((self.a, self.b, self.c), used)]
        return Step(op, ids, self.need[ids], *columns)

    def _record_steps(self, op: Op, ids: np.ndarray) -> list[Step]:
        numbers, counts = np.unique(self.a[ids], return_counts=True)
        if self.mode is Mode.CONE:
            owners = self.a[ids]
            parts = [self._live_nodes(op, int(number), ids[owners == number]) for number in numbers]
        else:
            left = self.left[op]
            left[numbers] -= counts
            parts = [self._unit(op, int(number)) for number in numbers[left[numbers] == 0]]
        return _merged(parts)

    def _unit(self, op: Op, number: int) -> Step:
        """A record as a whole; each of its G products (or rows) is needed as far as any of its nodes is."""
        if op is Op.DOT:
            record = self.arena.dots[number]
            groups = len(record.acc)
            ids = np.arange(record.first, record.first + record.acc.size, dtype=np.int32).reshape(record.acc.shape)
            need = np.bitwise_or.reduce(self.need[ids].reshape(groups, -1), axis=1)
            return Step(op, ids, need, c=record.acc, rows=record.rows, cols=record.cols)
        nary = self.arena.naries[number]
        ids = np.arange(nary.first, nary.first + len(nary.operands), dtype=np.int32)
        return Step(op, ids, self.need[ids], operands=nary.operands)

    def _live_nodes(self, op: Op, number: int, ids: np.ndarray) -> Step:
        """The given nodes of a record, each as its own product."""
        if op is Op.DOT:
            record = self.arena.dots[number]
            _, m_count, n_count = record.acc.shape
            group, rest = np.divmod(ids.astype(np.int64) - record.first, m_count * n_count)
            m, n = np.divmod(rest, n_count)
            acc = record.acc[group, m, n]
            return Step(
                op, ids[:, None, None], self.need[ids], c=acc[:, None, None],
                rows=record.rows[group, m][:, None], cols=record.cols[group, n][:, None],
            )  # fmt: skip
        nary = self.arena.naries[number]
        return Step(op, ids, self.need[ids], operands=nary.operands[ids - nary.first])


def _counted(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct ids, ascending, and how often each stands."""
    if not ids.size:
        return ids, ids
    ids = np.sort(ids)
    starts = np.flatnonzero(np.concatenate((np.ones(1, bool), ids[1:] != ids[:-1])))
    return ids[starts], np.diff(starts, append=len(ids)).astype(np.int32)


def _merged(parts: list[Step]) -> list[Step]:
    """Record steps of equal operand shapes joined along their first axis: tensor-core fragments come in hundreds."""
    groups: dict[tuple[object, ...], list[Step]] = {}
    for part in parts:
        shapes = tuple(None if x is None else x.shape[1:] for x in (part.rows, part.cols, part.operands))
        groups.setdefault((part.op, *shapes), []).append(part)
    merged: list[Step] = []
    for members in groups.values():
        if len(members) == 1:
            merged.append(members[0])
            continue
        fields = [(m.ids, m.need, m.a, m.b, m.c, m.rows, m.cols, m.operands) for m in members]
        joined = [None if column[0] is None else np.concatenate(column) for column in zip(*fields)]
        merged.append(Step(members[0].op, *joined))  # type: ignore[arg-type]
    return merged
