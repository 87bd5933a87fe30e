"""Terms built alike: emitted twice they are two ids; one leaf, constant or plain number that differs parts them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ptx_engine.terms import Arena, Op
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


def test_what_is_too_deep_is_not_called_alike():
    arena = Arena()
    x = arena.add_input("x", 2, "f32").ids(np.arange(2))
    towers = []
    for _ in range(2):
        tower = x
        for _ in range(100):
            tower = arena.emit(Op.EXP2, tower)
        towers.append(tower)
    assert not built_alike(arena, *towers).any()
