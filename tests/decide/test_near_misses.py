"""Near misses are unknown, and the reason says what is missing: a rounding of a constant, or the sign of an argument."""

from __future__ import annotations

import struct
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from gmpy2 import mpq

from ptx_engine.decide import CONSTANTS_WITHIN_1_ULP, decide
from ptx_engine.terms import Arena, Expr, Op, Vector, symbols
from ptx_engine.terms.expr import exp, exp2, log, maximum, minimum, relu, sqrt, total, where
from ptx_engine.verdict import Status

UNIFIED = frozenset({CONSTANTS_WITHIN_1_ULP})
LOG2E_F32 = 1.4426950216293335


def f32(like: Expr, value: float) -> Expr:
    """The constant that the f32 nearest to a value is read as."""
    (bits,) = struct.unpack("<I", struct.pack("<f", np.float32(value)))
    return Expr(like.arena, like.arena.float_bits(bits, "f32"))


def softmax_of(scores: Vector, power: Callable[[Vector], Vector]) -> Vector:
    e = power(scores - maximum(scores))
    return e / total(e)


# --- signs --------------------------------------------------------------------------------------

Case = Callable[[Expr, Expr], "tuple[Expr, Expr]"]
POSITIVE: list[tuple[str, Case, str]] = [
    ("logarithm of a product", lambda x, y: (log(x * y), log(x) + log(y)), "equal where x is positive"),
    ("root of a product", lambda x, y: (sqrt(x * y), sqrt(x) * sqrt(y)), "equal where x is positive"),
    ("logarithm of a square", lambda x, y: (log(x * x) + y, y + 2 * log(x)), "equal where x is positive"),
    ("root of a quotient", lambda x, y: (sqrt(x / y), sqrt(x) / sqrt(y)), "equal where x is positive"),
    ("square of a root", lambda x, y: (x + y, sqrt(x) * sqrt(x) + y), "square roots of non-negative values, which the reference does not"),
    ("exponential of a logarithm", lambda x, y: (x * y, y * exp(log(x))), "logarithms of positive values, which the reference does not"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "said"), [row[1:] for row in POSITIVE], ids=[row[0] for row in POSITIVE])
def test_what_holds_for_positive_arguments_only(case: Case, said: str) -> None:
    x, y = symbols("x y")  # type: ignore[misc]
    verdict = decide(*case(x, y))
    assert verdict.status is Status.UNKNOWN and said in verdict.reason


#: what differs for some signs is refuted by a witness of such a sign, and the explanation says where it would be equal
SIGNS: list[tuple[str, Case, str]] = [
    ("size", lambda x, y: (x, abs(x)), "x"),
    ("root of a square", lambda x, y: (x * y, y * sqrt(x * x)), "x"),
    ("root of a square of a sum", lambda x, y: (x + y, sqrt((x + y) ** 2)), "y and x"),
    ("factor brought under a root", lambda x, y: (y * sqrt(x * x + 1), sqrt((x * x + 1) * y * y)), "y"),
    ("root by a partial radicand", lambda x, y: (y * sqrt(x), sqrt(x * y * y)), "y"),
    ("power of a power", lambda x, y: (x**3, (x * x) ** Fraction(3, 2)), "x"),
    ("relu under a scale", lambda x, y: (y * relu(x), relu(y * x)), "y"),
    ("maximum under a scale", lambda x, y: (y * maximum(x, 1 - x), maximum(y * x, y - y * x)), "y"),
    ("minimum under a quotient", lambda x, y: (minimum(x, 1) / y, minimum(x / y, 1 / y)), "y"),
    ("size under a scale", lambda x, y: (y * abs(x), abs(x * y)), "y"),
    ("comparison under a scale", lambda x, y: (where(x < 1, x, y), where(x * y < y, x, y)), "y"),
    ("normalisation under a scale", lambda x, y: (x * y / sqrt(x * x * y * y + y * y), x / sqrt(x * x + 1)), "y"),
    ("sign", lambda x, y: (y, y * x / abs(x)), "x"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "positive"), [row[1:] for row in SIGNS], ids=[row[0] for row in SIGNS])
def test_what_differs_for_some_signs_only(case: Case, positive: str) -> None:
    x, y = symbols("x y")  # type: ignore[misc]
    verdict = decide(*case(x, y))
    explanation, witness = verdict.outputs[0].explanation, verdict.outputs[0].witness
    assert verdict.status is Status.REFUTED and explanation is not None and witness is not None
    assert explanation.text.endswith(f"; equal where {positive} {'are' if ' and ' in positive else 'is'} positive")
    assert any(float(Fraction(witness.inputs[name])) < 0 for name in positive.split(" and "))


