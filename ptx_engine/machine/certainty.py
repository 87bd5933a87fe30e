"""Which waits for an mbarrier are certain: whatever has an effect after them runs only after their success.

A data-flow analysis over the blocks. Towards the tests of one place (the same address and phase operands) a way through the program is
untested, or the last test has failed or passed; where a way that has passed meets one that has not, the outcome is open, and an
instruction with an effect there makes the tests that have failed uncertain: some schedule comes there without the success, so nothing is
ordered by it. The other tests of the place are judged without them, and are certain if nothing about them depends on the uncertain ones:
neither whether they are executed (a branch by an uncertain outcome leads to them) nor for what they ask. Then every schedule executes
them alike, and comes to no effect after them without their success.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ptx_engine.errors import UnsupportedError
from ptx_engine.machine.conditional import Conditional
from ptx_engine.machine.control_flow import EXIT, Graph
from ptx_engine.machine.data_flow import ARITHMETIC
from ptx_engine.machine.influence import SILENT, is_wait
from ptx_engine.machine.recording import Uses
from ptx_engine.syntax.ast import Instruction, IntLit, Operand, Pair, Reg

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


Place = tuple[Operand, Operand]


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
                found.setdefault((instruction.operands[1], instruction.operands[2]), []).append(pc)
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
        if self._uses[wait].predicate is not None or len(targets) != 2 or self._instructions[end].opcode != "bra":
            return None
        truth = self._meaning(wait, end, self._uses[end].predicate)
        if truth is None:
            return None
        return targets[0] if truth is not self._instructions[end].negated else targets[1]

    def _meaning(self, wait: int, end: int, predicate: int | None) -> bool | None:
        """What the branch's predicate is after a success: the wait's own predicate, or one made from it by selp and setp."""
        held: dict[int, int | bool] = dict.fromkeys(self._uses[wait].writes, True)
        failed: dict[int, int | bool] = dict.fromkeys(self._uses[wait].writes, False)
        for pc in range(wait + 1, end):
            row, instruction = self._uses.get(pc), self._instructions[pc]
            if row is None or (row.writes.isdisjoint(held) and row.reads.isdisjoint(held)):
                continue
            values = [evaluate(instruction, known, self._register) for known in (held, failed)]
            for known, found in zip((held, failed), values):
                for r in row.writes:
                    known.pop(r, None)
                known |= found if row.predicate is None else {}
        if predicate is None or predicate not in held or predicate not in failed or held[predicate] == failed[predicate]:
            return None
        return bool(held[predicate])


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


def evaluate(instruction: Instruction, known: Mapping[int, int | bool], register: Callable[[str], int]) -> dict[int, int | bool]:
    """What an instruction leaves in registers, given some others; without those of which that is not known."""
    target = instruction.operands[0] if instruction.operands else None
    found = _result(instruction, known, register) if isinstance(target, (Reg, Pair)) else None  # (not the halves of a register)
    if found is None:
        return {}
    if isinstance(target, Reg):
        return {register(target.name): found}
    assert isinstance(target, Pair)  # a comparison and its opposite
    both = ((target.first, found), (target.second, not found)) if instruction.opcode == "setp" else ()
    return {register(operand.name): truth for operand, truth in both if isinstance(operand, Reg)}


def _result(instruction: Instruction, known: Mapping[int, int | bool], register: Callable[[str], int]) -> int | bool | None:
    """The one result of an instruction, the first of two, as bits of its type."""
    opcode, kind = instruction.opcode, instruction.modifiers[-1] if instruction.modifiers else ""

    def value(operand: Operand) -> int | bool | None:
        if isinstance(operand, IntLit):
            return operand.value
        return known.get(register(operand.name)) if isinstance(operand, Reg) else None

    sources = [value(operand) for operand in instruction.operands[1:]]
    if opcode == "vote" and kind == "pred":
        return _vote(instruction, sources[0])
    if opcode == "cvt":
        return _converted(instruction.modifiers, sources[0])
    if opcode == "mov":
        return _bits(sources[0], kind)
    if opcode == "selp" and len(sources) == 3 and sources[2] is not None:
        return _bits(sources[0] if sources[2] else sources[1], kind)
    if len(sources) != 2:
        return None
    a, b = (_bits(source, kind) for source in sources)
    if opcode == "and":
        if a == 0 or b == 0:
            return 0  # whatever the other one is
        return None if a is None or b is None else a & b
    compare = _COMPARE.get(instruction.modifiers[0]) if opcode == "setp" else None
    if compare is None or a is None or b is None:
        return None
    return compare(_number(a, kind), _number(b, kind))


def _vote(instruction: Instruction, own: int | bool | None) -> bool | None:
    """A thread is among those whose votes it asks for: its own decides against all, and for any."""
    against = own is not None and bool(own) is ("any" in instruction.modifiers)
    return bool(own) if against and ("all" in instruction.modifiers or "any" in instruction.modifiers) else None


def _converted(modifiers: Sequence[str], source: int | bool | None) -> int | None:
    """An integer in a wider or narrower register; beyond the type there are copies of its sign, or zeros."""
    if len(modifiers) < 2 or "sat" in modifiers:
        return None
    bits = _bits(source, modifiers[-1])
    found = None if bits is None else _bits(_number(bits, modifiers[-1]), modifiers[-2])
    return None if found is None else _number(found, modifiers[-2])


def _bits(value: int | bool | None, kind: str) -> int | bool | None:
    """The bits that an operand of a type has; None where it is no integer's type."""
    if value is None or kind == "pred":
        return None if value is None else bool(value)
    return int(value) & (1 << int(kind[1:])) - 1 if kind[:1] in ("b", "s", "u") and kind[1:].isdigit() else None


def _number(bits: int | bool, kind: str) -> int:
    """Bits as a number of their type."""
    return int(bits) - (1 << int(kind[1:])) if kind[:1] == "s" and int(bits) >> int(kind[1:]) - 1 else int(bits)
