"""Integer instructions on symbolic registers: exact, or a refusal by name.

Logic, shifts, permutes and field instructions move slices of parts (``fields``, ``bitwise``); ``+ - *``, division, minimum and the like
take registers as integers, with an explicit wrap where their range needs it. Two symbolic words that meet in and, or, xor give
the bit operator itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ptx_engine.errors import NotStructuredError
from ptx_engine.isa.bitwise import AND, NOT, OR, XOR, bitwise
from ptx_engine.isa.exclusive import exclusive, signed_words
from ptx_engine.isa.fields import Field, Number, Plain, cut, extended, fields_of, to_value
from ptx_engine.isa.float_words import word_of
from ptx_engine.isa.reinterpret import integer_of
from ptx_engine.isa.signs import with_sign_bit
from ptx_engine.isa.values import F16, F32, F64, PARTLY, PRED, Fmt, Sym, Value, int_fmt, is_partial, uninitialised
from ptx_engine.terms import Arena, Ids, Op


def refused(name: str, value: Value) -> NotStructuredError:
    """The refusal of an integer operation on symbolic data, naming both."""
    if is_partial(value):
        return uninitialised(PARTLY)
    held = "+".join(f.name for f, _ in value.parts) if isinstance(value, Sym) else "concrete bits"
    return NotStructuredError(
        f"integer operation {name} on symbolic {held} data is none of the exact idioms",
        feature=f"{name} on {held}",
        hint="if the data is an index or a mask, give it concrete contents in the launch spec",
    )


def symbolic_integer(arena: Arena, name: str, operands: tuple[Value, ...], bits: int, signed: bool) -> Value:
    """An integer instruction with a symbolic operand. Raises NotStructuredError where it has no exact meaning."""
    if any(v is None for v in operands):
        raise uninitialised()
    if bits == 1:
        return _predicate_logic(arena, name, operands)
    handler = _HANDLERS.get(name)
    result = handler(arena, operands, bits, signed) if handler is not None else None
    if result is None and handler is not None:
        words = tuple(word_of(arena, value, bits) for value in operands)
        result = handler(arena, words, bits, signed) if any(w is not v for w, v in zip(words, operands)) else None
    if result is None:
        raise refused(name, next(v for v in operands if isinstance(v, Sym)))
    return result


def _predicate_logic(arena: Arena, name: str, operands: tuple[Value, ...]) -> Value:
    ids = [pred_ids(v) for v in operands]
    if name == "not":
        return Sym(((PRED, arena.logic(Op.NOT, ids[0])),))
    if name == "xor":
        either = arena.logic(Op.OR, ids[0], ids[1])
        both = arena.logic(Op.AND, ids[0], ids[1])
        return Sym(((PRED, arena.logic(Op.AND, either, arena.logic(Op.NOT, both))),))
    return Sym(((PRED, arena.logic(Op.AND if name == "and" else Op.OR, ids[0], ids[1])),))


def pred_ids(value: Value) -> Ids:
    """A predicate as 0/1 term ids."""
    if isinstance(value, Sym):
        if is_partial(value):
            raise uninitialised(PARTLY)
        return value.parts[0][1]
    if isinstance(value, np.ndarray):
        return value.astype(np.int32)
    if value is None:
        raise uninitialised()
    return int(value)


def integer_term(arena: Arena, value: Value, bits: int, signed: bool) -> Number | None:
    """A register read as one integer: (ids, lo, hi), wrapped to the reading if its range needs it; None if it is no integer."""
    if isinstance(value, Sym):
        return integer_of(arena, value, bits, signed)
    if value is None:
        raise uninitialised()
    if isinstance(value, int):
        number = value - (1 << bits) if signed and value >> (bits - 1) else value
        return arena.rational(number), number, number
    column = value.view(f"i{value.dtype.itemsize}") if signed else value
    return arena.integers(column), int(column.min()), int(column.max())


def integer_value(number: Number, bits: int) -> Value:
    """An integer as a register."""
    ids, lo, hi = number
    return Sym(((int_fmt(bits, lo, hi), ids),))


# --- logic --------------------------------------------------------------------------------------

Handler = Callable[[Arena, tuple[Value, ...], int, bool], "Value | None"]


def logic(arena: Arena, table: int, operands: Sequence[Value], bits: int) -> Value | None:
    """A truth table over three registers (as lop3 numbers it); None where two symbolic words meet."""
    rows = [fields_of(v, bits) for v in operands]
    rows += [[Plain(0, bits)]] * (3 - len(rows))
    found = bitwise(table, rows)
    return None if found is None else to_value(arena, found)


def _logic(table: int, op: Op | None) -> Handler:
    def handle(arena: Arena, operands: tuple[Value, ...], bits: int, signed: bool) -> Value | None:
        found = logic(arena, table, operands, bits)
        if found is not None or op is None:
            return found
        if op is Op.BITXOR:
            swapped = exclusive(arena, operands[0], operands[1], bits)
            if swapped is not None:
                return swapped
        if op is Op.BITOR:
            signed_float = with_sign_bit(arena, operands[0], operands[1], bits)
            if signed_float is not None:
                return signed_float
        parts = [v.parts[0] for v in operands if isinstance(v, Sym) and len(v.parts) == 1 and v.parts[0][0].kind == "int"]
        both_signed = op is Op.BITXOR and len(parts) == 2 and signed_words(parts) and all(f.bits == bits for f, _ in parts)
        words = [integer_term(arena, v, bits, both_signed) for v in operands]
        if words[0] is None or words[1] is None:
            return None
        if both_signed:
            half = 1 << max(max(number[2], -1 - number[1]) for number in (words[0], words[1])).bit_length()
            return integer_value((arena.emit(op, words[0][0], words[1][0]), -half, half - 1), bits)
        top = max(words[0][2], words[1][2]).bit_length()
        high = min(words[0][2], words[1][2]) if op is Op.BITAND else (1 << top) - 1
        return integer_value((arena.emit(op, words[0][0], words[1][0]), 0, high), bits)

    return handle


#: lop3 tables that are two operations in a row: table -> (first on a, b; second with c)
_ROWS: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "and": (AND, lambda x, y: x & y),
    "or": (OR, lambda x, y: x | y),
    "xor": (XOR, lambda x, y: x ^ y),
}
_COMPOUND = {g(f(0xF0, 0xCC), 0xAA): (n1, n2) for n1, (_, f) in _ROWS.items() for n2, (_, g) in _ROWS.items()}


def symbolic_lop3(arena: Arena, table: int, operands: Sequence[Value]) -> Value:
    """lop3 with a symbolic operand: where constants do not decide, two bit operators in a row."""
    if any(v is None for v in operands):
        raise uninitialised()
    found = logic(arena, table, operands, 32)
    if found is not None:
        return found
    names = _COMPOUND.get(table)
    if names is None:
        raise refused(f"lop3 0x{table:x}", next(v for v in operands if isinstance(v, Sym)))
    first = symbolic_or_not(arena, names[0], operands[0], operands[1])
    return symbolic_or_not(arena, names[1], first, operands[2])


def symbolic_or_not(arena: Arena, name: str, a: Value, b: Value) -> Value:
    if isinstance(a, Sym) or isinstance(b, Sym):
        return symbolic_integer(arena, name, (a, b), 32, False)
    result: Value = _ROWS[name][1](a, b)
    return result


# --- shifts and fields --------------------------------------------------------------------------


def _shift_left(arena: Arena, operands: tuple[Value, ...], bits: int, signed: bool) -> Value | None:
    value, amount = operands[0], uniform_int(operands[1])
    if amount is None:
        return _scaled(arena, value, operands[1], bits)
    count = min(amount, bits)
    return to_value(arena, [Plain(0, count), *cut(fields_of(value, bits), 0, bits - count)])


def _shift_right(arena: Arena, operands: tuple[Value, ...], bits: int, signed: bool) -> Value | None:
    value, amount = operands[0], uniform_int(operands[1])
    if amount is None:
        return _right_by_column(arena, value, operands[1], bits, signed)
    count = min(amount, bits - 1 if signed else bits)
    kept = extended(arena, cut(fields_of(value, bits), count, bits - count), bits, signed)
    return None if kept is None else to_value(arena, kept)


def _scaled(arena: Arena, value: Value, amount: Value, bits: int) -> Value | None:
    """A left shift whose count differs between threads: a product with a power of two."""
    word = integer_term(arena, value, bits, False)
    if word is None or not isinstance(amount, np.ndarray) or bits > 32:
        return None
    factor = np.where(amount < bits, np.uint64(1) << np.minimum(amount, bits - 1).astype(np.uint64), np.uint64(0))
    return integer_value((arena.mul(word[0], arena.integers(factor)), 0, word[2] << bits - 1), bits)


def _right_by_column(arena: Arena, value: Value, amount: Value, bits: int, signed: bool) -> Value | None:
    word = integer_term(arena, value, bits, signed)
    if word is None or not isinstance(amount, np.ndarray):
        return None
    counts = np.minimum(amount, bits - 1 if signed else bits).astype(np.int64)
    return integer_value((arena.emit(Op.SHR, word[0], arena.integers(counts)), min(word[1], 0), max(word[2], 0)), bits)


def uniform_int(value: Value) -> int | None:
    """A concrete value that is the same in all threads."""
    if isinstance(value, int):
        return value
    if isinstance(value, np.ndarray) and value.size and bool((value == value[0]).all()):
        return int(value[0])
    return None


def symbolic_extract(arena: Arena, value: Value, pos: int, length: int, bits: int, signed: bool) -> Value:
    """bfe with a constant field of a symbolic register."""
    kept = cut(fields_of(value, bits), pos, max(0, min(length, bits - pos)))
    if signed and pos >= bits and length:
        kept = cut(fields_of(value, bits), bits - 1, 1)
    whole = extended(arena, kept, bits, signed and bool(kept)) if kept else [Plain(0, bits)]
    found = None if whole is None else to_value(arena, whole)
    if found is None:
        raise refused("bfe", value)
    return found


def symbolic_insert(arena: Arena, source: Value, base: Value, pos: int, length: int, bits: int) -> Value:
    """bfi with a constant field where a register is symbolic."""
    count = max(0, min(length, bits - pos))
    under = fields_of(base, bits)
    fields = [*cut(under, 0, min(pos, bits)), *cut(fields_of(source, bits), 0, count), *cut(under, pos + count, max(0, bits - pos - count))]
    found = to_value(arena, fields)
    if found is None:
        raise refused("bfi", source if isinstance(source, Sym) else base)
    return found


def symbolic_funnel(arena: Arena, low: Value, high: Value, amount: int, left: bool) -> Value:
    """shf by a constant: 32 bits of the two words side by side."""
    fields = [*fields_of(low, 32), *fields_of(high, 32)]
    found = to_value(arena, cut(fields, 32 - amount if left else amount, 32))
    if found is None:
        raise refused("shf", low if isinstance(low, Sym) else high)
    return found


def symbolic_permute(arena: Arena, x: Value, y: Value, choices: Sequence[int], name: str) -> Value:
    """prmt: bytes of {y, x}; bit 3 of a choice replicates the byte's sign."""
    data = [*fields_of(x, 32), *fields_of(y, 32)]
    fields: list[Field] = []
    for i, choice in enumerate(choices):
        byte = cut(data, 8 * (choice & 7), 8)
        if not choice & 8:
            fields.extend(byte)
            continue
        follows = i > 0 and choices[i - 1] & 7 == choice & 7
        grown = extended(arena, fields, 8 * (i + 1), True) if follows else _sign_byte(arena, byte)
        if grown is None:
            raise refused(name, x if isinstance(x, Sym) else y)
        fields = grown if follows else [*fields, *grown]
    found = to_value(arena, fields)
    if found is None:
        raise refused(name, x if isinstance(x, Sym) else y)
    return found


