"""What a comparison is worth where one run does not stand for all schedules.

By confluence the terms of one schedule are those of every schedule, unless a value that an atomic returned was used: then
equal outputs of this run prove nothing about the others. A difference stays a difference: this schedule exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ptx_engine.verdict import Status, Verdict


def dependence_reason(dependent: Sequence[str]) -> str:
    """Why nothing is proved, naming what depends on the schedule; empty where nothing does."""
    return "not every run that is possible was looked at: " + "; ".join(dependent) if dependent else ""


def for_all_schedules(verdict: Verdict, dependent: Sequence[str]) -> Verdict:
    """The verdict, or ``unknown`` where it claims a proof that only this run's schedule supports; refutations stay."""
    reason = dependence_reason(dependent)
    if not reason:
        return verdict
    outputs = [
        replace(output, status=Status.UNKNOWN, reason=reason) if output.status is Status.PROVED else output for output in verdict.outputs
    ]
    if verdict.status is not Status.PROVED:
        return replace(verdict, outputs=outputs)
    return replace(verdict, status=Status.UNKNOWN, outputs=outputs, reason=reason)
