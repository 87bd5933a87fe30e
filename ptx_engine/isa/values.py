"""What a register holds: concrete bits, or parts of symbolic data.

A register value is one of
  * ``int`` — the same bits in all threads of the group (predicates: ``bool``);
  * an unsigned NumPy column of the register's width (predicates: bool column);
  * ``Sym`` — a tuple of parts, low bits first; a part is a format and a term id (int or int32 column).
    Concrete bits beside symbolic ones are a part of format ``BITS8/16/32`` whose "id" is the bits;
  * ``None`` — never written.

Formats make packed halves views, never arithmetic on bits. Rounding between float formats is the identity, so a
format says how wide a part is and how concrete bits beside it are to be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

import numpy as np

from ptx_engine.errors import NotStructuredError
from ptx_engine.terms import FALSE, TRUE, UNDEF, Arena, Ids, Op

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, eq=False)
class Fmt:
    """A part's format. ``kind``: "float", "int" (a term that is an exact integer in [lo, hi], bits = value mod 2^bits),
    "bits" (concrete), "pred" (a 0/1 term)."""

    name: str
    bits: int
    kind: str
    lo: int = 0
    hi: int = 0


F16, BF16, F32, TF32, F64 = (Fmt(n, b, "float") for n, b in (("f16", 16), ("bf16", 16), ("f32", 32), ("tf32", 32), ("f64", 64)))
E4M3, E5M2 = Fmt("e4m3", 8, "float"), Fmt("e5m2", 8, "float")
BITS8, BITS16, BITS32, BITS64 = (Fmt(f"b{n}", n, "bits") for n in (8, 16, 32, 64))
BITS = {8: BITS8, 16: BITS16, 32: BITS32, 64: BITS64}
PRED = Fmt("pred", 1, "pred", 0, 1)
#: concrete bits that only some lanes of the group have written; the "id" is an int64 column with ``UNWRITTEN`` elsewhere.
#: No instruction reads it: a register that was written under a predicate may only be read by the lanes that wrote it.
PARTIAL = {width: Fmt(f"partly unwritten b{width}", width, "partial") for width in (1, 8, 16, 32, 64)}
UNWRITTEN = int(np.iinfo(np.int64).min)
#: what is said of such a register where it is read
PARTLY = "that only some of the executing threads have written"
FLOATS = {f.name: f for f in (F16, BF16, F32, TF32, F64, E4M3, E5M2)}
_INT_FMTS: dict[tuple[int, int, int], Fmt] = {}


def int_fmt(bits: int, lo: int, hi: int) -> Fmt:
    """The format of a symbolic integer of a width whose value lies in [lo, hi]."""
    key = (bits, lo, hi)
    found = _INT_FMTS.get(key)
    if found is None:
        found = _INT_FMTS[key] = Fmt(f"i{bits}[{lo},{hi}]", bits, "int", lo, hi)
    return found


def dtype_fmt(dtype: str) -> Fmt:
    """The format of a tensor element of a launch dtype."""
    if dtype in FLOATS:
        return FLOATS[dtype]
    bits = int(dtype[1:]) if dtype != "pred" else 8
    if dtype[0] == "s":
        return int_fmt(bits, -(1 << bits - 1), (1 << bits - 1) - 1)
    return int_fmt(bits, 0, (1 << bits) - 1 if dtype != "pred" else 1)


Part = tuple[Fmt, Ids]

#: (format, first bit, width) -> the format of a piece of a float: no number, but its other pieces may join it again
_PIECES: dict[tuple[Fmt, int, int], Fmt] = {}
_PIECE_OF: dict[Fmt, tuple[Fmt, int]] = {}


def piece_fmt(fmt: Fmt, lo: int, width: int) -> Fmt:
    """The format of bits [lo, lo + width) of a float."""
    found = _PIECES.get((fmt, lo, width))
    if found is None:
        found = _PIECES[fmt, lo, width] = Fmt(f"bits {lo}..{lo + width - 1} of {fmt.name}", width, "piece")
        _PIECE_OF[found] = (fmt, lo)
    return found


def piece_of(fmt: Fmt) -> tuple[Fmt, int]:
    """The float that a piece belongs to, and the piece's first bit."""
    return _PIECE_OF[fmt]


_XORS: dict[Fmt, Fmt] = {}
_XOR_OF: dict[Fmt, Fmt] = {}


def xor_fmt(fmt: Fmt) -> Fmt:
    """The format of the exclusive or of two floats: no number, but one of the two may cancel it."""
    found = _XORS.get(fmt)
    if found is None:
        found = _XORS[fmt] = Fmt(f"xor of {fmt.name}", fmt.bits, "xor")
        _XOR_OF[found] = fmt
    return found


