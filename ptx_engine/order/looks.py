"""Loops that wait for memory by strong loads: whether what a loop has seen when it ends is what every schedule shows it.

A loop has counted some stores and goes on. A store that comes later and is not ordered after one of those could have come in its place:
then the loop ends in another schedule without the release of that one.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from ptx_engine.order.pairs import Oracle, Rows, observing, unordered
from ptx_engine.order.records import ATOMIC, WRITE


class Looks:
    """``early``: instructions whose look ended a loop too early for the order to be certain. Nothing is judged before one was in vain."""

    def __init__(self) -> None:
        self.early: set[int] = set()
        #: by grid-wide thread, when it had looked in vain
        self._vain: dict[int, list[int]] = {}

    def failed(self, seq: int, threads: np.ndarray) -> None:
        """Threads have looked in vain."""
        for thread in threads.tolist():
            self._vain.setdefault(thread, []).append(seq)

    def judge(self, rows: Rows, a: np.ndarray, b: np.ndarray, oracle: Oracle | None) -> None:
        """Look for early ends among unordered pairs, a before b in executed order."""
        if not self._vain:
            return
        cells = rows.cells
        some = np.flatnonzero(observing(rows, a, b) & ((rows.kind[a] & WRITE) == 0))
        stores = np.flatnonzero((rows.kind & (ATOMIC | WRITE)) == ATOMIC | WRITE)
        for load, store in zip(a[some].tolist(), b[some].tolist()):
            pc = int(cells.of("instruction", np.array([load]))[0])
            if pc in self.early or self._was_in_vain(rows, load):
                continue
            seen = stores[(cells.granule[stores] == cells.granule[load]) & (rows.seq[stores] < rows.seq[load])]
            seen = seen[cells.thread[seen] != cells.thread[store]]
            if len(unordered(rows, seen, np.full(len(seen), store), oracle)[0]):
                self.early.add(pc)

    def _was_in_vain(self, rows: Rows, load: int) -> bool:
        """Whether the thread went back to look again: it says so before its next look of the same place."""
        cells, thread, seq = rows.cells, int(rows.cells.thread[load]), int(rows.seq[load])
        vain = self._vain.get(thread, [])
        at = bisect_right(vain, seq)
        if at == len(vain):
            return False
        again = (cells.thread == thread) & (rows.seq > seq) & (rows.seq < vain[at]) & (cells.column != cells.column[load])
        return not bool((again & ((rows.kind & (ATOMIC | WRITE)) == ATOMIC) & (cells.granule == cells.granule[load])).any())
