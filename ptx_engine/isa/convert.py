"""cvt and cvt.pack: float conversions are the algebra's; integers are exact.

Over the reals conversions between float formats are the identity (clamps for .sat/.satfinite/.relu).
Source: PTX ISA 9.1, "Data Movement and Conversion Instructions: cvt, cvt.pack".
"""

from __future__ import annotations

import numpy as np

from ptx_engine.errors import ParseError
from ptx_engine.isa.algebra import Function
from ptx_engine.isa.algebra_symbolic import constant_integers
from ptx_engine.isa.bits import clamp, integer_term, integer_value, refused
from ptx_engine.isa.decode import TYPE_BITS, Decode, Step
from ptx_engine.isa.fields import Slice, cut, extended, fields_of, to_value
from ptx_engine.isa.floating import mode_of
from ptx_engine.isa.group import Group
from ptx_engine.isa.integer import to_signed
from ptx_engine.isa.memory import widen
from ptx_engine.isa.move import unpack
from ptx_engine.isa.registry import constraint, instruction, refuse
from ptx_engine.isa.simple import Extension
from ptx_engine.isa.values import BITS, E4M3, E5M2, FLOATS, TF32, Fmt, Sym, Value, int_fmt, narrow, uninitialised
from ptx_engine.syntax.ast import Reg
from ptx_engine.terms import UNDEF, Arena

INT_TYPES = "u8|u16|u32|u64|s8|s16|s32|s64"
WORD_TYPES = "u16|u32|u64|s16|s32|s64"
_S = "PTX ISA 9.1, Data Movement and Conversion Instructions: cvt"
_PAIR: dict[str, Fmt] = {
    "f16x2": FLOATS["f16"], "bf16x2": FLOATS["bf16"], "e4m3x2": E4M3, "e5m2x2": E5M2, "e4m3x4": E4M3, "e5m2x4": E5M2,
}  # fmt: skip

for _narrow_type in ("e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2", "s2f6x2", "e2m1x4", "e2m3x4", "e3m2x4"):
    refuse(f"cvt.{_narrow_type}", f".{_narrow_type} is a format of sm_100 and later")


def destination_bits(d: Decode, width: int) -> int:
    """The width of the destination register, at least that of its type (results are extended to it)."""
    operand = d.operand(0)
    return max(width, TYPE_BITS[d.env.register_type(operand.name)]) if isinstance(operand, Reg) else max(width, 16)


def _unary(d: Decode, compute: Function) -> Step:
    d.expect(2)
    dst, a = d.dst(), d.src(1)

    def step(g: Group) -> None:
        g.R[dst] = compute(g.R[a])

    return step


def _float_result(d: Decode, compute: Function) -> Function:
    """``compute``, whose result of the width of its type gets zero bits above it where the destination is wider."""
    bits, arena = TYPE_BITS[d.mods["to"]], d.arena
    register = destination_bits(d, bits)
    return compute if register == bits else lambda *values: widen(arena, compute(*values), bits, register, False)


_ROUND = "!rnd=rn|rz|rm|rp"


# Rounding is named where a conversion can lose bits, and nowhere else (.bf16 may have it anyhow); .ftz goes with .f32, .sat not with .bf16.
@instruction("cvt", *(f"[sat] to={kind} type={kind}" for kind in ("f16", "f64")), "[!ftz] [sat] to=f32 type=f32", "to=bf16 type=bf16",
             "[!ftz] [sat] to=f32 type=f16", "[!ftz] [sat] to=f64 type=f32", "[sat] to=f64 type=f16",
             f"[{_ROUND}] to=bf16 type=f16", f"[{_ROUND}] to=f16|f64 type=bf16", f"[{_ROUND}] [!ftz] to=f32 type=bf16",
             f"{_ROUND} [!ftz] [sat] to=f16 type=f32", f"{_ROUND} [sat] to=f16 type=f64", f"{_ROUND} [!ftz] to=bf16 type=f32",
             f"{_ROUND} to=bf16 type=f64", f"{_ROUND} [!ftz] [sat] to=f32 type=f64",
             "!rnd=rn|rz [relu] [satfinite] to=f16|bf16|tf32 type=f32", "!rnd=rn|rz satfinite relu to=f16|bf16|tf32 type=f32",
             "!rnd=rna [satfinite] to=tf32 type=f32", source=_S)  # fmt: skip
