"""The walk behind ``levels``: Kahn's algorithm over columns, from the outputs down.

A node is released when all its users are. In WHOLE mode a dot record is one unit, records that only feed each other's
accumulators are one product, and fragments of a tile are put together; in CONE mode records are split into live nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from ptx_engine.decide.steps import ALL_PARTS, ID_SLOTS, LEVELS, RAISING, RECORDS, USED_SLOTS, Mode, Step
from ptx_engine.decide.tiles import joined
from ptx_engine.terms.arena import CONST_CAP, Arena, DotRecord
from ptx_engine.terms.ops import TABLE, Op

#: nodes, or operands, whose uses are counted together: what that takes stays in the cache
_PIECE = 1 << 18
_USERS = np.zeros((3, 256), bool)
for _op, _slots in ID_SLOTS.items():
    _USERS[:, _op] = _slots
_RECORDS = np.zeros(256, bool)
_RECORDS[list(RECORDS)] = True


def raised(need: np.ndarray) -> np.ndarray:
    """The mask for the argument of an exponential; at the top level the argument is hashed at its own level."""
    top = 1 << (LEVELS - 1)
    return ((need << 1) & ALL_PARTS) | (need & top)


def mark(table: np.ndarray, need: np.ndarray, operands: np.ndarray) -> None:
    """Mark operands (ids of any shape, one row for each of ``need``) as needed in a table of masks by id."""
    low, high = int(need.min()), int(need.max())
    if low == high:
        known = table.take(operands)
        if not (known & np.uint8(low) == low).all():
            table[operands] = known | np.uint8(low)
        return
    for level in range(LEVELS):
        chosen = operands[(need >> level & 1) != 0]
        table[chosen] |= np.uint8(1 << level)


def accumulated(arena: Arena, record: DotRecord) -> int | None:
    """The number of the record whose nodes are exactly the accumulators of another, in order."""
    op, a, _, _ = arena.columns()
    first = int(record.acc.flat[0]) if record.acc.size else 0
    if first < CONST_CAP or op[first] != Op.DOT:
        return None
    number = int(a[first])
    inner = arena.dots[number]
    if inner.first != first or inner.acc.shape != record.acc.shape:
        return None
    return number if np.array_equal(record.acc.ravel(), np.arange(first, first + inner.acc.size)) else None


class Sweep:
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
        """Counts over the whole arena, piece by piece; operand slots that hold plain ints are masked by operator."""
        for start in range(CONST_CAP, self.size, _PIECE):
            piece = slice(start, min(start + _PIECE, self.size))
            op = self.op[piece]
            present = np.flatnonzero(np.bincount(op, minlength=len(TABLE)))
            for slot, column in enumerate((self.a, self.b, self.c)):
                users = [code for code in present.tolist() if ID_SLOTS[Op(code)][slot]]
                if users:
                    self._add_uses(column[piece] if len(users) == len(present) else column[piece][_USERS[slot][op]])
        operands = [part for r in self.arena.dots for part in (r.rows, r.cols, r.acc)] + [r.operands for r in self.arena.naries]
        for batch in _batched([x for x in operands if _has_nodes(x)], _PIECE):
            self._add_uses(batch)
        self.left = {Op.DOT: np.array([r.acc.size for r in self.arena.dots], np.int64)}
        lengths = np.array([len(r.operands) for r in self.arena.naries], np.int64)
        self.left.update(dict.fromkeys((Op.NSUM, Op.NMAX, Op.NMIN), lengths))

    def _add_uses(self, ids: np.ndarray) -> None:
        if not ids.size:
            return
        low, high = int(ids.min()), int(ids.max()) + 1
        if high <= CONST_CAP:
            return
        found = ids if low >= CONST_CAP else ids[ids >= CONST_CAP]
        low = low if low >= CONST_CAP else int(found.min())
        if high - low > 8 * found.size:  # scattered: do not sweep the span
            unique, counts = _counted(found)
            self.uses[unique] += counts
        else:
            self.uses[low:high] += np.bincount(found - np.int32(low), minlength=high - low).astype(np.int32)

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

    def reaches(self, ids: np.ndarray, ops: tuple[Op, ...]) -> bool:
        """Whether any of some operators stands at or below ``ids``."""
        wanted = np.zeros(256, bool)
        wanted[list(ops)] = True
        seen = np.zeros(self.size, bool)
        frontier = np.unique(ids[ids >= CONST_CAP])
        while frontier.size:
            seen[frontier] = True
            codes = self.op[frontier]
            if wanted[codes].any():
                return True
            targets = [column[frontier[_USERS[slot][codes]]] for slot, column in enumerate((self.a, self.b, self.c))]
            if _RECORDS[codes].any():
                targets += [x.ravel() for step in self._steps_of(frontier[_RECORDS[codes]]) for x in step.operand_ids()]
            below = np.concatenate(targets)
            below = below[below >= CONST_CAP]
            below = below[~seen[below]]
            below.sort()
            frontier = below[np.flatnonzero(np.diff(below, prepend=-1))]
        return False

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
                targets += [x[x >= CONST_CAP] for x in step.operand_ids() if _has_nodes(x)]
                live = step.restricted(ALL_PARTS)
                if live is not None:
                    joint = tiled(live)  # after the line above: joined operands hide how often an id is used
                    self._pass_need(joint)
                    steps.append(joint)
            if not targets:
                break
            unique, counts = _counted(np.concatenate(targets))
            rest = self.uses[unique] - counts
            self.uses[unique] = rest
            frontier = unique[rest == 0]
        return steps

    def _pass_need(self, step: Step) -> None:
        need = raised(step.need) if step.op in RAISING else step.need
        for operands in step.operand_ids():
            mark(self.need, need, operands)

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
            elif op in RECORDS:
                steps += self._record_steps(op, ids)
            else:
                steps.append(self._plain_step(op, ids))
        return steps

    def _plain_step(self, op: Op, ids: np.ndarray) -> Step:
        columns = [column[ids] if keep else None for column, keep in zip((self.a, self.b, self.c), USED_SLOTS[op])]
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
        return merged(parts)

    def _unit(self, op: Op, number: int) -> Step:
        """A record as a whole; each of its G products (or rows) is needed as far as any of its nodes is."""
        if op is Op.DOT:
            record = self.arena.dots[number]
            groups = len(record.acc)
            span = np.arange(record.first, record.first + record.acc.size, dtype=np.int32)
            ids: np.ndarray = span.reshape(record.acc.shape)
            need = np.bitwise_or.reduce(self.need[ids].reshape(groups, -1), axis=1)
            return Step(op, ids, need, **self._chain(record))
        nary = self.arena.naries[number]
        ids = np.arange(nary.first, nary.first + len(nary.operands), dtype=np.int32)
        return Step(op, ids, self.need[ids], operands=nary.operands)

    def _chain(self, record: DotRecord) -> dict[str, np.ndarray]:
        """Operands of a record joined with those of the records that only feed its accumulator: a K loop is one product.

        The inner nodes of such a chain get no value of their own.
        """
        rows, cols = [record.rows], [record.cols]
        while True:
            inner = self._feeding(record)
            if inner is None:
                break
            record = inner
            rows.append(record.rows)
            cols.append(record.cols)
        if len(rows) == 1:
            return {"c": record.acc, "rows": rows[0], "cols": cols[0]}
        return {"c": record.acc, "rows": np.concatenate(rows[::-1], axis=2), "cols": np.concatenate(cols[::-1], axis=2)}

    def _feeding(self, record: DotRecord) -> DotRecord | None:
        """The record that this one accumulates on, if it is used nowhere else."""
        number = accumulated(self.arena, record)
        if number is None:
            return None
        inner = self.arena.dots[number]
        span = slice(inner.first, inner.first + inner.acc.size)
        return inner if (self.uses[span] == 1).all() and not self.need[span].any() else None

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


def _has_nodes(ids: np.ndarray) -> bool:
    """Whether any id is a node (rather than an input or a constant)."""
    return ids.size > 0 and int(ids.max()) >= CONST_CAP


def _batched(arrays: list[np.ndarray], size: int) -> Iterator[np.ndarray]:
    """Arrays flattened and joined into pieces of about ``size`` elements."""
    pending: list[np.ndarray] = []
    total = 0
    for array in arrays:
        pending.append(array.ravel())
        total += array.size
        if total >= size:
            yield np.concatenate(pending)
            pending, total = [], 0
    if pending:
        yield np.concatenate(pending)


def _counted(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct ids, ascending, and how often each stands."""
    if not ids.size:
        return ids, ids
    low = int(ids.min())
    if int(ids.max()) - low < 4 * ids.size:
        all_counts = np.bincount(ids - np.int32(low))
        distinct = np.flatnonzero(all_counts)
        return (distinct + low).astype(np.int32), all_counts[distinct].astype(np.int32)
    ids = np.sort(ids)
    starts = np.flatnonzero(np.concatenate((np.ones(1, bool), ids[1:] != ids[:-1])))
    return ids[starts], np.diff(starts, append=len(ids)).astype(np.int32)


def merged(parts: list[Step]) -> list[Step]:
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
        columns = [None if column[0] is None else np.concatenate(column) for column in zip(*fields)]
        merged.append(Step(members[0].op, *columns))  # type: ignore[arg-type]
    return merged


def tiled(step: Step) -> Step:
    """Fragments of products put together where they form larger ones."""
    if step.rows is None or step.cols is None or step.c is None or len(step.ids) < 2:
        return step
    ids, rows, cols, acc, index = joined(step.ids, step.rows, step.cols, step.c)
    return Step(step.op, ids, np.bitwise_or.reduce(step.need[index], axis=1), c=acc, rows=rows, cols=cols)
