"""Vector clocks: the exact order that partial barriers, arrivals, mbarriers, atomics and fences make.

Lazy: events are only recorded; they are replayed, in executed order, once a pair of accesses turns up that full barriers do not
order. A thread's clock says, per thread of each CTA it has heard of, up to which time it knows that thread's accesses; in a second
third of the row up to which time it knows that thread's asynchronous copies to be complete; in the last up to which time it knows the
thread to have executed, whether or not its accesses are visible. Source: PTX ISA, memory consistency model (release and acquire
patterns, morally strong operations, causality order).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from ptx_engine.order.barrier_uses import BarrierUses
from ptx_engine.order.observed import Observed
from ptx_engine.order.pairs import Rows
from ptx_engine.order.phases import Await, PhaseEnd, PhaseEvent, Phases, Renewal, Signal, Tested
from ptx_engine.order.records import ASYNC, ATOMIC, OBJECT, WRITE, AtomicKind, Batch, MemoryOrder, Observation, Space
from ptx_engine.order.suppositions import Suppositions

#: CTA number -> times per thread: its accesses, its asynchronous agent's, its execution. Never changed once made. Under the keys of
#: ``_at_fences`` and ``_observed``, below zero, stand more clocks, which come along wherever causality order leads: what was
#: known at the ``fence.sc`` that came before, and what was known at such fences before atomic writes that have been read. Those of the
#: scope of a CTA are in one order with the others of that CTA alone; of them stands, under ``_at_cta_fences`` and ``_observed_in_cta``,
#: what was known of that CTA.
Clock = dict[int, np.ndarray]
NOTHING: Clock = {}


@dataclass(slots=True)
class Join:
    """A barrier completed by ``threads``; ``groups`` tells apart the CTAs (or warps) that each synchronise among themselves."""

    seq: int
    batch: Batch
    threads: np.ndarray
    groups: np.ndarray
    barrier_id: int | None = None
    instruction: int = -1


@dataclass(slots=True)
class Exchange:
    """Threads have exchanged values, each within its group: all that they did before has been executed, which says nothing of memory."""

    seq: int
    batch: Batch
    threads: np.ndarray
    groups: np.ndarray


@dataclass(slots=True)
class Arrive:
    """``bar.arrive``, when it executes; the next completion of that barrier takes it in."""

    seq: int
    batch: Batch
    threads: np.ndarray
    barrier_id: int
    instruction: int


@dataclass(slots=True)
class Reset:
    """A barrier completed by arrivals alone: nobody waits, the arrivals are spent."""

    seq: int
    batch: Batch
    slots: np.ndarray
    barrier_id: int
    instruction: int


@dataclass(slots=True)
class Atomic:
    seq: int
    batch: Batch
    threads: np.ndarray
    addresses: np.ndarray
    space: Space
    kind: AtomicKind
    order: MemoryOrder
    beyond_cta: bool
    observation: Observation


@dataclass(slots=True)
class Fence:
    """``total``: one of the fences that have a total order among themselves (``fence.sc``)."""

    seq: int
    batch: Batch
    threads: np.ndarray
    beyond_cta: bool
    total: bool = False


@dataclass(slots=True)
class Overwrite:
    """Plain stores: what an acquire reads afterwards was not released."""

    seq: int
    batch: Batch
    threads: np.ndarray
    addresses: np.ndarray
    nbytes: int
    space: Space


@dataclass(slots=True)
class Stand:
    """From now on threads are where they can only be if tests at some ``places`` (a set of bits for each thread) have succeeded;
    ``settled``: and where every schedule comes."""

    seq: int
    batch: Batch
    threads: np.ndarray
    places: np.ndarray
    settled: bool = False


Event = Join | Stand | Exchange | Arrive | Reset | Atomic | Fence | Overwrite | PhaseEvent


@dataclass
class _Location:
    """What a read of an address synchronises with: releases seen by every CTA, and those seen by one CTA only."""

    wide: Clock | None = None
    narrow: dict[int, Clock] = field(default_factory=dict)
    #: what was known at fences of the total order before the writes, and at those of the scope of a CTA
    fenced: Clock = field(default_factory=dict)
    cta_fenced: Clock = field(default_factory=dict)


@dataclass
class _Fenced:
    """A thread's latest fences: the clock its later relaxed writes release, and what its relaxed reads may yet acquire."""

    wide: Clock | None = None
    narrow: Clock | None = None
    pending: list[tuple[bool, Clock | None, Clock | None]] = field(default_factory=list)


