"""``volta-pass baseline record | check | diff``: which kernels another compiler version changes, before a GPU sees them."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptx_engine.errors import BudgetError, LaunchError, PtxError, UnsupportedError
from volta_pass.baseline.compare import WRONG, Change, Outcome, compare, missing, no_longer_compiles
from volta_pass.baseline.recompile import CompileFailedError, recompile, seeded
from volta_pass.baseline.recording import Record, Recording
from volta_pass.baseline.specs import SpecPoint, points_of, recompile_spec, spec_record
from volta_pass.baseline.table import outcome_table
from volta_pass.check import CheckOptions
from volta_pass.cli.run import checked, with_source_tree
from volta_pass.diagnostics import render
from volta_pass.job import Options
from volta_pass.kernel_report import KernelReport
from volta_pass.parallel import Lost
from volta_pass.parallel.many import Runner
from volta_pass.parallel.progress import shown_progress
from volta_pass.parallel.scheduler import workers_of
from volta_pass.reports import write_report
from volta_pass.store import Store
from volta_pass.store.references import ReferenceTerms
from volta_pass.terminal import wants_color


def command(args: argparse.Namespace) -> int:
    """One of the three; 1 where a kernel changed its meaning, raced anew or no longer compiles."""
    actions: dict[str, Callable[[argparse.Namespace], int]] = {"record": _record, "check": _check, "diff": _diff}
    return actions[args.action](args)


# --- record -------------------------------------------------------------------------------------


def _record(args: argparse.Namespace) -> int:
    words, program = args.specs, args.recorded_program
    if bool(words) == bool(program):
        raise LaunchError("nothing to record" if not words else "specs and a program at once", hint="SPEC ..., or -- python program.py ...")
    if program and args.scheduler:
        raise LaunchError("--scheduler with a program", hint="a cluster checks specs; a program takes --jobs")
    recording = Recording(Path(args.folder).absolute())
    if os.path.lexists(recording.folder) and not recording.folder.is_dir():
        raise LaunchError(f"cannot write {args.folder}: it is no folder", hint="name a folder for the recording")
    code = _run(program, args, recording.folder) if program else _record_specs(args, recording)
    found = recording.records() if recording.folder.is_dir() else []
    if args.json:
        print(json.dumps({"folder": str(recording.folder), "kernels": len(found)}, indent=2))
    else:
        print(f"{len(found)} launches are recorded in {recording.folder}")
    return code if found or code else 2


@dataclass(frozen=True)
class _Capture:
    """A spec to check and capture, as it is sent to a worker."""

    point: SpecPoint
    allowed: CheckOptions


def _record_specs(args: argparse.Namespace, recording: Recording) -> int:
    """Check and record specs, in workers where that was asked for; what is no kernel ends the command, the others are recorded."""
    allowed = CheckOptions(allow_code=args.allow_code)
    tasks = [_Capture(point, allowed) for point in points_of(args.specs, args.define)]
    found = _run_tasks(args, _capture_or_error, tasks, "checking and recording")
    reports = []
    for task, row in zip(tasks, found):
        if isinstance(row, tuple):
            _write(recording, row[0])
            reports.append(row[1])
            print(f"{task.point.label()}: {row[1].verdict}", file=sys.stderr)
    if args.report:
        write_report(reports, args.report)
    for task, row in zip(tasks, found):
        if isinstance(row, Lost):
            raise BudgetError(f"{task.point.label()}: {row.reason}", hint="give the worker more memory, or record it alone")
        if isinstance(row, PtxError):
            raise row
    return 0


def _write(recording: Recording, record: Record) -> None:
    try:
        recording.write(record)
    except OSError as error:
        reason = error.strerror or str(error)
        raise LaunchError(f"cannot write {recording.folder}: {reason}", hint="name a folder that you may write") from None


def _capture_or_error(task: _Capture) -> tuple[Record, KernelReport] | PtxError:
    try:
        return spec_record(task.point, task.allowed)
    except PtxError as error:
        return error


def _run_tasks(args: argparse.Namespace, step: Callable[[Any], Any], tasks: Sequence[Any], what: str) -> list[Any]:
    """The results in the order of the tasks, from the workers that were asked for."""
    with workers_of(args) as executor, shown_progress(len(tasks), what) as on_done:
        return Runner(args.jobs, executor, memory_mib=args.memory_mib, on_done=on_done).run(step, tasks)


def _run(program: list[str], args: argparse.Namespace, folder: Path) -> int:
    """Run a program with validation on (warnings only: a recording ends no program); its exit code."""
    environ = {**os.environ, "VOLTA_BASELINE": str(folder), "VOLTA_VALIDATE": "warn"}
    if args.target:
        environ["VOLTA_TARGET"] = args.target
    if args.report:
        environ["VOLTA_REPORT"] = os.pathsep.join(filter(None, [os.path.abspath(args.report), os.environ.get("VOLTA_REPORT", "")]))
    if args.jobs > 1:
        environ["VOLTA_JOBS"] = str(args.jobs)
    try:
        done = subprocess.run(_command(program), env=with_source_tree(checked(environ)), check=False)
    except OSError as error:
        raise LaunchError(f"cannot run {program[0]}: {error.strerror}", hint="-- python program.py, or -- pytest ...") from None
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def _command(program: list[str]) -> list[str]:
    """Python programs and pytest under the hook even where no ``.pth`` file is installed; other programs as they are."""
    name, rest = os.path.basename(program[0]), program[1:]
    start = [sys.executable, "-m", "volta_hooks.program"]
    if name.startswith("python") and rest[:1] == ["-m"] and len(rest) > 1:
        return [*start, "module", *rest[1:]]
    if name.startswith("python") and rest and not rest[0].startswith("-"):
        return [*start, "file", *rest]
    if name == "pytest":
        return [*start, "module", "pytest", *rest]
    return program


# --- check and diff -----------------------------------------------------------------------------


def _check(args: argparse.Namespace) -> int:
    recording = Recording(Path(args.folder))
    records = recording.records()
    options, allowed = Options.from_environment(), CheckOptions(allow_code=args.allow_code)
    tasks = [_Again(record, recording.folder.absolute(), options, allowed) for record in records]
    return _tell(_outcomes(args, _again_or_error, tasks, "compiling and comparing"), recording.damaged, args)


def _outcomes(args: argparse.Namespace, step: Callable[[Any], Any], tasks: "Sequence[_Again | _Pair]", what: str) -> list[Outcome]:
    """One for each task; raises the first error of a recording, whichever worker met it."""
    outcomes = []
    for task, row in zip(tasks, _run_tasks(args, step, tasks, what)):
        if isinstance(row, PtxError):
            raise row
        outcomes.append(Outcome(task.record, None, Change.UNKNOWN, row.reason) if isinstance(row, Lost) else row)
    return outcomes


@dataclass(frozen=True)
class _Again:
    """A launch to compile and compare again, as it is sent to a worker."""

    record: Record
    folder: Path
    options: Options
    allowed: CheckOptions


def _again_or_error(task: _Again) -> Outcome | PtxError:
    """As in this process, an error of a recording ends the command, whichever worker meets it."""
    try:
        return _again(task)
    except PtxError as error:
        return error


def _again(task: _Again) -> Outcome:
    record, options = task.record, task.options
    try:
        spec = record.recipe.get("compiler") == "spec"
        newer = recompile_spec(record, task.allowed) if spec else recompile(record, task.folder / "sources")
    except CompileFailedError as error:
        return no_longer_compiles(record, str(error))
    except UnsupportedError as error:
        return Outcome(record, None, Change.UNSUPPORTED, error.message)
    return _compared(record, seeded(newer), options)


@dataclass(frozen=True)
class _Pair:
    """Two recorded launches to compare, as they are sent to a worker."""

    record: Record
    newer: Record
    options: Options


def _diff(args: argparse.Namespace) -> int:
    left, right = Recording(Path(args.folder)), Recording(Path(args.other))
    newer = {record.identity: record for record in right.records()}
    options, older = Options.from_environment(), left.records()
    tasks = [_Pair(record, newer[record.identity], options) for record in older if record.identity in newer]
    compared = {outcome.record.identity: outcome for outcome in _outcomes(args, _pair, tasks, "comparing")}
    outcomes = [compared.get(record.identity) or missing(record) for record in older]
    outcomes += [missing(record) for identity, record in newer.items() if identity not in compared]
    return _tell(outcomes, [*left.damaged, *right.damaged], args)


def _pair(task: _Pair) -> Outcome:
    return _compared(task.record, task.newer, task.options)


def _compared(record: Record, newer: Record, options: Options) -> Outcome:
    try:
        return compare(record, newer, options, ReferenceTerms(Store.from_environment()))
    except PtxError as error:
        return Outcome(record, newer, Change.UNKNOWN, error.message)


def _tell(outcomes: Sequence[Outcome], damaged: Sequence[str], args: argparse.Namespace) -> int:
    if args.json:
        print(json.dumps({"kernels": [outcome.to_json() for outcome in outcomes], "damaged": list(damaged)}, indent=2))
    else:
        for outcome in outcomes:
            if outcome.change in WRONG and outcome.report is not None:
                print(render(outcome.report), file=sys.stderr)
        print(outcome_table(outcomes, color=not args.no_color and wants_color(sys.stdout)), end="")
        for name in damaged:
            print(f"damaged entry, not used: {name}", file=sys.stderr)
    if args.report:
        write_report([outcome.as_report() for outcome in outcomes], args.report)
    return exit_code(outcomes, damaged)


def exit_code(outcomes: Sequence[Outcome], damaged: Sequence[str]) -> int:
    """1 refuted, racy or uncompilable; 3 unknown, missing or damaged; 4 unsupported; 0 all equal."""
    counts = Counter(outcome.change for outcome in outcomes)
    if any(counts[change] for change in WRONG):
        return 1
    if damaged or counts[Change.UNKNOWN] or counts[Change.MISSING]:
        return 3
    return 4 if counts[Change.UNSUPPORTED] else 0