def _sign_byte(arena: Arena, byte: list[Field]) -> list[Field] | None:
    grown = extended(arena, cut(byte, 7, 1), 8, True)
    return None if grown is None else cut(grown, 0, 8)


# --- arithmetic ---------------------------------------------------------------------------------


#: ranges wider than this are wrapped: they can prove no wrap away
_RANGE_BITS = 256


def congruent_term(arena: Arena, value: Value, bits: int, signed: bool) -> Number | None:
    """A register as an integer modulo 2^bits, unwrapped: all that a sum or a low product needs."""
    if isinstance(value, Sym) and len(value.parts) == 1 and value.parts[0][0].kind == "int" and value.parts[0][0].bits >= bits:
        fmt, ids = value.parts[0]
        if max(-fmt.lo, fmt.hi).bit_length() <= _RANGE_BITS:
            return ids, fmt.lo, fmt.hi
    return integer_term(arena, value, bits, signed)


def _ring(combine: Callable[[Arena, Number, Number, int, bool], Number]) -> Handler:
    def handle(arena: Arena, operands: tuple[Value, ...], bits: int, signed: bool) -> Value | None:
        x, y = (congruent_term(arena, v, bits, signed) for v in operands)
        return None if x is None or y is None else integer_value(combine(arena, x, y, bits, signed), bits)

    return handle


