"""Enumerates conflicting pairs of accesses at suspicious granules and keeps those that nothing orders.

Where every access of a granule is ordered with the nearest plain writes before and after it, so that these are a chain, it is ordered with
all of them: order is transitive. Only where a link is missing are pairs enumerated.
For every cell the nearest ``WINDOW`` plain writes before and after it in executed order are looked at. That finds all pairs up to
WINDOW writes per granule; beyond it still some pair wherever one exists, since order is transitive along the chain of writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ptx_engine.order.records import ASYNC, ATOMIC, NEVER, OBJECT, WRITE, Cells

WINDOW = 1024
#: atomics are not ordered among themselves, so that a plain load has to meet each of them
ATOMIC_WINDOW = 1 << 14


#: pairs looked at together
CHUNK = 1 << 17


@dataclass
class Rows:
    """Attributes of all cells of a ``Cells``, aligned with it. ``released``: from when on a barrier of the thread orders the access;
    ``base`` and ``warp_base``: the last full barrier of CTA and warp before it; ``cap``: barriers later than that do not speak for
    the thread, which had exited."""

    cells: Cells
    kind: np.ndarray
    seq: np.ndarray
    cta: np.ndarray
    warp: np.ndarray
    released: np.ndarray
    base: np.ndarray
    warp_base: np.ndarray
    cap: np.ndarray
    #: whether the memory is shared memory
    shared: bool = False
    #: strong loads that were not compared with all strong stores
    crowded: set[int] = field(default_factory=set)


def rows_of(cells: Cells, threads_per_cta: int, warp_size: int, *, shared: bool = False) -> Rows:
    """The attributes of all rows."""
    every = np.arange(len(cells.thread))
    cta, tid = np.divmod(cells.thread, threads_per_cta)
    released, base, warp_base, cap = (np.zeros(len(every), np.int64) for _ in range(4))
    for column, where, positions in cells.by_column(every):
        threads = column.threads[positions]
        released[where] = column.released(positions)
        base[where] = column.epoch.base[column.batch.slot(threads)]
        warp_base[where] = column.epoch.warp_base[column.batch.warp(threads)]
        cap[where] = NEVER if column.batch.exit_cap is None else column.batch.exit_cap[threads]
    return Rows(cells, cells.of("kind", every), cells.of("seq", every), cta, tid // warp_size, released, base, warp_base, cap, shared)


#: (rows, earlier, later) -> which pairs are ordered by more than full barriers
Oracle = Callable[[Rows, np.ndarray, np.ndarray], np.ndarray]


def unordered_pairs(rows: Rows, among: np.ndarray, oracle: Oracle | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(earlier, later) row numbers of conflicting accesses that no edge orders, each pair of accesses once per common granule.
    ``among``: the rows to look at, sorted."""
    for pairs in _in_chunks(_conflicting(rows, _where_links_miss(rows, among, oracle))):
        earlier, later = unordered(rows, *pairs, oracle)
        if len(earlier):
            yield earlier, later


def unordered(rows: Rows, earlier: np.ndarray, later: np.ndarray, oracle: Oracle | None) -> tuple[np.ndarray, np.ndarray]:
    keep = ~_ordered_by_barriers(rows, earlier, later)
    earlier, later = earlier[keep], later[keep]
    if oracle is not None and len(earlier):
        keep = ~oracle(rows, earlier, later)
        earlier, later = earlier[keep], later[keep]
    return earlier, later


def _where_links_miss(rows: Rows, among: np.ndarray, oracle: Oracle | None) -> np.ndarray:
    """The rows of granules with a pair of neighbours that is unordered, or with atomics, which are no chain."""
    cells = rows.cells
    order = among[np.argsort(cells.granule[among], kind="stable")]
    kind, granule = rows.kind[order], cells.granule[order]
    write, atomic = (kind & WRITE) != 0, (kind & ATOMIC) != 0
    wanted = [granule[atomic & write]]
    for i, j in _near(granule, write & ~atomic, np.ones(len(order), bool), 1):
        a, b = order[i], order[j]
        apart = (cells.thread[a] != cells.thread[b]) | ((rows.kind[a] & ASYNC) != 0)
        for start in range(0, len(a), CHUNK):
            part = slice(start, start + CHUNK)
            found, _ = unordered(rows, a[part][apart[part]], b[part][apart[part]], oracle)
            wanted.append(cells.granule[found])
    return among[np.isin(cells.granule[among], np.unique(np.concatenate(wanted)))]


