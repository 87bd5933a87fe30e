"""cvt: between float formats the identity over the reals (clamps for .sat/.satfinite/.relu), integers exactly.

Source: PTX ISA 9.1, "Data Movement and Conversion Instructions: cvt".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from gmpy2 import mpq

from ptx_engine.isa.bits import integer_term, refused
from ptx_engine.isa.decode import Decode, Step
from ptx_engine.isa.floating import read_packed
from ptx_engine.isa.group import Group
from ptx_engine.isa.integer import to_bits, to_signed
from ptx_engine.isa.move import unpack
from ptx_engine.isa.registry import instruction
from ptx_engine.isa.values import BITS, E4M3, E5M2, FLOATS, TF32, Sym, Value, int_fmt, read_float, uninitialised
from ptx_engine.terms import CONST_CAP, ONE, ZERO, Arena, Ids, Op

INT_TYPES = "u8|u16|u32|u64|s8|s16|s32|s64"
FLOAT_TYPES = "f16|bf16|f32|f64"
_S = "PTX ISA 9.1, Data Movement and Conversion Instructions: cvt"
_PAIR = {"f16x2": FLOATS["f16"], "bf16x2": FLOATS["bf16"], "e4m3x2": E4M3, "e5m2x2": E5M2}
#: largest finite magnitude
_MAX = {"f16": mpq(65504), "bf16": mpq(255, 128) * mpq(2) ** 127, "e4m3": mpq(448), "e5m2": mpq(57344), "f32": (2 - mpq(1, 2**23)) * mpq(2) ** 127}


def _clamps(d: Decode, target: str) -> Callable[[Ids], Ids]:
    arena = d.arena
    steps: list[Callable[[Ids], Ids]] = []
    if d.has("relu"):
        steps.append(lambda x: arena.maximum(x, ZERO))
    if d.has("sat"):
        steps.append(lambda x: arena.minimum(arena.maximum(x, ZERO), ONE))
    if d.has("satfinite") and target in _MAX:
        top, bottom = arena.rational(_MAX[target]), arena.rational(-_MAX[target])
        steps.append(lambda x: arena.minimum(arena.maximum(x, bottom), top))

    def apply(ids: Ids) -> Ids:
        for step in steps:
            ids = step(ids)
        return ids

    return apply


RND = "[!rnd=rn|rz|rm|rp|rna]"


@instruction("cvt", f"{RND} [!ftz] [sat] [relu] [satfinite] to={FLOAT_TYPES}|tf32 type={FLOAT_TYPES}",
             f"[!rnd=rn|rz|rna] [satfinite] [relu] to=tf32 type=f32", source=_S)  # fmt: skip
def float_to_float(d: Decode) -> Step:
    d.expect(2)
    dst, a, arena = d.dst(), d.src(1), d.arena
    source = FLOATS[d.mods["type"]]
    target = TF32 if d.mods["to"] == "tf32" else FLOATS[d.mods["to"]]
    clamp = _clamps(d, d.mods["to"])

    def step(g: Group) -> None:
        g.R[dst] = Sym(((target, clamp(read_float(arena, g.R[a], source))),))

    return step


@instruction("cvt", f"rnd=rni|rzi|rmi|rpi [!ftz] [sat] to={FLOAT_TYPES} type={FLOAT_TYPES}", source=_S)
def float_to_integral(d: Decode) -> Step:
    d.expect(2)
    dst, a, arena = d.dst(), d.src(1), d.arena
    source, target, op, clamp = FLOATS[d.mods["type"]], FLOATS[d.mods["to"]], _INTEGRAL[d.mods["rnd"]], _clamps(d, d.mods["to"])

    def step(g: Group) -> None:
        g.R[dst] = Sym(((target, clamp(arena.unary(op, read_float(arena, g.R[a], source)))),))

    return step


_INTEGRAL = {"rni": Op.ROUND_EVEN, "rzi": Op.TRUNC, "rmi": Op.FLOOR, "rpi": Op.CEIL}


@instruction("cvt", "!rnd=rn|rz [relu] [satfinite] to=f16x2|bf16x2|e4m3x2|e5m2x2 type=f32", source=_S)
def pack_two(d: Decode) -> Step:
    """cvt.f16x2.f32 d, a, b: a goes to the high half, b to the low half."""
    d.expect(3)
    dst, a, b, arena = d.dst(), d.src(1), d.src(2), d.arena
    fmt, clamp, source = _PAIR[d.mods["to"]], _clamps(d, d.mods["to"].removesuffix("x2")), FLOATS["f32"]

    def step(g: Group) -> None:
        R = g.R
        high, low = clamp(read_float(arena, R[a], source)), clamp(read_float(arena, R[b], source))
        R[dst] = Sym(((fmt, low), (fmt, high)))

    return step


@instruction("cvt", "!rnd=rn|rz [relu] [satfinite] to=f16x2|bf16x2|e4m3x2|e5m2x2 type=f16x2|bf16x2|e4m3x2|e5m2x2", source=_S)
def repack_two(d: Decode) -> Step:
    d.expect(2)
    dst, a, arena = d.dst(), d.src(1), d.arena
    source, target, clamp = _PAIR[d.mods["type"]], _PAIR[d.mods["to"]], _clamps(d, d.mods["to"].removesuffix("x2"))

    def step(g: Group) -> None:
        parts = read_packed(arena, g.R[a], (source, source))
        g.R[dst] = Sym(tuple((target, clamp(ids)) for ids in parts))

    return step


@instruction("cvt", f"!rnd=rn|rz|rm|rp [sat] to={FLOAT_TYPES} type={INT_TYPES}", source=_S)
def integer_to_float(d: Decode) -> Step:
    d.expect(2)
    dst, arena = d.dst(), d.arena
    bits, signed, target, clamp = d.bits, d.signed, FLOATS[d.mods["to"]], _clamps(d, d.mods["to"])
    a = d.src(1)

    def step(g: Group) -> None:
        value = g.R[a]
        number = integer_term(arena, _narrow(value, bits), bits, signed)
        if number is None:
            raise refused("cvt", value)
        g.R[dst] = Sym(((target, clamp(number[0])),))

    return step


@instruction("cvt", f"rnd=rni|rzi|rmi|rpi [!ftz] [!sat] to={INT_TYPES} type={FLOAT_TYPES}", source=_S)
def float_to_integer(d: Decode) -> Step:
    """Out-of-range values clamp to the integer type's range, as the ISA has it for all float-to-integer conversions."""
    d.expect(2)
    dst, a, arena = d.dst(), d.src(1), d.arena
    source, op, kind = FLOATS[d.mods["type"]], _INTEGRAL[d.mods["rnd"]], d.mods["to"]
    width = int(kind[1:])
    lo, hi = (-(1 << width - 1), (1 << width - 1) - 1) if kind[0] == "s" else (0, (1 << width) - 1)
    top, bottom = arena.rational(hi), arena.rational(lo)
    register = max(width, 16)

    def step(g: Group) -> None:
        ids = arena.minimum(arena.maximum(arena.unary(op, read_float(arena, g.R[a], source)), bottom), top)
        known = constant_integers(arena, ids)
        g.R[dst] = to_bits(known, register) if known is not None else Sym(((int_fmt(register, lo, hi), ids),))

    return step


