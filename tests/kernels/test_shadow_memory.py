"""What order checking keeps about shared memory: at most 64 bytes for each of its bytes, of every CTA of the batch, on compiled kernels."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass

import numpy as np
import pytest
from compiled_kernels import Case, Configuration, compiled_job, flash_attention, matmul

from ptx_engine.launch import bind
from ptx_engine.machine import execute
from ptx_engine.order.records import Batch
from ptx_engine.order.shared import SharedLog
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena

BYTES_PER_BYTE = 64


@dataclass
class Worst:
    """The greatest share of the allowance that was used when an interval ended: what was held, and what its examination took."""

    share: float = 0.0
    intervals: int = 0

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        close = SharedLog.close

        def measured(log: SharedLog, seq: int, batch: Batch, slots: np.ndarray | None) -> None:
            held = log.held_bytes()
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            close(log, seq, batch, slots)
            taken = tracemalloc.get_traced_memory()[1] - before
            self.intervals += 1
            self.share = max(self.share, (held + taken) / (BYTES_PER_BYTE * log._stride * batch.slots))

        patch.setattr(SharedLog, "close", measured)


@pytest.mark.parametrize("case", [matmul(), flash_attention()], ids=lambda case: case.function)
def test_compiled_kernels_stay_within_the_bound(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    job = compiled_job(case, Configuration())
    worst = Worst()
    worst.watch(monkeypatch)
    tracemalloc.start()
    try:
        execution = execute(parse(job.ptx), None, bind(job.launch, Arena()))
    finally:
        tracemalloc.stop()
    assert execution.findings == [] and worst.intervals > 3
    assert 0 < worst.share < 1
