"""What the checker keeps about shared memory stays bounded, whatever the program: 64 bytes for each byte of every CTA that runs."""

from __future__ import annotations

import numpy as np
import pytest

from ptx_engine.launch import Launch, bind
from ptx_engine.order import OrderChecker, Space
from ptx_engine.terms import Arena

BYTES_PER_BYTE = 64


@pytest.mark.parametrize("size", [1024, 4096, 65536])
def test_an_interval_that_no_barrier_ends_is_thinned_out_in_time(size: int) -> None:
    """Reads and writes of the same bytes again and again: what is held stays within the bound all the time. Of a small tile too."""
    bound = bind(Launch((4, 1, 1), (256, 1, 1), ()), Arena())
    checker = OrderChecker(bound.launch, size, bound.buffers)
    checker.begin_batch(np.arange(4, dtype=np.int32))
    threads = np.arange(1024, dtype=np.int32)
    most = 0
    for turn in range(600):
        own = threads % 256 * 4 + turn * 1024 % size
        checker.write(Space.SHARED, 1, threads, own.astype(np.int64), 4, threads + turn)
        checker.read(Space.SHARED, 2, threads, own.astype(np.int64), 4)
        most = max(most, checker.shared_bytes_held)
    assert most <= BYTES_PER_BYTE * size * 4
    checker.end_batch()
    assert checker.finish() == [] and checker.shared_accesses_held == 0


def test_what_is_left_out_is_repeated_by_the_same_instruction() -> None:
    """Another instruction that stores to the same bytes later is a finding of its own, and does not stand for the first."""
    bound = bind(Launch((1, 1, 1), (64, 1, 1), ()), Arena())
    checker = OrderChecker(bound.launch, 1024, bound.buffers)
    checker.begin_batch(np.zeros(1, np.int32))
    first, second = np.arange(32, dtype=np.int32), np.arange(32, 64, dtype=np.int32)
    for instruction in (1, 2):
        for _ in range(2000):
            checker.write(Space.SHARED, instruction, first, first.astype(np.int64) * 4, 4)
    checker.read(Space.SHARED, 3, second, first.astype(np.int64) * 4, 4)
    assert checker.shared_accesses_held < 4000
    checker.end_batch()
    assert [[site.instruction for site in finding.sites] for finding in checker.finish()] == [[1, 3], [2, 3]]


@pytest.mark.parametrize("turns", [10, 2000])
def test_a_count_says_where_it_is_a_least_one(turns: int) -> None:
    bound = bind(Launch((1, 1, 1), (64, 1, 1), ()), Arena())
    checker = OrderChecker(bound.launch, 1024, bound.buffers)
    checker.begin_batch(np.zeros(1, np.int32))
    first, second = np.arange(32, dtype=np.int32), np.arange(32, 64, dtype=np.int32)
    for _ in range(turns):
        checker.write(Space.SHARED, 1, first, first.astype(np.int64) * 4, 4)
    checker.read(Space.SHARED, 2, second, first.astype(np.int64) * 4, 4)
    checker.end_batch()
    (finding,) = checker.finish()
    assert finding.count == 32 * turns if turns == 10 else finding.count < 32 * turns
    assert finding.details.get("counted", "") == ("" if turns == 10 else "at least")
