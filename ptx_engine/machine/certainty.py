"""Which waits for an mbarrier are certain: whatever has an effect after them runs only after their success.

A data-flow analysis over the blocks. Towards the tests of one place (the same address and phase operands) a way through the program is
untested, or the last test has failed or passed; where a way that has passed meets one that has not, the outcome is open, and an
instruction with an effect there makes the wait uncertain: some schedule comes there without the success, so nothing is ordered by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntFlag

from ptx_engine.machine.control_flow import EXIT, Graph
from ptx_engine.machine.data_flow import ARITHMETIC
from ptx_engine.machine.influence import SILENT, is_wait
from ptx_engine.machine.recording import Uses
from ptx_engine.syntax.ast import Instruction, IntLit, Operand, Reg


class Way(IntFlag):
    """What ways to a point have seen of the tests of one place: a set."""

    NONE = 0
    UNTESTED = 1
    FAILED = 2
    PASSED = 4
    #: failed, and the place was then computed anew: a later success may be one of another place
    MOVED = 8


Place = tuple[Operand, Operand]


class Certainty:
    """Answers for the waits of one function."""

    def __init__(
        self, instructions: Sequence[Instruction], uses: Mapping[int, Uses], graph: Graph, ends: Mapping[int, int],
        register: Callable[[str], int],
    ) -> None:  # fmt: skip
        self._instructions = instructions
        self._register = register
        self._uses = uses
        self._graph = graph
        self._ends = ends
        self._writers: dict[int, list[int]] = {}
        for pc, row in uses.items():
            for r in row.writes:
                self._writers.setdefault(r, []).append(pc)
        self._sites = self._places()
        self._uncertain: set[int] = set()
        self._given_up: set[int] = set()
        for sites in self._sites.values():
            if not self._holds(frozenset(sites)):
                self._uncertain.update(sites)

    def insists(self, wait: int) -> bool:
        """Whether nothing depends on how often a wait fails: it is certain, and no thread ends without its success."""
        return wait not in self._uncertain and wait not in self._given_up

    def uncertain(self) -> list[frozenset[int]]:
        """The tests of each place that are not certain."""
        return [frozenset(sites) for sites in self._sites.values() if not self._uncertain.isdisjoint(sites)]

    def _places(self) -> dict[Place, list[int]]:
        found: dict[Place, list[int]] = {}
        for pc, instruction in enumerate(self._instructions):
            if is_wait(instruction) and pc in self._uses:
                found.setdefault((instruction.operands[1], instruction.operands[2]), []).append(pc)
        return found

    def _holds(self, sites: frozenset[int]) -> bool:
        """Whether no effect is reached with an open outcome."""
        outcomes: dict[int, int] = {}
        for pc in sites:
            passed = self._outcome(pc)
            if passed is None:
                return False
            outcomes[pc] = passed
        place = frozenset(r for pc in sites for r in self._uses[pc].reads)
        state = dict.fromkeys(self._graph.successors, Way.NONE)
        state[self._graph.entry] = Way.UNTESTED
        stack = [self._graph.entry]
        while stack:
            block = stack.pop()
            if block == EXIT:
                continue
            after = self._through(block, state[block], sites, place)
            if after is None:
                return False
            traps = self._instructions[self._ends[block]].opcode == "trap"  # the launch fails, and has no outputs
            for target in self._graph.successors[block]:
                if target == EXIT and traps:
                    continue
                arriving = self._edge(block, target, after, outcomes)
                if arriving | state[target] != state[target]:
                    state[target] |= arriving
                    stack.append(target)
        if state[EXIT] & (Way.FAILED | Way.MOVED):
            self._given_up.update(sites)
        return True

    def _through(self, block: int, way: Way, sites: frozenset[int], place: frozenset[int]) -> Way | None:
        """The ways at the end of a block; None where an effect is reached with an open outcome."""
        for pc in range(block, self._ends[block] + 1):
            instruction = self._instructions[pc]
            if pc in sites:
                way = Way.MOVED if way & Way.MOVED else Way.FAILED | Way.PASSED
                continue
            if self._is_effect(instruction) and is_open(way):
                return None
            row = self._uses.get(pc)
            if row is not None and way & Way.FAILED and not place.isdisjoint(row.writes) and not self._repeats(pc, row):
                way = way & ~Way.FAILED | Way.MOVED
        return way

    @staticmethod
    def _is_effect(instruction: Instruction) -> bool:
        return instruction.opcode not in ARITHMETIC | SILENT and not is_wait(instruction)

    def _edge(self, block: int, target: int, way: Way, outcomes: Mapping[int, int]) -> Way:
        """The ways that take an edge: a branch on the outcome of the block's last test parts them."""
        tests = [pc for pc in outcomes if block <= pc <= self._ends[block]]
        if not tests or way & Way.MOVED:
            return way
        return Way.PASSED if target == outcomes[max(tests)] else Way.FAILED

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
            for r in row.writes:
                for known, value in zip((held, failed), values):
                    known.pop(r, None)
                    if value is not None and row.predicate is None:
                        known[r] = value
        if predicate is None or predicate not in held or predicate not in failed or held[predicate] == failed[predicate]:
            return None
        return bool(held[predicate])

    def _repeats(self, pc: int, row: Uses, depth: int = 8) -> bool:
        """Whether an instruction computes the same whenever it runs between two tests: all that it is made from has one definition."""
        if any(len(self._writers.get(r, ())) != 1 for r in row.writes) or self._instructions[pc].opcode not in ARITHMETIC or depth == 0:
            return False
        sources = [writers for r in row.reads if (writers := self._writers.get(r))]
        return all(len(w) == 1 and self._repeats(w[0], self._uses[w[0]], depth - 1) for w in sources)


def is_open(way: Way) -> bool:
    """Whether some ways have passed and others have not, or nobody can tell."""
    return bool(way & Way.MOVED) or (bool(way & Way.PASSED) and bool(way & Way.FAILED))


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


def evaluate(instruction: Instruction, known: Mapping[int, int | bool], register: Callable[[str], int]) -> int | bool | None:
    """What an instruction computes from registers that are 0 or 1; None where that is not known."""

    def value(operand: Operand) -> int | bool | None:
        if isinstance(operand, IntLit):
            return operand.value
        return known.get(register(operand.name)) if isinstance(operand, Reg) else None

    sources = [value(operand) for operand in instruction.operands[1:]]
    if instruction.opcode in ("mov", "cvt"):
        return sources[0]
    if instruction.opcode == "selp" and len(sources) == 3 and sources[2] is not None:
        return sources[0] if sources[2] else sources[1]
    a, b = (*sources, None, None)[:2]
    if instruction.opcode == "and" and (a == 0 or b == 0):
        return 0  # whatever the other one is
    if a is None or b is None or len(sources) != 2:
        return None
    if instruction.opcode == "setp":
        compare = _COMPARE.get(instruction.modifiers[0])
        kind = instruction.modifiers[-1]
        if not kind.startswith("s"):  # -1 is the greatest number there is
            a, b = (int(x) & (1 << int(kind[1:])) - 1 if kind[1:].isdigit() else x for x in (a, b))
        return compare(int(a), int(b)) if compare is not None else None
    return int(a) & int(b) if instruction.opcode == "and" else None
