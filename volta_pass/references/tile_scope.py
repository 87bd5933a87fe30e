"""Where a tile program's statements run: which programs, which lanes of parallel loops, under which masks.

Values are columns: axis 0 runs over the active programs, one more axis over each enclosing parallel loop; an axis has
length 1 where the value is uniform along it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ptx_engine.terms.arena import Arena
from volta_pass.references.ttir_frame import Frame
from volta_pass.references.ttir_values import Sym, Value, map_rows, take_programs

if TYPE_CHECKING:
    from volta_pass.references.tile_hazards import Nest
    from volta_pass.references.tile_memory import TileMemory


@dataclass(frozen=True)
class Scope:
    """``rows``: positions of the active programs in the batch (None: all of it). ``mask``: active lanes; ``guard``: a symbolic
    condition under which stores happen. ``env``: values of variables, grown by the statements of the scope."""

    frame: Frame
    memory: "TileMemory"
    env: dict[int, Value]
    numbers: np.ndarray
    lanes: tuple[int, ...] = ()
    rows: np.ndarray | None = None
    mask: np.ndarray | None = None
    guard: Sym | None = None
    nests: "tuple[Nest, ...]" = ()

    @property
    def arena(self) -> Arena:
        return self.frame.arena

    @property
    def rank(self) -> int:
        """Axes besides that of the programs."""
        return len(self.lanes)

    @property
    def programs(self) -> int:
        return len(self.numbers)

    def positions(self) -> np.ndarray:
        """Positions of the active programs in the batch."""
        return np.arange(self.programs) if self.rows is None else self.rows

    def full(self) -> tuple[int, ...]:
        """The shape of a value that is uniform along nothing."""
        return (self.programs, *self.lanes)

    def narrowed(self, chosen: np.ndarray) -> "Scope":
        """Only some of the active programs (positions among them)."""
        env = {var: take_programs(value, chosen) for var, value in self.env.items()}
        mask = None if self.mask is None else _taken(self.mask, chosen)
        guard = None if self.guard is None else take_programs(self.guard, chosen)
        assert guard is None or isinstance(guard, Sym)
        return replace(self, env=env, numbers=self.numbers[chosen], rows=self.positions()[chosen], mask=mask, guard=guard)

    def masked(self, mask: np.ndarray) -> "Scope":
        """Only some of the active lanes."""
        return replace(self, env=dict(self.env), mask=mask if self.mask is None else self.mask & mask)

    def guarded(self, condition: Sym) -> "Scope":
        """Stores happen only where a symbolic condition holds."""
        from volta_pass.references.tile_logic import conjunction

        guard = condition if self.guard is None else conjunction(self, self.guard, condition)
        return replace(self, env=dict(self.env), guard=guard)

    def with_lane(self, var: int, start: np.ndarray, extent: int) -> "Scope":
        """One more parallel loop: every value gets an axis; the loop's variable runs along it."""
        env = {known: map_rows(value, _widened) for known, value in self.env.items()}
        steps = np.arange(extent, dtype=start.dtype).reshape((1,) * (self.rank + 1) + (extent,))
        env[var] = start[..., None] + steps
        mask = None if self.mask is None else self.mask[..., None]
        guard = None if self.guard is None else map_rows(self.guard, _widened)
        assert guard is None or isinstance(guard, Sym)
        return replace(self, env=env, lanes=(*self.lanes, extent), mask=mask, guard=guard)


def _widened(array: np.ndarray) -> np.ndarray:
    return array[..., None]


def _taken(array: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    return array if array.shape[0] == 1 else array[chosen]
