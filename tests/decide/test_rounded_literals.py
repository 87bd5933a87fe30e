"""Literals that people and compilers write for irrational constants: rounded to f32 they are the constant, or a near miss that says which
value is rounded; wrong in the sixth digit they are refuted."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from gmpy2 import mpq

from ptx_engine.decide import CONSTANTS_WITHIN_1_ULP, decide
from ptx_engine.terms import Arena, Const, Expr, Vector, symbols
from ptx_engine.terms.constants import _BASES, _MULTIPLES, from_float, ulp_of
from ptx_engine.terms.expr import cos, erf, exp, exp2, log, log2, maximum, sin, sqrt, tanh, total
from ptx_engine.terms.formulas import wrap
from ptx_engine.verdict import Status, Verdict


class Literals:
    """An input, and literals of f32 that are off by a factor."""

    def __init__(self, factor: float) -> None:
        x = symbols("x")
        assert isinstance(x, Expr)
        self.x, self.factor = x, factor
        self.ten, self.two = x * 0 + 10, x * 0 + 2
        self.pi = Expr(x.arena, x.arena.const(Const(mpq(1), pi=1)))
        self.cubic = x + self.right(0.044715) * x * x * x

    def right(self, value: float) -> Expr:
        (bits,) = struct.unpack("<I", struct.pack("<f", np.float32(value)))
        return Expr(self.x.arena, self.x.arena.float_bits(bits, "f32"))

    def __call__(self, value: float) -> Expr:
        """The literal that is right for a factor of one."""
        return self.right(value * self.factor)


def gelu(n: Literals) -> Expr:
    return n.x * (1 + tanh(sqrt(2 / n.pi) * n.cubic)) / 2


Case = Callable[[Literals], "tuple[Expr, Expr]"]
P, U = Status.PROVED, Status.UNKNOWN
#: reference, and candidate with a literal; what comes of the right one
CASES: dict[str, tuple[Case, Status]] = {
    "log10 by log2": (lambda n: (log2(n.x) / log2(n.ten), log2(n.x) * n(0.30103)), P),
    "log10 by ln": (lambda n: (log2(n.x) / log2(n.ten), log(n.x) * n(0.4342944819)), P),
    "log10 by ln, divided": (lambda n: (log2(n.x) / log2(n.ten), log(n.x) / n(2.302585093)), P),
    "exp10 by exp2": (lambda n: (exp2(n.x * log2(n.ten)), exp2(n.x * n(3.321928095))), P),
    "exp10 by exp": (lambda n: (exp2(n.x * log2(n.ten)), exp(n.x * n(2.302585093))), P),
    "exp10 of a shifted argument": (lambda n: (10 * exp2(n.x * log2(n.ten)), exp2((n.x + 1) * n(3.321928095))), P),
    "decibels": (lambda n: (20 * log2(n.x) / log2(n.ten), log2(n.x) * n(6.020599913)), U),
    "rope's frequencies": (lambda n: (exp(-n.x * log(n.ten * 1000) / 32), exp2(-n.x * n(13.28771238) / 32)), P),
    "log2 by ln": (lambda n: (log2(n.x), log(n.x) * n(1.442695041)), P),
    "ln by log2": (lambda n: (log(n.x), log2(n.x) * n(0.69314718)), P),
    "softplus": (lambda n: (log(1 + exp(n.x)), log2(1 + exp2(n.x * n.right(1.442695041))) * n(0.69314718)), P),
    "silu": (lambda n: (n.x / (1 + exp(-n.x)), n.x / (1 + exp2(n.x * n(-1.442695041)))), P),
    "tanh": (lambda n: (tanh(n.x), 1 - 2 / (1 + exp2(n.x * n(2.885390082)))), P),
    "gelu by erf": (lambda n: (n.x * (1 + erf(n.x / sqrt(n.two))) / 2, n.x * (1 + erf(n.x * n(0.70710678))) / 2), P),
    "gelu by tanh": (lambda n: (gelu(n), n.x * (1 + tanh(n(0.7978845608) * n.cubic)) / 2), U),
    "gelu by exp": (lambda n: (gelu(n), n.x / (1 + exp(n(-1.5957691216) * n.cubic))), U),
    "gelu by exp2": (lambda n: (gelu(n), n.x / (1 + exp2(n(-2.302208198) * n.cubic))), U),
    "gelu with its factor multiplied in": (
        lambda n: (gelu(n), n.x * (1 + tanh(n.right(0.7978845608) * n.x + n(0.0356774081) * n.x * n.x * n.x)) / 2), U),
    "normal density": (lambda n: (exp(-n.x * n.x / 2) / sqrt(2 * n.pi), exp(-n.x * n.x / 2) * n(0.3989422804)), U),
    "derivative of erf": (lambda n: (2 * exp(-n.x * n.x) / sqrt(n.pi), exp(-n.x * n.x) * n(1.128379167)), U),
    "sine of half turns": (lambda n: (sin(n.pi * n.x), sin(n(3.14159265) * n.x)), P),
    "cosine of turns": (lambda n: (cos(2 * n.pi * n.x), cos(n(6.283185307) * n.x)), P),
    "a third": (lambda n: (n.x / 3, n.x * n(0.3333333333)), U),
    "scale of 80 dimensions": (lambda n: (n.x / sqrt(n.x * 0 + 80), n.x * n(0.1118033989)), U),
}  # fmt: skip


def verdict_of(case: Case, factor: float = 1.0, swapped: bool = False) -> Verdict:
    sides = case(Literals(factor))
    return decide(*(sides[::-1] if swapped else sides))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("swapped", [False, True], ids=["", "swapped"])
def test_the_rounded_literal_is_no_difference(name: str, swapped: bool) -> None:
    case, status = CASES[name]
    verdict = verdict_of(case, swapped=swapped)
    assert verdict.status is status, verdict.reason
    if status is U:
        assert "equal except for" in verdict.reason and "relative" in verdict.reason


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("factor", [1 + 4e-6, 1 - 4e-6, 1.001, -1])
def test_a_wrong_literal_is_refuted(name: str, factor: float) -> None:
    verdict = verdict_of(CASES[name][0], factor)
    even = factor == -1 and name == "cosine of turns"
    assert verdict.status is (P if even else Status.REFUTED), verdict.reason


@pytest.mark.parametrize("name", [name for name, (_, status) in CASES.items() if status is U])
def test_both_values_are_named(name: str) -> None:
    """The literal as it is, and what it is a rounding of; so much is checked here that the one is the f32 nearest to the other."""
    reason = verdict_of(CASES[name][0]).reason
    words = [float(word.strip(",()")) for word in reason.replace(";", " ").split() if word.strip(",()-").replace(".", "").isdigit()]
    values = [v for v in words if v not in (0.0, 1.0) and v != int(v)]
    assert len(values) == 2 and 0 < abs(values[0] - values[1]) <= ulp_of(values[0], "f32")


def test_a_literal_of_f64_is_rounded_too() -> None:
    n = Literals(1)
    for literal, status in ((math.pi / 2, U), (1.5707964, U), (1.57080, Status.REFUTED)):
        verdict = decide(cos(n.x), sin(n.x + literal))
        assert verdict.status is status, verdict.reason
        assert status is not U or "rounds 1.570796326" in verdict.reason


def test_several_literals_are_rounded_together() -> None:
    """Neither of the two alone makes the sides equal."""

    def sides(first: float, second: float) -> tuple[Expr, Expr]:
        n = Literals(1)
        inner = exp2(n.right(first) * n.x + n.right(second) * n.x * n.x * n.x)
        return n.x - n.x / (1 + exp(2 * sqrt(2 / n.pi) * n.cubic)), n.x - n.x / (1 + inner)

    exact = 2 * math.sqrt(2 / math.pi) / math.log(2)
    verdict = decide(*sides(exact, exact * float(np.float32(0.044715))))
    assert verdict.status is U and "equal except for rounded constants" in verdict.reason
    for wrong in ((exact * 1.00001, 0.044715 * exact), (exact, 0.044716 * exact), (exact, 0.044715)):
        assert decide(*sides(*wrong)).status is Status.REFUTED


def test_a_literal_in_a_long_row_is_found() -> None:
    """The scale of a softmax whose logarithm of base two is folded with a root."""

    def softmax(scores: Vector, power: Callable[[Vector], Vector]) -> Vector:
        e = power(scores - maximum(scores))
        return e / total(e)

    for factor, status in ((1, U), (1.00001, Status.REFUTED)):
        x = symbols("x:24")
        assert isinstance(x, Vector)
        n = Literals(factor)
        n.x = x[0]
        scale = n(1 / math.sqrt(80) / math.log(2))
        verdict = decide(softmax(x / sqrt(x[0] * 0 + 80), exp), softmax(x * scale, exp2))
        assert verdict.status is status and ("0.161298" in verdict.reason) == (status is U)


def test_short_constants_and_those_of_integers_round_nothing() -> None:
    n = Literals(1)
    assert decide(n.x * sqrt(n.two) / 2, n.x * n(0.70710678)).status is P
    arena = Arena()
    i, x = symbols("i", arena, "s32"), symbols("x", arena)
    assert isinstance(i, Expr) and isinstance(x, Expr)
    assert decide(i * 123_457_000, i * 123_457_001).status is Status.REFUTED
    root = sqrt(x * 0 + 123_457_000**2 * 3) / sqrt(x * 0 + 3)
    assert decide(x * root, x * 123_457_001).status is U
    assert decide(wrap(i * 123_457_000, 64), wrap(i * 123_457_001, 64)).status is Status.REFUTED


# --- the recognised constants -------------------------------------------------------------------


def test_no_two_recognised_constants_are_near_each_other() -> None:
    values = sorted(abs(float(m)) * base for _, base, _ in _BASES for m in _MULTIPLES if m > 0)
    assert min(y / x for x, y in pairwise(values)) > 1.001


@pytest.mark.parametrize(
    ("value", "power"), [(math.log2(10), (0, 1)), (math.log10(2), (0, -1)), (math.log(10), (-1, 1)), (math.log10(math.e), (1, -1))]
)
def test_constants_of_base_ten(value: float, power: tuple[int, int]) -> None:
    for multiple in (1.0, -0.5, 3.0):
        literal = float(np.float32(multiple * value))
        const, name = from_float(literal, ulp_of(literal, "f32"))
        assert (const.log2e, const.log2ten) == power and const.coef == mpq(multiple) and name
        assert abs(float(const.value()) - multiple * value) < 1e-15 * abs(multiple * value)
        for off in (1 + 1e-6, 1 - 1e-6):
            literal = float(np.float32(multiple * value * off))
            assert from_float(literal, ulp_of(literal, "f32"))[0].is_rational


def test_a_logarithm_of_ten_is_one_constant_however_it_is_written() -> None:
    n = Literals(1)
    five, half = n.x * 0 + 5, n.x * 0 + Fraction(1, 10)
    positive = n.x * n.x + 1
    for left, right in (
        (log2(n.ten), 1 + log2(five)), (log2(half), -log2(n.ten)), (log2(10 * positive), log2(positive) + log2(n.ten)),
        (exp2(3 * log2(five)), five * 25), (exp2(log2(n.ten) / 2), sqrt(n.two) * sqrt(five)), (exp2(-log2(n.ten)), half),
        (log2(n.ten) * log2(n.ten), (log2(five) + 1) * (1 + log2(five))), (1 / (1 + log2(five)), 1 / log2(n.ten)),
    ):  # fmt: skip
        assert decide(n.x * left, n.x * right).status is P
        assert decide(n.x * left, n.x * right * Fraction(1001, 1000)).status is Status.REFUTED


def test_the_assumption_does_not_reach_literals() -> None:
    """Constants of the other side are unified on request; what a literal rounds by itself is only told."""
    case, _ = CASES["scale of 80 dimensions"]
    sides = case(Literals(1))
    verdict = decide(*sides, assumptions=frozenset({CONSTANTS_WITHIN_1_ULP}))
    assert verdict.status is U and CONSTANTS_WITHIN_1_ULP not in verdict.reason
