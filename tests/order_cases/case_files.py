"""Reads the headers of the cases beside this file: what each PTX file states about itself, and where its marked lines are.

A header is comment lines ``// key: value``. ``expect`` is ``clean`` (proved, exit code 0), ``clean in one schedule`` (nothing found, but values
depend on the schedule: unknown), or a finding: kind, space, conflict, the marks of its sites, and what its advice says in parentheses.
``note`` is a finding that changes no verdict; ``twin`` names the file without the fault; ``spec`` the launch.
A mark is a comment at the end of a line, ``// @Fill``: of this PTX, or of the CUDA C that it was compiled from.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "cases"
CLEAN, ONE_SCHEDULE = "clean", "clean in one schedule"
_FINDING = re.compile(
    r"(?P<kind>[a-z -]+?)(?: (?P<space>shared|global))?(?: (?P<conflict>[RW]/W))?(?P<marks>(?: @\w+)+)(?: \((?P<missing>[^)]*)\))?"
)


@dataclass(frozen=True)
class Expected:
    """A finding that a header states; ``lines`` are those of its sites, sorted."""

    kind: str
    space: str
    conflict: str
    lines: tuple[int, ...]
    missing: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.kind} {self.space} {self.conflict} lines {self.lines}"


@dataclass(frozen=True)
class Case:
    """A PTX file with what it states. ``source`` is the CUDA C file that it comes from, or itself."""

    path: Path
    source: Path
    spec: Path
    twin: str
    verdict: str
    stated: tuple[Expected, ...]
    notes: frozenset[Expected]
    #: instructions by which this file and its twin differ
    differs_by: int = 1

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def faulty(self) -> bool:
        return bool(self.stated)

    @property
    def findings(self) -> frozenset[Expected]:
        return frozenset(self.stated)

    def advice(self) -> dict[Expected, list[str]]:
        """What the advice of each finding says; one pair of lines has several where two causes are told apart."""
        said: dict[Expected, list[str]] = {}
        for expected in self.stated:
            said.setdefault(expected, []).append(expected.missing)
        return said


def marked_lines(text: str) -> dict[str, int]:
    """The line of every mark of a file. Raises ValueError for one that stands twice."""
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        for mark in re.findall(r"// @(\w+)\s*$", line):
            if mark in lines:
                raise ValueError(f"mark @{mark} stands twice")
            lines[mark] = number
    return lines


def header(text: str) -> dict[str, list[str]]:
    """The values of each key."""
    rows: dict[str, list[str]] = {}
    for key, value in re.findall(r"^// (expect|note|twin|spec|source|differs by): (.*)$", text, re.MULTILINE):
        rows.setdefault(key, []).append(value.strip())
    return rows


def finding(text: str, marks: dict[str, int]) -> Expected:
    """A finding from its words. Raises ValueError for words that are none, KeyError for an unknown mark."""
    match = _FINDING.fullmatch(text)
    if match is None:
        raise ValueError(f"not a finding: {text!r}")
    lines = tuple(sorted(marks[name] for name in re.findall(r"@(\w+)", match["marks"])))
    return Expected(match["kind"], match["space"] or "", match["conflict"] or "", lines, match["missing"] or "")


@cache
def read_case(path: Path) -> Case:
    """A case from its file."""
    rows = header(path.read_text(encoding="utf-8"))
    source = path.with_name(rows["source"][0]) if "source" in rows else path
    marks = marked_lines(source.read_text(encoding="utf-8"))
    said = rows["expect"]
    verdict = said[0] if said[0] in (CLEAN, ONE_SCHEDULE) else ""
    stated = () if verdict else tuple(finding(text, marks) for text in said)
    notes = frozenset(finding(text, marks) for text in rows.get("note", ()))
    twin = rows["twin"][0] if "twin" in rows else ""
    differs_by = int(rows["differs by"][0].split()[0]) if "differs by" in rows else 1
    return Case(path, source, path.with_name(rows["spec"][0]), twin, verdict, stated, notes, differs_by)


def all_cases() -> list[Case]:
    """Every PTX file of the folder, by name."""
    return [read_case(path) for path in sorted(FOLDER.glob("*.ptx"))]
