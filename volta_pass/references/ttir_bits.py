"""Bit operations on symbolic integers: fields, shifts by constants, disjoint or; anything else is the bit operator itself.

A field of a word depends on the word modulo 2**width only, so it needs no wrap. Sign flips and magnitudes of a float's
bit pattern are negation and absolute value of the float.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptx_engine.terms.arena import Arena
from ptx_engine.terms.constants import FLOAT_FORMATS
from ptx_engine.terms.ops import Op
from volta_pass.references.ttir_frame import Frame
from volta_pass.references.ttir_predicates import predicate_logic
from volta_pass.references.ttir_ring import plain_ids, trailing_zeros
from volta_pass.references.ttir_types import TtirType
from volta_pass.references.ttir_values import Sym, Value, concrete, emitted, id_operand, int_ids, rows, type_range, wrapped


def symbolic_bits(op: Op) -> Callable[[Frame, TtirType, Value, Value], Value]:
    """andi, ori, xori where an operand is symbolic."""

    def run(frame: Frame, kind: TtirType, a: Value, b: Value) -> Value:
        arena = frame.arena
        if kind.width == 1:
            return predicate_logic(op, arena, kind.rank, a, b)
        for x, y in ((a, b), (b, a)):
            number = _uniform(y, kind, arena)
            if isinstance(x, Sym) and number is not None:
                folded = _with_constant(op, arena, kind, x, number)
                if folded is not None:
                    return folded
        found = _disjoint(op, arena, kind, a, b)
        if found is None and op is Op.BITXOR:
            found = _exclusive(frame, kind, a, b)
        return found if found is not None else _general(op, frame, kind, a, b)

    return run


def _exclusive(frame: Frame, kind: TtirType, a: Value, b: Value) -> Value | None:
    """An exclusive or of words remembers them: one that occurs twice cancels (x ^ (x ^ y) = y, as sorting networks swap)."""
    if not isinstance(a, Sym) or not isinstance(b, Sym):
        return None
    sets = [(v.xored, v.xored_bits) if v.xored else ((v.ids,), v.bits) for v in (a, b)]
    (first, bits), (second, other) = sets
    if bits != other or len(first) + len(second) > _XOR_WORDS:
        return None
    shape = np.broadcast_shapes(a.ids.shape, b.ids.shape)
    words = np.sort(np.stack([np.broadcast_to(word, shape) for word in (*first, *second)]), axis=0)
    kept = _without_pairs(words)
    if kept is None:
        return None
    if not len(kept):
        return np.zeros((1,) * len(shape), kind.dtype)
    ranges = [v.xored_range if v.xored else (v.lo, v.hi) for v in (a, b)]
    lows, highs = ([r[i] for r in ranges] for i in (0, 1))
    low = None if None in lows else min(lows)  # type: ignore[type-var]
    high = None if None in highs else max(highs)  # type: ignore[type-var]
    if len(kept) == 1:
        return Sym(kept[0], low, high, bits)
    whole = _general(Op.BITXOR, frame, kind, a, b)
    return Sym(whole.ids, whole.lo, whole.hi, xored=tuple(kept), xored_bits=bits, xored_range=(low, high))


#: longest exclusive or that is remembered
_XOR_WORDS = 4


def _without_pairs(words: np.ndarray) -> list[np.ndarray] | None:
    """Sorted words (n, lanes...) without those that occur twice; None where lanes keep different numbers of them."""
    gone = np.zeros(words.shape, bool)
    for i in range(1, len(words)):
        pair = (words[i] == words[i - 1]) & ~gone[i - 1]
        gone[i - 1] |= pair
        gone[i] |= pair
    counts = (~gone).sum(axis=0)
    count = int(counts.flat[0])
    if (counts != count).any():
        return None
    order = np.argsort(gone, axis=0, kind="stable")[:count]
    return list(np.take_along_axis(words, order, axis=0))


def _uniform(value: Value, kind: TtirType, arena: Arena) -> int | None:
    """The one number, unsigned, that a value is in all lanes."""
    numbers = concrete(value, kind, arena)
    if numbers is None or numbers.size == 0:
        return None
    first = int(numbers.flat[0])
    return first & ((1 << kind.width) - 1) if numbers.size == 1 or (numbers == first).all() else None


def _with_constant(op: Op, arena: Arena, kind: TtirType, x: Sym, number: int) -> Value | None:
    full = (1 << kind.width) - 1
    if number == 0:
        return np.zeros((1,) * x.ids.ndim, kind.dtype) if op is Op.BITAND else x
    if x.bits:
        return _on_float_bits(op, arena, kind, x, number)
    if number == full and op is Op.BITAND:
        return x
    if number == full and op is Op.BITXOR:  # ~x = -1 - x
        low, high = (None, None) if x.lo is None or x.hi is None else (-1 - x.hi, -1 - x.lo)
        return Sym(emitted(arena.sub(arena.rational(-1), id_operand(x.ids)), kind.rank), low, high)
    if op is Op.BITAND:
        return _masked(arena, kind, x, number)
    return None


def _masked(arena: Arena, kind: TtirType, x: Sym, mask: int) -> Value | None:
    """x & mask for a mask of consecutive ones: a field, moved to its place."""
    low = (mask & -mask).bit_length() - 1
    width = mask.bit_length() - low
    if mask != ((1 << width) - 1) << low:
        return None
    if low == 0 and x.lo is not None and x.hi is not None and x.lo >= 0 and x.hi <= mask:
        return x
    base, offset = (x.ids, 0)
    if x.shifted is not None and x.shifted[1] + low + width <= kind.width:
        base, offset = x.shifted
    field = np.asarray(arena.emit(Op.FIELD, base, offset + low, width))
    top = (1 << width) - 1
    if low:
        field = emitted(arena.mul(id_operand(field), arena.rational(1 << low)), kind.rank)
    return Sym(field, 0, top << low, zeros=low)


def _on_float_bits(op: Op, arena: Arena, kind: TtirType, x: Sym, number: int) -> Value | None:
    sign = 1 << FLOAT_FORMATS[x.bits][0] - 1
    ids = id_operand(x.ids)
    if op is Op.BITXOR and number == sign:
        return Sym(emitted(arena.neg(ids), kind.rank), bits=x.bits)
    if op is Op.BITAND and number == sign - 1:
        return Sym(emitted(arena.abs(ids), kind.rank), bits=x.bits)
    if op is Op.BITOR and number == sign:
        return Sym(emitted(arena.neg(arena.abs(ids)), kind.rank), bits=x.bits)
    return None


def _disjoint(op: Op, arena: Arena, kind: TtirType, a: Value, b: Value) -> Value | None:
    """or and xor of numbers without a common bit are their sum."""
    if op is Op.BITAND:
        return None
    for high, low in ((a, b), (b, a)):
        numbers = _bounds(low)
        above = trailing_zeros(high)
        if numbers is not None and numbers[0] >= 0 and numbers[1] < 1 << above and not _is_bits(high) and not _is_bits(low):
            ids = arena.add(id_operand(int_ids(high, arena)), id_operand(int_ids(low, arena)))
            tops = _bounds(high)
            lo, hi = (None, None) if tops is None else (tops[0] + numbers[0], tops[1] + numbers[1])
            return Sym(emitted(ids, kind.rank), lo, hi, zeros=min(above, trailing_zeros(low)))
    return None


def _is_bits(value: Value) -> bool:
    return isinstance(value, Sym) and bool(value.bits)


def _bounds(value: Value) -> tuple[int, int] | None:
    if isinstance(value, Sym):
        return None if value.lo is None or value.hi is None else (value.lo, value.hi)
    return (int(value.min()), int(value.max())) if value.size else (0, 0)


def _general(op: Op, frame: Frame, kind: TtirType, a: Value, b: Value) -> Sym:
    """The bit operator on the unsigned words; exclusive or on signed ones where both are such numbers as they stand, and one may be
    negative: the two readings of a word would be two terms in the comparisons of a sorting network."""
    ids = []
    low, high = type_range(kind.width, signed=True)
    bounds = [_bounds(value) for value in (a, b)]
    signed = all(b is not None and low <= b[0] and b[1] <= high for b in bounds) and any(b is not None and b[0] < 0 for b in bounds)
    if op is Op.BITXOR and signed and all(isinstance(value, Sym) and not value.bits for value in (a, b)):
        return Sym(np.asarray(frame.arena.emit(op, rows(a), rows(b))), low, high)
    for value in (a, b):
        if isinstance(value, Sym):
            ids.append(wrapped(value, kind.width, False, frame.arena).ids)
        else:
            ids.append(frame.arena.integers(value.view(f"u{value.dtype.itemsize}")))
    return Sym(np.asarray(frame.arena.emit(op, *ids)), 0, (1 << kind.width) - 1)


def symbolic_shift(op: Op, signed: bool) -> Callable[[Frame, TtirType, Value, Value], Value]:
    """Shifts by a constant: left is a product, right unsigned a field, right signed the floor of a quotient."""

    def run(frame: Frame, kind: TtirType, a: Value, b: Value) -> Value:
        arena = frame.arena
        amount = _uniform(b, kind, arena)
        if amount is None or amount >= kind.width:
            return _general_shift(op, frame, kind, a, b, signed)
        if amount == 0:
            return a
        if op is Op.SHL:
            ids = arena.mul(id_operand(plain_ids(a, kind.width, arena)), arena.rational(1 << amount))
            limits = _bounds(a)
            lo, hi = (None, None) if limits is None else (limits[0] << amount, limits[1] << amount)
            return Sym(emitted(ids, kind.rank), lo, hi, zeros=min(kind.width, trailing_zeros(a) + amount))
        assert isinstance(a, Sym)
        return _right(arena, kind, a, amount, signed)

    return run


def _right(arena: Arena, kind: TtirType, a: Sym, amount: int, signed: bool) -> Value:
    base = plain_ids(a, kind.width, arena)
    width = kind.width - amount
    if not signed or (a.lo is not None and a.lo >= 0 and a.hi is not None and a.hi < 1 << kind.width - 1):
        ids = np.asarray(arena.emit(Op.FIELD, base, amount, width))
        top = (1 << width) - 1 if signed or a.hi is None or a.lo is None or a.lo < 0 or a.hi >> kind.width else a.hi >> amount
        return Sym(ids, 0, top, shifted=(base, amount))
    exact = wrapped(a, kind.width, True, arena)
    ids = np.asarray(arena.emit(Op.SHR, exact.ids, arena.rational(amount)))
    lo, hi = (None, None) if exact.lo is None or exact.hi is None else (exact.lo >> amount, exact.hi >> amount)
    return Sym(ids, lo, hi, shifted=(base, amount))


def _general_shift(op: Op, frame: Frame, kind: TtirType, a: Value, b: Value, signed: bool) -> Value:
    arena = frame.arena
    word = (
        wrapped(a, kind.width, signed, arena).ids if isinstance(a, Sym) else arena.integers(a if signed else a.view(f"u{a.dtype.itemsize}"))
    )
    amount = wrapped(b, kind.width, False, arena).ids if isinstance(b, Sym) else int_ids(b, arena)
    ids = np.asarray(arena.emit(op, word, amount))
    return wrapped(Sym(ids), kind.width, signed, arena) if op is Op.SHL else Sym(ids, *type_range(kind.width, signed))
