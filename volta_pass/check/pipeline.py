"""Spec -> both sides in one arena -> findings and verdict -> report.

Bad input (spec, PTX text, launch) is raised; what has no semantics here, is not structured or runs out of budget becomes the
report's verdict. A candidate alone is checked for order and memory only.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from ptx_engine.errors import BudgetError, NotStructuredError, PtxError, UnsupportedError
from ptx_engine.findings import Finding
from ptx_engine.launch import BoundLaunch, Role, TensorArg
from ptx_engine.terms.arena import Arena
from ptx_engine.verdict import Explanation, Method, Status, Verdict
from ptx_engine.watching import Step, tell
from volta_pass.check.binding import bind_sides
from volta_pass.check.coverage import comparable, element_count
from volta_pass.check.library_calls import approximates, with_library_calls
from volta_pass.check.memory import peak_mib
from volta_pass.check.options import CheckOptions
from volta_pass.check.sides import ReadySide, SideRun, ready_side, refuse_unknown_names
from volta_pass.job import launch_to_json
from volta_pass.kernel_report import OWN_SOURCE, REFERENCE, Blame, Comparison, KernelReport
from volta_pass.references.library import using
from volta_pass.schedules import dependence_reason, for_all_schedules
from volta_pass.spec import SideKind, Spec, read_spec
from volta_pass.split_runs import parts_first

#: seconds for a proof of code that approximates functions, before these are called in its place
_FIRST_PROOF = 4.0


def check_file(path: "str | Path", options: CheckOptions | None = None) -> KernelReport:
    """The report on a spec file. Raises SpecError, ParseError, LaunchError (bad input)."""
    return check_spec(read_spec(path), options)


def check_spec(spec: Spec, options: CheckOptions | None = None) -> KernelReport:
    """The report on a spec. Raises SpecError, ParseError, LaunchError (bad input).

    With more than one worker, CTA batches run in several processes where that proves.
    """
    chosen = options or CheckOptions()
    return parts_first(lambda workers: _checked(spec, replace(chosen, workers=workers)), chosen.workers)


def _checked(spec: Spec, options: CheckOptions) -> tuple[KernelReport, bool]:
    """The report, and whether a side ran in parts. Raises NotSeparableError where that cannot be.

    What has no semantics here is checked once more with CUDA's library functions as calls, where it has any; what is not proved,
    with those functions as calls, too, whose code approximates them: it may be the approximations that differ. A proof of that code is
    tried for a short time before that, and for as long as there is after it.
    """
    short = approximates(spec)
    for number, attempt in enumerate((replace(options, proof_seconds=_FIRST_PROOF), options) if short else (options,)):
        found = _checked_once(spec, attempt)
        if found[0].status is Status.UNSUPPORTED:
            called = _with_calls(spec, options, inexact=False)
            found = called if called is not None and called[0].status is not Status.UNSUPPORTED else found
        if found[0].status not in (Status.REFUTED, Status.UNKNOWN) or found[0].error_findings:
            return found
        if not number:
            again = _with_calls(spec, options, inexact=True)
        better = (Status.PROVED,) if found[0].status is Status.UNKNOWN else (Status.PROVED, Status.UNKNOWN)
        if again is not None and again[0].status in better:
            return again
        if found[0].status is Status.REFUTED:
            break
    return found


def _with_calls(spec: Spec, options: CheckOptions, *, inexact: bool) -> tuple[KernelReport, bool] | None:
    called = with_library_calls(spec, inexact)
    if called is None:
        return None
    report, split = _checked_once(called[0], options)
    report.assumptions = [called[1], *report.assumptions]
    return report, split


def _checked_once(spec: Spec, options: CheckOptions) -> tuple[KernelReport, bool]:
    start = time.perf_counter()
    report = KernelReport(kernel=spec.candidate.entry or Path(spec.candidate.source).stem)
    check = _Check(spec, options, report)
    try:
        check.run()
    except (UnsupportedError, NotStructuredError) as error:
        _fail(report, Status.UNSUPPORTED, error)
    except BudgetError as error:
        _fail(report, Status.UNKNOWN, error)
    except MemoryError as error:
        _fail(report, Status.UNKNOWN, BudgetError(str(error) or "out of memory", hint="check fewer CTAs: launch.ctas = [[0, 0, 0]]"))
    report.assumptions = list(dict.fromkeys(report.assumptions))
    report.seconds["validate"] = time.perf_counter() - start - report.compile_s - report.seconds.get("import", 0.0)
    report.peak_mib = peak_mib()
    return report, check.split


@dataclass
class _Check:
    """One check: fills ``report`` as it goes, so that a failure loses nothing that is already known."""

    spec: Spec
    options: CheckOptions
    report: KernelReport
    split: bool = False

    def run(self) -> None:
        spec, report = self.spec, self.report
        alone = spec.reference is None and spec.candidate.kind is not SideKind.TRITON
        tell(Step("compiling" if spec.candidate.kind in (SideKind.TRITON, SideKind.CUDA) else "parsing"))
        candidate = ready_side(spec.candidate, spec, replace(self.options, outputs=not alone))
        reference = ready_side(spec.reference, spec, self.options) if spec.reference is not None else candidate.own_source
        sides = [candidate] if reference is None else [candidate, reference]
        self._describe(candidate)
        refuse_unknown_names(spec, sides)
        bounds = bind_sides([side.launch for side in sides], Arena())
        for side in sides:
            self._add_seconds(side.seconds)
        try:
            run = self._execute(candidate, bounds[0], "executing the candidate")
        except PtxError as error:
            report.findings += error.findings
            raise
        report.findings += run.findings
        report.ctas_executed, report.ctas_total = run.ctas
        if reference is None:
            self._conclude_alone(run, bounds[0])
            return
        if not spec.outputs:
            reference = self._with_outputs(run, reference)
        expected = self._execute(reference, bounds[-1], "evaluating the reference")
        report.findings += [_of_reference(finding) for finding in expected.findings]
        self._compare(bounds[0], reference, expected, run)
        self._compare_by_library(bounds, candidate, reference, run)

    def _with_outputs(self, run: SideRun, reference: ReadySide) -> ReadySide:
        """Nobody said what a function returns: all that the candidate writes, or may write where it writes nothing."""
        if reference.side.kind is not SideKind.PYTHON:
            return reference
        written = tuple(name for name, footprint in run.footprints.items() if len(footprint.index))
        allowed = tuple(name for name, arg in self.report.tensors.items() if arg.role is not Role.IN)
        self.spec = replace(self.spec, outputs=written or allowed)
        return ready_side(reference.side, self.spec, self.options)

    def _compare_by_library(self, bounds: list[BoundLaunch], candidate: ReadySide, reference: ReadySide, run: SideRun) -> None:
        """A kernel that differs from a Python function may do so by what CUDA's library computes for tanh, erf and others, which are
        approximations: it is compared once more with the function over the library's own code. Only a proof replaces the first verdict,
        and its ledger names the functions."""
        make = candidate.side.functions
        if make is None or reference.side.kind is not SideKind.PYTHON or self.report.status is Status.PROVED or self.report.error_findings:
            return
        library = make()
        with using(library):
            expected = self._execute(reference, bounds[-1], "evaluating the reference over library code")
        if not library.used:
            return
        verdict = for_all_schedules(self._decide(bounds[0], expected, run), [*run.dependent, *expected.dependent])
        if verdict.status is Status.PROVED:
            report = self.report
            report.comparisons[-1] = Comparison(REFERENCE, reference.kernel, verdict)
            report.method, report.reason, report.status, report.blame = verdict.method, verdict.reason, verdict.status, Blame()
            report.assumptions += [text for text in verdict.assumptions if text not in report.assumptions]

    def _conclude_alone(self, run: SideRun, bound: BoundLaunch) -> None:
        """The verdict on a candidate without a reference."""
        report = self.report
        reason = dependence_reason(run.dependent)
        report.status = Status.REFUTED if report.error_findings else Status.UNKNOWN if reason else Status.PROVED
        report.reason = reason if report.status is Status.UNKNOWN else ""
        report.assumptions += [*bound.arena.assumptions, "order and memory only: outputs were not compared"]

    def _describe(self, candidate: ReadySide) -> None:
        report = self.report
        report.kernel, report.toolchain, report.ptx = candidate.kernel, candidate.toolchain, candidate.text
        report.launch, report.ctas_total = launch_to_json(candidate.launch), candidate.launch.cta_count
        report.tensors = {arg.name: arg for arg in candidate.launch.args if isinstance(arg, TensorArg)}

    def _execute(self, side: ReadySide, bound: BoundLaunch, what: str) -> SideRun:
        start = time.perf_counter()
        tell(Step(what))
        try:
            run = side.run(bound)
        except PtxError as error:
            if side.side.functions is not None:
                side.side.functions.explain(error)
            raise
        self.split |= run.split
        run.seconds.setdefault("execute", time.perf_counter() - start)
        self._add_seconds(run.seconds)
        self.report.instructions += run.instructions
        self.report.assumptions += run.assumptions
        return run

    def _add_seconds(self, seconds: dict[str, float]) -> None:
        for stage, value in seconds.items():
            self.report.seconds[stage] = self.report.seconds.get(stage, 0.0) + value

    def _compare(self, bound: BoundLaunch, reference: ReadySide, expected: SideRun, run: SideRun) -> None:
        start = time.perf_counter()
        tell(Step("comparing"))
        verdict = for_all_schedules(self._decide(bound, expected, run), [*run.dependent, *expected.dependent])
        report = self.report
        self._add_seconds({"decide": time.perf_counter() - start})
        against = REFERENCE if self.spec.reference is not None else OWN_SOURCE
        report.comparisons.append(Comparison(against, reference.kernel, verdict))
        report.method, report.reason = verdict.method, verdict.reason
        report.status = Status.REFUTED if report.error_findings else verdict.status
        report.assumptions += verdict.assumptions
        explained = [output.explanation for output in verdict.outputs if output.explanation is not None]
        places = [place for e in explained if (place := _origin_place(e, self.spec.candidate.source))]
        report.blame = Blame(user_loc=places[0]) if places else Blame()

    def _decide(self, bound: BoundLaunch, expected: SideRun, run: SideRun) -> Verdict:
        from ptx_engine.decide import Budget, decide

        sampled = [side.ctas[0] < side.ctas[1] for side in (expected, run)]
        left, right = comparable(expected.footprints, run.footprints, reference_sampled=sampled[0], candidate_sampled=sampled[1])
        if any(sampled):
            compared, written = element_count(right, self.spec.outputs), element_count(run.footprints, self.spec.outputs)
            self.report.assumptions.append(f"CTAs executed: {run.ctas[0]} of {run.ctas[1]}; compared on {compared} of {written} elements")
            if written and not compared:
                return Verdict(Status.UNKNOWN, Method.EXACT, [], "the executed CTAs of both sides write no common element")
        limit = self.options.budget_seconds
        budget = Budget() if limit is None else Budget(seconds=limit)
        if self.options.proof_seconds is not None:
            budget = replace(budget, seconds=min(budget.seconds, self.options.proof_seconds))
        outputs, auxiliary = self.spec.outputs, self.spec.auxiliary
        if not outputs:  # nobody said: all that either side writes
            outputs = tuple(dict.fromkeys(name for side in (left, right) for name, footprint in side.items() if len(footprint.index)))
            if not outputs:
                return Verdict(Status.UNKNOWN, Method.EXACT, [], "neither side writes a tensor")
        return decide(bound.arena, left, right, launch=bound, outputs=outputs, auxiliary=auxiliary, budget=budget)


def _of_reference(finding: Finding) -> Finding:
    """A finding in the reference counts: a racy reference has no one meaning to compare with."""
    return replace(finding, details={**finding.details, "side": "reference"})


def _origin_place(explanation: Explanation, ptx_name: str) -> str:
    """Where the operation stands at which an explanation points: the user's line, else the PTX line, else nothing."""
    origin = explanation.candidate_origin
    line = getattr(origin, "ptx_line", 0)
    return str(getattr(origin, "user_loc", "")) or (f"{ptx_name}:{line}" if line else "")


def _fail(report: KernelReport, status: Status, error: PtxError) -> None:
    """A failure decides the verdict, unless the candidate is already known to be wrong."""
    report.errors.append(error.render())
    report.reason = error.message
    report.status = Status.REFUTED if report.error_findings else status
