"""Integers that are chosen among constants by conditions, read as floats: each constant's bits are.

Compilers write ``x > 0 ? 1.0 : 0.0`` as a selection between two words.
"""

from __future__ import annotations

import numpy as np

from ptx_engine.isa.values import UINT, Fmt, const_part
from ptx_engine.terms import CONST_CAP, Arena, Ids, Op

#: selections within selections that are followed
_NESTED = 8


def chosen_floats(arena: Arena, ids: Ids, fmt: Fmt, depth: int = _NESTED) -> Ids | None:
    """Term ids of integers of ``fmt``'s width as that float; None where one is no selection among constants."""
    if fmt.bits not in UINT:
        return None
    flat = np.atleast_1d(np.asarray(ids, np.int32)).ravel()
    if not flat.size or int(flat.min()) < 0:
        return None
    result, constant = np.empty(flat.shape, np.int32), flat < CONST_CAP
    if constant.any():
        words = _words(arena, flat[constant], fmt.bits)
        if words is None:
            return None
        result[constant] = const_part(arena, words, fmt)
    if not constant.all():
        ops, conditions, left, right = arena.columns()
        nodes = flat[~constant]
        if depth == 0 or not bool((ops[nodes] == Op.ITE).all()):
            return None
        arms = [chosen_floats(arena, side[nodes], fmt, depth - 1) for side in (left, right)]
        if arms[0] is None or arms[1] is None:
            return None
        result[~constant] = arena.select(conditions[nodes], arms[0], arms[1])
    return int(result[0]) if isinstance(ids, int) else result.reshape(np.shape(ids))


def _words(arena: Arena, ids: np.ndarray, bits: int) -> np.ndarray | None:
    """Constants as words; None where one is no integer."""
    unique, inverse = np.unique(ids, return_inverse=True)
    table = [arena.consts[int(u)] for u in unique]
    if not all(c.is_rational and c.coef.denominator == 1 for c in table):
        return None
    return np.array([int(c.coef) & ((1 << bits) - 1) for c in table], UINT[bits])[inverse]
