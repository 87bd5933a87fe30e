"""What depends on the outcomes of some tests of mbarriers: which instructions are executed or not, and which with other operands.

Registers that hold another value are followed forward, until they are written anew; from a branch by such a register to where its ways
meet, all that is written is such a register, too. A way that ends in a trap meets no other: the launch has failed. What goes through
memory is not followed: a value that comes so far is seen by others, and the result is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ptx_engine.machine.control_flow import EXIT, Graph
from ptx_engine.machine.data_flow import ARITHMETIC
from ptx_engine.machine.recording import Uses
from ptx_engine.syntax.ast import Instruction

#: registers that hold the same at an instruction whatever the outcomes were
Constants = Mapping[int, frozenset[int]]
NOTHING: frozenset[int] = frozenset()
#: instructions of threads that meet others
MEETINGS = frozenset({"bar", "barrier", "mbarrier"})


@dataclass
class Dependents:
    """Instructions that only some outcomes lead to (``inside``), and those that read what depends on outcomes (``reading``); of these the
    ones whose guard, way or address it is (``decided``), and those whose address it is (``placed``)."""

    inside: set[int] = field(default_factory=set)
    reading: set[int] = field(default_factory=set)
    decided: set[int] = field(default_factory=set)
    placed: set[int] = field(default_factory=set)


class Conditional:
    """Answers for one function."""

    def __init__(self, instructions: Sequence[Instruction], uses: Mapping[int, Uses], graph: Graph, ends: Mapping[int, int]) -> None:
        ending = {block for block in graph.successors if block != EXIT and instructions[ends[block]].opcode == "trap"}
        traps = {block for block in ending if instructions[ends[block]].predicate is None}  # (others go on where the guard is false)
        after = {b: [t for t in targets if t != EXIT or b not in ending] for b, targets in graph.successors.items() if b != EXIT}
        self._graph = Graph(after)
        self._instructions, self._uses, self._ends = instructions, uses, ends
        self._writers: dict[int, list[int]] = {}
        for pc, row in uses.items():
            for r in row.writes:
                self._writers.setdefault(r, []).append(pc)
        self._repeating: dict[int, bool] = {}
        #: of blocks from which every way ends in a trap, and traps that only some execute
        self.doomed = self._doomed(traps) | {ends[block] for block in ending}

    def _doomed(self, traps: set[int]) -> set[int]:
        """The instructions of blocks from which every way ends in one of these."""
        blocks, size = set(traps), -1
        while size != len(blocks):
            size = len(blocks)
            blocks |= {b for b, after in self._graph.successors.items() if after and set(after) <= blocks}
        return {pc for b in blocks for pc in range(b, self._ends[b] + 1)}

    def on(self, tests: frozenset[int], constants: Constants) -> Dependents:
        """What depends on the outcomes of tests."""
        walk = _Walk(self, self._uses, self._graph, self._ends, tests, constants)
        found = Dependents()
        for block, tainted in walk.run().items():
            inside = block in walk.inside
            for pc in range(block, self._ends[block] + 1):
                if inside:
                    found.inside.add(pc)
                if walk.depends(pc, tainted):
                    found.reading.add(pc)
                    if walk.decides(pc, tainted):
                        found.decided.add(pc)
                    if not tainted.isdisjoint(self._uses[pc].addresses):
                        found.placed.add(pc)
                walk.write(pc, tainted, inside=inside)
        return found

    def traps(self, test: int) -> set[int]:
        """The traps whose guard an outcome of a test is, or where a way leads that a branch by it takes."""
        on = self.on(frozenset((test,)), {})
        found = {pc for pc in on.decided if self._instructions[pc].opcode == "trap"}
        ways = {b for block, after in self._graph.successors.items() if block != EXIT and self._ends[block] in on.decided for b in after}
        for block in self._graph.reached(b for b in ways if b in self.doomed):
            found |= {self._ends[block]} if self._instructions[self._ends[block]].opcode == "trap" else set()
        return found

    def opcode(self, pc: int) -> str:
        """Of an instruction."""
        return self._instructions[pc].opcode

    def repeats(self, pc: int, depth: int = 64) -> bool:
        """Whether an instruction computes the same whenever it runs: all that it is made from has one definition, from no memory."""
        if depth == 0:
            return False
        if pc not in self._repeating:
            self._repeating[pc] = False  # what is made from itself
            row = self._uses[pc]
            single = all(self._writers[r] == [pc] for r in row.writes) and self._instructions[pc].opcode in ARITHMETIC
            sources = [writers for r in row.reads if (writers := self._writers.get(r))]
            self._repeating[pc] = single and all(len(w) == 1 and self.repeats(w[0], depth - 1) for w in sources)
        return self._repeating[pc]


class _Walk:
    def __init__(
        self, of: Conditional, uses: Mapping[int, Uses], graph: Graph, ends: Mapping[int, int], tests: frozenset[int],
        constants: Constants,
    ) -> None:  # fmt: skip
        self._of = of
        self._uses, self._graph, self._ends, self._tests, self._constants = uses, graph, ends, tests, constants
        #: blocks between a branch by an outcome and where its ways meet
        self.inside: set[int] = set()

    def depends(self, pc: int, tainted: set[int]) -> bool:
        """Whether an instruction reads a register that depends on a test."""
        row = self._uses.get(pc)
        if row is None:
            return False
        reads = row.reads if row.predicate is None else row.reads | {row.predicate}
        return not tainted.isdisjoint(reads - self._constants.get(pc, NOTHING))

    def decides(self, pc: int, tainted: set[int]) -> bool:
        """Whether such a register is the guard of an instruction, or says where it goes, what it accesses or whom it meets."""
        row = self._uses[pc]
        which = row.reads if self._of.opcode(pc) in MEETINGS | {"brx"} else row.addresses
        return row.predicate in tainted or not tainted.isdisjoint(which)

    def run(self) -> dict[int, set[int]]:
        """For each block the registers that depend on a test where it begins."""
        before: dict[int, set[int]] = {block: set() for block in self._graph.successors if block != EXIT}
        changed = True
        while changed:  # registers and blocks only become more
            changed = False
            for block in sorted(before):
                tainted = set(before[block])
                for pc in range(block, self._ends[block] + 1):
                    decides = self.depends(pc, tainted)
                    self.write(pc, tainted, inside=block in self.inside)
                targets = self._graph.successors[block]
                if len(targets) > 1 and decides:
                    between = self._graph.between(block)
                    changed |= not between <= self.inside
                    self.inside |= between
                for target in targets:
                    if target != EXIT and not tainted <= before[target]:
                        before[target] |= tainted
                        changed = True
        return before

    def write(self, pc: int, tainted: set[int], *, inside: bool) -> None:
        """Follow one instruction. What is computed the same whenever it is, is so between the ways, too."""
        row = self._uses.get(pc)
        if row is None:
            return
        if pc in self._tests or self.depends(pc, tainted) or (inside and not self._of.repeats(pc)):
            tainted |= row.writes
        elif row.predicate is None:
            tainted -= row.writes
