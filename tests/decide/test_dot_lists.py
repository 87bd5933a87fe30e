"""Operand lists of products by number: equal content, equal number, whatever record it stands in; and what the walk makes of it."""

from __future__ import annotations

import numpy as np
import pytest

import ptx_engine.decide.dot_lists as dot_lists
from ptx_engine.decide.budget import ProofBudget
from ptx_engine.decide.dot_lists import DotLists
from ptx_engine.decide.templates import Outcome, prove_columns
from ptx_engine.terms import ZERO, Arena


def _same(ids: np.ndarray) -> np.ndarray:
    return ids


def _inputs(arena: Arena, name: str, rows: int, depth: int) -> np.ndarray:
    return np.asarray(arena.add_input(name, rows * depth, "f16").ids(np.arange(rows * depth))).reshape(rows, depth)


def _fragments(arena: Arena, a: np.ndarray, b: np.ndarray, rows: int, cols: int, depth: int) -> np.ndarray:
    """a @ b.T in fragments of rows x cols x depth."""
    total = np.full((len(a), len(b)), ZERO, np.int32)
    for k in range(0, a.shape[1], depth):
        for i in range(0, len(a), rows):
            for j in range(0, len(b), cols):
                piece = np.s_[i : i + rows, j : j + cols]
                left, right = (np.ascontiguousarray(x[None, :, k : k + depth]) for x in (a[i : i + rows], b[j : j + cols]))
                total[piece] = arena.dot(left, right, total[piece][None].copy())[0]
    return total


def test_equal_lists_have_one_number_in_all_records() -> None:
    arena = Arena()
    a, b = _inputs(arena, "a", 4, 4), _inputs(arena, "b", 6, 4)
    ids = _fragments(arena, a, b, 2, 3, 2)
    lists = DotLists(arena.dots, _same)
    record = arena.columns()[1][ids].astype(np.int64)
    acc, rows, cols = lists.operands(record, ids)
    for i in range(4):
        for j in range(6):
            left, right, before = arena.dot_operands(int(ids[i, j]))
            assert lists.lists(rows[i, j : j + 1], 2)[0].tolist() == left.tolist()
            assert lists.lists(cols[i, j : j + 1], 2)[0].tolist() == right.tolist()
            assert acc[i, j] == before
    assert len(np.unique(rows)) == 4 and len(np.unique(cols)) == 6
    assert (rows == rows[:, :1]).all() and (cols == cols[:1]).all()


def test_depths_are_kept_apart_and_zeros_are_seen() -> None:
    arena = Arena()
    a, b = _inputs(arena, "a", 1, 4), _inputs(arena, "b", 1, 4)
    zero = np.full((1, 1, 1), ZERO, np.int32)
    short = arena.dot(a[None, :, :2], b[None, :, :2], zero)
    padded = np.array([[[int(a[0, 0]), int(a[0, 1]), ZERO, ZERO]]], np.int32)
    long = arena.dot(padded, b[None], short)
    lists = DotLists(arena.dots, _same)
    ids = np.array([int(short.item()), int(long.item())])
    _, rows, _ = lists.operands(np.array([0, 1]), ids)
    assert lists.depth_of[rows].tolist() == [2, 4] and lists.has_zero[rows].tolist() == [False, True]
    assert (lists.lists(rows, 4)[0] == lists.lists(rows, 4)[1]).all()  # filled up with zeros


def test_a_hash_collision_costs_nothing_but_merging(monkeypatch: pytest.MonkeyPatch) -> None:
    class Constant:
        def integers(self, low: int, high: int, size: int, dtype: type) -> np.ndarray:
            return np.zeros(size, dtype)

    monkeypatch.setattr(dot_lists.np.random, "default_rng", lambda seed: Constant())
    arena = Arena()
    a, b = _inputs(arena, "a", 2, 2), _inputs(arena, "b", 2, 2)
    ids = _fragments(arena, a, b, 2, 2, 2)
    lists = DotLists(arena.dots, _same)
    _, rows, cols = lists.operands(np.zeros((2, 2), np.int64), ids)
    assert lists.lists(rows[:, 0], 2).tolist() == a.tolist() and lists.lists(cols[0], 2).tolist() == b.tolist()


@pytest.mark.parametrize("swap", [False, True])
def test_fragments_of_any_shape_are_one_product_and_a_swapped_operand_is_not(swap: bool) -> None:
    arena = Arena()
    a, b = _inputs(arena, "a", 8, 12), _inputs(arena, "b", 8, 12)
    reference = _fragments(arena, a, b, 8, 8, 12)
    other = b.copy()
    if swap:
        other[5, [2, 3]] = b[5, [3, 2]]
    candidate = _fragments(arena, a, other, 4, 2, 4)
    results = prove_columns(arena, reference.ravel(), candidate.ravel(), ProofBudget(20))
    wrong = np.concatenate([r.members for r in results if r.outcome is not Outcome.EQUAL] or [np.zeros(0, np.int64)])
    assert sorted((wrong % 8).tolist()) == ([5] * 8 if swap else [])
