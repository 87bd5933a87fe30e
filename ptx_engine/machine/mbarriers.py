"""The mbarriers of a batch of CTAs: counts, phases, who has arrived, who waits; and what programs may not do with them.

A column of lanes acts lane after lane, as one of the schedules that the ISA allows. Copies arrive as soon as they are issued; the order
checker knows better. Source: PTX ISA 9.1, "mbarrier": contents, phase completion, arrive-on operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from ptx_engine.isa.group import Group
from ptx_engine.isa.mbarrier import MAX_COUNT, PENDING_BITS, Arrival, Wait
from ptx_engine.isa.values import Value
from ptx_engine.machine.analysis import Analysis
from ptx_engine.machine.memory import Memory
from ptx_engine.order.phases import Memory as PhaseMemory
from ptx_engine.order.records import MBARRIER_BYTES, Touch

MISUSE = "mbarrier misuse"
PHASE_BITS = 24
_PHASES = np.int64((1 << PHASE_BITS) - 1)


class Objects:
    """The objects at one address, one for each CTA slot of a batch."""

    def __init__(self, address: int, slots: int, threads: int) -> None:
        self.address = address
        self.live = np.zeros(slots, bool)
        #: whether transactions have ever been expected or completed
        self.transacts = False
        self.expected, self.pending, self.transactions, self.phase, self.renewals = (np.zeros(slots, np.int64) for _ in range(5))
        #: the latest phase that each thread has arrived in
        self.arrived = np.full(threads, -1, np.int64)

    def renew(self, slots: np.ndarray, count: np.ndarray) -> None:
        """Initialise."""
        self.live[slots] = True
        self.expected[slots] = self.pending[slots] = count
        self.transactions[slots] = self.phase[slots] = 0
        self.renewals[slots] += 1

    def states(self, slots: np.ndarray, pending: np.ndarray) -> np.ndarray:
        """The states that arrivals return: which object, its phase, and the pending count."""
        held = pending & MAX_COUNT | (self.phase[slots] & _PHASES) << PENDING_BITS | self._identity(slots) << PENDING_BITS + PHASE_BITS
        return np.asarray(held.astype(np.uint64))

    def _identity(self, slots: np.ndarray) -> np.ndarray:
        return np.asarray((self.address >> 3 & 0x3FFF) << 6 | self.renewals[slots] & 0x3F)

    def read_states(self, slots: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(phase, whether it is a state of this object)"""
        words = states.astype(np.int64)
        identity = words >> PENDING_BITS + PHASE_BITS & 0xFFFFF
        return words >> PENDING_BITS & _PHASES, identity == self._identity(slots)

    def complete(self, slots: np.ndarray) -> np.ndarray:
        """Go to the next phase where nothing is pending; the slots in which that happens."""
        done: np.ndarray = slots[(self.pending[slots] == 0) & (self.transactions[slots] == 0)]
        self.phase[done] += 1
        self.pending[done] = self.expected[done]
        return done


@dataclass(frozen=True, slots=True)
class Lanes:
    """Lanes of a group that act on the objects at one address: their positions, slots and threads."""

    objects: Objects
    at: np.ndarray
    slots: np.ndarray
    threads: np.ndarray

    def subset(self, chosen: np.ndarray) -> Lanes:
        return Lanes(self.objects, self.at[chosen], self.slots[chosen], self.threads[chosen])