def xor_of(fmt: Fmt) -> Fmt:
    """The format of the floats in an exclusive or."""
    return _XOR_OF[fmt]


def same_ids(a: Ids, b: Ids) -> bool:
    """Whether two columns hold the same terms."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return a is b or bool(np.all(np.asarray(a) == np.asarray(b)))


class Sym:
    """A register with symbolic data. NumPy and ``int`` operators refuse it, so integer fast paths fall to the slow path."""

    __slots__ = ("parts",)
    __array_ufunc__ = None

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self.parts = parts

    def __repr__(self) -> str:
        return "Sym(" + ", ".join(f"{f.name}:{ids!r}" for f, ids in self.parts) + ")"


Value = Union[int, bool, "np.ndarray", Sym, None]
UINT: dict[int, np.dtype] = {
    1: np.dtype(bool),
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
}
INT: dict[int, np.dtype] = {8: np.dtype(np.int8), 16: np.dtype(np.int16), 32: np.dtype(np.int32), 64: np.dtype(np.int64)}


#: the feature of the error for a register that is read before it is written
UNINITIALISED_REGISTER = "uninitialised register"


def uninitialised(name: str = "") -> NotStructuredError:
    """The error for reading a register that no thread of the group has written."""
    return NotStructuredError(f"register {name or 'operand'} is read before it is written", feature=UNINITIALISED_REGISTER)


def wrap_int(arena: Arena, ids: Ids, fmt: Fmt, bits: int, signed: bool) -> tuple[Ids, int, int]:
    """A symbolic integer as a signed or unsigned number of ``bits``: (ids, lo, hi); WRAP only where the range needs it."""
    lo, hi = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if fmt.lo >= lo and fmt.hi <= hi:
        return ids, fmt.lo, fmt.hi
    ids = under_wraps(arena, ids, bits)
    known = input_range(arena, ids)
    if known is not None and known[0] >= lo and known[1] <= hi:
        return ids, *known
    return arena.emit(Op.WRAP, ids, -bits if signed else bits), lo, hi


def under_wraps(arena: Arena, ids: Ids, bits: int) -> Ids:
    """What stands under a WRAP of at least ``bits`` bits in all lanes: it is the same modulo 2^bits."""
    where = np.atleast_1d(np.asarray(ids))
    if not where.size or int(where.min()) < 0:
        return ids
    ops, a, b, _ = arena.columns()
    if bool((ops[where] == Op.WRAP).all()) and int(np.abs(b[where]).min()) >= bits:
        return int(a[ids]) if isinstance(ids, int) else a[ids]
    return ids


def input_range(arena: Arena, ids: Ids) -> tuple[int, int] | None:
    """Least and greatest value of elements of one integer input; None for anything else."""
    where = np.atleast_1d(np.asarray(ids))
    if not where.size or int(where.max()) >= 0:
        return None
    first, last = (arena.input_of(int(i))[0] for i in (where.min(), where.max()))
    if first is not last or first.fmt in FLOATS or first.fmt == "pred":
        return None
    fmt = dtype_fmt(first.fmt)
    return fmt.lo, fmt.hi


def const_part(arena: Arena, bits: Ids, fmt: Fmt) -> Ids:
    """Concrete bits read in a format: term ids of the constants they mean."""
    if fmt.kind == "bits":
        return bits
    if fmt.kind == "xor" and np.any(bits):
        raise NotStructuredError(f"concrete bits beside an {fmt.name} words", feature=f"{fmt.name} words")
    if fmt.kind == "float":
        return arena.float_bits(bits, fmt.name) if isinstance(bits, int) else arena.float_bits_column(bits, fmt.name)
    signed = fmt.lo < 0
    if isinstance(bits, int):
        return arena.rational(bits - (1 << fmt.bits) if signed and bits >> (fmt.bits - 1) else bits)
    column = bits.astype(UINT[fmt.bits])
    return arena.integers(column.view(INT[fmt.bits]) if signed else column)


def split_bits(value: "int | np.ndarray", widths: Sequence[int]) -> list["int | np.ndarray"]:
    """Concrete bits cut into fields of the given widths, low first."""
    fields: list[int | np.ndarray] = []
    shift = 0
    for width in widths:
        if isinstance(value, int):
            fields.append((value >> shift) & ((1 << width) - 1))
        elif width == value.dtype.itemsize * 8 or value.dtype == bool:
            fields.append(value)
        elif width < 8:
            fields.append(((value >> value.dtype.type(shift)) & value.dtype.type((1 << width) - 1)).astype(np.uint8))
        else:
            fields.append((value >> value.dtype.type(shift)).astype(UINT[width]))
        shift += width
    return fields


def as_parts(arena: Arena, value: Value, fmts: Sequence[Fmt]) -> list[Ids] | None:
    """A value read as parts of the given formats (ids each); None where the parts do not line up."""
    if isinstance(value, Sym):
        parts = value.parts
        if len(parts) != len(fmts):
            return _as_formats(arena, value, fmts)
        result: list[Ids] = []
        for (have, ids), want in zip(parts, fmts):
            if have is want or (have.kind == want.kind == "float" and have.bits == want.bits and {have, want} <= {F32, TF32}):
                result.append(ids)
            elif have.kind == "bits" and have.bits == want.bits:
                result.append(const_part(arena, ids, want))
            elif have.kind == want.kind == "int" and have.bits == want.bits:
                result.append(ids if want.lo <= have.lo and have.hi <= want.hi else wrap_int(arena, ids, have, want.bits, want.lo < 0)[0])
            else:
                return _as_formats(arena, value, fmts)
        return result
    if value is None:
        raise uninitialised()
    return [const_part(arena, piece, fmt) for piece, fmt in zip(split_bits(value, [f.bits for f in fmts]), fmts)]


def _as_formats(arena: Arena, value: Sym, fmts: Sequence[Fmt]) -> list[Ids] | None:
    """Parts that do not line up (see ``reinterpret``)."""
    from ptx_engine.isa.reinterpret import as_formats

    return as_formats(arena, value, fmts)


def read_float(arena: Arena, value: Value, fmt: Fmt) -> Ids:
    """The term ids of a register read as one float of a format. Raises NotStructuredError for bits that are no such float."""
    if value.__class__ is Sym:
        parts = value.parts
        if len(parts) == 1 and parts[0][0] is fmt:
            return parts[0][1]
        return _read_float_slow(arena, value, fmt)
    if isinstance(value, int):
        return arena.float_bits(value, fmt.name)
    if value is None:
        raise uninitialised()
    assert isinstance(value, np.ndarray)
    return arena.float_bits_column(value, fmt.name)


def _read_float_slow(arena: Arena, value: Sym, fmt: Fmt) -> Ids:
    from ptx_engine.isa.float_words import float_of

    found = as_parts(arena, value, (fmt,))
    if found is not None:
        return found[0]
    opaque = float_of(arena, value, fmt)
    if opaque is not None:
        return opaque
    held = "+".join(f.name for f, _ in value.parts)
    raise NotStructuredError(f"bits of {held} data are read as {fmt.name}", feature=f"{held} read as {fmt.name}")


def narrow(value: Value, bits: int) -> Value:
    """The low ``bits`` of an integer register (8-bit sources stand in wider registers)."""
    if isinstance(value, int):
        return value & ((1 << bits) - 1)
    if isinstance(value, np.ndarray) and value.dtype.itemsize * 8 != bits:
        return value.astype(UINT[bits])
    if isinstance(value, Sym) and len(value.parts) == 1 and value.parts[0][0].kind == "int" and value.parts[0][0].bits > bits:
        fmt, ids = value.parts[0]
        return Sym(((int_fmt(bits, fmt.lo, fmt.hi), ids),))
    return value


def predicate_value(ids: Ids) -> Value:
    """0/1 ids as a predicate register: concrete where every lane is a constant."""
    if isinstance(ids, int):
        return ids == TRUE if ids in (TRUE, FALSE) else Sym(((PRED, ids),))
    if int(ids.view(np.uint32).max()) <= TRUE:
        return ids.astype(bool)
    return Sym(((PRED, ids),))


def concrete(value: Value) -> "int | np.ndarray | None":
    """The value as concrete bits, or None if it is symbolic."""
    if isinstance(value, Sym):
        return None
    if value is None:
        raise uninitialised()
    return value


def take(value: Value, index: np.ndarray) -> Value:
    """The value of a subset of the group's threads."""
    if value.__class__ is np.ndarray:
        return np.asarray(value[index])
    if value.__class__ is Sym:
        return settled(Sym(tuple((f, ids if isinstance(ids, int) else ids[index]) for f, ids in value.parts)))
    return value


