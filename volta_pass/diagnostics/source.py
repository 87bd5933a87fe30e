"""The user's source line under a place, with a caret. A missing or odd file costs the excerpt, never the diagnostic."""

from __future__ import annotations

import functools
import os
import re

from ptx_engine.errors import lines_of, window
from volta_pass.terminal import Painter, printable

_PLACE = re.compile(r"^(?P<file>.+?):(?P<line>\d+)(?::(?P<col>\d+))?$")
_MAX_BYTES = 4 << 20


def split_place(place: str) -> tuple[str, int, int] | None:
    """``("file.py", 12, 3)`` of "file.py:12:3" (column 0 where there is none); None if the text is no place."""
    found = _PLACE.match(place)
    if found is None:
        return None
    return found["file"], int(found["line"]), int(found["col"] or 0)


@functools.lru_cache(maxsize=64)
def _lines_of(path: str, modified_ns: int) -> tuple[str, ...]:
    with open(path, "rb") as file:
        return tuple(lines_of(file.read(_MAX_BYTES).decode("utf-8", errors="replace")))


def source_line(place: str) -> str:
    """The line of text at a place, without its line end; empty if there is none to be had."""
    parts = split_place(place)
    if parts is None:
        return ""
    file, line, _ = parts
    try:
        status = os.stat(file)
        lines = _lines_of(file, status.st_mtime_ns) if os.path.isfile(file) else ()
    except (OSError, ValueError):
        return ""
    return lines[line - 1] if 0 < line <= len(lines) else ""


def shown_place(place: str) -> str:
    """The place with its file relative to the working directory where that is shorter."""
    parts = split_place(place)
    if parts is None or not os.path.isabs(parts[0]):
        return printable(place)
    try:
        relative = os.path.relpath(parts[0])
    except ValueError:
        return printable(place)
    return printable(relative + place[len(parts[0]) :] if len(relative) < len(parts[0]) else place)


def excerpt(place: str, paint: Painter, note: str = "") -> list[str]:
    """``--> place``, the source line and a caret with a note beside it."""
    rows = [f"  {paint('place', '-->')} {shown_place(place)}"]
    parts, text = split_place(place), source_line(place)
    if parts is None or not text:
        return rows + ([f"      {note}"] if note else [])
    _, line, col = parts
    number = str(line)
    gutter = " " * len(number)
    column = col if col > 0 else len(text) - len(text.lstrip()) + 1
    text, column = window(text, column)
    before = printable(text[: column - 1])
    pointer = " " * len(before) + paint("caret", "^") + (f" {note}" if note else "")
    bar = paint("faint", "|")
    return [*rows, f"   {gutter} {bar}", f"   {number} {bar} {printable(text)}", f"   {gutter} {bar} {pointer}"]
