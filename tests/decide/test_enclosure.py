"""Values between bounds: what they enclose, what they leave open, and the witnesses that they keep from being none."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import gmpy2
import pytest
from gmpy2 import mpfr, mpq
from normal_random import INPUTS, Terms
from test_oracle import REAL, arena_of

from ptx_engine.decide import decide, enclosure
from ptx_engine.decide.enclosure import Between, Enclosure, bounds, middle
from ptx_engine.decide.precise import Cone, is_nan
from ptx_engine.terms import TABLE, Arena, Const, Expr, Op, symbols
from ptx_engine.terms.arena import CONST_CAP, NEG_INF, POS_INF
from ptx_engine.terms.formulas import cos, erf, exp, floor, log, maximum, sin, tanh, where
from ptx_engine.verdict import Status

WIDE = {"emax": gmpy2.get_emax_max(), "emin": gmpy2.get_emin_min()}


def holds(enclosed: object, value: object) -> bool:
    low, high = bounds(enclosed)
    return bool(low <= value <= high)


def test_every_operator_has_an_evaluator() -> None:
    assert set(enclosure._EVALUATORS) | enclosure.WHOLE | enclosure.STRUCTURAL == set(TABLE)


@pytest.mark.parametrize("op", list(REAL), ids=lambda op: op.name)
@pytest.mark.parametrize("inexact", [False, True])
def test_an_operator(op: Op, inexact: bool) -> None:
    """Of rationals, and of values that are known to a few bits only (x + exp2(-1/3) - exp2(-1/3))."""
    if inexact and op in enclosure.WHOLE:
        return
    _, arguments = REAL[op]
    arena, x = arena_of(3)
    third = arena.exp2(arena.rational(mpq(-1, 3)))
    ids = [int(arena.sub(arena.add(int(i), third), third)) if inexact else int(i) for i in x[: TABLE[op].arity]]  # type: ignore[call-overload]
    node = int(arena.emit(op, *ids))  # type: ignore[call-overload]
    point = {int(i): mpq(Fraction(v)) for i, v in zip(x, [*arguments, 0, 0])}
    exact = Cone(arena, [int(arena.emit(op, *(int(i) for i in x[: TABLE[op].arity])))]).evaluate(point, 500)  # type: ignore[call-overload]
    found = Enclosure(Cone(arena, [node]), point, 64)[node]
    value = exact[max(exact)]
    if found is None:  # these bits do not tell: where it is compared, rounded or divided at its very value
        assert inexact and op in (Op.LE, Op.LT, Op.EQ, Op.NE, Op.FLOOR, Op.CEIL, Op.TRUNC, Op.ROUND_EVEN, Op.POW, Op.ITE)
        return
    assert holds(found, value)
    low, high = bounds(found)
    with gmpy2.context(precision=300, **WIDE):
        assert high - low <= mpfr(2) ** -54 * max(1, abs(low))


@pytest.mark.parametrize("seed", range(150))
def test_the_value_lies_between_the_bounds(seed: int) -> None:
    """Random terms at random points: 40 bits enclose what 600 bits say, which are so close to each other that they are right."""
    terms = Terms(seed)
    root = terms.term(5)
    cone = Cone(terms.arena, [root])
    known = 0
    for _ in range(6):
        point = {i: mpq(terms.rng.randint(-40, 40), 8) for i in INPUTS}
        coarse, fine = (Enclosure(cone, point, bits) for bits in (40, 600))
        for ident in (*cone.nodes, *cone.constants):
            a, b = coarse[ident], fine[ident]
            if a is None or b is None:
                continue
            if not isinstance(a, Between) and is_nan(a):
                assert not isinstance(b, Between) and is_nan(b)
            elif isinstance(b, Between) or not is_nan(b):
                (low, high), (least, most) = bounds(a), bounds(b)
                assert low <= least and most <= high
                known += 1
    assert known or root < CONST_CAP


def test_what_is_certain_and_what_is_not() -> None:
    arena, x = arena_of(2)
    a, b = (int(i) for i in x)
    third = arena.exp2(arena.div(a, arena.rational(3)))
    same = arena.exp2(arena.mul(a, arena.rational(mpq(1, 3))))

    def value(ident: object, at: int = 1) -> object:
        node = int(ident)  # type: ignore[call-overload]
        return Enclosure(Cone(arena, [node]), {a: mpq(at), b: mpq(0)}, 128)[node]

    def undefined(found: object) -> bool:
        return not isinstance(found, Between) and found is not None and is_nan(found)

    assert undefined(value(arena.div(third, b))) and undefined(value(arena.log2(arena.neg(third))))
    assert undefined(value(arena.sqrt(arena.neg(third)))) and undefined(value(arena.emit(Op.POW, arena.neg(third), third)))
    assert undefined(value(arena.emit(Op.ADD, POS_INF, NEG_INF))) and undefined(value(arena.opaque("f", a)))
    rest = arena.sub(arena.mul(third, third), arena.mul(same, same))  # zero, or nearly: no bits tell
    for made in (arena.div(a, rest), arena.log2(rest), arena.sqrt(rest), arena.unary(Op.FLOOR, rest), arena.compare(Op.LT, rest, 0)):
        assert value(made) is None
    assert value(arena.select(arena.compare(Op.LT, rest, 0), a, b)) is None
    assert value(arena.select(arena.compare(Op.LT, rest, 0), third, third)) is not None
    assert value(arena.select(arena.compare(Op.LT, rest, 1), a, arena.div(a, b))) == 1  # the other side has no value
    assert value(arena.compare(Op.LT, third, third)) == 0 and value(arena.compare(Op.LE, third, third)) == 1
    assert value(arena.sub(third, third)) == 0
    square = value(arena.mul(rest, rest))
    assert bounds(square)[0] == 0 and middle(square) == 0


@pytest.mark.parametrize("power", [1, -1, 3, 40, -7])
def test_symbolic_constants(power: int) -> None:
    arena = Arena()
    for const in (Const(mpq(5, 7), log2e=power), Const(mpq(-1), pi=power, sqrt2=1), Const(mpq(1), log2ten=power)):
        node = arena.const(const)
        found = Enclosure(Cone(arena, [node]), {}, 100)[node]
        assert isinstance(found, Between) and holds(found, const.value(1000)) and found.low < found.high
        with gmpy2.context(precision=300):
            assert found.high - found.low < abs(found.low) * mpfr(2) ** -97


# --- what is far below the last place of something else -------------------------------------------


def one(x: Expr) -> Expr:
    """1, which the prover does not know."""
    return 1 + sin(2 * x) - 2 * sin(x) * cos(x)


Case = Callable[[Expr, Expr], "tuple[Expr, Expr]"]
#: equal sides, one of which adds what vanishes beside a one at any precision that is tried
ABSORBED: dict[str, Case] = {
    "hyperbolic tangent near minus one": lambda x, y: ((1 + tanh(9000 * x)) * one(y), 2 / (1 + exp(-18000 * x))),
    "a branch on what is one, nearly": lambda x, y: (where(1 + exp(9000 * x) > 1, y, 0) * one(y), y),
    "a tail that is scaled up again": lambda x, y: ((1 + tanh(9000 * x)) * exp(-18000 * x) * one(y), 2 / (1 + exp(18000 * x))),
    "a logarithm near one": lambda x, y: (log(1 + exp(9000 * x)) * one(y), -log(1 / (1 + exp(9000 * x)))),
    "two of them": lambda x, y: (log(1 + exp(9000 * x)) - log(1 + exp(8000 * x)) * one(y), log((1 + exp(9000 * x)) / (1 + exp(8000 * x)))),
}  # fmt: skip


@pytest.mark.parametrize("name", ABSORBED)
def test_what_is_absorbed_is_no_witness(name: str) -> None:
    x, y = symbols("x y")  # type: ignore[misc]
    reference, candidate = ABSORBED[name](x, y)
    assert decide(reference, candidate).status is not Status.REFUTED


def test_a_step_that_no_precision_shows_is_left_open() -> None:
    """erf(900) is less than 1 by a number of a million zeros."""
    x, y = symbols("x y")  # type: ignore[misc]
    nearly = erf(900 + 900 * maximum(x, 0))
    assert decide(floor(2 + nearly) * one(y), 2 + floor(nearly)).status is Status.UNKNOWN
    assert decide(floor(2 + nearly) * one(y), 3 + floor(nearly)).status is Status.UNKNOWN
    assert decide(floor(2 + erf(x)) * one(y), 3 + floor(erf(x))).status is Status.REFUTED


@pytest.mark.parametrize("name", ABSORBED)
def test_with_a_fault_it_is_refuted(name: str) -> None:
    x, y = symbols("x y")  # type: ignore[misc]
    reference, candidate = ABSORBED[name](x, y)
    assert decide(reference, candidate * Fraction(1001, 1000)).status is Status.REFUTED