def partial(value: Value, written: np.ndarray, width: int) -> Value:
    """Concrete bits that only the ``written`` lanes hold (an already partial value stays as it is elsewhere)."""
    held = value.parts[0][1] if isinstance(value, Sym) else np.asarray(value).astype(UINT[64]).view(np.int64)
    return settled(Sym(((PARTIAL[width], np.where(written, held, np.int64(UNWRITTEN))),)))


def settled(value: Sym) -> Value:
    """A partly unwritten register whose lanes are all written is plain bits again."""
    fmt, ids = value.parts[0]
    if fmt.kind != "partial":
        return value
    column = np.asarray(ids)
    if bool((column == UNWRITTEN).any()):
        return value
    return column != 0 if fmt.bits == 1 else column.view(np.uint64).astype(UINT[fmt.bits])


def unwritten_lanes(value: Value) -> "bool | np.ndarray":
    """Which lanes have not written a register that others have."""
    return np.asarray(value.parts[0][1]) == UNWRITTEN if isinstance(value, Sym) and is_partial(value) else False


def is_partial(value: Value) -> bool:
    """Whether some lanes of a register of concrete bits were never written."""
    return isinstance(value, Sym) and any(fmt.kind == "partial" for fmt, _ in value.parts)


def common_fmts(a: Value, b: Value) -> tuple[Fmt, ...] | None:
    """The formats in which two values, at least one of them symbolic, can stand in one column; None if there are none."""
    if not isinstance(a, Sym) or not isinstance(b, Sym):
        only = a if isinstance(a, Sym) else b
        assert isinstance(only, Sym)
        return tuple(f for f, _ in only.parts)
    if len(a.parts) != len(b.parts):
        return None
    fmts: list[Fmt] = []
    for (f, _), (g, _) in zip(a.parts, b.parts):
        if f is g or (g.kind == "bits" and f.bits == g.bits):
            fmts.append(f)
        elif f.kind == "bits" and f.bits == g.bits:
            fmts.append(g)
        elif f.kind == g.kind == "int" and f.bits == g.bits:
            fmts.append(int_fmt(f.bits, min(f.lo, g.lo), max(f.hi, g.hi)))
        elif {f, g} == {F32, TF32}:
            fmts.append(F32)
        else:
            return None
    return tuple(fmts)


