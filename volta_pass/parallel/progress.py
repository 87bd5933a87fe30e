"""How far many checks are, on a terminal; nothing where stderr is none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def shown_progress(total: int, what: str, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """A bar with the number of tasks done and the time left; gives the function to call for each task that is done."""
    if quiet or not sys.stderr.isatty():
        yield lambda number: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        bar = progress.add_task(what, total=total)
        yield lambda number: progress.advance(bar)
