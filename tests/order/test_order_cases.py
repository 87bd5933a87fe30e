"""Named cases: the checker in several schedules, and the explorer over all of them, give the verdict that the ISA's rules give."""

from __future__ import annotations

import pytest
from order_cases import CASES, MISUSED
from order_driver import Stuck, check, misused, pairs
from order_explorer import explore


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    program, races = CASES[name]
    answer = explore(program)
    assert answer.broken == (name in MISUSED)
    assert bool(answer.pairs) == races
    for seed in range(6):
        try:
            found = check(program, seed)
        except Stuck:
            assert answer.blocked
            continue
        assert misused(found) == answer.broken
        assert pairs(found) == answer.pairs
