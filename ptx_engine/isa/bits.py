"""Integer instructions on symbolic registers: exact idioms on whole parts and ring operations, or a refusal by name.

A register is seen as bytes, each a byte of a part or concrete. Masks of whole bytes, byte shifts, permutes and disjoint
``or`` rearrange bytes; when the bytes of each part come together again in order the result is exact. Symbolic integers
take part in ``+ - *`` with an explicit wrap where their range needs it. Sign flip by xor and abs by and are recognised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

import numpy as np

from ptx_engine.errors import NotStructuredError
from ptx_engine.isa.values import BITS, F16, F32, F64, PRED, Fmt, Part, Sym, Value, int_fmt, is_partial, split_bits, uninitialised, wrap_int
from ptx_engine.terms import Arena, Ids, Op

#: a byte of a register: (part index in ``parts``, byte index) or concrete bits (int or uint8 column)
Byte = Union[tuple[Part, int], int, np.ndarray]


def refused(name: str, value: Value) -> NotStructuredError:
    """The refusal of an integer operation on symbolic data, naming both."""
    if is_partial(value):
        return uninitialised("that only some of the executing threads have written")
    held = "+".join(f.name for f, _ in value.parts) if isinstance(value, Sym) else "concrete bits"
    return NotStructuredError(
        f"integer operation {name} on symbolic {held} data is none of the exact idioms",
        feature=f"{name} on {held}",
        hint="if the data is an index or a mask, give it concrete contents in the launch spec",
    )


def to_bytes(value: Value, bits: int) -> list[Byte] | None:
    """The bytes of a register, low first; None if a part is no whole number of bytes."""
    if value is None:
        raise uninitialised()
    if not isinstance(value, Sym):
        return list(split_bits(value, [8] * (bits // 8)))
    result: list[Byte] = []
    for part in value.parts:
        if part[0].bits % 8:
            return None
        if part[0].kind == "bits":
            result.extend(split_bits(part[1], [8] * (part[0].bits // 8)))
        else:
            result.extend((part, i) for i in range(part[0].bits // 8))
    return result


def from_bytes(data: Sequence[Byte]) -> Value | None:
    """A register from bytes, if every part's bytes are together and in order; None otherwise."""
    parts: list[Part] = []
    i = 0
    while i < len(data):
        byte = data[i]
        if isinstance(byte, tuple):
            part, first = byte
            size = part[0].bits // 8
            run = data[i : i + size]
            if first != 0 or len(run) != size or not all(isinstance(b, tuple) and b[0] is part and b[1] == j for j, b in enumerate(run)):
                return None
            parts.append(part)
            i += size
            continue
        j = i
        while j < len(data) and not isinstance(data[j], tuple):
            j += 1
        parts.extend(_concrete_parts(data[i:j]))  # type: ignore[arg-type]
        i = j
    if all(f.kind == "bits" for f, _ in parts):
        return None
    return Sym(tuple(parts))


def _concrete_parts(data: Sequence["int | np.ndarray"]) -> list[Part]:
    """Concrete bytes as the fewest parts of 16, 8 bits (so that halves stay addressable)."""
    parts: list[Part] = []
    i = 0
    while i < len(data):
        size = 2 if i + 1 < len(data) else 1
        word: "int | np.ndarray" = 0
        for j in range(size):
            byte = data[i + j]
            term = byte << 8 * j if isinstance(byte, int) else byte.astype(np.uint16 if size == 2 else np.uint8) << np.uint8(8 * j)
            word = term if j == 0 else word | term
        parts.append((BITS[8 * size], word))
        i += size
    return parts


