"""The checker, told of one random schedule, finds exactly the pairs that an enumeration of all schedules finds."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from order_driver import Stuck, check, misused, pairs
from order_explorer import TooBig, explore
from order_programs import Program, programs

LENIENT = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def agree(program: Program, seed: int) -> None:
    try:
        answer = explore(program)
    except TooBig:
        assume(False)
        raise
    try:
        found = check(program, seed)
    except Stuck:
        assert answer.blocked, "the explorer found no deadlock"
        return
    assert misused(found) == answer.broken
    if not answer.broken:
        assert pairs(found) == answer.pairs


@settings(max_examples=500, deadline=None, suppress_health_check=LENIENT)
@given(programs(), st.integers(0, 1 << 16))
def test_agrees_with_all_schedules(program: Program, seed: int) -> None:
    agree(program, seed)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=20_000, deadline=None, suppress_health_check=LENIENT)
@given(programs(items=6), st.integers(0, 1 << 16))
def test_agrees_with_all_schedules_of_larger_programs(program: Program, seed: int) -> None:
    agree(program, seed)
