"""The first line of a diagnostic, its labelled rows, and text wrapped under a label."""

from __future__ import annotations

import textwrap

from volta_pass.terminal import Painter

#: columns of a diagnostic; tags are set flush right here
WIDTH = 100
_LABEL = 9


def title(paint: Painter, severity: str, text: str, tag: str) -> str:
    """``error: text                [tag]``"""
    style = severity if severity in ("error", "warning", "note") else "good"
    plain = f"{severity}: {text}"
    gap = " " * max(2, WIDTH - len(plain) - len(tag) - 2)
    return f"{paint(style, severity + ':')} {paint('label', text)}{gap}{paint('faint', '[' + tag + ']')}"


def labelled(paint: Painter, label: str, text: str) -> list[str]:
    """``  label    text``, wrapped, with every line of ``text`` kept apart."""
    rows: list[str] = []
    for line in text.splitlines() or [""]:
        rows += textwrap.wrap(line, WIDTH - _LABEL - 2, break_long_words=False, break_on_hyphens=False) or [""]
    first = f"  {paint('label', label)}{' ' * max(1, _LABEL - len(label))}{rows[0]}"
    return [first, *(" " * (_LABEL + 2) + row for row in rows[1:])]
