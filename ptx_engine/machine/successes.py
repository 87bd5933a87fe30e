"""Where a thread can only be if a test of an mbarrier has succeeded, of tests that are not repeated until they do (``certainty``).

A data-flow analysis over the blocks, for the tests of one place (the same address and phase operands): on all ways to an instruction the
last test has succeeded, by the branches that were taken or by its own guard. In every schedule, whoever executes such an instruction has
seen that success; so what the success tells holds there, and nowhere else. Where the last test was a certain one, on all ways, nothing
need be told: what that one tells is known from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntFlag

from ptx_engine.machine.certainty import Doubtful, evaluate
from ptx_engine.machine.control_flow import EXIT, Graph
from ptx_engine.machine.recording import Uses
from ptx_engine.syntax.ast import Instruction


class Way(IntFlag):
    """What ways to a point have seen of the tests of one place: a set."""

    NONE = 0
    UNTESTED = 1
    FAILED = 2
    PASSED = 4
    #: the last test was a certain one: it has passed
    SURE = 8


@dataclass
class _State:
    """What ways to a point have seen of the last test, and registers that tell it: their values after a success and after a failure
    (None: either)."""

    way: Way = Way.UNTESTED
    told: dict[int, tuple[int | bool | None, int | bool | None]] = field(default_factory=dict)

    def met(self, other: _State, pure: frozenset[int]) -> _State:
        """Where ways meet. A way without a test has not written the ``pure`` registers: who reads them there has come the other way."""
        told: dict[int, tuple[int | bool | None, int | bool | None]] = {}
        for r in self.told.keys() | other.told.keys():
            if any(s.way & Way.UNTESTED and r not in s.told and (r not in pure or s.way != Way.UNTESTED) for s in (self, other)):
                continue
            after = tuple(self._agreed(other, r, i, ways) for i, ways in enumerate((Way.PASSED | Way.SURE, Way.FAILED)))
            if after != (None, None):
                told[r] = after  # type: ignore[assignment]
        return _State(self.way | other.way, told)

    def _agreed(self, other: _State, r: int, i: int, ways: Way) -> int | bool | None:
        """The value of a register after a success (``i`` = 0) or a failure (1) by those states that ways have come to with it."""
        values = {s.told.get(r, (None, None))[i] for s in (self, other) if s.way & ways}
        return values.pop() if len(values) == 1 else None

    def constants(self) -> dict[int, tuple[int | bool | None, int | bool | None]]:
        """The registers that have one value on all ways on which they are read."""
        present = [i for i, ways in enumerate((Way.PASSED | Way.SURE, Way.FAILED)) if self.way & ways]
        values = {r: {v[i] for i in present} for r, v in self.told.items()}
        return {r: (one, one) for r, v in values.items() if len(v) == 1 and (one := v.pop()) is not None}

    def given(self, predicate: int, truth: bool) -> Way:
        """The ways on which a predicate has a value; where it tells there was a test."""
        if predicate not in self.told:
            return self.way
        succeeded, failed = self.told[predicate]
        fits = Way.PASSED | Way.SURE if succeeded is None or bool(succeeded) is truth else Way.NONE
        return self.way & (fits | (Way.FAILED if failed is None or bool(failed) is truth else Way.NONE))


Look = Callable[[int, Way, _State], None]


class Successes:
    """The instructions of one function that run only after a success."""

    def __init__(
        self, instructions: Sequence[Instruction], uses: Mapping[int, Uses], graph: Graph, ends: Mapping[int, int],
        register: Callable[[str], int],
    ) -> None:  # fmt: skip
        self._instructions, self._uses, self._graph, self._ends, self._register = instructions, uses, graph, ends, register

    def behind(self, place: Doubtful) -> tuple[set[int], set[int]]:
        """The instructions that only threads execute whose last test at a place has succeeded; not where it was always a certain one.
        And those that are also executed by threads that have not tested."""
        behind: set[int] = set()
        passed: set[int] = set()

        def look(pc: int, way: Way, state: _State) -> None:
            if way & Way.PASSED and not way & Way.FAILED:
                passed.add(pc)
                if not way & Way.UNTESTED:
                    behind.add(pc)

        for block, state in self._states(place).items():
            self._through(block, state, place, look)
        return behind, passed

    def constants(self, place: Doubtful) -> dict[int, frozenset[int]]:
        """By instruction the registers that have one value there by the ways that lead to it, whatever the tests at a place have told."""
        found: dict[int, frozenset[int]] = {}

        def look(pc: int, way: Way, state: _State) -> None:
            found[pc] = frozenset(state.constants())

        for block, state in self._states(place).items():
            self._through(block, state, place, look)
        return found

    def _states(self, place: Doubtful) -> dict[int, _State]:
        """What ways to each block have seen."""
        pure = self._pure(place.sites)
        states: dict[int, _State] = {self._graph.entry: _State()}
        stack = [self._graph.entry]
        while stack:  # ways only grow and registers that tell only get fewer
            block = stack.pop()
            for target, after in self._through(block, states[block], place, None):
                known = states.get(target)
                new = after if known is None else known.met(after, pure)
                if target != EXIT and new != known:
                    states[target] = new
                    stack.append(target)
        return states

    def _pure(self, sites: frozenset[int]) -> frozenset[int]:
        """Registers that are written from nothing else but results of tests: without a test they are not written, or from what is not."""
        written = {r for row in self._uses.values() for r in row.writes}
        pure: set[int] = set()
        while True:  # the least such set
            others = {r for pc, row in self._uses.items() if pc not in sites and pure.isdisjoint(row.reads) for r in row.writes}
            if written - others == pure:
                return frozenset(pure)
            pure = written - others

    def _through(self, block: int, state: _State, place: Doubtful, look: Look | None) -> list[tuple[int, _State]]:
        """The states on the edges from a block; ``look`` is told of each instruction the ways that execute it, and the state."""
        state = _State(state.way, dict(state.told))
        for pc in range(block, self._ends[block] + 1):
            instruction, row = self._instructions[pc], self._uses.get(pc)
            guard = None if row is None else row.predicate
            way = state.way if guard is None else state.given(guard, not instruction.negated)
            if look is not None:
                look(pc, way, state)
            if pc in place.sites:
                state = self._tested(pc, state, Way.SURE if pc in place.sure else Way.PASSED)
            elif row is not None:
                self._write(instruction, row, state)
        return self._edges(block, state)

    def _tested(self, pc: int, state: _State, passed: Way) -> _State:
        row = self._uses[pc]
        if row.predicate is not None:  # some have tested, others not
            return _State(state.way | passed | Way.FAILED)
        return _State(passed | Way.FAILED, {**state.constants(), **dict.fromkeys(row.writes, (True, False))})

    def _write(self, instruction: Instruction, row: Uses, state: _State) -> None:
        values: list[dict[int, int | bool]] = [{}, {}]
        if row.predicate is None and not row.reads.isdisjoint(state.told):
            known = [{r: v[i] for r, v in state.told.items() if v[i] is not None} for i in (0, 1)]
            values = [evaluate(instruction, values_of, self._register) for values_of in known]  # type: ignore[arg-type]
        for r in row.writes:
            state.told.pop(r, None)
            if r in values[0] or r in values[1]:
                state.told[r] = (values[0].get(r), values[1].get(r))

    def _edges(self, block: int, state: _State) -> list[tuple[int, _State]]:
        targets, end = self._graph.successors[block], self._ends[block]
        row, instruction = self._uses.get(end), self._instructions[end]
        if len(targets) != 2 or row is None or row.predicate is None or instruction.opcode != "bra":
            return [(target, state) for target in targets]
        taken = not instruction.negated
        ways = (state.given(row.predicate, taken), state.given(row.predicate, not taken))
        return [(target, _State(way, dict(state.told))) for target, way in zip(targets, ways) if way != Way.NONE]
