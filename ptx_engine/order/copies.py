"""Groups of asynchronous copies (``cp.async``): which copies a wait has completed, per thread.

``commit_group`` closes a thread's current group, ``wait_group N`` completes all but its latest N committed ones. Arrays are replaced,
never changed in place, so that a column can keep the group numbers it was issued under by reference.
"""

from __future__ import annotations

import numpy as np

from ptx_engine.order.records import NEVER, Batch, IssueGroup

#: ``pending`` of ``cp.async.wait_all``, which also completes copies that were never committed
WAIT_ALL = -1


class AsyncCopies:
    """The groups of all threads of a batch."""

    def __init__(self, batch: Batch) -> None:
        self._threads = batch.threads
        self._committed = np.zeros(batch.threads, np.int32)
        self._done = np.zeros(batch.threads, np.int32)
        self._current: IssueGroup | None = None
        self._open: list[IssueGroup] = []
        self._issued: list[tuple[int, np.ndarray]] = []

    def issue(self, seq: int, threads: np.ndarray) -> IssueGroup:
        """The group under which a copy issued now is kept."""
        self._issued.append((seq, threads))
        if self._current is None:
            self._current = IssueGroup(self._committed)
            self._open.append(self._current)
        return self._current

    def last_issue(self, threads: np.ndarray) -> np.ndarray:
        """When each thread issued its latest copy; -1 if it has issued none."""
        last = np.full(self._threads, -1, np.int64)
        for seq, issuing in reversed(self._issued):
            last[issuing] = np.maximum(last[issuing], seq)
            if (last[threads] >= 0).all():
                break
        return np.asarray(last[threads])

    def commit(self, threads: np.ndarray) -> None:
        if len(threads) == self._threads:
            self._committed = self._committed + np.int32(1)
        else:
            self._committed = self._committed.copy()
            self._committed[threads] += 1
        self._current = None

    def wait(self, seq: int, threads: np.ndarray, pending: int) -> None:
        """All but the latest ``pending`` committed groups of these threads are complete from ``seq`` on (WAIT_ALL: all copies)."""
        if pending == WAIT_ALL:
            self.commit(threads)
            pending = 0
        if len(threads) == self._threads:
            self._done = np.maximum(self._done, self._committed - np.int32(pending))
        else:
            self._done = self._done.copy()
            self._done[threads] = np.maximum(self._done[threads], self._committed[threads] - np.int32(pending))
        for group in self._open:
            self._complete(group, seq)
        self._open = [group for group in self._open if not group.complete]

    def _complete(self, group: IssueGroup, seq: int) -> None:
        covered = self._done > group.number
        if group.completed is None:
            if not covered.any():
                return
            group.completed = np.where(covered, np.int64(seq), NEVER)
        else:
            group.completed = np.where(covered & (group.completed == NEVER), np.int64(seq), group.completed)
        group.complete = bool(covered.all())
