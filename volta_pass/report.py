"""Reports of many kernels: the table at exit, and the JSON file. Bytes do not depend on timing, only on the reports' order."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ptx_engine.verdict import Status
from volta_pass.kernel_report import KernelReport
from volta_pass.terminal import printable, wants_color
from volta_pass.writing import write_text

#: the version of the JSON file's layout
FORMAT = 1

#: exit codes of ``volta-pass check`` and ``run`` (design section 10)
EXIT_CODES = {Status.PROVED: 0, Status.REFUTED: 1, Status.UNKNOWN: 3, Status.UNSUPPORTED: 4}
#: from best to worst: a wrong kernel outweighs what could not be decided
_RANK = (Status.PROVED, Status.UNSUPPORTED, Status.UNKNOWN, Status.REFUTED)
_STYLES = {Status.PROVED: "green", Status.REFUTED: "bold red", Status.UNKNOWN: "yellow", Status.UNSUPPORTED: "yellow"}
#: columns of the table where no terminal says how many it has
_WIDTH = 120
_ABBREVIATIONS = {"num_warps": "w", "num_stages": "s"}


def worst_status(reports: Iterable[KernelReport]) -> Status:
    """The worst verdict (refuted, then unknown, then unsupported); proved for no reports."""
    return max((report.status for report in reports), key=_RANK.index, default=Status.PROVED)


def short_configuration(report: KernelReport) -> str:
    """``64x64x32 w4 s3``: several block sizes by value, in the kernel's order; and a note where not all CTAs ran."""
    blocks = [str(value) for key, value in report.configuration.items() if key.upper().startswith("BLOCK_")]
    parts = ["x".join(blocks)] if len(blocks) > 1 else []
    for key, value in report.configuration.items():
        if len(blocks) > 1 and key.upper().startswith("BLOCK_"):
            continue
        parts.append(f"{_ABBREVIATIONS[key]}{value}" if key in _ABBREVIATIONS else f"{key}={value}")
    if 0 < report.ctas_executed < report.ctas_total:
        parts.append("(sampled CTAs)")
    return " ".join(parts)


def exit_table(reports: Sequence[KernelReport], *, width: int | None = None, color: bool | None = None) -> str:
    """The table of kernel, configuration, verdict, outputs, CTAs, findings and times, with the assumptions below it.

    Fits ``width`` columns (None: the terminal's): below 100 the counts of outputs and classes and the compile time are left
    out. ``color`` None: coloured where stderr is a terminal and NO_COLOR is unset.
    """
    if width is None:
        width = shutil.get_terminal_size((_WIDTH, 24)).columns if sys.stderr.isatty() else _WIDTH
    if color is None:
        color = wants_color(sys.stderr)
    narrow = width < 100
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("kernel", overflow="fold")
    table.add_column("configuration", overflow="fold", ratio=1)
    table.add_column("verdict", no_wrap=True)
    for name in _number_columns(narrow):
        table.add_column(name, justify="right", no_wrap=True)
    for report in reports:
        verdict = Text(report.verdict + (" (cached)" if report.cached else ""), style=_STYLES[report.status])
        kernel, configuration = Text(printable(report.kernel)), Text(printable(short_configuration(report)))
        table.add_row(kernel, configuration, verdict, *_numbers(report, narrow))
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=color, color_system="standard" if color else None, highlight=False)
    console.print(table)
    console.print(Text(_assumption_line(reports)))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def _number_columns(narrow: bool) -> list[str]:
    return ["CTAs", "findings", "validate"] if narrow else ["outputs", "classes", "CTAs", "findings", "compile", "validate"]


def _numbers(report: KernelReport, narrow: bool) -> list[str]:
    ctas, findings = f"{report.ctas_executed}/{report.ctas_total}", finding_counts(report)
    validate = f"{report.validate_s:.2f} s"
    if narrow:
        return [ctas, findings, validate]
    proved = report.status is Status.PROVED
    classes = str(report.output_classes) if proved and report.deciding else "-"
    outputs = str(report.output_elements) if report.deciding else "-"
    return [outputs, classes, ctas, findings, f"{report.compile_s:.2f} s" if report.compile_s else "-", validate]


def finding_counts(report: KernelReport) -> str:
    """``2``, or ``0 (+1 note)``: notes change no verdict and are counted apart."""
    errors = len(report.error_findings)
    notes = len(report.findings) - errors
    return f"{errors} (+{notes} note{'s' * (notes != 1)})" if notes else str(errors)


def _assumption_line(reports: Sequence[KernelReport]) -> str:
    """Every assumption once, with the number of kernels that lean on it where not all do."""
    counts: dict[str, int] = {}
    for report in reports:
        for name in dict.fromkeys(report.assumptions):
            counts[name] = counts.get(name, 0) + 1
    said = [name if n == len(reports) else f"{name} ({n} of {len(reports)})" for name, n in counts.items()]
    return "assumptions: " + ("; ".join(map(printable, said)) if said else "none recorded")


def report_document(reports: Sequence[KernelReport]) -> dict[str, object]:
    """The JSON file's content: layout version, the worst verdict and every report."""
    return {"format": FORMAT, "verdict": worst_status(reports).value, "kernels": [report.to_json() for report in reports]}


def write_json(reports: Sequence[KernelReport], path: "str | Path") -> None:
    """Write the reports to a file, whole or not at all. Raises OSError."""
    write_text(json.dumps(report_document(reports), indent=2) + "\n", Path(path))


def summary_line(report: KernelReport) -> str:
    """One line under a diagnostic: verdict, coverage, cost, assumptions."""
    ctas = f"{report.ctas_executed} of {report.ctas_total} CTAs"
    seconds = f"{report.validate_s:.2f} s, {report.instructions} thread-instructions, peak {report.peak_mib:.0f} MiB"
    return f"{report.verdict}: {ctas}, {seconds}\n{_assumption_line([report])}"
