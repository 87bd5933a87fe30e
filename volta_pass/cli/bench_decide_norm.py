"""Layer normalisation for ``bench decide``: two passes against moments, Welford's recurrence and Chan's merging of blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from gmpy2 import mpq

from ptx_engine.terms.arena import ZERO, Arena
from volta_pass.cli.bench_decide_emit import Problem, problem, sequence, tensor, tree

#: (arena, x) -> mean and variance
Moments = Callable[[Arena, np.ndarray], "tuple[int, int]"]
#: threads among which Chan's candidate deals the row
THREADS = 32


def two_passes(arena: Arena, x: np.ndarray) -> tuple[int, int]:
    """The mean, then the mean of squared deviations, summed by a loop."""
    share = arena.rational(mpq(1, len(x)))
    mean = int(np.asarray(arena.mul(int(sequence(arena.add, x)), share)))
    deviations = np.asarray(arena.sub(x, mean))
    return mean, int(np.asarray(arena.mul(int(sequence(arena.add, np.asarray(arena.mul(deviations, deviations)))), share)))


def moments(arena: Arena, x: np.ndarray) -> tuple[int, int]:
    """E[x^2] - E[x]^2, both summed by trees."""
    share = arena.rational(mpq(1, len(x)))
    mean = arena.mul(int(tree(arena.add, x)), share)
    square = arena.mul(int(tree(arena.add, np.asarray(arena.mul(x, x)))), share)
    return int(np.asarray(mean)), int(np.asarray(arena.sub(square, arena.mul(mean, mean))))


def welford(arena: Arena, x: np.ndarray) -> tuple[int, int]:
    """Welford's recurrence, one value after the other."""
    mean, total = int(x[0]), ZERO
    for n, value in enumerate(x[1:].tolist(), 2):
        before = arena.sub(value, mean)
        mean = int(np.asarray(arena.fma(before, arena.rational(mpq(1, n)), mean)))
        total = int(np.asarray(arena.fma(before, arena.sub(value, mean), total)))
    return mean, int(np.asarray(arena.mul(total, arena.rational(mpq(1, len(x))))))


def chan(arena: Arena, x: np.ndarray) -> tuple[int, int]:
    """Threads run Welford's recurrence over their share of the row; a tree of Chan's formula merges them."""
    shares = x.reshape(-1, THREADS)
    mean, total = shares[0], np.full(THREADS, ZERO, np.int32)
    for n, values in enumerate(shares[1:], 2):
        before = np.asarray(arena.sub(values, mean))
        mean = np.asarray(arena.fma(before, arena.rational(mpq(1, n)), mean))
        total = np.asarray(arena.fma(before, arena.sub(values, mean), total))
    count = len(shares)
    while len(mean) > 1:
        half = len(mean) // 2
        gap = np.asarray(arena.sub(mean[half:], mean[:half]))
        mean = np.asarray(arena.fma(gap, arena.rational(mpq(1, 2)), mean[:half]))
        total = np.asarray(arena.fma(arena.mul(gap, gap), arena.rational(mpq(count, 2)), arena.add(total[half:], total[:half])))
        count *= 2
    return int(mean[0]), int(np.asarray(arena.mul(int(total[0]), arena.rational(mpq(1, len(x))))))


def layer_norm_problem(candidate: Moments, length: int) -> Problem:
    """(x - mean) / sqrt(variance + eps) * w + b over one row: two passes and a division against another's moments and rsqrt."""
    arena = Arena()
    x, w, b = (tensor(arena, name, "f32", length) for name in ("x", "w", "b"))
    eps = arena.rational(mpq(1, 100_000))
    mean, variance = two_passes(arena, x)
    root = arena.sqrt(arena.add(variance, eps))
    reference = arena.add(arena.mul(arena.div(arena.sub(x, mean), root), w), b)
    mean, variance = candidate(arena, x)
    scale = arena.div(arena.rational(1), arena.sqrt(arena.add(variance, eps)))
    result = arena.fma(arena.mul(arena.sub(x, mean), scale), w, b)
    return problem(arena, np.asarray(reference), np.asarray(result))
