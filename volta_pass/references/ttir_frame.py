"""Running decoded TTIR: a frame holds the registers of a group of programs that share control; groups split and merge here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ptx_engine.errors import PtxError
from ptx_engine.terms.arena import Arena
from volta_pass.references.budget import Budget
from volta_pass.references.ttir_memory import Memory
from volta_pass.references.ttir_types import TtirType
from volta_pass.references.ttir_values import Value, merge, need_concrete, take_programs

if TYPE_CHECKING:
    from volta_pass.references.ttir_registry import Block, Function


class Frame:
    """``regs``: one value per SSA value. ``pids``: x, y, z of each program (int32 arrays); ``numbers``: their linear number."""

    __slots__ = ("arena", "budget", "grid", "memory", "numbers", "pids", "regs")

    def __init__(
        self,
        regs: "list[Value | None]",
        pids: tuple[np.ndarray, np.ndarray, np.ndarray],
        numbers: np.ndarray,
        memory: Memory,
        budget: Budget,
        grid: tuple[int, int, int],
    ) -> None:
        self.regs = regs
        self.pids = pids
        self.numbers = numbers
        self.memory = memory
        self.arena: Arena = memory.arena
        self.budget = budget
        self.grid = grid

    @property
    def programs(self) -> int:
        return len(self.numbers)

    def get(self, register: int) -> Value:
        """The value of a register that has been set."""
        value = self.regs[register]
        assert value is not None
        return value

    def values(self, registers: Iterable[int]) -> list[Value]:
        return [self.get(r) for r in registers]

    def assign(self, registers: Sequence[int], values: Sequence[Value]) -> None:
        for register, value in zip(registers, values):
            self.regs[register] = value

    def with_registers(self, count: int) -> "Frame":
        """A fresh frame of the same programs, for a callee."""
        return Frame([None] * count, self.pids, self.numbers, self.memory, self.budget, self.grid)

    def narrowed(self, chosen: np.ndarray, live: Iterable[int] | None = None) -> "Frame":
        """A frame of some of the programs (positions), with the given registers, or all that are set."""
        regs: list[Value | None] = [None] * len(self.regs)
        for register in range(len(regs)) if live is None else live:
            value = self.regs[register]
            if value is not None:
                regs[register] = take_programs(value, chosen)
        pids = (self.pids[0][chosen], self.pids[1][chosen], self.pids[2][chosen])
        return Frame(regs, pids, self.numbers[chosen], self.memory, self.budget, self.grid)

    def decide(self, register: int, kind: TtirType, use: str) -> np.ndarray:
        """A concrete scalar per program (length 1 where uniform) that steers control."""
        return need_concrete(self.get(register), kind, self.arena, use).reshape(-1)

    def merged(self, parts: Sequence[tuple[np.ndarray, Sequence[Value]]], kinds: Sequence[TtirType]) -> list[Value]:
        """Results of groups of programs put together again."""
        return [merge([(chosen, values[i]) for chosen, values in parts], self.programs, kind, self.arena) for i, kind in enumerate(kinds)]


def run_block(frame: Frame, block: "Block") -> None:
    """Run a block's steps; failures get the user's place of the step that failed."""
    arena, budget = frame.arena, frame.budget
    origin = block.end.origin
    try:
        for step in block.steps:
            arena.origin = origin = step.origin
            step.run(frame)
        budget.check(arena)
        arena.origin = origin = block.end.origin
    except PtxError as error:
        error.user_loc = error.user_loc or origin.user_loc
        raise


def run_function(frame: Frame, function: "Function") -> list[Value]:
    """Run a function body whose arguments are set; the returned values. Blocks run lowest number first, groups of programs
    part at a conditional branch and each runs to its return."""
    blocks = function.body.blocks
    waiting: list[tuple[int, Frame, np.ndarray]] = [(0, frame, np.arange(frame.programs))]
    parts: list[tuple[np.ndarray, list[Value]]] = []
    kinds: Sequence[TtirType] = ()
    while waiting:
        waiting.sort(key=lambda row: -row[0])
        number, group, chosen = waiting.pop()
        block = blocks[number]
        run_block(group, block)
        end = block.end
        if not end.successors:
            parts.append((chosen, group.values(end.operands)))
            kinds = end.types
            continue
        for target, regs, picked in _branch(group, block):
            next_group = group if picked is None else group.narrowed(picked)
            next_group.assign(blocks[target].args, next_group.values(regs))
            waiting.append((target, next_group, chosen if picked is None else chosen[picked]))
    return frame.merged(parts, kinds)


def _branch(frame: Frame, block: "Block") -> list[tuple[int, tuple[int, ...], np.ndarray | None]]:
    """Where a group goes after a block: (block, arguments, positions); None for all of the group."""
    end = block.end
    if len(end.successors) == 1:
        return [(*end.successors[0], None)]
    taken = frame.decide(end.operands[0], end.types[0], "a branch")
    if taken.all() or not taken.any():
        return [(*end.successors[0 if taken[0] else 1], None)]
    return [(*end.successors[0], np.flatnonzero(taken)), (*end.successors[1], np.flatnonzero(~taken))]