def _in_chunks(pairs: Iterator[tuple[np.ndarray, np.ndarray]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The same pairs in fewer, longer pieces: replicated stores give a short piece per replica."""
    held: list[tuple[np.ndarray, np.ndarray]] = []
    count = 0
    for pair in pairs:
        held.append(pair)
        count += len(pair[0])
        if count >= CHUNK:
            yield np.concatenate([a for a, _ in held]), np.concatenate([b for _, b in held])
            held, count = [], 0
    if held:
        yield np.concatenate([a for a, _ in held]), np.concatenate([b for _, b in held])


def _ordered_by_barriers(rows: Rows, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Program order, full barriers of the CTA, full barriers of the warp."""
    released = rows.released[a]
    same_cta = rows.cta[a] == rows.cta[b]
    same_thread = rows.cells.thread[a] == rows.cells.thread[b]
    program = same_thread & (((rows.kind[a] & ASYNC) == 0) | (released < rows.seq[b]))
    cta = same_cta & (released < np.minimum(rows.base[b], rows.cap[a]))
    warp = same_cta & (rows.warp[a] == rows.warp[b]) & (released < rows.warp_base[b])
    return np.asarray(program | cta | warp)


def _conflicting(rows: Rows, among: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of one granule with a write that are not both atomic (or are atomics that do not exclude each other)."""
    order = among[np.argsort(rows.cells.granule[among], kind="stable")]  # cells come in executed order
    kind = rows.kind[order]
    write, atomic = (kind & WRITE) != 0, (kind & ATOMIC) != 0
    granule = rows.cells.granule[order]
    for i, j in _near(granule, write & ~atomic, np.ones(len(order), bool)):
        yield from _distinct(rows, order[i], order[j])
    for i, j in _near(granule, write & atomic, ~write & ~atomic, ATOMIC_WINDOW):
        yield from _distinct(rows, order[i], order[j])
    rows.crowded.update(_crowded(rows, order, granule, write & atomic))
    some = atomic & (_of_several_kinds(rows, order, granule, atomic) | bool((atomic & ~write).any()))
    for i, j in _near(granule, write & some, some, ATOMIC_WINDOW):
        a, b = order[i], order[j]
        clash = atomics_clash(rows, a, b) | observing(rows, a, b)
        yield from _distinct(rows, a[clash], b[clash])


def _of_several_kinds(rows: Rows, order: np.ndarray, granule: np.ndarray, atomic: np.ndarray) -> np.ndarray:
    """Of accesses sorted by granule whether the atomics of their granule differ in address, width or scope: of one kind they exclude
    each other."""
    cells, where = rows.cells, np.flatnonzero(atomic)
    of = order[where]
    wide = cells.of("beyond_cta", of) != 0
    kinds = np.stack([cells.offset[of], cells.of("nbytes", of), np.where(wide, -1, rows.cta[of])])
    first = np.searchsorted(granule[where], granule[where])
    differ = (kinds != kinds[:, first]).any(axis=0)
    return np.isin(granule, granule[where][differ])


def _crowded(rows: Rows, order: np.ndarray, granule: np.ndarray, stores: np.ndarray) -> list[int]:
    """The strong loads of granules with more strong stores than are compared with them."""
    places, counts = np.unique(granule[stores], return_counts=True)
    full = places[counts > ATOMIC_WINDOW]
    loads = order[np.isin(granule, full) & ((rows.kind[order] & (ATOMIC | WRITE)) == ATOMIC)] if len(full) else order[:0]
    return [int(pc) for pc in np.unique(rows.cells.of("instruction", loads))]


def observing(rows: Rows, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Whether one is a strong load of data and the other a strong store (or atomic): no race, but what is read may be up to chance."""
    both, either = rows.kind[a] & rows.kind[b], rows.kind[a] | rows.kind[b]
    return np.asarray(((both & ATOMIC) != 0) & ((both & WRITE) == 0) & ((either & WRITE) != 0) & ((either & OBJECT) == 0))


def atomics_clash(rows: Rows, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Atomics exclude each other only if each is in the other's scope and both have one address and width."""
    cells = rows.cells
    narrow = (rows.cta[a] != rows.cta[b]) & ((cells.of("beyond_cta", a) & cells.of("beyond_cta", b)) == 0)
    shape = (cells.offset[a] != cells.offset[b]) | (cells.of("nbytes", a) != cells.of("nbytes", b))
    return np.asarray(narrow | shape)


def _distinct(rows: Rows, a: np.ndarray, b: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Drop pairs compared before, a thread's own synchronous pairs, and all but the first common granule of two accesses."""
    cells = rows.cells
    keep = (cells.of("old", a) & cells.of("old", b)) == 0
    keep &= (cells.thread[a] != cells.thread[b]) | ((rows.kind[a] & ASYNC) != 0)
    keep &= (cells.offset[a] == 0) | (cells.offset[b] == 0)
    if keep.any():
        yield a[keep], b[keep]


def _near(granule: np.ndarray, target: np.ndarray, subject: np.ndarray, window: int = WINDOW) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(i, j), i before j in one granule, where one is a target and the other one of its nearest subjects; a pair of two
    cells that are both target and subject comes once."""
    targets = np.flatnonzero(target)
    subjects = np.flatnonzero(subject)
    if not len(targets) or not len(subjects):
        return
    before = np.searchsorted(targets, subjects)  # targets in front of each subject
    alive, rank = subjects, before
    for step in range(1, window + 1):
        at = rank - step
        keep = (at >= 0) & (granule[targets[at]] == granule[alive])
        alive, rank, at = alive[keep], rank[keep], at[keep]
        if not len(alive):
            break
        yield targets[at], alive
    only = ~target[subjects]
    alive, rank = subjects[only], before[only]
    for step in range(window):
        at = rank + step
        keep = at < len(targets)
        keep[keep] = granule[targets[at[keep]]] == granule[alive[keep]]
        alive, rank, at = alive[keep], rank[keep], at[keep]
        if not len(alive):
            break
        yield alive, targets[at]
