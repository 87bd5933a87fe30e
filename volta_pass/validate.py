"""The validator of one kernel: execute the PTX, evaluate its own source and the cached reference, compare, assign blame.

Every failure to read, model or afford something becomes part of the report; only defects of ours (InternalError and
anything that is no PtxError) leave as exceptions.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ptx_engine.errors import BudgetError, InternalError, LaunchError, NotStructuredError, PtxError, UnsupportedError
from ptx_engine.findings import Finding
from ptx_engine.launch import Footprint, Launch, TensorArg
from ptx_engine.terms.storage import Ledger
from ptx_engine.verdict import Method, Status, Verdict
from volta_pass.blame import SOURCE_RACE, assign_blame, blame_findings, order_text
from volta_pass.cta_sample import affordable
from volta_pass.job import TtirReference, ValidationJob, launch_to_json
from volta_pass.kernel_report import OWN_SOURCE, REFERENCE, Comparison, KernelReport
from volta_pass.open_choices import fitting_text, in_some_order, where_defined
from volta_pass.schedules import for_all_schedules
from volta_pass.source_uses import parameter_uses
from volta_pass.split_runs import parts_first
from volta_pass.stages import Evaluated, KnownReferences, Stages, restrict
from volta_pass.ttir_uses import ParameterUse

if TYPE_CHECKING:
    from ptx_engine.machine import Execution
    from volta_pass.references.combine_order import Dependence

FIXED_CONTENTS = "integer inputs fixed to this launch's contents"


#: share of the seconds that executing the candidate may take before CTAs are sampled
SAMPLE_SHARE = 0.2
#: launches with more threads are measured on a few CTAs before all are run
PROBE_THREADS = 1 << 15
#: terms of both sides together; an arena of so many takes about 1 GiB
MOST_TERMS = 1 << 25
FEW_CTAS, MORE_CTAS = 1, 8


def validate(job: ValidationJob, known: KnownReferences | None = None) -> KernelReport:
    """Validate one kernel in one configuration at one launch; ``known``: references that were evaluated before.

    Integer tensors are symbolic first; where the kernel then is not structured (they steer an address, a branch or a
    mask), the validation is repeated with the launch's contents. Where all CTAs cost more than a share of the budget,
    it is repeated on a sample. The report says so in either case.
    """
    options = job.options
    return parts_first(lambda workers: _validated(replace(job, options=replace(options, workers=workers)), known), options.workers)


def _validated(job: ValidationJob, known: KnownReferences | None) -> tuple[KernelReport, bool]:
    """The report, and whether CTA batches ran in several processes. Raises NotSeparableError where they cannot."""
    started_s = time.perf_counter()
    limit = _cta_limit(job)
    leave: set[type[PtxError]] = {NotStructuredError} if job.contents else set()
    if job.options.ctas == "auto" and limit is None and job.launch.cta_count > MORE_CTAS:
        leave.add(BudgetError)
    notes: list[str] = []
    while True:
        try:
            report, split = _attempt(job, frozenset(leave), limit, known)
            break
        except NotStructuredError:
            leave.remove(NotStructuredError)
            notes.append(f"{FIXED_CONTENTS}: " + ", ".join(sorted(job.contents)))
            job = replace(job, launch=_with_contents(job.launch, job))
        except BudgetError:
            leave.remove(BudgetError)
            limit = MORE_CTAS
    report.assumptions += notes
    report.seconds["validate"] = time.perf_counter() - started_s
    report.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return report, split


def _cta_limit(job: ValidationJob) -> int | None:
    """How many CTAs to run; None for all. Large launches are measured on a few CTAs first."""
    options, launch = job.options, job.launch
    if options.ctas != "auto":
        return None if options.ctas == "all" else options.ctas
    if options.seconds is None or launch.cta_count * launch.threads <= PROBE_THREADS or launch.cta_count <= MORE_CTAS:
        return None
    try:
        few, more = _cost(job, FEW_CTAS), _cost(job, MORE_CTAS)
    except PtxError:
        return MORE_CTAS  # the attempt itself reports it
    by_time = affordable(launch.cta_count, FEW_CTAS, few[0], MORE_CTAS, more[0], options.seconds * SAMPLE_SHARE)
    by_terms = affordable(launch.cta_count, FEW_CTAS, few[1], MORE_CTAS, more[1], MOST_TERMS)
    return min((limit for limit in (by_time, by_terms) if limit is not None), default=None)


def _cost(job: ValidationJob, count: int) -> tuple[float, float]:
    """Seconds and terms that executing, evaluating and comparing a number of CTAs takes."""
    stages = Stages(job.launch, replace(job.options, workers=1), count, job.library)
    written = stages.candidate(job.ptx, job.entry).footprints
    if job.source is not None:
        stages.decide(stages.source(job.source, language=job.language).footprints, written)
    return sum(seconds for stage, seconds in stages.seconds.items() if stage != "parse"), float(len(stages.arena))


def contents_were_needed(report: KernelReport) -> bool:
    """Whether the verdict holds only for the integer contents of its launch."""
    return any(line.startswith(FIXED_CONTENTS) for line in report.assumptions)


def _with_contents(launch: Launch, job: ValidationJob) -> Launch:
    args = tuple(
        replace(arg, contents=np.asarray(job.contents[arg.name]())) if isinstance(arg, TensorArg) and arg.name in job.contents else arg
        for arg in launch.args
    )
    return replace(launch, args=args)


def failure_text(report: KernelReport, what: str, rendered: str) -> str:
    """A failure under a line that says which kernel and configuration it is about."""
    settings = f" ({report.configuration_text()})" if report.configuration else ""
    return f"warning: {report.kernel}{settings}: {what}\n{rendered}"


class _Validation:
    """The state of one attempt: stages, the report so far, and what failed on the way."""

    def __init__(self, job: ValidationJob, leave: frozenset[type[PtxError]], limit: int | None, known: KnownReferences | None) -> None:
        self.job = job
        self.leave = leave
        self.report = KernelReport(
            kernel=job.kernel, configuration=dict(job.configuration), target=job.target, toolchain=dict(job.toolchain)
        )
        self.report.launch, self.report.ptx = launch_to_json(job.launch), job.ptx
        self.report.tensors = {arg.name: arg for arg in job.launch.args if isinstance(arg, TensorArg)}
        self.report.ctas_total = job.launch.cta_count
        self.report.assumptions = list(job.assumptions)
        options = job.options
        if BudgetError in leave and options.seconds is not None:
            options = replace(options, seconds=options.seconds * SAMPLE_SHARE)
        self.stages = Stages(job.launch, options, limit, job.library, known)
        self.failed: list[PtxError] = []
        #: why the candidate's run does not stand for all schedules
        self.dependent: list[str] = []
        #: what evaluating the own source leaned on
        self.noted = Ledger()

    def fail(self, error: PtxError, what: str) -> None:
        """Note a failure, or leave with it if it is ours or asks for another attempt."""
        if isinstance(error, (InternalError, *self.leave)):
            raise error
        self.failed.append(error)
        self.report.errors.append(failure_text(self.report, what, error.render()))


def _attempt(
    job: ValidationJob, leave: frozenset[type[PtxError]], limit: int | None, known: KnownReferences | None
) -> tuple[KernelReport, bool]:
    try:
        state = _Validation(job, leave, limit, known)
    except LaunchError as error:
        report = KernelReport(kernel=job.kernel, configuration=dict(job.configuration), target=job.target, reason=error.message)
        report.errors.append(failure_text(report, "the launch could not be set up", error.render()))
        return report, False
    execution = _execute(state)
    own = _evaluate_own(state) if execution is not None else None
    comparisons: list[Comparison] = []
    if execution is not None and own is not None:
        own, comparisons = _compare_own(state, own, execution)
    if execution is not None and job.reference is not None:
        comparisons += _compare_reference(state, execution)
    state.report.comparisons = comparisons
    _conclude(state, own or Evaluated({}))
    plain = state.report.status is Status.PROVED and not state.stages.fitting  # what is kept leans on no choice of ours
    if known is not None and execution is not None and plain:
        state.report.evidence = known.evidence(state.stages, own, state.noted, execution.footprints, job.reference)
    return state.report, state.stages.split


def _execute(state: _Validation) -> "Execution | None":
    try:
        execution = state.stages.candidate(state.job.ptx, state.job.entry)
    except PtxError as error:
        error.place_in(f"{state.job.kernel}.ptx", state.job.ptx)
        if isinstance(error, NotStructuredError) and state.job.remedy:
            error.hint = state.job.remedy
        state.fail(error, "the PTX could not be executed")
        state.report.findings = list(error.findings)
        return None
    report = state.report
    report.findings = list(execution.findings)
    report.ctas_executed, report.ctas_total = execution.ctas_executed, execution.ctas_total
    report.instructions = execution.instructions
    report.assumptions += execution.assumptions
    state.dependent = execution.schedule_dependent
    state.stages.seconds.update(execution.seconds)
    return execution


def _comparable(own: Evaluated, execution: "Execution") -> tuple[Evaluated, Mapping[str, Footprint]]:
    """Both sides, cut down to common elements where the source ran more programs than the candidate ran CTAs."""
    if not own.whole:
        return own, execution.footprints
    expected, written = restrict(own.footprints, execution.footprints)
    return replace(own, footprints=expected), written


def _evaluate_own(state: _Validation) -> Evaluated | None:
    if state.job.source is None:
        return None
    try:
        with state.stages.arena.ledger() as state.noted:
            return state.stages.source(state.job.source, language=state.job.language)
    except PtxError as error:
        state.fail(error, f"the {state.job.source_name} of the same compilation could not be evaluated")
        return None


def _compare_own(state: _Validation, own: Evaluated, execution: "Execution") -> tuple[Evaluated, list[Comparison]]:
    """The comparison with the source; where it fails and narrow integers are made of floats, another that takes them to fit."""
    label = f"{state.job.kernel}'s own {state.job.source_name}"
    first = _compare(state, OWN_SOURCE, label, *_comparable(own, execution))
    if (
        own.freedoms is None
        or not (own.freedoms.conversions or own.freedoms.reordered)
        or any(row.status is Status.PROVED for row in first)
    ):
        return own, first
    if own.freedoms.narrow_conversions:
        state.stages.fitting = True
        fitting = _evaluate_own(state)
        second = _compare(state, OWN_SOURCE, label, *_comparable(fitting, execution)) if fitting is not None else []
        if fitting is not None and any(row.status is Status.PROVED for row in second):
            state.report.assumptions.append(fitting_text(own.freedoms))
            return fitting, second
        state.stages.fitting = False
    return own, [replace(row, verdict=where_defined(row.verdict, own, state.stages.arena)) for row in first]


def _compare_reference(state: _Validation, execution: "Execution") -> list[Comparison]:
    """Recalled terms may prove; anything else is found again on terms that know their places in the source."""
    found = _against_reference(state, execution, anew=False)
    if found is None:
        state.stages.seconds.pop("decide", None)
        found = _against_reference(state, execution, anew=True)
    return found or []


def _against_reference(state: _Validation, execution: "Execution", *, anew: bool) -> list[Comparison] | None:
    """None where recalled terms did not prove."""
    reference = state.job.reference
    assert reference is not None
    try:
        evaluated = state.stages.reference(reference, state.job.constants, anew=anew)
    except PtxError as error:
        state.fail(error, f"the reference ({reference.label}) could not be evaluated")
        return []
    expected, written = evaluated.footprints, execution.footprints
    notes = list(evaluated.assumptions)
    sampled = execution.ctas_executed < execution.ctas_total
    if sampled:
        expected, written = restrict(expected, written)
        common = sum(len(footprint.index) for footprint in written.values())
        total = sum(len(footprint.index) for footprint in execution.footprints.values())
        if common == 0:
            return [Comparison(REFERENCE, reference.label, Verdict(Status.UNKNOWN, Method.EXACT, [], "no common element"))]
        notes.append(f"compared with the reference on {common} of {total} elements written by the sampled CTAs")
    found = _compare(state, REFERENCE, reference.label, replace(evaluated, footprints=expected), written)
    if evaluated.recalled and any(comparison.status is not Status.PROVED for comparison in found):
        return None
    state.report.assumptions += notes
    return found


def _compare(state: _Validation, against: str, label: str, reference: Evaluated, candidate: Mapping[str, Footprint]) -> list[Comparison]:
    try:
        verdict = state.stages.decide(reference.footprints, candidate)
    except PtxError as error:
        state.fail(error, f"could not be compared with the {against}")
        return []
    state.report.assumptions += verdict.assumptions
    return [Comparison(against, label, for_all_schedules(verdict, [*state.dependent, *reference.dependent]))]


def _uses(job: ValidationJob) -> list[ParameterUse]:
    try:
        return parameter_uses(job.source, job.language) if job.source is not None else []
    except PtxError:
        return []


def races_of_the_source(source: Sequence[Finding], candidate: Sequence[Finding]) -> list[Finding]:
    """Races between programs that the candidate's execution did not show: a racy source has no one meaning to compare with."""
    shown = {finding.tensor for finding in candidate if finding.kind == "data race"}
    return [finding for finding in source if finding.kind == SOURCE_RACE and finding.tensor not in shown]