def constant_integers(arena: Arena, ids: Ids) -> "int | np.ndarray | None":
    """Term ids as concrete integers, if every one of them is an integer constant."""
    if isinstance(ids, int):
        if not 0 <= ids < CONST_CAP:
            return None
        const = arena.consts[ids]
        return int(const.coef) if const.is_rational and const.coef.denominator == 1 else None
    if ids.size == 0 or int(ids.view(np.uint32).max()) >= CONST_CAP:
        return None
    unique, inverse = np.unique(ids, return_inverse=True)
    table = [arena.consts[int(u)] for u in unique]
    if not all(c.is_rational and c.coef.denominator == 1 and abs(c.coef) < 2**63 for c in table):
        return None
    return np.array([int(c.coef) for c in table], np.int64)[inverse].reshape(ids.shape)


def _narrow(value: Value, bits: int) -> Value:
    """The low ``bits`` of concrete bits (8-bit sources stand in wider registers)."""
    if isinstance(value, int):
        return value & ((1 << bits) - 1)
    if isinstance(value, np.ndarray) and value.dtype.itemsize * 8 != bits:
        return value.astype(f"u{bits // 8}")
    return value


@instruction("cvt", f"[sat] to={INT_TYPES} type={INT_TYPES}", source=_S)
def integer_to_integer(d: Decode) -> Step:
    d.expect(2)
    dst, bits, signed, arena = d.dst(), d.bits, d.signed, d.arena
    a = d.src(1)
    kind, saturate = d.mods["to"], d.has("sat")
    width = int(kind[1:])
    register = max(width, 16)

    def step(g: Group) -> None:
        value = _narrow(g.R[a], bits)
        if value is None:
            raise uninitialised()
        if isinstance(value, Sym):
            g.R[dst] = _resize_symbolic(arena, value, bits, signed, width, register, kind[0] == "s", saturate)
            return
        number = to_signed(value, bits) if signed else value
        g.R[dst] = _resize(number, width, register, kind[0] == "s", saturate)

    return step


def _resize(number: "int | np.ndarray", width: int, register: int, signed: bool, saturate: bool) -> Value:
    lo, hi = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    if isinstance(number, int):
        clipped = min(max(number, lo), hi) if saturate else number
        low = clipped & ((1 << width) - 1)
        return (low - (1 << width) if signed and low >> (width - 1) else low) & ((1 << register) - 1)
    if saturate:
        number = np.clip(number, max(lo, int(np.iinfo(number.dtype).min)), min(hi, int(np.iinfo(number.dtype).max)))
    narrowed = number.astype(f"{'i' if signed else 'u'}{width // 8}")
    return narrowed.astype(f"{'i' if signed else 'u'}{register // 8}").view(f"u{register // 8}")


def _resize_symbolic(
    arena: Arena, value: Sym, bits: int, signed: bool, width: int, register: int, to_signed_type: bool, saturate: bool
) -> Value:
    """Symbolic integers: read at the source width, wrap (or clamp) to the target's; float parts only keep or drop whole parts."""
    number = integer_term(arena, value, bits, signed) if value.parts[0][0].kind == "int" else None
    if number is None:
        if sum(f.bits for f, _ in value.parts) == bits == width:
            return value
        if bits > width == register:  # the low word of packed data
            return unpack(value, width, bits // width)[0]
        if bits < width and not signed:  # zero extension of packed data
            return Sym((*value.parts, *((BITS[bits], 0) for _ in range(width // bits - 1))))
        raise refused("cvt", value)
    ids, lo, hi = number
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if to_signed_type else (0, (1 << width) - 1)
    if lo < low or hi > high:
        if saturate:
            ids = arena.minimum(arena.maximum(ids, arena.rational(low)), arena.rational(high))
            lo, hi = max(lo, low), min(hi, high)
        else:
            ids, lo, hi = arena.emit(Op.WRAP, ids, -width if to_signed_type else width), low, high
    return Sym(((int_fmt(register, lo, hi), ids),))
