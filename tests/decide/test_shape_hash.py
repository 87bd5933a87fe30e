"""Hashes of runs of single emissions, in batches of chains or one by one, are those of the columns' evaluators."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ptx_engine.decide import lone_chains, shape_hash
from ptx_engine.decide.shape_hash import ShapeHash
from ptx_engine.terms import Arena, Op
from ptx_engine.terms.arena import CONST_CAP

PLACE = st.integers(0, 40)
STEPS = st.lists(
    st.tuples(st.sampled_from([Op.ADD, Op.SUB, Op.MUL, Op.FMA, Op.FMA, Op.EXP2, Op.DIV, Op.MAX, Op.NEG]), PLACE, PLACE, PLACE), max_size=60
)


def arena_of(steps: list[tuple[Op, int, int, int]]) -> Arena:
    """A program's values: each step takes earlier ones, counted from the last; a column in the middle parts two runs."""
    arena = Arena()
    x = arena.add_input("x", 5, "f32")
    made = [-1 - x.base - i for i in range(5)] + [arena.rational(3)]
    for number, (op, *places) in enumerate(steps):
        used = 1 if op in (Op.EXP2, Op.NEG) else 3 if op is Op.FMA else 2
        a, b, c = [made[-1 - place % len(made)] if i < used else 0 for i, place in enumerate(places)]
        made.append(arena.emit_scalar(op, a, b, c))
        if number == 20:
            made += arena.emit_column(Op.MUL, 2, made[-1], made[-2]).tolist()
    arena.flush()
    return arena


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_runs_of_single_emissions(monkeypatch: pytest.MonkeyPatch, steps: list[tuple[Op, int, int, int]]) -> None:
    arena = arena_of(steps)
    with monkeypatch.context() as patch:
        patch.setattr(shape_hash, "LEAST_RUN", 1 << 30)
        expected = ShapeHash(arena).values.tolist()
    for fewest in (0, 1 << 30):  # always in batches, never
        with monkeypatch.context() as patch:
            patch.setattr(lone_chains, "_FEW", fewest)
            assert ShapeHash(arena).values.tolist() == expected


def test_another_order_of_a_sum_is_alike_and_another_sum_is_not() -> None:
    chains = [[(Op.FMA, 5, 4, 0)] * 9 + [(Op.ADD, i, 1, 0)] for i in (0, 0, 1)]
    first, second, third = (ShapeHash(arena_of(chain)).values[-1] for chain in chains)
    assert first == second != third


def batches_of(arena: Arena) -> int:
    """How many batches the single emissions of an arena make."""
    op, a, b, c = (column[CONST_CAP:] for column in arena.columns())
    found = lone_chains.batches(op, (a, b, c), np.where(op == Op.FMA, c, a), CONST_CAP)
    assert found is not None
    assert sorted(np.concatenate([chosen for chosen, _ in found]).tolist()) == list(range(len(op)))
    return len(found)


def test_sums_that_one_loop_keeps_are_one_batch_and_rescaled_ones_are_not() -> None:
    plain, rescaled = Arena(), Arena()
    for arena, factor in ((plain, False), (rescaled, True)):
        x = arena.add_input("x", 64, "f32")
        sums = [-1 - x.base - i for i in range(8)]
        for k in range(8, 64):
            value = arena.emit_scalar(Op.EXP2, -1 - x.base - k, 0, 0)
            for i, total in enumerate(sums):
                kept = arena.emit_scalar(Op.MUL, total, value, 0) if factor else total
                sums[i] = arena.emit_scalar(Op.FMA, value, -1 - x.base - i, kept)
    assert batches_of(plain) == 2  # exponentials, then all sums
    assert batches_of(rescaled) > 56


@pytest.mark.parametrize("op", [Op.LT, Op.LE])
@pytest.mark.parametrize("turned", [0, 1, 2])
def test_selections_by_their_own_comparison_are_alike_to_extremes(op: Op, turned: int) -> None:
    arena = Arena()
    x, y, z = arena.add_input("x", 3, "f32").ids(np.arange(3)).tolist()
    condition = arena.compare(op, x, y)
    for _ in range(turned):
        condition = arena.emit(Op.NOT, condition)
    least, most, other = (int(arena.emit(Op.ITE, condition, *chosen)) for chosen in ((x, y), (y, x), (x, z)))
    if turned == 1:
        least, most = most, least
    low, high = int(arena.minimum(x, y)), int(arena.maximum(x, y))
    values = ShapeHash(arena).values
    assert values[least] == values[low] and values[most] == values[high]
    assert len({int(values[i]) for i in (low, high, other)}) == 3
