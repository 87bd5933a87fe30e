"""Who is wrong, and at which line: reads off which comparisons were proved or refuted; decides nothing itself.

Differs from its own source: the compiler. Equals its source but not the reference: the kernel, in this configuration.
Races inside a CTA are the compiler's (a tile program has no threads), between CTAs the kernel's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ptx_engine.findings import Finding, Severity
from ptx_engine.launch import BoundLaunch
from ptx_engine.verdict import Explanation, Status
from volta_pass.job import FunctionReference, ValidationJob
from volta_pass.kernel_report import Blame, Comparison
from volta_pass.ttir_uses import AccessSite, ParameterUse

if TYPE_CHECKING:
    from volta_pass.references.combine_order import Dependence

#: the TTIR evaluation's name for a data race between programs of the grid
SOURCE_RACE = "race between programs"

#: explanations that are about where a value is stored
_MISPLACED = ("footprint", "moved")
_MEMORY_FAULTS = ("out of bounds", "misaligned")


def assign_blame(
    job: ValidationJob,
    own: Comparison | None,
    reference: Comparison | None,
    uses: Sequence[ParameterUse],
    bound: BoundLaunch,
    orders: Sequence[Dependence] = (),
) -> Blame:
    """Blame for a refuted comparison; an empty Blame where none is refuted. ``orders``: laws that the source's reductions break,
    or that could not be proved, broken ones first."""
    if own is not None and own.status is Status.REFUTED:
        return _order(job, orders[0]) if orders else _compiler(job, own, reference, uses)
    if reference is None or reference.status is not Status.REFUTED:
        return Blame()
    if own is None or own.status is not Status.PROVED:
        unproved = f"PTX and its own {job.source_name} could not be proved equal"
        why = "the kernel's own source could not be evaluated" if own is None else unproved
        text = f"{why}, so that kernel and compiler cannot be told apart"
        return Blame("unknown", text, user_loc=_differing_loc(reference, uses))
    if orders and orders[0].example:
        return _order(job, orders[0])
    return _kernel(job, reference, uses, bound)


def order_text(order: Dependence) -> str:
    """What a reduction or scan depends on, in words."""
    what = f"what {order.op_name.replace('tt.', 'tl.').replace('scan', 'associative_scan')} combines depends on the order"
    if order.example:
        return f"{what}: its function f is not {order.law}, {order.example}"
    return f"{what} unless its function is {order.law}, which could not be proved"


def _order(job: ValidationJob, order: Dependence) -> Blame:
    """A compiler may combine in any order, so that a difference from one of them is not its fault."""
    if order.example:
        hint = f"combine with a function that is {order.law}, or write the reduction as a loop"
        return Blame("kernel", f"{order_text(order)}; a compiler may take any", order.user_loc, help=hint)
    text = f"{order_text(order)}, so that kernel and compiler cannot be told apart"
    return Blame("unknown", text, order.user_loc)


def _compiler(job: ValidationJob, own: Comparison, reference: Comparison | None, uses: Sequence[ParameterUse]) -> Blame:
    settings = ", ".join(f"{key}={job.configuration[key]}" for key in ("num_warps", "num_stages") if key in job.configuration)
    versions = ", ".join([*(f"{name} {version}" for name, version in job.toolchain.items()), *filter(None, (job.target, settings))])
    text = f"the emitted PTX differs from the {job.source_name} of the same compilation"
    if reference is not None and reference.status is Status.PROVED:
        text += f", although the PTX equals the reference: the {job.source_name} differs from both"
    return Blame("compiler", f"{text}. {versions}".rstrip(". "), user_loc=_differing_loc(own, uses))


def _kernel(job: ValidationJob, reference: Comparison, uses: Sequence[ParameterUse], bound: BoundLaunch) -> Blame:
    text = f"the PTX equals its own {job.source_name} (proved); the {job.source_name} differs from the reference"
    if not isinstance(job.reference, FunctionReference):
        text += f", which is the source of configuration {reference.label}"
    explanation = _explanation(reference)
    site, detail = blamed_load(explanation, uses, bound)
    loc = site.user_loc if site is not None else _differing_loc(reference, uses)
    return Blame("kernel", text, loc, detail, _help(explanation, site))


def _help(explanation: Explanation | None, site: AccessSite | None) -> str:
    if explanation is None or site is None:
        return ""
    if explanation.kind == "changed":
        return "this load reads other elements than the reference does: look at its strides and offsets"
    if explanation.extra_inputs:
        given = "the mask of this load lets too much through" if site.masked else "this load has no mask"
        return f"{given}: mask out the elements that the reference does not read (other=0.0)"
    return "this load leaves out elements that the reference reads: look at its mask, and at the loop around it"


def _explanation(comparison: Comparison) -> Explanation | None:
    rows = [o.explanation for o in comparison.verdict.outputs if o.status is Status.REFUTED and o.explanation is not None]
    with_inputs = [row for row in rows if row.extra_inputs or row.missing_inputs]
    return next(iter(with_inputs or rows), None)


def _differing_loc(comparison: Comparison, uses: Sequence[ParameterUse]) -> str:
    """The line at which the sides part: of the differing operation, or of the store that writes other elements."""
    differing = [output for output in comparison.verdict.outputs if output.explanation is not None]
    misplaced = [output.tensor for output in differing if output.explanation is not None and output.explanation.kind in _MISPLACED]
    stores = {use.name: use.stores for use in uses}
    places = [[site.user_loc for name in names for site in stores.get(name, [])] for names in (misplaced, [o.tensor for o in differing])]
    return next(filter(None, [*places[0], _origin_loc(_explanation(comparison)), *places[1]]), "")


def _origin_loc(explanation: Explanation | None) -> str:
    if explanation is None:
        return ""
    for origin in (explanation.candidate_origin, explanation.reference_origin):
        loc = getattr(origin, "user_loc", "")
        if loc:
            return str(loc)
    return ""


def blamed_load(explanation: Explanation | None, uses: Sequence[ParameterUse], bound: BoundLaunch) -> tuple[AccessSite | None, str]:
    """The load in the kernel's source that reads the extra (else the missing) inputs, and what it reads in words."""
    if explanation is None:
        return None, ""
    idents, verb = (explanation.extra_inputs, "reads") if explanation.extra_inputs else (explanation.missing_inputs, "does not read")
    by_tensor: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    for ident in idents:
        entry, flat = bound.arena.input_of(ident)
        if entry.name in bound.by_name:
            by_tensor[entry.name].append(bound.by_name[entry.name].arg.index_of(flat))
    loads = {use.name: use.loads for use in uses}
    found = [(site, name) for name in by_tensor for site in loads.get(name, [])]
    if not found:
        return None, ""
    unmasked_first = sorted(found, key=lambda row: (row[0].masked, list(by_tensor).index(row[1])))
    site, name = unmasked_first[0]
    return site, f"{verb} {name}{_box(by_tensor[name])}, which the reference does {'not read' if verb == 'reads' else 'read'}"


