"""Terms that stand twice are merged, and only those: replicated warps, butterflies, and near misses of both."""

from __future__ import annotations

import numpy as np
import pytest

from ptx_engine.decide.cuts import find_cuts
from ptx_engine.decide.shape_hash import ShapeHash
from ptx_engine.decide.twins import find_twins
from ptx_engine.terms import ZERO, Arena, Op


def _column(arena: Arena, name: str, count: int) -> np.ndarray:
    return np.asarray(arena.add_input(name, count, "f32").ids(np.arange(count)))


def _warps(arena: Arena, a: np.ndarray, b: np.ndarray, acc: np.ndarray) -> np.ndarray:
    """exp2(a @ b.T + acc) for stacks of warps: a (W, M, K), b (W, N, K), acc (W, M, N)."""
    product = arena.dot(a, b, acc)
    return np.asarray(arena.exp2(arena.mul(product, arena.rational(3))))


@pytest.mark.parametrize("differs", ["nothing", "a row", "a column", "an accumulator"])
def test_replicated_warps_are_one(differs: str) -> None:
    arena = Arena()
    x, y, z = _column(arena, "x", 32), _column(arena, "y", 16), _column(arena, "z", 16)
    a = np.stack([x[:16].reshape(4, 4), x[16:].reshape(4, 4)] * 2)
    b, acc = np.stack([y.reshape(4, 4)] * 4), np.stack([z.reshape(4, 4)] * 4)
    for what, operands in (("a row", a), ("a column", b), ("an accumulator", acc)):
        if differs == what:
            operands[3, 1, 2] = int(x[0])
    out = _warps(arena, a, b, acc)
    twin = find_twins(arena, ShapeHash(arena).values)
    assert (twin[out[2]] == out[0]).all()
    assert (twin[out[:2]] == out[:2]).all()
    equal = twin[out[3]] == out[1]
    # a row holds four results, so does a column; an accumulator one. Products are compared as wholes: all sixteen are kept apart
    assert equal.all() if differs == "nothing" else not equal.any()


def test_order_matters_where_it_does() -> None:
    arena = Arena()
    x, y = _column(arena, "x", 4), _column(arena, "y", 4)
    swapped = {op: (arena.emit(op, x, y), arena.emit(op, y, x)) for op in (Op.ADD, Op.MUL, Op.MAX, Op.SUB, Op.DIV, Op.LT)}
    fused = arena.fma(x, y, int(x[0])), arena.fma(y, x, int(x[0])), arena.fma(x, int(x[0]), y)
    twin = find_twins(arena, ShapeHash(arena).values)
    for op, (one, two) in swapped.items():
        assert (twin[two] == twin[one]).all() == (op in (Op.ADD, Op.MUL, Op.MAX)), op
    assert (twin[fused[1]] == twin[fused[0]]).all()
    assert (twin[np.asarray(fused[2])[1:]] != twin[np.asarray(fused[0])[1:]]).all()


def test_a_hash_that_calls_everything_equal_merges_nothing_unequal() -> None:
    """Values at random inputs (float64, from the definition) of what is merged are the same bits."""
    rng = np.random.default_rng(5)
    arena = Arena()
    x = _column(arena, "x", 8)
    pool, values = [x], [rng.uniform(1, 2, 8)]
    for _ in range(60):
        i, j = rng.integers(0, min(len(pool), 8), 2)
        op = (Op.ADD, Op.MUL, Op.SUB, Op.MAX)[int(rng.integers(0, 4))]
        lanes = np.arange(8) ^ int(rng.integers(0, 2))
        pool.append(np.asarray(arena.emit(op, pool[i], pool[j][lanes])))
        u, v = values[i], values[j][lanes]
        values.append({Op.ADD: u + v, Op.MUL: u * v, Op.SUB: u - v, Op.MAX: np.maximum(u, v)}[op])
    known = dict(zip(np.concatenate(pool).tolist(), np.concatenate(values).tolist()))
    for keys in (np.zeros(len(arena), np.uint64), ShapeHash(arena).values):
        twin = find_twins(arena, keys)
        merged = np.flatnonzero(twin != np.arange(len(twin)))
        assert all(known[int(twin[i])] == known[int(i)] and twin[i] < i for i in merged)
    assert len(merged) > 10


def test_wide_reductions_and_functions_with_plain_operands() -> None:
    arena = Arena()
    x = _column(arena, "x", 8)
    sums = arena.nary(Op.NSUM, np.stack([x, x, x[::-1]]))
    wrapped = [np.asarray(arena.emit(Op.WRAP, x, width)) for width in (8, 8, 16)]
    twin = find_twins(arena, ShapeHash(arena).values)
    assert twin[sums[1]] == sums[0] and twin[sums[2]] == sums[2]
    assert (twin[wrapped[1]] == wrapped[0]).all() and (twin[wrapped[2]] != wrapped[0]).all()


def test_sides_are_not_merged_with_each_other_and_cuts_count_each_term_once() -> None:
    arena = Arena()
    x, y = _column(arena, "x", 64 * 8).reshape(64, 8), _column(arena, "y", 64 * 8).reshape(64, 8)

    def side(copies: int) -> np.ndarray:
        """Scores by ``copies`` replicated groups of threads, of which the first writes."""
        zero = np.full((copies, 64, 64), ZERO, np.int32)
        weights = _warps(arena, np.stack([x] * copies), np.stack([y] * copies), zero)
        total = arena.nary(Op.NSUM, weights)
        return np.asarray(arena.div(weights, np.broadcast_to(total[..., None], weights.shape)))[-1]

    reference, candidate = side(1), side(2)
    cuts = find_cuts(arena, reference.ravel(), candidate.ravel())
    assert cuts is not None
    boundary = int(reference.max())
    assert (cuts.members <= boundary).sum() == (cuts.members > boundary).sum()
