"""Schedules that the machine does not choose by itself: warps backwards, and groups of threads in random order."""

from __future__ import annotations

import random

import numpy as np

from ptx_engine.isa.group import WARP, Group


class Backwards:
    """Every warp is a group of its own; the one with the highest threads runs until it blocks, then the next lower one."""

    def __init__(self) -> None:
        self._groups: list[Group] = []

    def begin(self, threads: int, block_threads: int) -> list[np.ndarray]:
        return warps(threads, block_threads)

    def put(self, g: Group) -> None:
        self._groups.append(g)

    def take(self) -> list[Group]:
        if not self._groups:
            return []
        chosen = max(self._groups, key=lambda g: (int(g.threads[-1]), -g.pc))
        self._groups.remove(chosen)
        return [chosen]


class Shuffled:
    """Threads start in random groups: warps, or with ``lanes`` parts of warps. A random one goes on, together with some of those that
    stand where it stands."""

    def __init__(self, seed: int, lanes: bool = False) -> None:
        self._random = random.Random(seed)
        self._lanes = lanes
        self._groups: list[Group] = []

    def begin(self, threads: int, block_threads: int) -> list[np.ndarray]:
        parts: list[np.ndarray] = []
        for warp in warps(threads, block_threads):
            side = np.array([self._random.random() < 0.5 for _ in warp]) & self._lanes
            parts += [part for part in (warp[side], warp[~side]) if len(part)]
        self._random.shuffle(parts)
        return parts

    def put(self, g: Group) -> None:
        self._groups.append(g)

    def take(self) -> list[Group]:
        if not self._groups:
            return []
        first = self._random.choice(self._groups)
        chosen = [g for g in self._groups if g is first or (g.pc == first.pc and self._random.random() < 0.5)]
        self._groups = [g for g in self._groups if not any(g is c for c in chosen)]
        return chosen


def warps(threads: int, block_threads: int) -> list[np.ndarray]:
    """The threads of each warp of a batch of CTAs."""
    every = np.arange(threads, dtype=np.int32)
    number = every // block_threads * 1024 + every % block_threads // WARP
    return np.split(every, np.flatnonzero(np.diff(number)) + 1)
