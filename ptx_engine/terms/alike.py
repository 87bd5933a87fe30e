"""Whether the terms of two columns are built alike: the same operators over the same inputs, although emitted twice.

An answer of False may be wrong (only so many levels are compared, records not at all), an answer of True is not.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ptx_engine.terms.ops import TABLE, Op
from ptx_engine.terms.storage import CONST_CAP, Storage

#: levels that are compared, and pairs in one level for each pair asked about
_LEVELS, _FRONTIER = 24, 64

#: operators whose operands stand elsewhere: alike only as the same id
_RECORDS = (Op.DOT, Op.NSUM, Op.NMAX, Op.NMIN)


def built_alike(arena: Storage, x: np.ndarray, y: np.ndarray) -> npt.NDArray[np.bool_]:
    """For each position of two columns (1-D, the same length) whether its two terms are built alike."""
    ops, *operands = arena.columns()
    alike = np.ones(x.size, bool)
    pairs = np.stack([x.astype(np.int64), y.astype(np.int64), np.arange(x.size)])
    for _ in range(_LEVELS):
        pairs = np.unique(pairs[:, (pairs[0] != pairs[1]) & alike[pairs[2]]], axis=1)
        if not pairs.shape[1]:
            return alike
        if pairs.shape[1] > _FRONTIER * x.size:
            break
        leaves = (pairs[:2] < CONST_CAP).any(axis=0)
        kinds = ops[np.where(leaves, 0, pairs[:2])]
        differ = leaves | (kinds[0] != kinds[1]) | np.isin(kinds[0], _RECORDS)
        alike[pairs[2, differ]] = False
        below = []
        for op in np.unique(kinds[0][~differ]):
            here = pairs[:, ~differ & (kinds[0] == op)]
            for slot, column in enumerate(operands):
                left, right = column[here[0]], column[here[1]]
                if "abc"[slot] in TABLE[Op(op)].plain:
                    alike[here[2][left != right]] = False
                elif slot < TABLE[Op(op)].arity:
                    below.append(np.stack([left, right, here[2]]))
        pairs = np.concatenate(below, axis=1) if below else pairs[:, :0]
    alike[pairs[2]] = False
    return alike
