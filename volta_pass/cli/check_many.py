"""Several specs, or a sweep, in one ``volta-pass check``: diagnostics, one table, one exit code."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ptx_engine.errors import PtxError
from ptx_engine.verdict import Status
from volta_pass.check import CheckOptions
from volta_pass.diagnostics import render
from volta_pass.parallel.many import Failure, Outcome, Runner, check_outcomes
from volta_pass.parallel.progress import shown_progress
from volta_pass.parallel.scheduler import workers_of
from volta_pass.report import EXIT_CODES, exit_table, report_document
from volta_pass.reports import write_report
from volta_pass.spec import Spec, read_sweep
from volta_pass.terminal import wants_color

#: exit codes of what is no verdict
_CODES = {Failure.BAD_INPUT: 2, Failure.DEFECT: 70}
#: exit codes from best to worst: a wrong kernel outweighs what could not be decided
_WORSE = (0, 4, 3, 2, 70, 1)
#: columns where no terminal says how many it has
_WIDTH = 120

Points = list[tuple["str | Spec", Mapping[str, Any]]]


def points_of(paths: Sequence[str]) -> Points:
    """Every spec of the files; one of several that cannot be read stays a path, and becomes an outcome of its own."""
    if len(paths) == 1:
        return [*read_sweep(paths[0])]
    found: Points = []
    for path in paths:
        try:
            points = read_sweep(path)
        except PtxError:
            points = []
        if any(named for _, named in points):
            found += points
        else:
            found.append((points[0][0] if points else path, {"spec": path}))
    return found


def check_points(points: Points, options: CheckOptions, args: argparse.Namespace) -> int:
    """Check them on the workers that were asked for, and tell."""
    outcomes = run_points(points, options, args)
    reports = [outcome.report for outcome in outcomes]
    if args.json:
        print(json.dumps(report_document(reports), indent=2))
    else:
        _tell(points, outcomes, color=not args.no_color and wants_color(sys.stdout))
    if args.report:
        write_report(reports, args.report)
    return worst_code(outcomes)


def run_points(points: Points, options: CheckOptions, args: argparse.Namespace) -> list[Outcome]:
    """The outcomes, in the order of the points. Raises LaunchError."""
    with workers_of(args) as executor, shown_progress(len(points), "checking") as on_done:
        return check_outcomes(points, options, Runner(args.jobs, executor, memory_mib=args.memory_mib, on_done=on_done))


def worst_code(outcomes: Sequence[Outcome]) -> int:
    """The exit code of many."""
    codes = [_CODES.get(outcome.failure, EXIT_CODES[outcome.report.status]) for outcome in outcomes]
    return max(codes, key=_WORSE.index, default=0)


def _tell(points: Points, outcomes: Sequence[Outcome], *, color: bool) -> None:
    for (spec, _), outcome in zip(points, outcomes):
        if outcome.report.status is not Status.PROVED:
            print(render(outcome.report, color=color, ptx_name=spec.candidate.source if isinstance(spec, Spec) else ""))
            print()
    width = shutil.get_terminal_size((_WIDTH, 24)).columns if sys.stdout.isatty() else _WIDTH
    print(exit_table([outcome.report for outcome in outcomes], width=width, color=color), end="")
