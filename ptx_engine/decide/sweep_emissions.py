"""The walk behind ``levels`` where much is emitted at once: emission by emission, from the last one down.

Nodes of one emission do not depend on each other and all their users come later, so that no uses need to be counted. Records
that only feed each other's accumulators are one product: a record waits for the one that it accumulates on, and if nobody
else has needed that by then, it is taken in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ptx_engine.decide.steps import ALL_PARTS, ID_SLOTS, RAISING, RECORDS, USED_SLOTS, Step
from ptx_engine.decide.sweep import accumulated, mark, merged, raised, tiled
from ptx_engine.terms.arena import Arena, DotRecord
from ptx_engine.terms.ops import Op

#: nodes for each emission from which on this walk is the faster one
DENSE = 256


@dataclass
class _Product:
    """A record, and those that it accumulates on, as one product; ``acc`` is known once the last of them is."""

    ids: np.ndarray
    need: np.ndarray
    rows: list[np.ndarray] = field(default_factory=list)
    cols: list[np.ndarray] = field(default_factory=list)
    acc: np.ndarray | None = None

    def step(self) -> Step:
        rows, cols = (x[0] if len(x) == 1 else np.concatenate(x[::-1], axis=2) for x in (self.rows, self.cols))
        return Step(Op.DOT, self.ids, self.need, c=self.acc, rows=rows, cols=cols)


class EmissionSweep:
    """State of one walk: part masks (by id, inputs at the end), steps and products from the outputs down."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.op, self.a, self.b, self.c = arena.columns()
        self.need = np.zeros(len(self.op) + sum(entry.count for entry in arena.inputs), np.uint8)
        self._bounds = np.array([*arena.emissions, len(self.op)], np.int64)
        self._found: list[list[Step] | list[_Product]] = []
        self._waiting: dict[int, _Product] = {}

    def release_all(self, outputs: np.ndarray) -> list[Step]:
        """Batches from the outputs down, which are marked in ``need``."""
        if not len(outputs):
            return []
        last = int(np.searchsorted(self._bounds, outputs.max(), side="right")) - 1
        while last >= 0:
            op = Op(int(self.op[self._bounds[last]]))
            first = self._independent(op, last)
            if op is Op.DOT:
                self._products(first, last)
            elif op in RECORDS:
                self._reductions(op, first, last)
            else:
                self._plain(op, int(self._bounds[first]), int(self._bounds[last + 1]))
            last = first - 1
        return [step for found in self._found for step in self._steps(found)]

    def _steps(self, found: list[Step] | list[_Product]) -> list[Step]:
        parts = [(x.step() if isinstance(x, _Product) else x).restricted(ALL_PARTS) for x in found]
        return [tiled(step) for step in merged([part for part in parts if part is not None])]

    def _independent(self, op: Op, last: int) -> int:
        """The first of the emissions of one operator up to ``last`` that do not depend on each other."""
        first, bounds, highest = last, self._bounds, -1
        while first and self.op[bounds[first - 1]] == op:
            highest = max(highest, *(int(x.max(initial=-1)) for x in self._operands(op, first)))
            if highest >= bounds[first - 1]:
                break
            first -= 1
        return first

    def _operands(self, op: Op, emission: int) -> list[np.ndarray]:
        """All arrays of operand ids of an emission."""
        start, stop = self._bounds[emission], self._bounds[emission + 1]
        if op is Op.DOT:
            record = self.arena.dots[int(self.a[start])]
            return [record.rows, record.cols, record.acc]
        if op in RECORDS:
            return [self.arena.naries[int(self.a[start])].operands]
        return [column[start:stop] for column, used in zip((self.a, self.b, self.c), ID_SLOTS[op]) if used] or [np.zeros(0, np.int32)]

    def _plain(self, op: Op, start: int, stop: int) -> None:
        need = self.need[start:stop]
        chosen: slice | np.ndarray = slice(None) if need.all() else np.flatnonzero(need)
        ids = np.arange(start, stop, dtype=np.int32)[chosen]
        if not len(ids):
            return
        columns = [column[start:stop][chosen] if keep else None for column, keep in zip((self.a, self.b, self.c), USED_SLOTS[op])]
        step = Step(op, ids, need[chosen].copy(), *columns)
        wanted = raised(step.need) if op in RAISING else step.need
        for operands in step.operand_ids():
            mark(self.need, wanted, operands)
        self._found.append([step])

    def _reductions(self, op: Op, first: int, last: int) -> None:
        steps: list[Step] = []
        for emission in range(first, last + 1):
            nary = self.arena.naries[int(self.a[self._bounds[emission]])]
            ids = np.arange(nary.first, nary.first + len(nary.operands), dtype=np.int32)
            need = self.need[ids]
            if need.any():
                mark(self.need, need, nary.operands)
                steps.append(Step(op, ids, need, operands=nary.operands))
        if steps:
            self._found.append(steps)

    def _products(self, first: int, last: int) -> None:
        """Records that do not depend on each other: products of their own, or the end of one that waits for them."""
        products: list[_Product] = []
        for emission in range(first, last + 1):
            number = int(self.a[self._bounds[emission]])
            record = self.arena.dots[number]
            ids: np.ndarray = np.arange(record.first, record.first + record.acc.size, dtype=np.int32).reshape(record.acc.shape)
            waiting = self._waiting.pop(number, None)
            if waiting is not None and self._needed(ids):  # by others too: it has a value of its own
                self._end(waiting, ids)
                waiting = None
            need = np.bitwise_or.reduce(self.need[ids].reshape(len(ids), -1), axis=1)
            if waiting is None and not need.any():
                continue
            if waiting is None:
                waiting = _Product(ids, need)
                products.append(waiting)
            self._take(waiting, record)
        if products:
            self._found.append(products)

    def _needed(self, ids: np.ndarray) -> bool:
        return bool(self.need[ids].any())

    def _take(self, product: _Product, record: DotRecord) -> None:
        product.rows.append(record.rows)
        product.cols.append(record.cols)
        mark(self.need, product.need, record.rows)
        mark(self.need, product.need, record.cols)
        inner = accumulated(self.arena, record)
        if inner is None or inner in self._waiting:
            self._end(product, record.acc)
        else:
            self._waiting[inner] = product

    def _end(self, product: _Product, acc: np.ndarray) -> None:
        product.acc = acc
        mark(self.need, product.need, acc)
