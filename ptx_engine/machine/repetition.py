"""Whether anything depends on the outcomes of a test of an mbarrier, or on how often it fails.

After its success a wait that is repeated until then (``certainty``) has the same result in every schedule. But turns may be counted,
something may be done in each of them, or after the success of a first test and not of a later one: what comes of that is up to the
schedule. Of a single test everything may be: nothing depends on it if all that it decides is whether to wait on for the same phase.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ptx_engine.machine.certainty import Certainty, Doubtful
from ptx_engine.machine.conditional import Conditional
from ptx_engine.machine.control_flow import EXIT, Graph
from ptx_engine.machine.data_flow import ARITHMETIC
from ptx_engine.machine.influence import SILENT, is_wait
from ptx_engine.machine.recording import Uses
from ptx_engine.machine.successes import Successes
from ptx_engine.syntax.ast import Instruction


class Repetition:
    """Answers for the tests of one function."""

    def __init__(
        self, instructions: Sequence[Instruction], uses: Mapping[int, Uses], graph: Graph, ends: Mapping[int, int],
        certainty: Certainty, conditional: Conditional, successes: Successes,
    ) -> None:  # fmt: skip
        self._instructions, self._uses, self._graph, self._ends = instructions, uses, graph, ends
        self._certainty, self._conditional, self._successes = certainty, conditional, successes
        self._known: dict[int, bool] = {}
        self._constants: dict[frozenset[int], dict[int, frozenset[int]]] = {}

    def insists(self, wait: int) -> bool:
        """Whether a wait is repeated until it succeeds, by whoever goes on or ends, and nothing depends on how often it has failed."""
        return self._certainty.insists(wait) and self.harmless(wait)

    def harmless(self, wait: int) -> bool:
        """Whether no instruction with an effect depends on the outcomes of a test."""
        if wait not in self._known:
            self._known[wait] = self._unseen(wait)
        return self._known[wait]

    def _unseen(self, wait: int) -> bool:
        together = self._certainty.together(wait)
        if together not in self._constants:
            self._constants[together] = self._successes.constants(Doubtful(together, frozenset()))
        found = self._conditional.on(frozenset((wait,)), self._constants[together])
        waits_on = (found.inside & together) - found.reading - self._elsewhere(wait, together)
        return not any(self._is_effect(pc) for pc in (found.inside | found.reading) - waits_on - self._conditional.doomed)

    def _is_effect(self, pc: int) -> bool:
        return self._instructions[pc].opcode not in ARITHMETIC | SILENT or is_wait(self._instructions[pc])

    def _elsewhere(self, wait: int, together: frozenset[int]) -> set[int]:
        """The tests of a test's place to which a way leads from it on which the place is computed anew: for another phase, perhaps."""
        place = self._uses[wait].reads
        found: set[int] = set()
        begun = max(b for b in self._graph.successors if b <= wait)
        seen: set[tuple[int, bool]] = set()
        stack = [(wait + 1, begun, False)]
        while stack:
            first, block, moved = stack.pop()
            for pc in range(first, self._ends[block] + 1):
                if pc == wait:
                    break
                if moved and pc in together:
                    found.add(pc)
                row = self._uses.get(pc)
                moved |= row is not None and not place.isdisjoint(row.writes) and not self._conditional.repeats(pc)
            else:
                for after in self._graph.successors[block]:
                    if after != EXIT and (after, moved) not in seen:
                        seen.add((after, moved))
                        stack.append((after, after, moved))
        return found
