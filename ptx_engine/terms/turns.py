"""Nodes that a loop emitted at once for many of its turns: a table in the arena, a row for each turn."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, slots=True)
class TurnOperand:
    """One operand of all nodes of a loop's turns: in turn t it is ``start + t * step`` (both per node of a turn). ``first`` are places
    where it is another one in the first turn, with those ids."""

    start: np.ndarray
    step: np.ndarray
    first: Sequence[tuple[slice, "int | np.ndarray"]] = ()

    def fill(self, table: np.ndarray) -> None:
        """Write the operand into its part of the arena: (turns, nodes of a turn)."""
        np.multiply(np.arange(len(table), dtype=np.int32)[:, None], self.step, out=table)
        table += self.start.astype(np.int32)
        for span, ids in self.first:
            table[0, span] = ids


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """``turns`` turns of a loop with ``width`` nodes each, from id ``first`` on: in every turn the same operators, and from the second
    turn on every operand is the one of the turn before plus its step in ``steps`` (one array for each operand). ``begins`` are the places
    in a turn, ascending, at which emissions begin, and ``origins`` who made each."""

    first: int
    turns: int
    width: int
    begins: tuple[int, ...]
    origins: tuple[object, ...]
    steps: tuple[np.ndarray, np.ndarray, np.ndarray]

    @property
    def stop(self) -> int:
        """The id after the last node."""
        return self.first + self.turns * self.width

    def continues(self, other: Turns, op: np.ndarray, operands: Sequence[np.ndarray]) -> bool:
        """Whether these turns are those that follow the ``other`` ones, in the arena's columns."""
        if other.stop != self.first or other.width != self.width or (other.begins, other.origins) != (self.begins, self.origins):
            return False
        alike = (self.table(op)[0] == other.table(op)[0]).all()
        return bool(alike) and all(
            np.array_equal(mine, step) and np.array_equal(self.table(column)[0], other.table(column)[-1] + step)
            for mine, step, column in zip(self.steps, other.steps, operands)
        )

    def extended(self, turns: int) -> Turns:
        """These turns and ``turns`` more."""
        return replace(self, turns=self.turns + turns)

    def origin_of(self, ident: int) -> object:
        """Who emitted one of the nodes."""
        return self.origins[bisect_right(self.begins, (ident - self.first) % self.width) - 1]

    def table(self, column: np.ndarray) -> np.ndarray:
        """The part of a column of the arena that these nodes are: (turns, width)."""
        return column[self.first : self.stop].reshape(self.turns, self.width)


def spans_of(loops: Sequence[Turns], start: int, end: int, kept: int = 0) -> Iterator[tuple[int, int]]:
    """The ids from ``start`` to ``end`` that were not emitted in turns of loops, and the first turns of each loop (``kept`` of them)."""
    for loop in loops:
        if loop.stop > start:
            yield start, min(loop.first + kept * loop.width, loop.stop)
            start = loop.stop
    yield start, end


#: an id in an earlier turn than that is not worth a look at its turns
_LEAST_TURN = 4


class TurnPlaces:
    """Where some nodes are in the turns of loops of one width: ``first``, the first node of each one's loop, ``width``, and ``turn``, the
    earliest turn that one of them is in."""

    def __init__(self, loops: Sequence[Turns], which: np.ndarray, ids: np.ndarray) -> None:
        self._loops = [(loops[i], which == i) for i in np.unique(which).tolist()]
        self.width = self._loops[0][0].width
        self.first = np.empty(len(ids), np.int32)
        for loop, mine in self._loops:
            self.first[mine] = loop.first
        self.turn = int(((ids - self.first) // np.int32(self.width)).min())

    @classmethod
    def of(cls, loops: Sequence[Turns], ids: np.ndarray) -> TurnPlaces | None:
        """The places of a column of ids; None where some are in no loop, in loops of different widths, or in too early a turn."""
        if not loops:
            return None
        firsts = np.array([loop.first for loop in loops], np.int64)
        which = np.searchsorted(firsts, ids, side="right") - 1
        if int(which.min()) < 0:
            return None
        present = [loops[i] for i in np.unique(which).tolist()]
        if any(loop.width != present[0].width for loop in present) or (ids >= np.array([loop.stop for loop in loops])[which]).any():
            return None
        found = cls(loops, which, ids)
        return found if found.turn >= _LEAST_TURN else None

    def steps(self, slot: int, ids: np.ndarray) -> np.ndarray:
        """The steps of an operand of nodes that are in the same loops."""
        places = (ids - self.first) % np.int32(self.width)
        if len(self._loops) == 1:
            return np.asarray(self._loops[0][0].steps[slot][places])
        result = np.empty(len(ids), np.int32)
        for loop, mine in self._loops:
            result[mine] = loop.steps[slot][places[mine]]
        return result
