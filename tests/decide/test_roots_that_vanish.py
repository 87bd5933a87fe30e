"""What is shown of a value with roots holds where the roots have a value: sqrt(x)^2 + 1 is positive, x + 1 is not.

Facts of one output, or of one branch, once leaked to another: equal forms share what is known of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ptx_engine.decide import decide
from ptx_engine.decide.templates import Outcome, ProofBudget, prove_columns
from ptx_engine.terms import Expr, symbols
from ptx_engine.terms.formulas import log, relu, rsqrt, sqrt, where
from ptx_engine.verdict import Status

Sides = tuple[list[Expr], list[Expr]]
Case = Callable[[Expr, Expr, Expr], Sides]


def positive(x: Expr) -> Expr:
    """2 x + 2, in a spelling that is positive wherever it has a value."""
    return (sqrt(x) + 1) ** 2 + (sqrt(x) - 1) ** 2


#: the last pair of each is not equal everywhere, or narrower: the others are there to make something known
NARROWER: dict[str, Case] = {
    "a root of a square of a root": lambda x, y, z: ([3 * z], [sqrt(sqrt(z) * sqrt(z)) * sqrt(z) * 3]),
    "the fourth root of a square of a root": lambda x, y, z: ([y], [y + sqrt(sqrt(sqrt(z) * sqrt(z))) - sqrt(sqrt(sqrt(z) ** 2))]),
    "a logarithm of a square of a root, in a branch": lambda x, y, z: (
        [where(z > 0, log(rsqrt(x) * rsqrt(x)), y)], [where(z > 0, -log(x), y + log(x) - log(x))]),
    "a logarithm, known positive in another output": lambda x, y, z: (
        [log(positive(x)), y], [log(2 * x + 2), y + log(x + 1) - log(1 + x)]),
    "a root, known not to be negative in another output": lambda x, y, z: (
        [sqrt(positive(x)), y], [sqrt(2 * x + 2), y + sqrt(x + 1) - sqrt(1 + x)]),
    "a logarithm of a sum, known positive beside its denominator": lambda x, y, z: (
        [log(1 + relu(x) / relu(-x - y)), y],
        [log(relu(-x - y) + relu(x)) - log(relu(-x - y)), y + log(relu(x) + relu(-x - y)) - log(relu(x) + relu(-x - y))]),
}  # fmt: skip

DIFFERENT: dict[str, Case] = {
    "a root that is positive but at one point": lambda x, y, z: (
        [sqrt(positive(x + 12345)), where(sqrt(2 * x + 24692) > 0, y, z)], [sqrt(2 * x + 24692), y]),
    "a root that is zero where a denominator is": lambda x, y, z: (
        [where(z > 0, sqrt(1 / relu(x)), where(sqrt(relu(x)) > 0, y, z))], [where(z > 0, sqrt(1 / relu(x)), y)]),
    "a denominator of any sign": lambda x, y, z: (
        [1 / positive(x), sqrt(1 / ((1 + x) * (1 + x)))], [1 / (2 * x + 2), 1 / (1 + x)]),
}  # fmt: skip


def proved_alone(sides: Sides) -> list[bool]:
    """Which outputs the prover takes for equal, without the looks at numbers that the driver takes first."""
    ids = [np.array([term.id for term in side], np.int32) for side in sides]
    equal = np.zeros(len(ids[0]), bool)
    for result in prove_columns(sides[0][0].arena, ids[0], ids[1], ProofBudget(10)):
        equal[result.members] = result.outcome is Outcome.EQUAL and not result.narrower
    return list(equal)


@pytest.mark.parametrize("name", [*NARROWER, *DIFFERENT])
def test_what_is_known_of_one_value_is_not_said_of_another(name: str) -> None:
    x, y, z = symbols("x y z")  # type: ignore[misc]
    sides = {**NARROWER, **DIFFERENT}[name](x, y, z)
    assert not proved_alone(sides)[-1]
    assert decide(*sides).status is not Status.PROVED


#: and what is equal stays so
EQUAL: dict[str, Case] = {
    "a root of a square of a root": lambda x, y, z: ([3 * z * sqrt(z)], [sqrt(sqrt(z) * sqrt(z)) * sqrt(z) * sqrt(z) * 3]),
    "a root of a reciprocal": lambda x, y, z: ([sqrt(1 / (x * x + y * y + 1))], [1 / sqrt(1 + y * y + x * x)]),
    "a root by two passes and by moments": lambda x, y, z: (
        [1 / sqrt((x - y) ** 2 + 1), sqrt(1 / ((x - y) ** 2 + 1))], [1 / sqrt(x * x - 2 * x * y + y * y + 1), rsqrt((y - x) ** 2 + 1)]),
    "a logarithm of a sum of squares": lambda x, y, z: ([log((x - y) ** 2 + 1)], [log(x * x - 2 * x * y + y * y + 1)]),
    "a root of a root": lambda x, y, z: ([sqrt(sqrt(x)) * sqrt(sqrt(x))], [sqrt(x)]),
}  # fmt: skip


@pytest.mark.parametrize("name", EQUAL)
def test_what_is_equal_is_proved(name: str) -> None:
    x, y, z = symbols("x y z")  # type: ignore[misc]
    sides = EQUAL[name](x, y, z)
    verdict = decide(*sides)
    assert verdict.status is Status.PROVED, verdict.reason
    assert verdict.assumptions == ["real arithmetic"]


def test_a_domain_is_looked_at_on_both_sides_of_zero() -> None:
    """One input is drawn a few times only: some of them are negative, whatever it is called."""
    for name in "abcdefghijklmnopqrstuvwxyz":
        x = symbols(name)
        assert isinstance(x, Expr)
        for candidate in (sqrt(x) * sqrt(x), sqrt(-x) * sqrt(-x)):
            assert decide(x, candidate).status is not Status.PROVED
