"""Which format a path asks for, and writing it whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from ptx_engine.errors import LaunchError
from volta_pass.kernel_report import KernelReport
from volta_pass.report import report_document
from volta_pass.reports.html import html_report
from volta_pass.reports.junit import junit_report
from volta_pass.reports.markdown import markdown_report
from volta_pass.reports.sarif import sarif_report
from volta_pass.writing import write_text


def json_report(reports: Sequence[KernelReport]) -> str:
    """Everything, for machines."""
    return json.dumps(report_document(reports), indent=2) + "\n"


#: suffix -> the text of a report; longer suffixes first
SUFFIXES: dict[str, Callable[[Sequence[KernelReport]], str]] = {
    ".junit.xml": junit_report,
    ".sarif": sarif_report,
    ".html": html_report,
    ".json": json_report,
    ".md": markdown_report,
}


def format_of(path: "str | Path") -> Callable[[Sequence[KernelReport]], str]:
    """The writer for a path. Raises LaunchError naming the known suffixes."""
    name = Path(path).name.lower()
    for suffix, writer in SUFFIXES.items():
        if name.endswith(suffix) and name != suffix:
            return writer
    raise LaunchError(f"{path}: no report has this suffix", hint="one of " + ", ".join(SUFFIXES))


def check_report_path(path: "str | Path") -> None:
    """Raise LaunchError before any work where a report could not be written."""
    try:
        target = Path(path).absolute()
        is_folder = target.is_dir()
    except OSError as error:  # a name that is too long, a current folder that is gone
        raise LaunchError(f"cannot write {path}: {error.strerror}", hint="name a file in a folder that you may write") from None
    if is_folder:
        raise LaunchError(f"cannot write {path}: it is a folder", hint="name a file")
    format_of(path)
    if not target.parent.is_dir():
        raise LaunchError(f"cannot write {path}: there is no such folder", hint="make the folder first")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise LaunchError(f"cannot write {path}: permission denied", hint="name a file in a folder that you may write")


def write_report(reports: Sequence[KernelReport], path: "str | Path") -> None:
    """Write the reports in the format of the path's suffix. Raises LaunchError."""
    write_whole(format_of(path)(reports), path)


def write_whole(text: str, path: "str | Path") -> None:
    """Write a report's text. Raises LaunchError where the system does not take it: a full disk, a folder that is gone by now."""
    try:
        write_text(text, Path(path))
    except OSError as error:
        reason = error.strerror or str(error)
        raise LaunchError(f"cannot write {path}: {reason}", hint="name a file in a folder that you may write") from None
