"""The sweep of 200 matmul configurations by one process and by two: how much of the second one arrives."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ptx_engine.errors import InternalError
from volta_pass.check import CheckOptions
from volta_pass.configs_folder import configs_folder
from volta_pass.parallel.many import Outcome, Runner, check_outcomes
from volta_pass.spec import Spec, read_sweep

#: specs under configs/sweep; together 200 configurations
SWEEPS = ("matmul", "matmul_no_k_mask")
#: of the 2 that two processes could gain
RATIO_TARGET = 1.7
_OPTIONS = CheckOptions(allow_code=True)

Points = Sequence[tuple[Spec, Mapping[str, Any]]]


def measure(points: Points | None = None) -> Iterator[tuple[str, float, str, float | None]]:
    """Name, figure, unit and target of each row; the ratio should be at least its target, the others have none."""
    if points is None:
        points = [point for name in SWEEPS for point in read_sweep(configs_folder() / "sweep" / f"{name}.toml")]
    one_s, alone = _timed(points, 1)
    two_s, together = _timed(points, 2)
    if [o.report.verdict for o in alone] != [o.report.verdict for o in together]:
        raise InternalError("two processes say something else than one")
    yield f"{len(points)} configurations, 1 process", one_s, "s", None
    yield f"{len(points)} configurations, 2 processes", two_s, "s", None
    yield "gain of the second process", one_s / two_s, "times", RATIO_TARGET


def _timed(points: Points, workers: int) -> tuple[float, list[Outcome]]:
    start = time.perf_counter()
    outcomes = check_outcomes(list(points), _OPTIONS, Runner(workers))
    return time.perf_counter() - start, outcomes
