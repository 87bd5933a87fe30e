"""Where a report's statements stand: the user's line where there is one, else the PTX line."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ptx_engine.findings import Finding
from volta_pass.diagnostics.source import split_place
from volta_pass.kernel_report import KernelReport


@dataclass(frozen=True)
class Place:
    """A line (from 1) and column (from 1, 0 if unknown) of a file, which is relative to the working directory where that is below it."""

    file: str
    line: int
    column: int = 0


def place_of(user_loc: str) -> Place | None:
    """The place that "file.py:12:3" names."""
    parts = split_place(user_loc)
    return None if parts is None else Place(relative(parts[0]), parts[1], parts[2])


def relative(file: str) -> str:
    """A path with forward slashes, relative to the working directory if it lies below it."""
    if os.path.isabs(file):
        try:
            below = os.path.relpath(file)
        except ValueError:
            below = file
        file = file if below.startswith("..") else below
    return Path(file).as_posix()


def finding_places(finding: Finding) -> list[Place]:
    """The user's lines of a finding's sites, in order, each once."""
    places = [place_of(site.user_loc) for site in finding.sites if site.user_loc]
    return list(dict.fromkeys(place for place in places if place is not None))


def report_place(report: KernelReport) -> Place | None:
    """The line that a refutation is blamed on, or where the first error was found."""
    found = place_of(report.blame.user_loc) if report.blame.user_loc else None
    if found is None:
        found = next((place for finding in report.error_findings for place in finding_places(finding)), None)
    return found
