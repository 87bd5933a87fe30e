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
    front = np.unique(asked)
    seen, bad = set(front.tolist()), set()
    edges: list[tuple[np.ndarray, np.ndarray]] = []
    while front.size and len(seen) <= _PAIRS:
        below, wrong = _below(arena, front)
        bad.update(front[wrong].tolist())
        edges += below
        found = np.unique(np.concatenate([front[:0], *(pairs for _, pairs in below)])).tolist()
        front = np.array([pair for pair in found if pair not in seen], np.int64)
        seen.update(front.tolist())
    bad.update(front.tolist())  # what was not looked at any more differs, and so does all that stands above what differs
    if bad and edges:
        users, used = (np.concatenate(keys) for keys in zip(*edges))
        order = np.argsort(users)  # operands were emitted before their users: their pairs come first
        for user, pair in zip(users[order].tolist(), used[order].tolist()):
            if pair in bad:
                bad.add(user)
    alike = np.array([pair not in bad for pair in asked.tolist()], bool)
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
