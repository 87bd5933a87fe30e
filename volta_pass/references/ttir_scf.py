"""Structured control: for, if, while. Programs that part at a bound or a condition run as groups and meet again after it."""

from __future__ import annotations

import numpy as np

from ptx_engine.errors import NotStructuredError
from volta_pass.references.ttir_frame import Frame, run_block
from volta_pass.references.ttir_registry import OpInfo, Region, Run, operation
from volta_pass.references.ttir_values import Value, take_programs

Parts = list[tuple[np.ndarray, list[Value]]]


@operation("scf.if")
def scf_if(op: OpInfo) -> Run:
    """Each branch for the programs that take it."""
    condition, kind = op.operands[0], op.operand_types[0]
    branches = op.regions

    def arm(frame: Frame, region: Region | None) -> list[Value]:
        if region is None or not region.blocks:
            return []
        run_block(frame, region.block)
        return frame.values(region.block.end.operands)

    def run(frame: Frame) -> None:
        taken = frame.decide(condition, kind, "a branch")
        other = branches[1] if len(branches) > 1 else None
        if taken.all() or not taken.any():
            frame.assign(op.results, arm(frame, branches[0] if taken[0] else other))
            return
        parts: Parts = []
        for region, chosen in ((branches[0], np.flatnonzero(taken)), (other, np.flatnonzero(~taken))):
            parts.append((chosen, arm(frame.narrowed(chosen, region.captures if region is not None else ()), region)))
        if op.results:
            frame.assign(op.results, frame.merged(parts, op.result_types))

    return run


@operation("scf.for")
def scf_for(op: OpInfo) -> Run:
    """Iterations in lockstep; a program whose trip count is reached retires with its values, the others go on."""
    body = op.regions[0]
    counter, *carried = body.block.args
    kind = op.operand_types[0]
    unsigned = op.boolean("unsignedCmp")

    def run(frame: Frame) -> None:
        low, high, step = (frame.decide(r, kind, "a loop bound") for r in op.operands[:3])
        trips = _trip_counts(low, high, step, unsigned)
        state = frame.values(op.operands[3:])
        if (trips == trips[0]).all():
            state = _iterate(frame, 0, int(trips[0]), low, step, state)
            frame.assign(op.results, state)
            return
        frame.assign(op.results, _retiring(frame, trips, low, step, state))

    def _iterate(frame: Frame, first: int, last: int, low: np.ndarray, step: np.ndarray, state: list[Value]) -> list[Value]:
        block = body.block
        for trip in range(first, last):
            frame.regs[counter] = low + (step * trip).astype(step.dtype)
            frame.assign(carried, state)
            run_block(frame, block)
            state = frame.values(block.end.operands)
        return state

    def _retiring(frame: Frame, trips: np.ndarray, low: np.ndarray, step: np.ndarray, state: list[Value]) -> list[Value]:
        parts: Parts = []
        alive, done = np.arange(frame.programs), 0
        for stop in np.unique(trips):
            group = frame if len(alive) == frame.programs else frame.narrowed(alive, body.captures)
            state = _iterate(group, done, int(stop), take_rows(low, alive), take_rows(step, alive), state)
            leaving = trips[alive] == stop
            parts.append((alive[leaving], [take_programs(v, np.flatnonzero(leaving)) for v in state]))
            state = [take_programs(v, np.flatnonzero(~leaving)) for v in state]
            alive, done = alive[~leaving], int(stop)
        return frame.merged(parts, op.result_types)

    return run


def take_rows(column: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Rows of a per-program column that may be uniform (length 1)."""
    return column if len(column) == 1 else column[chosen]


def _trip_counts(low: np.ndarray, high: np.ndarray, step: np.ndarray, unsigned: bool) -> np.ndarray:
    """Iterations per program. Raises NotStructuredError for a step that is not positive."""
    if (step <= 0).any():
        raise NotStructuredError("a loop's step is not positive", feature="scf.for")
    if unsigned:
        low, high = (x.view(f"u{x.dtype.itemsize}") for x in (low, high))
    empty = low >= high
    distance = np.where(empty, 0, high.astype(np.int64) - low.astype(np.int64))
    return -(-distance // step.astype(np.int64))


@operation("scf.while")
def scf_while(op: OpInfo) -> Run:
    """The condition region decides per program; those for which it is false retire with the values it passes on."""
    before, after = op.regions
    captures = tuple(sorted({*before.captures, *after.captures}))

    def run(frame: Frame) -> None:
        state, group = frame.values(op.operands), frame
        alive, parts = np.arange(frame.programs), list[tuple[np.ndarray, list[Value]]]()
        while True:
            group.assign(before.block.args, state)
            run_block(group, before.block)
            end = before.block.end
            going = np.broadcast_to(group.decide(end.operands[0], end.types[0], "a loop condition"), (len(alive),))
            passed = group.values(end.operands[1:])
            if not going.all():
                leaving = np.flatnonzero(~going)
                parts.append((alive[leaving], [take_programs(v, leaving) for v in passed]))
                staying = np.flatnonzero(going)
                alive = alive[staying]
                if not len(alive):
                    break
                passed = [take_programs(v, staying) for v in passed]
                group = frame.narrowed(alive, captures)
            group.assign(after.block.args, passed)
            run_block(group, after.block)
            state = group.values(after.block.end.operands)
        frame.assign(op.results, frame.merged(parts, op.result_types))

    return run


@operation("scf.execute_region")
def scf_execute_region(op: OpInfo) -> Run:
    """A region of one block, run in place."""
    region = op.regions[0]
    if len(region.blocks) != 1:
        raise op.unsupported("of more than one block")

    def run(frame: Frame) -> None:
        run_block(frame, region.block)
        frame.assign(op.results, frame.values(region.block.end.operands))

    return run
