"""Terms of a known shape are read as functions: all of the shape must be there, in every lane that is replaced."""

from __future__ import annotations

import numpy as np
import pytest

from ptx_engine.terms.arena import NEG_INF, POS_INF, Arena
from ptx_engine.terms.ops import Op
from ptx_engine.terms.patterns import Guard, Pattern


def shape(arena, x, factor=2, name="bits", last=None):
    """x == 0 ? -inf : factor * bits(x) + x."""
    body = arena.add(arena.mul(arena.rational(factor), arena.opaque(name, x)), x if last is None else last)
    return arena.select(arena.compare(Op.EQ, x, 0), NEG_INF, body)


@pytest.fixture
def pattern():
    arena = Arena()
    leaf = -1 - arena.add_input("x", 1, "f32").base
    return Pattern(arena, shape(arena, leaf), leaf, lambda target, x: target.log2(x), "it is a logarithm")


@pytest.fixture
def arena(pattern):
    arena = Arena()
    arena.opaque("other", arena.rational(1))  # names are numbered differently here
    arena.patterns = [pattern]
    return arena


def test_a_column_of_the_shape_is_the_function(arena):
    x = arena.add_input("a", 3, "f32").ids(np.arange(3))
    ids = shape(arena, arena.add(x, arena.rational(1)))
    assert {arena.node(int(i))[0] for i in ids} == {Op.LOG2} and "it is a logarithm" in arena.assumptions
    assert arena.node(shape(arena, int(x[0])))[:2] == (Op.LOG2, int(x[0]))


@pytest.mark.parametrize("changed", [{"factor": 3}, {"name": "other"}, {"last": 1}])
def test_any_difference_leaves_it_as_it_is(arena, changed):
    x = arena.add_input("a", 3, "f32").ids(np.arange(3))
    assert {arena.node(int(i))[0] for i in shape(arena, x, **changed)} == {Op.ITE} and not arena.assumptions


def test_lanes_are_judged_one_by_one(arena):
    x = arena.add_input("a", 2, "f32").ids(np.arange(2))
    ids = shape(arena, x, last=np.array([int(x[0]), int(x[0])], np.int32))
    assert [arena.node(int(i))[0] for i in ids] == [Op.LOG2, Op.ITE]


def test_what_is_no_term_of_one_input_is_no_pattern():
    arena = Arena()
    x, y = (-1 - arena.add_input(name, 1, "f32").base for name in "xy")
    for root, leaf in ((shape(arena, x, last=y), x), (shape(arena, x), y)):
        with pytest.raises(ValueError):
            Pattern(arena, root, leaf, lambda target, ids: ids, "")


@pytest.fixture
def guard():
    source = Arena()
    leaf = -1 - source.add_input("x", 1, "f32").base
    return Guard(Pattern(source, source.compare(Op.EQ, leaf, 0), leaf, lambda target, x: x, ""))


def guarded(arena, x, rest, low=NEG_INF):
    arena.patterns, kept = [], arena.patterns
    made = arena.select(arena.compare(Op.EQ, x, 0), low, rest)
    arena.patterns = kept
    return made


def test_a_guard_of_arithmetic_on_a_logarithm_falls(guard):
    arena = Arena()
    x = arena.add_input("a", 3, "f32").ids(np.arange(3))
    for rest in (arena.log2(x), arena.add(arena.mul(arena.log2(x), arena.rational(3)), x), arena.neg(arena.div(arena.log2(x), x))):
        assert (guard.replaced(arena, guarded(arena, x, rest)) == rest).all()
        assert guard.replaced(arena, int(guarded(arena, x, rest)[1])) == rest[1]


def test_any_other_guard_stands(guard):
    arena = Arena()
    x, y = arena.add_input("a", 2, "f32").ids(np.arange(2))
    one = arena.rational(1)
    for made in (
        guarded(arena, x, arena.log2(y)),
        guarded(arena, x, x),
        guarded(arena, x, arena.log2(x), low=one),
        guarded(arena, x, arena.log2(x), low=POS_INF),
        guarded(arena, x, arena.exp2(arena.log2(x))),
        guarded(arena, arena.add(x, one), arena.log2(x)),
        guarded(arena, x, arena.maximum(arena.log2(x), y)),
    ):
        assert arena.node(int(made))[0] is Op.ITE and guard.replaced(arena, int(made)) == made
