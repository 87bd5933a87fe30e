"""Finds, in bulk, the granules that two threads touch with at least one write; says nothing about order.

Most intervals have none, and that is all that is paid for them. A granule is the largest power of two up to 16 bytes that divides all
addresses and widths at hand, so that an access covers whole granules. Whether two threads meet
in a granule is looked up in a table by address.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptx_engine.order.pages import scattered
from ptx_engine.order.records import ASYNC, ATOMIC, OBJECT, WRITE, Cells, Column

NO_GRANULES = np.zeros(0, np.int64)

#: granules up to which a table by address is used
DENSE = 1 << 26


@dataclass
class Layout:
    """Cells of some columns, laid out column after column, access after access, granule after granule."""

    columns: list[Column]
    granules: np.ndarray
    starts: np.ndarray  # first cell of each column, and the end
    widths: np.ndarray  # granules per access, by column

    def locate(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(column, position, granule offset) of cells."""
        column = np.searchsorted(self.starts, cells, "right") - 1
        position, offset = np.divmod(cells - self.starts[column], self.widths[column])
        return column, position, offset


def units(columns: Sequence[Column], stride: int) -> list[np.ndarray]:
    """Byte positions that differ between CTAs: the address, plus ``slot * stride`` in shared memory (stride 0: global)."""
    if stride == 0 or columns[0].batch.slots == 1:
        return [c.addresses for c in columns]
    return [c.addresses + c.batch.slot_offsets(c.threads, stride) for c in columns]


def granule_shift(places: Sequence[np.ndarray], columns: Sequence[Column]) -> int:
    """log2 of the granule that divides every address and width."""
    bits = 16
    for c in columns:
        bits |= c.nbytes
    bits |= int(np.bitwise_or.reduce(np.concatenate(places))) if places else 0
    return (bits & -bits).bit_length() - 1


def lay_out(columns: Sequence[Column], places: Sequence[np.ndarray], shift: int) -> Layout:
    """The cells of the columns; accesses of equal width are expanded together."""
    by_width: dict[int, list[int]] = {}
    for i, c in enumerate(columns):
        by_width.setdefault(c.nbytes, []).append(i)
    ordered: list[Column] = []
    parts: list[np.ndarray] = []
    for nbytes, chosen in by_width.items():
        first = np.concatenate([places[i] for i in chosen]) >> shift
        count = nbytes >> shift
        parts.append(first if count == 1 else (first[:, None] + np.arange(count)).ravel())
        ordered.extend(columns[i] for i in chosen)
    widths = np.array([c.nbytes >> shift for c in ordered], np.int64)
    starts = np.zeros(len(ordered) + 1, np.int64)
    np.cumsum(widths * np.array([len(c.threads) for c in ordered], np.int64), out=starts[1:])
    return Layout(ordered, parts[0] if len(parts) == 1 else np.concatenate(parts), starts, widths)


class Shadow:
    """For each granule that is written: one cell that wrote it. Only cells at hand are looked up, so nothing is ever cleared."""

    def __init__(self) -> None:
        self._writer = np.empty(0, np.int32)

    @property
    def nbytes(self) -> int:
        return self._writer.nbytes

    def suspicious(self, writes: Sequence[Column], reads: Sequence[Column], stride: int) -> tuple[int, np.ndarray]:
        """(granule shift, sorted granules with a write and another access that is not the same thread's own plain one).
        ``stride`` as in ``units``: 0 for global memory."""
        write_places, read_places = units(writes, stride), units(reads, stride) if reads else []
        shift = granule_shift([*write_places, *read_places], [*writes, *reads])
        stored = lay_out(writes, write_places, shift)
        touched = lay_out(reads, read_places, shift) if reads else None
        keys = [stored.granules] if touched is None else [stored.granules, touched.granules]
        size = (writes[0].batch.slots * stride >> shift) + 1  # shared memory starts at 0
        if stride == 0:
            keys, size = _dense(keys)
        if len(self._writer) < size:
            self._writer = scattered(size, np.int32)
        own = np.arange(len(stored.granules), dtype=np.int32)
        if touched is not None:
            self._writer[keys[1]] = -1
        self._writer[keys[0]] = own
        observed = any(is_strong_load(c.kind) for c in reads)
        found = _conflicts(stored, stored, self._writer[keys[0]], own, observed=observed)
        if touched is not None:
            found = np.concatenate([found, _conflicts(stored, touched, self._writer[keys[1]], None, observed=observed)])
        return shift, np.unique(found) if len(found) else NO_GRANULES


