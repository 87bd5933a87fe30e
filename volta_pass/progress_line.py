"""One line on a terminal that says how far a validation is: stage, CTAs, instructions, time left.

There are no colours in it, and nothing is written where there is no terminal. The line appears when a validation has taken a second,
and is wiped when it ends.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from ptx_engine.watching import Step, watched, watcher
from volta_pass.terminal import is_terminal, printable

#: seconds until the line appears, and between two changes of it
AFTER_S, EVERY_S = 1.0, 0.2
_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


class ProgressLine:
    """Writes and wipes the line."""

    def __init__(self, what: str, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._stream, self._clock = printable(what), stream, clock
        self._started = self._since = clock()
        self._shown = 0.0
        self._stage, self._width = "", 0

    def __call__(self, step: Step) -> None:
        """Show a step, if it is time to."""
        now = self._clock()
        fresh = step.stage != self._stage
        if fresh:
            self._stage, self._since = step.stage, now
        if now - self._started < AFTER_S or (not fresh and now - self._shown < EVERY_S):
            return
        self._shown = now
        columns = shutil.get_terminal_size((80, 24)).columns - 1
        text = f"{self._what}: {describe(step, now - self._since)}"[:columns]
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)

    def wipe(self) -> None:
        """Leave the terminal as it was."""
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0


def describe(step: Step, seconds: float) -> str:
    """A step in words; ``seconds``: since its stage began."""
    words = [step.stage]
    if step.total:
        words.append(f"{step.ctas} of {step.total} CTAs")
    if step.instructions:
        words.append(f"{_short(step.instructions)} instructions")
    if 0 < step.ctas < step.total:
        words.append(f"about {_duration(seconds * (step.total - step.ctas) / step.ctas)} left")
    elif step.budget_s is not None:
        words.append(f"at most {_duration(step.budget_s)} left")
    return ", ".join(words)


def _short(count: int) -> str:
    return next((f"{count / size:.1f} {unit}" for size, unit in _UNITS if count >= size), str(count))


def _duration(seconds: float) -> str:
    whole = max(0, round(seconds))
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


@contextmanager
def progress_line(what: str, *, quiet: bool = False, stream: TextIO | None = None) -> Iterator[None]:
    """Show how far what happens inside is; nothing if ``quiet``, on no terminal, or inside of another one."""
    out = sys.stderr if stream is None else stream
    if quiet or watcher() is not None or not is_terminal(out):
        yield
        return
    line = ProgressLine(what, out)
    try:
        with watched(line):
            yield
    finally:
        line.wipe()
