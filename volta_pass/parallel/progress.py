"""How far many checks are, on a terminal; nothing where stderr is none."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ptx_engine.watching import Step, watched
from volta_pass.progress_line import describe
from volta_pass.terminal import is_terminal


@contextmanager
def shown_progress(total: int, what: str) -> Iterator[Callable[[int], None]]:
    """A bar with the number of tasks done and the time left, and what the one in this process is doing; gives the function to call for
    each task that is done."""
    if not is_terminal(sys.stderr):
        yield lambda number: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(12), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        bar = progress.add_task(what, total=total)
        stage, since = "", 0.0

        def show(step: Step) -> None:
            nonlocal stage, since
            if step.stage != stage:
                stage, since = step.stage, time.monotonic()
            progress.update(bar, description=describe(step, time.monotonic() - since))

        with watched(show):
            yield lambda number: progress.update(bar, advance=1, description=what)
