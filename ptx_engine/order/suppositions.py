"""What threads know only where a single test of an mbarrier has succeeded.

A success tells what the arrivals of the phase have released. In another schedule the same test may fail, and the thread goes another way.
So it is known at the instructions that run after a success alone (the machine says which), and forgotten at all others: there the thread
knows what it knew before, whether or not the test has succeeded in the schedule that ran. What it has learned in between by other means is
forgotten with it, as in other schedules it has not been there. Where every schedule comes, and has seen a success by then, it is settled:
known for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ptx_engine.order.clocks import Clock


class Suppositions:
    """By grid-wide thread."""

    def __init__(self) -> None:
        #: by thread and place, what the last success tells
        self._told: dict[tuple[int, int], Clock] = {}
        #: the places a thread relies on now, and what it knew before
        self._places: dict[int, int] = {}
        self._before: dict[int, Clock] = {}

    def tested(self, thread: int, place: int, clock: Clock) -> None:
        """A test at a place has succeeded, and tells a clock."""
        self._told[thread, place] = clock

    def standing(self, thread: int) -> int:
        """The places a thread relies on now."""
        return self._places.get(thread, 0)

    def stand(self, thread: int, places: int, known: Clock, *, settled: bool = False) -> tuple[Clock, list[Clock]]:
        """A thread, which knows a clock now, relies on some places from now on: what it knows anyway, and what their tests tell.
        ``settled``: it knows that for good, and relies on none."""
        before = self._before.pop(thread) if self.standing(thread) else known
        self._places[thread] = 0 if settled else places
        if self._places[thread]:
            self._before[thread] = before
        found = [self._told.get((thread, place)) for place in range(places.bit_length()) if places >> place & 1]
        return before, [clock for clock in found if clock is not None]
