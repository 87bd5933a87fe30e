"""``volta-pass bench NAME``: figures beside their targets, as a table or JSON rows of name, figure, unit, target, met."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ptx_engine.verdict import Status
from volta_pass.check import CheckOptions, check_file
from volta_pass.check.memory import peak_mib
from volta_pass.configs_folder import configs_folder
from volta_pass.kernel_report import KernelReport
from volta_pass.reports.rows import write_rows

#: spec under configs/bench -> most seconds of validation per second of Triton's compilation, and most seconds
TRITON_TARGETS = {
    "add": (1.0, 0.2), "softmax": (1.0, 0.2), "layer_norm": (1.0, 0.2), "matmul": (3.0, 1.5), "flash_attention": (3.0, 2.0),
}  # fmt: skip
PEAK_TARGET_MIB = 2048.0
#: columns of the widest table, where no terminal says how many it has
TABLE_WIDTH = 140
#: runs of each kernel, of which the medians count
REPEATS = 3
#: budget of each stage: far above every target
LIMIT_S = 30.0


@dataclass(frozen=True)
class Row:
    """One figure; ``met`` says whether it reaches the target, if it has one: rates at least, times and sizes at most."""

    name: str
    figure: float
    unit: str
    target: float | None
    met: bool


def command(args: argparse.Namespace) -> int:
    """Measure and print; 0 if every target is met and every kernel proved, else 1."""
    rows = BENCHES[args.name]()
    if args.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    elif args.name == "paper":
        from volta_pass.cli.bench_paper import print_rows

        print_rows(rows, Console(file=sys.stdout, no_color=args.no_color, highlight=False, width=TABLE_WIDTH))
    else:
        _print(rows, color=not args.no_color)
    if args.report:
        write_rows([asdict(row) for row in rows], args.report)
    return 0 if all(row.met for row in rows) else 1


def triton_rows() -> list[Row]:
    """Validation over compilation for each kernel, medians of runs in one process after a warm-up.

    A kernel that is not proved has one row that says so: its time would mean nothing.
    """
    with _fresh_compilations():
        return _triton_rows()


def exec_rows() -> list[Row]:
    """Millions of thread-instructions per second, symbolic and with order checking."""
    from volta_pass.cli.bench_exec import CASES, rate

    rows = []
    for case in CASES:
        figure = round(rate(case), 3)
        rows.append(Row(f"{case.threads} thread{'s' * (case.threads > 1)}", figure, "M/s", case.target, figure >= case.target))
    return rows


def order_rows() -> list[Row]:
    """What order checking adds to execution, and how it grows with the accesses."""
    from volta_pass.cli.bench_order import measure

    with _fresh_compilations():
        return [_row(*figure) for figure in measure()]


def tilelang_rows() -> list[Row]:
    """Validation over nvcc's time for each TileLang kernel of the suite."""
    from volta_pass.cli.bench_tilelang import measure

    return [_row(*figure) for figure in measure()]


def decide_rows() -> list[Row]:
    """Seconds and memory of the decider, Z3 beside it, and its growth; rows without a target are shown only."""
    from volta_pass.cli.bench_decide import measure

    return [Row(name, round(figure, 4), unit, most, most is None or figure <= most) for name, figure, unit, most in measure()]


def paper_rows() -> list[Row]:
    """The published comparisons on kernels of our own, beside the published times."""
    from volta_pass.cli.bench_paper import measure

    return [*measure()]


def store_rows() -> list[Row]:
    """What recalling a stored proof takes."""
    from volta_pass.cli.bench_store import measure

    return [_row(*figure) for figure in measure()]


def sweep_rows() -> list[Row]:
    """The sweep of 200 configurations by one process and by two."""
    from volta_pass.cli.bench_sweep import measure

    with _fresh_compilations():
        return [Row(name, round(figure, 3), unit, least, least is None or figure >= least) for name, figure, unit, least in measure()]


def _triton_rows() -> list[Row]:
    _measure("add")  # imports and first-use costs of both sides are nobody's
    rows: list[Row] = []
    for name, (ratio_target, seconds_target) in TRITON_TARGETS.items():
        runs = [_measure(name)]
        if runs[0].status is not Status.PROVED:
            rows.append(Row(f"{name}: {runs[0].verdict}, not proved: {runs[0].reason}", 0, "proved", 1, False))
            continue
        runs += [_measure(name) for _ in range(REPEATS - 1)]
        compile_s, validate_s = (statistics.median(seconds) for seconds in ([r.compile_s for r in runs], [r.validate_s for r in runs]))
        rows.append(_row(f"{name}: validate / compile", validate_s / compile_s, "ratio", ratio_target))
        rows.append(_row(f"{name}: validate", validate_s, "s", seconds_target))
    rows.append(_row("peak memory", peak_mib(), "MiB", PEAK_TARGET_MIB))
    return rows


def _measure(name: str) -> KernelReport:
    """Compile and validate one kernel."""
    return check_file(configs_folder() / "bench" / f"{name}.toml", CheckOptions(allow_code=True, budget_seconds=LIMIT_S))


def _row(name: str, figure: float, unit: str, target: float) -> Row:
    return Row(name, round(figure, 4), unit, target, figure <= target)


#: name -> measurement
BENCHES: dict[str, Callable[[], list[Row]]] = {
    "triton": triton_rows,
    "exec": exec_rows,
    "order": order_rows,
    "decide": decide_rows,
    "paper": paper_rows,
    "store": store_rows,
    "sweep": sweep_rows,
    "tilelang": tilelang_rows,
}


@contextmanager
def _fresh_compilations() -> Iterator[None]:
    """A compiler cache of our own, which is gone after each use: a cache hit is no compilation."""
    before = {name: os.environ.get(name) for name in ("TRITON_CACHE_DIR", "TRITON_ALWAYS_COMPILE")}
    with tempfile.TemporaryDirectory(prefix="volta-pass-bench-") as folder:
        os.environ.update({"TRITON_CACHE_DIR": folder, "TRITON_ALWAYS_COMPILE": "1"})
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def _print(rows: list[Row], *, color: bool) -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("name")
    for name in ("figure", "unit", "target", "met"):
        table.add_column(name, justify="right" if name in ("figure", "target") else "left")
    for row in rows:
        figure = f"{row.figure:.3g}" if row.unit != "MiB" else f"{row.figure:.0f}"
        target, met = ("", "") if row.target is None else (f"{row.target:g}", _met(row))
        table.add_row(row.name, figure, row.unit, target, met)
    Console(file=sys.stdout, no_color=not color, highlight=False).print(table)


def _met(row: Row) -> str:
    return "[green]yes[/green]" if row.met else "[red]no[/red]"
