"""Exponentials of library code put together again: ``2^(c x - j) * 2^j`` for an integer j is ``2^(c x)``, whatever j is.

CUDA's ``expf`` and ``exp10f`` split their argument so that the exponent of a float can be made of j. The product is recognised where
it is emitted, as a whole column; what does not fit is emitted as it is, and left to the decider, which knows the same law.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ptx_engine.terms.ops import Op
from ptx_engine.terms.storage import CONST_CAP, Ids

if TYPE_CHECKING:
    from ptx_engine.terms.arena import Arena


def recombined(arena: Arena, a: Ids, b: Ids) -> Ids | None:
    """The product of two terms if one of them is a power of two of ``Arena.powers`` that the other one's exponent takes off; else None."""
    for power, rest in ((a, b), (b, a)):
        first = power if isinstance(power, int) else int(power.flat[0]) if power.size else -1
        if first in arena.powers:
            found = _joined(arena, power, rest)
            if found is not None:
                return found
    return None


def _joined(arena: Arena, power: Ids, rest: Ids) -> Ids | None:
    if np.shape(power) != np.shape(rest):
        return None
    columns = arena.columns()
    taken = _operands(columns, np.asarray(power), Op.EXP2)
    exponent = _operands(columns, np.asarray(rest), Op.EXP2)
    shifted = _operands(columns, exponent[0], Op.FMA) if taken and exponent else None
    negated = _operands(columns, shifted[2], Op.NEG) if shifted else None
    if not taken or not shifted or not negated or not _same(columns, negated[0], taken[0]):
        return None
    x, c = shifted[0], shifted[1]
    return arena.exp2(arena.mul(_as_given(x, power), _as_given(c, power)))


def _operands(columns: tuple[np.ndarray, ...], ids: np.ndarray, op: Op) -> tuple[np.ndarray, ...] | None:
    """The operands of nodes that are all of one operator."""
    if (ids < CONST_CAP).any() or (columns[0][ids] != op).any():
        return None
    return tuple(operand[ids] for operand in columns[1:])


def _same(columns: tuple[np.ndarray, ...], x: np.ndarray, y: np.ndarray) -> bool:
    """Whether nodes are the same sums."""
    first, second = _operands(columns, x, Op.ADD), _operands(columns, y, Op.ADD)
    return bool(first and second and (first[0] == second[0]).all() and (first[1] == second[1]).all())


def _as_given(ids: np.ndarray, like: Ids) -> Ids:
    """An operand as callers of the arena give it: a number where it is one, or one for the whole column."""
    if isinstance(like, int) or (ids == ids.flat[0]).all():
        return int(ids.flat[0])
    return ids
