"""Formulas in the front end's words: selections by many conditions, casts, fields, running statistics, positions."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import ptx_engine.decide
from ptx_engine.decide import Budget, decide
from ptx_engine.terms import Arena, Expr, Op, Vector, symbols
from ptx_engine.terms.formulas import (
    argmax,
    both,
    ceil,
    clamp,
    either,
    equal,
    exp,
    exp2,
    field,
    floor,
    log,
    max,
    maximum,
    mean,
    min,
    minimum,
    negation,
    quotient,
    remainder,
    round_even,
    running,
    saturate,
    shift_right,
    softmax,
    sqrt,
    total,
    trunc,
    where,
    wrap,
)  # fmt: skip
from ptx_engine.verdict import Status, Verdict


def vector(names: str, fmt: str = "f32") -> Vector:
    x = symbols(names, fmt=fmt)
    assert isinstance(x, Vector)
    return x


def scalars(names: str, fmt: str = "f32") -> tuple[Expr, ...]:
    found = symbols(names, fmt=fmt)
    return found if isinstance(found, tuple) else (found,)  # type: ignore[return-value]


def proved(reference: Expr | Vector, candidate: Expr | Vector) -> bool:
    return decide(reference, candidate).status is Status.PROVED


def test_the_package_is_the_function() -> None:
    x = vector("x:16")
    verdict = ptx_engine.decide(softmax(x), softmax(x - max(x)), budget=Budget(seconds=30), assumptions=frozenset())  # type: ignore[operator]
    assert isinstance(verdict, Verdict) and verdict.status is Status.PROVED
    arena = x[0].arena
    assert isinstance(arena, Arena)
    program = (
        "import ptx_engine\nfrom ptx_engine.terms.formulas import *\nx = symbols('x:4')\n"
        "print(ptx_engine.decide(softmax(x), softmax(x - max(x))).status.value, ptx_engine.decide(x, x * 2).status.value)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert run.stdout.split() == ["proved", "refuted"]


def test_a_rounding_of_the_evaluation_is_no_witness() -> None:
    """Values that are equal, or whole, as real numbers come out a little apart in any precision: what jumps there shows nothing."""
    x, y, z, w = scalars("x y z w")
    a, b = abs(x) + 1, abs(y) + 1
    for always in (log(a) + log(b) <= log(a * b), log(a) + log(b) >= log(a * b), equal(log(a) + log(b), log(a * b))):
        assert decide(where(always, z, w), z).status is not Status.REFUTED
    whole = 5 + sqrt(a) * sqrt(b) - sqrt(a * b)
    for rounding in (floor, ceil, trunc):
        assert decide(rounding(whole), 0 * x + 5).status is not Status.REFUTED
    assert decide(round_even(whole / 2), 0 * x + 2).status is not Status.REFUTED
    assert decide(floor(whole), 0 * x + 6).status is Status.REFUTED
    assert decide(where(sqrt(x) > 2, y, z), where(sqrt(x) >= 2, y, z)).status is Status.REFUTED
    assert decide(where(log(a) + log(b) <= log(a * b) - 1, z, w), z).status is Status.REFUTED


def test_odd_powers_come_out_of_logarithms() -> None:
    x, y = scalars("x y")
    for reference, candidate in (
        (log(x**3), 3 * log(x)), (log(1 / x), -log(x)), (log(5 * x**3), 3 * log(x) + log(0 * x + 5)), (log(-(x**3)), 3 * log(-x)),
        (log(x**3 / y**3), -3 * log(y / x)), (log(x**3 * y**3), 3 * log(x * y)), (log(-1 / x), -log(-x)),
    ):  # fmt: skip
        assert proved(reference, candidate) and proved(candidate, reference)
    for reference, candidate in (
        (log(x**3 * y), 3 * log(x * y)), (log(x**2), 2 * log(x)), (log(-(x**3)), 3 * log(x)), (log(x**3), 2 * log(x)),
        (log(x**3 * y**3), 3 * log(x) + 3 * log(y)), (log(x**3 + 1), 3 * log(x + 1)),
    ):  # fmt: skip
        assert not proved(reference, candidate) and not proved(candidate, reference)


# --- what all arguments of a maximum add ----------------------------------------------------------


@pytest.mark.parametrize("count", [5, 16, 17, 300])
def test_ranges_are_the_maximum_less_the_minimum(count: int) -> None:
    """Not the maximum of all differences, of which there are count^2."""
    x = vector(f"x:{count}")
    half = count // 2
    low = min(min(x[half:]), min(x[:half]))
    by_parts = maximum(max(x[:half]), max(x[half:])) - low
    assert proved(max(x - min(x)), by_parts) and proved(by_parts, maximum(max(x[:half] - low), max(x[half:] - low)))
    assert proved(min(x - max(x)), -by_parts) and proved(max(3 * x - 3 * min(x)), 3 * by_parts)
    assert proved(max(x + max(x)), 2 * max(x))
    if count > 16:  # of fewer values the differences are written out
        assert proved(maximum(max(x - low), 0), by_parts) and not proved(maximum(max(x[1:] - min(x[:1])), 0), max(x[1:]) - x[0])
    for wrong in (maximum(max(x[:half]), max(x[half + 1 :])) - low, maximum(max(x[:half] - low), max(x[half:] - min(x[half:])))):
        status = decide(max(x - min(x)), wrong).status
        assert status is Status.REFUTED if count < 100 else status is not Status.PROVED  # (one of 300 is seldom the largest)
    assert decide(max(x - min(x)), by_parts + low).status is Status.REFUTED


def test_only_what_all_arguments_add_comes_out_of_a_maximum() -> None:
    x, y, z, w = scalars("x y z w")
    low = minimum(x, y)
    assert proved(maximum(x - low, y - low, z), maximum(maximum(x, y), z + low) - low)
    assert proved(maximum(maximum(x - low, y - low), maximum(z - low, w - low)), maximum(x, y, z, w) - low)
    assert proved(maximum(maximum(x - low, y - low), maximum(z - w, w - w)), maximum(x - low, y - low, z - w, 0))
    assert decide(maximum(x - low, y + low), maximum(x, y) - low).status is Status.REFUTED
    assert decide(maximum(x - low, y - 2 * low), maximum(x, y - low) - 2 * low).status is Status.REFUTED
    assert proved(minimum(x - low, y - low), 0 * x) and proved(maximum(x * exp(z) - low, y - low), maximum(x * exp(z), y) - low)


# --- exponentials are compared by their exponents -------------------------------------------------


def test_order_goes_through_exponentials() -> None:
    x, y, z = scalars("x y z")
    assert proved(exp(maximum(x, y)), maximum(exp(x), exp(y))) and proved(exp(min(x, y, z)), min(exp(x), exp(y), exp(z)))
    assert proved(where(exp(x) < exp(y), x, z), where(x < y, x, z)) and proved(where(exp(x) <= 1, x, z), where(x > 0, z, x))
    assert proved(where(equal(exp(x), exp(y)), z, x), where(equal(x, y), z, x))
    assert proved(where(4 * exp2(x) < exp2(y), x, z), where(x + 2 < y, x, z))
    assert proved(where(exp(x) * exp(z) < exp(y), x, z), where(x + z < y, x, z))
    assert proved(abs(exp(x) - exp(y)), exp(maximum(x, y)) - exp(minimum(x, y)))


def test_order_goes_through_exponentials_only_where_it_does() -> None:
    x, y, z = scalars("x y z")
    for wrong in (where(3 * exp2(x) < exp2(y), x, z), where(2 * exp2(x) < exp2(y), x, z), where(exp2(x) + 1 < exp2(y), x, z)):
        assert decide(where(x + 2 < y, x, z), wrong).status is Status.REFUTED
    assert decide(where(x < y, x, z), where(z * exp(x) < z * exp(y), x, z)).status is Status.REFUTED
    assert decide(where(x < y, x, z), where(-exp(x) < -exp(y), x, z)).status is Status.REFUTED
    assert decide(where(x < y, x, z), where(exp(x) < y, x, z)).status is Status.REFUTED
    assert decide(exp(maximum(x, y)), maximum(exp(x), 2 * exp(y))).status is Status.REFUTED


def test_elu_by_a_maximum_and_a_minimum() -> None:
    (x,) = scalars("x")
    reference = where(x > 0, x, 1.5 * (exp(x) - 1))
    assert proved(reference, maximum(x, 0) + minimum(1.5 * (exp(x) - 1), 0))
    assert proved(reference, where(x > 0, x, 1.5 * exp(x) - 1.5))
    assert decide(reference, maximum(x, 0) + minimum(1.5 * exp(x) - 1, 0)).status is Status.REFUTED
    assert decide(reference, maximum(x, 0) + minimum(1.5 * (exp(x) - 2), 0)).status is Status.REFUTED


# --- conditions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 5, 10])
def test_selections_by_ten_conditions(count: int) -> None:
    """A value by independent conditions, one after the other, against the same from the other end."""
    x, y = symbols(f"x:{count} y:{count}")  # type: ignore[misc]
    forwards = backwards = x[0] * 0
    for p, q in zip(x, y):
        forwards = where(p > 0, forwards + q, forwards)
    for p, q in reversed(list(zip(x, y))):
        backwards = backwards + where(negation(p <= 0), q, 0)
    assert proved(forwards, backwards)
    assert decide(forwards, backwards + where(x[0] >= 0, y[0], 0) - where(x[0] > 0, y[0], 0)).status is Status.REFUTED


def test_conditions_scaled_turned_and_joined() -> None:
    x, y, z = scalars("x y z")
    forms = [where(x < y, z, 0), where(y > x, z, 0), where(negation(y <= x), z, 0), where(3 * x < 3 * y, z, 0), where(x - y < 0, z, 0)]
    for form in forms[1:]:
        assert proved(forms[0], form)
    assert proved(where(both(x < y, y < z), 1, 0), where(x < y, where(y < z, 1, 0), 0) + 0 * z)
    assert proved(where(either(x < y, y < x), z, 0), where(equal(x, y), 0, z))
    assert decide(where(x < y, z, 0), where(-3 * x < -3 * y, z, 0)).status is Status.REFUTED


@pytest.mark.parametrize("extreme", ["max", "min"])
def test_nan_aware_extremes_of_compilers(extreme: str) -> None:
    """LLVM's maxnum and maximum spelled out: unordered operands are tested first; over the reals the tests are false."""
    x, y = scalars("x y")
    arena = x.arena

    def unordered(v: Expr) -> Expr:
        return Expr(arena, int(arena.compare(Op.NE, v.id, v.id)))  # type: ignore[call-overload]

    expected = maximum(x, y) if extreme == "max" else minimum(x, y)
    chosen = where(x > y, x, y) if extreme == "max" else where(x < y, x, y)
    maxnum = where(unordered(x), y, where(unordered(y), x, chosen))
    maximum_ = where(either(unordered(x), unordered(y)), x + y, chosen)
    zeros = where(equal(x, y), where(equal(x, 0), x + y - y, x), chosen)  # signed zeros: one value here
    for form in (maxnum, maximum_, zeros):
        assert proved(expected, form)
    assert decide(expected, where(unordered(x), y, where(x > y, y, x) if extreme == "max" else x)).status is Status.REFUTED


