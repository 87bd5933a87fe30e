"""Phases of mbarriers: what a wait acquires from the arrivals of its phase, and whether phases can run into each other.

Two rules make the phase in which an arrival counts, and what a wait means, the same in every schedule: an arrival in phase k + 1 comes
after a successful wait for phase k, and every wait for phase k comes before phase k + 1 completes. Before and after are of execution,
which also follows what gives no memory order (.relaxed, copies). A wait by parity means the first phase of that parity that the thread
does not know to be followed by another one: that phase is all it can be sure of, whatever phase was complete when it ran. A test whose
failure leads on, too, is a wait only for threads that come to where every schedule has seen a success: it is settled there.
Source: PTX ISA 9.1, "Phase of the mbarrier object", "mbarrier.test_wait".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ptx_engine.order.records import NEVER, Batch

if TYPE_CHECKING:
    from ptx_engine.order.clocks import Clock


class Memory(Enum):
    """Whether an arrival releases (a wait acquires) memory, or is .relaxed."""

    ORDERED = "ordered"
    RELAXED = "relaxed"


class Rule(Enum):
    """What a protocol of phases has broken."""

    NO_WAIT = "no wait"
    LATE_WAIT = "late wait"


#: (message, what is missing) of a broken rule
BREACH_TEXT = {
    Rule.NO_WAIT: (
        "an arrival in {phase} of the mbarrier at shared+0x{at:x} is not after a wait for {before}: it may count in that one",
        "no successful wait for {before} happens before the arrival",
    ),
    Rule.LATE_WAIT: (
        "a wait for {phase} of the mbarrier at shared+0x{at:x} may come too late: {after} can complete before it, and then it "
        "waits for a later phase or for nothing",
        "no arrival in {after} happens after the wait",
    ),
}


def phase_name(number: int) -> str:
    """A phase in a message: the one before the first is complete when an object is initialised."""
    return f"phase {number}" if number >= 0 else "the phase before the first"


@dataclass(slots=True)
class Signal:
    """Threads arrive on an object (``key``, one of each CTA) in its current phase. With ``issued`` their copies arrive, when those issued
    so far are complete."""

    seq: int
    batch: Batch
    threads: np.ndarray
    key: int
    instruction: int
    memory: Memory
    issued: np.ndarray | None = None


@dataclass(slots=True)
class Await:
    """Threads have waited for the phase of an object that is complete, the one before its current phase; by its ``parity``, or by a state
    that names it."""

    seq: int
    batch: Batch
    threads: np.ndarray
    key: int
    instruction: int
    memory: Memory
    parity: bool = False


@dataclass(slots=True)
class Tested:
    """Threads have tested once (``place``: which test) for the phase that ``Await`` is about, with success: what that tells holds where
    they can only be after one. A failure tells nothing: no such instruction follows it, unless the success before it was one for the same
    phase, by who knew the same."""

    seq: int
    batch: Batch
    threads: np.ndarray
    place: int
    key: int
    instruction: int
    memory: Memory
    parity: bool = False


@dataclass(slots=True)
class PhaseEnd:
    """The current phase of an object is complete in these CTAs. ``counted``: by arrivals alone, not by transactions."""

    seq: int
    batch: Batch
    slots: np.ndarray
    key: int
    counted: bool = True


@dataclass(slots=True)
class Renewal:
    """An object is initialised or invalidated in these CTAs: nothing of it is left."""

    seq: int
    batch: Batch
    slots: np.ndarray
    key: int


PhaseEvent = Signal | Await | Tested | PhaseEnd | Renewal


@dataclass(frozen=True, slots=True)
class Breach:
    """A broken rule: the phase, the grid-wide thread and the instruction, and (for a late wait) an arrival of the phase after it."""

    rule: Rule
    key: int
    phase: int
    thread: int
    instruction: int
    other: tuple[int, int] | None = None


@dataclass
class _Object:
    """``held``: what arrivals of the current phase have released; ``passed``: those of the phase before it, for which the threads'
    first and last waits are remembered."""

    first: np.ndarray
    last: np.ndarray
    waited_at: np.ndarray
    phase: int = 0
    held: Clock = field(default_factory=dict)
    passed: Clock = field(default_factory=dict)
    arrival: tuple[int, int] | None = None
    #: by thread, the places at which it has tested for the phase before, with success
    tested: dict[int, int] = field(default_factory=dict)
    #: whether the current phase is complete as soon as threads have executed all arrivals: not where copies or transactions are awaited
    counted: bool = True
    #: the same of the phase before it
    prompt: bool = True
    #: the object in earlier phases, the latest first
    earlier: tuple[_Object, ...] = ()


@dataclass
class _Success:
    """The last successful test of a thread at a place: for the phase before ``after``, at a time. ``late``: the breach that it is, if it is
    a wait."""

    after: _Object
    seq: int
    instruction: int
    late: Breach | None = None


#: earlier phases that are remembered: a wait for one before them is taken for the first of those
EARLIER = 4


class ThreadClocks(Protocol):
    """What phases need of the clocks of threads."""

    def known(self, thread: int) -> Clock: ...

    def learn(self, thread: int, seq: int, clock: Clock) -> None: ...

    def suppose(self, thread: int, place: int, clock: Clock) -> None: ...

    def supposed(self, thread: int) -> int: ...

    def with_own(self, clock: Clock, threads: list[int], seq: int) -> Clock: ...

    def agent(self, thread: int, seq: int, issued: int) -> Clock: ...

    def execution(self, clock: Clock) -> Clock: ...

    def join(self, clocks: list[Clock]) -> Clock: ...


class Phases:
    """The mbarriers of a launch, by CTA and key."""

    def __init__(self, threads_per_cta: int, clocks: ThreadClocks) -> None:
        self._n = threads_per_cta
        self._clocks = clocks
        self._objects: dict[tuple[int, int], _Object] = {}
        #: by thread and place, tests that have succeeded and are not settled
        self._successes: dict[tuple[int, int], _Success] = {}
        #: the first breach of each kind by instructions, and how many there are
        self.breaches: dict[tuple[Rule, int, int], tuple[Breach, int]] = {}

    def _object(self, cta: int, key: int) -> _Object:
        found = self._objects.get((cta, key))
        if found is None:
            found = self._objects[cta, key] = self._fresh()
        return found

    def _fresh(self) -> _Object:
        return _Object(np.full(self._n, NEVER), np.full(self._n, -1, np.int64), np.zeros(self._n, np.int64))

    def apply(self, event: PhaseEvent) -> None:
        """The next event in executed order."""
        if isinstance(event, Signal):
            self._signal(event)
        elif isinstance(event, Await):
            self._await(event)
        elif isinstance(event, Tested):
            self._tested(event)
        else:
            for cta in event.batch.ctas[event.slots].tolist():
                if isinstance(event, Renewal):
                    self._objects.pop((cta, event.key), None)
                else:
                    state = self._object(cta, event.key)
                    state.counted &= event.counted
                    self._end(state, cta, event.key)

    def _by_cta(self, event: Signal | Await | Tested) -> Iterator[tuple[int, list[int], np.ndarray]]:
        """(CTA, its grid-wide threads, their positions in the event)."""
        threads = event.batch.grid_threads(event.threads)
        cuts = np.flatnonzero(np.diff(threads // self._n)) + 1
        for part in np.split(np.arange(len(threads)), cuts):
            members = threads[part].tolist()
            yield members[0] // self._n, members, part

    def _alike(self, members: list[int]) -> list[tuple[Clock, list[int]]]:
        """The threads by what they know."""
        found: dict[int, tuple[Clock, list[int]]] = {}
        for thread in members:
            clock = self._clocks.known(thread)
            found.setdefault(id(clock), (clock, []))[1].append(thread)
        return list(found.values())

    def _signal(self, event: Signal) -> None:
        for cta, members, part in self._by_cta(event):
            state = self._object(cta, event.key)
            groups = self._alike(members)
            if state.phase > 0:
                self._check_waited(state, cta, groups, event)
            clock = self._clocks.with_own(self._clocks.join([c for c, _ in groups]), members, event.seq)
            if event.issued is not None:
                agents = [self._clocks.agent(t, event.seq, int(event.issued[i])) for t, i in zip(members, part.tolist())]
                state.held = self._clocks.join([state.held, self._clocks.execution(clock), *agents])
                state.counted = False
            elif event.memory is Memory.RELAXED:
                state.held = self._clocks.join([state.held, self._clocks.execution(clock)])
            else:
                state.held = self._clocks.join([state.held, clock])
            state.arrival = (members[-1], event.instruction)

    def _check_waited(self, state: _Object, cta: int, groups: list[tuple[Clock, list[int]]], event: Signal) -> None:
        """An arrival must know of a wait for the phase before it."""
        for clock, members in groups:
            row = clock.get(cta)
            if row is not None and bool((row[2 * self._n :] > state.first).any()):
                continue
            for thread in members:
                if state.first[thread - cta * self._n] == NEVER and not state.tested.get(thread, 0) & self._clocks.supposed(thread):
                    self._breach(Breach(Rule.NO_WAIT, event.key, state.phase, thread, event.instruction))

    def _await(self, event: Await) -> None:
        for cta, members, _ in self._by_cta(event):
            state = self._object(cta, event.key)
            for clock, alike in self._alike(members):
                for sure, some in self._sure(state, cta, clock, alike) if event.parity else [(state, alike)]:
                    self._learn(event, cta, sure, clock, some)
                    for thread in some if sure is not state else ():  # the phase after it is complete
                        self._breach(_too_late(sure, event.key, thread, event.instruction))

    def _tested(self, event: Tested) -> None:
        """A success is no wait that others could know of (``first``, ``last``): in another schedule there is none. What it tells the thread
        is kept by the clocks until the next test of the place."""
        for cta, members, _ in self._by_cta(event):
            state = self._object(cta, event.key)
            for clock, alike in self._alike(members):
                for sure, some in self._sure(state, cta, clock, alike) if event.parity else [(state, alike)]:
                    gained = sure.passed if event.memory is Memory.ORDERED else self._clocks.execution(sure.passed)
                    for thread in some:
                        sure.tested[thread] = sure.tested.get(thread, 0) | 1 << event.place
                        late = None if sure is state else _too_late(sure, event.key, thread, event.instruction)
                        self._successes[thread, event.place] = _Success(sure, event.seq, event.instruction, late)
                        self._clocks.suppose(thread, event.place, gained)

    def settle(self, thread: int, places: int, seq: int) -> None:
        """A thread is where every schedule comes, and has seen a success at these places by then: those were waits."""
        for place in range(places.bit_length()):
            found = self._successes.pop((thread, place), None) if places >> place & 1 else None
            if found is None:
                continue
            if found.late is not None:
                self._breach(found.late)
            tid, after = thread % self._n, found.after
            after.first[tid] = min(after.first[tid], seq)
            after.last[tid], after.waited_at[tid] = max(after.last[tid], found.seq), found.instruction

    def _learn(self, event: Await, cta: int, sure: _Object, clock: Clock, threads: list[int]) -> None:
        """Threads that know the same have waited for the phase before ``sure``."""
        tids = np.asarray(threads) - cta * self._n
        sure.first[tids] = np.minimum(sure.first[tids], event.seq)
        sure.last[tids], sure.waited_at[tids] = event.seq, event.instruction
        gained = sure.passed if event.memory is Memory.ORDERED else self._clocks.execution(sure.passed)
        after = self._clocks.join([clock, gained])
        for thread in threads:
            self._clocks.learn(thread, event.seq, after)

    def _sure(self, state: _Object, cta: int, clock: Clock, members: list[int]) -> list[tuple[_Object, list[int]]]:
        """The phase (as the object just after it) that each thread has waited for in every schedule, of threads that know the same."""
        known = [state, *state.earlier]
        if len(known) < 2 or self._knows(known[1], cta, clock, None):
            return [(state, members)]
        found: dict[int, list[int]] = {}
        for thread in members:
            step = 0
            while step + 2 < len(known) and not any(self._knows(o, cta, clock, thread) for o in known[step : step + 2]):
                step += 2
            found.setdefault(step, []).append(thread)
        return [(known[step], some) for step, some in found.items()]

    def _knows(self, after: _Object, cta: int, clock: Clock, thread: int | None) -> bool:
        """Whether a clock (or the thread itself) knows of a wait for the phase before ``after``, or of all arrivals of that phase."""
        if thread is not None and after.last[thread - cta * self._n] >= 0:
            return True
        row = clock.get(cta)
        if row is not None and bool((row[2 * self._n :] > after.first).any()):
            return True
        arrived = after.passed.get(cta)
        if arrived is None or not after.prompt:
            return after.phase == 0
        late = arrived[2 * self._n :] > (-1 if row is None else row[2 * self._n :])
        if thread is not None:
            late[thread - cta * self._n] = False
        return not late.any()

    def _end(self, state: _Object, cta: int, key: int) -> None:
        row = state.held.get(cta)
        if row is not None and state.arrival is not None:
            late = np.flatnonzero((state.last >= 0) & (row[2 * self._n :] <= state.last))
            for tid in late.tolist():
                self._breach(_too_late(state, key, cta * self._n + tid, int(state.waited_at[tid])))
            self._overtake(state, key, row[2 * self._n :])
        after = self._fresh()
        after.phase, after.passed, after.prompt = state.phase + 1, state.held, state.counted
        after.earlier, state.earlier = (state, *state.earlier)[:EARLIER], ()
        self._objects[cta, key] = after

    def _overtake(self, state: _Object, key: int, executed: np.ndarray) -> None:
        """A phase ends, by arrivals that know how far threads have been executed: tests for the phase before it that none of them knows of
        may come too late."""
        for thread, places in state.tested.items():
            for place in range(places.bit_length()):
                found = self._successes.get((thread, place))
                if found is not None and found.after is state and executed[thread % self._n] <= found.seq:
                    found.late = _too_late(state, key, thread, found.instruction)

    def _breach(self, breach: Breach) -> None:
        at = (breach.rule, breach.instruction, breach.other[1] if breach.other is not None else -1)
        first, count = self.breaches.get(at, (breach, 0))
        self.breaches[at] = (first, count + 1)


def _too_late(after: _Object, key: int, thread: int, instruction: int) -> Breach:
    """A wait for the phase before ``after``, which may come when that phase is complete, too."""
    return Breach(Rule.LATE_WAIT, key, after.phase - 1, thread, instruction, after.arrival)
