"""The oracles against Python's and NumPy's own arithmetic: float64 columns, exact rationals, MPFR."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpq
from hypothesis import given, settings
from hypothesis import strategies as st

from ptx_engine.decide import oracle, precise
from ptx_engine.decide.oracle import Reals, integer_range, random_inputs
from ptx_engine.decide.precise import Cone
from ptx_engine.terms import NEG_INF, POS_INF, TABLE, Arena, Const, Ids, Op

#: real operators: what Python computes, and arguments inside the domain
REAL: dict[Op, tuple[Callable[..., float], tuple[float, ...]]] = {
    Op.ADD: (lambda x, y: x + y, (1.5, -0.25)),
    Op.SUB: (lambda x, y: x - y, (1.5, -0.25)),
    Op.MUL: (lambda x, y: x * y, (1.5, -0.25)),
    Op.DIV: (lambda x, y: x / y, (1.5, -0.25)),
    Op.NEG: (lambda x: -x, (1.5,)),
    Op.FMA: (lambda x, y, z: x * y + z, (1.5, -0.25, 3.0)),
    Op.MAX: (max, (1.5, -0.25)),
    Op.MIN: (min, (1.5, -0.25)),
    Op.ABS: (abs, (-1.5,)),
    Op.EXP2: (lambda x: 2.0**x, (1.375,)),
    Op.LOG2: (math.log2, (1.375,)),
    Op.SQRT: (math.sqrt, (1.375,)),
    Op.TANH: (math.tanh, (-0.625,)),
    Op.SIN: (math.sin, (-2.5,)),
    Op.COS: (math.cos, (-2.5,)),
    Op.ERF: (math.erf, (-0.75,)),
    Op.FLOOR: (math.floor, (-2.5,)),
    Op.CEIL: (math.ceil, (-2.5,)),
    Op.ROUND_EVEN: (round, (2.5,)),
    Op.TRUNC: (math.trunc, (-2.5,)),
    Op.POW: (math.pow, (1.5, 2.25)),
    Op.LT: (lambda x, y: float(x < y), (1.0, 1.0)),
    Op.LE: (lambda x, y: float(x <= y), (1.0, 1.0)),
    Op.EQ: (lambda x, y: float(x == y), (1.0, 1.0)),
    Op.NE: (lambda x, y: float(x != y), (1.0, 1.0)),
    Op.AND: (lambda x, y: float(bool(x) and bool(y)), (1.0, 0.0)),
    Op.OR: (lambda x, y: float(bool(x) or bool(y)), (1.0, 0.0)),
    Op.NOT: (lambda x: float(not x), (1.0,)),
    Op.ITE: (lambda c, x, y: x if c else y, (0.0, 1.5, -0.25)),
    Op.FLOORDIV: (lambda x, y: x // y, (-7.0, 2.0)),
    Op.TRUNCDIV: (lambda x, y: math.trunc(x / y), (-7.0, 2.0)),
    Op.TRUNCREM: (math.fmod, (-7.0, 2.0)),
    Op.BITAND: (lambda x, y: int(x) & int(y), (-6.0, 13.0)),
    Op.BITOR: (lambda x, y: int(x) | int(y), (-6.0, 13.0)),
    Op.BITXOR: (lambda x, y: int(x) ^ int(y), (-6.0, 13.0)),
    Op.SHL: (lambda x, y: int(x) << int(y), (-6.0, 3.0)),
    Op.SHR: (lambda x, y: int(x) >> int(y), (-7.0, 1.0)),
}
#: tested on their own below
OTHERS = {Op.CONST, Op.DOT, Op.NSUM, Op.NMAX, Op.NMIN, Op.WRAP, Op.FIELD, Op.OPAQUE}


def arena_of(count: int, fmt: str = "f32") -> tuple[Arena, np.ndarray]:
    arena = Arena()
    return arena, np.asarray(arena.add_input("x", count, fmt).ids(np.arange(count)))


def at(arena: Arena, output: Ids, x: np.ndarray, values: "list[float]") -> tuple[float, precise.Value]:
    """The output's value in float64 and from the precise evaluator at 200 bits."""
    node = int(np.asarray(output).ravel()[0])
    table = dict(zip(x.tolist(), values))
    real = Reals(arena, np.array([node]), lambda ids: np.array([[table[int(i)]] for i in ids]).reshape(-1, 1))
    exact = Cone(arena, [node]).evaluate({i: mpq(Fraction(v)) for i, v in table.items()}, 200)
    return float(real.of(np.array([node]))[0, 0]), exact[node]