def _dense(granules: Sequence[np.ndarray]) -> tuple[list[np.ndarray], int]:
    """Small numbers for granules: the distance to the lowest one, or where they lie far apart their rank; and how many there are."""
    low = min(int(g.min()) for g in granules)
    size = max(int(g.max()) for g in granules) - low + 1
    if size <= DENSE:
        return [g - low for g in granules], size
    distinct, rank = np.unique(np.concatenate(granules), return_inverse=True)
    return np.split(rank.reshape(-1), np.cumsum([len(g) for g in granules])[:-1]), len(distinct)


def _conflicts(stored: Layout, touched: Layout, writer: np.ndarray, own: np.ndarray | None, *, observed: bool) -> np.ndarray:
    """Granules of ``touched`` cells whose writer (a cell of ``stored``, or -1) is another, conflicting access."""
    hits = np.flatnonzero(writer != own) if own is not None else np.flatnonzero(writer >= 0)
    if not len(hits):
        return NO_GRANULES
    conflicting = _may_conflict(stored, writer[hits].astype(np.int64), touched, hits, observed=observed)
    return np.asarray(touched.granules[hits[conflicting]])


def _may_conflict(stored: Layout, i: np.ndarray, touched: Layout, j: np.ndarray, *, observed: bool) -> np.ndarray:
    """Whether two cells of one granule are neither the same thread's plain accesses nor atomics that exclude each other.

    A thread's own atomic beside its own plain access counts as suspicious: the atomic may stand for another thread's. So do two atomics of
    one CTA of which only one is about others, too: it may stand for one of another CTA, which the narrow one does not exclude.
    """
    column_i, position_i, offset_i = stored.locate(i)
    column_j, position_j, offset_j = touched.locate(j)
    kind_i, wide_i, thread_i = _attributes(stored, column_i, position_i)
    kind_j, wide_j, thread_j = _attributes(touched, column_j, position_j)
    own = (thread_i == thread_j) & (((kind_i | kind_j) & (ASYNC | ATOMIC)) == 0)
    same_shape = (stored.widths[column_i] == touched.widths[column_j]) & (offset_i == offset_j)
    size = stored.columns[0].batch.threads_per_cta
    in_scope = (wide_i & wide_j) | ((thread_i // size == thread_j // size) & (wide_i == wide_j))
    exclusive = ((kind_i & kind_j & ATOMIC) != 0) & in_scope & same_shape
    if observed:
        exclusive &= thread_i == thread_j  # what strong loads read is to be compared with all stores, of which only one is at hand
    return np.asarray(~(own | exclusive))


def _attributes(layout: Layout, column: np.ndarray, position: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(kind, whether beyond the CTA, grid-wide thread) of accesses."""
    kind = np.array([c.kind for c in layout.columns])[column]
    wide = np.array([c.beyond_cta for c in layout.columns])[column]
    threads = np.concatenate([c.batch.grid_threads(c.threads) for c in layout.columns])
    first = np.concatenate([[0], np.cumsum([len(c.threads) for c in layout.columns[:-1]], dtype=np.int64)])
    return kind, wide, threads[first[column] + position]


def is_strong_load(kind: int) -> bool:
    """Whether an access is a strong load of data."""
    return kind & (ATOMIC | WRITE | OBJECT) == ATOMIC


def gather(columns: Sequence[Column], stride: int, shift: int, wanted: np.ndarray) -> Cells:
    """All cells of the columns at the wanted granules (sorted), in executed order."""
    ordered = sorted(columns, key=lambda c: c.seq)
    number, position, granule, offset, thread = [], [], [], [], []
    for i, (c, place) in enumerate(zip(ordered, units(ordered, stride))):
        count = c.nbytes >> shift
        cells = ((place >> shift)[:, None] + np.arange(count)).ravel()
        at = np.minimum(np.searchsorted(wanted, cells), len(wanted) - 1)
        hits = np.flatnonzero(wanted[at] == cells)
        if len(hits):
            number.append(np.full(len(hits), i, np.int64))
            position.append(hits // count)
            offset.append(hits % count)
            granule.append(cells[hits])
            thread.append(c.batch.grid_threads(c.threads[hits // count]))
    parts = [np.concatenate(part).astype(np.int64) for part in (number, position, granule, offset, thread)]
    return Cells(ordered, parts[0], parts[1], parts[2], parts[3], parts[4])
