"""Traversal shared by every evaluator: the terms below some outputs, in batches whose operands are all in earlier batches.

The number of batches is the depth of the terms, not their number. Values live in dense tables with one row per position:
interned constants first (position = id), then the inputs that are needed, then nodes batch by batch, so that a batch writes
one slice. Steps hold positions, not ids; ``Plan.at`` translates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ptx_engine.decide.steps import ALL_PARTS, LEVELS, RAISING, Mode, Step
from ptx_engine.decide.sweep import Sweep
from ptx_engine.decide.sweep_emissions import DENSE, EmissionSweep
from ptx_engine.terms.arena import CONST_CAP, Arena
from ptx_engine.terms.ops import Op

__all__ = ["LEVELS", "RAISING", "Mode", "Plan", "Step", "plan", "store"]


_EXTREME = np.zeros(256, bool)
_EXTREME[[Op.MAX, Op.MIN, Op.NMAX, Op.NMIN]] = True


@dataclass
class Plan:
    """Batches of ids in evaluation order; ``steps`` are those of positions. ``need`` (part masks) is indexed by id, inputs (negative
    ids) at its end; ``ids`` and ``codes`` (operator codes, 0 for inputs) by position, of which there are ``count``; the first
    ``constants`` positions are reserved for interned constants, the next ``inputs`` for inputs."""

    arena: Arena
    batches: list[Step]
    need: np.ndarray
    position: np.ndarray
    codes: np.ndarray
    constants: int
    inputs: int
    _extremes: np.ndarray | None = None
    _steps: list[Step] | None = None
    _ids: np.ndarray | None = None

    @property
    def count(self) -> int:
        """How many positions there are."""
        return len(self.codes)

    @property
    def ids(self) -> np.ndarray:
        """The id of each position."""
        if self._ids is None:
            self._ids = np.arange(self.count, dtype=np.int32)  # (of interned constants the position is the id)
            for ids in (self.input_ids(), *(step.ids.ravel() for step in self.batches)):
                self._ids[self.position[ids]] = ids
        return self._ids

    @property
    def steps(self) -> list[Step]:
        """All batches as positions, which are kept: for those who go through them several times."""
        if self._steps is None:
            places = Places(self.position, sum(step.held() for step in self.batches))
            self._steps = [step.moved(places.of) for step in self.batches]
        return self._steps

    def each(self) -> Iterator[Step]:
        """All batches as positions, one after the other: what one takes is in the cache still when the next one is made."""
        if self._steps is not None:
            yield from self._steps
            return
        for step in self.batches:
            yield step.moved(self._places)

    def _places(self, ids: np.ndarray) -> np.ndarray:
        return self.position.take(ids, mode="wrap")  # (every id is one of the plan's)

    @property
    def extremes(self) -> np.ndarray:
        """By position, how many maxima and minima lie before it, so that these have a table of their own; their count stands last."""
        if self._extremes is None:
            self._extremes = np.zeros(len(self.codes) + 1, np.int32)
            np.cumsum(_EXTREME[self.codes], out=self._extremes[1:])
        return self._extremes

    def upward(self, level: int) -> Iterator[Step]:
        """Steps in evaluation order (operands first), restricted to the nodes needed at a level."""
        bit = 1 << level
        for step in self.batches:
            part = step.restricted(bit)
            if part is not None:
                yield part.moved(self._places)

    def at(self, ids: np.ndarray) -> np.ndarray:
        """Positions of ids below the outputs. Raises KeyError for any other id."""
        ids = np.asarray(ids)
        if not self.need.take(ids).all():
            raise KeyError("an id that is not below the outputs of this plan")
        return self.position.take(ids)

    def input_ids(self, level: int = -1) -> np.ndarray:
        """Ids of the inputs that are needed at a level (any level if negative), ascending by storage index."""
        return self._needed(_needed_inputs(self.need, len(self.arena)), level)

    def constant_ids(self, level: int = -1) -> np.ndarray:
        """Ids of the interned constants that are needed at a level (any level if negative)."""
        return self._needed(np.arange(self.constants, dtype=np.int32), level)

    def node_ids(self) -> np.ndarray:
        """Ids of all nodes below the outputs, ascending."""
        return np.sort(np.concatenate([np.zeros(0, np.int32), *(step.ids.ravel() for step in self.batches)]))

    def _needed(self, ids: np.ndarray, level: int) -> np.ndarray:
        mask = ALL_PARTS if level < 0 else 1 << level
        return np.asarray(ids[(self.need[ids] & mask) != 0])

    @property
    def levels(self) -> list[int]:
        """The levels at which anything is needed, highest first."""
        present = int(np.bitwise_or.reduce(self.need)) if len(self.need) else 0
        return [level for level in reversed(range(LEVELS)) if present >> level & 1]


def plan(arena: Arena, outputs: np.ndarray, mode: Mode | None = None) -> Plan:
    """Order the terms below ``outputs`` (ids, any shape). Without a mode: what is fastest, CONE for few outputs of a large arena."""
    outputs = np.unique(np.asarray(outputs, np.int32))
    mode = mode or _fastest(arena, len(outputs))
    nodes = outputs[outputs >= CONST_CAP]
    if mode is Mode.EMISSIONS:
        by_emission = EmissionSweep(arena)
        by_emission.need[outputs] = 1
        return _placed(arena, by_emission.release_all(nodes)[::-1], by_emission.need)
    sweep = Sweep(arena, mode)
    sweep.need[outputs] = 1
    sweep.count_uses(nodes)
    return _placed(arena, sweep.release_all(nodes)[::-1], sweep.need)


def _fastest(arena: Arena, outputs: int) -> Mode:
    terms = len(arena) - CONST_CAP
    if outputs < 256 and terms > 1 << 17:
        return Mode.CONE
    return Mode.EMISSIONS if terms > DENSE * len(arena.emissions) else Mode.WHOLE


def _placed(arena: Arena, steps: list[Step], need: np.ndarray) -> Plan:
    """Give every id a position, and every step positions: what is needed at the same levels lies together, so that the tables of
    levels hold little that is not needed there."""
    constants, inputs = min(len(arena.consts), CONST_CAP), _needed_inputs(need, len(arena))
    first = constants + len(inputs)
    position = np.zeros(len(need), np.int32)
    position[:constants] = np.arange(constants)
    position[inputs] = np.arange(constants, first)
    codes = np.zeros(first + sum(step.ids.size for step in steps), np.uint8)
    for step in sorted(steps, key=lambda step: int(np.bitwise_or.reduce(step.need))):
        stop = first + step.ids.size
        position[step.ids.ravel()] = np.arange(first, stop, dtype=np.int32)
        codes[first:stop] = step.op
        first = stop
    return Plan(arena, steps, need, position, codes, constants, len(inputs))


def _needed_inputs(need: np.ndarray, size: int) -> np.ndarray:
    """Ids of the inputs that are needed, ascending by storage index."""
    return np.asarray(-1 - (len(need) - 1 - size - np.flatnonzero(need[size:])[::-1]), np.int32)


class Places:
    """Positions of many columns of ids, one behind the other in one array: so large a one is laid out in few, large pages, while
    as many small ones cost a page fault every thousand ids."""

    def __init__(self, position: np.ndarray, count: int) -> None:
        self._position = position
        self._table = np.empty(count, position.dtype)
        self._filled = 0

    def of(self, ids: np.ndarray) -> np.ndarray:
        """The positions of ids, of any shape; negative ids count from the end."""
        start, self._filled = self._filled, self._filled + ids.size
        # (every id is one of the plan's; with bounds checked, take would fill a copy of its output)
        return self._position.take(ids, out=self._table[start : self._filled].reshape(ids.shape), mode="wrap")


def store(values: np.ndarray, ids: np.ndarray, result: np.ndarray) -> None:
    """``values[ids] = result``; a run of consecutive ids is a slice."""
    flat = ids.ravel()
    result = result.reshape(-1, values.shape[1])
    first, last = int(flat[0]), int(flat[-1])
    if last - first == len(flat) - 1 and (flat[1:] - flat[:-1] == 1).all():
        values[first : last + 1] = result
    else:
        values[flat] = result
