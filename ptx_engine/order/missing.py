"""What would order two unordered accesses: the missing wait, barrier or scope, and the barrier that was reached by too few."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ptx_engine.order.pairs import Rows
from ptx_engine.order.records import ASYNC, ATOMIC, NEVER, VOLATILE, WRITE


class Missing(IntEnum):
    """What would order two accesses."""

    BARRIER = 0
    WARP_BARRIER = 1
    WAIT = 2
    BARRIER_AFTER_WAIT = 3
    BARRIER_BEFORE_COPY = 4
    GRID_ORDER = 5
    EXITED = 6
    SCOPE = 7
    WIDTH = 8
    WAIT_BEFORE_REUSE = 9


MISSING_TEXT = {
    Missing.BARRIER: "no barrier between them",
    Missing.WARP_BARRIER: "no bar.warp.sync between two lanes of one warp (lanes do not run in lockstep)",
    Missing.WAIT: "no cp.async.wait_group for the group that wrote it",
    Missing.BARRIER_AFTER_WAIT: "waited for by the thread that issued the copy, but no barrier after the wait orders it for another thread",
    Missing.BARRIER_BEFORE_COPY: "no barrier between the access and the cp.async that overwrites its bytes",
    Missing.GRID_ORDER: "no order exists between CTAs of a grid",
    Missing.EXITED: "the thread exited before the barrier, which therefore says nothing about its accesses",
    Missing.SCOPE: "atomics of scope cta do not exclude those of another CTA",
    Missing.WIDTH: "atomics of different widths or addresses do not exclude each other",
    Missing.WAIT_BEFORE_REUSE: "no cp.async.wait_group for the group that reads it",
}


#: said besides where there are mbarriers
OR_PHASE = {
    Missing.BARRIER: ", nor a wait for a phase of an mbarrier in which the other thread has arrived in between",
    Missing.WAIT: ", nor a wait for a phase of an mbarrier on which its copies arrive (cp.async.mbarrier.arrive)",
    Missing.WAIT_BEFORE_REUSE: ", nor a wait for a phase of an mbarrier on which its copies arrive (cp.async.mbarrier.arrive)",
    Missing.BARRIER_BEFORE_COPY: ", nor a wait for a phase of an mbarrier in which the other thread has arrived after it",
}


def classify(rows: Rows, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The ``Missing`` of each unordered pair (a before b in executed order)."""
    kind_a, kind_b = rows.kind[a], rows.kind[b]
    same_cta, same_thread = rows.cta[a] == rows.cta[b], rows.cells.thread[a] == rows.cells.thread[b]
    copy_a, copy_b = (kind_a & ASYNC) != 0, (kind_b & ASYNC) != 0
    waited = rows.released[a] < rows.seq[b]
    both_atomic = (kind_a & kind_b & ATOMIC) != 0
    exited = (rows.cap[a] != NEVER) & (rows.released[a] < rows.base[b])
    shape = (rows.cells.of("nbytes", a) != rows.cells.of("nbytes", b)) | (rows.cells.offset[a] != rows.cells.offset[b])
    volatile = (kind_a & kind_b & VOLATILE) != 0
    cases = [
        (volatile & ~shape & same_cta & (rows.warp[a] == rows.warp[b]), Missing.WARP_BARRIER),
        (both_atomic & shape, Missing.WIDTH),
        (both_atomic, Missing.SCOPE),
        (~same_cta, Missing.GRID_ORDER),
        (exited & ~same_thread, Missing.EXITED),
        (copy_a & ~waited & ((kind_a & WRITE) == 0), Missing.WAIT_BEFORE_REUSE),
        (copy_a & ~waited, Missing.WAIT),
        (copy_a & waited, Missing.BARRIER_AFTER_WAIT),
        (copy_b & ((kind_b & WRITE) != 0), Missing.BARRIER_BEFORE_COPY),
        (rows.warp[a] == rows.warp[b], Missing.WARP_BARRIER),
    ]
    return np.select([case for case, _ in cases], [int(m) for _, m in cases], int(Missing.BARRIER))


@dataclass(frozen=True)
class Partial:
    """A completed barrier of some threads of a CTA only; ``tids`` sorted."""

    seq: int
    instruction: int
    barrier_id: int
    cta: int
    tids: np.ndarray


class PartialBarriers:
    """The barriers that left threads out, to be named where one of them stands between two unordered accesses."""

    #: remembered at most; a later one is not named, which costs a hint and no finding
    LIMIT = 4096

    def __init__(self, threads_per_cta: int, warp_size: int) -> None:
        self._n, self._warp_size = threads_per_cta, warp_size
        self._known: list[Partial] = []

    def add(self, seq: int, instruction: int, barrier_id: int, grid_threads: np.ndarray) -> None:
        """Threads (sorted) of one or more CTAs completed a barrier that is not full."""
        cta, tid = np.divmod(grid_threads, self._n)
        for number in np.unique(cta).tolist():
            if len(self._known) < self.LIMIT:
                self._known.append(Partial(seq, instruction, barrier_id, number, tid[cta == number]))

    def between(self, rows: Rows, a: int, b: int) -> tuple[Partial, str] | None:
        """A barrier executed between two accesses of one CTA that one of their threads reached and the other did not, in words."""
        if rows.cta[a] != rows.cta[b]:
            return None
        cta = int(rows.cta[a])
        one, two = (int(rows.cells.thread[r]) - cta * self._n for r in (a, b))
        for barrier in self._known:
            if barrier.cta == cta and rows.seq[a] < barrier.seq < rows.seq[b] and (one in barrier.tids) != (two in barrier.tids):
                return barrier, f"barrier {barrier.barrier_id} between them is reached by {self._who(barrier.tids)} only"
        return None

    def _who(self, tids: np.ndarray) -> str:
        """ "warps 0-1", or "32 threads of warps 0, 2" where warps are split."""
        warps = np.unique(tids // self._warp_size)
        contiguous = len(warps) > 1 and warps[-1] - warps[0] == len(warps) - 1
        names = f"{warps[0]}-{warps[-1]}" if contiguous else ", ".join(map(str, warps.tolist()))
        which = f"warp{'s' * (len(warps) > 1)} {names}"
        whole = min(self._n, self._warp_size) * len(warps) == len(tids)
        return which if whole else f"{len(tids)} threads of {which}"
