"""Differences that float64 or small numbers do not show: huge and tiny constants, underflow, the bounds of integer formats."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from test_never_proved import Names

from ptx_engine.decide import decide
from ptx_engine.decide.oracle import integer_range
from ptx_engine.decide.witness import Pair, _candidates, exact_point
from ptx_engine.terms import Arena, Expr, Op
from ptx_engine.terms.formulas import clamp, exp, maximum, remainder, round_even, saturate, where, wrap
from ptx_engine.verdict import Status

Case = Callable[[Names], "tuple[Expr, Expr]"]

#: name: sides, and an input with the value that it must have (None: any) where both sides are shown
DIFFERENT: dict[str, tuple[Case, str, str | None]] = {
    "one beside a huge constant": (lambda n: (n.x + 10**60, n.x + 10**60 + 1), "x", None),
    "huge factors": (lambda n: (n.x * 10**40, n.x * (10**40 + 1)), "x", None),
    "a tiny constant": (lambda n: (n.x + Fraction(1, 10**60), n.x + 0), "x", None),
    "an exponential that float64 has no number for": (lambda n: (exp(n.x - 10**6), n.x * 0), "x", None),
    "the least integer negated": (lambda n: (-n.i, wrap(-n.i, 32)), "i", str(-(2**31))),
    "the size of the least integer": (lambda n: (abs(n.i), wrap(abs(n.i), 32)), "i", str(-(2**31))),
    "the least integer by itself": (lambda n: (n.i, remainder(n.i, 2**31)), "i", str(-(2**31))),
    "the greatest integer and one": (lambda n: (n.i + 1, wrap(n.i + 1, 32)), "i", str(2**31 - 1)),
    "the greatest byte and one": (lambda n: (n.u + 1, n.op(Op.WRAP, n.u + 1, plain=8)), "u", "255"),
    "a saturating cast at its border": (lambda n: (saturate(n.x, 16), clamp(round_even(n.x), -(2**15), 2**15)), "x", None),
    "a bound far out": (lambda n: (where(n.x < 10**9, n.y, n.z), where(n.x <= 10**9, n.y, n.z)), "x", str(10**9)),
    "the derivative of relu at zero": (lambda n: (where(n.x > 0, n.y, 0), n.y * where(n.x >= 0, 1, 0)), "x", "0"),
    "a derivative at a bound": (lambda n: (where(n.x > 3, n.y, n.z), where(n.x >= 3, n.y, n.z)), "x", "3"),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_the_difference_is_found(name: str) -> None:
    case, shown, value = DIFFERENT[name]
    verdict = decide(*case(Names()))
    assert verdict.status is Status.REFUTED, verdict.reason
    witness = verdict.outputs[0].witness
    assert witness is not None and witness.reference_value != witness.candidate_value
    assert value is None or witness.inputs[shown] == value


#: the same with nothing wrong
EQUAL: dict[str, Case] = {
    "huge constants": lambda n: (n.x + 10**60 + 1, n.x + (10**60 + 1)),
    "a word of 33 bits": lambda n: (-n.i, wrap(-n.i, 33)),
    "a remainder by more": lambda n: (n.i, remainder(n.i, 2**31 + 1)),
    "a byte and one": lambda n: (n.u + 1, n.op(Op.WRAP, n.u + 1, plain=9)),
    "a saturating cast": lambda n: (saturate(n.x, 16), clamp(round_even(n.x), -(2**15), 2**15 - 1)),
    "a bound far out": lambda n: (where(n.x < 10**9, n.y, n.y + 0), n.y * 1),
    "a maximum with the least integer": lambda n: (n.i, maximum(n.i, -(2**31))),
}


@pytest.mark.parametrize("name", EQUAL)
def test_without_the_fault_it_is_proved(name: str) -> None:
    verdict = decide(*EQUAL[name](Names()))
    assert verdict.status is Status.PROVED, verdict.reason


@pytest.mark.parametrize("fmt", ["s8", "u8", "s32", "u32", "s64", "u64"])
def test_no_point_lies_beyond_a_format(fmt: str) -> None:
    """The greatest integer of 64 bits is no float64: what it is rounded to is one more, at which equal terms differ."""
    arena = Arena()
    x = arena.add_input("x", 1, fmt).ids(0)
    pair = Pair(arena, int(arena.emit(Op.SHR, x, arena.rational(1))), int(x))
    points = _candidates(pair)
    tried = [exact_point(pair, points[:, i]).get(int(x), 0) for i in range(points.shape[1])]
    low, high = integer_range(fmt) or (0, 0)
    assert low <= min(tried) and max(tried) <= high
    assert min(tried) == low and high - max(tried) < 2 ** max(0, high.bit_length() - 53)


def upper_word(shift: int) -> tuple[Expr, Expr]:
    arena = Arena()
    x = arena.add_input("x", 1, "s64").ids(0)
    field = Expr(arena, int(arena.emit(Op.FIELD, x, 32, 32)))
    return Expr(arena, int(arena.emit(Op.SHR, x, arena.rational(shift)))), wrap(field, 32)


def test_the_upper_half_of_the_greatest_integer() -> None:
    assert decide(*upper_word(32)).status is Status.PROVED
    assert decide(*upper_word(31)).status is Status.REFUTED