@pytest.mark.parametrize(
    "case",
    [
        lambda x, y: (x, abs(x) + 1),
        lambda x, y: (y * sqrt(x * x + 1), sqrt((x * x + 1) * y)),
        lambda x, y: (y * relu(x), relu(y * x + 1)),
        lambda x, y: (maximum(x, y) ** 2, maximum(x, y * y)),
    ],
)
def test_signs_are_not_blamed_for_what_is_wrong_anyway(case: Case) -> None:
    x, y = symbols("x y")  # type: ignore[misc]
    verdict = decide(*case(x, y))
    explanation = verdict.outputs[0].explanation
    assert verdict.status is Status.REFUTED and explanation is not None and "positive" not in explanation.text


def test_signs_are_not_blamed_where_they_do_not_help() -> None:
    x, y = symbols("x y")  # type: ignore[misc]
    verdict = decide(log(x * y), log(x) + log(y) * y)
    assert verdict.status is not Status.PROVED and "positive" not in verdict.reason.replace("logarithms of positive", "")


# --- constants ----------------------------------------------------------------------------------


def test_scale_folded_with_log2e_exactly_is_the_unfolded_product() -> None:
    """1/8 and log2 e are recognised in their product too: 0.125 * log2 e rounds to the f32 that stands for it."""
    (x,) = (symbols("x:4"),)
    assert isinstance(x, Vector)
    folded = f32(x[0], 0.125 * LOG2E_F32)
    reference = softmax_of(x * 0.125, exp)
    assert decide(reference, softmax_of(x * folded, exp2)).status is Status.PROVED
    assert decide(reference, softmax_of(x * f32(x[0], LOG2E_F32) * 0.125, exp2)).status is Status.PROVED
    assert decide(reference, softmax_of(x * f32(x[0], 0.25 * LOG2E_F32), exp2)).status is Status.REFUTED


@pytest.mark.parametrize("swapped", [False, True])
def test_scale_folded_with_a_rounding_is_a_near_miss(swapped: bool) -> None:
    """1/sqrt(80) * log2 e as one f32 literal is no recognised constant: equal but for the rounding of the product."""
    x = symbols("x:4")
    assert isinstance(x, Vector)
    scale = float(np.float32(80**-0.5))
    apart, folded = softmax_of(x * scale, exp), softmax_of(x * f32(x[0], scale * LOG2E_F32), exp2)
    sides = (folded, apart) if swapped else (apart, folded)
    verdict = decide(*sides)
    assert verdict.status is Status.UNKNOWN and "equal except for constants that differ by" in verdict.reason
    assert "0.161298" in verdict.reason and CONSTANTS_WITHIN_1_ULP in verdict.reason
    verdict = decide(*sides, assumptions=UNIFIED)
    assert verdict.status is Status.PROVED
    (line,) = [line for line in verdict.assumptions if line.startswith(CONSTANTS_WITHIN_1_ULP)]
    assert line.count("0.16129820") == 2, "both values are reported"


def test_a_folded_constant_that_is_further_away_stays_refuted() -> None:
    x = symbols("x:4")
    assert isinstance(x, Vector)
    scale = float(np.float32(80**-0.5))
    wrong = softmax_of(x * f32(x[0], scale * LOG2E_F32 * 1.0001), exp2)
    for assumed in (frozenset(), UNIFIED):
        assert decide(softmax_of(x * scale, exp), wrong, assumptions=assumed).status is Status.REFUTED


def test_a_near_constant_beside_a_real_difference_is_refuted() -> None:
    x, y = symbols("x y")  # type: ignore[misc]
    low, high = f32(x, 0.1), f32(x, float(np.nextafter(np.float32(0.1), np.float32(1))))
    assert decide(x * low + y, x * high + y).status is Status.UNKNOWN
    assert decide(x * low + y, x * high - y).status is Status.REFUTED
    assert decide(x * low + y, x * high - y, assumptions=UNIFIED).status is Status.REFUTED


