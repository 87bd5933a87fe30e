"""One self-contained HTML page: a table with filters, each diagnostic with source and PTX side by side, pictures of what fails.

Everything shown comes from kernels, paths and PTX, none of which is trusted: every text is escaped, and scripts see data only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.resources import files

from ptx_engine.verdict import Status
from volta_pass.diagnostics import render
from volta_pass.kernel_report import KernelReport
from volta_pass.report import finding_counts, short_configuration
from volta_pass.reports.pictures import failing_maps, race_pictures, time_bar
from volta_pass.reports.side_by_side import panes
from volta_pass.reports.text import shown


def html_report(reports: Sequence[KernelReport]) -> str:
    """The page. The same reports give the same bytes."""
    ranked = sorted(reports, key=lambda report: list(Status).index(report.status))
    counts = Counter((report.answer, report.verdict) for report in ranked)
    chips = "".join(_chip(answer, verdict, count) for (answer, verdict), count in counts.items())
    table = "".join(_row(i, report) for i, report in enumerate(reports))
    sections = "".join(_section(i, report) for i, report in enumerate(reports))
    total = f"{len(reports)} launch{'es' if len(reports) != 1 else ''}"
    return _PAGE.format(
        style=_asset("report.css"), script=_asset("report.js"), chips=chips, table=table, sections=sections, count=total,
        upgrade='<th class="upgrade" data-sort="text">upgrade</th>' if any(report.upgrade for report in reports) else "",
        empty="" if reports else '<p class="empty">No kernel was validated.</p>', ledger=_ledger(reports),
    )  # fmt: skip


def _chip(answer: str, verdict: str, count: int) -> str:
    return f'<button class="chip {verdict}" data-verdict="{answer}">{count} {answer}</button>'


def html_fragment(report: KernelReport) -> str:
    """One launch for a notebook: the verdict's line and the diagnostic."""
    colour = {"proved": "#1a7f37", "refuted": "#c62828"}.get(report.verdict, "#9a6700")
    name = shown(f"{report.kernel} {short_configuration(report)}".strip())
    return (
        f'<div><b>{name}</b> <b style="color:{colour}">{report.verdict}</b> {report.ctas_executed} of {report.ctas_total} CTAs, '
        f'{report.validate_s:.2f} s<pre style="margin:.4em 0">{shown(render(report))}</pre>'
        f"<small>assumptions: {shown('; '.join(report.assumptions) or 'none recorded')}</small></div>"
    )


def _asset(name: str) -> str:
    return files("volta_pass.reports").joinpath(name).read_text(encoding="utf-8")


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>volta-pass</title><style>{style}</style></head><body>
<header><h1>volta-pass</h1><div class="chips"><button class="chip all on" data-verdict="">{count}</button>{chips}</div>
<input id="filter" type="search" placeholder="kernel, configuration, text" aria-label="filter"></header>
<main>{empty}<div class="scroll"><table id="kernels"><thead><tr><th data-sort="text">kernel</th><th data-sort="text">configuration</th>
<th data-sort="text">verdict</th><th data-sort="number">outputs</th><th data-sort="number">classes</th><th data-sort="text">CTAs</th>
<th data-sort="text">findings</th><th data-sort="number">compile s</th><th data-sort="number">validate s</th>{upgrade}</tr></thead>
<tbody>{table}</tbody></table></div>{sections}{ledger}</main><script>{script}</script></body></html>
"""


def _row(number: int, report: KernelReport) -> str:
    classes = str(report.output_classes) if report.deciding and report.status is Status.PROVED else ""
    cells = [
        f'<a href="#k{number}">{shown(report.kernel)}</a>', shown(short_configuration(report)),
        f'<span class="verdict {report.verdict}">{report.answer}{" (cached)" if report.cached else ""}</span>',
        str(report.output_elements) if report.deciding else "", classes,
        f"{report.ctas_executed}/{report.ctas_total}", shown(finding_counts(report)),
        f"{report.compile_s:.2f}" if report.compile_s else "", f"{report.validate_s:.2f}",
    ]  # fmt: skip
    body = "".join(f"<td>{cell}</td>" for cell in cells)
    body += f'<td class="upgrade">{shown(report.upgrade_text())}</td>' if report.upgrade else ""
    return f'<tr data-verdict="{report.answer}" data-section="k{number}">{body}</tr>'


def _section(number: int, report: KernelReport) -> str:
    """One launch: open unless it is proved without findings."""
    is_open = " open" if report.status is not Status.PROVED or report.error_findings else ""
    name = f"{shown(report.kernel)} <small>{shown(short_configuration(report))}</small>"
    head = f'{name} <span class="verdict {report.verdict}">{report.answer}</span>'
    parts = [f'<pre class="diagnostic">{shown(render(report))}</pre>', panes(report), failing_maps(report), race_pictures(report)]
    parts += [_facts(report), time_bar(report)]
    opening = f'<details class="kernel" id="k{number}" data-verdict="{report.answer}"{is_open}>'
    return f"{opening}<summary>{head}</summary>{''.join(parts)}</details>"


def _facts(report: KernelReport) -> str:
    rows = [
        ("upgrade", report.upgrade_text()),
        ("target", report.target),
        ("reason", report.reason),
        ("blame", f"{report.blame.party}: {report.blame.text}" if report.blame.text else ""),
    ]
    toolchain = ", ".join(f"{name} {version}" for name, version in report.toolchain.items())
    rows += [("toolchain", toolchain)]
    rows += [("thread-instructions", f"{report.instructions:,}" if report.instructions else "")]
    rows += [("agreement", text) for text in report.agreement] + [("assumes", text) for text in report.assumptions]
    body = "".join(f"<dt>{shown(name)}</dt><dd>{shown(text)}</dd>" for name, text in rows if text)
    return f'<dl class="facts">{body}</dl>' if body else ""


def _ledger(reports: Sequence[KernelReport]) -> str:
    counts: dict[str, int] = {}
    for report in reports:
        for line in dict.fromkeys(report.assumptions):
            counts[line] = counts.get(line, 0) + 1
    rows = "".join(f"<li>{shown(line)} <small>({count} of {len(reports)})</small></li>" for line, count in counts.items())
    return f'<section class="ledger"><h2>Assumptions</h2><ul>{rows}</ul></section>' if rows else ""
