"""Kernels whose CTAs count themselves, where the last one goes on: run once for every CTA that can be the last.

An atomic that returns a value makes what is computed depend on the schedule. It depends on no more than who comes last, if
* the atomic adds the same number each time and every CTA executes it once at most, so that a counter gives out one sequence of values,
  whoever comes when, and only the last CTA gets the last value;
* its value is only compared for equality with that last value, by whoever looks at it: all others are told the same, "not the last";
* no other strong access touches the counter, but the last CTA's own after it has counted (plain ones are races, or ordered);
* nothing else is up to the schedule. By confluence all schedules with the same last CTA then do the same, unless a race is found.
So a launch is run with each CTA as the last (it starts when all others have ended, which is a schedule), all findings are reported, and
the outputs must be equal by proof. Several counters choose their last CTAs independently: then CTAs of different counters must not touch
each other's memory, whoever is last, so that what is true of each counter alone is true of all together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ptx_engine.errors import PtxError
from ptx_engine.findings import Finding
from ptx_engine.launch import Buffer, Footprint, Role
from ptx_engine.machine.execution import Execution
from ptx_engine.machine.influence import is_strong
from ptx_engine.machine.same_value import proved_equal, same_value_keys
from ptx_engine.machine.ticket_watch import COUNTING, Tickets, TicketWatch
from ptx_engine.order import OrderChecker
from ptx_engine.order.pages import Marks, scattered
from ptx_engine.order.records import READ, WRITE, Column, Space
from ptx_engine.syntax.ast import Reg
from ptx_engine.terms import Arena

if TYPE_CHECKING:
    from ptx_engine.machine.executor import Machine

#: CTAs that may count on one counter: each of them costs a run
MOST = 32

#: a machine for one more run, which may take so many seconds
Again = Callable[[float], "Machine"]


class Unsettled(Exception):
    """Why the last CTA is not known to make no difference."""


class Ledger:
    """Which counter's CTAs have touched each element of what is written, over several runs."""

    #: zero is what a large array is made of before anything of it is touched
    FREE, MANY = 0, -1

    def __init__(self, buffers: Sequence[Buffer], team: np.ndarray) -> None:
        """``team``: a number for each CTA, the same for CTAs that count on one counter."""
        self._team = team + 1
        self._buffers = [b for b in buffers if b.arg.role is not Role.IN]
        sizes = [b.arg.storage for b in self._buffers]
        self._touched = [(scattered(size, np.int32), scattered(size, np.int32)) for size in sizes]
        self._marks = [Marks(size) for size in sizes]
        self._elsewhere = False

    def note(self, space: Space, column: Column) -> None:
        """An access."""
        if space is not Space.GLOBAL:
            return
        kind, addresses, nbytes = column.kind, column.addresses, column.nbytes
        team = self._team[column.batch.ctas[column.batch.slot(column.threads)]]
        inside = np.zeros(len(addresses), bool)
        for buffer, touched, marks in zip(self._buffers, self._touched, self._marks):
            mine = (addresses >= buffer.address) & (addresses < buffer.address + buffer.bytes)
            inside |= mine
            size = buffer.arg.element_bytes
            for byte in range(0, nbytes, size) if mine.any() else ():
                cells = np.minimum((addresses[mine] - buffer.address + byte) // size, buffer.arg.storage - 1)
                marks.add(cells)
                for row in [r for r, bit in enumerate((READ, WRITE)) if kind & bit]:
                    self._mark(touched[row], cells, team[mine])
        self._elsewhere |= bool(kind & WRITE) and not inside.all()

    def _mark(self, row: np.ndarray, cells: np.ndarray, team: np.ndarray) -> None:
        free = row[cells] == self.FREE
        row[cells[free]] = team[free]
        row[cells[row[cells] != team]] = self.MANY

    def apart(self) -> bool:
        """Whether no element that one counter's CTAs have written was touched by others."""
        cells = zip(self._touched, (marks.where() for marks in self._marks))
        return not self._elsewhere and not any(self._met(readers[at], writers[at]) for (readers, writers), at in cells)

    def _met(self, readers: np.ndarray, writers: np.ndarray) -> bool:
        return bool(((writers == self.MANY) | ((writers > 0) & (readers != writers) & (readers != self.FREE))).any())


def for_every_last_cta(machine: Machine, done: Execution, numbers: np.ndarray, seconds: float, again: Again) -> Execution:
    """The execution, with the runs in which another CTA counts last, where that is what it depends on: their findings are added, and it
    depends on the schedule no more if all outputs are equal. ``seconds``: what may be spent."""
    atomics = machine.log.harmful()
    start = time.perf_counter()
    if len(atomics) != 1 or not _counts(machine, *atomics):
        return done
    (atomic,) = atomics
    tried = _Tried(machine, done, numbers, atomic, again, start + seconds)
    try:
        tried.run()
    except (PtxError, Unsettled) as error:
        tried.problems.append(str(error))
    execution = tried.execution()
    spent = {"execute": execution.seconds["execute"] + time.perf_counter() - start}
    return replace(execution, seconds={**execution.seconds, **spent})


class _Tried:
    """The runs of one launch."""

    def __init__(
        self, machine: Machine, done: Execution, numbers: np.ndarray, atomic: int, again: Again, deadline: float
    ) -> None:  # fmt: skip
        self._machine, self._done, self._numbers, self._atomic = machine, done, numbers, atomic
        self._again, self._deadline = again, deadline
        self._possible = machine.program.analysis.ticket_flow.of(atomic)
        self._keys = same_value_keys(machine.bound.arena)[-1]
        self._found: list[Finding] = list(done.findings)
        #: why the last CTA may make a difference
        self.problems: list[str] = []

    def run(self) -> None:
        """All the runs there are to make. Raises Unsettled where that cannot be done."""
        _, tickets = self._run(np.zeros(0, np.int64), None)
        members = tickets.members()
        most = max(map(len, members.values()))
        if most > MOST:
            raise Unsettled(f"which of {most} CTAs counts last was not tried: at most {MOST}")
        ledger = self._ledger(members) if len(members) > 1 else None
        for turn in range(most):
            chosen = np.array(sorted(ctas[min(turn, len(ctas) - 1)] for ctas in members.values()), np.int64)
            run, now = self._run(chosen, ledger)
            if now.members() != members or now.sequences() != tickets.sequences():
                raise Unsettled("who counts on which counter depends on who came last")
            if not self._same_outputs(run.footprints):
                self.problems.append("the outputs are not proved equal for every CTA that can be the last")
        if ledger is not None and not ledger.apart():
            self.problems.append("CTAs of different counters touch each other's memory")

    def execution(self) -> Execution:
        """The first execution, with the findings of all."""
        done = replace(self._done, findings=self._found)
        if self.problems:
            return replace(done, schedule_dependent=[f"{reason}; {self.problems[0]}" for reason in done.schedule_dependent])
        strong = [pc for pc, i in enumerate(self._machine.program.flat.instructions) if is_strong(i)]
        assumed = [a for a in done.assumptions if a not in self._machine.order.assumptions or strong != [self._atomic]]
        return replace(done, schedule_dependent=[], assumptions=assumed)

    def _run(self, late: np.ndarray, ledger: Ledger | None) -> tuple[Execution, Tickets]:
        left = self._deadline - time.perf_counter()
        if left <= 0:
            raise Unsettled("no time was left to try every CTA as the last to count")
        machine = self._again(left)
        if ledger is not None and isinstance(machine.order, OrderChecker):
            machine.order.listener = ledger.note
        watch = TicketWatch(machine, self._atomic, self._possible)
        run = machine.run_numbers(self._numbers, late)
        self._add_findings(run.findings)
        tickets = watch.tickets()
        if tickets is None:
            raise Unsettled("a CTA counts more than once, or the numbers added differ")
        flow = machine.program.analysis.ticket_flow.of(self._atomic, watch.meets)
        if flow.strays or not flow.compares:
            self.problems.append("its value is used beyond a comparison for equality")
        elif not watch.compares_with_last(flow, tickets):
            self.problems.append("it is compared with another value than the counter's last one")
        elif not watch.touched_by_last_only(tickets):
            self.problems.append("the counter is changed by others")
        return run, tickets

    def _ledger(self, members: dict[int, list[int]]) -> Ledger:
        launch = self._machine.bound.launch
        team = np.arange(launch.cta_count, dtype=np.int32) + len(members)
        for number, ctas in enumerate(members.values()):
            team[ctas] = number
        return Ledger(self._machine.bound.buffers, team)

    def _same_outputs(self, footprints: dict[str, Footprint]) -> bool:
        """Whether a run wrote the same elements as the first one, and equal values."""
        arena: Arena = self._machine.bound.arena
        if footprints.keys() != self._done.footprints.keys():
            return False
        for name, one in self._done.footprints.items():
            other = footprints[name]
            if not np.array_equal(one.index, other.index):
                return False
            keys = [self._keys(f.ids.astype(np.int64)) for f in (one, other)]
            differ = keys[0] != keys[1]
            if differ.any() and not proved_equal(arena, [(one.ids[differ].astype(np.int64), other.ids[differ].astype(np.int64))]):
                return False
        return True

    def _add_findings(self, findings: list[Finding]) -> None:
        known = {_key(f) for f in self._found}
        self._found += [f for f in findings if _key(f) not in known]


def _counts(machine: Machine, atomic: int) -> bool:
    """Whether an instruction counts in global memory and returns the old value."""
    instruction = machine.program.flat.instructions[atomic]
    return (
        instruction.opcode == "atom" and not COUNTING.isdisjoint(instruction.modifiers) and isinstance(instruction.operands[0], Reg)
        and machine.log.atomic_spaces.get(atomic) == {"global"} and isinstance(machine.order, OrderChecker)
    )  # fmt: skip


def _key(finding: Finding) -> tuple[Any, ...]:
    """What tells findings of several runs apart."""
    return finding.tensor, *finding.pair
