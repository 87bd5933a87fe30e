"""Nodes emitted one by one, as one thread emits them, in batches: chains of sums that do not wait for each other are one batch.

A chain is a run of nodes each of which adds to the one before it (``acc = fma(x, y, acc)``); a loop that keeps several sums goes
from one chain to the next and back. Chains have levels, by the chains that their other operands are in; the chains of a level are
evaluated at once.
"""

from __future__ import annotations

from dataclasses import dataclass

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
#: levels up to which they are found for all chains at once
_SHALLOW = 48


@dataclass
class _Chains:
    """Runs of neighbours that are linked, ``starts`` and ``lengths``, and the chain of each: runs of one chain follow each other."""

    linked: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    chain: np.ndarray
    #: pairs of chains: the first one waits for the second
    users: np.ndarray
    used: np.ndarray


def batches(
    ops: np.ndarray, operands: tuple[np.ndarray, np.ndarray, np.ndarray], links: np.ndarray, first: int
) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """Positions, counted from ``first``, of nodes that depend only on earlier batches and on the node before them, and whether they do
    on that; None where batches would be small. ``links`` are the operands that a sum adds to (c of a product, else a)."""
    before = links.astype(np.int64) - first
    linked = _LINKS[ops] & (before >= 0)
    chains = _chains(ops, operands, before, _only_continued(before, linked), first)
    level = _few_levels(chains)
    if level is None:  # chains that wait for each other, as sums that are rescaled do: neighbours alone never do
        chains = _chains(ops, operands, before, linked & (before == np.arange(-1, len(ops) - 1)), first)
        level = _levels(chains)
    if (int(level.max()) + 1) * _FEW > len(ops):
        return None
    return _by_level(chains, level)


def _only_continued(before: np.ndarray, linked: np.ndarray) -> np.ndarray:
    """Links, of those to one node the first: neighbours stay linked."""
    users = np.flatnonzero(linked)
    owner = np.empty(len(before), np.int32)
    owner[before[users][::-1]] = users[::-1]  # what stands first is written last
    kept = np.zeros(len(linked), bool)
    kept[users[owner[before[users]] == users]] = True
    return kept


def _chains(
    ops: np.ndarray, operands: tuple[np.ndarray, np.ndarray, np.ndarray], before: np.ndarray, linked: np.ndarray, first: int
) -> _Chains:
    """Chains by links. An operand in the chain's own earlier part, other than the link, begins a chain: its user then has it in
    another one."""
    for last in (False, True):
        follows = linked.copy()
        follows &= before == np.arange(-1, len(ops) - 1)
        starts = np.flatnonzero(~follows)
        run = np.cumsum(~follows, dtype=np.int32) - 1
        # a run goes on where another one ends: the nodes inside are continued by their neighbours
        head = np.arange(len(starts), dtype=np.int32)
        on = np.flatnonzero(linked[starts])
        head[on] = run[before[starts[on]]]
        while True:
            further = head[head]
            if (further == head).all():
                break
            head = further
        chain = head[run]
        users, used = _edges(ops, operands, linked, first)
        same = chain[users] == chain[used]
        if last or not same.any():
            break
        linked[users[same]] = False
    return _Chains(linked, starts, np.diff(starts, append=len(ops)), head, chain[users], chain[used])


def _edges(
    ops: np.ndarray, operands: tuple[np.ndarray, np.ndarray, np.ndarray], linked: np.ndarray, first: int
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of positions (user, used), links left out."""
    users, used = [], []
    for slot, column in enumerate(operands):
        inner = _IDS[slot][ops] & (column >= first)
        if slot != 1:
            inner &= ~(linked & ((ops == np.uint8(Op.FMA)) == (slot == 2)))
        here = np.flatnonzero(inner)
        users.append(here)
        used.append(column[here] - first)
    return np.concatenate(users), np.concatenate(used)


def _few_levels(chains: _Chains) -> np.ndarray | None:
    """The level of each chain: one more than the highest among those it uses; None where there are many, or no end of them."""
    level = np.zeros(len(chains.starts), np.int32)
    for _ in range(_SHALLOW):
        least = level[chains.used] + np.int32(1)
        low = np.flatnonzero(least > level[chains.users])
        if not len(low):
            return level
        np.maximum.at(level, chains.users[low], least[low])
    return None


def _levels(chains: _Chains) -> np.ndarray:
    """The same for chains of neighbours, which use earlier ones only, one by one."""
    level = [0] * len(chains.starts)
    order = np.argsort(chains.users, kind="stable")
    for user, other in zip(chains.users[order].tolist(), chains.used[order].tolist()):
        if level[other] >= level[user]:
            level[user] = level[other] + 1
    return np.array(level)


def _by_level(chains: _Chains, level: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Positions of each level, chain by chain, and whether they are linked."""
    heads = np.flatnonzero(chains.chain == np.arange(len(chains.chain)))
    rank = np.empty(len(level), np.int32)
    rank[heads[np.argsort(level[heads], kind="stable")]] = np.arange(len(heads))
    number = rank[chains.chain]
    order = np.argsort(number.astype(np.uint16) if len(heads) < 1 << 16 else number, kind="stable")  # (few are sorted by their digits)
    size = chains.lengths[order]
    offsets = np.cumsum(size) - size
    chosen = np.repeat(chains.starts[order] - offsets, size) + np.arange(int(size.sum()))
    linked = chains.linked[chosen]
    bounds = np.flatnonzero(np.diff(level[chains.chain[order]])) + 1
    cuts = offsets[bounds]
    return list(zip(np.split(chosen, cuts), np.split(linked, cuts)))
