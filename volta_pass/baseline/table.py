"""The outcomes of a comparison as a table for people."""

from __future__ import annotations

import io
import shutil
import sys
from collections import Counter
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from volta_pass.baseline.compare import WRONG, Change, Outcome
from volta_pass.terminal import printable

_WIDTH = 120
_GOOD = frozenset({Change.SAME_TEXT, Change.PROVED})


def outcome_table(outcomes: Sequence[Outcome], *, width: int | None = None, color: bool = False) -> str:
    """One row per launch, then a line of totals."""
    if width is None:
        width = shutil.get_terminal_size((_WIDTH, 24)).columns if sys.stdout.isatty() else _WIDTH
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("kernel", overflow="fold")
    table.add_column("configuration", overflow="fold", ratio=1)
    table.add_column("compilers", overflow="fold")
    table.add_column("change", no_wrap=True)
    table.add_column("cost, blame, reason", overflow="fold", ratio=2)
    for outcome in outcomes:
        style = "green" if outcome.change in _GOOD else "bold red" if outcome.change in WRONG else "yellow"
        configuration = " ".join(f"{key}={value}" for key, value in outcome.record.configuration.items())
        newer = outcome.newer.compiler if outcome.newer is not None else "-"
        table.add_row(
            Text(printable(outcome.record.kernel)), Text(printable(configuration)), Text(f"{outcome.record.compiler} -> {newer}"),
            Text(outcome.change.value, style=style), Text(printable(_detail(outcome))),
        )  # fmt: skip
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=color, color_system="standard" if color else None, highlight=False)
    console.print(table)
    counts = Counter(outcome.change.value for outcome in outcomes)
    console.print(Text(", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "nothing to compare"))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def _detail(outcome: Outcome) -> str:
    cost = [f"{name.replace('_', ' ')} {before} -> {after}" for name, (before, after) in outcome.cost.items()]
    return "; ".join([*([outcome.blame] if outcome.blame else []), *([outcome.reason] if outcome.reason else []), *cost])
