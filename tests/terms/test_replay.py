"""A term emitted again in another arena has the same value at the same numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptx_engine.decide.oracle import Reals
from ptx_engine.terms import Arena, Op
from ptx_engine.terms.replay import replayed

UNARY, BINARY, COMPARE = (Op.NEG, Op.ABS, Op.EXP2, Op.TANH, Op.FLOOR), (Op.ADD, Op.SUB, Op.MUL, Op.MAX, Op.MIN), (Op.LT, Op.LE)
STEPS = st.lists(st.tuples(st.sampled_from([*UNARY, *BINARY, *COMPARE, Op.ITE]), *[st.integers(0, 30)] * 3), min_size=1, max_size=15)


def built(arena, leaves, steps):
    """Numbers and conditions from a list of steps; the last number."""
    numbers, conditions = list(leaves), [arena.compare(Op.LT, leaves[0], leaves[1])]
    for op, i, j, k in steps:
        x, y = numbers[i % len(numbers)], numbers[j % len(numbers)]
        if op in COMPARE:
            conditions.append(arena.compare(op, x, y))
        elif op is Op.ITE:
            numbers.append(arena.select(conditions[k % len(conditions)], x, y))
        else:
            numbers.append(arena.emit(op, x) if op in UNARY else arena.emit(op, x, y))
    return numbers[-1]


@given(STEPS, st.integers(0, 2**31))
def test_values_are_kept(steps, seed):
    source, target = Arena(), Arena()
    target.add_input("other", 5, "f32")
    x, y = source.add_input("x", 2, "f32"), target.add_input("y", 6, "f32")
    root = built(source, [int(x.ids(0)), int(x.ids(1)), source.rational(3)], steps)
    columns = (y.ids(np.arange(3)), y.ids(np.arange(3, 6)))
    found = replayed(source, root, target, {int(x.ids(0)): columns[0], int(x.ids(1)): columns[1]})
    numbers = np.random.default_rng(seed).normal(0, 1, (11, 3))
    with np.errstate(all="ignore"):
        mine = np.broadcast_to(Reals(target, np.atleast_1d(found), lambda ids: numbers[-1 - ids]).of(np.atleast_1d(found)), (3, 3))
        for lane in range(3):
            given = numbers[[5 + lane, 8 + lane]]
            theirs = Reals(source, np.array([root]), lambda ids, given=given: given[-1 - ids]).of(np.array([root]))
            np.testing.assert_array_equal(theirs[0], mine[lane])


def test_what_cannot_be_replayed_says_so():
    arena = Arena()
    x = arena.add_input("x", 4, "f32")
    with pytest.raises(KeyError):
        replayed(arena, int(x.ids(1)), Arena(), {int(x.ids(0)): 1})
    root = int(arena.nary(Op.NSUM, x.ids(np.arange(4)).reshape(1, 4))[0])
    with pytest.raises(ValueError):
        replayed(arena, root, Arena(), {int(x.ids(i)): 1 for i in range(4)})


def test_opaque_operations_keep_their_names():
    source, target = Arena(), Arena()
    x = int(source.add_input("x", 1, "f32").ids(0))
    source.opaque("another", x)
    y = int(target.add_input("y", 1, "f32").ids(0))
    found = int(replayed(source, int(source.opaque("bits", x)), target, {x: y}))
    op, a, _, name = target.node(found)
    assert (op, a, target.opaque_names[name]) == (Op.OPAQUE, y, "bits")
