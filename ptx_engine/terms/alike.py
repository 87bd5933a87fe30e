"""Whether the terms of two columns are built alike: the same operators over the same inputs, although emitted twice.

An answer of False may be wrong (only so many pairs are compared, records not at all), an answer of True is not.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ptx_engine.terms.ops import TABLE, Op
from ptx_engine.terms.storage import CONST_CAP, Storage

#: pairs of terms that are compared
_PAIRS = 1 << 20

#: operators whose operands stand elsewhere: alike only as the same id
_RECORDS = (Op.DOT, Op.NSUM, Op.NMAX, Op.NMIN)


def built_alike(arena: Storage, x: np.ndarray, y: np.ndarray) -> npt.NDArray[np.bool_]:
    """For each position of two columns (1-D, the same length) whether its two terms are built alike."""
    asked = _keys(x, y)
    known, differ, users, used = asked[:0], [], [], []
    front = np.unique(asked)
    while front.size and known.size + front.size <= _PAIRS:
        known = np.concatenate([known, front])
        below, wrong = _below(arena, front)
        differ.append(wrong)
        users += [parents for parents, _ in below]
        used += [pairs for _, pairs in below]
        found = np.unique(np.concatenate([known[:0], *(pairs for _, pairs in below)]))
        front = found[~np.isin(found, known, assume_unique=True)]
    # what was not looked at any more differs, and so does all that stands above what differs
    order = np.argsort(known)
    known = known[order]
    bad = np.concatenate([np.zeros(0, bool), *differ])[order]
    above, under = (np.concatenate([known[:0], *keys]) for keys in (users, used))
    place = np.searchsorted(known, above)
    bad[place[np.isin(under, front)]] = True
    inner = np.searchsorted(known, under)
    inner[inner == known.size] = 0  # (one that was not looked at)
    while True:
        now = place[bad[inner] & ~bad[place]]
        if not now.size:
            break
        bad[now] = True
    alike = ~bad[np.searchsorted(known, asked)] if known.size else np.zeros(x.size, bool)
    alike[x == y] = True
    return alike


def _keys(x: np.ndarray, y: np.ndarray) -> npt.NDArray[np.int64]:
    """Pairs of ids as one number each."""
    return (x.astype(np.int64) << 32) + (y.astype(np.int64) & 0xFFFFFFFF)


def _below(arena: Storage, pairs: np.ndarray) -> tuple[list[tuple[np.ndarray, np.ndarray]], npt.NDArray[np.bool_]]:
    """Pairs of operands that have to be alike for some pairs to be, as (pairs, pairs of operands); and which pairs differ by themselves."""
    ops, *operands = arena.columns()
    x, y = pairs >> 32, (pairs & 0xFFFFFFFF).astype(np.uint32).view(np.int32).astype(np.int64)
    leaves = (x < CONST_CAP) | (y < CONST_CAP)
    kinds = ops[np.where(leaves, 0, x)], ops[np.where(leaves, 0, y)]
    same = x == y
    wrong = ~same & (leaves | (kinds[0] != kinds[1]) | np.isin(kinds[0], _RECORDS))
    below = []
    for op in np.unique(kinds[0][~(same | wrong)]):
        here = np.flatnonzero(~(same | wrong) & (kinds[0] == op))
        for slot, column in enumerate(operands):
            left, right = column[x[here]], column[y[here]]
            if "abc"[slot] in TABLE[Op(op)].plain:
                wrong[here[left != right]] = True
            elif slot < TABLE[Op(op)].arity:
                other = left != right
                below.append((pairs[here[other]], _keys(left[other], right[other])))
    return below, wrong
