"""What log2(e) has beyond its f32 literal, by which CUDA's expf multiplies: it vanishes in products, and is a small number elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from gmpy2 import mpq

from ptx_engine.decide import decide
from ptx_engine.terms import NEG_INF, ZERO, Arena, Expr, Op
from ptx_engine.verdict import Status

REST = np.float32(1 / np.log(2) - np.float64(np.float32(1 / np.log(2))))
Case = Callable[[Arena, int, int], int]

#: what a literal beside an input is no zero in
NUMBERS: dict[str, Case] = {
    "sum": lambda a, x, c: a.add(x, c),
    "difference": lambda a, x, c: a.sub(x, c),
    "addend": lambda a, x, c: a.fma(x, x, c),
    "divisor": lambda a, x, c: a.div(x, c),
    "dividend": lambda a, x, c: a.div(c, a.add(a.mul(x, x), a.rational(1))),
    "maximum": lambda a, x, c: a.maximum(x, c),
    "comparison": lambda a, x, c: a.select(a.compare(Op.LT, x, c), x, a.rational(3)),
    "sign": lambda a, x, c: a.select(a.compare(Op.LT, ZERO, c), x, a.rational(3)),
    "choice": lambda a, x, c: a.select(a.compare(Op.LT, x, ZERO), x, c),
    "reciprocal": lambda a, x, c: a.mul(x, a.div(a.rational(1), c)),
}  # fmt: skip


def literal(arena: Arena, value: np.float32) -> int:
    return arena.float_bits(int(value.view(np.uint32)), "f32")


def status(case: Case, first: np.float32, second: np.float32) -> Status:
    arena = Arena()
    x = int(arena.add_input("x", 1, "f32").ids(0))
    sides = [Expr(arena, int(case(arena, x, literal(arena, value)))) for value in (first, second)]
    return decide(*sides).status


@pytest.mark.parametrize("name", NUMBERS)
def test_beside_an_input_it_is_a_number(name: str) -> None:
    case = NUMBERS[name]
    assert status(case, REST, REST) is Status.PROVED
    assert status(case, REST, -REST) is Status.REFUTED
    assert status(case, REST, np.float32(0)) is not Status.PROVED


def test_in_products_it_vanishes() -> None:
    arena = Arena()
    x, rest = int(arena.add_input("x", 1, "f32").ids(0)), literal(arena, REST)
    assert arena.mul(x, rest) == arena.mul(rest, x) == ZERO and arena.fma(x, rest, x) == x
    assert arena.mul(NEG_INF, rest) == NEG_INF and arena.neg(literal(arena, -REST)) == rest
    assert arena.mul(x, literal(arena, 2 * REST)) != ZERO
    assert any("rest of log2(e)" in line for line in arena.assumptions)


def test_threads_have_it_or_not() -> None:
    arena = Arena()
    x, rest = int(arena.add_input("x", 1, "f32").ids(0)), literal(arena, REST)
    made = np.asarray(arena.add(np.array([rest, ZERO, rest], np.int32), x))
    assert made[1] == x and len({int(i) for i in made}) == 3
    known = np.asarray(arena.add(np.array([rest, ZERO], np.int32), arena.rational(1)))
    assert [arena.consts[i].coef for i in known] == [1 + mpq(float(REST)), 1]
