"""Matrix products for ``bench decide``: one thread's loop against tensor-core fragments, split sums and padded convolutions."""

from __future__ import annotations

import numpy as np

from ptx_engine.terms.arena import ZERO, Arena
from volta_pass.cli.bench_decide_emit import FRAGMENT_DEPTH, Problem, chain, fragments, problem, tensor

#: parts that the candidate's sum over K is split into
_SPLIT = 2


def matmul_problem(rows: int, cols: int, depth: int) -> Problem:
    """alpha * A B + beta * C: a chain of multiply-adds against fragments in two halves of K, added at the end."""
    arena = Arena()
    a, b, c = tensor(arena, "A", "f16", rows, depth), tensor(arena, "B", "f16", depth, cols), tensor(arena, "C", "f32", rows, cols)
    alpha, beta = (int(tensor(arena, name, "f32", 1)[0]) for name in ("alpha", "beta"))
    reference = arena.fma(chain(arena, a, b.T), alpha, arena.mul(c, beta))
    parts = [fragments(arena, a[:, half], b.T[:, half]) for half in _halves(depth)]
    candidate = arena.fma(c, beta, arena.mul(arena.add(*parts), alpha))
    return problem(arena, np.asarray(reference), np.asarray(candidate))


def _halves(depth: int) -> list[slice]:
    step = depth // _SPLIT
    return [slice(i * step, (i + 1) * step) for i in range(_SPLIT)]


def conv_problem(channels: int, pixels: int, depth: int, size: int = 11, stride: int = 4) -> Problem:
    """The first convolution of AlexNet, one row of an image: loops over the window against an implicit matrix product.

    ``depth`` = 3 * size * size products each; the candidate pads them to whole fragments with zeros.
    """
    arena = Arena()
    planes = depth // (size * size)
    width = stride * (pixels - 1) + size
    image, weight = tensor(arena, "X", "f16", planes, size, width), tensor(arena, "W", "f16", channels, depth)
    windows = np.stack([image[:, :, stride * p : stride * p + size].reshape(-1) for p in range(pixels)])
    reference = chain(arena, weight, windows)
    padded = -(-depth // FRAGMENT_DEPTH) * FRAGMENT_DEPTH
    extra = ((0, 0), (0, padded - depth))
    filters, patches = (np.pad(x, extra, constant_values=ZERO) for x in (weight, windows))
    return problem(arena, reference, fragments(arena, filters, patches))
