"""What is known of a function before it runs: its graph of blocks, which waits are certain, what clocks and other chances influence.

Taken from the blocks as they were decoded; computed when first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ptx_engine.machine.certainty import Certainty
from ptx_engine.machine.conditional import Conditional
from ptx_engine.machine.control_flow import EXIT, Graph, Loop
from ptx_engine.machine.data_flow import ARITHMETIC
from ptx_engine.machine.influence import SILENT, Influence, is_arrival, is_wait
from ptx_engine.machine.lost_outcomes import Tests
from ptx_engine.machine.recording import Uses
from ptx_engine.machine.repetition import Repetition
from ptx_engine.machine.successes import Successes
from ptx_engine.machine.ticket_flow import TicketFlow
from ptx_engine.syntax.ast import Instruction, Name

if TYPE_CHECKING:
    from ptx_engine.machine.program import Block

CLOCKS = {"%clock": 32, "%clock_hi": 32, "%clock64": 64, "%globaltimer": 64, "%globaltimer_lo": 32, "%globaltimer_hi": 32}


def clock_of(instruction: Instruction) -> str:
    """The clock that an instruction reads, or ""."""
    if instruction.opcode != "mov" or len(instruction.operands) != 2:
        return ""
    source = instruction.operands[1]
    return source.name if isinstance(source, Name) and source.name in CLOCKS else ""


class Analysis:
    """Of the blocks (by start) of one function; ``uses`` by instruction, ``register`` gives the slot of a name."""

    def __init__(
        self, blocks: "Mapping[int, Block]", instructions: Sequence[Instruction], uses: Mapping[int, Uses], register: Callable[[str], int]
    ) -> None:
        self._instructions, self._uses, self._register = instructions, uses, register
        self._ends = {start: start + block.size - 1 for start, block in blocks.items()}
        self._comes_after: dict[tuple[int, int], bool] = {}
        self._live = {start: frozenset(block.live) for start, block in blocks.items()}
        self._successors = {start: successors(block, blocks) for start, block in blocks.items()}
        self.has_mbarriers = any(i.opcode == "mbarrier" or (i.opcode == "cp" and "mbarrier" in i.modifiers) for i in instructions)

    @cached_property
    def graph(self) -> Graph:
        """The graph of the blocks."""
        return Graph(self._successors)

    @cached_property
    def _influence(self) -> Influence:
        return Influence(self._instructions, self._uses, self.graph, self._ends, self._live)

    @cached_property
    def ticket_flow(self) -> TicketFlow:
        """Where the results of atomics go."""
        return TicketFlow(self._instructions, self._uses, self.graph, self._ends, self._register)

    @cached_property
    def _certainty(self) -> Certainty:
        return Certainty(self._instructions, self._uses, self.graph, self._ends, self._register, self._conditional)

    @cached_property
    def _conditional(self) -> Conditional:
        return Conditional(self._instructions, self._uses, self.graph, self._ends)

    @cached_property
    def _successes(self) -> Successes:
        return Successes(self._instructions, self._uses, self.graph, self._ends, self._register)

    @cached_property
    def _repetition(self) -> Repetition:
        own = (self._instructions, self._uses, self.graph, self._ends)
        return Repetition(*own, self._certainty, self._conditional, self._successes)

    @cached_property
    def _timed(self) -> set[int] | None:
        """The registers that clocks influence; None where they influence more than registers."""
        clocks = [pc for pc, i in enumerate(self._instructions) if clock_of(i)]
        return self._influence.of(clocks) if clocks else set()

    def harmless(self, instruction: int, reaches_global: Callable[[int], bool]) -> bool:
        """Whether nothing that the function computes depends on what an instruction returns; ``reaches_global`` says of an atomic
        whether it may be one of global memory."""
        if is_wait(self._instructions[instruction]):
            return self._repetition.harmless(instruction)
        return self._influence.harmless(instruction, reaches_global)

    @cached_property
    def doubtful(self) -> dict[int, int]:
        """Tests of mbarriers that are not certain, each with the number of its place."""
        return {pc: number for number, place in enumerate(self._certainty.doubtful()) for pc in place.sites - place.sure}

    @cached_property
    def sure(self) -> dict[int, int]:
        """Tests that are certain although others of their place are not, each with the number of that place."""
        return {pc: number for number, place in enumerate(self._certainty.doubtful()) for pc in place.sure}

    @cached_property
    def _tests(self) -> list[int]:
        """Tests of mbarriers, repeated or not."""
        return [pc for pc, i in enumerate(self._instructions) if is_wait(i) and pc in self._uses]

    @cached_property
    def traps(self) -> dict[int, frozenset[int]]:
        """Traps that an outcome of a test of an mbarrier leads to, as where a wait gives up, each with these tests."""
        return self.traps_of(self._tests)

    def traps_of(self, looks: Iterable[int]) -> dict[int, frozenset[int]]:
        """Traps that what an instruction sees leads to, each with these instructions."""
        found: dict[int, frozenset[int]] = {}
        if any(i.opcode == "trap" for i in self._instructions):
            for pc in looks:
                for trap in self._conditional.traps(pc):
                    found[trap] = found.get(trap, frozenset()) | {pc}
        return found

    @cached_property
    def traps_are_silent(self) -> bool:
        """Whether nobody who is on the way to a trap, and to nothing else, looks at memory or does what others can see. In the block of a
        guarded trap any guard may be that of the trap."""
        doomed, instructions = set(self._conditional.doomed), self._instructions
        for block, end in self._ends.items():
            if block != EXIT and instructions[end].opcode == "trap" and instructions[end].predicate is not None:
                doomed |= {pc for pc in range(block, end) if instructions[pc].predicate is not None}
        return all(instructions[pc].opcode in ARITHMETIC | SILENT | {"trap"} for pc in doomed)

    @cached_property
    def single_tests(self) -> frozenset[int]:
        """Tests of mbarriers on whose outcome something depends."""
        return frozenset(pc for pc in self._tests if not self._repetition.insists(pc))

    @cached_property
    def arrivals(self) -> frozenset[int]:
        """Arrivals on mbarriers, by threads or by copies."""
        return frozenset(pc for pc, i in enumerate(self._instructions) if is_arrival(i))

    @cached_property
    def lost_outcomes(self) -> frozenset[int]:
        """Single tests of mbarriers whose successes may order what nothing is known to order."""
        renewed = frozenset(pc for place in self._certainty.doubtful() if self._successes.renews(place) for pc in place.sites - place.sure)
        places = {pc: self._certainty.together(pc) for pc in self._tests}
        own = (self._instructions, self._uses, self.graph, self._ends, self._conditional)
        return Tests(places, frozenset(self.doubtful), renewed, self._is_behind, *own).lost()

    def _is_behind(self, test: int, pc: int) -> bool:
        """Whether whoever executes an instruction has seen a success at the place of a test that is not certain."""
        return bool((self.behind_success.get(pc, 0) | self.settled.get(pc, 0)) >> self.doubtful[test] & 1)

    @property
    def behind_success(self) -> dict[int, int]:
        """The instructions that run only where such a test has succeeded, but in other schedules not at all, each with the places (as bits)
        that this is true of."""
        return self._behind[0]

    @property
    def settled(self) -> dict[int, int]:
        """The instructions that run only where such a test has succeeded, in every schedule, each with the places (as bits)."""
        return self._behind[1]

    @cached_property
    def _behind(self) -> tuple[dict[int, int], dict[int, int]]:
        found: tuple[dict[int, int], dict[int, int]] = {}, {}
        for number, place in enumerate(self._certainty.doubtful()):
            dependents = self._conditional.on(place.sites, self._successes.constants(place))
            some = dependents.inside | dependents.reading  # by a branch, or by a guard
            behind, passed = self._successes.behind(place)
            for where, pcs in zip(found, (behind & some, passed - some)):
                for pc in pcs:
                    where[pc] = where.get(pc, 0) | 1 << number
        return found

    @cached_property
    def _block_of_end(self) -> dict[int, int]:
        return {end: block for block, end in self._ends.items()}

    def behind(self, earlier: int, later: int) -> bool:
        """Whether a branch comes after the place where the ways of an earlier one meet, and not on these ways."""
        known = self._comes_after.get((earlier, later))
        if known is None:
            first, second = self._block_of_end.get(earlier), self._block_of_end.get(later)
            known = (
                first in self.graph.successors
                and first is not None
                and second not in self.graph.between(first) | {first}
                and second in self.graph.reached([self.graph.join(first)])
            )
            self._comes_after[earlier, later] = known
        return known

    def quiet_after(self, branch: int) -> bool:
        """Whether nothing but the end follows where the ways of a branch meet."""
        block = self._block_of_end.get(branch)
        if block not in self.graph.successors:
            return False
        join = self.graph.join(block)
        return all(
            self._instructions[pc].opcode in ARITHMETIC | SILENT for b in self.graph.reached([join]) for pc in range(b, self._ends[b] + 1)
        )

    def turns(self, header: int, last: int, has_effect: Callable[[Instruction], bool]) -> Loop | None:
        """The blocks that turns of a loop may pass that go back from block ``last``, with those of the same kind (without an effect)."""

        def quiet(block: int) -> bool:
            return not any(has_effect(self._instructions[pc]) for pc in range(block, self._ends[block] + 1))

        return self.graph.turns(header, last, quiet)

    def timed(self, loop: Loop) -> bool:
        """Whether a clock may end a loop, or that others leave it."""
        if self._timed is None or any(self._instructions[pc].opcode == "activemask" for pc in self._of(loop)):
            return True
        for block in loop.blocks:
            row = self._uses.get(self._ends[block])
            leaves = any(b not in loop.blocks for b in self.graph.successors[block])
            if leaves and row is not None and (row.predicate in self._timed or not self._timed.isdisjoint(row.reads)):
                return True
        return False

    def waits(self, loop: Loop) -> bool:
        """Whether a loop waits for an mbarrier."""
        return any(is_wait(self._instructions[pc]) for pc in self._of(loop))

    def _of(self, loop: Loop) -> Iterator[int]:
        """The instructions of a loop."""
        return (pc for block in loop.blocks for pc in range(block, self._ends[block] + 1))


def successors(block: Block, blocks: Mapping[int, Block]) -> list[int]:
    """Where a block goes, the target of its branch first; EXIT for the end of the thread."""
    after = [t if t in blocks else EXIT for t in block.end.targets]
    if block.end.kind == "branch" and block.end.predicate is None:
        return after[:1]
    if block.end.kind in ("exit", "trap") or not after:
        after.append(EXIT)
    return after