def test_constants_are_unified_with_their_neighbours_only() -> None:
    """0.1, one place further, two places further: each is near the next, the first is not near the last."""
    x, y = symbols("x y")  # type: ignore[misc]
    first, second, third = (f32(x, np.float32(0.1) + k * 2.0**-27) for k in (0, 1, 2))
    assert decide(x * first, x * second, assumptions=UNIFIED).status is Status.PROVED
    assert decide(x * first, x * third, assumptions=UNIFIED).status is not Status.PROVED
    chained = decide(x * first + y * second, x * third + y * second, assumptions=UNIFIED)
    assert chained.status is not Status.PROVED, "not by way of the second"
    assert decide(x * second + y * second, x * third + y * first, assumptions=UNIFIED).status is Status.PROVED


# --- constants of integers ----------------------------------------------------------------------

Integers = Callable[[Arena, Expr, Expr, int], Expr]


def applied(arena: Arena, op: Op, *operands: Expr | int) -> Expr:
    ids = [value.id if isinstance(value, Expr) else value for value in operands]
    return Expr(arena, int(np.asarray(arena.emit(op, *(ids + [0, 0])[:3]))))


def constant(arena: Arena, value: int) -> Expr:
    return Expr(arena, arena.rational(mpq(value)))


INTEGERS: dict[str, Integers] = {
    "product": lambda arena, i, x, n: i * n,
    "product that wraps": lambda arena, i, x, n: applied(arena, Op.WRAP, i * n, -32),
    "sum": lambda arena, i, x, n: i + n,
    "maximum": lambda arena, i, x, n: maximum(i, n),
    "division": lambda arena, i, x, n: applied(arena, Op.FLOORDIV, i, constant(arena, n)),
    "mask": lambda arena, i, x, n: applied(arena, Op.BITAND, i, constant(arena, n)),
    "comparison": lambda arena, i, x, n: where(i < n, x, 0),
    "comparison of a product with a condition": lambda arena, i, x, n: where((i > 0) * i < n, x, 0),
    "sum of products": lambda arena, i, x, n: Expr(
        arena, int(arena.dot(*(np.array([[row]], np.int32) for row in ([i.id, i.id], [arena.rational(mpq(n)), i.id])), np.array([[[0]]])).item())
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", INTEGERS.values(), ids=INTEGERS)
@pytest.mark.parametrize("constants", [(2_000_000, 2_000_001), (16777216, 16777217)], ids=["near", "within 1 ulp"])
@pytest.mark.parametrize("assumed", [frozenset(), UNIFIED], ids=["", "unified"])
def test_another_constant_of_integers_is_a_wrong_one(case: Integers, constants: tuple[int, int], assumed: frozenset[str]) -> None:
    arena = Arena()
    i, x = (symbols(name, arena, fmt) for name, fmt in (("i", "s32"), ("x", "f32")))
    assert isinstance(i, Expr) and isinstance(x, Expr)
    verdict = decide(*(case(arena, i, x, n) for n in constants), assumptions=assumed)
    assert verdict.status is Status.REFUTED, verdict.reason


FLOATS: dict[str, Integers] = {
    "product": lambda arena, i, x, n: x * n,
    "scores with a mask": lambda arena, i, x, n: where(i > 0, x, -n),
    "maximum": lambda arena, i, x, n: maximum(x, -n),
    "quotient of an integer": lambda arena, i, x, n: i / (x + n),
}


@pytest.mark.parametrize("case", FLOATS.values(), ids=FLOATS)
@pytest.mark.parametrize("constants", [(10**20, int(np.float32(1e20))), (16777216, 16777218)])
def test_whole_constants_of_floats_are_rounded_as_others_are(case: Integers, constants: tuple[int, int]) -> None:
    arena = Arena()
    i, x = (symbols(name, arena, fmt) for name, fmt in (("i", "s32"), ("x", "f32")))
    assert isinstance(i, Expr) and isinstance(x, Expr)
    sides = [case(arena, i, x, n) for n in constants]
    assert decide(*sides).status is Status.UNKNOWN
    assert decide(*sides, assumptions=UNIFIED).status is Status.PROVED


def test_what_is_made_of_whole_constants_and_conditions_alone_could_be_integers() -> None:
    """No integer of any format is 10^20, though."""
    x = symbols("x")
    assert isinstance(x, Expr)
    for constants, status in (((2**24, 2**24 + 2), Status.UNKNOWN), ((10**20, int(np.float32(1e20))), Status.PROVED)):
        sides = [x + where(x > 0, 0, -n) for n in constants]
        assert decide(*sides, assumptions=UNIFIED).status is status