def float_to_float(d: Decode) -> Step:
    target = TF32 if d.mods["to"] == "tf32" else FLOATS[d.mods["to"]]
    return _unary(d, _float_result(d, d.algebra.convert("id", (FLOATS[d.mods["type"]],), (target,), mode_of(d))))


_INTEGRAL = "int=rni|rzi|rmi|rpi"


@instruction("cvt", *(f"{_INTEGRAL} [sat] to={kind} type={kind}" for kind in ("f16", "f64")), f"{_INTEGRAL} [!ftz] [sat] to=f32 type=f32",
             f"{_INTEGRAL} to=bf16 type=bf16", source=_S)  # fmt: skip
def float_to_integral(d: Decode) -> Step:
    """A float rounded to an integral float of the same format."""
    fmt = FLOATS[d.mods["type"]]
    return _unary(d, _float_result(d, d.algebra.convert(d.mods["int"], (fmt,), (fmt,), mode_of(d))))


@instruction("cvt", "!rnd=rn|rz [relu] [satfinite] to=f16x2|bf16x2 type=f32", "!rnd=rn|rz satfinite relu to=f16x2|bf16x2 type=f32",
             "!rnd=rn satfinite [relu] to=e4m3x2|e5m2x2 type=f32", "!rnd=rn relu satfinite to=e4m3x2|e5m2x2 type=f32",
             source=_S)  # fmt: skip
def pack_two(d: Decode) -> Step:
    """cvt.f16x2.f32 d, a, b: a goes to the high half, b to the low half. LLVM packs an odd number of values beside a register that it
    never writes, and drops that half later: it is undefined, and the other half is what it is."""
    d.expect(3)
    dst, a, b = d.dst(), d.src(1), d.src(2)
    fmt = _PAIR[d.mods["to"]]
    compute, register = d.algebra.pack(FLOATS["f32"], (fmt, fmt), mode_of(d)), destination_bits(d, 2 * fmt.bits)

    def step(g: Group) -> None:
        R = g.R
        low, high = R[b], R[a]
        if (low is None) == (high is None):
            R[dst] = widen(d.arena, compute(low, high), 2 * fmt.bits, register, False)
            return
        known = 0 if high is None else fmt.bits
        halves = fields_of(compute(low, 0) if high is None else compute(0, high), 2 * fmt.bits)
        half, blank = cut(halves, known, fmt.bits), Slice((fmt, UNDEF), 0, fmt.bits)
        joined = to_value(d.arena, [*half, blank] if high is None else [blank, *half])
        R[dst] = widen(d.arena, joined, 2 * fmt.bits, register, False)

    return step


#: type -> for each operand, last one first: place and number of its bits in the operand of random bits
_RANDOM: dict[str, tuple[tuple[int, int], ...]] = {
    "f16x2": ((0, 13), (16, 13)), "bf16x2": ((0, 16), (16, 16)), "e4m3x4": ((0, 16), (0, 16), (16, 16), (16, 16)),
    "e5m2x4": ((0, 16), (0, 16), (16, 16), (16, 16)),
}  # fmt: skip


@instruction("cvt", "!rs [relu] [satfinite] to=f16x2|bf16x2 type=f32", "!rs [relu] satfinite to=e4m3x4|e5m2x4 type=f32", source=_S)
def pack_random(d: Decode) -> Step:
    """cvt.rs d, a, b, r and cvt.rs d, {a, b, e, f}, r: rounded up where the part cut off and its random bits carry; a is the highest."""
    kind = d.mods["to"]
    places, fmt = _RANDOM[kind], _PAIR[kind]
    d.expect(4 if len(places) == 2 else 3)
    sources = [d.src(1), d.src(2)] if len(places) == 2 else d.srcs(1, 32)
    if len(sources) != len(places):
        raise ParseError(f"{d.ins.mnemonic} takes {len(places)} numbers, not {len(sources)}", span=d.ins.span)
    dst, random = d.dst(), d.src(d.count - 1, 32)
    compute = _float_result(d, d.algebra.pack_random(FLOATS["f32"], (fmt,) * len(places), places, mode_of(d)))

    def step(g: Group) -> None:
        R = g.R
        R[dst] = compute(R[random], *(R[i] for i in reversed(sources)))

    return step


