"""Rows of a benchmark as report files: name, figure, unit, target, met."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

from volta_pass.reports.files import format_of, write_whole
from volta_pass.reports.junit import clean
from volta_pass.reports.markdown import escaped

Row = Mapping[str, Any]
_COLUMNS = ("name", "figure", "unit", "target", "met")


def write_rows(rows: Sequence[Row], path: "str | Path") -> None:
    """Write rows in the format of the path's suffix. Raises LaunchError."""
    format_of(path)
    name = Path(path).name.lower()
    writer = next(writer for suffix, writer in _WRITERS.items() if name.endswith(suffix))
    write_whole(writer(rows), path)


def _json(rows: Sequence[Row]) -> str:
    return json.dumps([dict(row) for row in rows], indent=2) + "\n"


def _markdown(rows: Sequence[Row]) -> str:
    lines = ["| " + " | ".join(_COLUMNS) + " |", "|---|---:|---|---:|---|"]
    lines += ["| " + " | ".join(escaped(_cell(row[column])) for column in _COLUMNS) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    return "yes" if value is True else "no" if value is False else f"{value:.4g}" if isinstance(value, float) else str(value)


def _html(rows: Sequence[Row]) -> str:
    head = "".join(f"<th>{column}</th>" for column in _COLUMNS)
    body = "".join("<tr>" + "".join(f"<td>{escape(_cell(row[column]))}</td>" for column in _COLUMNS) + "</tr>" for row in rows)
    style = (
        ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
        "table{border-collapse:collapse}td,th{padding:.3rem .8rem;border-bottom:1px solid #8886;text-align:left}"
        "td:nth-child(2),td:nth-child(4){text-align:right;font-variant-numeric:tabular-nums}"
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>volta-pass bench</title><style>{style}</style></head><body>'
        f"<h1>volta-pass bench</h1><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></body></html>\n"
    )


def _junit(rows: Sequence[Row]) -> str:
    failures = sum(not row["met"] for row in rows)
    figures = {"tests": str(len(rows)), "failures": str(failures), "errors": "0"}
    root = xml.Element("testsuites", {"name": "volta-pass bench", **figures})
    suite = xml.SubElement(root, "testsuite", {"name": "volta-pass bench", **figures})
    for row in rows:
        case = xml.SubElement(suite, "testcase", {"classname": "bench", "name": clean(str(row["name"]))})
        if not row["met"]:
            said = f"{_cell(row['figure'])} {row['unit']}, target {_cell(row['target'])}"
            xml.SubElement(case, "failure", {"type": "target missed", "message": clean(said)})
    xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + xml.tostring(root, encoding="unicode") + "\n"


def _sarif(rows: Sequence[Row]) -> str:
    from volta_pass.reports.sarif import document

    missed = [
        {
            "ruleId": "target-missed", "level": "warning",
            "message": {"text": f"{row['name']}: {_cell(row['figure'])} {row['unit']}, target {_cell(row['target'])}"},
            "locations": [{"logicalLocations": [{"name": str(row["name"])}]}],
        }
        for row in rows if not row["met"]
    ]  # fmt: skip
    return document(missed)


_WRITERS: dict[str, Callable[[Sequence[Row]], str]] = {
    ".junit.xml": _junit, ".sarif": _sarif, ".html": _html, ".json": _json, ".md": _markdown,
}  # fmt: skip
