"""A launch executed in parts, batches of CTAs each, in other processes: the same footprints as in one, or NotSeparableError.

A part is run in an arena of its own, and comes back as archived terms (``terms.archive``), figures, and what it touched of global
memory (``order.traffic``). Terms that would take longer to send than to make again are not sent: that part is run here. The parts
together are the whole grid's run if each ran clean and none touched what another wrote: then there is no race between them, and none
of their terms would be others beside them. Otherwise, and wherever a part found or missed anything, nothing is said, and the caller
runs the launch as one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from ptx_engine.errors import NotSeparableError, PtxError
from ptx_engine.launch import BoundLaunch, Footprint
from ptx_engine.machine.execution import Budget, Execution
from ptx_engine.machine.executor import NO_EXTERNS, Machine
from ptx_engine.machine.preparation import calls_inlined, choose_entry, linear_ctas
from ptx_engine.order.checker import OrderChecker
from ptx_engine.order.traffic import Touched, meeting
from ptx_engine.syntax.ast import Module
from ptx_engine.terms.archive import ArchiveError, pack_terms, unpack_terms
from ptx_engine.terms.arena import Arena
from ptx_engine.terms.storage import Input

#: threads of a launch below which another process would not pay
SMALLEST = 1 << 12
#: seconds that a term takes to be archived and emitted again, and the share of a part's own seconds that this may cost
SENDING_S, WORTH = 1e-6, 0.5


@dataclass(frozen=True)
class PartTask:
    """What a process needs to run some CTAs: nothing in it is of the process that made it."""

    module: Module
    entry: str | None
    bound: BoundLaunch
    inputs: tuple[Input, ...]
    numbers: np.ndarray
    budget: Budget
    source: str
    externs: Mapping[str, str]
    outputs: bool


@dataclass(frozen=True)
class Part:
    """What came of a part; ``why`` it stands for nothing, where it does not."""

    why: str = ""
    #: None: not sent
    terms: bytes | None = None
    touched: Touched | None = None
    instructions: int = 0
    assumptions: tuple[str, ...] = ()
    #: the arena's own
    noted: tuple[str, ...] = ()


def is_small(bound: BoundLaunch) -> bool:
    """Whether a launch stays whole."""
    count = len(linear_ctas(bound, bound.launch.ctas))
    return count < 2 or count * bound.launch.threads < SMALLEST


class Split:
    """One launch in parts: the first is run here, the others are tasks for others."""

    def __init__(
        self, module: Module, entry: str | None, bound: BoundLaunch, workers: int, *, budget: Budget, source: str = "",
        externs: Mapping[str, str] = NO_EXTERNS, outputs: bool = True,
    ) -> None:  # fmt: skip
        """Parts are CTAs in their order. Raises what ``execute`` raises before anything runs."""
        self.started = time.perf_counter()
        inputs = tuple(bound.arena.inputs)
        self.arena, self.bound, self.outputs = bound.arena, bound, outputs
        with self.arena.ledger() as self.decoded:
            self.machine = _machine(module, entry, bound, budget, source, externs)
        self.numbers = linear_ctas(bound, bound.launch.ctas)
        self.parts = np.array_split(self.numbers, min(workers, len(self.numbers)))
        blank = replace(bound, arena=None)  # type: ignore[arg-type]
        self.tasks = [PartTask(module, entry, blank, inputs, part, budget, source, externs, outputs) for part in self.parts[1:]]

    def here(self) -> Part:
        """Run the first part in this process, in the launch's own arena."""
        with self.arena.ledger() as noted:
            part = _run(self.machine, self.parts[0], Made.HERE)
        return replace(part, noted=tuple(dict.fromkeys([*self.decoded.assumptions, *noted.assumptions])))

    def joined(self, first: Part, others: Sequence[Part]) -> Execution:
        """The execution that the parts are together. Raises NotSeparableError."""
        parts = [first, *others]
        why = next((part.why for part in parts if part.why), "") or meeting([part.touched for part in parts if part.touched is not None])
        instructions = sum(part.instructions for part in parts)
        if not why and any(part.noted != first.noted for part in others):
            why = "assumptions of some CTAs only"  # (in which order would one process note them?)
        if not why and instructions > self.machine.budget.thread_instructions:
            why = "more instructions than the budget allows"
        if why:
            raise NotSeparableError(why)
        sent = [self._received(part, numbers) for part, numbers in zip(others, self.parts[1:])]
        decoded = time.perf_counter()
        execution = self.machine.finish(len(self.numbers), {}, self.started)
        if execution.findings or execution.schedule_dependent:
            raise NotSeparableError("findings")
        written = [{name: (f.index, f.ids) for name, f in execution.footprints.items()}, *(row for row in sent if row is not None)]
        if any(row.keys() != written[0].keys() for row in written):
            raise NotSeparableError("parts that write different tensors")
        footprints = {name: _footprint([row[name] for row in written]) for name in written[0]} if self.outputs else {}
        assumptions = list(dict.fromkeys(line for part in parts for line in part.assumptions))
        seconds = {**execution.seconds, "execute": execution.seconds["execute"] + time.perf_counter() - decoded}
        return replace(execution, footprints=footprints, instructions=instructions, assumptions=assumptions, seconds=seconds)

    def _received(self, part: Part, numbers: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]] | None:
        """What a part wrote; None where nobody asks, or where it is run here and stands in this machine's memory."""
        if not self.outputs:
            return None
        if part.terms is None:
            again = _run(self.machine, numbers, Made.HERE)
            if again.why:
                raise NotSeparableError(again.why)
            return None
        self.arena.origin = None  # terms of other processes have no places in the PTX
        try:
            written = unpack_terms(part.terms, self.arena).written
        except ArchiveError as error:
            raise NotSeparableError(str(error)) from None
        return written


