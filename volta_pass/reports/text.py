"""Text of kernels, paths and PTX made harmless in a page."""

from __future__ import annotations

from html import escape

from volta_pass.terminal import printable


def shown(text: str) -> str:
    """Text as HTML, in elements and in quoted attributes; control characters are "?", line ends stay."""
    return escape("\n".join(printable(line) for line in text.split("\n")), quote=True)
