"""A second opinion on the order of shared memory, byte by byte: who touched a byte since the last barrier of its CTA, and what is in flight.

Only for CTAs whose barriers are all full, of the CTA or of a warp (as Triton's are). An interval between two barriers of the CTA is a set of
accesses without order between threads, but for those of one warp with a barrier of that warp between them: every access carries the number
of its warp's barriers so far. A copy is in flight from its issue to the wait of its thread for its group, and counts as that thread's write
when waited for. Knows nothing of the checker but the calls by which the machine tells it what happens.
"""

from __future__ import annotations

import numpy as np

from ptx_engine.order.checker import OrderChecker
from ptx_engine.order.copies import WAIT_ALL
from ptx_engine.order.records import Space

WARP = 32
#: no thread (or warp), and several
NOBODY, SEVERAL = np.int32(-1), np.int32(-2)


class Judge:
    """The bytes of shared memory of a batch of CTAs. ``conflicts`` counts accesses that meet another thread's, or a copy in flight."""

    def __init__(self, slots: int, shared_bytes: int, block_threads: int) -> None:
        self._bytes, self._n = shared_bytes, block_threads
        size, every = slots * shared_bytes, np.arange(slots * block_threads)
        self._warp_of = (every // block_threads * 32 + every % block_threads // WARP).astype(np.int32)
        #: barriers of each warp so far
        self._round = np.zeros(slots * 32, np.int64)
        self._writer, self._written = np.full(size, NOBODY), np.zeros(size, np.int64)
        self._reader, self._reading_warp, self._read = np.full(size, NOBODY), np.full(size, NOBODY), np.zeros(size, np.int64)
        self._in_flight = np.zeros(size, bool)
        self._copies: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # bytes, thread of each, group of each
        self._committed = np.zeros(slots * block_threads, np.int64)
        self._complete = np.zeros(slots * block_threads, np.int64)
        self.conflicts = 0

    def _touched(self, threads: np.ndarray, addresses: "int | np.ndarray", nbytes: int) -> tuple[np.ndarray, np.ndarray]:
        """(byte, thread) of each byte of each access."""
        start = threads // self._n * self._bytes + np.broadcast_to(np.asarray(addresses).astype(np.int64), threads.shape)
        return (start[:, None] + np.arange(nbytes)).ravel(), np.repeat(threads.astype(np.int32), nbytes)

    def read(self, threads: np.ndarray, addresses: "int | np.ndarray", nbytes: int) -> None:
        at, who = self._touched(threads, addresses, nbytes)
        self.conflicts += int(np.count_nonzero(self._in_flight[at] | self._written_by_other(at, who)))
        at, inverse = np.unique(at, return_inverse=True)
        low, high = np.full(len(at), np.iinfo(np.int32).max, np.int32), np.full(len(at), NOBODY)
        np.minimum.at(low, inverse.ravel(), who)
        np.maximum.at(high, inverse.ravel(), who)
        warp, now = self._warp_of[low], self._round[self._warp_of[low]]
        first = (self._reading_warp[at] == NOBODY) | ((self._reading_warp[at] == warp) & (self._read[at] < now))
        self._reader[at] = np.where((low == high) & (first | (self._reader[at] == low)), low, SEVERAL)
        alone = (warp == self._warp_of[high]) & ((self._reading_warp[at] == NOBODY) | (self._reading_warp[at] == warp))
        self._reading_warp[at] = np.where(alone, warp, SEVERAL)
        self._read[at] = now

    def write(self, threads: np.ndarray, addresses: "int | np.ndarray", nbytes: int) -> None:
        at, who = self._touched(threads, addresses, nbytes)
        self._meets(at, who)
        self._own(at, who)  # lanes of one store that hit one byte are replicas of one value: no matter of order

    def issue(self, threads: np.ndarray, addresses: "int | np.ndarray", nbytes: int) -> None:
        """An asynchronous copy to shared memory."""
        at, who = self._touched(threads, addresses, nbytes)
        self._meets(at, who)
        self._in_flight[at] = True
        self._copies.append((at, who, self._committed[who]))

    def commit(self, threads: np.ndarray) -> None:
        self._committed[threads] += 1

    def wait(self, threads: np.ndarray, pending: int) -> None:
        if pending == WAIT_ALL:
            self.commit(threads)
            pending = 0
        self._complete[threads] = np.maximum(self._complete[threads], self._committed[threads] - pending)
        still: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for at, who, group in self._copies:
            arrived = self._complete[who] > group
            self._in_flight[at[arrived]] = False
            self._own(at[arrived], who[arrived])
            if not arrived.all():
                still.append((at[~arrived], who[~arrived], group[~arrived]))
        self._copies = still

    def barrier(self, threads: np.ndarray) -> None:
        """All threads of some CTAs: what came before is ordered, but for copies in flight."""
        slots, counts = np.unique(threads // self._n, return_counts=True)
        assert (counts == self._n).all(), "a barrier of some threads only"
        for slot in slots.tolist():
            span = slice(slot * self._bytes, (slot + 1) * self._bytes)
            self._writer[span] = self._reader[span] = self._reading_warp[span] = NOBODY

    def warp_barrier(self, threads: np.ndarray) -> None:
        """All lanes of some warps."""
        warps, counts = np.unique(self._warp_of[threads], return_counts=True)
        assert (counts == WARP).all(), "a barrier of some lanes only"
        self._round[warps] += 1

    def _own(self, at: np.ndarray, who: np.ndarray) -> None:
        self._writer[at], self._written[at] = who, self._round[self._warp_of[who]]

    def _written_by_other(self, at: np.ndarray, who: np.ndarray) -> np.ndarray:
        """By another thread, with no barrier of a common warp since."""
        writer, warp = self._writer[at], self._warp_of[who]
        since = (self._warp_of[np.maximum(writer, 0)] == warp) & (self._written[at] < self._round[warp])
        return np.asarray((writer != NOBODY) & (writer != who) & ~since)

    def _meets(self, at: np.ndarray, who: np.ndarray) -> None:
        warp = self._warp_of[who]
        since = (self._reading_warp[at] == warp) & (self._read[at] < self._round[warp])
        read = (self._reader[at] != NOBODY) & (self._reader[at] != who) & ~since
        self.conflicts += int(np.count_nonzero(self._in_flight[at] | read | self._written_by_other(at, who)))


class JudgedChecker(OrderChecker):
    """The order checker, with a judge that hears the same. ``conflicts`` of all batches together."""

    latest: "JudgedChecker"

    def __init__(self, launch, shared_bytes, buffers, **options) -> None:
        super().__init__(launch, shared_bytes, buffers, **options)
        JudgedChecker.latest = self
        self._size = (max(1, shared_bytes), launch.threads)
        self._judges: list[Judge] = []

    @property
    def conflicts(self) -> int:
        return sum(judge.conflicts for judge in self._judges)

    def begin_batch(self, ctas) -> None:
        super().begin_batch(ctas)
        self._judges.append(Judge(len(ctas), *self._size))

    def read(self, space, instruction, threads, addresses, nbytes) -> None:
        super().read(space, instruction, threads, addresses, nbytes)
        if space is Space.SHARED:
            self._judges[-1].read(threads, addresses, nbytes)

    def write(self, space, instruction, threads, addresses, nbytes, values=None) -> None:
        super().write(space, instruction, threads, addresses, nbytes, values)
        if space is Space.SHARED:
            self._judges[-1].write(threads, addresses, nbytes)

    def async_copy(self, instruction, threads, shared_addresses, global_addresses, nbytes, *sources) -> None:
        super().async_copy(instruction, threads, shared_addresses, global_addresses, nbytes, *sources)
        self._judges[-1].issue(threads, shared_addresses, nbytes)

    def commit_group(self, instruction, threads) -> None:
        super().commit_group(instruction, threads)
        self._judges[-1].commit(threads)

    def wait_group(self, instruction, threads, pending) -> None:
        super().wait_group(instruction, threads, pending)
        self._judges[-1].wait(threads, pending)

    def cta_barrier(self, instruction, threads, barrier_id=0, count=None) -> None:
        super().cta_barrier(instruction, threads, barrier_id, count)
        self._judges[-1].barrier(threads)

    def warp_barrier(self, instruction, threads) -> None:
        super().warp_barrier(instruction, threads)
        self._judges[-1].warp_barrier(threads)
