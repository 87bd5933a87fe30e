"""Rows of a causal mask: told apart at once, walked together, and each proved for itself."""

from __future__ import annotations

import numpy as np
import pytest

from ptx_engine.decide import sessions
from ptx_engine.decide.budget import ProofBudget
from ptx_engine.decide.sessions import Outcome, Session
from ptx_engine.decide.walk import Walker
from ptx_engine.terms import Arena, Op

ROWS, COLUMNS, KEYS = 6, 4, 24


def attention(arena: Arena, shifted: bool, wrong: int | None) -> np.ndarray:
    """Softmax of the first keys of each row times values, one thread's loop: ids (rows * columns). The row ``wrong`` leaves its last
    key out of the denominator."""
    scores, values = arena.inputs
    outputs = []
    for row in range(ROWS):
        keys = range(KEYS - ROWS + row)
        mine = [int(scores.ids(row * KEYS + key)) for key in keys]
        top = mine[0]
        for score in mine[1:]:
            top = int(arena.maximum(top, score))
        weights = [int(arena.exp(arena.sub(score, top) if shifted else score)) for score in mine]
        total, sums = weights[0], np.array(arena.mul(np.full(COLUMNS, weights[0], np.int32), values.ids(np.arange(COLUMNS))), np.int32)
        for key in keys[1:]:
            if not (row == wrong and key == keys[-1]):
                total = int(arena.add(total, weights[key]))
            sums = arena.emit_column(
                Op.FMA, COLUMNS, np.full(COLUMNS, weights[key], np.int32), values.ids(key * COLUMNS + np.arange(COLUMNS)), sums
            )
        outputs.append(arena.div(sums, np.full(COLUMNS, total, np.int32)))
    return np.concatenate(outputs)


def proved(wrong: int | None, monkeypatch: pytest.MonkeyPatch) -> tuple[list[bool], int]:
    """Which rows are proved, all their columns alike, and how many walks that took."""
    walks: list[int] = []
    original = Walker.run
    monkeypatch.setattr(Walker, "run", lambda self, roots: (walks.append(len(roots)), original(self, roots))[1])
    arena = Arena()
    arena.add_input("scores", ROWS * KEYS, "f32")
    arena.add_input("values", KEYS * COLUMNS, "f32")
    sides = attention(arena, False, None), attention(arena, True, wrong)
    results = Session(arena, *sides, ProofBudget(20, 5_000_000, 0), float("inf"), allowance=500_000).run()
    outcome = {int(member): result.outcome is Outcome.EQUAL for result in results for member in result.members}
    assert sorted(outcome) == list(range(ROWS * COLUMNS))
    rows = [{outcome[row * COLUMNS + column] for column in range(COLUMNS)} for row in range(ROWS)]
    assert all(len(row) == 1 for row in rows)
    return [row.pop() for row in rows], len(walks)


def test_rows_of_different_lengths_are_walked_together(monkeypatch: pytest.MonkeyPatch) -> None:
    assert proved(None, monkeypatch) == ([True] * ROWS, 3)  # all outputs, which split; the first class; the others


@pytest.mark.parametrize("wrong", range(ROWS))
def test_a_wrong_row_among_right_ones_is_not_proved(monkeypatch: pytest.MonkeyPatch, wrong: int) -> None:
    expected = [row != wrong for row in range(ROWS)]
    assert proved(wrong, monkeypatch)[0] == expected
    with monkeypatch.context() as patch:
        patch.setattr(sessions, "_TOGETHER", 1 << 30)
        assert proved(wrong, patch)[0] == expected
