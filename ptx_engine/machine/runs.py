"""Executes an entry over a launch: in the machine's own schedule, and in others where what comes of it may be up to the schedule.

A launch in which the last CTA goes on is run with each CTA as the last one (``last_cta``); one that looks at memory or at mbarriers early
and late (``early_looks``); one whose successes are lost sight of once more with these believed (``trusting``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ptx_engine.launch import BoundLaunch
from ptx_engine.machine.early_looks import with_early_looks
from ptx_engine.machine.execution import Budget, Execution
from ptx_engine.machine.executor import NO_EXTERNS, Machine
from ptx_engine.machine.last_cta import for_every_last_cta
from ptx_engine.machine.possible import possible_reasons
from ptx_engine.machine.preparation import calls_inlined, choose_entry, linear_ctas
from ptx_engine.machine.schedule import LowestFirst, Schedule
from ptx_engine.machine.trusting import judged_again
from ptx_engine.syntax.ast import Module

DEFAULT_BUDGET = Budget()


def execute(
    module: Module,
    entry: str | None,
    bound: BoundLaunch,
    *,
    budget: Budget = DEFAULT_BUDGET,
    order: bool = True,
    ctas: Sequence[tuple[int, int, int]] | None = None,
    source: str = "",
    externs: Mapping[str, str] = NO_EXTERNS,
    schedule: Callable[[], Schedule] = LowestFirst,
) -> Execution:
    """Run an entry over a bound launch and return its footprints and findings.

    ``ctas`` (or ``launch.ctas``) restricts which CTAs run. ``source`` is the PTX text, for the lines in findings. ``externs``
    names the operator (``isa.calls.OPERATORS``) that each function without a body computes. ``schedule`` makes, for every batch of
    CTAs, what chooses the group that runs next.
    Raises LaunchError, UnsupportedError, NotStructuredError (each with the instruction's place) and BudgetError; what was
    found until then is in the error's ``findings``.
    """
    start = time.perf_counter()
    flat = calls_inlined(choose_entry(module, entry), module, externs, bound)

    def machine(seconds: float, schedule: Callable[[], Schedule] = schedule) -> Machine:
        made = Machine(module, flat, bound, replace(budget, seconds=seconds), order, source, schedule)
        made.budget = budget  # its seconds are those of all runs together, and said so
        made.program.analysis = first.program.analysis  # of the same function, decoded alike
        return made

    first = Machine(module, flat, bound, budget, order, source, schedule)
    numbers = linear_ctas(bound, ctas if ctas is not None else bound.launch.ctas)
    done = first.run_numbers(numbers, start=start)
    done = for_every_last_cta(first, done, numbers, budget.seconds - (time.perf_counter() - start), machine)
    done = with_early_looks(first, done, numbers, budget.seconds - (time.perf_counter() - start), machine)
    done = judged_again(first, done, numbers, budget.seconds - (time.perf_counter() - start), machine)
    return replace(done, schedule_dependent=list(dict.fromkeys([*done.schedule_dependent, *possible_reasons(done.findings)])))