def run_part(task: PartTask) -> Part:
    """Run a part in an arena of its own."""
    arena = Arena()
    for entry in task.inputs:
        arena.add_input(entry.name, entry.count, entry.fmt)
    bound = replace(task.bound, arena=arena)
    try:
        machine = _machine(task.module, task.entry, bound, task.budget, task.source, task.externs)
    except PtxError as error:
        return Part(why=error.message)
    return _run(machine, task.numbers, Made.TO_SEND if task.outputs else Made.FOR_ORDER)


def _machine(
    module: Module, entry: str | None, bound: BoundLaunch, budget: Budget, source: str, externs: Mapping[str, str]
) -> Machine:  # fmt: skip
    function = choose_entry(module, entry)
    machine = Machine(module, calls_inlined(function, module, externs, bound), bound, budget, True, source)
    assert isinstance(machine.order, OrderChecker)
    machine.order.follow_traffic()
    return machine


class Made(Enum):
    """Where the terms of a part go."""

    HERE = "into the launch's own arena"
    TO_SEND = "to the process that asked"
    FOR_ORDER = "nowhere: only order and memory are checked"


def _run(machine: Machine, numbers: np.ndarray, made: Made) -> Part:
    order: Any = machine.order
    started = time.perf_counter()
    try:
        machine.total += len(numbers)
        for batch in machine.batches(numbers):
            machine.run_batch(batch)
            machine.ended += len(batch)
    except (PtxError, MemoryError) as error:
        return Part(why=f"a part that ended early: {error}")
    seconds = time.perf_counter() - started
    if made is Made.HERE:  # (what it found stands in the whole's execution)
        return Part(touched=order.traffic.touched(), instructions=machine.executed, assumptions=tuple(order.assumptions))
    done = machine.finish(len(numbers), {}, time.perf_counter())
    if done.findings or done.schedule_dependent:
        return Part(why="findings")
    arena = machine.bound.arena
    part = Part("", None, order.traffic.touched(), done.instructions, tuple(done.assumptions), tuple(arena.assumptions))
    if made is Made.FOR_ORDER or len(arena) * SENDING_S > seconds * WORTH:
        return part
    written = {name: (f.index, f.ids) for name, f in done.footprints.items()}
    terms = pack_terms(arena, written, arena.dropped, arena.dropped_denominators, level=0)
    return replace(part, terms=terms)


def _footprint(rows: Sequence[tuple[np.ndarray, np.ndarray]]) -> Footprint:
    index, ids = np.concatenate([row[0] for row in rows]), np.concatenate([row[1] for row in rows])
    order = np.argsort(index, kind="stable")
    index = index[order]
    if bool((np.diff(index) <= 0).any()):
        raise NotSeparableError("elements written by two parts")
    return Footprint(index, ids[order].astype(np.int32))
