"""Schedules that are drawn by chance, the same each time: warps of random priorities, which change at random where threads synchronise.

A fault that needs few changes of who goes first shows in one of a handful of such schedules with good probability (S. Burckhardt et al.,
"A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010). What shows is real: any schedule is one.
"""

from __future__ import annotations

from collections.abc import Container

import numpy as np

from ptx_engine.isa.group import Group
from ptx_engine.machine.schedule import PATIENCE, in_units

#: how likely it is, where threads synchronise, that a warp becomes the last, and that those go on first who wait for memory
FALLS, YIELDS = 0.4, 0.5


class Drawn:
    """The group of the highest priority runs, and now and then the one that has waited longest; at instructions in ``changes`` the priority
    may change. ``unit``: threads that begin as one group (0: a CTA)."""

    def __init__(self, seed: int, unit: int, changes: Container[int]) -> None:
        self._random, self._unit, self._changes = np.random.default_rng(seed), unit, changes
        self._groups: list[Group] = []
        #: by the first thread of a group
        self._priority: dict[int, float] = {}
        self._lowest = 0.0
        self._taken = 0
        #: whether nothing has been taken since those who wait for memory were let in
        self._yielded = False

    def begin(self, threads: int, block_threads: int) -> list[np.ndarray]:
        """See ``Schedule``: the warps, or the CTAs."""
        return in_units(threads, block_threads, self._unit)

    def put(self, g: Group) -> None:
        """See ``Schedule``."""
        first = int(g.threads[0])
        if first not in self._priority:
            self._priority[first] = self._random.random()
        if g.pc in self._changes and self._random.random() < FALLS:
            self._lowest -= 1
            self._priority[first] = self._lowest
        self._groups.append(g)

    def take(self) -> list[Group]:
        """See ``Schedule``; nothing, at times, where loops that wait for memory are to look before anybody else goes on."""
        if not self._groups:
            return []
        self._taken += 1
        if self._taken % PATIENCE == 0:
            return [self._groups.pop(0)]
        best = max(range(len(self._groups)), key=lambda i: self._priority[int(self._groups[i].threads[0])])
        if not self._yielded and self._groups[best].pc in self._changes and self._random.random() < YIELDS:
            self._yielded = True
            return []
        self._yielded = False
        return [self._groups.pop(best)]
