"""From a ``.loc`` row to the user's source: call-site frames, and the frame to show.

A frame belongs to a library where its file lies in a compiler's own package or in a toolkit's headers.
"""

from __future__ import annotations

import re

from ptx_engine.syntax.ast import Loc, Module

_LIBRARY = re.compile(
    r"(?:^|/)(?:triton/(?:language|experimental|tools|runtime)/|tilelang/|tl_templates/|cutlass/include/"
    r"|targets/[^/]+/include/|(?:cuda|nvidia/)[^/]*/include/|cuda-headers-[0-9.]+/|usr/(?:local/)?include/|cuda/std/)"
)


def frames(module: Module, loc: Loc | None) -> list[tuple[str, int, int]]:
    """The file, line and column of a row and of the call sites it was inlined at, innermost first; empty for None.

    Files are spelled as in the module's ``.file`` table (directory and name), "" where the table lacks the number.
    """
    files = dict(module.files)
    found = []
    while loc is not None:
        found.append((files.get(loc.file, ""), loc.line, loc.col))
        loc = loc.inlined_at
    return found


def user_loc(module: Module, loc: Loc | None) -> str:
    """``"file.py:12:3"`` of the innermost frame in the user's code, of the outermost frame if all are a library's; "" for none."""
    known = [frame for frame in frames(module, loc) if frame[0] and frame[1] > 0]
    if not known:
        return ""
    file, line, col = next((frame for frame in known if not is_library(frame[0])), known[-1])
    return f"{file}:{line}:{col}"


def is_library(file: str) -> bool:
    """Whether a file is part of a compiler's library, not of the user's program."""
    return _LIBRARY.search(file.replace("\\", "/")) is not None
