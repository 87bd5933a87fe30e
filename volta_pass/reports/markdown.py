"""Markdown that fits a pull request's comment: a table, and each diagnostic folded below it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ptx_engine.verdict import Status
from volta_pass.diagnostics import render
from volta_pass.kernel_report import KernelReport
from volta_pass.report import finding_counts, short_configuration

_MARKS = {Status.PROVED: "✅", Status.REFUTED: "❌", Status.UNKNOWN: "⚠️", Status.UNSUPPORTED: "⚠️"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~])")


def markdown_report(reports: Sequence[KernelReport]) -> str:
    """The table first; proved kernels have no details."""
    counts = Counter(report.answer for report in sorted(reports, key=lambda report: list(Status).index(report.status)))
    said = ", ".join(f"{count} {answer}" for answer, count in counts.items()) or "no kernel was validated"
    rows = ["# volta-pass", "", said, ""]
    if reports:
        upgrade = any(report.upgrade for report in reports)
        rows += ["| | kernel | configuration | verdict | outputs | CTAs | findings | time |" + " upgrade |" * upgrade]
        rows += ["|---|---|---|---|---:|---:|---:|---:|" + "---|" * upgrade]
        rows += [_row(report) + f" {escaped(report.upgrade_text())} |" * upgrade for report in reports]
    for report in reports:
        if report.status is not Status.PROVED or report.findings:
            rows += ["", *_details(report)]
    assumptions = list(dict.fromkeys(line for report in reports for line in report.assumptions))
    if assumptions:
        rows += ["", "Assumptions:", "", *(f"* {escaped(line)}" for line in assumptions)]
    return "\n".join(rows) + "\n"


def _row(report: KernelReport) -> str:
    cells = [
        _MARKS[report.status], escaped(report.kernel), escaped(short_configuration(report)), report.answer, str(report.output_elements),
        f"{report.ctas_executed}/{report.ctas_total}", finding_counts(report), f"{report.validate_s:.2f} s",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _details(report: KernelReport) -> list[str]:
    text = render(report)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    title = escaped(f"{report.kernel} {short_configuration(report)}".strip())
    return [f"<details><summary>{title}: {report.answer}</summary>", "", fence + "text", text, fence, "", "</details>"]


def escaped(text: str) -> str:
    """Text without meaning as Markdown or HTML, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