# --- casts and fields -----------------------------------------------------------------------------


def test_saturating_casts_are_clamps() -> None:
    (x,) = scalars("x")
    for bits, signed, low, high in ((8, True, -128, 127), (8, False, 0, 255), (16, True, -32768, 32767)):
        assert proved(saturate(x, bits, signed=signed), clamp(round_even(x), low, high))  # type: ignore[arg-type]
        assert proved(saturate(x, bits, signed=signed), round_even(clamp(x, low, high)))  # type: ignore[arg-type]
        assert proved(saturate(x, bits, signed=signed), wrap(saturate(x, bits, signed=signed), bits, signed=signed))
    assert decide(saturate(x, 8), saturate(x, 8, signed=False)).status is Status.REFUTED
    assert decide(saturate(x, 8), wrap(round_even(x), 8)).status is Status.REFUTED


def test_fields_of_words() -> None:
    (w,) = scalars("w", "u32")
    nibbles = [field(w, 4 * i, 4) for i in range(8)]
    assert proved(w, sum((v * 16**i for i, v in enumerate(nibbles)), start=w * 0))
    assert proved(nibbles[3], remainder(shift_right(w, 12), 16))
    assert proved(nibbles[7], quotient(w, 1 << 28))
    assert proved(wrap(nibbles[2], 4), nibbles[2] - where(nibbles[2] >= 8, 16, 0))
    assert decide(nibbles[3], field(w, 11, 4)).status is Status.REFUTED
    for low, width in ((-1, 4), (0, 0), (0, 65)):
        with pytest.raises(ValueError):
            field(w, low, width)
    with pytest.raises(ValueError):
        wrap(w, 0)


