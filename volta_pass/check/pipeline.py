"""Spec -> both sides in one arena -> findings and verdict -> report.

Bad input (spec, PTX text, launch) is raised; what has no semantics here, is not structured or runs out of budget becomes the
report's verdict. A candidate alone is checked for order and memory only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ptx_engine.errors import BudgetError, NotStructuredError, PtxError, UnsupportedError
from ptx_engine.findings import Finding
from ptx_engine.launch import BoundLaunch, TensorArg
from ptx_engine.terms.arena import Arena
from ptx_engine.verdict import Explanation, Status
from volta_pass.check.binding import bind_sides
from volta_pass.check.memory import peak_mib
from volta_pass.check.options import CheckOptions
from volta_pass.check.sides import ReadySide, SideRun, ready_side
from volta_pass.job import launch_to_json
from volta_pass.kernel_report import REFERENCE, Blame, Comparison, KernelReport
from volta_pass.spec import Spec, read_spec


def check_file(path: "str | Path", options: CheckOptions | None = None) -> KernelReport:
    """The report on a spec file. Raises SpecError, ParseError, LaunchError (bad input)."""
    return check_spec(read_spec(path), options)


def check_spec(spec: Spec, options: CheckOptions | None = None) -> KernelReport:
    """The report on a spec. Raises SpecError, ParseError, LaunchError (bad input)."""
    options = options or CheckOptions()
    start = time.perf_counter()
    report = KernelReport(kernel=spec.candidate.entry or Path(spec.candidate.source).stem)
    try:
        _fill(report, spec, options)
    except (UnsupportedError, NotStructuredError) as error:
        _fail(report, Status.UNSUPPORTED, error)
    except BudgetError as error:
        _fail(report, Status.UNKNOWN, error)
    except MemoryError as error:
        _fail(report, Status.UNKNOWN, BudgetError(str(error) or "out of memory", hint="check fewer CTAs: launch.ctas = [[0, 0, 0]]"))
    report.seconds["validate"] = time.perf_counter() - start
    report.peak_mib = peak_mib()
    return report


def _fill(report: KernelReport, spec: Spec, options: CheckOptions) -> None:
    candidate = ready_side(spec.candidate, spec, options)
    reference = ready_side(spec.reference, spec, options) if spec.reference is not None else candidate.own_source
    ready = [candidate] if reference is None else [candidate, reference]
    arena = Arena()
    bounds = bind_sides([side.launch for side in ready], arena)
    report.kernel, report.toolchain = candidate.kernel, candidate.toolchain
    report.launch, report.ctas_total = launch_to_json(candidate.launch), candidate.launch.cta_count
    report.tensors = {arg.name: arg for arg in candidate.launch.args if isinstance(arg, TensorArg)}
    for side in ready:
        _add_seconds(report, side.seconds)
    run = _timed(report, "execute", lambda: candidate.run(bounds[0]))
    _take_candidate(report, run)
    if reference is None:
        report.status = Status.REFUTED if report.error_findings else Status.PROVED
        report.reason = "order and memory only: the spec has no reference"
        report.assumptions += ["order and memory only: outputs were not compared"]
        return
    expected = _timed(report, "execute", lambda: reference.run(bounds[1]))
    report.findings += [_of_reference(finding) for finding in expected.findings]
    _add_seconds(report, expected.seconds)
    report.instructions += expected.instructions
    report.assumptions += expected.assumptions
    _compare(report, spec, bounds[0], expected, run, reference)


def _compare(report: KernelReport, spec: Spec, bound: BoundLaunch, expected: SideRun, run: SideRun, reference: ReadySide) -> None:
    from ptx_engine.decide import decide

    start = time.perf_counter()
    verdict = decide(
        bound.arena, expected.footprints, run.footprints, launch=bound, outputs=spec.outputs, auxiliary=spec.auxiliary
    )  # fmt: skip
    report.seconds["decide"] = time.perf_counter() - start
    report.comparisons.append(Comparison(REFERENCE, reference.kernel, verdict))
    report.method, report.reason = verdict.method, verdict.reason
    report.status = Status.REFUTED if report.error_findings else verdict.status
    report.assumptions = list(dict.fromkeys([*report.assumptions, *verdict.assumptions]))
    explained = [output.explanation for output in verdict.outputs if output.explanation is not None]
    report.blame = next((Blame(user_loc=_origin_place(e)) for e in explained if _origin_place(e)), Blame())


def _take_candidate(report: KernelReport, run: SideRun) -> None:
    report.findings = list(run.findings)
    report.ctas_executed, report.ctas_total = run.ctas
    report.instructions = run.instructions
    report.assumptions = list(run.assumptions)
    _add_seconds(report, run.seconds)


def _of_reference(finding: Finding) -> Finding:
    """A finding in the reference counts: a racy reference has no one meaning to compare with."""
    return replace(finding, details={**finding.details, "side": "reference"})


def _origin_place(explanation: Explanation) -> str:
    """The user's place of the candidate's operation at which an explanation points; empty where the PTX has no ``.loc``."""
    return str(getattr(explanation.candidate_origin, "user_loc", ""))


def _timed(report: KernelReport, stage: str, step: Callable[[], SideRun]) -> SideRun:
    start = time.perf_counter()
    run = step()
    run.seconds.setdefault(stage, time.perf_counter() - start)
    return run


def _add_seconds(report: KernelReport, seconds: dict[str, float]) -> None:
    for stage, value in seconds.items():
        report.seconds[stage] = report.seconds.get(stage, 0.0) + value


def _fail(report: KernelReport, status: Status, error: PtxError) -> None:
    """A failure decides the verdict, unless the candidate is already known to be wrong."""
    report.errors.append(error.render())
    if report.error_findings:
        report.status = Status.REFUTED
        return
    report.status, report.reason = status, error.message
