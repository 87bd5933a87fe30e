"""Where a success may order something although nothing is known of it: outcomes of single tests of mbarriers that are lost sight of.

``successes`` follows the tests of one place, through registers. Where a thread goes, and what it accesses, may hang on tests of several
places, of which either is enough; on what was stored where a test had succeeded; or on a test before the last one at its place. Then
nothing is known of a success, and what one orders, for this thread or for those who meet it, looks unordered. Here is which tests these
are; ``trusting`` judges what was found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ptx_engine.machine.conditional import Conditional, Dependents
from ptx_engine.machine.recording import Uses
from ptx_engine.syntax.ast import Instruction

NOTHING: frozenset[int] = frozenset()
STORES = frozenset({"st", "atom", "red", "stmatrix"})
LOADS = frozenset({"ld", "atom", "ldmatrix"})
SPACES, CONSTANT = frozenset({"shared", "global", "local"}), frozenset({"param", "const"})


class Tests:
    """Tests of mbarriers, each with its place: all tests that are judged together. Of the ``doubtful`` ones, which are not certain, the
    outcomes may be lost; ``renewed``: those of places that are tested once more after a success (``Successes.renews``)."""

    def __init__(
        self, places: Mapping[int, frozenset[int]], doubtful: frozenset[int], renewed: frozenset[int],
        instructions: Sequence[Instruction], uses: Mapping[int, Uses], conditional: Conditional,
    ) -> None:  # fmt: skip
        self._places, self._doubtful, self._renewed = places, doubtful, renewed
        self._instructions, self._uses, self._conditional = instructions, uses, conditional
        self._dependents = {test: conditional.on(frozenset((test,)), {}) for test in sorted(places)}

    def lost(self) -> frozenset[int]:
        """Those whose outcomes are lost: together with another place's, or by themselves."""
        spaces = {test: self._stored(self._dependents[test]) for test in self._doubtful}
        stored = frozenset(test for test, found in spaces.items() if found)
        found = stored if stored and self._loaded(frozenset().union(*spaces.values())) else NOTHING
        for pc in NOTHING.union(*(self._dependents[test].decided for test in self._doubtful)):
            deciding = {test for test, on in self._dependents.items() if pc in on.decided}
            found |= (deciding & self._doubtful) if len({self._places[test] for test in deciding}) > 1 else deciding & self._renewed
        return found

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
