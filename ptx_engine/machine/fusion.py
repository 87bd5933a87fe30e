"""Fuses the blocks that run often: their simple instructions become one Python function, loops of one block run inside of it.

A block is run by its closures first. When it has run often enough the kinds of its registers are recorded, and code for them is made. Code
that meets other kinds gives way to the closures; if that happens often it is made anew, and in the end given up.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptx_engine.isa.group import Group
from ptx_engine.machine.fused_code import Run, fused
from ptx_engine.machine.program import Block, Program
from ptx_engine.machine.recorded import Target, record

#: longer columns are paid for by NumPy, not by steps
MOST_THREADS = 2048
#: steps of a block that is fused
MOST_STEPS = 2000
#: runs that end early before the code is made anew, and how often that is tried
MISSES, ATTEMPTS = 16, 3
#: thread-instructions' worth of turns that a loop takes before the machine looks at its clock again
_TURNS, _LANE_TURNS = 16, 512


@dataclass
class Fused:
    """What has become of a block: runs by closures, then its code."""

    runs: int = 0
    attempts: int = 0
    misses: int = 0
    run: Run | None = None


class Fusion:
    """Decides which blocks are fused, and runs them. ``after``: runs of a block by closures before that; None: never."""

    def __init__(self, program: Program, target: Target, after: int | None) -> None:
        self.program, self.target = program, target
        self._after = after
        self._blocks: dict[int, Fused] = {}

    def run(self, g: Group, block: Block, affordable: int, alone: bool) -> int:
        """Run what fused code a block has. The result is the step to go on with; -1: the start of the block, which is one turn more.

        ``affordable`` turns after this one are within the budget; a loop stays in the code only for a group that is ``alone``.
        """
        if self._after is None or g.n > MOST_THREADS:
            return 0
        state = self._blocks.get(block.start)
        if state is None:
            state = self._blocks[block.start] = Fused()
        if state.run is None:
            return self._closures(g, block, state)
        left = min(affordable + 1, max(_TURNS, _LANE_TURNS // g.n)) if alone else 1
        step = state.run(g, g.R, left)
        if 0 <= step < len(block.steps):
            state.misses += 1
            if state.misses > MISSES:
                state.run, state.misses, state.runs = None, 0, 0
        elif state.misses:
            state.misses -= 1
        return step

    def _closures(self, g: Group, block: Block, state: Fused) -> int:
        """Another run by closures; where it is time, the recorded one."""
        state.runs += 1
        assert self._after is not None
        steps = len(block.steps)
        if state.runs <= self._after + steps // 8 or state.attempts >= ATTEMPTS or not 0 < steps <= MOST_STEPS:
            return 0
        state.attempts += 1
        recorded = record(g, block, self.program, self.target.arena)
        state.run = fused(block, self.program, self.target, recorded)
        if state.run is None:
            state.attempts = ATTEMPTS
        return steps
