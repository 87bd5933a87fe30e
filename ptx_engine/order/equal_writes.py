"""Granules that one store instruction writes from many threads with one value: counted as a whole, not pair by pair.

Compilers let whole warps store a reduction's result; 32 lanes make 496 pairs that differ in nothing. Only granules that nothing else
touches are taken: all their pairs are unordered (the writes are of one instruction, executed once) and of one kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ptx_engine.order.pairs import Rows
from ptx_engine.order.records import WRITE, Column, WeakKeys

#: functions from stored values (any shape) to uint64 keys, cheapest first; equal keys of one of them mean equal bits
ValueKeys = Sequence[Callable[[np.ndarray], np.ndarray]]


@dataclass
class EqualWrites:
    """Worked examples (rows ``a`` and ``b``), each standing for ``count`` pairs; ``rest`` are the rows still to be paired one by one."""

    a: np.ndarray
    b: np.ndarray
    count: np.ndarray
    rest: np.ndarray


def equal_writes(rows: Rows, value_keys: ValueKeys) -> EqualWrites:
    """The granules whose accesses are all one column's plain stores of one value, at one address."""
    cells = rows.cells
    order = np.lexsort((cells.thread, cells.granule))
    granule, column, offset = cells.granule[order], cells.column[order], cells.offset[order]
    first = np.flatnonzero(np.concatenate([np.ones(1, bool), granule[1:] != granule[:-1]]))
    run = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(order))))
    plain = np.array([c.kind == WRITE and c.values is not None for c in cells.columns])
    alike = (column == column[first][run]) & (offset == offset[first][run]) & plain[column]
    good = np.logical_and.reduceat(alike, first)
    if good.any():
        _clear_unequal(rows, order, first, run, good, value_keys)
    taken = good[run]
    a, b, count = _examples(rows, order[taken], run[taken])
    return EqualWrites(a, b, count, np.sort(order[~taken]))


def _clear_unequal(rows: Rows, order: np.ndarray, first: np.ndarray, run: np.ndarray, good: np.ndarray, value_keys: ValueKeys) -> None:
    """Clear ``good`` for runs that store more than one value."""
    cells = rows.cells
    column = cells.column[order]
    for number in np.unique(column[good[run]]).tolist():
        mine = np.flatnonzero(good[run] & (column == number))
        differs = _differs(cells.columns[number], cells.position[order[mine]], cells.position[order[first[run[mine]]]], value_keys)
        good[run[mine[differs]]] = False


def _differs(column: Column, position: np.ndarray, leader: np.ndarray, value_keys: ValueKeys) -> np.ndarray:
    """Whether stores of one column leave other bits than their leaders."""
    assert column.values is not None
    values = column.values.reshape(len(column.threads), -1)
    differs = np.asarray((values[position] != values[leader]).any(axis=1))
    for keys_of in value_keys:
        if not differs.any():
            break
        keys = column.value_keys(keys_of)
        still = differs & (keys[position] != keys[leader]).any(axis=1)
        if isinstance(keys_of, WeakKeys) and (still != differs).any():
            alike = still != differs
            keys_of.pairs.append((values[position[alike]], values[leader[alike]]))
        differs = still
    return differs


def _examples(rows: Rows, of: np.ndarray, run: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(a, b, count) for rows sorted by granule and thread: per granule the pairs within a CTA, one example of each granule and CTA,
    and the pairs across CTAs. Two accesses count once, where they start; columns compared before do not count."""
    keep = (rows.cells.offset[of] == 0) & (rows.cells.of("old", of) == 0)
    of, run = of[keep], run[keep]
    if not len(of):
        return of, of, of
    granule_start = np.concatenate([np.ones(1, bool), run[1:] != run[:-1]])
    cta_start = granule_start | np.concatenate([np.ones(1, bool), rows.cta[of[1:]] != rows.cta[of[:-1]]])
    within, across = _sizes(cta_start), _sizes(granule_start)
    pairs_within = within * (within - 1) // 2
    starts, leaders = np.flatnonzero(cta_start), np.flatnonzero(granule_start)
    pairs_across = across * (across - 1) // 2 - np.add.reduceat(pairs_within, np.searchsorted(starts, leaders))
    # the last thread of a CTA is of another warp than the first one, if any is; the last one of a granule of another CTA
    a = np.concatenate([of[starts], of[leaders]])
    b = np.concatenate([of[starts + within - 1], of[leaders + across - 1]])
    count = np.concatenate([pairs_within, pairs_across])
    return a[count > 0], b[count > 0], count[count > 0]


def _sizes(start: np.ndarray) -> np.ndarray:
    """The lengths of the runs whose first places are marked."""
    return np.diff(np.append(np.flatnonzero(start), len(start)))
