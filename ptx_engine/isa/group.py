"""A group: threads of a batch of CTAs that stand at the same instruction and execute it in lockstep."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptx_engine.isa.values import Value, take

WARP = 32


class Group:
    """``R`` holds one value per register and immediate; ``threads`` are sorted batch thread numbers (slot * block + tid).

    ``slots`` is the CTA slot of each thread (an int when all are of one CTA). ``n == len(threads)``.
    """

    __slots__ = ("R", "_warps", "block_threads", "n", "pc", "slots", "threads")

    def __init__(self, R: list[Value], threads: np.ndarray, block_threads: int, pc: int) -> None:
        self.R = R
        self.threads = threads
        self.block_threads = block_threads
        self.n = len(threads)
        self.pc = pc
        first, last = int(threads[0]) // block_threads, int(threads[-1]) // block_threads
        self.slots: int | np.ndarray = first if first == last else threads // np.int32(block_threads)
        self._warps: bool | None = None

    @property
    def whole_warps(self) -> bool:
        """Whether the threads come in complete warps, in order (so that a column reshapes to (warps, 32))."""
        if self._warps is None:
            tid = self.threads % self.block_threads
            lanes = tid % WARP
            self._warps = (
                self.n % WARP == 0
                and bool((lanes.reshape(-1, WARP) == np.arange(WARP)).all())
                and bool((np.diff(self.threads.reshape(-1, WARP), axis=1) == 1).all())
            )
        return self._warps

    def subset(self, index: np.ndarray, registers: "Sequence[int]") -> "Group":
        """A group of the threads at ``index``; only ``registers`` are carried over (the rest are shared columns)."""
        values: list[Value] = [None] * len(self.R)
        for r in registers:
            values[r] = take(self.R[r], index)
        return Group(values, self.threads[index], self.block_threads, self.pc)

    def replica(self) -> "Group":
        """A second group of the same threads: after ``bar.arrive`` the first one only stands for the arrival."""
        return Group(list(self.R), self.threads, self.block_threads, self.pc)

    def lane_and_warp(self) -> tuple[np.ndarray, np.ndarray]:
        """Lane in the warp, and a number unique to each warp of the batch."""
        tid = self.threads % self.block_threads
        per_cta = (self.block_threads + WARP - 1) // WARP
        return tid % WARP, (self.threads // self.block_threads) * per_cta + tid // WARP
