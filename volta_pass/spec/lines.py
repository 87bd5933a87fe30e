"""Where the keys of a TOML text stand: a path such as ``("args", 1, "dtype")`` -> its 1-based line and column.

Works on text that ``tomllib`` has accepted, and only has to find keys: strings, comments and brackets are skipped as
wholes. Keys inside inline tables are found at the line of the key that holds the table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ptx_engine.errors import Span

Path = tuple["str | int", ...]

_KEY = r"(?:[A-Za-z0-9_-]+|\"(?:[^\"\\]|\\.)*\"|'[^']*')"
_DOTTED = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_HEADER = re.compile(rf"[ \t]*(\[\[?)[ \t]*({_DOTTED})[ \t]*\]\]?")
_ASSIGN = re.compile(rf"[ \t]*({_DOTTED})[ \t]*=")
_TOKEN = re.compile(r"\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''.*?'''|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|#[^\n]*|[\[\]{}]|\n", re.DOTALL)


@dataclass
class LineTable:
    """Lines of a spec text, and the place of every key path found in it."""

    file: str
    lines: list[str]
    places: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def span(self, path: Path) -> Span:
        """The place of a key path, or of the nearest enclosing one that is in the text."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.places:
                line, col = self.places[path[:length]]
                return Span(line, col, col + self._width(line, col), self.file)
        return Span(1, 1, 2, self.file)

    def text(self, span: Span) -> str:
        """The text of a span's line."""
        return self.lines[span.line - 1] if 0 < span.line <= len(self.lines) else ""

    def _width(self, line: int, col: int) -> int:
        found = re.match(_DOTTED, self.lines[line - 1][col - 1 :])
        return len(found.group()) if found else 1


def locate_keys(text: str, file: str) -> LineTable:
    """The line table of a TOML text."""
    table = LineTable(file, text.split("\n"))  # TOML has no other ends of lines; a form feed is none
    counts: dict[Path, int] = {}
    prefix: Path = ()
    position, line = 0, 1
    while position < len(text):
        header = _HEADER.match(text, position)
        assign = None if header else _ASSIGN.match(text, position)
        if header:
            prefix = _enter(header, counts)
            table.places.setdefault(prefix, (line, header.start(2) - position + 1))
            if isinstance(prefix[-1], int):
                table.places.setdefault(prefix[:-1], (line, header.start(2) - position + 1))
            position = header.end()
        elif assign:
            path = prefix + _parts(assign.group(1))
            table.places.setdefault(path, (line, assign.start(1) - position + 1))
            position = assign.end()
        position, line = _skip_value(text, position, line)
    return table


def _enter(header: re.Match[str], counts: dict[Path, int]) -> Path:
    """The path a ``[table]`` or ``[[array]]`` header opens; parents that are arrays get the index of their last element."""
    path: Path = ()
    parts = _parts(header.group(2))
    for i, part in enumerate(parts):
        path += (part,)
        if i == len(parts) - 1 and header.group(1) == "[[":
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path += (counts[path],)
    return path


def _skip_value(text: str, position: int, line: int) -> tuple[int, int]:
    """Past the end of the line on which the value at ``position`` ends: brackets closed, strings and comments skipped."""
    depth = 0
    while True:
        token = _TOKEN.search(text, position)
        if token is None:
            return len(text), line
        position = token.end()
        found = token.group()
        line += found.count("\n")
        if found == "\n" and depth <= 0:
            return position, line
        depth += (found in "[{") - (found in "]}") if len(found) == 1 else 0


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_KEY, dotted))
