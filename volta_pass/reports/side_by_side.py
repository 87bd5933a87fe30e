"""The user's source and the PTX of a report's places, side by side, with the lines marked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from ptx_engine.errors import lines_of
from volta_pass.diagnostics.source import split_place
from volta_pass.kernel_report import KernelReport
from volta_pass.reports.places import relative
from volta_pass.reports.text import shown

#: lines shown before and after a marked one, and most lines in a pane
_AROUND, _MOST = 4, 120
_MAX_BYTES = 4 << 20


def panes(report: KernelReport) -> str:
    """Two panes, each with what there is; nothing where neither source nor PTX has a marked line."""
    users: dict[str, set[int]] = {}
    ptx_lines: set[int] = set()
    for place in _places(report):
        parts = split_place(place)
        if parts is not None:
            users.setdefault(parts[0], set()).add(parts[1])
    for finding in report.findings:
        ptx_lines |= {site.ptx_line for site in finding.sites if site.ptx_line > 0}
    if not ptx_lines and report.blame.user_loc:
        ptx_lines = _lines_of_place(report.ptx, report.blame.user_loc)
    left = "".join(_pane(relative(file), _read(file), sorted(lines)) for file, lines in users.items())
    right = _pane("PTX", lines_of(report.ptx), sorted(ptx_lines)) if report.ptx else ""
    sides = "".join(f"<div>{side}</div>" for side in (left, right) if side)
    return f'<div class="panes">{sides}</div>' if sides else ""


def _places(report: KernelReport) -> Iterable[str]:
    if report.blame.user_loc:
        yield report.blame.user_loc
    for finding in report.findings:
        for site in finding.sites:
            if site.user_loc:
                yield site.user_loc


def _lines_of_place(ptx: str, place: str) -> set[int]:
    """PTX lines that follow a ``.loc`` of the place's file and line (compilers write "file:line:column" beside it)."""
    parts = split_place(place)
    if parts is None:
        return set()
    wanted = f"{os.path.basename(parts[0])}:{parts[1]}:"
    found, here = set(), False
    for number, line in enumerate(lines_of(ptx), 1):
        text = line.strip()
        if text.startswith(".loc"):
            here = wanted in text
        elif here and text and not text.startswith(("//", "$", ".")):
            found.add(number)
    return found


def _read(file: str) -> list[str]:
    """The lines of a file of the user's, none if it cannot be read."""
    try:
        if not os.path.isfile(file):
            return []
        with open(file, "rb") as source:
            return lines_of(source.read(_MAX_BYTES).decode("utf-8", errors="replace"))
    except OSError:
        return []


def _pane(title: str, lines: Sequence[str], marked: Sequence[int]) -> str:
    """Excerpts around the marked lines (from 1), with line numbers."""
    numbers = sorted({n for mark in marked for n in range(max(1, mark - _AROUND), min(len(lines), mark + _AROUND) + 1)})[:_MOST]
    if not numbers:
        return ""
    rows, previous = [], numbers[0]
    for n in numbers:
        if n > previous + 1:
            rows.append('<span class="gap">⋯</span>')
        kind = ' class="mark"' if n in marked else ""
        rows.append(f"<span{kind}><b>{n}</b>{shown(lines[n - 1].expandtabs(4))}</span>")
        previous = n
    return f'<figure class="code"><figcaption>{shown(title)}</figcaption><pre>{"".join(rows)}</pre></figure>'
