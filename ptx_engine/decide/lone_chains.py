"""Nodes emitted one by one, as one thread emits them, in batches: chains of sums that do not wait for each other are one batch.

A chain is a run of nodes each of which adds to the one before it (``acc = fma(x, y, acc)``). Chains have levels, by the chains that
their other operands are in; the chains of a level are evaluated at once.
"""

from __future__ import annotations

import numpy as np

from ptx_engine.terms.ops import TABLE, Op

#: operators that may be batched: all but records and constants
BATCHED = np.zeros(256, bool)
_LINKS = np.zeros(256, bool)
_LINKS[[Op.FMA, Op.ADD, Op.SUB]] = True
_IDS = np.zeros((3, 256), bool)
for _op, _row in TABLE.items():
    BATCHED[_op] = not _row.record and _op is not Op.CONST
    for _slot in range(3):
        _IDS[_slot, _op] = _slot < _row.arity and "abc"[_slot] not in _row.plain

#: shorter runs of single emissions are taken one by one
LEAST_RUN = 8
#: nodes of a batch, on average, below which batches do not pay
_FEW = 8


def batches(
    ops: np.ndarray, operands: tuple[np.ndarray, np.ndarray, np.ndarray], links: np.ndarray, first: int
) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """Positions, counted from ``first``, of nodes that depend only on earlier batches and on the node before them, and whether they do
    on that; None where batches would be small. ``links`` are the operands that a sum adds to (c of a product, else a)."""
    before = np.arange(first - 1, first - 1 + len(ops))
    linked = _LINKS[ops] & (links == before)
    linked[0] = False
    users, used = _edges(ops, operands, links, linked, first)
    # an operand in the chain's own earlier part, other than the link, begins a chain: its user then has it in another one
    chain = np.cumsum(~linked) - 1
    linked[users[chain[users] == chain[used]]] = False
    users, used = _edges(ops, operands, links, linked, first)
    starts = np.flatnonzero(~linked)
    chain = np.cumsum(~linked) - 1
    lengths = np.diff(starts, append=len(ops))
    level = _levels(chain[users], chain[used], len(starts))
    if (int(level.max()) + 1) * _FEW > len(ops):
        return None
    order, found = np.argsort(level, kind="stable"), []
    for chains in np.split(order, np.flatnonzero(np.diff(level[order])) + 1):
        size = lengths[chains]
        offsets = np.cumsum(size) - size
        chosen = np.repeat(starts[chains] - offsets, size) + np.arange(int(size.sum()))
        found.append((chosen, linked[chosen]))
    return found


def _edges(
    ops: np.ndarray, operands: tuple[np.ndarray, np.ndarray, np.ndarray], links: np.ndarray, linked: np.ndarray, first: int
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of positions (user, used), links left out, by ascending users."""
    users, used = [], []
    for slot, column in enumerate(operands):
        is_link = linked & ((ops == Op.FMA) == (slot == 2)) & (slot != 1)
        here = np.flatnonzero(_IDS[slot][ops] & (column >= first) & ~is_link)
        users.append(here)
        used.append(column[here] - first)
    joined = np.concatenate(users)
    order = np.argsort(joined, kind="stable")
    return joined[order], np.concatenate(used)[order]


def _levels(users: np.ndarray, used: np.ndarray, count: int) -> np.ndarray:
    """The level of each chain: one more than the highest among those it uses."""
    level = [0] * count
    for user, other in zip(users.tolist(), used.tolist()):
        if level[other] >= level[user]:
            level[user] = level[other] + 1
    return np.array(level)
