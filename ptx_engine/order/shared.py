"""The accesses to shared memory since the last full barrier of each CTA, and what outlives it: copies that are still pending."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ptx_engine.order.compact import without_superseded
from ptx_engine.order.intersect import Shadow
from ptx_engine.order.records import NEVER, WRITE, Batch, Column, Space, measure

#: (space, columns, stride, granule shift, suspicious granules)
Examine = Callable[[Space, Sequence[Column], int, int, np.ndarray], None]

#: bytes held, for each byte of the batch's shared memory, after which an interval that no barrier ends is examined and thinned out: with
#: the table by address they are 64 at most. Within these limits: 16 KiB are always affordable, 20 MiB always enough.
BYTES_PER_BYTE, LEAST, MOST = 48, 1 << 14, 20 << 20


class SharedLog:
    """Columns of the current interval of every CTA of a batch."""

    def __init__(self, shared_bytes: int, examine: Examine) -> None:
        self._stride = max(16, -(-shared_bytes // 16) * 16)
        self._shadow = Shadow()
        self._examine = examine
        self._new: list[Column] = []
        self._old: list[Column] = []
        #: thread columns of the current interval, which many accesses share
        self._threads: dict[int, np.ndarray] = {}
        #: bytes of the current interval, and how many there may be, once there is one
        self._bytes = self._limit = 0

    @property
    def held(self) -> int:
        return sum(len(c.threads) for c in (*self._new, *self._old))

    def held_bytes(self) -> int:
        """Memory of what is kept about shared memory: arrays that columns share count once, those that the machine keeps anyway too."""
        columns = (*self._new, *self._old)
        arrays = [a for c in columns for a in (c.threads, c.addresses, c.values) if a is not None]
        arrays += [g.completed for g in {id(c.group): c.group for c in columns if c.group is not None}.values() if g.completed is not None]
        return self._shadow.nbytes + sum(a.nbytes for a in {id(a): a for a in arrays}.values())

    def add(self, column: Column) -> None:
        self._new.append(column)
        self._weigh(column)
        if not self._limit:
            self._limit = self._least(column.batch)
        if self._bytes > self._limit:
            self._thin_out(column.batch)

    def _least(self, batch: Batch) -> int:
        return min(MOST, max(LEAST, BYTES_PER_BYTE * self._stride * batch.slots))

    def _weigh(self, column: Column) -> None:
        """Count the memory of a column."""
        self._bytes += column.addresses.nbytes + (0 if column.values is None else column.values.nbytes)
        if id(column.threads) not in self._threads:
            self._threads[id(column.threads)] = column.threads
            self._bytes += column.threads.nbytes

    def _weigh_anew(self, columns: Sequence[Column]) -> None:
        self._bytes, self._threads = 0, {}
        for column in columns:
            self._weigh(column)

    def close(self, seq: int, batch: Batch, slots: np.ndarray | None) -> None:
        """A full barrier at ``seq`` ends the interval of these slots (None: of all): examine it, keep what is not ordered by it."""
        new, other_new = _split(self._new, batch, slots)
        old, other_old = _split(self._old, batch, slots)
        self._check(new, old)
        kept = [part for column in (*old, *new) if (part := _outliving(column, seq)) is not None]
        for column in kept:
            column.old = True
        self._new, self._old = other_new, kept + other_old
        self._weigh_anew(self._new)
        self._limit = 0

    def clear(self) -> None:
        self._new, self._old, self._bytes, self._limit, self._threads = [], [], 0, 0, {}

    def _check(self, new: list[Column], old: list[Column]) -> None:
        writes, reads = _relevant(new, old)
        if not writes:
            return
        shift, granules = self._shadow.suspicious(writes, reads, self._stride)
        if len(granules):
            self._examine(Space.SHARED, [*writes, *reads], self._stride, shift, granules)

    def _thin_out(self, batch: Batch) -> None:
        """No barrier in sight: compare what there is, and drop accesses whose thread has repeated them since."""
        self._check(self._new, self._old)
        kept = without_superseded([*self._old, *self._new])
        for column in kept:
            column.old = True
        self._new, self._old = [], kept
        self._weigh_anew(kept)
        self._limit = max(self._least(batch), 2 * self._bytes)


def _relevant(new: list[Column], old: list[Column]) -> tuple[list[Column], list[Column]]:
    """(writes, reads) that can be part of a conflict with a new access, judged by the address range of whole columns."""
    measure(new)
    measure(old)
    writes = [c for c in new if c.kind & WRITE]
    if old and new:
        low = np.array([c.low for c in new])
        high = np.array([c.high for c in new])
        old = [c for c in old if bool(((low < c.high) & (high > c.low)).any())]
        writes += [c for c in old if c.kind & WRITE]
    else:
        old = []
    if not writes:
        return [], []
    reads = [c for c in (*new, *old) if not c.kind & WRITE]
    if reads:
        low = np.array([c.low for c in writes])
        high = np.array([c.high for c in writes])
        meets: np.ndarray = (low[:, None] < np.array([c.high for c in reads])) & (high[:, None] > np.array([c.low for c in reads]))
        reads = [reads[i] for i in np.flatnonzero(meets.any(axis=0)).tolist()]
    return writes, reads


def _split(columns: list[Column], batch: Batch, slots: np.ndarray | None) -> tuple[list[Column], list[Column]]:
    """(accesses of these slots, the others)"""
    if slots is None:
        return columns, []
    chosen = np.zeros(batch.slots, bool)
    chosen[slots] = True
    inside: list[Column] = []
    outside: list[Column] = []
    for column in columns:
        mask = chosen[batch.slot(column.threads)]
        if mask.all():
            inside.append(column)
        elif not mask.any():
            outside.append(column)
        else:
            inside.append(column.subset(mask))
            outside.append(column.subset(~mask))
    return inside, outside


def _outliving(column: Column, seq: int) -> Column | None:
    """The accesses that a full barrier at ``seq`` does not order: pending copies, and accesses of threads that had exited."""
    group, cap = column.group, column.batch.exit_cap
    if cap is None:
        if group is None or group.complete:
            return None
        if group.completed is None:
            return column
    released = np.full(len(column.threads), column.seq, np.int64) if group is None else group.completion(column.threads)
    limit = np.int64(seq) if cap is None else np.where(cap[column.threads] == NEVER, seq, cap[column.threads])
    keep = released >= limit
    if not keep.any():
        return None
    return column if keep.all() else column.subset(keep)
