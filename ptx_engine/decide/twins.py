"""Twins: terms that stand more than once, one operator over the same operands, as replicated warps and butterflies compute them.

Emissions are gone through in order, so that the twins of all operands are known: what is merged is equal by induction, and
nothing rests on a hash. Keys (``shape_hash``) only say which terms are worth looking at, and with which earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from ptx_engine.terms.arena import CONST_CAP, Arena
from ptx_engine.terms.ops import TABLE, Op

#: per slot and operator, whether it holds a term; operators whose first two operands may be swapped
ID_SLOT = np.zeros((3, 256), bool)
_COMMUTES = np.zeros(256, bool)
for _op, _row in TABLE.items():
    for _slot, _name in enumerate("abc"):
        ID_SLOT[_slot, _op] = _slot < _row.arity and _name not in _row.plain
_COMMUTES[[o for o, row in TABLE.items() if row.commutative and row.arity == 2] + [Op.FMA]] = True

#: different terms with one key that later ones are compared with
_OWNERS = 2
_SEED = 0x7815
_TABLE_BITS = 20
_SHORT = np.uint64(64 - _TABLE_BITS)


def find_twins(arena: Arena, keys: np.ndarray, boundary: int = CONST_CAP - 1, start: int = CONST_CAP) -> np.ndarray:
    """For every id the first id of an equal term of its side (one ends with the id ``boundary``, the other begins at ``start``).

    One operator over equal operands, in any order where it commutes; products and wide reductions by their lists.
    """
    op, *_ = arena.columns()
    twin = np.arange(len(op), dtype=np.int32)
    units = _units(arena)
    for side in (units[: np.searchsorted(units, boundary, side="right")], units[np.searchsorted(units, start) :]):
        ids, group = _repeated(keys, side)
        if len(ids):
            _Merge(arena, twin, ids, group).run()
    return twin


def _units(arena: Arena) -> np.ndarray:
    """What is compared as a whole: nodes, and products by their first nodes; ascending ids."""
    op, *_ = arena.columns()
    chosen = op != np.uint8(Op.DOT)
    chosen[:CONST_CAP] = False
    for record in arena.dots:
        if record.acc.size:
            chosen[record.first : record.first + record.acc.size : record.acc[0].size] = True
    return np.flatnonzero(chosen)


def _repeated(keys: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ids whose keys stand twice among them, and for each the number of its key."""
    mine = keys[ids]
    ordered = np.sort(mine)
    table = np.zeros(1 << _TABLE_BITS, bool)
    table[ordered[1:][ordered[1:] == ordered[:-1]] >> _SHORT] = True
    maybe = np.flatnonzero(table[mine >> _SHORT])  # most are out by some of their bits
    order = np.argsort(mine[maybe])
    ordered = mine[maybe[order]]
    starts = np.ones(len(order), bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    number = np.cumsum(starts) - 1
    twice = np.bincount(number)[number] > 1 if len(number) else starts
    group = np.full(len(maybe), -1, np.int64)
    group[order[twice]] = number[twice]
    kept = group >= 0
    return np.asarray(ids[maybe[kept]], np.int32), group[kept]


class _Merge:
    """Goes through the suspects ``ids`` (ascending), compares those of one ``group``, and writes ``twin``."""

    def __init__(self, arena: Arena, twin: np.ndarray, ids: np.ndarray, group: np.ndarray) -> None:
        self.arena, self.twin, self.ids, self.group = arena, twin, ids, group
        self.op, *self.columns = arena.columns()
        self.owners = np.full((_OWNERS, int(group.max()) + 1), -1, np.int32)
        #: operands as twins, in order where that does not matter: those of owners are looked up by id
        self.operands = np.zeros((3, len(twin)), np.int32)
        self.lists: dict[int, _Lists] = {}
        #: first node of each product, by its shape and the number of its operands
        self.products: dict[tuple[tuple[int, ...], int], int] = {}

    def run(self) -> None:
        for start, stop in self._batches():
            self._batch(self.ids[start:stop], self.group[start:stop])

    def _batches(self) -> Iterator[tuple[int, int]]:
        """Runs of suspects of one emission: they do not depend on each other."""
        starts = np.array(self.arena.emissions, np.int64)
        owner = np.searchsorted(starts, self.ids, side="right")
        cuts = np.flatnonzero(owner[1:] != owner[:-1]) + 1
        bounds = [0, *cuts.tolist(), len(self.ids)]
        yield from pairwise(bounds)

    def _batch(self, x: np.ndarray, group: np.ndarray) -> None:
        code = Op(int(self.op[x[0]]))
        if code is Op.CONST:
            return
        if code is Op.DOT:
            self._products(int(self.columns[0][x[0]]), x)
            return
        mine = self._operands(code, x)
        self.operands[:, x] = mine
        open_ = np.arange(len(x))
        for owners in self.owners:
            known = owners[group[open_]]
            fresh = open_[known < 0]
            owners[group[fresh][::-1]] = x[fresh][::-1]  # the first of equal groups stays
            owner = owners[group[open_]]
            alike = (self.op[owner] == code) & (self.operands[:, owner] == mine[:, open_]).all(axis=0)
            self.twin[x[open_[alike]]] = owner[alike]
            open_ = open_[~alike]
            if not len(open_):
                return

    def _operands(self, code: Op, x: np.ndarray) -> np.ndarray:
        if TABLE[code].record:
            return self._record_operands(x)
        columns = [column[x] for column in self.columns]
        a, b, c = (self._mapped(v) if ID_SLOT[slot, code] else v for slot, v in enumerate(columns))
        if _COMMUTES[code]:
            a, b = np.minimum(a, b), np.maximum(a, b)
        return np.stack([a, b, c])

    def _mapped(self, ids: np.ndarray) -> np.ndarray:
        return np.where(ids >= 0, self.twin[np.maximum(ids, 0)], ids)

    def _products(self, number: int, firsts: np.ndarray) -> None:
        """Products of a record, by their first nodes: equal if all their operands are."""
        record = self.arena.dots[number]
        size = record.acc[0].size
        which = (firsts - record.first) // size
        parts = [self._mapped(operands[which]).reshape(len(which), -1) for operands in (record.rows, record.cols, record.acc)]
        shape = (*record.rows.shape[1:], record.cols.shape[1])
        for first, whole in zip(firsts.tolist(), self._numbers(np.concatenate(parts, axis=1)).tolist()):
            owner = self.products.setdefault((shape, whole), first)
            if owner != first:
                self.twin[first : first + size] = np.arange(owner, owner + size, dtype=np.int32)

    def _record_operands(self, x: np.ndarray) -> np.ndarray:
        """Operands of wide reductions: numbers of their lists."""
        nary = self.arena.naries[int(self.columns[0][x[0]])]
        lists = self._numbers(self._mapped(nary.operands[x - nary.first]))
        return np.stack([lists, np.zeros_like(lists), np.zeros_like(lists)])

    def _numbers(self, lists: np.ndarray) -> np.ndarray:
        depth = lists.shape[1]
        if depth not in self.lists:
            self.lists[depth] = _Lists(depth)
        found: np.ndarray = self.lists[depth].numbers(lists)
        return found


class _Lists:
    """Numbers of lists of one length: equal numbers mean equal lists (a list may have several numbers)."""

    def __init__(self, depth: int) -> None:
        self.weights = np.random.default_rng(_SEED).integers(-(2**62), 2**62, depth, dtype=np.int64)
        self.known: dict[int, int] = {}
        self.store = np.zeros((64, depth), np.int32)
        self.count = 0

    def numbers(self, lists: np.ndarray) -> np.ndarray:
        """The numbers (n,) of lists (n, depth)."""
        hashes = lists.astype(np.int64) @ self.weights  # wraps on purpose
        distinct, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        found = [self.known.get(h, -1) for h in distinct.tolist()]
        fresh = [i for i, number in enumerate(found) if number < 0]
        if fresh:
            self._keep(lists[first[fresh]])
            for number, i in enumerate(fresh, self.count - len(fresh)):
                found[i] = self.known[int(distinct[i])] = number
        result: np.ndarray = np.array(found, np.int32)[inverse.reshape(-1)]
        wrong = np.flatnonzero((self.store[result] != lists).any(axis=1))
        if len(wrong):  # a hash collision: numbers of their own
            self._keep(lists[wrong])
            result[wrong] = np.arange(self.count - len(wrong), self.count, dtype=np.int32)
        return result

    def _keep(self, lists: np.ndarray) -> None:
        need = self.count + len(lists)
        if need > len(self.store):
            grown = np.zeros((max(need, 2 * len(self.store)), self.store.shape[1]), np.int32)
            grown[: self.count] = self.store[: self.count]
            self.store = grown
        self.store[self.count : need] = lists
        self.count = need
