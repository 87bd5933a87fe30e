"""A candidate that divides by what may vanish on whole intervals, or by integers, where the reference does not: never proved.

x / x for 1 is taken with its domain stated: real analytic functions vanish on sets without interior. A maximum, a condition, a
rounded value or an integer does not.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from ptx_engine.decide import decide
from ptx_engine.terms import Arena, symbols
from ptx_engine.terms.expr import Expr, exp, floor, maximum, minimum, relu, sin, sqrt, where
from ptx_engine.terms.formulas import clamp, equal, field, negation, quotient, remainder
from ptx_engine.verdict import Status

X, Y = symbols("x y")
N, U = symbols("n", X.arena, "s8"), symbols("u", X.arena, "u8")
STEP = where(X > 0, Fraction(1), Fraction(0))

#: zero on an interval, or at an integer
PIECEWISE = {
    "relu": relu(X),
    "condition": STEP,
    "floor": floor(X),
    "size less value": abs(X) - X,
    "maximum less argument": maximum(X, Y) - X,
    "minimum": minimum(X * X, 0 * X + relu(Y)),
    "clamp": 1 - clamp(X, 0, 1),
    "selected exponential": where(X < Y, exp(X), Fraction(0)),
    "sum of relus": relu(X) + relu(Y),
    "power of relu": relu(X) ** 3,
    "sine of floor": sin(floor(X)),
    "integer": N,
    "integer plus one": U - 1,
    "field": field(N, 2, 2),
}
#: zero at isolated points, or nowhere
ANALYTIC = {
    "variable": X,
    "sum": X + Y,
    "product": X * (Y + 1),
    "sine": sin(X) - exp(Y),
    "square": X * X + Y * Y,
    "exponential of relu": exp(relu(X)),
    "relu above one": relu(X) + 1,
    "unsigned above one": U + 1,
}


def _status(reference: Expr, candidate: Expr) -> Status:
    return decide(reference, candidate).status


@pytest.mark.parametrize("name", PIECEWISE)
def test_dividing_by_what_vanishes_on_an_interval_is_not_proved(name: str) -> None:
    d = PIECEWISE[name]
    for candidate in (Y * d / d, (Y / d) * d, Y + 1 / d - 1 / d, 1 / (1 / d) * (Y / d)):
        verdict = decide(Y, candidate)
        assert verdict.status is not Status.PROVED, candidate
        assert verdict.status is Status.REFUTED or "not zero" in verdict.reason


@pytest.mark.parametrize("name", PIECEWISE)
def test_a_reference_that_divides_by_it_too_is_proved(name: str) -> None:
    d = PIECEWISE[name]
    assert _status(Y / d, Y * (2 / d) / 2) is Status.PROVED
    assert _status(Y / d * d, Y * d / d) is Status.PROVED


@pytest.mark.parametrize("name", ANALYTIC)
def test_isolated_points_are_stated(name: str) -> None:
    d = ANALYTIC[name]
    assert _status(Y, Y * d / d) is Status.PROVED
    assert _status(Y, Y * d / (d + d)) is Status.REFUTED


def test_integer_division_by_an_integer_that_may_be_zero() -> None:
    for wrong in (quotient(N, N), quotient(U, U), 1 + remainder(N, N), 1 + quotient(N, U) - quotient(N, U)):
        assert _status(Y, Y * wrong) is not Status.PROVED
    assert _status(Y * quotient(N, U), Y * quotient(N, U)) is Status.PROVED
    assert _status(Y, Y + remainder(N, N * 0 + 7) - remainder(N, N * 0 + 7)) is Status.PROVED


def test_a_zero_by_an_integer_that_may_be_zero() -> None:
    """0 / n vanishes as it is made; n is zero at one value out of few, which chance does not find."""
    may_be: tuple[Callable[[Expr, Expr], Expr], ...] = (lambda n, u: n, lambda n, u: u, lambda n, u: n + 5 - 5, lambda n, u: n * u)
    for made, proved in (*((f, False) for f in may_be), (lambda n, u: u + 1, True), (lambda n, u: n * n + 1, True)):
        arena = Arena()  # (of its own: what has vanished in one stays with it)
        y, n, u = (symbols(name, arena, fmt) for name, fmt in (("y", "f32"), ("n", "s32"), ("u", "u8")))
        assert isinstance(y, Expr) and isinstance(n, Expr) and isinstance(u, Expr)
        verdict = decide(y, y + 0 / made(n, u))
        assert verdict.status is (Status.PROVED if proved else Status.UNKNOWN)
        assert proved or "something that vanished" in verdict.reason


def test_a_guard_that_compares_with_zero_is_enough() -> None:
    d = relu(X)
    for guard in (d > 0, negation(equal(d, 0))):
        assert _status(Y, where(guard, Y * d / d, Y)) is Status.PROVED
    for guard in (d > -1, Y > 0, equal(d, 0)):
        assert _status(Y, where(guard, Y * d / d, Y)) is not Status.PROVED


def test_a_root_of_it_below_a_quotient() -> None:
    assert _status(Y, Y * sqrt(relu(X)) / sqrt(relu(X))) is not Status.PROVED
    assert _status(Y, Y * sqrt(relu(X) + 1) / sqrt(relu(X) + 1)) is Status.PROVED