@instruction("cvt", "!rnd=rn satfinite [relu] to=e4m3x2|e5m2x2 type=f16x2|bf16x2", "!rnd=rn [relu] to=f16x2 type=e4m3x2|e5m2x2",
             "!rnd=rn relu satfinite to=e4m3x2|e5m2x2 type=f16x2|bf16x2", source=_S)  # fmt: skip
def repack_two(d: Decode) -> Step:
    source, target = _PAIR[d.mods["type"]], _PAIR[d.mods["to"]]
    return _unary(d, d.algebra.convert("id", (source, source), (target, target), mode_of(d)))


@instruction("cvt", f"{_ROUND} [sat] to=f16|f64 type={INT_TYPES}", f"{_ROUND} [!ftz] [sat] to=f32 type={INT_TYPES}",
             f"{_ROUND} to=bf16 type={WORD_TYPES}", source=_S)  # fmt: skip
def integer_to_float(d: Decode) -> Step:
    return _unary(d, _float_result(d, d.algebra.from_integer(d.bits, d.signed, FLOATS[d.mods["to"]], mode_of(d))))


# Out-of-range values clamp in every float-to-integer conversion: ``.sat`` is redundant.
@instruction("cvt", f"{_INTEGRAL} [!sat] to={INT_TYPES} type=f16|f64", f"{_INTEGRAL} [!ftz] [!sat] to={INT_TYPES} type=f32",
             f"{_INTEGRAL} to={WORD_TYPES} type=bf16", source=_S)  # fmt: skip
def float_to_integer(d: Decode) -> Step:
    kind = d.mods["to"]
    width, signed = int(kind[1:]), kind[0] == "s"
    register = destination_bits(d, width)
    convert = d.algebra.to_integer(d.mods["int"], FLOATS[d.mods["type"]], width, signed, mode_of(d))
    if register == max(width, 16):
        return _unary(d, convert)
    return _unary(d, lambda value: widened(convert(value), max(width, 16), register, signed))


def widened(value: Value, bits: int, register: int, signed: bool) -> Value:
    """A result of ``bits`` extended to a wider register (symbolic integers keep their value)."""
    if isinstance(value, Sym):
        fmt, ids = value.parts[0]
        return Sym(((int_fmt(register, fmt.lo, fmt.hi), ids),))
    assert value is not None
    return _resize(to_signed(value, bits) if signed else value, bits, register, signed, False)


@instruction("cvt", f"[sat] to={INT_TYPES} type={INT_TYPES}", source=_S)
def integer_to_integer(d: Decode) -> Step:
    bits, signed, arena = d.bits, d.signed, d.arena
    kind, saturate = d.mods["to"], d.has("sat")
    width = int(kind[1:])
    register = destination_bits(d, width)

    def compute(value: Value) -> Value:
        value = narrow(value, bits)
        if value is None:
            raise uninitialised()
        if isinstance(value, Sym):
            return _resize_symbolic(arena, value, bits, signed, width, register, kind[0] == "s", saturate)
        return _resize(to_signed(value, bits) if signed else value, width, register, kind[0] == "s", saturate)

    step = _unary(d, compute)
    if not saturate and register == width >= 16 and bits >= 16:
        d.simple = Extension(d.dst(), d.src(1), bits, width, signed)
    return step


@constraint("cvt", ".sat stands where the result's type does not have all values of the source's")
def _can_saturate(mods: dict[str, str]) -> bool:
    kinds = (mods.get("to", ""), mods["type"])
    if "sat" not in mods or "ctype" in mods or any(k not in INT_TYPES.split("|") for k in kinds):
        return True
    (lo, hi), (low, high) = (int_range(int(kind[1:]), kind[0] == "s") for kind in kinds)
    return low < lo or high > hi


def int_range(width: int, signed: bool) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    return (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)


def _resize(number: "int | np.ndarray", width: int, register: int, signed: bool, saturate: bool) -> Value:
    lo, hi = int_range(width, signed)
    if isinstance(number, int):
        clipped = min(max(number, lo), hi) if saturate else number
        low = clipped & ((1 << width) - 1)
        return (low - (1 << width) if signed and low >> (width - 1) else low) & ((1 << register) - 1)
    if saturate:
        bounds = np.iinfo(number.dtype)
        number = np.asarray(np.clip(number, max(lo, int(bounds.min)), min(hi, int(bounds.max))))
    narrowed = number.astype(f"{'i' if signed else 'u'}{width // 8}")
    return narrowed.astype(f"{'i' if signed else 'u'}{register // 8}").view(f"u{register // 8}")


