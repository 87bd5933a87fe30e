"""Outputs of one form whose operands come in an order of their own (lanes of a butterfly) are proved class by class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptx_engine.decide.templates import Outcome, ProofBudget, prove_columns
from ptx_engine.terms.arena import Arena


def butterfly_sums(wrong: bool) -> list[Outcome]:
    """Lane i of four: ``max`` and sum of x0..x3 in the order i, i^1, i^2, i^3, against the order 0, 1, 2, 3."""
    arena = Arena()
    x = arena.add_input("x", 4, "f32")
    lanes = np.arange(4)

    def over(op: Callable[[Any, Any], Any], columns: list[np.ndarray]) -> np.ndarray:
        total = np.asarray(columns[0])
        for column in columns[1:]:
            total = np.asarray(op(total, column))
        return total

    own = [np.asarray(x.ids(lanes ^ step)) for step in range(4)]
    if wrong:
        own[3] = own[2]
    fixed = [np.asarray(x.ids(np.full(4, k))) for k in range(4)]
    reference = np.asarray(arena.add(over(arena.maximum, fixed), over(arena.add, fixed)))
    candidate = np.asarray(arena.add(over(arena.maximum, own), over(arena.add, own)))
    results = prove_columns(arena, reference, candidate, ProofBudget())
    assert sorted(int(m) for result in results for m in result.members) == [0, 1, 2, 3]
    return [result.outcome for result in results]


def test_the_order_of_lanes_does_not_matter() -> None:
    assert set(butterfly_sums(wrong=False)) == {Outcome.EQUAL}


def test_a_lane_left_out_does() -> None:
    assert Outcome.EQUAL not in butterfly_sums(wrong=True)
