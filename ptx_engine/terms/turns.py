"""Nodes that a loop emitted at once for many of its turns: a table in the arena, a row for each turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Turns:
    """``turns`` turns of a loop with ``width`` nodes each, from id ``first`` on: in every turn the same operators, and from the second
    turn on every operand is the one of the turn before plus a step."""

    first: int
    turns: int
    width: int

    @property
    def stop(self) -> int:
        """The id after the last node."""
        return self.first + self.turns * self.width

    def table(self, column: np.ndarray) -> np.ndarray:
        """The part of a column of the arena that these nodes are: (turns, width)."""
        return column[self.first : self.stop].reshape(self.turns, self.width)