class Mbarriers:
    """Implements ``isa.mbarrier.MbarrierOps`` for a batch of ``slots`` CTAs. Tests that are ``trusted`` are taken for waits when they
    succeed."""

    def __init__(
        self, slots: int, memory: Memory, analysis: Analysis | None = None, trusted: frozenset[int] = frozenset()
    ) -> None:  # fmt: skip
        self._memory = memory
        self.block_threads = memory.block_threads
        self._slots = slots
        self._threads = slots * memory.block_threads
        self._by_address: dict[int, Objects] = {}
        #: tests where something may run after a failure, too, each with the number of its place
        self._doubtful = {} if analysis is None else {pc: place for pc, place in analysis.doubtful.items() if pc not in trusted}
        #: tests of such places that are repeated until they succeed, whatever the others of the place have told
        self._sure = {} if analysis is None else analysis.sure
        memory.order.behind_success, memory.order.settled = ({}, {}) if analysis is None else (analysis.behind_success, analysis.settled)
        #: the address each thread has last waited at in vain
        self._waits_at = np.full(self._threads, -1, np.int64)

    # --- who acts where -----------------------------------------------------------------------

    def _places(self, g: Group, space: str, address: "int | np.ndarray", name: str, instruction: int) -> Iterator[Lanes]:
        """The lanes with a good address, by address; what lies outside of shared memory is a finding."""
        if space == "":
            space, address = self._memory.generic(address)
        column = np.full(g.n, address, np.int64) if isinstance(address, int) else address.astype(np.int64)
        if space != "shared":
            self._misuse(f"{name} at an address outside of shared memory", g, np.arange(g.n), instruction)
            return
        good = self._memory.check_shared(g, column, MBARRIER_BYTES, instruction, name)
        at = np.arange(g.n) if good is None else good
        slots = np.broadcast_to(np.asarray(g.slots, np.int64), (g.n,))
        for one in np.unique(column[at]).tolist():
            where = at[column[at] == one]
            if one not in self._by_address:
                self._by_address[one] = Objects(one, self._slots, self._threads)
            yield Lanes(self._by_address[one], where, slots[where], g.threads[where])

    def _valid(self, g: Group, space: str, address: "int | np.ndarray", name: str, instruction: int) -> Iterator[Lanes]:
        """Of these, the lanes that find a valid object; the memory is touched."""
        for lanes in self._places(g, space, address, name, instruction):
            live = lanes.objects.live[lanes.slots]
            if not live.all():
                said = f"{name} at shared+0x{lanes.objects.address:x}, where no mbarrier is initialised"
                self._misuse(said, g, lanes.at[~live], instruction, lanes.objects)
            if live.any():
                yield lanes if live.all() else lanes.subset(live)

    def _misuse(self, message: str, g: Group, at: np.ndarray, instruction: int, objects: Objects | None = None) -> None:
        offset = 0 if objects is None else objects.address
        self._memory.log.add(MISUSE, message, g, at, instruction, role="mbarrier", space="shared", offset=offset, width=MBARRIER_BYTES)

    def _touch(self, lanes: Lanes, touch: Touch, instruction: int) -> None:
        start = perf_counter()
        self._memory.order.mbarrier_touch(instruction, lanes.threads, np.full(len(lanes.at), lanes.objects.address, np.int64), touch)
        self._memory.order_seconds += perf_counter() - start

    # --- lifetime -----------------------------------------------------------------------------

    def init(self, g: Group, space: str, address: "int | np.ndarray", count: np.ndarray, instruction: int) -> None:
        """``mbarrier.init``"""
        for lanes in self._places(g, space, address, "mbarrier.init", instruction):
            objects, counts = lanes.objects, count[lanes.at]
            wrong = (counts < 1) | (counts > MAX_COUNT)
            if wrong.any():
                said = f"mbarrier.init with a count of {int(counts[wrong][0])}: 1 to {MAX_COUNT} are possible"
                self._misuse(said, g, lanes.at[wrong], instruction, objects)
            again = objects.live[lanes.slots]
            again[1:] |= lanes.slots[1:] == lanes.slots[:-1]
            if again.any():
                said = f"the mbarrier at shared+0x{objects.address:x} is initialised again without mbarrier.inval"
                self._misuse(said, g, lanes.at[again], instruction, objects)
            self._renew(lanes, instruction)
            objects.renew(lanes.slots, counts)

    def inval(self, g: Group, space: str, address: "int | np.ndarray", instruction: int) -> None:
        """``mbarrier.inval``"""
        for lanes in self._valid(g, space, address, "mbarrier.inval", instruction):
            self._renew(lanes, instruction)
            lanes.objects.live[lanes.slots] = False

    def _renew(self, lanes: Lanes, instruction: int) -> None:
        self._touch(lanes, Touch.SETUP, instruction)
        self._memory.order.mbarrier_renew(np.unique(lanes.slots), lanes.objects.address)
        self._memory.forget_shared(lanes.slots, lanes.objects.address, MBARRIER_BYTES)
        self._memory.writes += 1

    def accessed(self, g: Group, address: "int | np.ndarray", nbytes: int, instruction: int, role: str) -> None:
        """A plain access of the lanes to shared memory: a finding where a valid object lies."""
        low, high = (address, address) if isinstance(address, int) else (int(address.min()), int(address.max()))
        for objects in self._by_address.values():
            if low >= objects.address + MBARRIER_BYTES or high + nbytes <= objects.address:
                continue
            column = np.broadcast_to(np.asarray(address, np.int64), (g.n,))
            hit = (column < objects.address + MBARRIER_BYTES) & (column + nbytes > objects.address)
            hit &= objects.live[np.broadcast_to(np.asarray(g.slots), (g.n,))]
            if hit.any():
                said = f"{role} of {nbytes} bytes touches the mbarrier at shared+0x{objects.address:x}, which is not invalidated"
                self._misuse(said, g, np.flatnonzero(hit), instruction, objects)

    # --- arriving -----------------------------------------------------------------------------

    def arrive(
        self, g: Group, space: str, address: "int | np.ndarray", how: Arrival, count: np.ndarray, expected: np.ndarray, instruction: int
    ) -> Value:
        """``mbarrier.arrive``, ``arrive_drop`` and their kinds: the state of each lane."""
        states = np.zeros(g.n, np.uint64)
        for lanes in self._valid(g, space, address, how.name, instruction):
            self._touch(lanes, Touch.UPDATE, instruction)
            counts = count[lanes.at]
            wrong = (counts < 1) | (counts > MAX_COUNT)
            if wrong.any():
                self._misuse(f"{how.name} with a count of {int(counts[wrong][0])}", g, lanes.at[wrong], instruction, lanes.objects)
            memory = PhaseMemory.ORDERED if how.releases else PhaseMemory.RELAXED

            def tell(some: Lanes, memory: PhaseMemory = memory) -> None:
                self._memory.order.mbarrier_arrive(instruction, some.threads, some.objects.address, memory)

            states[lanes.at] = self._arrive_on(g, lanes, how, np.maximum(counts, 0), expected[lanes.at], instruction, tell)
        return int(states[0]) if bool((states == states[0]).all()) else states

    def copies_arrive(self, g: Group, space: str, address: "int | np.ndarray", counted: bool, instruction: int) -> None:
        """``cp.async.mbarrier.arrive``: the pending count rises at once (unless .noinc), and falls with the arrival."""
        name = "cp.async.mbarrier.arrive" + ("" if counted else ".noinc")

        def tell(some: Lanes) -> None:
            self._memory.order.mbarrier_copies_arrive(instruction, some.threads, some.objects.address)

        for lanes in self._valid(g, space, address, name, instruction):
            self._touch(lanes, Touch.UPDATE, instruction)
            if not counted:
                one = np.ones(len(lanes.at), np.int64)
                self._arrive_on(g, lanes, Arrival(name), one, np.zeros_like(one), instruction, tell)
                continue
            full = lanes.objects.pending[lanes.slots] >= MAX_COUNT
            if full.any():
                self._misuse(
                    f"{name} on a pending count of {MAX_COUNT}, the greatest there is", g, lanes.at[full], instruction, lanes.objects
                )
            tell(lanes)

    def _arrive_on(
        self, g: Group, lanes: Lanes, how: Arrival, counts: np.ndarray, expected: np.ndarray, instruction: int,
        tell: Callable[[Lanes], None],
    ) -> np.ndarray:  # fmt: skip
        """The arrive-on operations of lanes, phase after phase; the state before each."""
        objects, states = lanes.objects, np.zeros(len(lanes.at), np.uint64)
        left = np.arange(len(lanes.at))
        while left.size:
            slots = lanes.slots[left]
            before = objects.pending[slots] - _sums_before(slots, counts[left])
            now = before > 0
            if not now.any():
                self._overflow(g, lanes.subset(left), how.name, instruction)
                break
            some, amount = left[now], np.minimum(counts[left[now]], before[now])
            if (amount < counts[some]).any():
                self._overflow(g, lanes.subset(some[amount < counts[some]]), how.name, instruction)
            states[some] = objects.states(lanes.slots[some], before[now])
            part = lanes.subset(some)
            objects.arrived[part.threads] = objects.phase[part.slots]
            objects.transacts |= bool(expected[some].any())
            np.add.at(objects.transactions, part.slots, expected[some])
            np.subtract.at(objects.pending, part.slots, amount)
            if how.drop:
                np.subtract.at(objects.expected, part.slots, amount)
            tell(part)
            self._complete(g, part, how, instruction)
            left = left[~now]
        self._memory.writes += 1
        return states

    def _overflow(self, g: Group, lanes: Lanes, name: str, instruction: int) -> None:
        said = f"{name} takes more from the pending count of the mbarrier at shared+0x{lanes.objects.address:x} than is left of it"
        self._misuse(said, g, lanes.at, instruction, lanes.objects)

    def _complete(self, g: Group, lanes: Lanes, how: Arrival | None, instruction: int) -> None:
        """Complete the phases of which nothing is pending."""
        done = lanes.objects.complete(np.unique(lanes.slots))
        if not done.size:
            return
        self._memory.order.mbarrier_complete(done, lanes.objects.address, counted=not lanes.objects.transacts)
        if how is not None and how.open_phase:
            said = f"{how.name} completes the phase of the mbarrier at shared+0x{lanes.objects.address:x}, which it must not"
            last = np.searchsorted(lanes.slots, done, "right") - 1
            self._misuse(said, g, lanes.at[last], instruction, lanes.objects)

    def transactions(self, g: Group, space: str, address: "int | np.ndarray", change: np.ndarray, name: str, instruction: int) -> None:
        """``mbarrier.expect_tx`` and ``mbarrier.complete_tx`` change the transaction count; the latter may complete the phase."""
        for lanes in self._valid(g, space, address, name, instruction):
            self._touch(lanes, Touch.UPDATE, instruction)
            lanes.objects.transacts = True
            np.add.at(lanes.objects.transactions, lanes.slots, change[lanes.at])
            wrong = np.abs(lanes.objects.transactions[lanes.slots]) > MAX_COUNT
            if wrong.any():
                self._misuse(f"{name} takes the transaction count beyond {MAX_COUNT}", g, lanes.at[wrong], instruction, lanes.objects)
            if bool((change[lanes.at] < 0).any()):
                self._complete(g, lanes, None, instruction)
            self._memory.writes += 1

    # --- waiting ------------------------------------------------------------------------------

    def wait(
        self, g: Group, space: str, address: "int | np.ndarray", how: Wait, phase: np.ndarray, instruction: int
    ) -> "bool | np.ndarray":
        """``test_wait``, ``try_wait``: whether the phase is complete. Lanes without an object go on, after the finding."""
        done = np.ones(g.n, bool)
        for lanes in self._valid(g, space, address, how.name, instruction):
            complete = self._tested(g, lanes, how, phase[lanes.at], instruction)
            done[lanes.at] = complete
            self._waits_at[lanes.threads] = np.where(complete, -1, lanes.objects.address)
            if complete.any():
                self._pass(lanes if complete.all() else lanes.subset(complete), how, instruction)
        return bool(done[0]) if bool((done == done[0]).all()) else done

    def _tested(self, g: Group, lanes: Lanes, how: Wait, phase: np.ndarray, instruction: int) -> np.ndarray:
        current = lanes.objects.phase[lanes.slots]
        if how.parity:
            wrong = phase > 1
            said = f"{how.name} with a phase parity of {int(phase[wrong][0])}" if wrong.any() else ""
            complete = (current & 1) != (phase.astype(np.int64) & 1)
        else:
            of, own = lanes.objects.read_states(lanes.slots, phase)
            behind = (current & _PHASES) - of & _PHASES
            wrong = ~own | (behind > 1)
            complete = wrong | (behind == 1)
            said = f"{how.name} by a state of phase {int(of[wrong][0])} in phase {int(current[wrong][0])}" if wrong.any() else ""
            said = f"{how.name} by what is no state of this mbarrier" if not own.all() else said
        if wrong.any():
            self._misuse(f"{said}: mbarrier at shared+0x{lanes.objects.address:x}", g, lanes.at[wrong], instruction, lanes.objects)
        return np.asarray(complete)

    def _pass(self, lanes: Lanes, how: Wait, instruction: int) -> None:
        """Lanes go on after a success."""
        self._touch(lanes, Touch.TEST, instruction)
        memory, key = PhaseMemory.ORDERED if how.acquires else PhaseMemory.RELAXED, lanes.objects.address
        place = self._doubtful.get(instruction, self._sure.get(instruction))
        if place is not None:  # what the last success tells replaces what an earlier one at this place has told
            self._memory.order.mbarrier_tested(instruction, place, lanes.threads, key, memory, parity=how.parity)
        if instruction not in self._doubtful:
            self._memory.order.mbarrier_wait(instruction, lanes.threads, key, memory, parity=how.parity)

    def awaited(self, threads: np.ndarray) -> list[tuple[Objects, np.ndarray]]:
        """The objects that threads wait for in vain, each with its threads."""
        at = self._waits_at[threads]
        return [(self._by_address[a], threads[at == a]) for a in np.unique(at[at >= 0]).tolist()]


def _sums_before(slots: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """For each lane the sum of the counts of earlier lanes of its slot; ``slots`` sorted."""
    before = np.cumsum(counts) - counts
    return np.asarray(before - before[np.searchsorted(slots, slots, "left")])