def test_roundings() -> None:
    x, y = scalars("x y")
    assert proved(ceil(x), -floor(-x)) and proved(trunc(-x), -trunc(x))
    assert proved(floor(max(x, y)), max(floor(x), floor(y))) and proved(ceil(min(x, 2)), min(ceil(x), 2))
    assert decide(trunc(x), floor(x)).status is Status.REFUTED
    assert decide(round_even(x), floor(x + 0.5)).status is Status.REFUTED


def test_rounding_by_cases_and_by_whole_steps() -> None:
    x, y = scalars("x y")
    for value in (x, 3 * x + y):
        assert proved(trunc(value), where(value >= 0, floor(value), ceil(value)))
        assert proved(trunc(value), where(value < 0, ceil(value), floor(value)))
    assert decide(trunc(x), where(x >= -1, floor(x), ceil(x))).status is Status.REFUTED
    assert decide(trunc(x), where(x >= 0, ceil(x), floor(x))).status is Status.REFUTED
    assert proved(round_even(x + 2), round_even(x) + 2) and proved(round_even(x - 4), round_even(x) - 4)
    assert proved(round_even(x + 3), round_even(x + 1) + 2)
    assert decide(round_even(x + 1), round_even(x) + 1).status is Status.REFUTED
    assert decide(round_even(x - 3), round_even(x) - 3).status is Status.REFUTED
    (i,) = (symbols("i", x.arena, "s32"),)
    assert isinstance(i, Expr)
    assert proved(round_even(x + 2 * i), round_even(x) + 2 * i)
    assert decide(round_even(x + 3 * i), round_even(x) + 3 * i).status is Status.REFUTED


