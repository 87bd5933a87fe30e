"""Drops accesses that later ones of the same thread stand for, so that memory stays bounded where no barrier ends an interval.

If a thread repeats an access later by the same instruction, whatever races with the earlier one races with it too.
Where a thread has stored different values, the one kept stands for all of them: its value counts as unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptx_engine.order.records import ASYNC, WRITE, Column


def without_superseded(columns: Sequence[Column]) -> list[Column]:
    """The columns without accesses that their thread repeated later by the same instruction, with the same kind, address and width;
    copies are all kept."""
    copies = [c for c in columns if c.kind & ASYNC]
    plain = sorted((c for c in columns if not c.kind & ASYNC), key=lambda c: c.seq)
    if not plain:
        return copies
    lengths = [len(c.threads) for c in plain]
    number = np.repeat(np.arange(len(plain)), lengths)
    order, same = _repetitions(plain, number)
    kept = np.ones(len(order), bool)
    kept[order[:-1]] = ~same
    mixed = np.zeros(len(order), bool)
    mixed[order] = _tainted(same, same & ~_equal_values(plain, number, order))
    thinned = not bool(kept.all())
    starts = np.concatenate([[0], np.cumsum(lengths)])
    out = copies
    for i, column in enumerate(plain):
        part = slice(int(starts[i]), int(starts[i + 1]))
        for some, known in ((kept[part] & ~mixed[part], True), (kept[part] & mixed[part], False)):
            if some.any():
                piece = column if known and some.all() else column.subset(some)
                piece.values = piece.values if known else None
                piece.stands |= thinned
                out.append(piece)
    return sorted(out, key=lambda c: c.seq)


def _repetitions(plain: Sequence[Column], number: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(an order of all accesses in which repetitions are neighbours, the earlier first; whether each repeats in the next)"""
    parts = [1 if c.values is None else c.values.reshape(len(c.threads), -1).shape[1] for c in plain]
    # an access stands only for the same instruction's: each is a finding of its own, and what becomes of a loaded value another matter
    shapes = np.array([(c.kind, c.nbytes, c.beyond_cta, k, c.instruction) for c, k in zip(plain, parts)], np.int64)
    shape = np.unique(shapes, axis=0, return_inverse=True)[1].reshape(-1)[number]
    thread = np.concatenate([c.batch.grid_threads(c.threads) for c in plain])
    address = np.concatenate([c.addresses for c in plain])
    order = np.lexsort((number, shape, thread, address))
    same = np.ones(len(order) - 1, bool)
    for key in (shape, thread, address):
        same &= key[order[1:]] == key[order[:-1]]
    return order, same


def _equal_values(plain: Sequence[Column], number: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Whether neighbours in the order store the same known value (loads: yes)."""
    known = np.array([c.values is not None or not c.kind & WRITE for c in plain])[number][order]
    equal = known[1:] & known[:-1]
    tables = [np.zeros((len(c.threads), 1), np.int64) if c.values is None else c.values.reshape(len(c.threads), -1) for c in plain]
    for part in range(max(t.shape[1] for t in tables)):
        value = np.concatenate([t[:, part] if part < t.shape[1] else np.zeros(len(t), np.int64) for t in tables])[order]
        equal &= value[1:] == value[:-1]
    return np.asarray(equal)


def _tainted(same: np.ndarray, differs: np.ndarray) -> np.ndarray:
    """For every place of the order: whether its run of repetitions differs anywhere up to it."""
    run = np.concatenate([[0], np.cumsum(~same)])
    changes = np.concatenate([[0], np.cumsum(differs)])
    first = np.concatenate([[0], np.flatnonzero(~same) + 1])
    return np.asarray(changes > changes[first[run]])
