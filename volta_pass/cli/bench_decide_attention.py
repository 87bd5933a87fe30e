"""Attention for ``bench decide``: the textbook's softmax, one key after the other, against flash attention by blocks of keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from gmpy2 import mpq

from ptx_engine.terms.arena import NEG_INF, ZERO, Arena
from ptx_engine.terms.constants import Const
from ptx_engine.terms.ops import Op
from volta_pass.cli.bench_decide_emit import Problem, chain, fragments, problem, product, sequence, tensor, tree, wide


@dataclass(frozen=True)
class Shape:
    """Queries, keys and head dimension of one tile; ``block`` keys are taken at a time.

    A causal tile's queries are the last ones; each of them sees a key of every block (a block without one has no maximum).
    """

    rows: int
    keys: int
    depth: int
    block: int
    causal: bool = False


@dataclass(frozen=True)
class _Inputs:
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    #: softmax scale, and the same in base 2
    scale: int
    scale2: int


def _inputs(arena: Arena, shape: Shape) -> _Inputs:
    q = tensor(arena, "Q", "f16", shape.rows, shape.depth)
    k, v = (tensor(arena, name, "f16", shape.keys, shape.depth) for name in ("K", "V"))
    return _Inputs(q, k, v, arena.rational(mpq(1, 8)), arena.const(Const(mpq(1, 8), log2e=1)))


def _masked(shape: Shape, scores: np.ndarray, first: int) -> np.ndarray:
    """Scores of keys from ``first`` on, those after the query's own position put to minus infinity."""
    position = np.arange(shape.rows)[:, None] + shape.keys - shape.rows
    key = first + np.arange(scores.shape[1])[None, :]
    return np.where(key <= position, scores, np.int32(NEG_INF)) if shape.causal else scores


def textbook(arena: Arena, x: _Inputs, shape: Shape) -> np.ndarray:
    """exp(s) / sum exp(s) times v, without a maximum, every sum a loop: what one thread runs."""
    scores = _masked(shape, np.asarray(arena.mul(chain(arena, x.q, x.k), x.scale)), 0)
    weights = np.asarray(arena.exp(scores))
    total = sequence(arena.add, weights)
    return np.asarray(arena.div(chain(arena, weights, x.v.T), total[:, None]))


def tile_program(arena: Arena, x: _Inputs, shape: Shape) -> np.ndarray:
    """softmax(s) v with the maximum subtracted, in operations on whole tiles."""
    scores = _masked(shape, np.asarray(arena.mul(product(arena, x.q, x.k), x.scale)), 0)
    top = wide(arena, Op.NMAX, scores)
    weights = np.asarray(arena.exp(arena.sub(scores, top[:, None])))
    shares = np.asarray(arena.div(weights, wide(arena, Op.NSUM, weights)[:, None]))
    return product(arena, shares, x.v.T)


def flash1(arena: Arena, x: _Inputs, shape: Shape) -> np.ndarray:
    """Flash attention 1: the output is normalised after every block."""
    top, total = np.full(shape.rows, NEG_INF, np.int32), np.full(shape.rows, ZERO, np.int32)
    out: np.ndarray | int = ZERO
    for first in range(0, shape.keys, shape.block):
        weights, new, partial = _block(arena, x, shape, first)
        joined = np.asarray(arena.maximum(top, new))
        old, fresh = (np.asarray(arena.exp(arena.sub(part, joined))) for part in (top, new))
        kept = np.asarray(arena.mul(total, old))
        total = np.asarray(arena.fma(partial, fresh, kept))
        value = fragments(arena, weights, x.v[first : first + shape.block].T)
        mixed = arena.fma(np.broadcast_to(fresh[:, None], value.shape), value, arena.mul(kept[:, None], out))
        out, top = arena.div(mixed, total[:, None]), joined
    return np.asarray(out)


def _block(arena: Arena, x: _Inputs, shape: Shape, first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights of one block of keys under its own maximum, the maximum, and their sum."""
    keys = x.k[first : first + shape.block]
    scores = _masked(shape, np.asarray(arena.mul(fragments(arena, x.q, keys), x.scale)), first)
    top = tree(arena.maximum, scores)
    weights = np.asarray(arena.exp(arena.sub(scores, top[:, None])))
    return weights, top, tree(arena.add, weights)


def flash2(arena: Arena, x: _Inputs, shape: Shape) -> np.ndarray:
    """Flash attention 2: base 2, one running maximum, one division at the end."""
    top, total = np.full(shape.rows, NEG_INF, np.int32), np.full(shape.rows, ZERO, np.int32)
    out = np.full((shape.rows, shape.depth), ZERO, np.int32)
    for first in range(0, shape.keys, shape.block):
        scores = _masked(shape, fragments(arena, x.q, x.k[first : first + shape.block]), first)
        joined = np.asarray(arena.maximum(top, tree(arena.maximum, scores)))
        shift = np.asarray(arena.mul(joined, x.scale2))
        weights = np.asarray(arena.exp2(arena.sub(arena.mul(scores, x.scale2), shift[:, None])))
        old = np.asarray(arena.exp2(arena.sub(arena.mul(top, x.scale2), shift)))
        total = np.asarray(arena.fma(total, old, tree(arena.add, weights)))
        out = fragments(arena, weights, x.v[first : first + shape.block].T, np.asarray(arena.mul(out, old[:, None])))
        top = joined
    return np.asarray(arena.div(out, total[:, None]))


def flash1_problem(shape: Shape) -> Problem:
    """The textbook against flash attention 1."""
    arena = Arena()
    x = _inputs(arena, shape)
    return problem(arena, textbook(arena, x, shape), flash1(arena, x, shape))


def flash2_problem(shape: Shape) -> Problem:
    """The textbook against flash attention 2."""
    arena = Arena()
    x = _inputs(arena, shape)
    return problem(arena, textbook(arena, x, shape), flash2(arena, x, shape))


def tile_problem(shape: Shape) -> Problem:
    """A tile program's softmax against flash attention 2."""
    arena = Arena()
    x = _inputs(arena, shape)
    return problem(arena, tile_program(arena, x, shape), flash2(arena, x, shape))
