"""How deciding grows: CPU seconds over the length of sums, over keys and over outputs, and the exponents fitted to them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from ptx_engine.decide.driver import Budget, decide
from ptx_engine.verdict import Status
from volta_pass.cli.bench_decide_attention import Shape, flash2_problem
from volta_pass.cli.bench_decide_emit import Problem
from volta_pass.cli.bench_decide_norm import layer_norm_problem, welford
from volta_pass.cli.bench_decide_products import matmul_problem


@dataclass(frozen=True)
class Series:
    """Problems of one kind by their size."""

    size_name: str
    sizes: tuple[int, ...]
    make: Callable[[int], Problem]


SERIES: dict[str, Series] = {
    "matmul 64x64": Series("K", (1024, 2048, 4096), lambda k: matmul_problem(64, 64, k)),
    "FA2 16 rows": Series("N", (512, 1024, 2048), lambda n: flash2_problem(Shape(16, n, 64, 128))),
    "LN Welford": Series("N", (1024, 2048, 4096), lambda n: layer_norm_problem(welford, n)),
    "matmul K=512": Series("outputs", (4096, 16384, 65536), lambda n: matmul_problem(n // 64, 64, 512)),
}


def seconds(series: Series) -> list[float]:
    """CPU seconds of each size, the better of two runs. Raises AssertionError for what is not proved."""
    found = []
    for size in series.sizes:
        p = series.make(size)
        runs = []
        for _ in range(2):
            clock = time.process_time()
            verdict = decide(p.arena, p.reference, p.candidate, budget=Budget(seconds=300.0))
            runs.append(time.process_time() - clock)
            assert verdict.status is Status.PROVED, verdict.reason
        found.append(min(runs))
    return found


if __name__ == "__main__":
    print(json.dumps({name: seconds(series) for name, series in SERIES.items()}))
