"""One case of ``bench decide`` in a process of its own, so that its peak memory is its own: ``python -m ... CASE``, JSON on stdout."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import numpy as np

from ptx_engine.decide.driver import Budget, Mode, decide
from ptx_engine.launch import Footprint
from ptx_engine.verdict import Status
from volta_pass.check.memory import peak_mib
from volta_pass.cli import bench_decide_norm as norm
from volta_pass.cli.bench_decide_attention import Shape, flash1_problem, flash2_problem, tile_problem
from volta_pass.cli.bench_decide_emit import Problem
from volta_pass.cli.bench_decide_products import conv_problem, matmul_problem

_HEAD = Shape(rows=16, keys=512, depth=64, block=128)
_TILE = Shape(rows=128, keys=2048, depth=128, block=64)

#: far above every target: a case that reaches it has failed
_LIMIT_S = 300.0


@dataclass(frozen=True)
class Case:
    """A problem, the most seconds that deciding it may take, and how it is decided."""

    make: Callable[[], Problem]
    target_s: float
    mode: Mode = Mode.EXACT
    #: the row is not given to Z3
    alone: bool = False


#: attention over rows x keys x depth, a matrix product of m x n x k, layer norms (LN) of a row; FA: flash attention
CASES: dict[str, Case] = {
    "FA1 16x512x64": Case(lambda: flash1_problem(_HEAD), 2.0),
    "FA2 16x512x64": Case(lambda: flash2_problem(_HEAD), 2.0),
    "FA2 causal": Case(lambda: flash2_problem(replace(_HEAD, causal=True)), 2.0),
    "matmul 64x64x4096": Case(lambda: matmul_problem(64, 64, 4096), 3.0),
    "conv 96x128x363": Case(lambda: conv_problem(96, 128, 363), 3.0),
    "tile 128x2048x128": Case(lambda: tile_problem(_TILE), 10.0),
    "tile 128x2048x128 fingerprint": Case(lambda: tile_problem(_TILE), 1.5, Mode.FINGERPRINT, alone=True),
    "LN 4096 moments": Case(lambda: norm.layer_norm_problem(norm.moments, 4096), 1.0),
    "LN 4096 Welford": Case(lambda: norm.layer_norm_problem(norm.welford, 4096), 1.0),
    "LN 4096 Chan": Case(lambda: norm.layer_norm_problem(norm.chan, 4096), 1.0),
}


@dataclass(frozen=True)
class Figures:
    """What one run took. ``element_s`` is the CPU time for the first output alone."""

    proved: bool
    reason: str
    outputs: int
    terms: int
    build_s: float
    decide_s: float
    wall_s: float
    peak_mib: float
    element_s: float


def measured(case: Case) -> Figures:
    """Build and decide, all outputs, then the first one alone."""
    clock = time.process_time()
    p = case.make()
    build_s = time.process_time() - clock
    budget = Budget(seconds=_LIMIT_S)
    clock, wall = time.process_time(), time.perf_counter()
    verdict = decide(p.arena, p.reference, p.candidate, budget=budget, mode=case.mode)
    decide_s, wall_s = time.process_time() - clock, time.perf_counter() - wall
    peak = peak_mib()
    clock = time.process_time()
    one = first_output(p)
    decide(one.arena, one.reference, one.candidate, budget=budget, mode=case.mode)
    element_s = time.process_time() - clock
    proved = verdict.status is Status.PROVED
    return Figures(proved, verdict.reason, p.outputs, len(p.arena), build_s, decide_s, wall_s, peak, element_s)


def first_output(p: Problem) -> Problem:
    """The problem of the first output element alone, over the same terms."""
    sides = ({"out": Footprint(np.zeros(1, np.int64), side["out"].ids[:1])} for side in (p.reference, p.candidate))
    return Problem(p.arena, *sides)


if __name__ == "__main__":
    print(json.dumps(asdict(measured(CASES[sys.argv[1]]))))
