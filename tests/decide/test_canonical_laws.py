"""Canonical forms against exact arithmetic: terms of one form have one value at every point, whatever they are made of."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptx_engine.decide.budget import Meter, ProofBudget
from ptx_engine.decide.canonical import Canonical
from ptx_engine.decide.columns import Columns
from ptx_engine.decide.dot_lists import DotLists
from ptx_engine.decide.walk import Walker
from ptx_engine.terms import Arena, Op

_VARIABLES = 3
_POINTS = [tuple(Fraction(random.Random(7 * p + v).randint(-40, 40), 1 + (p + v) % 5) for v in range(_VARIABLES)) for p in range(8)]
_VALUE = {
    Op.ADD: lambda x, y: x + y, Op.SUB: lambda x, y: x - y, Op.MUL: lambda x, y: x * y, Op.NEG: lambda x: -x,
    Op.FMA: lambda x, y, z: x * y + z, Op.MAX: max, Op.MIN: min,
}  # fmt: skip
_MAKE = {
    Op.ADD: Arena.add, Op.SUB: Arena.sub, Op.MUL: Arena.mul, Op.NEG: Arena.neg, Op.FMA: Arena.fma, Op.MAX: Arena.maximum, Op.MIN: Arena.minimum,
}  # fmt: skip


def _canonical(arena: Arena, roots: list[int]) -> tuple[Canonical, list[int]]:
    meter = Meter(ProofBudget(), float("inf"))
    template = Walker(arena, Columns(1), meter, True, lambda: DotLists(arena.dots, lambda ids: ids)).run(np.array(roots, np.int32)[:, None])
    return Canonical(arena, template, meter), template.roots


@settings(max_examples=120)
@given(st.integers(0, 10**9))
def test_equal_forms_have_equal_values(seed: int) -> None:
    rng = random.Random(seed)
    arena = Arena()
    arena.add_input("x", _VARIABLES, "f32")
    ops = list(_VALUE) if seed % 2 else [Op.MAX, Op.MIN]
    values = {-1 - v: [point[v] for point in _POINTS] for v in range(_VARIABLES)}
    for _ in range(60 if seed % 2 else 12):  # few variables and few operators: many terms are equal
        op = rng.choice(ops)
        operands = [rng.choice(list(values)) for _ in range(1 if op is Op.NEG else 3 if op is Op.FMA else 2)]
        term = int(_MAKE[op](arena, *operands))
        values[term] = [_VALUE[op](*point) for point in zip(*(values[n] for n in operands))]
    terms = [n for n in values if n < 0 or arena.node(n)[0] is not Op.CONST]
    terms = rng.sample(terms, min(len(terms), 8 + len(terms) // 4))  # the others are seen through
    canonical, roots = _canonical(arena, terms)
    for (x, i), (y, j) in combinations(zip(terms, roots), 2):
        assert not canonical.equal(i, j) or values[x] == values[y]


def _selection(arena: Arena, op: Op, turned: int, compared: tuple[int, int], chosen: tuple[int, int]) -> int:
    condition = arena.compare(op, *compared)
    for _ in range(turned):
        condition = arena.emit(Op.NOT, condition)
    return int(arena.emit(Op.ITE, condition, *chosen))


@settings(max_examples=120)
@given(st.integers(0, 10**9))
def test_selections_of_one_form_have_equal_values(seed: int) -> None:
    """Values chosen by comparing two values, the same two as often as not, beside maxima and minima."""
    rng = random.Random(seed)
    arena = Arena()
    arena.add_input("x", _VARIABLES, "f32")
    values = {-1 - v: [point[v] for point in _POINTS] for v in range(_VARIABLES)}
    for _ in range(16):
        pair, other = rng.choices(list(values), k=2), rng.choices(list(values), k=2)
        if rng.random() < 0.3:
            op = rng.choice((Op.MAX, Op.MIN))
            values[int(_MAKE[op](arena, *pair))] = [_VALUE[op](*point) for point in zip(*(values[n] for n in pair))]
            continue
        op, turned = rng.choice((Op.LT, Op.LE, Op.EQ)), rng.randrange(3)
        chosen = rng.choice((pair, pair[::-1], other))
        term = _selection(arena, op, turned, tuple(pair), tuple(chosen))
        points = zip(*(values[n] for n in (*pair, *chosen)))
        holds = {Op.LT: lambda x, y: x < y, Op.LE: lambda x, y: x <= y, Op.EQ: lambda x, y: x == y}[op]
        values[term] = [x if holds(p, q) != bool(turned % 2) else y for p, q, x, y in points]
    terms = [n for n in values if n < 0 or arena.node(n)[0] is not Op.CONST]
    canonical, roots = _canonical(arena, terms)
    for (x, i), (y, j) in combinations(zip(terms, roots), 2):
        assert not canonical.equal(i, j) or values[x] == values[y]


@pytest.mark.parametrize("op", [Op.LT, Op.LE])
@pytest.mark.parametrize("turned", [0, 1, 2])
def test_choosing_by_comparing_is_a_maximum_or_minimum(op: Op, turned: int) -> None:
    arena = Arena()
    x, y = (int(i) for i in arena.add_input("x", 2, "f32").ids(np.arange(2)))
    least, most = _selection(arena, op, turned, (x, y), (x, y)), _selection(arena, op, turned, (x, y), (y, x))
    if turned == 1:
        least, most = most, least
    other = _selection(arena, op, turned, (x, int(arena.neg(y))), (x, y))
    terms = [least, most, other, int(arena.minimum(x, y)), int(arena.maximum(x, y))]
    canonical, roots = _canonical(arena, terms)
    equal = {(i, j) for i, j in combinations(range(5), 2) if canonical.equal(roots[i], roots[j])}
    assert equal == {(0, 3), (1, 4)}


@pytest.mark.parametrize("make", [Arena.add, Arena.maximum, Arena.minimum])
def test_trees_of_one_operator_have_one_form_in_any_shape(make: object) -> None:
    rng = random.Random(1)
    arena = Arena()
    leaves = [int(n) for n in np.ravel(arena.add_input("x", 40, "f32").ids(np.arange(40)))]

    def tree(members: list[int]) -> int:
        members = list(members)
        while len(members) > 1:
            x, y = (members.pop(rng.randrange(len(members))) for _ in range(2))
            members.append(int(make(arena, x, y)))  # type: ignore[operator]
        return members[0]

    roots = [tree(leaves), tree(leaves), tree(leaves[1:])]
    canonical, (first, second, shorter) = _canonical(arena, roots)
    assert canonical.equal(first, second)
    assert not canonical.equal(first, shorter)
