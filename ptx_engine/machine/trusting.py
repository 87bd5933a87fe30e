"""Findings of programs with outcomes that are lost sight of (``lost_outcomes``), judged again in runs that take those tests for waits.

What is unordered although every success is believed is unordered for certain, in the schedule that ran: its threads and addresses are
those of that run, since of one pair of instructions some may be ordered. What is ordered then may be so in every schedule, or in that one
alone: it is unknown.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ptx_engine.errors import PtxError
from ptx_engine.findings import Finding, Severity
from ptx_engine.machine.early_looks import Pair, with_early_looks
from ptx_engine.machine.execution import Execution, ptx_lines
from ptx_engine.machine.schedule import LowestFirst, Schedule
from ptx_engine.order.report import UNORDERED

if TYPE_CHECKING:
    from ptx_engine.machine.executor import Machine


def judged_again(machine: Machine, done: Execution, numbers: np.ndarray, seconds: float, again: Callable[..., Machine]) -> Execution:
    """The execution without the findings that an outcome which is lost may order; these are said to be up to the schedule. ``seconds``:
    what may be spent."""
    open_ = [f for f in done.findings if f.kind in UNORDERED] if machine.program.analysis.has_mbarriers else []
    lost = machine.program.analysis.lost_outcomes if open_ else frozenset()
    if not lost:
        return done
    start = time.perf_counter()

    def trusting(seconds: float, schedule: Callable[[], Schedule] = LowestFirst) -> Machine:
        other = again(seconds, schedule)
        other.trusted = lost
        return other

    why = ""
    certain: dict[Pair, Finding] = {}
    try:
        first = trusting(seconds)
        sought = frozenset(f.pair for f in open_ if f.severity is Severity.ERROR)
        run = with_early_looks(first, first.run_numbers(numbers), numbers, seconds - (time.perf_counter() - start), trusting, sought)
        certain = {f.pair: f for f in run.findings}
    except PtxError as error:
        why = f" ({error.message})"
    left_out = [f for f in open_ if f.pair not in certain]
    spent = {"execute": done.seconds["execute"] + time.perf_counter() - start}
    findings = [certain[f.pair] if f in open_ else f for f in done.findings if f not in left_out]
    done = replace(done, findings=findings, seconds={**done.seconds, **spent})
    errors = [f for f in left_out if f.severity is Severity.ERROR]
    if not errors:
        return done
    lines = ptx_lines(machine.origins[s.instruction].ptx_line for f in errors for s in f.sites)
    tests = ptx_lines(machine.origins[pc].ptx_line for pc in lost)
    said = (
        f"which tests of mbarriers order the accesses in {lines} is not known{why}: they may run if either of several has succeeded, or by "
        f"what was stored, given to another lane or chosen as an address then (tests in {tests})"
    )
    return replace(done, schedule_dependent=[*done.schedule_dependent, said])