def _add(arena: Arena, operands: tuple[Value, ...], bits: int, signed: bool) -> Value | None:
    """A sum; of registers without a common bit it is their union, which keeps packed fields apart."""
    if any(isinstance(v, Sym) and len(v.parts) > 1 for v in operands):
        rows: list[Sequence[Field]] = [*(fields_of(v, bits) for v in operands), [Plain(0, bits)]]
        common = bitwise(AND, rows)
        if common is not None and all(isinstance(f, Plain) and not np.any(f.bits) for f in common):
            return logic(arena, OR, operands, bits)
    return _ring(_sum)(arena, operands, bits, signed)


def _binary(combine: Callable[[Arena, Number, Number, int, bool], "Number | None"], widens: bool = False) -> Handler:
    def handle(arena: Arena, operands: tuple[Value, ...], bits: int, signed: bool) -> Value | None:
        x, y = (integer_term(arena, v, bits, signed) for v in operands)
        if x is None or y is None:
            return None
        found = combine(arena, x, y, bits, signed)
        return None if found is None else integer_value(found, 2 * bits if widens else bits)

    return handle


def _sum(arena: Arena, x: Number, y: Number, bits: int, signed: bool) -> Number:
    return arena.add(x[0], y[0]), x[1] + y[1], x[2] + y[2]


