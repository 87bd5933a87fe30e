"""``volta-pass bench paper``: the comparisons of the published evaluation on kernels of our own, beside the published times.

Each row is one pair of kernels at the published sizes, validated in full: both executions, their order, every output exactly.
Compiling CUDA C is not counted. The figures are CPU seconds of this process, which has one thread: the wall seconds of an idle
machine; stages are in wall seconds. Where a range is published its lower end counts; where nothing is published of deciding one
element of attention, the least that is published of any. The process's peak memory is measured for each row.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from volta_pass.check import CheckOptions, check_file, check_spec
from volta_pass.check.cuda_side import compile_side
from volta_pass.check.memory import peak_mib
from volta_pass.cli.bench import Row
from volta_pass.cli.bench_decide import child
from volta_pass.configs_folder import configs_folder
from volta_pass.kernel_report import KernelReport
from volta_pass.spec import SideKind, SideSpec, read_spec

#: a row's seconds, a table's seconds and MiB
LIMIT_S, TABLE_TARGET_S, PEAK_TARGET_MIB = 300.0, 60.0, 2048.0
#: outputs of an attention tile, and the least seconds published for deciding one of them
_ATTENTION_OUTPUTS, _LEAST_ELEMENT_S = 1024, 0.01
_ATTENTION_S = 3.9 + _ATTENTION_OUTPUTS * _LEAST_ELEMENT_S


@dataclass(frozen=True)
class Pair:
    """A spec under configs/suite/cuda, the published seconds of both executions and all decisions, and how many times faster
    we mean to be."""

    name: str
    published_s: float
    factor: float = 10.0
    expected: str = "proved"


def _pairs() -> list[Pair]:
    """The published table, row by row."""
    rows = [Pair(f"reduce{i}", 0.0024) for i in (1, 2, 3, 4)]
    rows += [Pair(f"reduce{i}", 0.001, expected="refuted") for i in (5, 6, 7)]
    rows += [Pair(f"matmul{i}", 30.0 + 89.0, 50.0) for i in range(1, 8)]
    rows += [Pair("attention_naive", _ATTENTION_S, 50.0), Pair("attention_fa1", 3.9 + 154.0, 50.0)]
    rows += [Pair(f"attention_{kernel}", _ATTENTION_S, 50.0) for kernel in ("fa1_wmma", "fa2_wmma")]
    kernels = ("naive", "fa1", "fa1_wmma", "fa2_wmma")
    rows += [Pair(f"attention_{kernel}_{mask}", _ATTENTION_S, 50.0) for mask in ("causal", "causal_fused") for kernel in kernels]
    rows += [Pair("conv2d_naive", 32.0 + 14.0), Pair("conv2d", 32.0 + 14.0)]
    rows += [Pair(f"gemm{i}", 28.0) for i in (1, 2, 3)]
    rows += [Pair("tile_mma_32x32", 1.1), Pair("tile_mma_64x32", 4.5), Pair("tile_mma_64x64", 18.6 + 60.0)]
    for kernel in ("bucket_positions", "key_range", "reduce_values", "layer_norm", "gradient_input"):
        rows += [Pair(f"{kernel}_missing_sync", 0.001, expected="refuted"), Pair(kernel, 0.001)]
    return rows


PAIRS = tuple(_pairs())

#: pairs of which Z3 is given one element, where it is installed, and its seconds (executing the kernels comes on top)
Z3_PAIRS = ("reduce3", "matmul6", "conv2d", "attention_fa1", "layer_norm")
Z3_LIMIT_S, Z3_GRACE_S = 10, 60


@dataclass(frozen=True)
class PaperRow(Row):
    """``figure`` is the CPU seconds of the whole validation, ``ratio`` the published seconds over them."""

    verdict: str = ""
    wall_s: float = 0.0
    execute_s: float = 0.0
    order_s: float = 0.0
    decide_s: float = 0.0
    peak_mib: float = 0.0
    published_s: float = 0.0
    ratio: float = 0.0
    thread_instructions: int = 0
    outputs: int = 0


def measure(pairs: Sequence[Pair] = PAIRS) -> list[Row]:
    """Measure the pairs in one process, after one that pays for imports; the table's seconds and peak memory come last."""
    check_file(_spec("reduce3"))
    rows = [_measure(pair) for pair in pairs]
    total, peak = sum(row.figure for row in rows), max((row.peak_mib for row in rows), default=0.0)
    return [
        *rows,
        Row("the whole table", round(total, 3), "s", TABLE_TARGET_S, total <= TABLE_TARGET_S),
        Row("peak memory", round(peak), "MiB", PEAK_TARGET_MIB, peak <= PEAK_TARGET_MIB),
        *(_z3_row(pair.name) for pair in pairs if pair.name in Z3_PAIRS and importlib.util.find_spec("z3") is not None),
    ]


