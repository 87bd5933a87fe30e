"""What a tile program leaves open, and how an evaluation took it: the order of combining, floats that do not fit an integer, and
the order of elements of a concatenation.

Asked after a comparison has failed: a difference in what the source leaves open is none of the compiler's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ptx_engine.decide.levels import plan
from ptx_engine.decide.oracle import Reals
from ptx_engine.terms.arena import Arena

if TYPE_CHECKING:
    from volta_pass.references.combine_order import Combine

#: integers below this many bits have no conversion of their own on the target
NARROW_BITS = 16


@dataclass(frozen=True)
class Conversion:
    """Floats that became integers: ids of the truncated numbers, and the least and greatest one with a meaning."""

    ids: np.ndarray
    low: int
    high: int
    narrow: bool
    user_loc: str


@dataclass
class Freedoms:
    """``fitting``: floats converted to narrow integers are taken to fit, else they are cut as the target cuts them."""

    fitting: bool = False
    combines: "dict[object, Combine]" = field(default_factory=dict)
    conversions: list[Conversion] = field(default_factory=list)
    #: where tensors are put together in an order that the compiler may choose, element by element
    reordered: dict[str, None] = field(default_factory=dict)

    @property
    def narrow_conversions(self) -> list[Conversion]:
        return [row for row in self.conversions if row.narrow]

    def beyond(self, arena: Arena, output: int, inputs: Mapping[str, str]) -> Conversion | None:
        """A conversion below an output whose number does not fit at these inputs ("A[3]" or a scalar's name -> number)."""
        if not self.conversions:
            return None
        below = plan(arena, np.array([output], np.int32)).ids
        values = Reals(arena, np.array([output], np.int32), lambda ids: _at(arena, ids, inputs))
        for row in self.conversions:
            ids = np.intersect1d(row.ids, below)
            numbers = values.of(ids) if len(ids) else np.zeros((0, 1))
            if ((numbers < row.low) | (numbers > row.high)).any():
                return row
        return None


def _at(arena: Arena, ids: np.ndarray, inputs: Mapping[str, str]) -> np.ndarray:
    """Values of input ids as a witness gives them; what it does not name is 0."""
    found = np.zeros((len(ids), 1))
    for position, ident in enumerate(ids):
        entry, index = arena.input_of(int(ident))
        text = inputs.get(f"{entry.name}[{index}]", inputs.get(entry.name, "0") if entry.count == 1 else "0")
        top, _, bottom = text.partition("/")
        found[position] = float(top) / float(bottom or 1)
    return found
