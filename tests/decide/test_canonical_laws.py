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