def covering(fmt: Fmt, bits: "int | np.ndarray") -> Fmt:
    """An integer format that holds concrete bits too (as ``const_part`` reads them)."""
    if fmt.kind != "int":
        return fmt
    signed = fmt.lo < 0
    if isinstance(bits, int):
        low = high = bits - (1 << fmt.bits) if signed and bits >> fmt.bits - 1 else bits
    else:
        column = np.asarray(bits).astype(UINT[fmt.bits])
        numbers = column.view(INT[fmt.bits]) if signed else column
        low, high = int(numbers.min()), int(numbers.max())
    return fmt if fmt.lo <= low and high <= fmt.hi else int_fmt(fmt.bits, min(low, fmt.lo), max(high, fmt.hi))


def together(arena: Arena, values: Sequence[Value], width: int) -> tuple[tuple[Fmt, ...], list[list[Ids]]] | None:
    """Registers, at least one of them symbolic, in common formats: (formats, ids of each); None where there are none."""
    fmts: tuple[Fmt, ...] | None = next(tuple(f for f, _ in v.parts) for v in values if isinstance(v, Sym))
    for v in values:
        fmts = common_fmts(Sym(tuple((f, 0) for f in fmts)), v) if fmts is not None else None
    if fmts is not None and all(f.bits in UINT for f in fmts):
        for v in values:
            if isinstance(v, Sym):
                pieces: list[Ids | None] = [ids if f.kind == "bits" else None for f, ids in v.parts]
            else:
                pieces = list(split_bits(v, [f.bits for f in fmts]))  # type: ignore[arg-type]
            fmts = tuple(f if p is None else covering(f, p) for f, p in zip(fmts, pieces))
        rows = [as_parts(arena, v, fmts) for v in values]
        if all(row is not None for row in rows):
            return fmts, [row for row in rows if row is not None]
    from ptx_engine.isa.reinterpret import aligned

    return aligned(arena, values, width)


def choose(arena: Arena, mask: np.ndarray, a: Value, b: Value, width: int) -> Value:
    """``a`` where the mask holds, else ``b``, lane by lane; a side that was never written gives undefined lanes."""
    if a is None or b is None:
        other = b if a is None else a
        if other is None:
            return None
        if isinstance(other, Sym) and not is_partial(other):
            blank: Value = Sym(tuple((f, 0 if f.kind == "bits" else UNDEF) for f, _ in other.parts))
        else:
            return partial(other, ~mask if a is None else mask, width)
        a, b = (blank, b) if a is None else (a, blank)
    if is_partial(a) or is_partial(b):
        return _choose_partial(mask, a, b, width)
    if not isinstance(a, Sym) and not isinstance(b, Sym):
        if isinstance(a, int) and isinstance(b, int):
            if a == b:
                return a
            a, b = UINT[width].type(a), UINT[width].type(b)
        chosen: np.ndarray = np.where(mask, a, b)  # type: ignore[assignment, arg-type]
        return chosen
    found = together(arena, (a, b), width)
    if found is None:
        raise NotStructuredError(
            f"threads of one group hold {a!r} and {b!r} in one register"[:200], feature="mixed formats in one register"
        )
    fmts, (left, right) = found
    return Sym(tuple((f, _where(mask, x, y)) for f, x, y in zip(fmts, left, right)))


