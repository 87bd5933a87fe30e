"""Symbolic integers: ring operations, division, extremes. Results are congruent modulo 2**width, with bounds where known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptx_engine.terms.arena import Arena, Ids
from ptx_engine.terms.ops import Op
from volta_pass.references.ttir_frame import Frame
from volta_pass.references.ttir_predicates import predicate_logic
from volta_pass.references.ttir_types import TtirType
from volta_pass.references.ttir_values import Sym, Value, bounds, emitted, id_operand, int_ids, wrapped

#: bounds larger than this many bits are dropped: they can prove no wrap away
_BOUND_BITS = 256

Pair = tuple[int | None, int | None]


def ring_bounds(op: Op, a: Pair, b: Pair) -> Pair:
    """Bounds of a sum, difference or product of integers."""
    if None in a or None in b:
        return None, None
    (al, ah), (bl, bh) = a, b
    assert al is not None and ah is not None and bl is not None and bh is not None
    if op is Op.ADD:
        return _kept(al + bl, ah + bh)
    if op is Op.SUB:
        return _kept(al - bh, ah - bl)
    products = (al * bl, al * bh, ah * bl, ah * bh)
    return _kept(min(products), max(products))


def _kept(low: int, high: int) -> Pair:
    return (low, high) if max(abs(low), abs(high)).bit_length() <= _BOUND_BITS else (None, None)


def plain_ids(value: Value, width: int, arena: Arena) -> np.ndarray:
    """Ids congruent to an integer value; the bit pattern of a float becomes opaque."""
    if isinstance(value, Sym) and value.bits:
        return wrapped(value, width, True, arena).ids
    return int_ids(value, arena)


def trailing_zeros(value: Value) -> int:
    """Known trailing zero bits of every lane."""
    if isinstance(value, Sym):
        return value.zeros
    union = int(np.bitwise_or.reduce(value.astype(np.int64), axis=None)) if value.size else 0
    return (union & -union).bit_length() - 1 if union else 64


def symbolic_ring(op: Op) -> Callable[[Frame, TtirType, Value, Value], Value]:
    """addi, subi, muli: the integers' own sum, difference, product; no wrap until somebody looks. On i1: xor, xor, and."""

    def run(frame: Frame, kind: TtirType, a: Value, b: Value) -> Value:
        arena = frame.arena
        if kind.width == 1:
            return predicate_logic(Op.BITAND if op is Op.MUL else Op.BITXOR, arena, kind.rank, a, b)
        x, y = (id_operand(plain_ids(v, kind.width, arena)) for v in (a, b))
        result: Ids = {Op.ADD: arena.add, Op.SUB: arena.sub, Op.MUL: arena.mul}[op](x, y)
        zeros = trailing_zeros(a) + trailing_zeros(b) if op is Op.MUL else min(trailing_zeros(a), trailing_zeros(b))
        return Sym(emitted(result, kind.rank), *ring_bounds(op, bounds(a), bounds(b)), zeros=min(zeros, kind.width))

    return run


def _exact(frame: Frame, value: Value, width: int, signed: bool) -> Value:
    if isinstance(value, Sym):
        return wrapped(value, width, signed, frame.arena)
    return value.astype(np.int64) if signed or value.dtype == bool else value.view(f"u{value.dtype.itemsize}")


def symbolic_divide(op: Op | None, signed: bool) -> Callable[[Frame, TtirType, Value, Value], Value]:
    """Division and remainder of exact numbers; ``op`` None is division rounded up."""

    def run(frame: Frame, kind: TtirType, a: Value, b: Value) -> Value:
        arena = frame.arena
        exact = [_exact(frame, v, kind.width, signed) for v in (a, b)]
        x, y = (v.ids if isinstance(v, Sym) else arena.integers(v) for v in exact)
        if op is None:  # ceil(x / y) = -floor(-x / y)
            up = arena.neg(np.asarray(arena.emit(Op.FLOORDIV, np.asarray(arena.neg(x)), y)))
            return Sym(emitted(up, kind.rank), None, None)
        low, high = _quotient_bounds(op, bounds(exact[0]), bounds(exact[1]))
        return Sym(np.asarray(arena.emit(op, x, y)), low, high)

    return run


def _quotient_bounds(op: Op, a: Pair, b: Pair) -> Pair:
    """|quotient| <= |a|; |remainder| < |b|, with the sign of a."""
    if None in a or None in b:
        return None, None
    (al, ah), (bl, bh) = a, b
    assert al is not None and ah is not None and bl is not None and bh is not None
    size = max(abs(bl), abs(bh)) - 1 if op is Op.TRUNCREM else max(abs(al), abs(ah))
    positive = al >= 0 and (op is Op.TRUNCREM or bl >= 0)
    return (0 if positive else -size), size


def symbolic_extreme(op: Op, signed: bool) -> Callable[[Frame, TtirType, Value, Value], Value]:
    """max and min of exact numbers; on i1 (true = -1 when signed) they are or and and."""

    def run(frame: Frame, kind: TtirType, a: Value, b: Value) -> Value:
        arena = frame.arena
        if kind.width == 1:
            return predicate_logic(Op.BITOR if (op is Op.MAX) != signed else Op.BITAND, arena, kind.rank, a, b)
        exact = [_exact(frame, v, kind.width, signed) for v in (a, b)]
        x, y = (id_operand(v.ids if isinstance(v, Sym) else arena.integers(v)) for v in exact)
        ids = arena.maximum(x, y) if op is Op.MAX else arena.minimum(x, y)
        (al, ah), (bl, bh) = (bounds(v) for v in exact)
        return Sym(emitted(ids, kind.rank), _extreme_bound(op, al, bl), _extreme_bound(op, ah, bh))

    return run


def _extreme_bound(op: Op, a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return None
    return max(a, b) if op is Op.MAX else min(a, b)
