"""Where a thread can only be if a test of an mbarrier has succeeded, of tests that are not repeated until they do (``certainty``).

A data-flow analysis over the blocks, for the tests of one place (``certainty``): on all ways to an instruction the last test has
succeeded, or one before it for the same phase, by the branches that were taken or by the instruction's own guard. In every schedule,
whoever executes such an instruction has seen that success; so what the success tells holds there, and nowhere else. Where the last test
was a certain one, on all ways, nothing need be told: what that one tells is known from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntFlag
from functools import reduce

from ptx_engine.machine.bounds import FALSE, NOTHING, TRUE, Bounds, evaluate, forget, hull
from ptx_engine.machine.certainty import Doubtful
from ptx_engine.machine.conditional import MEETINGS
from ptx_engine.machine.control_flow import ENDS, EXIT, Graph
from ptx_engine.machine.data_flow import ARITHMETIC
from ptx_engine.machine.influence import FENCES, SILENT, is_strong
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


#: ways that registers are followed on together
AFTER = (Way.PASSED | Way.SURE, Way.FAILED, Way.UNTESTED)
#: values that are counted up to, where ways meet on which they differ: the analysis must end
MOST_COUNTED = 8
Told = dict[int, Bounds]


@dataclass
class _State:
    """What ways to a point have seen, and what registers hold on those of each kind of ``AFTER``; on ways without a test NOTHING in what is
    computed from results of tests: who reads that there has come another way. ``fresh``: since the tests of the ways
    that have passed nothing was computed anew that the place is made of, and nothing done from which the thread could have learned more:
    what a success tells is what the next one would. ``near``: nor anything by which it may learn what others have done."""

    way: Way = Way.UNTESTED
    told: tuple[Told, Told, Told] = field(default_factory=lambda: ({}, {}, {}))
    fresh: bool = True
    near: bool = True

    def copy(self, way: Way) -> _State:
        """The same, for some of the ways."""
        return _State(way, tuple(dict(t) if way & w else {} for t, w in zip(self.told, AFTER)), self.fresh, self.near)  # type: ignore[arg-type]

    def met(self, other: _State) -> _State:
        """Where ways meet."""
        both = zip(self.told, other.told, AFTER)
        told = tuple(_met(mine if self.way & w else None, theirs if other.way & w else None) for mine, theirs, w in both)
        fresh, near = (all(getattr(s, f) for s in (self, other) if s.way & Way.PASSED) for f in ("fresh", "near"))
        return _State(self.way | other.way, told, fresh, near)  # type: ignore[arg-type]

    def constants(self, pure: frozenset[int]) -> frozenset[int]:
        """The registers that have one value on all ways on which they are read: a way without a test has not written the ``pure`` ones."""
        present = [told for told, w in zip(self.told, AFTER) if self.way & w]
        values: dict[int, set[int | None]] = {r: set() for told in present for r in told}
        for r, found in values.items():
            asked = [t for t in present if t is not self.told[2] or not (r in pure or t.get(r) == NOTHING)]
            found.update(t[r].single if r in t else None for t in asked)
        return frozenset(r for r, found in values.items() if len(found) == 1 and None not in found)

    def given(self, predicate: int, truth: bool, pure: frozenset[int]) -> Way:
        """The ways on which a predicate has a value; where it tells there was a test."""
        way = Way.NONE
        for told, w in zip(self.told, AFTER):
            if predicate not in told or told[predicate].single in (None, int(truth)):
                way |= self.way & w
        tells = self.told[2].get(predicate) == NOTHING or (predicate in pure and (predicate in self.told[0] or predicate in self.told[1]))
        return way & ~Way.UNTESTED if tells and self.way != Way.UNTESTED else way


def _met(a: Told | None, b: Told | None) -> Told:
    """What registers hold where ways of one kind meet; None for no way of that kind."""
    if a is None or b is None:
        return dict(a or b or {})
    found: Told = {}
    for r in a.keys() & b.keys():
        either = hull(a[r], b[r])
        if a[r] == b[r] or either.high <= MOST_COUNTED:
            found[r] = either
    return found


Look = Callable[[int, Way, _State], None]


class Successes:
    """The instructions of one function that run only after a success."""

    def __init__(
        self, instructions: Sequence[Instruction], uses: Mapping[int, Uses], graph: Graph, ends: Mapping[int, int],
        register: Callable[[str], int],
    ) -> None:  # fmt: skip
        self._instructions, self._uses, self._graph, self._ends, self._register = instructions, uses, graph, ends, register
        self._known_pure: dict[frozenset[int], frozenset[int]] = {}
        #: places where a test comes after a success that tells something else
        self._renewed: set[frozenset[int]] = set()

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

        off = Way.NONE  # the ways that run off the end
        for block, state in self._states(place).items():
            end = self._instructions[self._ends[block]]
            for target, after in self._through(block, state, place, look):
                off |= after.way if target == EXIT and (end.opcode not in ENDS or end.predicate is not None) else Way.NONE
        look(len(self._instructions), off, _State())
        return behind, passed

    def renews(self, place: Doubtful) -> bool:
        """Whether a thread may test at a place once more after it has learned something since a success there, or for another phase: if
        that test fails, nothing is known of the success."""
        self._states(place)
        return place.sites in self._renewed

    def constants(self, place: Doubtful) -> dict[int, frozenset[int]]:
        """By instruction the registers that have one value there by the ways that lead to it, whatever the tests at a place have told."""
        found: dict[int, frozenset[int]] = {}

        def look(pc: int, way: Way, state: _State) -> None:
            found[pc] = state.constants(self._pure(place.sites))

        for block, state in self._states(place).items():
            self._through(block, state, place, look)
        return found

    def _states(self, place: Doubtful) -> dict[int, _State]:
        """What ways to each block have seen."""
        states: dict[int, _State] = {self._graph.entry: _State()}
        stack = [self._graph.entry]
        while stack:  # ways only grow and registers that tell only get fewer
            block = stack.pop()
            for target, after in self._through(block, states[block], place, None):
                known = states.get(target)
                new = after if known is None else known.met(after)
                if target != EXIT and new != known:
                    states[target] = new
                    stack.append(target)
        return states

    def _pure(self, sites: frozenset[int]) -> frozenset[int]:
        """Registers that are written from nothing else but results of tests: without a test they are not written, or from what is not."""
        if sites not in self._known_pure:
            written = {r for row in self._uses.values() for r in row.writes}
            pure: set[int] = set()
            while True:  # the least such set
                others = {r for pc, row in self._uses.items() if pc not in sites and pure.isdisjoint(row.reads) for r in row.writes}
                if written - others == pure:
                    break
                pure = written - others
            self._known_pure[sites] = frozenset(pure)
        return self._known_pure[sites]

    def _through(self, block: int, state: _State, place: Doubtful, look: Look | None) -> list[tuple[int, _State]]:
        """The states on the edges from a block; ``look`` is told of each instruction the ways that execute it, and the state."""
        state, pure = state.copy(state.way), self._pure(place.sites)
        for pc in range(block, self._ends[block] + 1):
            instruction, row = self._instructions[pc], self._uses.get(pc)
            guard = None if row is None else row.predicate
            way = state.way if guard is None else state.given(guard, not instruction.negated, pure)
            if look is not None:
                look(pc, way, state)
            if pc in place.sites:
                if state.way & Way.PASSED and not state.near:
                    self._renewed.add(place.sites)
                state = self._tested(pc, state, Way.SURE if pc in place.sure else Way.PASSED, pure)
            else:
                state.fresh &= self._keeps(instruction, row, place)
                state.near &= not (self._moves(row, place) or is_strong(instruction) or instruction.opcode in MEETINGS | FENCES)
                if row is not None:
                    self._write(instruction, row, state, pure)
        return self._edges(block, state, pure)

    def _keeps(self, instruction: Instruction, row: Uses | None, place: Doubtful) -> bool:
        """Whether the next test of a place is for the same phase, by who knows the same as before, as far as an instruction goes."""
        silent = instruction.opcode in ARITHMETIC or (instruction.opcode in SILENT and instruction.opcode not in FENCES)
        return silent and not self._moves(row, place)

    def _moves(self, row: Uses | None, place: Doubtful) -> bool:
        """Whether an instruction writes what a place is made of."""
        return row is not None and any(row.writes & self._uses[pc].reads for pc in place.sites)

    def _tested(self, pc: int, state: _State, passed: Way, pure: frozenset[int]) -> _State:
        """After a test. One that follows a fresh success takes nothing back, if it fails."""
        row = self._uses[pc]
        if row.predicate is not None:  # some have tested, others not
            first = not state.way & Way.PASSED
            return _State(state.way | passed | Way.FAILED, fresh=state.fresh or first, near=state.near or first)
        before = state.copy(state.way)
        before.told[2].update(dict.fromkeys(pure - before.told[2].keys(), NOTHING))
        for told in before.told:
            forget(told, row.writes)
        kept = bool(state.way & Way.PASSED) and state.fresh
        held = before.told[0] if kept else None
        others = [t for t, w in zip(before.told, (Way.SURE if kept else AFTER[0], *AFTER[1:])) if state.way & w]
        rest = {r: v for r, v in reduce(_met, others).items() if v != NOTHING} if others else None
        new = [None if rest is None else {**rest, **dict.fromkeys(row.writes, value)} for value in (TRUE, FALSE)]
        way = (Way.PASSED if kept else Way.NONE) | (passed | Way.FAILED if rest is not None else Way.NONE)
        return _State(way, (_met(held, new[0]), dict(new[1] or {}), {}))

    def _write(self, instruction: Instruction, row: Uses, state: _State, pure: frozenset[int]) -> None:
        for told, w in zip(state.told, AFTER):
            known = {r: value for r, value in told.items() if value != NOTHING}
            values = {} if row.predicate is not None or not state.way & w else evaluate(instruction, known, self._register)
            if w == Way.UNTESTED and row.predicate is None and any(r in pure or told.get(r) == NOTHING for r in row.reads):
                values = dict.fromkeys(row.writes, NOTHING)
            forget(told, row.writes)
            told |= {r: v for r, v in values.items() if w != Way.UNTESTED or r not in pure}

    def _edges(self, block: int, state: _State, pure: frozenset[int]) -> list[tuple[int, _State]]:
        targets, end = self._graph.successors[block], self._ends[block]
        row, instruction = self._uses.get(end), self._instructions[end]
        if len(targets) != 2 or row is None or row.predicate is None or instruction.opcode not in ENDS | {"bra"}:
            return [(target, state) for target in targets]
        taken = instruction.negated is (instruction.opcode != "bra")  # a guarded end goes on first, and ends where it is executed
        ways = (state.given(row.predicate, taken, pure), state.given(row.predicate, not taken, pure))
        return [(target, state.copy(way)) for target, way in zip(targets, ways) if way != Way.NONE]
