"""Registers read in formats other than those they were written in, where that has an exact meaning.

A float whose sign and exponent bits are constants and whose mantissa holds integer fields is a linear function of them: this is how
compilers turn packed int4 and int8 into floats (0x6400 for f16, 0x4B000000 for f32, 0x4330000000000000 for f64). A narrow float above
zeros is a wider one with the same exponent (bf16 in f32, e5m2 in f16).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from gmpy2 import mpq

from ptx_engine.isa.chosen import chosen_floats
from ptx_engine.isa.fields import Field, Plain, Slice, cut, fields_of, merged, number, settled, to_value, total_width
from ptx_engine.isa.magnitude import power_of_low_bits
from ptx_engine.isa.values import F32, TF32, UINT, Fmt, Part, Sym, Value, const_part, int_fmt, wrap_int
from ptx_engine.terms import Arena, Ids

#: format -> mantissa bits, exponent bias
_LAYOUT = {"f16": (10, 15), "bf16": (7, 127), "f32": (23, 127), "f64": (52, 1023)}
#: (narrow, wide) formats of one exponent width
_EMBEDDED = {("bf16", "f32"), ("e5m2", "f16")}


def as_formats(arena: Arena, value: Value, fmts: Sequence[Fmt]) -> list[Ids] | None:
    """A register read as parts of the given formats (term ids; bits of "bits" formats); None where it has no such meaning."""
    total = sum(f.bits for f in fmts)
    fields = fields_of(value, total)
    result: list[Ids] = []
    at = 0
    for fmt in fmts:
        ids = _read(arena, cut(fields, at, fmt.bits), fmt)
        if ids is None:
            return None
        result.append(ids)
        at += fmt.bits
    return result


def _read(arena: Arena, fields: list[Field], fmt: Fmt) -> Ids | None:
    fields = merged(arena, settled(arena, merged(arena, fields)))
    if len(fields) == 1 and isinstance(fields[0], Plain):
        bits = fields[0].bits
        return const_part(arena, bits if isinstance(bits, int) or fmt.bits not in UINT else bits.astype(UINT[fmt.bits]), fmt)
    if fmt.kind == "int":
        found = number(arena, fields, fmt.lo < 0)
        return None if found is None else wrap_int(arena, found[0], int_fmt(fmt.bits, found[1], found[2]), fmt.bits, fmt.lo < 0)[0]
    return _float(arena, fields, fmt) if fmt.kind == "float" else None


def _float(arena: Arena, fields: list[Field], fmt: Fmt) -> Ids | None:
    top = fields[-1]
    if isinstance(top, Slice) and top.lo == 0 and top.width == top.part[0].bits and not top.inverted:
        held, ids = top.part
        if held is fmt or (held.kind == "float" and held.bits == fmt.bits and TF32 in (held, fmt)):
            return ids
        if held.kind == "int" and held.bits == fmt.bits:
            return chosen_floats(arena, ids, fmt)
        below = fields[:-1]
        zero = len(below) == 1 and isinstance(below[0], Plain) and not np.any(below[0].bits)
        return ids if zero and (held.name, fmt.name) in _EMBEDDED else None
    shifted = _exponent(arena, fields, fmt)
    return _linear_mantissa(arena, fields, fmt) if shifted is None else shifted


def _exponent(arena: Arena, fields: list[Field], fmt: Fmt) -> Ids | None:
    """The low bits of an f32 integer above 2**23, moved into the exponent of an f32 number."""
    top = fields[-1]
    if fmt is not F32 or len(fields) != 2 or not isinstance(top, Slice) or top.inverted or top.part[0] is not F32:
        return None
    below = fields[0]
    zero = isinstance(below, Plain) and below.width == _LAYOUT["f32"][0] and not np.any(below.bits)
    return power_of_low_bits(arena, top.part[1]) if zero and top.lo == 0 else None


def _linear_mantissa(arena: Arena, fields: list[Field], fmt: Fmt) -> Ids | None:
    """(-1)^s * 2^(e - bias) * (1 + m / 2^p) for constant s and e and integer fields in m."""
    if fmt.name not in _LAYOUT:
        return None
    precision, bias = _LAYOUT[fmt.name]
    head = merged(arena, cut(fields, precision, fmt.bits - precision))
    if len(head) != 1 or not isinstance(head[0], Plain):
        return None
    bits = head[0].bits
    if isinstance(bits, np.ndarray):
        if not bits.size or not bool((bits == bits[0]).all()):
            return None
        bits = int(bits[0])
    sign, exponent = bits >> fmt.bits - precision - 1, bits & ((1 << fmt.bits - precision - 1) - 1)
    if exponent in (0, (1 << fmt.bits - precision - 1) - 1):
        return None
    found = number(arena, cut(fields, 0, precision), False)
    if found is None:
        return None
    one = mpq(2) ** (exponent - bias) * (-1 if sign else 1)
    return arena.add(arena.mul(found[0], arena.rational(one / (1 << precision))), arena.rational(one))


def integer_of(arena: Arena, value: Value, bits: int, signed: bool) -> tuple[Ids, int, int] | None:
    """The low ``bits`` bits of a register as one integer: (ids, lo, hi)."""
    return number(arena, cut(fields_of(value, max(bits, width_of(value, bits))), 0, bits), signed)


def width_of(value: Value, default: int) -> int:
    """The bits that a symbolic register holds."""
    return sum(f.bits for f, _ in value.parts) if isinstance(value, Sym) else default


def low_bits(arena: Arena, value: Value, bits: int) -> Value | None:
    """The low bits of a register as a register of their own."""
    return to_value(arena, cut(fields_of(value, max(bits, width_of(value, bits))), 0, bits))


def pieces_of(arena: Arena, value: Value, widths: Sequence[int]) -> list[Value] | None:
    """A register cut into registers of the given widths, low first."""
    fields = fields_of(value, sum(widths))
    result: list[Value] = []
    at = 0
    for width in widths:
        piece = to_value(arena, cut(fields, at, width))
        if piece is None:
            return None
        result.append(piece)
        at += width
    return result


def aligned(arena: Arena, values: Sequence[Value], width: int) -> tuple[tuple[Fmt, ...], list[list[Ids]]] | None:
    """Registers of different structure in common formats: cut wherever one of them changes; None where formats do not fit."""
    rows = [merged(arena, settled(arena, merged(arena, fields_of(v, width)))) for v in values]
    cuts = sorted({0, width, *(at for row in rows for at in _edges(row))})
    fmts: list[Fmt] = []
    columns: list[list[Ids]] = [[] for _ in values]
    for lo, hi in itertools.pairwise(cuts):
        pieces = [cut(row, lo, hi - lo)[0] for row in rows]
        common = _common(arena, pieces, hi - lo)
        if common is None:
            return None
        fmt, ids = common
        fmts.append(fmt)
        for column, x in zip(columns, ids):
            column.append(x)
    return tuple(fmts), columns


def _edges(row: Sequence[Field]) -> list[int]:
    edges, at = [], 0
    for f in row:
        at += f.width
        edges.append(at)
    return edges


def _common(arena: Arena, pieces: Sequence[Field], width: int) -> tuple[Fmt, list[Ids]] | None:
    """One format for fields of one place: a float that all hold (constants are read in it), or an integer."""
    floats = {p.part[0] for p in pieces if isinstance(p, Slice) and p.part[0].kind == "float"}
    if floats:
        fmt = floats.pop()
        if floats or fmt.bits != width:
            return None
        ids = [_read(arena, [p], fmt) for p in pieces]
        return None if any(x is None for x in ids) else (fmt, [x for x in ids if x is not None])
    signed = any(isinstance(p, Slice) and p.part[0].lo < 0 and p.lo == 0 for p in pieces)
    numbers = [number(arena, [p], signed) for p in pieces]
    if any(n is None for n in numbers):
        return None
    known = [n for n in numbers if n is not None]
    return int_fmt(width, min(n[1] for n in known), max(n[2] for n in known)), [n[0] for n in known]


def byte_parts(arena: Arena, value: Sym, cell_bits: int) -> tuple[Part, ...] | None:
    """The parts of a register with none smaller than (or across) a memory cell: fields within a cell become one integer."""
    parts: list[Part] = []
    group: list[Field] = []
    for field in merged(arena, settled(arena, merged(arena, fields_of(value, width_of(value, 0))))):
        for piece in _at_cells(field, total_width(group) % cell_bits, cell_bits):
            group.append(piece)
            if total_width(group) % cell_bits == 0:
                part = _cell_part(arena, group)
                if part is None:
                    return None
                parts.extend(part)
                group = []
    return tuple(parts) if not group else None


def _at_cells(field: Field, offset: int, cell_bits: int) -> list[Field]:
    """A field cut so that nothing reaches over the end of a cell that it shares."""
    head = (cell_bits - offset) % cell_bits if offset else field.width - field.width % cell_bits
    head = min(head, field.width)
    rest = field.width - head
    if offset and rest > cell_bits and rest % cell_bits:
        whole = rest - rest % cell_bits
        return [*cut([field], 0, head), *cut([field], head, whole), *cut([field], head + whole, rest - whole)]
    return [*cut([field], 0, head), *cut([field], head, rest)]


def _cell_part(arena: Arena, group: list[Field]) -> Sequence[Part] | None:
    one = to_value(arena, group)
    if isinstance(one, Sym) and len(one.parts) == 1:
        return one.parts
    if len(group) == 1 and isinstance(group[0], Plain):
        return to_parts(group[0])
    found = number(arena, group, False)
    return None if found is None else [(int_fmt(total_width(group), found[1], found[2]), found[0])]


def to_parts(f: Plain) -> Sequence[Part]:
    """Concrete bits as one part."""
    from ptx_engine.isa.fields import bit_fmt

    bits = f.bits if isinstance(f.bits, int) or f.width not in UINT else f.bits.astype(UINT[f.width])
    return [(bit_fmt(f.width), bits)]
