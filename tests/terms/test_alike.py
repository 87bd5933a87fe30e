"""Terms built alike: emitted twice they are two ids; one leaf, constant or plain number that differs parts them."""

import numpy as np
import pytest
from gmpy2 import mpq
from hypothesis import given
from hypothesis import strategies as st

from ptx_engine.terms import Arena, Const, Op
from ptx_engine.terms.alike import built_alike

UNARY, BINARY = (Op.NEG, Op.EXP2, Op.ABS), (Op.ADD, Op.MUL, Op.LT, Op.BITXOR)


def build(arena, leaves, program, column=None):
    """Emit a program of (op, operand positions) over leaves; returns the last value."""
    values = list(leaves)
    for op, *where in program:
        picked = [values[i % len(values)] for i in where]
        values.append(arena.emit(op, *picked[: 1 if op in UNARY else 3 if op is Op.ITE else 2]))
    return values[-1]


PROGRAMS = st.lists(st.tuples(st.sampled_from([*UNARY, *BINARY, Op.ITE]), *[st.integers(0, 50)] * 3), min_size=1, max_size=20)


@given(PROGRAMS)
def test_a_program_emitted_twice_is_built_alike(program):
    arena = Arena()
    x = arena.add_input("x", 6, "f32")
    first, second = (build(arena, [x.ids(np.arange(3)), x.ids(np.arange(3, 6))], program) for _ in range(2))
    assert (first != second).all()
    assert built_alike(arena, first, second).all()


@given(PROGRAMS, st.integers(0, 19))
def test_another_operator_anywhere_on_the_way_parts_them(program, position):
    """The changed step is made the operand of all later steps, so that the result depends on it."""
    position %= len(program)
    chain = [(op, -1, *rest) for op, _, *rest in program]
    changed = [*chain[:position], (Op.SUB, *chain[position][1:]), *chain[position + 1 :]]
    arena = Arena()
    x = arena.add_input("x", 6, "f32")
    first, second = (build(arena, [x.ids(np.arange(3)), x.ids(np.arange(3, 6))], steps) for steps in (chain, changed))
    assert not built_alike(arena, first, second).any()


def test_each_position_has_its_own_answer():
    arena = Arena()
    x = arena.add_input("x", 8, "f32").ids(np.arange(8))
    other = x.copy()
    other[5] = x[0]
    twice = [arena.emit(Op.ADD, arena.emit(Op.EXP2, column), x) for column in (x, other)]
    assert built_alike(arena, *twice).tolist() == [i != 5 for i in range(8)]


def test_plain_operands_count():
    arena = Arena()
    x = arena.add_input("x", 4, "s32").ids(np.arange(4))
    low, low_again, high = arena.emit(Op.FIELD, x, 0, 8), arena.emit(Op.FIELD, x, 0, 8), arena.emit(Op.FIELD, x, 8, 8)
    assert built_alike(arena, low, low_again).all() and not built_alike(arena, low, high).any()
    assert not built_alike(arena, arena.emit(Op.OPAQUE, x, x, 1), arena.emit(Op.OPAQUE, x, x, 2)).any()


def test_records_are_alike_only_as_the_same_node():
    arena = Arena()
    x = arena.add_input("x", 4, "f32").ids(np.arange(4))
    sums = [arena.nary(Op.NSUM, x.reshape(1, 4)) for _ in range(2)]
    assert built_alike(arena, sums[0], sums[0]).all() and not built_alike(arena, *sums).any()


@pytest.mark.parametrize(("most", "alike"), [(200, True), (199, False), (1, False), (0, False)])
def test_what_takes_too_many_pairs_is_not_called_alike(most, alike, monkeypatch):
    """Two towers of 100 levels over two leaves are 200 pairs."""
    monkeypatch.setattr("ptx_engine.terms.alike._PAIRS", most)
    arena = Arena()
    x = arena.add_input("x", 2, "f32").ids(np.arange(2))
    towers = []
    for _ in range(2):
        tower = x
        for _ in range(100):
            tower = arena.emit(Op.EXP2, tower)
        towers.append(tower)
    assert built_alike(arena, *towers).tolist() == [alike, alike]


@pytest.mark.parametrize("wrong", [None, 3])
def test_what_is_deep_and_shared_is_compared_once(wrong):
    """200 levels of 32 lanes, each adding its neighbour at a distance that doubles: every lane is above all others a few levels down. One
    lane with another constant, far below, parts all lanes."""
    arena = Arena()
    x = arena.add_input("x", 32, "f32").ids(np.arange(32))

    def network(fault):
        constants = [arena.const(Const(mpq(2 if i == fault else 3))) for i in range(32)]
        value = arena.mul(x, np.array(constants, np.int32))
        for level in range(200):
            value = arena.add(value, arena.neg(np.roll(value, 1 << level % 5)))
        return np.asarray(value)

    alike = built_alike(arena, network(None), network(wrong))
    assert alike.all() if wrong is None else not alike.any()
