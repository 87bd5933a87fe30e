"""Matrix products onto an accumulator that is infinite: masked scores of attention."""

from __future__ import annotations

import numpy as np
import pytest

from ptx_engine.terms.arena import NEG_INF, POS_INF, ZERO, Arena


def operands(arena: Arena) -> tuple[np.ndarray, np.ndarray]:
    rows, cols = (np.asarray(arena.add_input(name, 8, "f32").ids(np.arange(8))).reshape(1, 2, 4) for name in "AB")
    return rows, cols


@pytest.mark.parametrize("infinity", [NEG_INF, POS_INF])
def test_an_infinite_accumulator_stays_infinite(infinity: int) -> None:
    arena = Arena()
    rows, cols = operands(arena)
    acc = np.array([[[infinity, ZERO], [ZERO, infinity]]], np.int32)
    ids = arena.dot(rows, cols, acc)
    assert ids[0, 0, 0] == ids[0, 1, 1] == infinity
    assert (ids[0, [0, 1], [1, 0]] > 10_000).all()  # the others are products


def test_an_infinity_among_the_factors_decides_nothing() -> None:
    arena = Arena()
    rows, cols = operands(arena)
    rows[0, 0, 0] = POS_INF  # -inf + inf * b has no value
    ids = arena.dot(rows, cols, np.full((1, 2, 2), NEG_INF, np.int32))
    assert (ids[0, 0] != NEG_INF).all()
    assert (ids[0, 1] == NEG_INF).all()


def test_what_vanishes_is_remembered() -> None:
    arena = Arena()
    rows, cols = operands(arena)
    rows[0, 0, 0] = arena.div(int(rows[0, 0, 1]), int(rows[0, 0, 2]))  # type: ignore[call-overload]
    arena.dot(rows, cols, np.full((1, 2, 2), NEG_INF, np.int32))
    assert any(int(rows[0, 0, 0]) in column for column in arena.dropped)
