"""Nodes that a loop emitted at once for many of its turns: a table in the arena, a row for each turn."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Turns:
    """``turns`` turns of a loop with ``width`` nodes each, from id ``first`` on: in every turn the same operators, and from the second
    turn on every operand is the one of the turn before plus a step. ``begins`` are the places in a turn, ascending, at which emissions
    begin, and ``origins`` who made each."""

    first: int
    turns: int
    width: int
    begins: tuple[int, ...]
    origins: tuple[object, ...]

    @property
    def stop(self) -> int:
        """The id after the last node."""
        return self.first + self.turns * self.width

    def origin_of(self, ident: int) -> object:
        """Who emitted one of the nodes."""
        return self.origins[bisect_right(self.begins, (ident - self.first) % self.width) - 1]

    def table(self, column: np.ndarray) -> np.ndarray:
        """The part of a column of the arena that these nodes are: (turns, width)."""
        return column[self.first : self.stop].reshape(self.turns, self.width)
