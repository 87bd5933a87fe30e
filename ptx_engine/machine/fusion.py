"""Fuses the blocks that run often: their simple instructions become one Python function, loops of one block run inside of it. Many turns of
the simplest loops are run at once.

A block is run by its closures first. When it has run often enough the kinds of its registers are recorded, and code for them is made. Code
that meets other kinds gives way to the closures; if that happens often it is made anew, and in the end given up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ptx_engine.isa.group import Group
from ptx_engine.machine.fused_code import Run, fused
from ptx_engine.machine.fused_turns import Loop, loop_of, run_turns
from ptx_engine.machine.program import Block, Program
from ptx_engine.machine.recorded import Target, record

#: longer columns are paid for by NumPy, not by steps
MOST_THREADS = 2048
#: steps of a block that is fused
MOST_STEPS = 2000
#: share of a block's steps that must be simple
SIMPLE_SHARE = 1 / 4
#: versions of a block's code, for registers of other kinds; how often code is made
VARIANTS, ATTEMPTS = 4, 6
#: runs in which a version gave way in its middle before it is dropped
MISSES = 16
#: runs of a loop by closures before many turns are tried at once; times that this may fail, one after the other, before it is given up
BEFORE_TURNS, FAILURES = 1, 16
#: turns that a loop takes before the machine looks at its clock again: for many threads, for one
_TURNS, _LANE_TURNS = 16, 512


@dataclass(eq=False)
class Variant:
    """Code of a block for one set of kinds."""

    run: Run
    misses: int = 0


@dataclass
class Fused:
    """What has become of a block: runs by closures since the last code was made, its versions of code, how often code was made; as a loop
    of which many turns may run at once, how often that failed since it did not."""

    runs: int = 0
    attempts: int = 0
    variants: list[Variant] = field(default_factory=list)
    loop: Loop | None = None
    failures: int = 0


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
        if self._after is None:
            return 0
        state = self._blocks.get(block.start)
        if state is None:
            state = self._blocks[block.start] = Fused(loop=loop_of(block, self.target))
        if state.loop is not None and alone and state.runs >= min(self._after, BEFORE_TURNS) and self._turns(g, state, affordable + 1):
            return -1
        if g.n > MOST_THREADS:
            state.runs += 1
            return 0
        if state.variants:
            left = min(affordable + 1, max(_TURNS, _LANE_TURNS // g.n)) if alone else 1
            for variant in state.variants:
                step = variant.run(g, g.R, left)
                if step:
                    self._judge(state, variant, 0 < step < len(block.steps))
                    return step
        return self._closures(g, block, state)

    def _turns(self, g: Group, state: Fused, affordable: int) -> bool:
        """Run many turns at once; False if none were run."""
        assert state.loop is not None
        turns = run_turns(state.loop, g, affordable)
        if turns:
            state.failures = 0
            self.target.counter.executed += (turns - 1) * state.loop.block.size * g.n
        else:
            state.failures += 1
            if state.failures > FAILURES:
                state.loop = None
        return turns > 0

    def _judge(self, state: Fused, variant: Variant, gave_way: bool) -> None:
        """Code that gives way again and again costs more than it saves."""
        variant.misses = max(0, variant.misses + (1 if gave_way else -1))
        if variant.misses > MISSES:
            state.variants.remove(variant)

    def _closures(self, g: Group, block: Block, state: Fused) -> int:
        """Another run by closures; where it is time, the recorded one."""
        state.runs += 1
        assert self._after is not None
        if state.runs <= self._after or state.attempts >= ATTEMPTS or len(state.variants) >= VARIANTS:
            return 0
        steps = len(block.steps)
        if not 0 < steps <= MOST_STEPS or sum(form is not None for form in block.forms) < SIMPLE_SHARE * steps:
            state.attempts = ATTEMPTS
            return 0
        state.attempts, state.runs = state.attempts + 1, 0
        run = fused(block, self.program, self.target, record(g, block, self.program, self.target.arena))
        if run is None:
            state.attempts = ATTEMPTS
        else:
            state.variants.append(Variant(run))
        return steps
