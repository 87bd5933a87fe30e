"""What a CUDA compiler rejects, in its own words, and compilers that are not there."""

from __future__ import annotations

import re

from ptx_engine.errors import LaunchError, Span, UnsupportedError, lines_of

#: "kernel.cu(12): error: ..." (NVRTC and nvcc), "nvrtc: error: ..." has no place
_PLACE = re.compile(r"^(?P<file>[^\n(]+)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<text>.*)$", re.MULTILINE)
#: most of a log that is shown; templates can fill pages
LOG_LINES = 40


class CudaCompilerMissing(UnsupportedError):
    """No CUDA compiler can be found."""


class CudaCompileError(LaunchError):
    """The compiler rejected the source. The message is the compiler's own text, the place that of its first error."""

    kind = "CUDA compile error"
    remedy = "this is the compiler's own message: correct the source, or its options, defines and include folders"

    def __init__(self, log: str, source: str, compiler: str) -> None:
        found = _PLACE.search(log)
        span = Span(int(found["line"]), 1, 0, found["file"]) if found else None
        lines = lines_of(source)
        shown = lines[span.line - 1] if span is not None and 0 < span.line <= len(lines) else ""
        super().__init__(f"{compiler}\n{_shortened(log)}", span=span, source_line=shown)
        self.log = log
        if compiler.startswith("NVRTC") and "cannot open source file" in log:
            self.remedy = 'NVRTC has few of the host\'s headers: leave host code and its headers out, or ask for compiler = "nvcc"'


def _shortened(log: str) -> str:
    lines = log.strip().splitlines()
    rest = len(lines) - LOG_LINES
    return "\n".join(lines[:LOG_LINES] + ([f"... {rest} more lines"] if rest > 0 else []))
