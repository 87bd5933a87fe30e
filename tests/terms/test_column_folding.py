"""One column operation is as many scalar ones: wherever constants stand, each lane folds as it would alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptx_engine.terms import NAN, NEG_INF, ONE, POS_INF, UNDEF, ZERO, Arena, Op
from ptx_engine.terms.storage import CONST_CAP

BINARY: dict[str, Callable[[Arena], Callable]] = {
    "add": lambda a: a.add, "sub": lambda a: a.sub, "mul": lambda a: a.mul, "div": lambda a: a.div, "max": lambda a: a.maximum,
    "min": lambda a: a.minimum, "lt": lambda a: lambda x, y: a.compare(Op.LT, x, y),
}  # fmt: skip
#: operands by name: special constants, other numbers, inputs
OPERANDS = ["0", "1", "inf", "-inf", "nan", "undef", "3", "-3/2", "x", "y"]


def arena_with_operands() -> tuple[Arena, dict[str, int]]:
    arena = Arena()
    base = arena.add_input("t", 2, "f32").base
    ids = {"0": ZERO, "1": ONE, "inf": POS_INF, "-inf": NEG_INF, "nan": NAN, "undef": UNDEF, "x": -1 - base, "y": -2 - base}
    return arena, {**ids, "3": arena.rational(3), "-3/2": arena.div(arena.rational(-3), arena.rational(2))}


def text(arena: Arena, ident: int) -> object:
    """A term as a nested tuple."""
    if ident < 0:
        return f"input {-1 - ident}"
    if ident < CONST_CAP:
        return arena.consts[ident]
    op, a, b, c = arena.node(ident)
    count = {Op.FMA: 3, Op.NEG: 1}.get(op, 2)
    return (op, *(text(arena, x) for x in (a, b, c)[:count]))


def compare(make: Callable[[Arena], Callable], rows: list[tuple[str, ...]], uniform: set[int], shape: tuple[int, ...]) -> None:
    """Apply an operation to columns (operands at ``uniform`` places are one int) and lane by lane."""
    arena, ids = arena_with_operands()
    columns = [
        ids[rows[0][i]] if i in uniform else np.array([ids[r[i]] for r in rows], np.int32).reshape(shape) for i in range(len(rows[0]))
    ]
    result = np.asarray(make(arena)(*columns))
    lane_arena, lane_ids = arena_with_operands()
    lanes = [make(lane_arena)(*(lane_ids[rows[0][i] if i in uniform else r[i]] for i in range(len(r)))) for r in rows]
    assert result.shape == shape
    assert [text(arena, int(x)) for x in result.ravel()] == [text(lane_arena, int(x)) for x in lanes]


@settings(deadline=None)
@given(
    st.sampled_from(sorted(BINARY)),
    st.lists(st.tuples(*[st.sampled_from(OPERANDS)] * 2), min_size=4, max_size=4),
    st.sampled_from([set(), {0}, {1}]),
)
def test_binary(name: str, rows: list[tuple[str, str]], uniform: set[int]) -> None:
    for shape in ((4,), (2, 2)):
        compare(BINARY[name], rows, uniform, shape)


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.sampled_from(OPERANDS)] * 3), min_size=3, max_size=3), st.sampled_from([set(), {0}, {2}, {0, 1}, {1, 2}]))
def test_fma(rows: list[tuple[str, str, str]], uniform: set[int]) -> None:
    compare(lambda arena: arena.fma, rows, uniform, (3,))


@pytest.mark.parametrize("constant", OPERANDS[:8])
@pytest.mark.parametrize("name", BINARY)
def test_a_constant_beside_inputs(name: str, constant: str) -> None:
    """The usual case, which is not grouped by lanes: a uniform constant and a column without any."""
    compare(BINARY[name], [("x", constant), ("y", constant)], {1}, (2,))
    compare(BINARY[name], [(constant, "x"), (constant, "y")], {0}, (2,))
