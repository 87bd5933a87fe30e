"""Functions of a device library are approximated to the precision of f32: that is no refutation; a cruder one is."""

from __future__ import annotations

import pytest

from ptx_engine.decide import decide
from ptx_engine.terms import Expr, symbols
from ptx_engine.terms.expr import exp, tanh, where
from ptx_engine.verdict import Status


def library_tanh(x: Expr, third: float) -> Expr:
    """Near zero a polynomial, elsewhere through the exponential, as CUDA's tanhf; ``third`` is 3 in it."""
    square = x * x
    near = x * (1 + square * (-1 / third + square * (2 / 15 + square * (-17 / 315 + square * 62 / 2835))))
    far = 1 - 2 / (exp(2 * x) + 1)
    return where(square < 0.0625, near, far)


@pytest.mark.parametrize(("third", "status"), [(3, Status.UNKNOWN), (3.001, Status.REFUTED)])
def test_a_polynomial_in_place_of_a_function(third: float, status: Status) -> None:
    x = symbols("x")
    assert isinstance(x, Expr)
    verdict = decide([tanh(x)], [library_tanh(x, third)])
    assert verdict.status is status
    assert ("approximates a function" in verdict.reason) == (status is Status.UNKNOWN)


def test_a_small_difference_between_the_same_functions_is_still_one() -> None:
    x = symbols("x")
    assert isinstance(x, Expr)
    assert decide([x * x], [x * x + x / 16777216]).status is Status.REFUTED