def _at_fences(cta: int) -> int:
    return -1 - 4 * cta


def _observed(cta: int) -> int:
    return -2 - 4 * cta


def _at_cta_fences(cta: int) -> int:
    return -3 - 4 * cta


def _observed_in_cta(cta: int) -> int:
    return -4 - 4 * cta


def _part(clock: Clock, key: Callable[[int], int]) -> Clock:
    """The clock that stands under keys of a kind."""
    offset = -key(0)
    return {(-k - offset) // 4: row for k, row in clock.items() if k < 0 and (-k - offset) % 4 == 0}


def joined(clocks: Iterable[Clock]) -> Clock:
    """The least clock above all of them; rows are shared, not copied, where one clock has them alone."""
    out: Clock = {}
    for clock in {id(c): c for c in clocks}.values():
        for cta, row in clock.items():
            mine = out.get(cta)
            out[cta] = row if mine is None or mine is row else np.maximum(mine, row)
    return out


class Clocks:
    """Replays events and answers what was ordered when."""

    def __init__(self, threads_per_cta: int) -> None:
        self._n = threads_per_cta
        self._now: dict[int, Clock] = {}
        self._history: dict[int, tuple[list[int], list[Clock]]] = {}
        self._arrivals: dict[tuple[int, int], list[Clock]] = {}
        self.phases = Phases(threads_per_cta, self)
        self.uses = BarrierUses(threads_per_cta)
        self._locations: dict[tuple[int, int], _Location] = {}
        self._fenced: dict[int, _Fenced] = {}
        self._seen = Observed()
        self._suppositions = Suppositions()
        #: whether order was taken from values that atomics exchanged in the schedule that ran
        self.observed = False

    def replay(self, events: Iterable[Event]) -> None:
        """Apply further events, in executed order."""
        for event in events:
            if isinstance(event, Join):
                self._join(event)
            elif isinstance(event, Exchange):
                self._exchange(event)
            elif isinstance(event, Arrive):
                self._arrive(event)
            elif isinstance(event, Reset):
                for cta in event.batch.ctas[event.slots].tolist():
                    self._arrivals.pop((cta, event.barrier_id), None)
                    self.uses.end(cta, event.barrier_id, event.seq, event.instruction, [])
            elif isinstance(event, (Signal, Await, Tested, PhaseEnd, Renewal)):
                self.phases.apply(event)
            elif isinstance(event, Stand):
                self._stand(event)
            elif isinstance(event, Atomic):
                self._atomic(event)
            elif isinstance(event, Fence):
                self._fence(event)
            else:
                self._overwrite(event)

    def ordered(self, rows: Rows, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Whether access a happens before access b, for pairs of rows in executed order."""
        out = np.zeros(len(a), bool)
        number, clocks = self._clocks_of(rows.cells.thread[b], rows.seq[b])
        cta = rows.cta[a]
        order = np.lexsort((cta, number))  # pairs that ask the same row of the same clock together: threads of a group share clocks
        cuts = np.flatnonzero((np.diff(number[order]) != 0) | (np.diff(cta[order]) != 0)) + 1
        for some in np.split(order, cuts) if len(order) else []:
            row = clocks[int(number[some[0]])].get(int(cta[some[0]]))
            if row is None:
                continue
            first = a[some]
            tid = rows.cells.thread[first] - int(cta[some[0]]) * self._n
            copy = (rows.kind[first] & ASYNC) != 0
            out[some] = (row[tid] > rows.released[first]) | (copy & (row[self._n + tid] > rows.seq[first]))
            if bool((rows.kind[first] & OBJECT).any()):
                out[some] |= self._executed(rows, first, b[some], row)
        atomic = ~out & (rows.kind[a] & (ATOMIC | WRITE | OBJECT) == ATOMIC | WRITE)
        for i in np.flatnonzero(atomic).tolist():
            out[i] = self._observed_before(rows, int(a[i]), clocks[int(number[i])], int(b[i]))
        return out

    def _observed_before(self, rows: Rows, a: int, clock: Clock, b: int) -> bool:
        """Whether an atomic write has been observed by a read that comes before access b, whose thread has this clock."""
        at = rows.cells.columns[int(rows.cells.column[a])]
        place = (int(rows.cta[a]) if rows.shared else -1, int(at.addresses[rows.cells.position[a]]))
        for seq, reader in self._seen.readers(place, int(rows.seq[a]), int(rows.cells.thread[a])):
            row = clock.get(reader // self._n)
            if (reader == rows.cells.thread[b] and seq < rows.seq[b]) or (row is not None and row[reader % self._n] > seq):
                return True
        return False

    def _clocks_of(self, threads: np.ndarray, seqs: np.ndarray) -> tuple[np.ndarray, list[Clock]]:
        """The clock that each thread had at a time: a number for each, into a list without repetition."""
        order = np.lexsort((seqs, threads))
        starts = np.flatnonzero(np.diff(threads[order], prepend=-1) | np.diff(seqs[order], prepend=-1))
        numbers: dict[int, int] = {}
        clocks: list[Clock] = []
        found = np.empty(len(starts), np.int64)
        for i, (thread, seq) in enumerate(zip(threads[order][starts].tolist(), seqs[order][starts].tolist())):
            clock = self._at(thread, seq)
            number = numbers.setdefault(id(clock), len(clocks))
            if number == len(clocks):
                clocks.append(clock)
            found[i] = number
        out = np.empty(len(threads), np.int64)
        out[order] = np.repeat(found, np.diff(starts, append=len(threads)))
        return out, clocks

    def _executed(self, rows: Rows, a: np.ndarray, b: np.ndarray, row: np.ndarray) -> np.ndarray:
        """Operations on an mbarrier that have been executed before it is invalidated: they are over then, whoever sees the memory."""
        tid = rows.cells.thread[a] % self._n
        over = (rows.kind[a] & rows.kind[b] & OBJECT != 0) & (rows.kind[a] & ATOMIC != 0)
        return np.asarray(over & (row[2 * self._n + tid] > rows.seq[a]))

    def _at(self, thread: int, seq: int) -> Clock:
        """The clock a thread had when it executed ``seq``."""
        seqs, clocks = self._history.get(thread, ([], []))
        at = bisect_left(seqs, seq)
        return clocks[at - 1] if at else NOTHING

    def _set(self, thread: int, seq: int, clock: Clock) -> None:
        self._now[thread] = clock
        seqs, clocks = self._history.setdefault(thread, ([], []))
        if seqs and seqs[-1] == seq:
            clocks[-1] = clock
        else:
            seqs.append(seq)
            clocks.append(clock)

    def _with_own(self, clock: Clock, threads: list[int], seq: int, *, agent: bool = False) -> Clock:
        """The clock plus these threads' own accesses (or their agents' copies) before ``seq``; the threads are of one CTA."""
        cta = threads[0] // self._n
        row = clock.get(cta)
        row = np.full(3 * self._n, -1, np.int64) if row is None else row.copy()
        tids = np.asarray(threads) - cta * self._n
        row[tids + self._n if agent else tids] = seq
        if not agent:
            row[tids + 2 * self._n] = seq
        return {**clock, cta: row}

    def _snapshot(self, thread: int, seq: int) -> Clock:
        return self._with_own(self._now.get(thread, {}), [thread], seq)

    def _join(self, event: Join) -> None:
        threads = event.batch.grid_threads(event.threads)
        for group in np.unique(event.groups).tolist():
            members = threads[event.groups == group].tolist()
            known = [self._now.get(t, {}) for t in members]
            if event.barrier_id is not None:
                self._use(event.barrier_id, members, event.seq, event.instruction)
                known += self._arrivals.pop((members[0] // self._n, event.barrier_id), [])
            clock = self._with_own(joined(known), members, event.seq)
            for thread in members:
                self._set(thread, event.seq, clock)

    def _use(self, barrier_id: int, members: list[int], seq: int, instruction: int) -> None:
        cta = members[0] // self._n
        for thread in members:
            self.uses.come(cta, barrier_id, thread, self._execution_row(thread, cta), instruction)
        self.uses.end(cta, barrier_id, seq, instruction, members)

    def _execution_row(self, thread: int, cta: int) -> np.ndarray | None:
        row = self.known(thread).get(cta)
        return None if row is None else row[2 * self._n :]

    def _exchange(self, event: Exchange) -> None:
        threads = event.batch.grid_threads(event.threads)
        for group in np.unique(event.groups).tolist():
            members = threads[event.groups == group].tolist()
            executed = self.execution(self._with_own(joined(self.known(t) for t in members), members, event.seq))
            for thread in members:
                self._set(thread, event.seq, joined([self.known(thread), executed]))

    def _arrive(self, event: Arrive) -> None:
        for thread in event.batch.grid_threads(event.threads).tolist():
            cta = thread // self._n
            self.uses.come(cta, event.barrier_id, thread, self._execution_row(thread, cta), event.instruction)
            self.uses.arrive(cta, event.barrier_id, thread, event.seq)
            self._arrivals.setdefault((cta, event.barrier_id), []).append(self._snapshot(thread, event.seq))

    # --- what phases of mbarriers need ---------------------------------------------------------

    def known(self, thread: int) -> Clock:
        """What a thread knows."""
        return self._now.get(thread, NOTHING)

    def learn(self, thread: int, seq: int, clock: Clock) -> None:
        """From ``seq`` on a thread knows what the clock says."""
        self._set(thread, seq, clock)

    def suppose(self, thread: int, place: int, clock: Clock) -> None:
        """What a success of the thread's last test at a place tells."""
        self._suppositions.tested(thread, place, clock)

    def supposed(self, thread: int) -> int:
        """The places whose successes the thread relies on now, as bits."""
        return self._suppositions.standing(thread)

    def _stand(self, event: Stand) -> None:
        for thread, places in zip(event.batch.grid_threads(event.threads).tolist(), event.places.tolist()):
            before, gained = self._suppositions.stand(thread, places, self.known(thread), settled=event.settled)
            self._set(thread, event.seq, joined([before, *gained]) if gained else before)
            if event.settled:
                self.phases.settle(thread, places, event.seq)

    def with_own(self, clock: Clock, threads: list[int], seq: int) -> Clock:
        """The clock plus all that these threads of one CTA have done before ``seq``."""
        return self._with_own(clock, threads, seq)

    def join(self, clocks: list[Clock]) -> Clock:
        """The least clock above all of them."""
        return joined(clocks)

    def execution(self, clock: Clock) -> Clock:
        """Who has executed up to when, without any visibility of memory."""
        blind: Clock = {}
        for cta, row in clock.items():
            if cta < 0:
                continue
            blind[cta] = np.full(3 * self._n, -1, np.int64)
            blind[cta][2 * self._n :] = row[2 * self._n :]
        return blind

    def agent(self, thread: int, seq: int, issued: int) -> Clock:
        """What a thread's copies release once those issued before ``seq`` are complete."""
        if issued < 0:
            return {}
        at_issue = self._with_own(self._at(thread, issued), [thread], issued)
        return self._with_own(at_issue, [thread], seq, agent=True)

    def _fence(self, event: Fence) -> None:
        for thread in event.batch.grid_threads(event.threads).tolist():
            state = self._fenced.setdefault(thread, _Fenced())
            known = [self._now.get(thread, {})]
            cta = thread // self._n
            if event.total and _observed_in_cta(cta) in known[0]:
                known.append({cta: known[0][_observed_in_cta(cta)]})
            if event.total and event.beyond_cta:
                known.append(_part(known[0], _observed))
            for wide_access, narrow, wide in state.pending:
                known += [c for c in (narrow, wide if wide_access and event.beyond_cta else None) if c is not None]
            clock = joined(known)
            if event.total:
                own = self._with_own(clock, [thread], event.seq)
                beyond = {_at_fences(other): row for other, row in own.items() if other >= 0} if event.beyond_cta else {}
                clock = {**clock, **beyond, _at_cta_fences(cta): own[cta]}
            self._set(thread, event.seq, clock)
            if event.beyond_cta:
                state.pending = []
            state.narrow = self._snapshot(thread, event.seq)
            if event.beyond_cta:
                state.wide = state.narrow

    def _atomic(self, event: Atomic) -> None:
        shared = event.space is Space.SHARED
        for thread, address in zip(event.batch.grid_threads(event.threads).tolist(), event.addresses.tolist()):
            cta = thread // self._n
            place = self._locations.setdefault((cta if shared else -1, address), _Location())
            if event.kind is AtomicKind.STORE:
                self._seen.begin((cta if shared else -1, address), event.seq)
            elif event.kind is not AtomicKind.REDUCE and event.observation is Observation.DECIDES:
                self._seen.read((cta if shared else -1, address), event.seq, thread)
                self._observe(event, thread, cta, place)
            if event.kind is not AtomicKind.LOAD:
                self._publish(event, thread, cta, place)

    def _observe(self, event: Atomic, thread: int, cta: int, place: _Location) -> None:
        """The read half: acquire now, or keep for a later fence.

        A ``fence.sc`` before a write that is read comes before one after the read in their total order, and so synchronises with it,
        whichever threads execute them: the other way round the read would come before the write that it reads. PyTorch's reductions
        and most split-K kernels end so: every thread fences, a barrier, one thread counts.
        """
        seen_at_fences = {_observed(other): row for other, row in place.fenced.items()} if event.beyond_cta else {}
        if cta in place.cta_fenced:
            seen_at_fences[_observed_in_cta(cta)] = place.cta_fenced[cta]
        if seen_at_fences:
            self.observed = True
            self._set(thread, event.seq, joined([self._now.get(thread, {}), seen_at_fences]))
        narrow, wide = place.narrow.get(cta), place.wide
        if narrow is None and wide is None:
            return
        self.observed = True
        if event.order.acquires:
            seen = [c for c in (narrow, wide if event.beyond_cta else None) if c is not None]
            self._set(thread, event.seq, joined([self._now.get(thread, {}), *seen]))
        else:
            self._fenced.setdefault(thread, _Fenced()).pending.append((event.beyond_cta, narrow, wide))

    def _publish(self, event: Atomic, thread: int, cta: int, place: _Location) -> None:
        """The write half: a store starts a new release sequence, a read-modify-write continues the one there is."""
        if event.kind is AtomicKind.STORE:
            place.wide, place.narrow, place.fenced, place.cta_fenced = None, {}, {}, {}
        now = self._now.get(thread, NOTHING)
        if event.beyond_cta and (at_fences := _part(now, _at_fences)):
            place.fenced = joined([place.fenced, at_fences])
        if at_cta_fences := {c: row for c, row in _part(now, _at_cta_fences).items() if event.beyond_cta or c == cta}:
            place.cta_fenced = joined([place.cta_fenced, at_cta_fences])
        fenced = self._fenced.get(thread, _Fenced())
        own = self._snapshot(thread, event.seq) if event.order.releases else None
        narrow = [c for c in (own, fenced.narrow) if c is not None]
        if narrow:
            place.narrow[cta] = joined([place.narrow.get(cta, {}), *narrow])
        wide = [c for c in (own, fenced.wide) if c is not None] if event.beyond_cta else []
        if wide:
            place.wide = joined([place.wide or {}, *wide])

    def _overwrite(self, event: Overwrite) -> None:
        shared = event.space is Space.SHARED
        threads = event.batch.grid_threads(event.threads)
        touched = [a for _, a in self._locations]
        if not touched:
            return
        places = np.unique(np.asarray(touched, np.int64))
        at = np.searchsorted(places, event.addresses)
        hits = np.flatnonzero((at < len(places)) & (places[np.minimum(at, len(places) - 1)] < event.addresses + event.nbytes))
        for i in hits.tolist():
            cta = int(threads[i]) // self._n if shared else -1
            for byte in range(event.nbytes):
                place = (cta, int(event.addresses[i]) + byte)
                self._locations.pop(place, None)
                self._seen.begin(place, event.seq)
