"""Finds, in bulk, the granules that two threads touch with at least one write; says nothing about order.

Most intervals have none, and that is all that is paid for them. A granule is the largest power of two up to 16 bytes that divides all
addresses and widths at hand, so that an access covers whole granules. Shared memory uses a dense shadow, global memory sorting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptx_engine.order.records import ASYNC, ATOMIC, WRITE, Batch, Cells, Column

NO_GRANULES = np.zeros(0, np.int64)


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


class SharedShadow:
    """For each granule of the shared memory of every CTA of a batch: which cell wrote it in the interval at hand."""

    def __init__(self, stride: int) -> None:
        self.stride = stride
        self._writer = np.zeros(0, np.int32)

    def suspicious(self, writes: Sequence[Column], reads: Sequence[Column], batch: Batch) -> tuple[int, np.ndarray]:
        """(granule shift, sorted granules with a write and another access that is not the same thread's own plain one)."""
        write_places, read_places = units(writes, self.stride), units(reads, self.stride) if reads else []
        shift = granule_shift([*write_places, *read_places], [*writes, *reads])
        size = (batch.slots * self.stride >> shift) + 16
        if len(self._writer) < size:
            self._writer = np.full(size, -1, np.int32)
        stored = lay_out(writes, write_places, shift)
        own = np.arange(len(stored.granules), dtype=np.int32)
        self._writer[stored.granules] = own
        found = self._against(stored, stored, own)
        if reads:
            found = np.concatenate([found, self._against(stored, lay_out(reads, read_places, shift), None)])
        self._writer[stored.granules] = -1
        return shift, np.unique(found) if len(found) else NO_GRANULES

    def _against(self, stored: Layout, touched: Layout, own: np.ndarray | None) -> np.ndarray:
        """Granules of ``touched`` cells whose last writer is another, conflicting access."""
        writer = self._writer[touched.granules]
        hits = np.flatnonzero(writer != own) if own is not None else np.flatnonzero(writer >= 0)
        if not len(hits):
            return NO_GRANULES
        conflicting = _may_conflict(stored, writer[hits].astype(np.int64), touched, hits)
        return np.asarray(touched.granules[hits[conflicting]])


def _may_conflict(stored: Layout, i: np.ndarray, touched: Layout, j: np.ndarray) -> np.ndarray:
    """Whether two cells of one granule are neither the same thread's plain accesses nor atomics of one shape.

    A thread's own atomic beside its own plain access counts as suspicious: the atomic may stand for another thread's.
    """
    column_i, position_i, offset_i = stored.locate(i)
    column_j, position_j, offset_j = touched.locate(j)
    kind_i = np.array([c.kind for c in stored.columns])[column_i]
    kind_j = np.array([c.kind for c in touched.columns])[column_j]
    same_thread = _threads(stored)[_access(stored, column_i, position_i)] == _threads(touched)[_access(touched, column_j, position_j)]
    same_shape = (stored.widths[column_i] == touched.widths[column_j]) & (offset_i == offset_j)
    both_atomic = (kind_i & kind_j & ATOMIC) != 0
    return np.asarray(~((same_thread & ((kind_i | kind_j) & (ASYNC | ATOMIC) == 0)) | (both_atomic & same_shape)))


def _threads(layout: Layout) -> np.ndarray:
    return np.concatenate([c.threads for c in layout.columns])


def _access(layout: Layout, column: np.ndarray, position: np.ndarray) -> np.ndarray:
    first = np.zeros(len(layout.columns), np.int64)
    np.cumsum([len(c.threads) for c in layout.columns[:-1]], out=first[1:])
    return np.asarray(first[column] + position)


def suspicious_global(columns: Sequence[Column]) -> tuple[int, np.ndarray]:
    """(granule shift, sorted granules that may hold a conflict), for columns of absolute addresses of any batches."""
    places = units(columns, 0)
    shift = granule_shift(places, columns)
    layout = lay_out(columns, places, shift)
    threads = np.repeat(
        np.concatenate([c.batch.grid_threads(c.threads) for c in layout.columns]),
        np.repeat(layout.widths, [len(c.threads) for c in layout.columns]),
    )
    order = np.argsort(layout.granules)
    granules, threads = layout.granules[order], threads[order]
    same = granules[1:] == granules[:-1]
    if not same.any():
        return shift, NO_GRANULES
    kinds = np.repeat(np.array([c.kind for c in layout.columns]), np.diff(layout.starts))[order]
    meets = same & ((threads[1:] != threads[:-1]) | ((kinds[1:] | kinds[:-1]) & ASYNC != 0))
    if not meets.any():
        return shift, NO_GRANULES
    return shift, _with_conflict(granules, kinds, np.unique(granules[1:][meets]), _uniform_atomics(columns))


def _uniform_atomics(columns: Sequence[Column]) -> bool:
    """Whether all atomics have one width and a scope beyond the CTA, so that no two of them conflict."""
    atomics = [c for c in columns if c.kind & ATOMIC]
    return all(c.beyond_cta for c in atomics) and len({c.nbytes for c in atomics}) <= 1


def _with_conflict(granules: np.ndarray, kinds: np.ndarray, meeting: np.ndarray, atomics_agree: bool) -> np.ndarray:
    """Those meeting granules with a plain write, or an atomic one and anything that it can conflict with."""
    which = np.minimum(np.searchsorted(meeting, granules), len(meeting) - 1)
    inside = meeting[which] == granules
    which, kinds = which[inside], kinds[inside]
    written = np.zeros(len(meeting), bool)
    plain = np.zeros(len(meeting), bool)
    written[which[(kinds & WRITE) != 0]] = True
    plain[which[(kinds & ATOMIC) == 0]] = True
    return np.asarray(meeting[written & plain] if atomics_agree else meeting[written])


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
