"""A register seen as fields of bits: slices of symbolic parts and concrete bits, low first.

Shifts, masks, permutes and field instructions only move slices; a register is made from slices again where each is a whole part,
a field of an integer, or a piece of a float that may meet its other pieces later. Nothing is guessed: what has no meaning as numbers
gives None, and the caller refuses by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Union

import numpy as np

from ptx_engine.isa.values import (
    BITS,
    PARTLY,
    UINT,
    Fmt,
    Part,
    Sym,
    Value,
    int_fmt,
    piece_fmt,
    piece_of,
    same_ids,
    under_wraps,
    uninitialised,
    wrap_int,
)
from ptx_engine.terms import Arena, Ids, Op

#: bits of Plain fields: an int, or a uint64 column
Word = Union[int, np.ndarray]


@dataclass(frozen=True, slots=True, eq=False)
class Plain:
    """Concrete bits."""

    bits: Word
    width: int


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """Bits [lo, lo + width) of a part, or their complement."""

    part: Part
    lo: int
    width: int
    inverted: bool = False


Field = Union[Plain, Slice]


def mask(width: int) -> int:
    return (1 << width) - 1


def fields_of(value: Value, width: int) -> list[Field]:
    """The fields of a register of ``width`` bits (zeros above a value that has fewer)."""
    if value is None:
        raise uninitialised()
    if not isinstance(value, Sym):
        return [Plain(_word(value), width)]
    result: list[Field] = []
    for fmt, ids in value.parts:
        if fmt.kind == "bits":
            result.append(Plain(_word(ids), fmt.bits))
        elif fmt.kind == "partial":
            raise uninitialised(PARTLY)
        elif fmt.kind == "piece":
            parent, lo = piece_of(fmt)
            result.append(Slice((parent, ids), lo, fmt.bits))
        else:
            result.append(Slice((fmt, ids), 0, fmt.bits))
    total = sum(f.width for f in result)
    return cut([*result, Plain(0, width - total)], 0, width) if total != width else result


def _word(bits: "int | np.ndarray") -> Word:
    return bits.astype(np.uint64) if isinstance(bits, np.ndarray) else int(bits)


def cut(fields: Sequence[Field], lo: int, width: int) -> list[Field]:
    """Bits [lo, lo + width) of fields."""
    result: list[Field] = []
    at, stop = 0, lo + width
    for f in fields:
        first, last = max(lo - at, 0), min(stop - at, f.width)
        if first < last:
            result.append(f if last - first == f.width else _part_of(f, first, last - first))
        at += f.width
    return result


def _part_of(f: Field, lo: int, width: int) -> Field:
    if isinstance(f, Slice):
        return replace(f, lo=f.lo + lo, width=width)
    if isinstance(f.bits, int):
        return Plain(f.bits >> lo & mask(width), width)
    return Plain((f.bits >> np.uint64(lo)) & np.uint64(mask(width)), width)


def total_width(fields: Sequence[Field]) -> int:
    return sum(f.width for f in fields)


# --- joining ------------------------------------------------------------------------------------


def merged(arena: Arena, fields: Sequence[Field]) -> list[Field]:
    """Neighbours that belong together as one: bits with bits, adjacent slices of one part, fields of one integer."""
    result: list[Field] = []
    for f in fields:
        if f.width == 0:
            continue
        last = result[-1] if result else None
        joined = _joined(arena, last, f) if last is not None else None
        if joined is not None:
            result[-1] = joined
        else:
            result.append(f)
    return result


def _joined(arena: Arena, a: Field, b: Field) -> Field | None:
    if isinstance(a, Plain) and isinstance(b, Plain):
        if a.width + b.width > 64:
            return None
        if isinstance(a.bits, int) and isinstance(b.bits, int):
            return Plain(a.bits | b.bits << a.width, a.width + b.width)
        return Plain(np.asarray(a.bits, np.uint64) | np.asarray(b.bits, np.uint64) << np.uint64(a.width), a.width + b.width)
    if not isinstance(a, Slice) or not isinstance(b, Slice) or a.inverted != b.inverted:
        return None
    same_fmt = a.part[0] is b.part[0] or (a.part[0].kind == b.part[0].kind == "int")
    if same_fmt and a.lo + a.width == b.lo and same_ids(a.part[1], b.part[1]):
        wider = a.part if a.part[0].bits >= b.lo + b.width else b.part
        return Slice(wider, a.lo, a.width + b.width, a.inverted) if wider[0].bits >= b.lo + b.width else None
    if a.part[0].kind == b.part[0].kind == "int" and a.lo == b.lo == 0 and not a.inverted:
        return _rejoined(arena, a, b)
    return None


def _rejoined(arena: Arena, a: Slice, b: Slice) -> Slice | None:
    """The low bits of an integer beside FIELD of the same integer above them (64-bit values moved as two words)."""
    inner = field_source(arena, b.part[1])
    if inner is None or inner[1] != a.width or inner[2] < b.width or not same_ids(inner[0], a.part[1]):
        return None
    fmt, ids = a.part
    return Slice((int_fmt(a.width + b.width, fmt.lo, fmt.hi), ids), 0, a.width + b.width)


def field_source(arena: Arena, ids: Ids) -> tuple[Ids, int, int] | None:
    """(x, lo, width) where all lanes are FIELD(x, lo, width)."""
    where = np.atleast_1d(np.asarray(ids))
    ops, a, b, c = arena.columns()
    if where.size == 0 or int(where.min()) < 0 or not bool((ops[where] == Op.FIELD).all()):
        return None
    lo, width = int(b[where[0]]), int(c[where[0]])
    if not bool((b[where] == lo).all()) or not bool((c[where] == width).all()):
        return None
    return (int(a[ids]) if isinstance(ids, int) else a[ids]), lo, width


# --- registers ----------------------------------------------------------------------------------


def to_value(arena: Arena, fields: Sequence[Field]) -> Value | None:
    """A register from fields; None where a slice has no meaning of its own."""
    fields = merged(arena, settled(arena, merged(arena, fields)))
    if all(isinstance(f, Plain) for f in fields) and len(fields) == 1:
        bits, width = fields[0].bits, fields[0].width  # type: ignore[union-attr]
        return bits if isinstance(bits, int) else bits.astype(UINT[width]) if width in UINT else bits
    parts: list[Part] = []
    at = 0
    for f in fields:
        if isinstance(f, Plain):
            parts.extend(_plain_parts(f, at))
        else:
            part = slice_part(arena, f)
            if part is None:
                return None
            parts.append(part)
        at += f.width
    return Sym(tuple(parts))


_BIT_FMTS: dict[int, Fmt] = {}


def bit_fmt(width: int) -> Fmt:
    """The format of concrete bits of any width."""
    return BITS.get(width) or _BIT_FMTS.setdefault(width, Fmt(f"b{width}", width, "bits"))


def _plain_parts(f: Plain, at: int) -> list[Part]:
    """Bits cut at byte boundaries into pieces of 16 and 8 bits, so that halves stay addressable."""
    parts: list[Part] = []
    lo = 0
    while lo < f.width:
        here = at + lo
        size = min(8 - here % 8, f.width - lo) if here % 8 else 16 if here % 16 == 0 and f.width - lo >= 16 else min(8, f.width - lo)
        piece = _part_of(f, lo, size)
        assert isinstance(piece, Plain)
        bits: Ids = piece.bits if isinstance(piece.bits, int) else piece.bits.astype(np.uint16 if size > 8 else np.uint8)
        parts.append((bit_fmt(size), bits))
        lo += size
    return parts


def slice_part(arena: Arena, s: Slice) -> Part | None:
    """A slice as a part: the part itself, an integer (its low bits, or a field), or a piece of a float."""
    fmt, ids = s.part
    if s.inverted:
        return None
    if s.lo == 0 and s.width == fmt.bits:
        return s.part
    if fmt.kind == "int":
        if s.lo == 0:
            return int_fmt(s.width, fmt.lo, fmt.hi), ids
        field, low, high = unsigned_term(arena, s)
        return int_fmt(s.width, low, high), field
    return (piece_fmt(fmt, s.lo, s.width), ids) if fmt.kind == "float" else None


# --- numbers ------------------------------------------------------------------------------------

Number = tuple[Ids, int, int]


def unsigned_term(arena: Arena, s: Slice) -> Number:
    """A slice of an integer as an unsigned number: (ids, lo, hi)."""
    fmt, ids = s.part
    if s.lo == 0:
        return wrap_int(arena, ids, fmt, s.width, False)
    width, high = s.width, mask(s.width)
    if fmt.lo >= 0:
        width = min(width, fmt.hi.bit_length() - s.lo)
        if width <= 0:
            return 0, 0, 0
        high = min(mask(width), fmt.hi >> s.lo) if fmt.hi.bit_length() <= s.lo + s.width else mask(width)
    inner = field_source(arena, ids)
    if inner is not None:
        return arena.emit(Op.FIELD, inner[0], inner[1] + s.lo, min(width, inner[2] - s.lo)), 0, high
    return arena.emit(Op.FIELD, under_wraps(arena, ids, s.lo + width), s.lo, width), 0, high


def signed_term(arena: Arena, s: Slice) -> Number:
    """A slice of an integer as a signed number."""
    fmt, ids = s.part
    if s.lo and s.lo + s.width == fmt.bits:
        whole, low, high = wrap_int(arena, ids, fmt, fmt.bits, True)
        if low < 0:
            return arena.emit(Op.SHR, whole, arena.rational(s.lo)), low >> s.lo, high >> s.lo
    field, low, high = unsigned_term(arena, s) if s.lo else (ids, fmt.lo, fmt.hi)
    return wrap_int(arena, field, int_fmt(s.width, low, high), s.width, True)


def number(arena: Arena, fields: Sequence[Field], signed: bool) -> Number | None:
    """Fields read as one integer: the sum of unsigned slices at their places, the top one signed if the reading is."""
    fields = merged(arena, settled(arena, merged(arena, fields)))
    total: Number | None = None
    at = 0
    for i, f in enumerate(fields):
        top = signed and i == len(fields) - 1
        if isinstance(f, Slice) and (f.part[0].kind != "int" or f.inverted):
            return None
        if isinstance(f, Slice):
            term: Number = signed_term(arena, f) if top else unsigned_term(arena, f)
        else:
            term = _plain_number(arena, f, top)
        total = _plus(arena, total, term, at)
        at += f.width
    return total


def _plain_number(arena: Arena, f: Plain, signed: bool) -> Number:
    if isinstance(f.bits, int):
        value = f.bits - (1 << f.width) if signed and f.bits >> f.width - 1 else f.bits
        return arena.rational(value), value, value
    column = f.bits.astype(np.uint64)
    if signed:
        numbers = (column << np.uint64(64 - f.width)).view(np.int64) >> np.int64(64 - f.width)
        return arena.integers(numbers), int(numbers.min()), int(numbers.max())
    return arena.integers(column), int(column.min()), int(column.max())


def _plus(arena: Arena, total: Number | None, term: Number, at: int) -> Number:
    ids, lo, hi = term
    if at:
        ids, lo, hi = arena.mul(ids, arena.rational(1 << at)), lo << at, hi << at
    if total is None:
        return ids, lo, hi
    return arena.add(ids, total[0]), lo + total[1], hi + total[2]


# --- signs --------------------------------------------------------------------------------------


def settled(arena: Arena, fields: Sequence[Field]) -> list[Field]:
    """Sign bits that were set, cleared, flipped or copied on a whole number become its negation, magnitude or offset."""
    result: list[Field] = []
    todo = list(fields)
    while todo:
        f = todo.pop(0)
        if isinstance(f, Slice) and not f.inverted and f.lo == 0 and f.width == f.part[0].bits - 1 and todo:
            changed = _with_sign(arena, f, todo[0])
            if changed is not None:
                result.append(changed)
                rest = cut(todo, 1, total_width(todo) - 1)
                todo = list(rest)
                continue
        if isinstance(f, Slice) and f.inverted and f.part[0].kind == "int":
            f = _complement(arena, f)
        result.append(f)
    return result


def _complement(arena: Arena, s: Slice) -> Slice:
    """~x = -1 - x."""
    fmt, ids = s.part
    return Slice((int_fmt(fmt.bits, -1 - fmt.hi, -1 - fmt.lo), arena.sub(arena.rational(-1), ids)), s.lo, s.width)


def _with_sign(arena: Arena, s: Slice, above: Field) -> Slice | None:
    """A number without its top bit, below another bit: flipped, constant, or another number's sign."""
    fmt, ids = s.part
    if fmt.kind == "int":
        if not isinstance(above, Slice) or not above.inverted or above.lo != s.width or not same_ids(above.part[1], ids):
            return None
        half = 1 << s.width
        offset = half if fmt.lo < 0 else -half
        return Slice((int_fmt(fmt.bits, fmt.lo + offset, fmt.hi + offset), arena.add(ids, arena.rational(offset))), 0, fmt.bits)
    if fmt.kind != "float":
        return None
    if isinstance(above, Plain):
        if not isinstance(above.bits, int):
            return None
        size = arena.abs(ids)
        return Slice((fmt, arena.neg(size) if above.bits & 1 else size), 0, fmt.bits)
    other, source = above.part
    if other.kind != "float" or above.lo != other.bits - 1:
        return None
    if same_ids(source, ids) and other is fmt:
        return Slice((fmt, arena.neg(ids)), 0, fmt.bits) if above.inverted else None
    arena.assumptions.setdefault("a zero whose sign is copied counts as positive")
    size = arena.abs(ids)
    negative = arena.compare(Op.LT, source, 0)
    yes, no = (size, arena.neg(size)) if above.inverted else (arena.neg(size), size)
    return Slice((fmt, arena.select(negative, yes, no)), 0, fmt.bits)


def extended(arena: Arena, fields: Sequence[Field], width: int, signed: bool) -> list[Field] | None:
    """Fields extended to ``width`` bits; None where the sign of something that is no number would be copied."""
    fields = merged(arena, settled(arena, merged(arena, fields)))
    more = width - total_width(fields)
    if more <= 0:
        return cut(fields, 0, width)
    if not signed:
        return [*fields, Plain(0, more)]
    top = fields[-1]
    if isinstance(top, Plain):
        if isinstance(top.bits, int):
            grown: Word = top.bits | (mask(more) << top.width if top.bits >> top.width - 1 else 0)
        else:
            up = np.uint64(64 - top.width)
            grown = ((top.bits << up).view(np.int64) >> np.int64(64 - top.width)).view(np.uint64) & np.uint64(mask(top.width + more))
        return [*fields[:-1], Plain(grown, top.width + more)]
    if top.part[0].kind != "int":
        return None
    ids, lo, hi = signed_term(arena, top)
    return [*fields[:-1], Slice((int_fmt(top.width + more, lo, hi), ids), 0, top.width + more)]
