"""What signs show of terms is true at every point: defined, not negative, not zero; and they show what kernels need."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from gmpy2 import mpq
from hypothesis import given, settings
from hypothesis import strategies as st

from ptx_engine.decide.defined import DEFINED, NONNEGATIVE, NONZERO, Signs
from ptx_engine.decide.oracle import Reals
from ptx_engine.decide.steps import ID_SLOTS
from ptx_engine.terms import Arena, Expr, symbols
from ptx_engine.terms.arena import CONST_CAP, NEG_INF, POS_INF
from ptx_engine.terms.expr import Vector, exp, log, maximum, minimum, rsqrt, sigmoid, sqrt, tanh, total, where
from ptx_engine.terms.ops import TABLE, Op

POSITIVE = NONNEGATIVE | NONZERO
Case = Callable[[Vector], Expr]


def bits(term: Expr) -> int:
    return int(Signs(term.arena, np.array([term.id], np.int32)).of(np.array([term.id]))[0])


SHOWN: dict[str, tuple[Case, int]] = {
    "sum of exponentials": (lambda x: total(exp(x)), DEFINED | POSITIVE),
    "its reciprocal": (lambda x: 1 / total(exp(x)), DEFINED | POSITIVE),
    "its logarithm": (lambda x: log(total(exp(x - maximum(x)))), DEFINED),
    "variance": (lambda x: rsqrt(total(squares(x - total(x) / 6)) / 6 + 1e-5), DEFINED | POSITIVE),
    "sum of squares": (lambda x: sqrt(x[0] * x[0] + x[1] * x[1]), DEFINED | NONNEGATIVE),
    "sigmoid": (lambda x: sigmoid(x[0]), DEFINED | POSITIVE),
    "norm with a floor": (lambda x: x[1] / maximum(sqrt(x[0] * x[0]), 1e-12), DEFINED),
    "size": (lambda x: x[0] / (abs(x[1]) + 1), DEFINED),
    "choice": (lambda x: log(where(x[0] > 0, exp(x[1]), 2)), DEFINED),
    "root of a product of exponentials": (lambda x: sqrt(exp(x[0]) * exp(x[1])), DEFINED | POSITIVE),
}

NOT_SHOWN: dict[str, tuple[Case, int]] = {
    "root": (lambda x: sqrt(x[0]), DEFINED),
    "root of a difference of squares": (lambda x: sqrt(x[0] * x[0] - x[1] * x[1]), DEFINED),
    "root of another product": (lambda x: sqrt(x[0] * x[1]), DEFINED),
    "reciprocal of a square": (lambda x: 1 / (x[0] * x[0]), DEFINED),
    "reciprocal of a sum of squares": (lambda x: 1 / (x[0] * x[0] + x[1] * x[1]), DEFINED),
    "logarithm of a clamped value": (lambda x: log(maximum(x[0], 0)), DEFINED),
    "logarithm of a minimum": (lambda x: log(minimum(exp(x[0]), x[1])), DEFINED),
    "logarithm of a choice": (lambda x: log(where(x[0] > 0, exp(x[1]), 0)), DEFINED),
    "sum with a negative constant": (lambda x: log(exp(x[0]) - 1e-9), DEFINED),
    "one over tanh": (lambda x: 1 / tanh(x[0]), DEFINED),
    "a sum of exponentials that are all masked": (lambda x: 1 / total(exp(masked(x))), DEFINED),
}


def squares(x: Vector) -> Vector:
    return x * x


def masked(x: Vector) -> Vector:
    """Scores that are minus infinity where another input is not positive."""
    infinity = Expr(x[0].arena, NEG_INF)
    return Vector(where(x[5] > i, x[i], infinity) for i in range(4))


@pytest.mark.parametrize("name", SHOWN)
def test_shown(name: str) -> None:
    x = symbols("x:6")
    assert isinstance(x, Vector)
    case, expected = SHOWN[name]
    assert bits(case(x)) == expected


@pytest.mark.parametrize("name", NOT_SHOWN)
def test_not_shown(name: str) -> None:
    x = symbols("x:6")
    assert isinstance(x, Vector)
    case, missing = NOT_SHOWN[name]
    assert bits(case(x)) & missing != missing


def test_unsigned_inputs_are_not_negative() -> None:
    arena = Arena()
    x, u = symbols("x", arena), symbols("u:3", arena, "u8")
    assert isinstance(x, Expr) and isinstance(u, Vector)
    assert bits(sqrt(u[1] + 0.5)) == DEFINED | POSITIVE
    assert not bits(sqrt(u[1] + x)) & DEFINED


def test_wraps_and_fields() -> None:
    arena = Arena()
    (i,) = (symbols("i", arena, "s32"),)
    assert isinstance(i, Expr)
    for width, expected in ((8, DEFINED | NONNEGATIVE), (-8, DEFINED)):
        assert bits(Expr(arena, int(np.asarray(arena.emit(Op.WRAP, i.id, width, 0))))) == expected
    assert bits(Expr(arena, int(np.asarray(arena.emit(Op.FIELD, i.id, 4, 8))))) == DEFINED | NONNEGATIVE


@pytest.mark.parametrize(("op", "neutral"), [(Op.NMAX, NEG_INF), (Op.NMIN, POS_INF), (Op.NSUM, NEG_INF)])
def test_infinities_in_wide_reductions(op: Op, neutral: int) -> None:
    """One that fills a list up is neutral in a maximum; a list of nothing else is infinite, and so is a sum."""
    arena = Arena()
    (x,) = (symbols("x:4", arena),)
    assert isinstance(x, Vector)
    filled, empty = (int(i) for i in arena.nary(op, np.array([[x[0].id, x[1].id, neutral], [neutral] * 3], np.int32)))
    for reduced, expected in ((filled, op is not Op.NSUM), (empty, False)):
        for made in (Expr(arena, reduced), 1 / exp(Expr(arena, reduced)), exp(exp(Expr(arena, reduced)))):
            assert made.id < CONST_CAP or bool(bits(made) & DEFINED) == expected


def test_it_is_given_up_where_terms_come_one_by_one() -> None:
    (x,) = (symbols("x"),)
    assert isinstance(x, Expr)
    y = exp(x)
    for _ in range(3000):
        y = y + 1
    assert bits(1 / y) == 0


_PLAIN = [op for op, row in TABLE.items() if not row.record and not row.plain and op not in (Op.CONST, Op.OPAQUE)]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_what_is_shown_holds_at_every_point(seed: int) -> None:
    """Random terms over all operators, records among them, evaluated at points with zeros, ties and negative values."""
    draw = np.random.default_rng(seed)
    arena = Arena()
    ids = [*arena.add_input("x", 3, "f32").ids(np.arange(3)), *arena.add_input("u", 2, "u8").ids(np.arange(2))]
    ids += [arena.rational(mpq(v)) for v in ("0", "1", "-1", "2", "-1/2")]
    for _ in range(25):
        kind = draw.integers(0, 12)
        if kind == 0:
            operands = np.array([draw.choice(ids, 3)], np.int32)
            ids.append(int(arena.nary(Op(int(draw.choice([Op.NSUM, Op.NMAX, Op.NMIN]))), operands)[0]))
        elif kind == 1:
            rows, cols = (np.array([[draw.choice(ids, 2)]], np.int32) for _ in range(2))
            ids.append(int(arena.dot(rows, rows if draw.integers(0, 2) else cols, np.array([[[draw.choice(ids)]]], np.int32)).ravel()[0]))
        else:
            op = Op(int(draw.choice(_PLAIN)))
            chosen = [int(i) for i in draw.choice(ids, sum(ID_SLOTS[op]))]
            if len(chosen) > 1 and draw.integers(0, 4) == 0:
                chosen[1] = chosen[0]
            ids.append(int(arena.emit(op, *(chosen + [0, 0])[:3])))  # type: ignore[arg-type]
    nodes = np.array([i for i in ids if i >= CONST_CAP], np.int32)
    signs = Signs(arena, nodes)
    values = draw.choice([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0], (5, 40))
    values[3:] = draw.choice([0.0, 1.0, 7.0], (2, 40))
    reals = Reals(arena, nodes, lambda wanted: values[-1 - wanted])
    found = reals.of(nodes)
    sizes = np.abs(np.nan_to_num(reals.values, posinf=np.inf, neginf=np.inf))
    fine = ~((sizes > 1e3) | ((sizes < 1e-100) & (sizes != 0))).any(axis=0)  # float64 holds what the operators make of such values
    assert not (signs.has(nodes, DEFINED)[:, None] & np.isnan(found) & fine).any()
    assert not (signs.has(nodes, NONNEGATIVE)[:, None] & (found < 0) & fine).any()
    assert not (signs.has(nodes, NONZERO)[:, None] & (found == 0) & fine).any()