def _mask_bytes(value: Value, bits: int) -> list[int] | None:
    """A uniform concrete value as bytes; None if it is not uniform."""
    return [value >> 8 * i & 0xFF for i in range(bits // 8)] if isinstance(value, int) else None


def _and_bytes(data: list[Byte], mask: list[int]) -> list[Byte] | None:
    result: list[Byte] = []
    for byte, m in zip(data, mask):
        if m == 0xFF:
            result.append(byte)
        elif m == 0:
            result.append(0)
        elif isinstance(byte, tuple):
            return None
        else:
            result.append(byte & m if isinstance(byte, int) else byte & np.uint8(m))
    return result


def _or_bytes(a: list[Byte], b: list[Byte]) -> list[Byte] | None:
    result: list[Byte] = []
    for x, y in zip(a, b):
        if isinstance(x, int) and x == 0:
            result.append(y)
        elif isinstance(y, int) and y == 0:
            result.append(x)
        elif isinstance(x, tuple) or isinstance(y, tuple):
            return None
        else:
            result.append(x | y)
    return result


def _sign_idiom(arena: Arena, name: str, value: Sym, mask: int) -> Value | None:
    """xor with the sign bits of float parts is negation; and with all other bits is abs; or with them is -abs."""
    parts: list[Part] = []
    shift = 0
    for fmt, ids in value.parts:
        field = mask >> shift & ((1 << fmt.bits) - 1)
        sign = 1 << (fmt.bits - 1)
        shift += fmt.bits
        keep = (1 << fmt.bits) - 1 if name == "and" else 0
        if field == keep:
            parts.append((fmt, ids))
        elif fmt.kind != "float":
            return None
        elif name == "xor" and field == sign:
            parts.append((fmt, arena.neg(ids)))
        elif name == "and" and field == sign - 1:
            parts.append((fmt, arena.abs(ids)))
        elif name == "or" and field == sign:
            parts.append((fmt, arena.neg(arena.abs(ids))))
        else:
            return None
    return Sym(tuple(parts))


def symbolic_integer(arena: Arena, name: str, operands: tuple[Value, ...], bits: int, signed: bool) -> Value:
    """An integer instruction with a symbolic operand. Raises NotStructuredError where no exact idiom applies."""
    if any(v is None for v in operands):
        raise uninitialised()
    if bits == 1:
        return _predicate_logic(arena, name, operands)
    result = _rearrange(arena, name, operands, bits)
    if result is None:
        result = _ring(arena, name, operands, bits, signed)
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
        return value.parts[0][1]
    if isinstance(value, np.ndarray):
        return value.astype(np.int32)
    if value is None:
        raise uninitialised()
    return int(value)


def _rearrange(arena: Arena, name: str, operands: tuple[Value, ...], bits: int) -> Value | None:
    """and/or/xor/shl/shr as movements of whole bytes, and the sign idioms."""
    if name in ("and", "or", "xor") and len(operands) == 2:
        x, y = operands
        if not isinstance(x, Sym):
            x, y = y, x
        if isinstance(x, Sym) and isinstance(y, int):
            idiom = _sign_idiom(arena, name, x, y)
            if idiom is not None:
                return idiom
        a, b = to_bytes(x, bits), to_bytes(y, bits)
        if a is None or b is None:
            return None
        if name == "and":
            mask = _mask_bytes(y, bits)
            moved = _and_bytes(a, mask) if mask is not None else None
        else:
            moved = _or_bytes(a, b)
        return _settle(moved, bits)
    if name in ("shl", "shr") and isinstance(operands[1], int) and operands[1] % 8 == 0:
        data = to_bytes(operands[0], bits)
        if data is None:
            return None
        count = min(operands[1] // 8, bits // 8)
        zeros: list[Byte] = [0] * count
        return _settle(zeros + data[: bits // 8 - count] if name == "shl" else data[count:] + zeros, bits)
    return None


def _settle(data: list[Byte] | None, bits: int) -> Value | None:
    if data is None:
        return None
    if not any(isinstance(b, tuple) for b in data):
        word: "int | np.ndarray" = 0
        for i, byte in enumerate(data):
            assert not isinstance(byte, tuple)
            term = byte << 8 * i if isinstance(byte, int) else byte.astype(f"u{bits // 8}") << np.uint64(8 * i).astype(f"u{bits // 8}")
            word = word | term
        return word
    return from_bytes(data)


def permute_bytes(data: list[Byte], selectors: Sequence[int], name: str, bits: int) -> Value:
    """A register made of chosen bytes (prmt, bfi of whole bytes). Raises NotStructuredError if parts are torn."""
    result = _settle([data[i] for i in selectors], bits)
    if result is None:
        raise NotStructuredError(f"{name} tears symbolic data apart", feature=name)
    return result


_RING = {"add": "add", "sub": "sub", "mul": "mul", "mul.wide": "mul", "neg": "neg"}


def _ring(arena: Arena, name: str, operands: tuple[Value, ...], bits: int, signed: bool) -> Value | None:
    """+ - * on symbolic integers: exact terms with a range; the bits are the value mod 2^width."""
    numbers: list[tuple[Ids, int, int]] = []
    for value in operands:
        number = integer_term(arena, value, bits, signed)
        if number is None:
            return None
        numbers.append(number)
    ids: Ids
    if name == "neg":
        (x, lo, hi), = numbers
        ids, lo, hi = arena.neg(x), -hi, -lo
    elif name in _RING:
        (x, xl, xh), (y, yl, yh) = numbers
        ids = {"add": arena.add, "sub": arena.sub, "mul": arena.mul}[_RING[name]](x, y)
        if name == "add":
            lo, hi = xl + yl, xh + yh
        elif name == "sub":
            lo, hi = xl - yh, xh - yl
        else:
            corners = [xl * yl, xl * yh, xh * yl, xh * yh]
            lo, hi = min(corners), max(corners)
    else:
        return None
    out = 2 * bits if name == "mul.wide" else bits
    return Sym(((int_fmt(out, lo, hi), ids),))


def integer_term(arena: Arena, value: Value, bits: int, signed: bool) -> tuple[Ids, int, int] | None:
    """A register read as one integer: (ids, lo, hi), wrapped to the reading if its range needs it; None if it is no integer."""
    if isinstance(value, Sym):
        if len(value.parts) != 1 or value.parts[0][0].kind != "int" or value.parts[0][0].bits != bits:
            return None
        fmt, ids = value.parts[0]
        return wrap_int(arena, ids, fmt, bits, signed)
    if value is None:
        raise uninitialised()
    if isinstance(value, int):
        number = value - (1 << bits) if signed and value >> (bits - 1) else value
        return arena.rational(number), number, number
    column = value.view(f"i{bits // 8}") if signed else value
    return arena.integers(column), int(column.min()), int(column.max())


def float_fmt(bits: int) -> Fmt:
    """The float format an untyped width is taken to hold when nothing else says so."""
    return {16: F16, 32: F32, 64: F64}[bits]