def _difference(arena: Arena, x: Number, y: Number, bits: int, signed: bool) -> Number:
    return arena.sub(x[0], y[0]), x[1] - y[2], x[2] - y[1]


def _product(arena: Arena, x: Number, y: Number, bits: int, signed: bool) -> Number:
    corners = [a * b for a in x[1:] for b in y[1:]]
    return arena.mul(x[0], y[0]), min(corners), max(corners)


def _high_product(arena: Arena, x: Number, y: Number, bits: int, signed: bool) -> Number:
    ids, lo, hi = _product(arena, x, y, bits, signed)
    return arena.emit(Op.FIELD, ids, bits, bits), 0, hi >> bits if lo >= 0 else (1 << bits) - 1


def _clamped_sum(sign: int) -> Callable[[Arena, Number, Number, int, bool], Number]:
    def combine(arena: Arena, x: Number, y: Number, bits: int, signed: bool) -> Number:
        ids, lo, hi = (_sum if sign > 0 else _difference)(arena, x, y, bits, signed)
        return clamp(arena, (ids, lo, hi), -(1 << bits - 1), (1 << bits - 1) - 1)

    return combine


def clamp(arena: Arena, number: Number, low: int, high: int) -> Number:
    """An integer limited to [low, high]; nothing is emitted where its range fits already."""
    ids, lo, hi = number
    if lo < low:
        ids = arena.maximum(ids, arena.rational(low))
    if hi > high:
        ids = arena.minimum(ids, arena.rational(high))
    return ids, min(max(lo, low), high), max(min(hi, high), low)


def _quotient(arena: Arena, x: Number, y: Number, bits: int, signed: bool) -> Number | None:
    if y[1] <= 0 <= y[2]:
        return None  # the divisor may be zero
    size = max(abs(x[1]), abs(x[2]))
    positive = x[1] >= 0 and y[1] > 0
    return arena.emit(Op.TRUNCDIV if signed else Op.FLOORDIV, x[0], y[0]), 0 if positive else -size, size


def _remainder(arena: Arena, x: Number, y: Number, bits: int, signed: bool) -> Number | None:
    if y[1] <= 0 <= y[2]:
        return None
    size = max(abs(y[1]), abs(y[2])) - 1
    return arena.emit(Op.TRUNCREM, x[0], y[0]), 0 if x[1] >= 0 else -size, size


def _extreme(less: bool) -> Callable[[Arena, Number, Number, int, bool], Number]:
    def combine(arena: Arena, x: Number, y: Number, bits: int, signed: bool) -> Number:
        pick = min if less else max
        return (arena.minimum if less else arena.maximum)(x[0], y[0]), pick(x[1], y[1]), pick(x[2], y[2])

    return combine


def _unary(compute: Callable[[Arena, Number], Number]) -> Handler:
    def handle(arena: Arena, operands: tuple[Value, ...], bits: int, signed: bool) -> Value | None:
        x = integer_term(arena, operands[0], bits, True)
        return None if x is None else integer_value(compute(arena, x), bits)

    return handle


def _magnitude(arena: Arena, x: Number) -> Number:
    if x[1] >= 0:
        return x
    return arena.abs(x[0]), max(0, -x[2]), max(-x[1], x[2])


_HANDLERS: dict[str, Handler] = {
    "and": _logic(AND, Op.BITAND), "or": _logic(OR, Op.BITOR), "xor": _logic(XOR, Op.BITXOR), "not": _logic(NOT, None),
    "shl": _shift_left, "shr": _shift_right, "shr.s": _shift_right,
    "add": _add, "sub": _ring(_difference), "mul": _ring(_product), "mul.wide": _binary(_product, widens=True),
    "mul.hi": _binary(_high_product), "add.sat": _binary(_clamped_sum(1)), "sub.sat": _binary(_clamped_sum(-1)),
    "div": _binary(_quotient), "rem": _binary(_remainder), "min": _binary(_extreme(True)), "max": _binary(_extreme(False)),
    "neg": _unary(lambda arena, x: (arena.neg(x[0]), -x[2], -x[1])), "abs": _unary(_magnitude),
}  # fmt: skip


def float_fmt(bits: int) -> Fmt:
    """The float format an untyped width is taken to hold when nothing else says so."""
    return {16: F16, 32: F32, 64: F64}[bits]
