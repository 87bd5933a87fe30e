"""Happens-before checking of a launch, told by the machine what happens in the one schedule that it runs.

Between two full barriers of a CTA access columns are only collected; when the interval ends they are intersected in bulk.
Conflicting pairs that no barrier orders go to vector clocks (``clocks``) if anything but full barriers synchronised. Global memory is
examined when enough accesses have gathered, and at the end. By confluence, a launch without findings is ordered in every schedule;
barrier deadlocks are the machine's to see.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ptx_engine.errors import BudgetError
from ptx_engine.findings import Finding
from ptx_engine.launch import Buffer, Launch
from ptx_engine.order.clocks import Arrive, Atomic, Clocks, Event, Exchange, Fence, Join, Overwrite, Reset, Stand
from ptx_engine.order.copies import AsyncCopies
from ptx_engine.order.equal_writes import ValueKeys, equal_writes
from ptx_engine.order.globals import GlobalLog
from ptx_engine.order.intersect import gather
from ptx_engine.order.looks import Looks
from ptx_engine.order.pairs import Oracle, Rows, rows_of, unordered_pairs
from ptx_engine.order.phases import Await, PhaseEnd, PhaseEvent, Renewal, Signal, Tested
from ptx_engine.order.phases import Memory as PhaseMemory
from ptx_engine.order.records import (
    ANYWHERE,
    ASYNC,
    ATOMIC,
    MBARRIER_BYTES,
    NEVER,
    READ,
    VOLATILE,
    WRITE,
    AtomicKind,
    Batch,
    Column,
    Epoch,
    IssueGroup,
    MemoryOrder,
    Observation,
    Scope,
    Space,
    Touch,
)
from ptx_engine.order.report import ReachOf, Report
from ptx_engine.order.shared import SharedLog
from ptx_engine.order.traffic import Traffic
from ptx_engine.order.turns import Turn

WARP_SIZE = 32

_ATOMIC_KIND = {
    AtomicKind.RMW: ATOMIC | READ | WRITE,
    AtomicKind.REDUCE: ATOMIC | READ | WRITE,
    AtomicKind.LOAD: ATOMIC | READ,
    AtomicKind.STORE: ATOMIC | WRITE,
}


class OrderChecker:
    """Collects accesses and synchronisation of a launch, batch of CTAs after batch; ``finish`` gives the findings.

    ``threads`` are int32 batch thread numbers, without repetition in one call; ``addresses`` integer byte addresses, offsets into
    the CTA's window for shared memory, or one int for all threads. Arrays are kept by reference and must not change afterwards.
    All accesses must be within bounds; an access of ``nbytes`` is one access.
    """

    def __init__(
        self, launch: Launch, shared_bytes: int, buffers: Sequence[Buffer], warp_size: int = WARP_SIZE,
        value_keys: ValueKeys = (), reach: ReachOf = lambda instruction: ANYWHERE, deadline_s: float | None = None,
    ) -> None:  # fmt: skip
        """``deadline_s`` is of ``time.perf_counter``: an examination that goes on beyond it raises BudgetError."""
        self.deadline_s, self._out_of_time = deadline_s, False
        self._launch = launch
        self._n = launch.threads
        self._warp_size = warp_size
        self._seq = 0
        #: accesses of single threads so far, to shared and global memory
        self.accesses = 0
        #: kept with the accesses that follow, and shown with findings about them
        self.turn: Turn = ()
        #: of loops that wait for memory, if it is told of those in vain
        self.looks = Looks()
        #: instructions that run only where tests at some places (bits) have succeeded; set before anything runs
        self.behind_success: Mapping[int, int] = {}
        #: of those, where every schedule comes: what the tests have told is known from there on
        self.settled: Mapping[int, int] = {}
        #: told of every access
        self.listener: Callable[[Space, Column], None] | None = None
        self._value_keys = value_keys
        self._report = Report(launch, buffers, warp_size, value_keys, reach)
        self._shared = SharedLog(shared_bytes, self._examine)
        self._global = GlobalLog(buffers, self._examine)
        self._buffers = buffers
        self._clocks = Clocks(self._n)
        self._events: list[Event] = []
        #: whether anything synchronised that is not a full barrier of a CTA or a warp
        self._beyond_barriers = False
        self._fences = False
        #: whether there are phases of mbarriers, and whether they, or uses of numbered barriers, have to be looked at
        self._phased = self._replays = False
        self._start(np.zeros(0, np.int32))

    @property
    def needed(self) -> bool:
        """False if only one thread runs: then only asynchronous copies can be unordered."""
        ctas = self._launch.cta_count if self._launch.ctas is None else len(self._launch.ctas)
        return self._n * ctas > 1

    @property
    def assumptions(self) -> list[str]:
        """What the findings lean on, for the ledger: a flag that several unordered threads store, or a counter that is not awaited in
        full, may be seen with other values in other schedules."""
        return ["atomics exchange the values of the schedule that ran"] if self._clocks.observed else []

    def look_failed(self, threads: np.ndarray) -> None:
        """Threads have looked in vain, in a loop that waits for memory."""
        self.looks.failed(self._tick(), self._batch.grid_threads(threads))

    def determined(self, load: int) -> bool:
        """Whether all strong stores to what a strong load has read are ordered with it, so that it reads the same in every schedule."""
        return load not in self._report.chances

    @property
    def shared_accesses_held(self) -> int:
        """Accesses to shared memory kept for later comparison: bounded, whatever the program."""
        return self._shared.held

    @property
    def shared_bytes_held(self) -> int:
        """Memory that these accesses take."""
        return self._shared.held_bytes()

    def follow_traffic(self) -> None:
        """From now on, note which pieces of global memory are touched (``traffic``)."""
        self._global.traffic = Traffic(self._buffers)

    @property
    def traffic(self) -> Traffic:
        """What was touched since ``follow_traffic``, up to the last batch that ended. Raises LookupError before it."""
        if self._global.traffic is None:
            raise LookupError("nobody follows the traffic")
        return self._global.traffic

    # --- batches ------------------------------------------------------------------------------

    def begin_batch(self, ctas: np.ndarray) -> None:
        """Start a batch: slot s is CTA ``ctas[s]`` (int32 linear numbers, x fastest)."""
        self._start(ctas)

    def _start(self, ctas: np.ndarray) -> None:
        self._batch = Batch(ctas, self._n, self._warp_size)
        never = np.full(self._batch.slots * max(1, self._batch.warps_per_cta), -1, np.int64)
        self._epoch = Epoch(self._batch, never[: self._batch.slots], never)
        self._live = np.full(self._batch.slots, self._n, np.int64)
        self._copies = AsyncCopies(self._batch)
        self._arrived: set[tuple[int, int]] = set()
        #: by thread, the places it relies on
        self._standing = np.zeros(self._batch.threads, np.int64)
        #: by thread, the places whose last success tells what it does not know for good
        self._unsettled = np.zeros(self._batch.threads, np.int64)

    def end_batch(self) -> None:
        """The CTAs of the batch have run to their end."""
        self._shared.close(self._tick(), self._batch, None)
        self._shared.clear()
        self._batch.ended = True
        self._global.end_batch()
        if self._replays:
            self._replay()
        if not self._beyond_barriers:
            self._events.clear()

    def finish(self) -> list[Finding]:
        """All findings of the launch, errors first, in a fixed order. Of a launch that was stopped in a batch: those so far."""
        self._batch.ended = True
        self._global.close()
        if self._replays:
            self._replay()
        return self._report.findings(self._clocks.phases.breaches.values(), self._clocks.uses.overlaps.values())

    # --- accesses -----------------------------------------------------------------------------

    def read(self, space: Space, instruction: int, threads: np.ndarray, addresses: np.ndarray | int, nbytes: int) -> None:
        """A plain load."""
        self._access(space, READ, instruction, threads, addresses, nbytes)

    def write(
        self,
        space: Space,
        instruction: int,
        threads: np.ndarray,
        addresses: np.ndarray | int,
        nbytes: int,
        values: np.ndarray | None = None,
    ) -> None:
        """A plain store. ``values`` (n,) or (n, k): opaque ids of what is stored, equal where the value is; None if not known."""
        column = self._access(space, WRITE, instruction, threads, addresses, nbytes, values)
        if column is not None and self._beyond_barriers:
            self._events.append(Overwrite(column.seq, self._batch, column.threads, column.addresses, nbytes, space))

    def atomic(
        self,
        space: Space,
        instruction: int,
        threads: np.ndarray,
        addresses: np.ndarray | int,
        nbytes: int,
        scope: Scope,
        order: MemoryOrder,
        kind: AtomicKind = AtomicKind.RMW,
        observation: Observation = Observation.DECIDES,
        *,
        volatile: bool = False,
    ) -> None:
        """A strong operation, in the order in which the values were exchanged: ``atom``, ``red``, ``ld.relaxed/acquire/volatile``,
        ``st.relaxed/release/volatile``. A polling loop is told of its last, successful load (and may be of the others)."""
        what = _ATOMIC_KIND[kind] | (VOLATILE if volatile and space is Space.SHARED else 0)
        column = self._access(space, what, instruction, threads, addresses, nbytes, beyond_cta=scope.beyond_cta)
        if column is None:
            return
        observes = kind in (AtomicKind.RMW, AtomicKind.LOAD) and observation is Observation.DECIDES
        self._beyond_barriers |= order is not MemoryOrder.RELAXED or self._fences or observes
        self._events.append(
            Atomic(column.seq, self._batch, threads, column.addresses, space, kind, order, scope.beyond_cta, observation)
        )  # fmt: skip

    def async_copy(
        self,
        instruction: int,
        threads: np.ndarray,
        shared_addresses: np.ndarray | int,
        global_addresses: np.ndarray | int,
        nbytes: int,
        global_bytes: int | None = None,
        reads: np.ndarray | None = None,
    ) -> None:
        """``cp.async``: an agent writes ``nbytes`` of shared memory and reads ``global_bytes`` (the same, by default) of global memory.
        ``reads`` masks the threads whose source is read at all (src-size 0 reads nothing)."""
        group = self._copies.issue(self._tick(), threads)
        self._access(Space.SHARED, WRITE | ASYNC, instruction, threads, shared_addresses, nbytes, None, group)
        if reads is not None and not reads.all():
            threads = threads[reads]
            global_addresses = global_addresses if isinstance(global_addresses, int) else global_addresses[reads]
        if len(threads):
            width = nbytes if global_bytes is None else global_bytes
            self._access(Space.GLOBAL, READ | ASYNC, instruction, threads, global_addresses, width, None, group)

    def _access(
        self, space: Space, kind: int, instruction: int, threads: np.ndarray, addresses: np.ndarray | int, nbytes: int,
        values: np.ndarray | None = None, group: IssueGroup | None = None, beyond_cta: bool = True,
    ) -> Column | None:  # fmt: skip
        if space is Space.LOCAL or not len(threads):
            return None
        if not isinstance(addresses, np.ndarray):
            addresses = np.full(len(threads), addresses, np.int64)
        elif addresses.dtype == np.uint64:
            addresses = addresses.view(np.int64)  # beside int64, NumPy would make both float64
        self._come(instruction, threads)
        self._seq += 1
        self.accesses += len(threads)
        if kind & WRITE:
            self._batch.stores[threads] = True
        column = Column(self._seq, kind, instruction, threads, addresses, nbytes, self._epoch, values, group, beyond_cta, turn=self.turn)
        if self.listener is not None:
            self.listener(space, column)
        if space is Space.SHARED:
            self._shared.add(column)
        else:
            self._global.add(column)
        return column

    # --- asynchronous copies ------------------------------------------------------------------

    def commit_group(self, instruction: int, threads: np.ndarray) -> None:
        """``cp.async.commit_group``"""
        self._copies.commit(threads)

    def wait_group(self, instruction: int, threads: np.ndarray, pending: int) -> None:
        """``cp.async.wait_group``: all but the latest ``pending`` committed groups are complete for the executing thread.
        ``pending`` WAIT_ALL (-1) is ``cp.async.wait_all``, which also completes copies that were not committed."""
        self._copies.wait(self._tick(), threads, pending)

    # --- synchronisation ----------------------------------------------------------------------

    def cta_barrier(self, instruction: int, threads: np.ndarray, barrier_id: int = 0, count: int | None = None) -> None:
        """``bar.sync``/``bar.red`` completed: all threads that waited at it, sorted, of every CTA in which it completes now."""
        self._stand(threads, 0)
        seq = self._tick()
        slots_of = self._batch.slot(threads)
        slots, counts = np.unique(slots_of, return_counts=True)
        full = counts == self._live[slots]
        keys = [(slot, barrier_id) for slot in slots.tolist()]
        late = np.array([key in self._arrived for key in keys], bool) if self._arrived else np.zeros(len(slots), bool)
        self._arrived.difference_update(keys)
        self._events.append(Join(seq, self._batch, threads, slots_of, barrier_id, instruction))
        if full.any():
            self._full_barrier(seq, slots[full])
            # who has exited may have told of its accesses before, by a barrier of its warp: the clocks know
            self._beyond_barriers |= self._batch.exit_cap is not None
        if late.any() or not full.all():
            self._beyond_barriers = self._replays = True
            left_out = threads[~full[np.searchsorted(slots, slots_of)]]
            self._report.partial.add(seq, instruction, barrier_id, self._batch.grid_threads(left_out))

    def _full_barrier(self, seq: int, slots: np.ndarray) -> None:
        every = len(slots) == self._batch.slots
        self._shared.close(seq, self._batch, None if every else slots)
        self._epoch = self._epoch.after(seq, slots)

    def cta_arrive(self, instruction: int, threads: np.ndarray, barrier_id: int, count: int | None = None) -> None:
        """``bar.arrive`` executes (not: completes); the next ``cta_barrier`` of that id in the CTA acquires it."""
        self._beyond_barriers = self._replays = True
        self._come(instruction, threads)
        self._arrived.update((slot, barrier_id) for slot in np.unique(self._batch.slot(threads)).tolist())
        self._events.append(Arrive(self._tick(), self._batch, threads, barrier_id, instruction))
        # it does not wait for other warps, but for the threads of its own ("bar, barrier")
        self._events.append(Exchange(self._tick(), self._batch, threads, self._batch.warp(threads)))

    def cta_reset(self, instruction: int, slots: np.ndarray, barrier_id: int) -> None:
        """A barrier completed by ``bar.arrive`` alone: nobody waits for these arrivals."""
        self._arrived.difference_update((slot, barrier_id) for slot in slots.tolist())
        self._events.append(Reset(self._tick(), self._batch, slots, barrier_id, instruction))

    def warp_barrier(self, instruction: int, threads: np.ndarray) -> None:
        """``bar.warp.sync`` completed: orders the participating lanes of each warp, and nobody else."""
        self.settle(instruction, threads)
        self._stand(threads, 0)
        warps_of = self._batch.warp(threads)
        warps, counts = np.unique(warps_of, return_counts=True)
        first = warps % self._batch.warps_per_cta * self._warp_size
        full = counts == np.minimum(self._warp_size, self._n - first)
        if self._batch.warps_per_cta == 1 and full.all():
            slots = np.unique(self._batch.slot(threads))
            seq = self._tick()
            self._full_barrier(seq, slots)
            self._events.append(Join(seq, self._batch, threads, warps_of))
            return
        seq = self._tick()
        self._epoch = self._epoch.after_warps(seq, warps[full])
        self._beyond_barriers |= not bool(full.all())
        self._events.append(Join(seq, self._batch, threads, warps_of))

    # --- mbarriers ------------------------------------------------------------------------------

    def mbarrier_touch(self, instruction: int, threads: np.ndarray, addresses: np.ndarray, touch: Touch) -> None:
        """An instruction on mbarrier objects (8 bytes of shared memory each), as an access to their memory."""
        self._access(Space.SHARED, touch.value, instruction, threads, addresses, MBARRIER_BYTES)

    def mbarrier_arrive(self, instruction: int, threads: np.ndarray, key: int, memory: PhaseMemory = PhaseMemory.ORDERED) -> None:
        """Threads (sorted) arrive on object ``key`` of their CTA, in its current phase."""
        self._event(Signal(self._tick(), self._batch, threads, key, instruction, memory))

    def mbarrier_copies_arrive(self, instruction: int, threads: np.ndarray, key: int) -> None:
        """``cp.async.mbarrier.arrive``: the threads' copies issued so far arrive when they are complete."""
        issued = self._copies.last_issue(threads)
        self._event(Signal(self._tick(), self._batch, threads, key, instruction, PhaseMemory.ORDERED, issued))

    def mbarrier_wait(
        self, instruction: int, threads: np.ndarray, key: int, memory: PhaseMemory = PhaseMemory.ORDERED, *, parity: bool = False
    ) -> None:
        """Threads (sorted) go on since the phase before the object's current one is complete, of which they gave the state or parity."""
        self._stand(threads, 0)
        self._event(Await(self._tick(), self._batch, threads, key, instruction, memory, parity))

    def mbarrier_complete(self, slots: np.ndarray, key: int, *, counted: bool = True) -> None:
        """The current phase of the object is complete in these CTA slots; ``counted``: by arrivals alone."""
        self._event(PhaseEnd(self._tick(), self._batch, slots, key, counted))

    def exchange(self, instruction: int, threads: np.ndarray, groups: np.ndarray) -> None:
        """``shfl``, ``vote``, ``match`` ... ``.sync`` executed by threads, within each group: order of execution, not of memory."""
        if self._phased:
            self.settle(instruction, threads)
            self._stand(threads, 0)
            self._events.append(Exchange(self._tick(), self._batch, threads, groups))

    def mbarrier_renew(self, slots: np.ndarray, key: int) -> None:
        """The object is initialised or invalidated in these CTA slots."""
        self._event(Renewal(self._tick(), self._batch, slots, key))

    def mbarrier_tested(
        self, instruction: int, place: int, threads: np.ndarray, key: int, memory: PhaseMemory = PhaseMemory.ORDERED, *,
        parity: bool = False,
    ) -> None:  # fmt: skip
        """Threads (sorted) have tested with success, at a place that has a number, where others go on after a failure, too."""
        self._stand(threads, 0)
        self._unsettled[threads] |= 1 << place
        self._event(Tested(self._tick(), self._batch, threads, place, key, instruction, memory, parity))

    def settle(self, instruction: int, threads: np.ndarray) -> None:
        """Threads come to an instruction: where every schedule comes to it, after tests that have succeeded by then, they know what those
        have told for good. To be told of at barriers, before they complete."""
        places = self.settled.get(instruction, 0)
        if places and (some := threads[self._unsettled[threads] & places != 0]).size:
            told = self._unsettled[some] & places
            self._unsettled[some] &= ~places
            self._standing[some] = 0
            self._events.append(Stand(self._tick(), self._batch, some, told, settled=True))

    def _come(self, instruction: int, threads: np.ndarray) -> None:
        """Threads come to an instruction, and rely on the tests whose success it is behind."""
        self.settle(instruction, threads)
        self._stand(threads, self.behind_success.get(instruction, 0))

    def _stand(self, threads: np.ndarray, places: int) -> None:
        """Threads rely on tests at these places, and on no others."""
        if not self.behind_success:
            return
        moved = self._standing[threads] != places
        if moved.any():
            some = threads[moved]
            self._standing[some] = places
            self._events.append(Stand(self._tick(), self._batch, some, np.full(len(some), places, np.int64)))

    def _event(self, event: PhaseEvent) -> None:
        self._beyond_barriers = self._phased = self._replays = self._report.phased = True
        self._events.append(event)

    def fence(self, instruction: int, threads: np.ndarray, scope: Scope, total: bool = False) -> None:
        """``fence.acq_rel``; ``total``: ``fence.sc`` and ``membar``, which are in one order with all others of their kind."""
        self.settle(instruction, threads)
        self._stand(threads, 0)
        self._fences = True
        self._events.append(Fence(self._tick(), self._batch, threads, scope.beyond_cta, total))

    def exit(self, threads: np.ndarray, instruction: int = -1) -> None:
        """Threads exit (by an instruction). Later barriers of their CTA do not wait for them and say nothing about their accesses."""
        self.settle(instruction, threads)
        slots_of = self._batch.slot(threads)
        self._live -= np.bincount(slots_of, minlength=self._batch.slots)
        if self._batch.exit_cap is None:
            self._batch.exit_cap = np.full(self._batch.threads, NEVER)
        self._batch.exit_cap[threads] = self._epoch.base[slots_of]

    def _tick(self) -> int:
        self._seq += 1
        return self._seq

    # --- examination --------------------------------------------------------------------------

    def _examine(self, space: Space, columns: Sequence[Column], stride: int, shift: int, granules: np.ndarray) -> None:
        """Report all unordered pairs of accesses at suspicious granules. Raises BudgetError; nothing is examined after that."""
        if self._out_of_time:
            return
        rows = rows_of(gather(columns, stride, shift, granules), self._n, self._warp_size, shared=space is Space.SHARED)
        oracle: Oracle | None = self._ordered_by_clocks if self._beyond_barriers else None
        equal = equal_writes(rows, self._value_keys)
        if len(equal.a):
            self._report.add(space, rows, equal.a, equal.b, equal.count)
        for earlier, later in unordered_pairs(rows, equal.rest, oracle):
            self._look_at_the_clock()
            self._report.add(space, rows, earlier, later)
            self.looks.judge(rows, earlier, later, oracle)
        self._report.chances |= rows.crowded

    def _look_at_the_clock(self) -> None:
        """Pairs grow with the square of the accesses to one place: thousands of CTAs that store there would be looked at for hours."""
        if self.deadline_s is not None and time.perf_counter() > self.deadline_s:
            self._out_of_time = True
            raise BudgetError("the budget of seconds ran out while accesses were compared", hint="run fewer CTAs, or raise the budget")

    def _ordered_by_clocks(self, rows: Rows, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        self._look_at_the_clock()
        self._replay()
        return self._clocks.ordered(rows, a, b)

    def _replay(self) -> None:
        if self._events:
            self._clocks.replay(self._events)
            self._events = []
