"""Which stored terms have the same bits in every schedule: built alike, up to the order of commutative operands.

Two lanes of a butterfly reduction compute x + y and y + x; IEEE addition is commutative, so the bits are equal, although
the terms are two. Nothing is reassociated: sums in another tree shape may round differently.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptx_engine.decide.levels import Mode, Step, plan
from ptx_engine.terms import CONST_CAP, TABLE, Arena, Op

#: concrete bits are told to the order checker as ``BITS_BASE + bits``, term ids as they are
BITS_BASE = 1 << 40

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(x: np.ndarray) -> np.ndarray:
    """A 64-bit finaliser (the constants are those of SplitMix64)."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def same_value_keys(arena: Arena) -> Callable[[np.ndarray], np.ndarray]:
    """A function from stored values (int64, any shape) to uint64 keys, equal where the values are equal in every schedule."""

    def keys(values: np.ndarray) -> np.ndarray:
        flat = values.ravel()
        is_term = flat < BITS_BASE
        result = mix(flat.astype(np.uint64) + _GOLDEN)
        terms, inverse = np.unique(flat[is_term].astype(np.int32), return_inverse=True)
        if terms.size:
            result[is_term] = _term_keys(arena, terms)[inverse]
        return result.reshape(values.shape)

    return keys


def _term_keys(arena: Arena, ids: np.ndarray) -> np.ndarray:
    """Structural hashes of terms; operands of ``+ * max min`` in any order."""
    walk = plan(arena, ids, Mode.CONE)
    table = np.zeros(walk.size, np.uint64)
    table[:CONST_CAP] = mix(np.arange(CONST_CAP, dtype=np.uint64) + _GOLDEN)

    def of(operands: np.ndarray) -> np.ndarray:
        inputs = mix(operands.astype(np.int64).astype(np.uint64))
        return np.where(operands < 0, inputs, table[np.maximum(operands, 0)])

    with np.errstate(over="ignore"):
        for step in reversed(walk.steps):
            table[step.ids.ravel()] = _node_keys(step, of).ravel()
        return of(ids)


def _node_keys(step: Step, of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    seed = mix(np.full(1, int(step.op) + 1, np.uint64))
    if step.rows is not None and step.cols is not None and step.c is not None:
        weights = mix(np.arange(step.rows.shape[-1], dtype=np.uint64) * _GOLDEN + np.uint64(1))
        products = mix(of(step.rows[:, :, None, :]) * _GOLDEN + mix(of(step.cols[:, None, :, :]))) * weights
        return mix(products.sum(axis=-1, dtype=np.uint64) + mix(of(step.c)) * np.uint64(3) + seed)
    if step.operands is not None:
        weights = mix(np.arange(step.operands.shape[-1], dtype=np.uint64) * _GOLDEN + np.uint64(1))
        return mix((of(step.operands) * weights).sum(axis=-1, dtype=np.uint64) + seed)
    return _plain_keys(step, of, seed)


def _plain_keys(step: Step, of: Callable[[np.ndarray], np.ndarray], seed: np.ndarray) -> np.ndarray:
    row = TABLE[step.op]
    operands: list[np.ndarray] = []
    for slot, (name, column) in enumerate(zip("abc", (step.a, step.b, step.c))):
        if column is None:
            continue
        operands.append(of(column) if slot < row.arity and name not in row.plain else mix(column.astype(np.uint64) + _GOLDEN))
    total = np.broadcast_to(seed, step.ids.shape).copy()
    if step.op is Op.FMA:  # the factors commute
        return mix(mix(operands[0] + operands[1] + mix(operands[0]) * mix(operands[1])) + mix(operands[2]) * np.uint64(5) + total)
    if row.commutative:
        return mix(operands[0] + operands[1] + mix(operands[0]) * mix(operands[1]) + total)
    for i, column in enumerate(operands):
        total = mix(total + mix(column) * np.uint64(2 * i + 3))
    return total
