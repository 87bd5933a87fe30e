"""Which waits for an mbarrier are certain: whatever has an effect after them runs only after their success.

A data-flow analysis over the blocks. Towards the tests of one place (the same address and phase operands, and memory order) a way through
the program is untested, or the last test has failed or passed; where a way that has passed meets one that has not, the outcome is open, and
an instruction with an effect there makes the tests that have failed uncertain: some schedule comes there without the success, so nothing is
ordered by it. The other tests of the place are judged without them, and are certain if nothing about them depends on the uncertain ones:
neither whether they are executed (a branch by an uncertain outcome leads to them) nor for what they ask. Then every schedule executes
them alike, and comes to no effect after them without their success.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ptx_engine.errors import UnsupportedError
from ptx_engine.machine.bounds import FALSE, TRUE, evaluate, forget
from ptx_engine.machine.conditional import Conditional
from ptx_engine.machine.control_flow import ENDS, EXIT, Graph
from ptx_engine.machine.data_flow import ARITHMETIC
from ptx_engine.machine.influence import SILENT, is_wait
from ptx_engine.machine.recording import Uses
from ptx_engine.syntax.ast import Instruction, Operand

#: sets of places are bits of a signed word, by thread
MAX_PLACES = 63


@dataclass(frozen=True)
class _Seen:
    """What ways to a point have seen of some tests of one place: nothing, a success, and which of them has failed as the last one.
    ``moved``: those after whose failure the place was computed anew: a later success may be one of another place."""

    untested: bool = False
    passed: bool = False
    failed: frozenset[int] = frozenset()
    moved: frozenset[int] = frozenset()

    def met(self, other: _Seen) -> _Seen:
        """Where ways meet."""
        return _Seen(
            self.untested or other.untested, self.passed or other.passed, self.failed | other.failed, self.moved | other.moved
        )  # fmt: skip

    def doubts(self) -> frozenset[int]:
        """The tests that make the outcome open: some ways have passed, and others not since one of these, or nobody can tell."""
        return self.moved | (self.failed if self.passed else frozenset())


#: address and phase operands, and what makes a success tell something else: tests .relaxed, and by .parity
Place = tuple[Operand, Operand, bool, bool]


@dataclass(frozen=True)
class Doubtful:
    """A place with tests that are not certain: all of its tests, and those that are certain all the same."""

    sites: frozenset[int]
    sure: frozenset[int]


class Certainty:
    """Answers for the waits of one function."""

    def __init__(
        self, instructions: Sequence[Instruction], uses: Mapping[int, Uses], graph: Graph, ends: Mapping[int, int],
        register: Callable[[str], int], conditional: Conditional,
    ) -> None:  # fmt: skip
        self._instructions = instructions
        self._conditional = conditional
        self._register = register
        self._uses = uses
        self._graph = graph
        self._ends = ends
        self._given_up: set[int] = set()
        self._doubtful: list[Doubtful] = []
        self._together: dict[int, frozenset[int]] = {}
        for sites in map(frozenset, self._places().values()):
            sure = self._certain(sites)
            self._together |= dict.fromkeys(sites, sites) | dict.fromkeys(sure, sure)
            if sure != sites:
                self._doubtful.append(Doubtful(sites, sure))
            if len(self._doubtful) > MAX_PLACES:
                raise UnsupportedError(
                    f"more than {MAX_PLACES} tests of mbarriers that may fail with the program going on", feature="tests of mbarriers",
                    span=instructions[min(sites)].span, hint="wait in a loop until the test succeeds",
                )  # fmt: skip
        self._uncertain = {pc for place in self._doubtful for pc in place.sites - place.sure}

    def insists(self, wait: int) -> bool:
        """Whether a wait is certain, and no thread ends without its success."""
        return wait not in self._uncertain and wait not in self._given_up

    def together(self, wait: int) -> frozenset[int]:
        """The tests of its place: all that are certain together with a certain one, all of them for one that is not."""
        return self._together[wait]

    def doubtful(self) -> list[Doubtful]:
        """The places with tests that are not certain."""
        return self._doubtful

    def _places(self) -> dict[Place, list[int]]:
        found: dict[Place, list[int]] = {}
        for pc, instruction in enumerate(self._instructions):
            if is_wait(instruction) and pc in self._uses:
                relaxed, parity = (m in instruction.modifiers for m in ("relaxed", "parity"))
                found.setdefault((instruction.operands[1], instruction.operands[2], relaxed, parity), []).append(pc)
        return found

    def _certain(self, sites: frozenset[int]) -> frozenset[int]:
        """The tests of a place that are certain: the most of them that are so together."""
        chosen = frozenset(pc for pc in sites if self._outcome(pc) is not None)
        while chosen:
            doubts = self._doubts(chosen)
            if not doubts and chosen != sites:
                dependents = self._conditional.on(sites - chosen, {})
                doubts = chosen & (dependents.inside | dependents.reading)
            if not doubts:
                break
            chosen -= doubts
        return chosen

    def _doubts(self, sites: frozenset[int]) -> frozenset[int]:
        """Tests, of some, for which an effect is reached with an open outcome; the first that are found."""
        outcomes = {pc: self._outcome(pc) for pc in sites}
        place = frozenset(r for pc in sites for r in self._uses[pc].reads)
        state = dict.fromkeys(self._graph.successors, _Seen())
        state[self._graph.entry] = _Seen(untested=True)
        stack = [self._graph.entry]
        while stack:
            block = stack.pop()
            if block == EXIT:
                continue
            after, doubts = self._through(block, state[block], sites, place)
            if doubts:
                return doubts
            traps = self._instructions[self._ends[block]].opcode == "trap"  # the launch fails, and has no outputs
            for target in self._graph.successors[block]:
                if target == EXIT and traps:
                    continue
                arriving = state[target].met(self._edge(block, target, after, outcomes))
                if arriving != state[target]:
                    state[target] = arriving
                    stack.append(target)
        self._given_up = self._given_up - sites | state[EXIT].failed | state[EXIT].moved
        return frozenset()

    def _through(self, block: int, seen: _Seen, sites: frozenset[int], place: frozenset[int]) -> tuple[_Seen, frozenset[int]]:
        """What the ways have seen at the end of a block, and the tests for which an effect is reached with an open outcome."""
        for pc in range(block, self._ends[block] + 1):
            instruction = self._instructions[pc]
            if pc in sites:
                seen = _Seen(passed=True, failed=frozenset((pc,)), moved=seen.moved)
                continue
            if self._is_effect(instruction) and seen.doubts():
                return seen, seen.doubts()
            row = self._uses.get(pc)
            if row is not None and seen.failed and not place.isdisjoint(row.writes) and not self._conditional.repeats(pc):
                seen = _Seen(seen.untested, seen.passed, moved=seen.moved | seen.failed)
        return seen, frozenset()

    @staticmethod
    def _is_effect(instruction: Instruction) -> bool:
        return instruction.opcode not in ARITHMETIC | SILENT and not is_wait(instruction)

    def _edge(self, block: int, target: int, seen: _Seen, outcomes: Mapping[int, int | None]) -> _Seen:
        """What the ways that take an edge have seen: a branch on the outcome of the block's last test parts them."""
        tests = [pc for pc in outcomes if block <= pc <= self._ends[block]]
        if not tests or seen.moved:
            return seen
        return _Seen(passed=True) if target == outcomes[max(tests)] else _Seen(failed=seen.failed)

    def _outcome(self, wait: int) -> int | None:
        """The block where a success goes, of a wait whose block ends by its outcome; None where it does not."""
        block = max(b for b in self._graph.successors if b <= wait)
        end, targets = self._ends[block] if block != EXIT else -1, self._graph.successors[block]
        opcode = "" if end < 0 else self._instructions[end].opcode
        if self._uses[wait].predicate is not None or len(targets) != 2 or opcode not in ENDS | {"bra"}:
            return None
        truth = self._meaning(wait, end, self._uses[end].predicate)
        if truth is None:
            return None
        executed = truth is not self._instructions[end].negated
        return targets[0] if executed is (opcode == "bra") else targets[1]  # a guarded end goes on first

    def _meaning(self, wait: int, end: int, predicate: int | None) -> bool | None:
        """What the branch's predicate is after a success: the wait's own predicate, or one made from it by selp and setp."""
        held, failed = (dict.fromkeys(self._uses[wait].writes, outcome) for outcome in (TRUE, FALSE))
        for pc in range(wait + 1, end):
            row = self._uses.get(pc)
            if row is None:
                continue
            for known in (held, failed):
                found = {} if row.predicate is not None else evaluate(self._instructions[pc], known, self._register)
                forget(known, row.writes)
                known |= found
        values = [known[predicate].single if predicate in known else None for known in (held, failed)]
        if predicate is None or None in values or values[0] == values[1]:
            return None
        return bool(values[0])