def _choose_partial(mask: np.ndarray, a: Value, b: Value, width: int) -> Value:
    """``choose`` where a side is partly unwritten; the other must be concrete bits too."""
    for v in (a, b):
        if isinstance(v, Sym) and not is_partial(v):
            raise NotStructuredError(
                "a register holds symbolic data in some threads and nothing in others", feature="partly unwritten register"
            )
    x, y = (v if isinstance(v, Sym) else Sym(((PARTIAL[width], _bits64(v, len(mask))),)) for v in (a, b))
    return settled(Sym(((PARTIAL[width], np.where(mask, x.parts[0][1], y.parts[0][1])),)))


def _bits64(value: Value, n: int) -> np.ndarray:
    return np.broadcast_to(np.asarray(value).astype(UINT[64]).view(np.int64), (n,))


def _where(mask: np.ndarray, x: Ids, y: Ids) -> Ids:
    if isinstance(x, int) and isinstance(y, int):
        return x if x == y else np.where(mask, np.int32(x), np.int32(y))
    dtype = np.asarray(y if isinstance(x, int) else x).dtype
    return np.where(mask, dtype.type(x) if isinstance(x, int) else x, dtype.type(y) if isinstance(y, int) else y)


def join(arena: Arena, values: Sequence[Value], sizes: Sequence[int], order: np.ndarray | None, width: int) -> Value:
    """One column from the columns of several groups, laid end to end and then permuted by ``order`` (None: keep)."""
    first = values[0]
    if isinstance(first, int) and all(isinstance(v, int) and v == first for v in values):
        return first
    if any(v is None for v in values):
        values = _fill_blank(values, sizes, width)
        if values[0] is None:
            return None
    if any(is_partial(v) for v in values):
        return _join_partial(values, sizes, order, width)
    symbolic = [v for v in values if isinstance(v, Sym)]
    if not symbolic:
        pieces = [np.full(n, v, UINT[width]) if isinstance(v, int) else v for v, n in zip(values, sizes)]
        column: np.ndarray = np.concatenate(pieces)  # type: ignore[arg-type]
        return column if order is None else column[order]
    found = together(arena, values, width)
    if found is None:
        raise NotStructuredError("threads that meet hold different formats in one register", feature="mixed formats in one register")
    fmts, rows = found
    parts: list[Part] = []
    for i, fmt in enumerate(fmts):
        ids = [row[i] for row in rows]
        if all(isinstance(x, int) and x == ids[0] for x in ids):
            parts.append((fmt, ids[0]))
            continue
        dtype = next((x.dtype for x in ids if isinstance(x, np.ndarray)), np.dtype(np.int32))
        column = np.concatenate([np.full(n, x, dtype) if isinstance(x, int) else x for x, n in zip(ids, sizes)])
        parts.append((fmt, column if order is None else column[order]))
    return Sym(tuple(parts))


def _join_partial(values: Sequence[Value], sizes: Sequence[int], order: np.ndarray | None, width: int) -> Value:
    if any(isinstance(v, Sym) and not is_partial(v) for v in values):
        raise NotStructuredError("threads that meet hold symbolic data or nothing in one register", feature="partly unwritten register")
    column = np.concatenate([np.asarray(v.parts[0][1]) if isinstance(v, Sym) else _bits64(v, n) for v, n in zip(values, sizes)])
    return settled(Sym(((PARTIAL[width], column if order is None else column[order]),)))


def _fill_blank(values: Sequence[Value], sizes: Sequence[int], width: int) -> list[Value]:
    """Groups that never wrote the register: undefined lanes of symbolic data, unwritten lanes of bits."""
    known = next((v for v in values if v is not None), None)
    if known is None:
        return [None]
    if isinstance(known, Sym) and not is_partial(known):
        blank: Value = Sym(tuple((f, 0 if f.kind == "bits" else UNDEF) for f, _ in known.parts))
        return [blank if v is None else v for v in values]
    return [Sym(((PARTIAL[width], np.full(n, UNWRITTEN, np.int64)),)) if v is None else v for v, n in zip(values, sizes)]
