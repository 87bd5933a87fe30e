"""``.loc`` and ``.file``: rows, call-site chains, inline-asm fences.

A ``.loc ... inlined_at f l c`` names its call site by place only; the chain is completed by the latest earlier row of that
place, which compilers print first. LLVM repeats the row of an inline-asm statement inside its fence with the number of asm
lines before it added to the line: the first row of a fence is set right by that number, the others add nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable

from ptx_engine.syntax.ast import Loc
from ptx_engine.syntax.lexer import Cursor

_BEGIN = re.compile(r"//[ \t]*begin inline asm\b")
_END = re.compile(r"//[ \t]*end inline asm\b")
Place = tuple[int, int, int]


class Fences:
    """Where the inline-asm fences of a text stand; a fence without an end reaches to the next one's begin."""

    __slots__ = ("begins", "ends")

    def __init__(self, text: str) -> None:
        self.begins = [m.start() for m in _BEGIN.finditer(text)]
        marks = [m.start() for m in _END.finditer(text)]
        self.ends: list[int] = []
        for index, begin in enumerate(self.begins):
            following = self.begins[index + 1] if index + 1 < len(self.begins) else len(text)
            after = bisect_right(marks, begin)
            self.ends.append(min(marks[after] if after < len(marks) else len(text), following))

    def around(self, pos: int) -> int:
        """The number of the fence that a position is in, or -1."""
        index = bisect_right(self.begins, pos) - 1
        return index if index >= 0 and pos < self.ends[index] else -1


class Locations:
    """The current location while a body is read: ``at`` takes each ``.loc`` in order."""

    __slots__ = ("_by_place", "_fences", "_last_fence", "_text", "current")

    def __init__(self, text: str) -> None:
        self._text = text
        self._fences = Fences(text)
        self.reset()

    def reset(self) -> None:
        """Forget the rows of the previous function."""
        self.current: Loc | None = None
        self._last_fence = -1
        self._by_place: dict[Place, Loc] = {}

    def at(self, pos: int, place: Place, function: str, inlined_at: Place | None) -> Loc | None:
        """Make the row at a position current and return it; None where it only repeats its fence's row."""
        fence = self._fences.around(pos) if self._fences.begins else -1
        if fence >= 0:
            if fence == self._last_fence:
                return None
            self._last_fence = fence
            asm_lines = self._text.count("\n", self._fences.begins[fence], pos) - 1
            if asm_lines >= place[1]:
                return None
            place = (place[0], place[1] - max(asm_lines, 0), place[2])
        site = None
        if inlined_at is not None:
            site = self._by_place.get(inlined_at) or Loc(*inlined_at)
            if site.inlined_at is not None and _depth(site) >= MAX_INLINING:
                site = Loc(*inlined_at)
        row = Loc(*place, function, site)
        self.current = self._by_place[place] = row
        return row


#: call-site chains are cut at this length, so that equality and printing need no deep recursion
MAX_INLINING = 50


def _depth(loc: Loc) -> int:
    depth, at = 0, loc.inlined_at
    while at is not None:
        depth, at = depth + 1, at.inlined_at
    return depth


def loc_row(cursor: Cursor) -> tuple[Place, str, Place | None]:
    """``.loc 1 2 3 {, function_name L{+n} {, inlined_at 4 5 6}}`` at the cursor: place, function label, call site."""
    cursor.expect(".loc")
    place = (_number(cursor, "file"), _number(cursor, "line"), _number(cursor, "column"))
    function, site = "", None
    while cursor.take(","):
        if cursor.take("function_name"):
            function = cursor.advance() if cursor.kind in ("ident", "directive") else cursor.identifier("a label")
            if cursor.take("+"):
                function += f"+{_number(cursor, 'offset')}"
        elif cursor.take("inlined_at"):
            site = (_number(cursor, "file"), _number(cursor, "line"), _number(cursor, "column"))
        else:
            cursor.fail(f"expected 'function_name' or 'inlined_at', found {cursor.shown()}")
    return place, function, site


def file_row(cursor: Cursor) -> tuple[int, str]:
    """``.file 1 "path" {, timestamp, size}`` at the cursor; a directory string before the name is joined to it."""
    cursor.expect(".file")
    number = _number(cursor, "file")
    if cursor.kind != "string":
        cursor.fail(f"expected a file name in quotes, found {cursor.shown()}")
    name = cursor.advance()[1:-1]
    if cursor.kind == "string":
        name = f"{name.rstrip('/')}/{cursor.advance()[1:-1]}"
    while cursor.take(","):
        _number(cursor, "number")
    return number, name


def _number(cursor: Cursor, what: str) -> int:
    if cursor.kind != "int" or not cursor.value.isdecimal() or len(cursor.value) > 18:
        cursor.fail(f"expected a {what} number, found {cursor.shown()}")
    return int(cursor.advance())


def joined_until_semicolon(cursor: Cursor) -> str:
    """The tokens up to ``;``, which is taken, with one blank between words and none elsewhere."""
    parts: list[str] = []
    while not (cursor.kind == "punct" and cursor.value == ";"):
        if cursor.kind == "end":
            cursor.fail("expected ';', found the end of the text")
        parts.append(cursor.value)
        cursor.advance()
    cursor.advance()
    return " ".join(parts)


def closest(name: str, known: Iterable[str]) -> str:
    """A hint naming the most similar known word, or an empty one."""
    from difflib import get_close_matches  # for errors only: imported late

    near = get_close_matches(name[:60], list(known), 1)
    return f"did you mean {near[0]!r}?" if near else ""
