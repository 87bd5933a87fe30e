"""Named cases: the checker in several schedules, and the explorer over all of them, give the verdict that the ISA's rules give."""

from __future__ import annotations

import pytest
from order_cases import CASES
from order_driver import check, pairs
from order_explorer import explore


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    program, races = CASES[name]
    answer = explore(program)
    assert not answer.blocked
    assert not answer.varies
    assert bool(answer.pairs) == races
    for seed in range(6):
        assert pairs(check(program, seed)) == answer.pairs