def _z3_row(name: str) -> Row:
    """Z3 on one element, in a process of its own: its CPU seconds, and in the unit what it answered; shown, never judged."""
    try:
        said = child("bench_paper_z3", str(_spec(name)), str(Z3_LIMIT_S * 1000), timeout_s=Z3_LIMIT_S + Z3_GRACE_S)
    except subprocess.TimeoutExpired:
        return Row(f"{name}: Z3, one element", Z3_LIMIT_S + Z3_GRACE_S, "s (stopped)", None, True)
    except subprocess.CalledProcessError as error:
        return Row(f"{name}: Z3, one element", 0, f"failed ({error.returncode})", None, True)
    found = json.loads(said)
    return Row(f"{name}: Z3 {found['version']}, one element", round(found["seconds"], 3), f"s ({found['answer']})", None, True)


def _spec(name: str) -> Path:
    return configs_folder() / "suite" / "cuda" / f"{name}.toml"


def _measure(pair: Pair) -> PaperRow:
    spec = read_spec(_spec(pair.name))
    compiled = replace(spec, candidate=_compiled(spec.candidate), reference=spec.reference and _compiled(spec.reference))
    forget_peak()
    start = time.process_time()
    report = check_spec(compiled, CheckOptions(budget_seconds=LIMIT_S))
    return row_of(pair, report, time.process_time() - start, peak_since())


def _compiled(side: SideSpec) -> SideSpec:
    """A CUDA C side as its PTX."""
    done = compile_side(side)
    return replace(side, kind=SideKind.PTX, source=f"{done.kernel}.ptx", entry=done.entry, text=done.ptx)


def row_of(pair: Pair, report: KernelReport, cpu_s: float, peak: float) -> PaperRow:
    """A report beside what is published."""
    target, stages = pair.published_s / pair.factor, report.seconds
    met = report.verdict == pair.expected and cpu_s <= target
    verdict = report.verdict if report.verdict == pair.expected else f"{report.verdict}, not {pair.expected}"
    execute_s = stages.get("parse", 0.0) + stages.get("decode", 0.0) + stages.get("execute", 0.0)
    wall, execute_s, order_s, decide_s = (
        round(seconds, 4) for seconds in (report.validate_s, execute_s, stages.get("order", 0.0), stages.get("decide", 0.0))
    )
    return PaperRow(
        pair.name, round(cpu_s, 4), "s", round(target, 6), met, verdict, wall, execute_s, order_s, decide_s, round(peak), pair.published_s,
        round(pair.published_s / cpu_s, 3), report.instructions, report.output_elements,
    )  # fmt: skip


# --- peak memory of one row ---------------------------------------------------------------------


def forget_peak() -> None:
    """Let the process's peak memory start anew, where the system can (Linux); elsewhere peaks are of all rows so far."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


def peak_since() -> float:
    """MiB at most in use since ``forget_peak``."""
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return peak_mib()
    return int(found[1]) / 1024 if found else peak_mib()


# --- the table ----------------------------------------------------------------------------------


def print_rows(rows: Sequence[Row], console: Console) -> None:
    """One line a pair: seconds by stage, memory, published seconds and how many times faster."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("pair", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for name in ("execute", "order", "decide", "wall", "CPU s", "MiB", "published", "ratio", "target", "met"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        style = "green" if row.met else "red"
        met = f"[{style}]{'yes' if row.met else 'no'}[/{style}]"
        if isinstance(row, PaperRow):
            seconds = [f"{s:.3f}" for s in (row.execute_s, row.order_s, row.decide_s, row.wall_s, row.figure)]
            table.add_row(row.name, row.verdict, *seconds, f"{row.peak_mib:.0f}", f"{row.published_s:.4g}", f"{row.ratio:.3g}",
                          f"{row.target or 0:.3g}", met)  # fmt: skip
        else:
            target, met = ("", "") if row.target is None else (f"{row.target:g}", met)
            table.add_row(row.name, row.unit, "", "", "", "", f"{row.figure:.4g}", "", "", "", target, met)
    console.print(table)
