"""Which group runs next: the groups of a batch that can run, and the choice between them.

By the confluence theorem the choice changes neither terms nor verdict, unless a race is reported. The machine's own takes the lowest pc
first, so that threads that have parted meet again soon; tests take others. A group that is blocked is not given to a schedule.
"""

from __future__ import annotations

import heapq
from typing import Protocol

import numpy as np

from ptx_engine.isa.group import Group

#: blocks that groups run before the one that has waited longest is let in, by schedules that are not fair: a loop with an effect may wait
#: for it
PATIENCE = 1024


class Schedule(Protocol):
    """The groups that can run. ``put`` is told of a group whose ``pc`` is set; ``take`` gives groups that all stand at one pc and go on as
    one, none if nobody can run."""

    def begin(self, threads: int, block_threads: int) -> list[np.ndarray]:
        """The groups with which a batch of so many threads starts: sorted thread numbers that together are all of them."""
        ...

    def put(self, g: Group) -> None: ...

    def take(self) -> list[Group]: ...


def in_units(threads: int, block_threads: int, unit: int) -> list[np.ndarray]:
    """The threads of a batch in groups of ``unit``, which do not go beyond a CTA; 0: its CTAs."""
    every = np.arange(threads, dtype=np.int32)
    number = every // block_threads * block_threads + every % block_threads // (unit or block_threads)
    return np.split(every, np.flatnonzero(np.diff(number)) + 1)


class LowestFirst:
    """All threads start as one group; the group at the lowest pc runs, merged with all that have come there."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[Group]] = {}
        self._heap: list[int] = []
        #: the only group that can run, which so needs no queue
        self._alone: Group | None = None

    def begin(self, threads: int, block_threads: int) -> list[np.ndarray]:
        """See ``Schedule``."""
        return [np.arange(threads, dtype=np.int32)]

    def put(self, g: Group) -> None:
        """See ``Schedule``."""
        if self._alone is None and not self._heap:
            self._alone = g
            return
        if self._alone is not None:
            self._queue(self._alone)
            self._alone = None
        self._queue(g)

    def _queue(self, g: Group) -> None:
        if g.pc in self._waiting:
            self._waiting[g.pc].append(g)
        else:
            self._waiting[g.pc] = [g]
            heapq.heappush(self._heap, g.pc)

    def take(self) -> list[Group]:
        """See ``Schedule``."""
        if self._alone is not None:
            g, self._alone = self._alone, None
            return [g]
        return self._waiting.pop(heapq.heappop(self._heap)) if self._heap else []
