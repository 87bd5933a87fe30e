"""Terminal colours, and text made safe for a terminal: what stands in a kernel's source never reaches it as control codes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TextIO

_CODES = {"error": "1;31", "warning": "1;33", "note": "1;36", "good": "1;32", "place": "36", "label": "1", "faint": "2", "caret": "1;31"}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Painter:
    """Wraps text in ANSI codes, or leaves it as it is."""

    def __init__(self, color: bool) -> None:
        self._color = color

    def __call__(self, style: str, text: str) -> str:
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self._color and text else text


def printable(text: str) -> str:
    """The text with tabs as blanks and control characters as "?"."""
    return _CONTROL.sub("?", text.expandtabs(4))


def wants_color(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """True for a terminal, unless NO_COLOR is set (https://no-color.org) or TERM is dumb."""
    if environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody sits there; False for no stream at all, and for a closed one."""
    try:
        return stream is not None and stream.isatty()
    except (AttributeError, ValueError):
        return False
