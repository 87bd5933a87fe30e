"""A report as text: findings first, then what differs, who is to blame, what to do next."""

from __future__ import annotations

from ptx_engine.findings import Finding, Severity
from ptx_engine.verdict import OutputVerdict, Status
from volta_pass.diagnostics.findings import render_finding
from volta_pass.diagnostics.header import labelled, title
from volta_pass.diagnostics.hints import explanation_hint
from volta_pass.diagnostics.mismatch import render_output
from volta_pass.diagnostics.source import excerpt
from volta_pass.kernel_report import OWN_SOURCE, Comparison, KernelReport
from volta_pass.terminal import Painter, printable

#: pairs of the user's lines whose findings are printed; the others are counted (all are in the JSON)
_SHOWN_FINDINGS = 8


def render(report: KernelReport, *, color: bool = False, ptx_name: str = "") -> str:
    """Everything a person should read about a report, without a final newline.

    ``ptx_name`` names the candidate's PTX file, for sites without a line of the user's source.
    """
    paint = Painter(color)
    places = _by_place(_ordered(report.findings))
    blocks = [
        render_finding(first, paint, report.kernel, ptx_name, alike=(len(rest), sum(f.count for f in rest)))
        for first, *rest in places[:_SHOWN_FINDINGS]
    ]
    hidden = sum(map(len, places[_SHOWN_FINDINGS:]))
    if hidden > 0:
        blocks.append([f"  {hidden} more groups of findings; the JSON report has all of them"])
    comparison = report.deciding
    if comparison is not None and comparison.status is not Status.PROVED:
        blocks.append(_comparison(report, comparison, paint))
    elif report.error_findings:
        blocks.append(_circumstances(report, paint))
    blocks += [error.splitlines() for error in report.errors]
    undecided = comparison is None and not report.error_findings and not report.errors  # there are notes at most
    if undecided or not blocks or report.status is Status.PROVED:
        blocks.append(_plain_answer(report, paint))
    return "\n\n".join("\n".join(rows) for rows in blocks if rows)


def _circumstances(report: KernelReport, paint: Painter) -> list[str]:
    """Below findings: the configuration they are about, and who is to blame."""
    rows = labelled(paint, "config", printable(report.configuration_text())) if report.configuration else []
    return rows + _next_steps(report, [], paint)


def _ordered(findings: list[Finding]) -> list[Finding]:
    """Errors before notes, otherwise as found."""
    return sorted(findings, key=lambda finding: finding.severity is not Severity.ERROR)


def _by_place(findings: list[Finding]) -> list[list[Finding]]:
    """Findings that say the same of the same lines of the user's together: unrolled code has many instructions a line."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for number, finding in enumerate(findings):
        lines = tuple(sorted((site.user_loc, site.role) for site in finding.sites))
        known = lines and all(place for place, _ in lines)
        key = (finding.kind, finding.severity, finding.space, finding.tensor, finding.missing, lines) if known else (number,)
        groups.setdefault(key, []).append(finding)
    return list(groups.values())


def _comparison(report: KernelReport, comparison: Comparison, paint: Painter) -> list[str]:
    worst = _worst_outputs(comparison)
    names = ", ".join(output.tensor for output in worst) or "the outputs"
    refuted = comparison.status is Status.REFUTED
    verb = "differs" if len(worst) == 1 else "differ"
    prefix = f"{report.kernel}'s "
    own = comparison.label.removeprefix(prefix) if comparison.label.startswith(prefix) else "own TTIR"
    against = f"its {own}" if comparison.against == OWN_SOURCE else "the reference"
    said = f"{names} {verb} from {against}" if refuted else f"{names} could not be proved equal to {against}"
    tag = f"{comparison.status.value}, {comparison.verdict.method.value}" if refuted else comparison.status.value
    rows = [title(paint, "error" if refuted else "warning", f"{report.kernel}: {said}", tag)]
    if report.blame.user_loc:
        rows += excerpt(report.blame.user_loc, paint, printable(report.blame.detail))
    if report.configuration:
        rows += labelled(paint, "config", printable(report.configuration_text()))
    for output in worst:
        rows += render_output(output, report.tensors, paint)
    if comparison.verdict.reason and not any(output.reason in comparison.verdict.reason for output in worst if output.reason):
        rows += labelled(paint, "reason", printable(comparison.verdict.reason))
    return rows + _next_steps(report, worst, paint)


def _worst_outputs(comparison: Comparison) -> list[OutputVerdict]:
    return [output for output in comparison.verdict.outputs if output.status is comparison.status]


def _next_steps(report: KernelReport, outputs: list[OutputVerdict], paint: Painter) -> list[str]:
    rows: list[str] = []
    if report.blame.text:
        party = f"{report.blame.party}: " if report.blame.party else ""
        rows += labelled(paint, "blame", printable(party + report.blame.text))
    for sentence in report.agreement:
        rows += labelled(paint, "agree", printable(sentence))
    hint = report.blame.help or next((explanation_hint(o.explanation) for o in outputs if o.explanation), "")
    if hint:
        rows += labelled(paint, "help", printable(hint))
    if report.bundle:
        rows += labelled(paint, "bundle", printable(report.bundle))
    return rows


def _plain_answer(report: KernelReport, paint: Painter) -> list[str]:
    """One line for a report without findings or differences."""
    if report.status is Status.PROVED:
        classes = f"{report.output_classes} class" + ("es" if report.output_classes != 1 else "")
        said = f"{report.output_elements} outputs in {classes} equal the reference"
        if report.deciding is None:
            said = "no data race, deadlock or memory fault"
        tag = f"proved, {report.method.value}" if report.deciding is not None else "clean"
        return [title(paint, "ok", f"{report.kernel}: {said}", tag)]
    return [title(paint, "warning", f"{report.kernel}: {report.reason or 'no verdict'}", report.status.value)]