def _conclude(state: _Validation, own: Evaluated) -> None:
    report, job = state.report, state.job
    report.findings += races_of_the_source(own.findings, report.findings)
    orders = _orders(report, own)
    statuses = [comparison.status for comparison in report.comparisons]
    if report.error_findings or Status.REFUTED in statuses:
        report.status = Status.REFUTED
        by_name = {comparison.against: comparison for comparison in report.comparisons}
        report.blame = assign_blame(job, by_name.get(OWN_SOURCE), by_name.get(REFERENCE), _uses(job), state.stages.bound, orders)
        if not report.blame.party:
            report.blame = blame_findings(report.findings, own.findings, job)
    elif state.failed:
        report.status = Status.UNSUPPORTED if _unsupported(state.failed) else Status.UNKNOWN
        report.reason = state.failed[0].message
    elif not statuses:
        report.status, report.reason = Status.UNKNOWN, "nothing to compare with: only order and memory were checked"
    elif all(status is Status.PROVED for status in statuses):
        report.status = Status.PROVED
    else:
        report.status = Status.UNKNOWN
        report.reason = next((c.verdict.reason for c in report.comparisons if c.status is not Status.PROVED), "")
    if any(comparison.verdict.method is Method.FINGERPRINT for comparison in report.comparisons):
        report.method = Method.FINGERPRINT
    if 0 < report.ctas_executed < report.ctas_total:
        report.assumptions.append(f"{report.ctas_executed} of {report.ctas_total} CTAs executed (corners, edges, a seeded sample)")
    report.assumptions = list(dict.fromkeys(report.assumptions))
    report.seconds = dict(state.stages.seconds)


def _orders(report: KernelReport, own: Evaluated) -> list[Dependence]:
    """Laws that the source's reductions and scans break. What is proved is proved in one order: the ledger says it."""
    if own.freedoms is None or not own.freedoms.combines or not report.comparisons:
        return []
    from volta_pass.references.combine_order import dependences

    found = dependences(list(own.freedoms.combines.values()))
    report.comparisons = in_some_order(report.comparisons, found)
    report.assumptions += [f"one order of several: {order_text(row)}" for row in found]
    return found


def _unsupported(errors: Sequence[PtxError]) -> bool:
    unknown = (BudgetError, NotStructuredError, LaunchError)
    return any(isinstance(error, UnsupportedError) for error in errors) or not any(isinstance(error, unknown) for error in errors)


def agree(left: TtirReference, right: TtirReference, job: ValidationJob) -> Status:
    """Whether two configurations' sources compute the same outputs: the status of their comparison."""
    try:
        stages = Stages(left.launch, job.options, library=job.library)
        first = stages.source(left.text, language=left.language)
        second = stages.source(right.text, right.launch, language=right.language)
        return stages.decide(first.footprints, second.footprints).status
    except PtxError:
        return Status.UNKNOWN