@pytest.mark.parametrize(
    ("case", "right", "wrong"),
    [
        (lambda i, j: floor((5 - floor(i / 3)) / 4), lambda i, j: (17 - i, 12), lambda i, j: [(15 - i, 12), (16 - i, 12), (18 - i, 12)]),
        (lambda i, j: floor((j - floor((i + 1) / 3)) / 4), lambda i, j: (3 * j + 1 - i, 12), lambda i, j: [(3 * j + 2 - i, 12), (3 * j - i, 12)]),
        (lambda i, j: floor((j - floor(i / 5)) / 3), lambda i, j: (5 * j + 4 - i, 15), lambda i, j: [(5 * j + 5 - i, 15), (5 * j - i, 15)]),
        (lambda i, j: floor((j + floor(i / 5)) / 3), lambda i, j: (5 * j + i, 15), lambda i, j: [(5 * j + i + 1, 15), (5 * j + i - 1, 15)]),
        (lambda i, j: floor((1 - floor(i / 7)) / 2), lambda i, j: (13 - i, 14), lambda i, j: [(14 - i, 14), (12 - i, 14)]),
    ],
)  # fmt: skip
def test_floors_of_negative_floors(case: Any, right: Any, wrong: Any) -> None:
    """floor((n - floor(a / d)) / k) = floor((d n + d - 1 - a) / (d k)) for integers, and no other numerator."""
    i, j = scalars("i j", "s32")
    numerator, denominator = right(i, j)
    assert proved(case(i, j), floor(numerator / denominator))
    for numerator, denominator in wrong(i, j):
        assert decide(case(i, j), floor(numerator / denominator)).status is Status.REFUTED


def test_floors_of_floors_of_fractions_stay() -> None:
    """-floor(x / d) of what is no integer is no floor."""
    (x,) = scalars("x")
    assert proved(floor((2 + floor(x / 3)) / 4), floor((6 + x) / 12))
    for numerator in (6 + 2 - x, 6 - x, 6 + 3 - x):
        assert decide(floor((2 - floor(x / 3)) / 4), floor(numerator / 12)).status is Status.REFUTED


# --- scans, positions, statistics -----------------------------------------------------------------


def test_running_sums_and_maxima() -> None:
    x = vector("x:6")
    by_halves = Vector([*running(x[:3], lambda a, b: b + a), *(total(x[:3]) + v for v in running(x[3:], lambda a, b: a + b))])
    assert proved(running(x, lambda a, b: a + b), by_halves)
    assert proved(running(x, maximum)[5], max(x[3:], x[:3]))


def test_positions() -> None:
    x = vector("x:8")
    left, right = argmax(x[:4]), argmax(x[4:]) + 4
    first = max(x[:4]) >= max(x[4:])
    assert proved(argmax(x), where(first, left, right))
    assert decide(argmax(x), where(max(x[:4]) > max(x[4:]), left, right)).status is Status.REFUTED


@pytest.mark.parametrize("count", [16, 700])
def test_welford_over_long_rows(count: int) -> None:
    x = vector(f"x:{count}")
    average, square = x[0], x[0] * 0
    for n, v in enumerate(x[1:], 2):
        delta = v - average
        average = average + delta / n
        square = square + delta * (v - average)
    deviations = x - mean(x)
    two_passes = total(deviations * deviations) / count
    assert proved((x[3] - mean(x)) / sqrt(two_passes + 0.001), (x[3] - average) / sqrt(square / count + 0.001))
    if count < 100:
        assert decide(two_passes, square / (count - 1)).status is Status.REFUTED


def test_a_softmax_that_divides_by_another_sum() -> None:
    x = vector("x:8")
    e = exp(x - max(x))
    verdict = decide(softmax(x), e / total(e[:7]))
    explanation = verdict.outputs[0].explanation
    assert verdict.status is Status.REFUTED and explanation is not None and "x[7]" in explanation.text
