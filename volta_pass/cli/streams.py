"""Standard output and errors that never take a verdict away: a reader that is gone reads no more, a character that the terminal has not
is escaped. ``volta-pass check wrong.toml | head -1`` still exits with what was found (with ``set -o pipefail``, the pipeline's code).
A disk that is full is an error: whoever reads the file must not take half of a report for all of it.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from ptx_engine.errors import LaunchError


class _Lasting:
    """A stream that goes on into nothing once it cannot be written to. Raises LaunchError where that is not because its reader left."""

    def __init__(self, stream: TextIO, *, told: bool) -> None:
        self._stream = stream
        #: whether somebody can be told that the stream does not take what is written
        self._told = told

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            self._guarded(lambda: self._stream.write(text))
        except UnicodeEncodeError:
            name = self._stream.encoding
            self._guarded(lambda: self._stream.write(text.encode(name, "backslashreplace").decode(name)))
        return len(text)

    def flush(self) -> None:
        self._guarded(self._stream.flush)

    def _guarded(self, step: Callable[[], object]) -> None:
        try:
            step()
        except OSError as error:
            self._divert()
            if self._told and not isinstance(error, BrokenPipeError):
                hint = "what was written of it is not whole"
                raise LaunchError(f"standard output cannot be written: {error.strerror or error}", hint=hint) from None

    def _divert(self) -> None:
        """What is left in the buffer goes nowhere, either: the interpreter flushes it when it ends."""
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, self._stream.fileno())
        os.close(nothing)
        self._stream.flush()


@contextlib.contextmanager
def lasting_streams() -> Iterator[None]:
    """``sys.stdout`` and ``sys.stderr`` of a command, until it has its exit code."""
    with contextlib.ExitStack() as stack:
        for name, redirect in (("stdout", contextlib.redirect_stdout), ("stderr", contextlib.redirect_stderr)):
            stream = getattr(sys, name)
            if stream is None:  # closed by whoever started us
                stack.enter_context(redirect(stack.enter_context(open(os.devnull, "w", encoding="utf-8"))))
            elif type(stream) is io.TextIOWrapper:  # else a test's or a notebook's, which are no pipes
                lasting = _Lasting(stream, told=name == "stdout")
                stack.enter_context(redirect(lasting))
                stack.callback(lasting.flush)
        yield
