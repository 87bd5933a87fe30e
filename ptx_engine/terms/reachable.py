"""Which nodes stand below some terms, and their numbers when only those are kept, in the same order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptx_engine.terms.ops import TABLE, Op
from ptx_engine.terms.storage import CONST_CAP, Storage

_ARITY = np.array([TABLE[op].arity for op in sorted(TABLE)], np.int8)


@dataclass(frozen=True)
class Kept:
    """Node ids (ascending), indices of constants, first new ids of emissions, and numbers of records (each kept whole)."""

    ids: np.ndarray
    consts: np.ndarray
    starts: np.ndarray
    dots: np.ndarray
    naries: np.ndarray
    #: new numbers by old id, for ids that are kept
    table: np.ndarray

    def number(self, ids: np.ndarray) -> np.ndarray:
        """New ids of old ones that are kept: inputs stay, constants and nodes are numbered anew."""
        flat = ids.ravel()
        moved = np.where(flat < 0, flat, self.table[np.maximum(flat, 0)])
        return np.ascontiguousarray(moved.reshape(ids.shape).astype(np.int32))

    def number_of_node(self, ident: int) -> int:
        return int(self.table[ident])


def reachable(arena: Storage, roots: np.ndarray) -> Kept:
    """Everything below ``roots`` (int32 ids). A record is kept whole, with all that stands below it."""
    codes, a, b, c = arena.columns()
    marked = np.zeros(max(len(codes), CONST_CAP), bool)
    dots, naries = np.zeros(len(arena.dots), bool), np.zeros(len(arena.naries), bool)
    place = np.zeros(len(marked), np.int32)
    front = roots[roots >= 0]
    while len(front):
        front = front[~marked[front]]
        at = np.arange(len(front), dtype=np.int32)
        place[front] = at
        front = front[place[front] == at]  # each once: sorting them costs more than all the rest
        marked[front] = True
        nodes = front[front >= CONST_CAP]
        below = []
        for slot, column in enumerate((a, b, c)):
            below.append(column[nodes[_ARITY[codes[nodes]] > slot]])
        for op, seen in ((Op.DOT, dots), *((op, naries) for op in (Op.NSUM, Op.NMAX, Op.NMIN))):
            for number in np.unique(a[nodes[codes[nodes] == op]]).tolist():
                if not seen[number]:
                    seen[number] = True
                    below += _of_record(arena, op, number)
        found = np.concatenate([np.zeros(0, np.int32), *below])
        front = found[found >= 0]
    return _kept(arena, marked, dots, naries)


def _of_record(arena: Storage, op: Op, number: int) -> list[np.ndarray]:
    """The nodes of a record and their operands."""
    if op is Op.DOT:
        record = arena.dots[number]
        own = np.arange(record.first, record.first + record.acc.size, dtype=np.int32)
        return [own, record.rows.ravel(), record.cols.ravel(), record.acc.ravel()]
    wide = arena.naries[number]
    return [np.arange(wide.first, wide.first + len(wide.operands), dtype=np.int32), wide.operands.ravel()]


def _kept(arena: Storage, marked: np.ndarray, dots: np.ndarray, naries: np.ndarray) -> Kept:
    codes, a, _, _ = arena.columns()
    ids = np.flatnonzero(marked[CONST_CAP:]) + CONST_CAP
    interned = np.flatnonzero(marked[:CONST_CAP])
    beyond = a[ids[codes[ids] == Op.CONST]].astype(np.int64)
    consts = np.unique(np.concatenate([interned, beyond]))
    table = np.zeros(len(marked), np.int32)
    table[ids] = np.arange(CONST_CAP, CONST_CAP + len(ids))
    table[interned] = np.searchsorted(consts, interned)
    starts = np.unique(np.searchsorted(ids, np.asarray(arena.emissions, np.int64)))
    starts = starts[starts < len(ids)] + CONST_CAP
    return Kept(ids, consts, starts, np.flatnonzero(dots), np.flatnonzero(naries), table)