def _resize_symbolic(
    arena: Arena, value: Sym, bits: int, signed: bool, width: int, register: int, to_signed_type: bool, saturate: bool
) -> Value:
    """Symbolic integers: read at the source width, wrap (or clamp) to the target's; float parts only keep or drop whole parts."""
    if not saturate:
        kept = extended(arena, cut(fields_of(value, bits), 0, min(bits, width)), width, signed)
        whole = None if kept is None else extended(arena, kept, register, to_signed_type)
        found = None if whole is None else to_value(arena, whole)
        if found is None:
            raise refused("cvt", value)
        return found
    number = integer_term(arena, value, bits, signed)
    if number is None:
        raise refused("cvt", value)
    ids, lo, hi = number
    low, high = int_range(width, to_signed_type)
    return integer_value(clamp(arena, (ids, lo, hi), low, high), register)


@instruction("cvt", "pack sat to=u16|s16 type=s32", "pack sat to=u2|s2|u4|s4|u8|s8 type=s32 ctype=b32", source=_S + ".pack")
def cvt_pack(d: Decode) -> Step:
    """cvt.pack.sat: a and b saturate and stand side by side, a above b; with c, above them the low bits of c."""
    kind = d.mods["to"]
    width, signed = int(kind[1:]), kind[0] == "s"
    d.expect(4 if d.has("ctype") else 3)
    dst, a, b = d.dst(), d.src(1, 32), d.src(2, 32)
    c = d.src(3, 32) if d.has("ctype") else None
    arena, register = d.arena, destination_bits(d, 32)

    def packed(x: Value, y: Value, upper: Value) -> Value:
        if any(v is None for v in (x, y, upper)):
            raise uninitialised()
        if isinstance(x, Sym) or isinstance(y, Sym) or isinstance(upper, Sym):
            return _pack_symbolic(arena, x, y, upper, width, signed)
        low, high = (_saturated(to_signed(narrow(v, 32), 32), width, signed) for v in (y, x))  # type: ignore[arg-type]
        word = low | high << width | (upper << 2 * width if c is not None else 0)  # type: ignore[operator]
        return word & 0xFFFFFFFF if isinstance(word, int) else (word & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    def step(g: Group) -> None:
        R = g.R
        R[dst] = widen(arena, packed(R[a], R[b], R[c] if c is not None else 0), 32, register, False)

    return step


def _saturated(number: "int | np.ndarray", width: int, signed: bool) -> "int | np.ndarray":
    """A signed number clamped to an integer type, as its low ``width`` bits (columns: uint64, so that shifts fit)."""
    lo, hi = int_range(width, signed)
    if isinstance(number, int):
        return min(max(number, lo), hi) & ((1 << width) - 1)
    return np.clip(number.astype(np.int64), lo, hi).view(np.uint64) & np.uint64((1 << width) - 1)


def _pack_symbolic(arena: Arena, a: Value, b: Value, c: Value, width: int, signed: bool) -> Value:
    """Symbolic numbers packed as integer parts of whole bytes; c may only be zero or whole parts that fit above."""
    lo, hi = int_range(width, signed)
    parts = []
    for value in (b, a):
        number = integer_term(arena, value, 32, True)
        if number is None or width % 8:
            raise refused("cvt.pack", value if isinstance(value, Sym) else a)
        ids, low, high = number
        if low < lo or high > hi:
            ids = arena.minimum(arena.maximum(ids, arena.rational(lo)), arena.rational(hi))
        parts.append((int_fmt(width, max(low, lo), min(high, hi)), ids))
    room = 32 - 2 * width
    if room:
        kept = c if not isinstance(c, Sym) and c == 0 else unpack(arena, c, room, 32 // room)[0]
        parts.extend(kept.parts if isinstance(kept, Sym) else [(BITS[room], kept)])  # type: ignore[list-item]
    return Sym(tuple(parts))


__all__ = ["constant_integers", "cvt_pack", "float_to_float", "float_to_integer", "integer_to_float", "integer_to_integer"]
