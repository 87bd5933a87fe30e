"""The accesses to global memory of a whole launch, by buffer; read-only buffers cost nothing until something writes them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

import numpy as np

from ptx_engine.launch import Buffer, Role
from ptx_engine.order.compact import without_superseded
from ptx_engine.order.intersect import Shadow
from ptx_engine.order.records import WRITE, Column, Space, measure
from ptx_engine.order.traffic import Traffic

Examine = Callable[[Space, Sequence[Column], int, int, np.ndarray], None]

#: accesses after which a buffer's log is examined and thinned out, at the end of a batch
LIMIT = 1 << 20
#: so many times more are kept while a batch runs: what becomes of its loads is known at its end
WITHIN_BATCH = 4
#: columns that are sorted into regions together
GATHERED = 64


class _Region:
    """What happened to one buffer, or to the addresses between two buffers."""

    __slots__ = ("columns", "count", "ignored", "limit", "written")

    def __init__(self, ignored: bool) -> None:
        self.columns: list[Column] = []
        self.count = 0
        self.limit = LIMIT
        self.written = False
        #: a read-only buffer that nothing has written yet
        self.ignored = ignored


class GlobalLog:
    """Columns by region; region 2i is buffer i, odd ones are the gaps (module variables live there)."""

    def __init__(self, buffers: Sequence[Buffer], examine: Examine) -> None:
        self._examine = examine
        ordered = sorted(buffers, key=lambda b: b.address)
        self._incoming: list[Column] = []
        #: told of every access, where somebody asks what was touched
        self.traffic: Traffic | None = None
        self._cuts: list[int] = []
        self._regions = [_Region(ignored=False)]
        for buffer in ordered:
            self._cuts += [buffer.address, buffer.address + max(buffer.bytes, 1)]
            self._regions += [_Region(ignored=buffer.arg.role is Role.IN), _Region(ignored=False)]

    def add(self, column: Column) -> None:
        """Keep an access. Reads of read-only buffers are dropped soon."""
        self._incoming.append(column)
        if len(self._incoming) >= GATHERED:
            self._sort()

    def _sort(self) -> None:
        """Put the columns that have come in to their regions."""
        incoming, self._incoming = self._incoming, []
        measure(incoming)
        if self.traffic is not None:
            for column in incoming:
                self.traffic.add(column)
        for column in incoming:
            self._place(column)

    def _place(self, column: Column) -> None:
        first = bisect_right(self._cuts, column.low)
        if first == bisect_right(self._cuts, column.high - 1):
            self._keep(self._regions[first], column)
            return
        where = np.searchsorted(np.asarray(self._cuts, np.int64), column.addresses, "right")
        for number in np.unique(where).tolist():
            self._keep(self._regions[number], column.subset(where == number))

    def _keep(self, region: _Region, column: Column) -> None:
        if column.kind & WRITE:
            region.ignored, region.written = False, True
        elif region.ignored:
            return
        region.columns.append(column)
        region.count += len(column.threads)
        if region.count > WITHIN_BATCH * region.limit:
            self._thin_out(region)

    def end_batch(self) -> None:
        """The batch's threads have ended."""
        self._sort()
        for region in self._regions:
            if region.count > region.limit:
                self._thin_out(region)

    def close(self) -> None:
        """The launch has ended: examine all that was written."""
        self._sort()
        for region in self._regions:
            self._check(region)
            region.columns, region.count = [], 0

    def _check(self, region: _Region) -> None:
        if not region.written or not region.columns:
            return
        writes = [c for c in region.columns if c.kind & WRITE]
        reads = [c for c in region.columns if not c.kind & WRITE]
        shift, granules = Shadow().suspicious(writes, reads, 0)
        if len(granules):
            self._examine(Space.GLOBAL, region.columns, 0, shift, granules)

    def _thin_out(self, region: _Region) -> None:
        self._check(region)
        region.columns = without_superseded(region.columns)
        for column in region.columns:
            column.old = region.written
        region.count = sum(len(c.threads) for c in region.columns)
        region.limit = max(LIMIT, 2 * region.count)