def test_every_operator_has_every_evaluator() -> None:
    assert set(oracle.EVALUATORS) == set(TABLE)
    assert set(precise.EVALUATORS) | precise.STRUCTURAL == set(TABLE)
    assert set(REAL) | OTHERS == set(TABLE)


@pytest.mark.parametrize("op", list(REAL), ids=lambda op: op.name)
def test_operator(op: Op) -> None:
    function, arguments = REAL[op]
    arena, x = arena_of(3)
    node = arena.emit(op, *(int(i) for i in x[: TABLE[op].arity]))
    fast, exact = at(arena, node, x, [*arguments, 0.0, 0.0][:3])
    expected = float(function(*arguments))
    assert fast == pytest.approx(expected, rel=1e-15)
    assert float(exact) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(
    ("op", "arguments"),
    [(Op.DIV, (1.0, 0.0)), (Op.DIV, (0.0, 0.0)), (Op.LOG2, (-1.0,)), (Op.SQRT, (-4.0,)), (Op.POW, (-2.0, 0.5)), (Op.POW, (0.0, -1.0)),
     (Op.FLOORDIV, (1.0, 0.0)), (Op.TRUNCREM, (1.0, 0.0)), (Op.TRUNCDIV, (1.0, 0.0))],
)  # fmt: skip
def test_what_is_no_real_number_is_undefined(op: Op, arguments: tuple[float, ...]) -> None:
    arena, x = arena_of(3)
    node = arena.emit(op, *(int(i) for i in x[: TABLE[op].arity]))
    outer = arena.emit(Op.MAX, node, int(x[2]))  # and stays so under what could hide it
    fast, exact = at(arena, outer, x, [*arguments, 7.0, 7.0][:3])
    assert math.isnan(fast) and precise.is_nan(exact)


def test_select_ignores_the_other_side_and_nothing_else() -> None:
    arena, x = arena_of(3)
    undefined = arena.emit(Op.DIV, int(x[1]), int(x[2]))
    fast, exact = at(arena, arena.emit(Op.ITE, int(x[0]), int(x[1]), undefined), x, [1.0, 5.0, 0.0])
    assert fast == 5.0 and exact == 5
    fast, exact = at(arena, arena.emit(Op.ITE, int(x[0]), int(x[1]), undefined), x, [0.0, 5.0, 0.0])
    assert math.isnan(fast) and precise.is_nan(exact)
    fast, exact = at(arena, arena.emit(Op.ITE, undefined, int(x[1]), int(x[1])), x, [0.0, 5.0, 0.0])
    assert math.isnan(fast) and precise.is_nan(exact)


def test_special_constants() -> None:
    arena, x = arena_of(1)
    top = arena.emit(Op.MAX, NEG_INF, int(x[0]))
    fast, exact = at(arena, top, x, [2.5])
    assert fast == 2.5 and exact == mpq(5, 2)
    fast, exact = at(arena, arena.emit(Op.ADD, POS_INF, NEG_INF), x, [0.0])
    assert math.isnan(fast) and precise.is_nan(exact)
    constant = arena.const(Const(mpq(3, 4), log2e=-1, sqrt2=1, pi=2))
    fast, exact = at(arena, arena.emit(Op.MUL, constant, int(x[0])), x, [1.0])
    expected = 0.75 * math.log(2) * math.sqrt(2) * math.pi**2
    assert fast == pytest.approx(expected, rel=1e-15) and float(exact) == pytest.approx(expected, rel=1e-15)


def test_records() -> None:
    rng = np.random.default_rng(5)
    arena, x = arena_of(40)
    values = rng.integers(-8, 9, 40) / 4
    a, b = x[:15].reshape(1, 3, 5), x[15:35].reshape(1, 4, 5)
    acc = np.broadcast_to(x[35], (1, 3, 4)).astype(np.int32)
    expected = values[:15].reshape(3, 5) @ values[15:35].reshape(4, 5).T + values[35]
    product = arena.dot(a, b, acc)
    reals = Reals(arena, product, lambda ids: values[-1 - ids.astype(np.int64)][:, None])
    assert np.array_equal(reals.of(product.ravel())[:, 0].reshape(3, 4), expected)
    exact = Cone(arena, product.ravel()).evaluate({int(i): mpq(Fraction(v)) for i, v in zip(x, values)}, 64)
    assert [float(exact[int(i)]) for i in product.ravel()] == expected.ravel().tolist()
    for op, reduce in ((Op.NSUM, np.sum), (Op.NMAX, np.max), (Op.NMIN, np.min)):
        node = arena.nary(op, x[None, :35])
        fast, high = at(arena, node, x, values.tolist())
        assert fast == reduce(values[:35]) and float(high) == reduce(values[:35])


