"""What the turns of a loop emitted at once (``terms.turns.Turns``), as tables with a row for each turn and a column for each place.

An operand of a place is the node of another place of the same turn, or of the turn before, or a term from before the loop; which,
is the same in all turns. Places are taken in runs that can be computed for all turns at once: those that need earlier places only,
sums that go on along a turn, and sums that each turn adds to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ptx_engine.terms.ops import Op
from ptx_engine.terms.turns import Turns

#: per operator the operand that a sum adds to; -1: it is none
_LINK = np.full(256, -1, np.int8)
_LINK[[Op.ADD, Op.SUB]] = 0
_LINK[Op.FMA] = 2


class Kind(IntEnum):
    """How the nodes of a run depend on each other: not at all, each on the one before it in its turn, each on itself a turn ago."""

    APART = 0
    ALONG = 1
    ACROSS = 2


@dataclass(frozen=True, slots=True)
class Run:
    """Places ``start`` to ``stop`` of one operator. A sum adds to its operand ``link``."""

    start: int
    stop: int
    op: Op
    kind: Kind
    link: int


class TurnTable:
    """Operators (width,) and operands, three tables (turns, width), of some turns; and where operands are.

    ``same`` and ``before`` (3, width) hold the place of an operand in the same turn and in the turn before, -1 elsewhere."""

    def __init__(self, turns: Turns, op: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        self.turns = turns
        self.ops = turns.table(op)[0]
        self.operands = [turns.table(column) for column in (a, b, c)]
        later = np.stack([column[1] for column in self.operands])  # (the first turn may have other operands)
        place = later - np.int32(turns.first + turns.width)
        inside = later >= turns.first
        self.same = np.where(inside & (place >= 0), place, -1)
        self.before = np.where(inside & (place < 0), place + np.int32(turns.width), -1)

    def runs(self) -> Iterator[Run]:
        """The places in runs, in order; they end early where a place needs one that comes later."""
        width = self.turns.width
        link = _LINK[self.ops]
        here = np.arange(width)
        linked = link >= 0
        same, before = self.same[link, here], self.before[link, here]
        kind = np.where(linked & (before == here), int(Kind.ACROSS), np.where(linked & (same == here - 1) & (here > 0), int(Kind.ALONG), 0))
        needed = np.maximum(self.same, self.before)
        needed[link[kind > 0], here[kind > 0]] = -1
        latest = needed.max(axis=0)
        number = kind * 256 + self.ops
        ends = np.append(np.flatnonzero(number[1:] != number[:-1]) + 1, width)
        start = 0
        while start < width:
            stop = int(ends[np.searchsorted(ends, start, side="right")])
            waits = np.flatnonzero(latest[start:stop] >= start)
            if len(waits):
                stop = start + int(waits[0])
            if stop == start:
                return
            yield Run(start, stop, Op(int(self.ops[start])), Kind(int(kind[start])), int(link[start]))
            start = stop
