"""Matrix products put together from fragments: tensor-core instructions emit many small products of one large tile.

Fragments with the same left operand become one product over their joined right operands, and likewise on the other side.
Operands are compared id by id after a hash brought them together, so that values do not depend on luck.
"""

from __future__ import annotations

import numpy as np

_SEED = 0x7113

#: multiplications per matrix product call: above 2^18 OpenBLAS hands out work to threads, which costs more than it brings
#: at these sizes, and stalls where other processes (a compiler's workers) hold the cores
_SMALL = 1 << 18


def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``x @ y`` for stacks of float64 matrices (..., M, K), (..., K, N), in calls that stay on one thread."""
    m, k, n = x.shape[-2], x.shape[-1], y.shape[-1]
    if m * n * k <= _SMALL:
        return np.asarray(x @ y)
    step_k = min(k, 256)
    step = max(16, int((_SMALL // step_k) ** 0.5))
    out = np.zeros((*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), m, n))
    for i in range(0, m, step):
        for j in range(0, n, step):
            for q in range(0, k, step_k):
                out[..., i : i + step, j : j + step] += x[..., i : i + step, q : q + step_k] @ y[..., q : q + step_k, j : j + step]
    return out


def joined(
    ids: np.ndarray, rows: np.ndarray, cols: np.ndarray, acc: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(n,M,N), (n,M,K), (n,N,K), (n,M,N) -> the same products in fewer, larger pieces, and for each new piece the fragments in it.

    Returns ids, rows, cols, acc and an index array (pieces, fragments per piece).
    """
    index = np.arange(len(ids))[:, None]
    groups = _groups(rows)
    if groups is not None:
        rows = rows[groups[:, 0]]
        cols = cols[groups].reshape(len(groups), -1, cols.shape[-1])
        ids, acc = (x[groups].swapaxes(1, 2).reshape(len(groups), x.shape[1], -1) for x in (ids, acc))
        index = index[groups].reshape(len(groups), -1)
    groups = _groups(cols)
    if groups is not None:
        cols = cols[groups[:, 0]]
        rows = rows[groups].reshape(len(groups), -1, rows.shape[-1])
        ids, acc = (x[groups].reshape(len(groups), -1, x.shape[2]) for x in (ids, acc))
        index = index[groups].reshape(len(groups), -1)
    return ids, rows, cols, acc, index


def _groups(operands: np.ndarray) -> np.ndarray | None:
    """Indices (groups, size) of fragments with equal operands, if all groups have one size above 1; else None."""
    count = len(operands)
    if count < 2:
        return None
    flat = operands.reshape(count, -1)
    words = flat.view(np.int64) if flat.shape[1] % 2 == 0 and flat.flags.c_contiguous else flat.astype(np.int64)
    weights = np.random.default_rng(_SEED).integers(-(2**62), 2**62, words.shape[1], dtype=np.int64) | 1
    hashes = words @ weights  # wraps on purpose
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    starts = np.flatnonzero(np.concatenate((np.ones(1, bool), ordered[1:] != ordered[:-1])))
    size, rest = divmod(count, len(starts))
    if size < 2 or rest or (np.diff(starts) != size).any():
        return None
    groups = order.reshape(-1, size)
    groups = groups[np.argsort(groups[:, 0])]
    first = flat[groups[:, 0]]
    same = all((flat[groups[:, j]] == first).all() for j in range(1, size))
    return groups if same else None