@given(st.integers(-(2**50), 2**50), st.integers(1, 32), st.booleans())
@settings(max_examples=60, deadline=None)
def test_wrap(value: int, width: int, signed: bool) -> None:
    arena, x = arena_of(1, "s64")
    low = value % 2**width
    expected = low - 2**width if signed and low >= 2 ** (width - 1) else low
    fast, exact = at(arena, arena.emit(Op.WRAP, int(x[0]), -width if signed else width), x, [float(value)])
    assert fast == expected and exact == expected


@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 31), st.integers(1, 16))
@settings(max_examples=60, deadline=None)
def test_field(value: int, lo: int, width: int) -> None:
    arena, x = arena_of(1, "s32")
    fast, exact = at(arena, arena.emit(Op.FIELD, int(x[0]), lo, width), x, [float(value)])
    expected = (value >> lo) & (2**width - 1)
    assert fast == expected and exact == expected


@given(st.integers(-(2**70), 2**70), st.integers(-(2**70), 2**70))
@settings(max_examples=40, deadline=None)
def test_integers_beyond_float64_are_exact_in_the_precise_evaluator(x: int, y: int) -> None:
    arena, ids = arena_of(2, "s64")
    a, b = (int(i) for i in ids)
    table = {Op.BITAND: x & y, Op.BITOR: x | y, Op.BITXOR: x ^ y, Op.MUL: x * y}
    if y:
        quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        table |= {Op.FLOORDIV: x // y, Op.TRUNCDIV: quotient, Op.TRUNCREM: x - y * quotient}
    for op, expected in table.items():
        node = int(np.asarray(arena.emit(op, a, b)))
        assert Cone(arena, [node]).evaluate({a: x, b: y}, 64)[node] == expected


def test_opaque_is_undefined() -> None:
    arena, x = arena_of(1)
    fast, exact = at(arena, arena.opaque("bits", int(x[0])), x, [1.0])
    assert math.isnan(fast) and precise.is_nan(exact)


def test_a_polynomial_is_exact_and_an_exponential_has_the_asked_precision() -> None:
    arena, x = arena_of(1)
    third = arena.div(int(x[0]), arena.rational(3))
    node = int(np.asarray(arena.mul(third, third)))
    assert Cone(arena, [node]).evaluate({int(x[0]): mpq(1)}, 53)[node] == mpq(1, 9)
    power = int(np.asarray(arena.exp(int(x[0]))))
    value = Cone(arena, [power]).evaluate({int(x[0]): mpq(1)}, 400)[power]
    with gmpy2.context(precision=500):
        assert abs(value - gmpy2.exp(gmpy2.mpfr(1))) < gmpy2.mpfr(2) ** -390


def test_no_overflow_in_the_precise_evaluator() -> None:
    arena, x = arena_of(1)
    quotient = arena.div(arena.exp(int(x[0])), arena.exp(arena.add(int(x[0]), arena.rational(1))))
    fast, exact = at(arena, quotient, x, [5000.0])
    assert math.isnan(fast)
    assert float(exact) == pytest.approx(math.exp(-1), rel=1e-15)


# --- points --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fmt", "low", "high"), [("s8", -128, 127), ("u4", 0, 15), ("s4", -8, 7), ("u8", 0, 255), ("pred", 0, 1)])
def test_integer_inputs_are_integers_in_range(fmt: str, low: int, high: int) -> None:
    assert integer_range(fmt) == (low, high)
    arena, x = arena_of(500, fmt)
    drawn = random_inputs(arena)(x)
    assert (drawn == np.floor(drawn)).all() and drawn.min() >= low and drawn.max() <= high
    assert len(np.unique(drawn[:, 0])) > min(high - low, 8) // 2


def test_float_inputs_repeat_and_differ_between_points_and_tensors() -> None:
    assert integer_range("f32") is None and integer_range("e4m3") is None
    arena, x = arena_of(64)
    y = np.asarray(arena.add_input("y", 64, "f32").ids(np.arange(64)))
    draw = random_inputs(arena, 3)
    assert np.array_equal(draw(x), random_inputs(arena, 3)(x))
    assert not np.array_equal(draw(x), draw(y))
    assert not np.array_equal(draw(x)[:, 0], draw(x)[:, 1])
    assert (draw(np.concatenate((x, y)))[:64] == draw(x)).all()
    assert (draw(x)[:, 2] > 0).all()
