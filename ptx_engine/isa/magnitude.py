"""Sums of so large a constant that rounding them is rounding to an integer: how exponentials of CUDA's library split their argument.

In f32 numbers from 2**23 to 2**24 are integers, so that a bounded number plus such a constant is rounded to an integer, which is
modelled exactly; the exponent made of its low bits (shl by 23) is then a power of two. Everything else rounds to itself.
"""

from __future__ import annotations

import numpy as np
from gmpy2 import mpq

from ptx_engine.terms import CONST_CAP, Arena, Ids, Op

#: least and greatest integer of the binade in which the last place of f32 is 1
LOW, HIGH = 1 << 23, (1 << 24) - 1
#: how deep bounds are looked for
_DEPTH = 6

_ROUND = {"rn": Op.ROUND_EVEN, "rz": Op.TRUNC, "rm": Op.FLOOR, "rp": Op.CEIL}
_INTEGRAL = (Op.ROUND_EVEN, Op.TRUNC, Op.FLOOR, Op.CEIL)

Bounds = tuple["mpq | None", "mpq | None"]


def rounded_sum(arena: Arena, part: Ids, addend: Ids, rnd: str) -> Ids | None:
    """``part + addend`` rounded to f32 where that means to an integer; None where it may not."""
    constant = _integer(arena, addend)
    if constant is None or not LOW <= constant <= HIGH:
        return None
    low, high = bounds(arena, part)
    if low is None or high is None or constant + low < LOW or constant + high > HIGH:
        return None
    if rnd in ("rm", "rp"):  # rounding down and up commute with integers
        return arena.add(arena.unary(_ROUND[rnd], part), addend)
    return arena.unary(_ROUND[rnd], arena.add(part, addend))


def _integer(arena: Arena, ident: Ids) -> int | None:
    """The integer that a uniform constant is."""
    if not isinstance(ident, int) or not 0 <= ident < CONST_CAP:
        return None
    const = arena.consts[ident]
    return int(const.coef) if const.is_rational and const.coef.denominator == 1 else None


def power_of_low_bits(arena: Arena, ids: Ids) -> Ids | None:
    """The f32 number whose exponent is the low 8 bits of f32 integers above 2**23: two to them, less the bias. None for others."""
    column = np.atleast_1d(np.asarray(ids, np.int32)).ravel()
    low, high = bounds(arena, ids)
    if low is None or high is None or not _integral(arena, column):
        return None
    base = int(low) - int(low) % 256
    if low < LOW or high > HIGH or low - base < 1 or high - base > 254:
        return None
    power = arena.exp2(arena.add(ids, arena.rational(-(base + 127))))
    arena.powers.add(power if isinstance(power, int) else int(power.flat[0]))
    return power


def _integral(arena: Arena, column: np.ndarray) -> bool:
    """Whether every term is a rounded number, or one plus an integer."""
    ops, first, second, _ = arena.columns()
    for ident in np.unique(column):
        parts = [int(ident)] if ident < CONST_CAP or ops[ident] != Op.ADD else [int(first[ident]), int(second[ident])]
        for part in parts:
            if not (part >= CONST_CAP and ops[part] in _INTEGRAL) and _integer(arena, part) is None:
                return False
    return True


def bounds(arena: Arena, ids: Ids, depth: int = _DEPTH) -> Bounds:
    """Bounds of a column of terms that are made of constants, sums, products and clamps; None where unknown."""
    column = np.unique(np.asarray(ids, np.int32))
    if not column.size or column[0] < 0 or not depth:
        return None, None
    constants, nodes = column[column < CONST_CAP], column[column >= CONST_CAP]
    found = [_of_constants(arena, constants)] if constants.size else []
    ops, *operands = arena.columns()
    for code in np.unique(ops[nodes]):
        op, chosen = Op(int(code)), nodes[ops[nodes] == code]
        if op not in _ARITY:
            return None, None
        found.append(_combined(op, [bounds(arena, operand[chosen], depth - 1) for operand in operands[: _ARITY[op]]]))
    lows, highs = [low for low, _ in found], [high for _, high in found]
    low = None if None in lows else min(x for x in lows if x is not None)
    high = None if None in highs else max(x for x in highs if x is not None)
    return low, high


def _of_constants(arena: Arena, column: np.ndarray) -> Bounds:
    consts = [arena.consts[i] for i in column]
    if not all(const.is_rational for const in consts):
        return None, None
    return min(const.coef for const in consts), max(const.coef for const in consts)


_ARITY = {
    Op.ADD: 2, Op.SUB: 2, Op.MUL: 2, Op.FMA: 3, Op.NEG: 1, Op.MIN: 2, Op.MAX: 2,
    Op.FLOOR: 1, Op.CEIL: 1, Op.ROUND_EVEN: 1, Op.TRUNC: 1,
}  # fmt: skip


def _combined(op: Op, parts: list[Bounds]) -> Bounds:
    lows, highs = [p[0] for p in parts], [p[1] for p in parts]
    if op in (Op.MIN, Op.MAX):
        known_low, known_high = [x for x in lows if x is not None], [x for x in highs if x is not None]
        if op is Op.MIN:
            return (min(known_low) if len(known_low) == 2 else None), min(known_high, default=None)
        return max(known_low, default=None), (max(known_high) if len(known_high) == 2 else None)
    if any(x is None for x in (*lows, *highs)):
        return None, None
    pairs = [(low, high) for low, high in parts if low is not None and high is not None]
    (al, ah), (bl, bh) = pairs[0], pairs[1] if len(pairs) > 1 else pairs[0]
    if op is Op.ADD:
        return al + bl, ah + bh
    if op is Op.SUB:
        return al - bh, ah - bl
    if op is Op.NEG:
        return -ah, -al
    if op in (Op.MUL, Op.FMA):
        products = [x * y for x in (al, ah) for y in (bl, bh)]
        low, high = pairs[2] if op is Op.FMA else (mpq(0), mpq(0))
        return min(products) + low, max(products) + high
    return mpq(int(al // 1)), mpq(int(-(-ah // 1)))  # roundings
