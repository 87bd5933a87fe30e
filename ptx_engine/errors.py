"""Failures, as exceptions: what could not be read, modelled, launched or afforded, and where.

Findings about a program (races, out-of-bounds accesses, inequality) are values, not exceptions: see
``findings``. An exception here means that no verdict about the program was reached.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a text: 1-based line and column; ``end_col`` is one past the last column; ``file`` may be empty."""

    line: int
    col: int = 1
    end_col: int = 0
    file: str = ""


#: columns of a line that are shown: a line of generated code may have millions
_COLUMNS = 200


def lines_of(text: str) -> list[str]:
    """The lines of a text as compilers count them: a form feed or U+2028 ends none (for ``str.splitlines`` they do)."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def window(line: str, column: int) -> tuple[str, int]:
    """What is shown of a line, and the 1-based column there: all of it, or of a long one what stands around the column."""
    if len(line) <= _COLUMNS:
        return line, column
    start = max(0, min(column - 1, len(line)) - _COLUMNS // 2)
    before, after = "..." if start else "", "..." if start + _COLUMNS < len(line) else ""
    return before + line[start : start + _COLUMNS] + after, column - start + len(before)


class PtxError(Exception):
    """Base of all failures: a message, the place it is about, the unsupported or offending feature, and a remedy.

    ``source_line`` is the text of the offending line, for the caret; ``file`` names the text it stands in.
    """

    kind = "error"
    #: what to do where the error itself names no remedy
    remedy = ""

    def __init__(
        self,
        message: str,
        *,
        span: Span | None = None,
        feature: str = "",
        hint: str = "",
        source_line: str = "",
        user_loc: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.feature = feature
        self.hint = hint
        self.source_line = source_line
        #: "file.py:12:3" of the user's own source, where the PTX carries it.
        self.user_loc = user_loc
        #: findings of an execution that this failure stopped: they are real, though there may be more
        self.findings: tuple[Any, ...] = ()

    def place_in(self, file: str, text: str) -> None:
        """Say that a place without a file is in this one, and show its whole line."""
        if self.span is None or self.span.file not in ("", "<ptx>"):
            return
        self.span = replace(self.span, file=file)
        lines = lines_of(text)
        if 0 < self.span.line <= len(lines):
            self.source_line = lines[self.span.line - 1]

    def render(self) -> str:
        """The error as plain text of a few lines: message, place, source line with a caret, remedy."""
        lines = [f"{self.kind}: {self.message}"]
        if self.user_loc:
            lines.append(f"  --> {self.user_loc}")
        if self.span is not None:
            file = self.span.file or "<ptx>"
            lines.append(f"  --> {file}:{self.span.line}:{self.span.col}")
            if self.source_line:
                shown, column = window(self.source_line.replace("\t", " "), self.span.col)
                number = str(self.span.line)
                width = max(1, min(self.span.end_col - self.span.col, len(shown) - column + 1))
                lines.append(f"  {' ' * len(number)} |")
                lines.append(f"  {number} | {shown}")
                lines.append(f"  {' ' * len(number)} | {' ' * (column - 1)}{'^' * width}")
        hint = self.hint or self.remedy
        if hint:
            lines.append(f"  help: {hint}")
        return "\n".join(lines)

    def __str__(self) -> str:
        place = f" (line {self.span.line}, column {self.span.col})" if self.span is not None else ""
        return f"{self.message}{place}"


class ParseError(PtxError):
    """The text is not PTX that we can read."""

    kind = "parse error"
    remedy = "PTX is read as ptxas reads it: correct this place, or give the text as the compiler wrote it"


class UnsupportedError(PtxError):
    """An instruction, modifier or feature that has no semantics here; ``feature`` names it."""

    kind = "unsupported"


class NotStructuredError(PtxError):
    """Control flow or an address depends on symbolic data, so that no single symbolic execution stands for all inputs."""

    kind = "not structured"


class LaunchError(PtxError):
    """The launch does not fit the kernel, or a spec is malformed."""

    kind = "launch error"
    remedy = "compare the launch with the kernel's parameters"


class BudgetError(PtxError):
    """A budget (instructions, seconds, bytes) ran out; the verdict is ``unknown``."""

    kind = "budget exhausted"


class NotSeparableError(Exception):
    """CTAs that cannot be run apart from each other, or a part that did not run clean: why. The launch is then to be run as one."""


class InternalError(PtxError):
    """A defect of ours."""

    kind = "internal error"
