"""cos^2 = 1 - sin^2, in sums, products, denominators and arguments; roots of integers by their primes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gmpy2 import mpq

from ptx_engine.decide import decide
from ptx_engine.terms import Const, Expr, symbols
from ptx_engine.terms.formulas import cos, exp, log, maximum, sin, sqrt, where
from ptx_engine.verdict import Status

Case = Callable[[Expr, Expr, Expr], "tuple[Expr, Expr]"]


def square(x: Expr) -> Expr:
    return x * x


def turns(x: Expr, numerator: int, denominator: int) -> Expr:
    """A fraction of pi."""
    return Expr(x.arena, x.arena.const(Const(mpq(numerator, denominator), pi=1)))


def root(x: Expr, value: int) -> Expr:
    return sqrt(x * 0 + value)


#: equal sides; the candidate with sine and cosine exchanged, or another number, is the twin
EQUAL: dict[str, Case] = {
    "one": lambda x, y, z: (y, y * (square(sin(x)) + square(cos(x)))),
    "cosine squared": lambda x, y, z: (square(cos(x)), 1 - square(sin(x))),
    "of a negated argument": lambda x, y, z: (square(cos(x - y)) + square(sin(y - x)), 1 + 0 * x),
    "fourth powers": lambda x, y, z: (square(square(cos(x))), 1 - 2 * square(sin(x)) + square(square(sin(x)))),
    "a third power": lambda x, y, z: (square(cos(x)) * cos(x), cos(x) - cos(x) * square(sin(x))),
    "length of a rotated pair": lambda x, y, z: (
        square(x) + square(y), square(x * cos(z) - y * sin(z)) + square(x * sin(z) + y * cos(z))),
    "scores of rotated pairs": lambda x, y, z: (
        x * y, x * cos(z) * y * cos(z) + x * sin(z) * y * sin(z)),
    "in a denominator": lambda x, y, z: (y / (2 - square(sin(x))), y / (1 + square(cos(x)))),
    "in an exponent": lambda x, y, z: (exp(square(cos(x))), exp(1 - square(sin(x)))),
    "in a logarithm": lambda x, y, z: (log(1 + square(cos(x))), log(2 - square(sin(x)))),
    "in a maximum": lambda x, y, z: (maximum(square(cos(x)), y), maximum(y, 1 - square(sin(x)))),
    "in a condition": lambda x, y, z: (where(square(cos(x)) < y, x, z), where(1 - y < square(sin(x)), x, z)),
    "cosines that divide": lambda x, y, z: (y / cos(x), y * cos(x) / square(cos(x))),
    "a quarter turn": lambda x, y, z: (cos(x), sin(x + turns(x, 1, 2))),
    "quarter turns": lambda x, y, z: (sin(turns(x, 3, 2) - x) + cos(x + turns(x, -1, 1)), -2 * cos(x)),
    "a half turn": lambda x, y, z: (sin(x * turns(x, 1, 1) + turns(x, 1, 1)), -sin(turns(x, 1, 1) * x)),
    "whole turns": lambda x, y, z: (sin(x - turns(x, 4, 1)) * y, y * sin(x)),
    "root of six": lambda x, y, z: (x * root(x, 6), root(x, 3) * x * root(x, 2)),
    "root of a multiple of six": lambda x, y, z: (sqrt(6 * (x * x + 1)), root(x, 3) * sqrt(2 * (1 + x * x))),
    "root of a quotient": lambda x, y, z: (x * root(x, 15) / root(x, 10), x * sqrt((x * 0 + 3) / 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", EQUAL)
@pytest.mark.parametrize("swapped", [False, True])
def test_equal(name: str, swapped: bool) -> None:
    x, y, z = symbols("x y z")  # type: ignore[misc]
    sides = EQUAL[name](x, y, z)
    verdict = decide(*(sides[::-1] if swapped else sides))
    assert verdict.status is Status.PROVED, verdict.reason


DIFFERENT: dict[str, Case] = {
    "a quarter turn back": lambda x, y, z: (cos(x), sin(x - turns(x, 1, 2))),
    "a third of a turn": lambda x, y, z: (cos(x), sin(x + turns(x, 2, 3))),
    "a turn too little": lambda x, y, z: (sin(x - turns(x, 3, 1)) * y, y * sin(x)),
    "turns of the square": lambda x, y, z: (cos(x), sin(x + turns(x, 1, 2) * turns(x, 1, 2))),
    "of two arguments": lambda x, y, z: (y, y * (square(sin(x)) + square(cos(z)))),
    "with the wrong sign": lambda x, y, z: (square(cos(x)), 1 + square(sin(x))),
    "of a sine squared": lambda x, y, z: (square(cos(x)), square(sin(x)) - 1),
    "a third power": lambda x, y, z: (square(cos(x)) * cos(x), sin(x) - sin(x) * square(sin(x))),
    "length of a pair turned wrongly": lambda x, y, z: (
        square(x) + square(y), square(x * cos(z) + y * sin(z)) + square(x * sin(z) + y * cos(z))),
    "first powers": lambda x, y, z: (1 + 0 * x, sin(x) + cos(x)),
    "in a denominator": lambda x, y, z: (y / (2 + square(sin(x))), y / (1 + square(cos(x)))),
    "in a condition": lambda x, y, z: (where(square(cos(x)) < y, x, z), where(y < square(sin(x)), x, z)),
    "root of seven": lambda x, y, z: (x * root(x, 7), root(x, 3) * x * root(x, 2)),
    "root of a multiple": lambda x, y, z: (sqrt(6 * (x * x + 1)), root(x, 5) * sqrt(2 * (1 + x * x))),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_different(name: str) -> None:
    x, y, z = symbols("x y z")  # type: ignore[misc]
    assert decide(*DIFFERENT[name](x, y, z)).status is Status.REFUTED
