"""Drops accesses that later ones of the same thread stand for, so that memory stays bounded where no barrier ends an interval.

If a later access of the same thread to the same bytes is at least as strong, whatever races with the earlier one races with it too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptx_engine.order.records import ASYNC, ATOMIC, Column


def without_superseded(columns: Sequence[Column]) -> list[Column]:
    """The columns without accesses that their thread repeated later with the same kind, address and width; copies are all kept."""
    kept = [c for c in columns if c.kind & ASYNC]
    plain = sorted((c for c in columns if not c.kind & ASYNC), key=lambda c: c.seq)
    if not plain:
        return kept
    number = np.repeat(np.arange(len(plain)), [len(c.threads) for c in plain])
    position = np.concatenate([np.arange(len(c.threads)) for c in plain])
    shape = np.array([(c.kind, c.nbytes, c.beyond_cta, c.instruction if c.kind & ATOMIC else 0) for c in plain], np.int64)
    shape_of = np.unique(shape, axis=0, return_inverse=True)[1].reshape(-1)[number]
    thread = np.concatenate([c.batch.grid_threads(c.threads) for c in plain])
    address = np.concatenate([c.addresses for c in plain])
    order = np.lexsort((number, shape_of, thread, address))
    last = np.ones(len(order), bool)
    keys = [k[order] for k in (shape_of, thread, address)]
    last[:-1] = (keys[0][1:] != keys[0][:-1]) | (keys[1][1:] != keys[1][:-1]) | (keys[2][1:] != keys[2][:-1])
    chosen = np.zeros(len(order), bool)
    chosen[order[last]] = True
    for i, column in enumerate(plain):
        mask = chosen[number == i] if len(plain) < 64 else None
        if mask is None:
            mask = chosen[np.searchsorted(number, i) : np.searchsorted(number, i, "right")]
        if mask.any():
            kept.append(column if mask.all() else column.subset(position[: len(mask)][mask]))
    return sorted(kept, key=lambda c: c.seq)
