"""Where a success may order something although nothing is known of it: outcomes of single tests of mbarriers that are lost sight of.

``successes`` follows the tests of one place, through the registers of a thread. Where a thread goes, and what it accesses, may hang on
tests of several places, of which either is enough; on what was stored where a test had succeeded; on the success of another lane; or on a
test before the last one at its place; and a success may choose the address of what is executed anyway. Then nothing is known of a success,
and what one orders, for this thread or for those who meet it, looks unordered. Here is which tests these are; ``trusting`` judges what was
found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ptx_engine.machine.conditional import MEETINGS, Conditional, Dependents
from ptx_engine.machine.control_flow import EXIT, Graph
from ptx_engine.machine.influence import FENCES, is_wait
from ptx_engine.machine.recording import Uses
from ptx_engine.syntax.ast import Instruction

NOTHING: frozenset[int] = frozenset()
STORES = frozenset({"st", "atom", "red", "stmatrix"})
LOADS = frozenset({"ld", "atom", "ldmatrix"})
SPACES, CONSTANT = frozenset({"shared", "global", "local"}), frozenset({"param", "const"})
EXCHANGES = frozenset({"shfl", "vote", "match", "redux"})


class Tests:
    """Tests of mbarriers, each with its place: all tests that are judged together. Of the ``doubtful`` ones, which are not certain, the
    outcomes may be lost; ``renewed``: those of places that are tested once more after a success (``Successes.renews``); ``behind``: whether
    a test is known to have succeeded for whoever executes an instruction."""

    def __init__(
        self, places: Mapping[int, frozenset[int]], doubtful: frozenset[int], renewed: frozenset[int], behind: Callable[[int, int], bool],
        instructions: Sequence[Instruction], uses: Mapping[int, Uses], graph: Graph, ends: Mapping[int, int], conditional: Conditional,
    ) -> None:  # fmt: skip
        self._places, self._doubtful, self._renewed, self._behind = places, doubtful, renewed, behind
        self._instructions, self._uses, self._conditional = instructions, uses, conditional
        self._graph, self._ends = graph, ends
        self._dependents = {test: conditional.on(frozenset((test,)), {}) for test in sorted(places)}

    def lost(self) -> frozenset[int]:
        """Those whose outcomes are lost: together with another place's, or by themselves."""
        spaces = {test: self._stored(self._dependents[test]) for test in self._doubtful}
        stored = frozenset(test for test, found in spaces.items() if found)
        found = stored if stored and self._loaded(frozenset().union(*spaces.values())) else NOTHING
        for pc in NOTHING.union(*(self._dependents[test].decided for test in self._doubtful)):
            deciding = {test for test, on in self._dependents.items() if pc in on.decided}
            found |= (deciding & self._doubtful) if len({self._places[test] for test in deciding}) > 1 else deciding & self._renewed
        return found | {test for test in self._doubtful if self._chooses_address(test) or self._told(test)}

    def _chooses_address(self, test: int) -> bool:
        """Whether an outcome says which memory is accessed where it may also have failed."""
        return any(not self._behind(test, pc) for pc in self._dependents[test].placed)

    def _told(self, test: int) -> bool:
        """Whether an outcome decides something for other lanes, which may have met, by then, the one that has tested."""
        on = self._dependents[test]
        exchanges = frozenset(pc for pc in on.inside | on.reading if pc in self._uses and self._exchanges(pc))
        return bool(exchanges and self._conditional.on(exchanges, {}).decided) and any(map(self._gives_on, self._after(test)))

    def _exchanges(self, pc: int) -> bool:
        """Whether an instruction gives a value to other threads, by registers."""
        instruction = self._instructions[pc]
        return instruction.opcode in EXCHANGES or (instruction.opcode in ("bar", "barrier") and "red" in instruction.modifiers)

    def _gives_on(self, pc: int) -> bool:
        """Whether others may learn by an instruction what its thread knows: without one, a success orders nothing for them."""
        instruction = self._instructions[pc]
        releases = not {"release", "acq_rel"}.isdisjoint(instruction.modifiers)
        return releases or (instruction.opcode in MEETINGS | FENCES and not is_wait(instruction))

    def _after(self, test: int) -> Iterator[int]:
        """The instructions that may come after a test."""
        block = max(b for b in self._graph.successors if b <= test)
        yield from range(test + 1, self._ends[block] + 1)
        for b in self._graph.reached([b for b in self._graph.successors[block] if b != EXIT]):
            yield from range(b, self._ends[b] + 1)

    def _stored(self, on: Dependents) -> frozenset[str]:
        """The state spaces where something is stored that depends on an outcome."""
        return frozenset(space for pc in on.inside | on.reading if self._instructions[pc].opcode in STORES for space in self._spaces(pc))

    def _spaces(self, pc: int) -> Iterator[str]:
        """The state spaces that an access may be to and that are stored to: any, by a generic address."""
        named = {m.partition("::")[0] for m in self._instructions[pc].modifiers} & (SPACES | CONSTANT)
        yield from (named or SPACES) - CONSTANT

    def _loaded(self, spaces: frozenset[str]) -> set[int]:
        """What is decided by values that come from loads of state spaces."""
        loads = [pc for pc in self._uses if self._instructions[pc].opcode in LOADS and not spaces.isdisjoint(self._spaces(pc))]
        return self._conditional.on(frozenset(loads), {}).decided