def _box(indices: list[tuple[int, ...]]) -> str:
    """The bounding box of indices: ``[0, 96..127]``."""
    rank = max(len(index) for index in indices)
    whole = [index for index in indices if len(index) == rank]
    spans = [(min(index[d] for index in whole), max(index[d] for index in whole)) for d in range(rank)]
    return "[" + ", ".join(str(low) if low == high else f"{low}..{high}" for low, high in spans) + "]"


def blame_findings(findings: Sequence[Finding], source_findings: Sequence[Finding], job: ValidationJob) -> Blame:
    """Blame for the first finding that is an error; an empty Blame where there is none."""
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if not errors:
        return Blame()
    first = errors[0]
    loc = next((site.user_loc for site in first.sites if site.user_loc), "")
    if first.kind in _MEMORY_FAULTS and any(row.kind == first.kind and row.tensor == first.tensor for row in source_findings):
        return Blame("kernel", f"the kernel's own source makes the same access ({first.kind})", loc)
    if first.space == "shared" or first.kind == "deadlock":
        return Blame("compiler", "a tile program has no threads and no shared memory: their use is the compiler's", loc)
    if first.kind == SOURCE_RACE or (first.kind == "data race" and len({site.cta for site in first.sites}) > 1):
        return Blame("kernel", "two programs of the grid touch the same element, and nothing orders them", loc)
    return Blame("unknown", "the access may be the source's or the compiler's", loc)
