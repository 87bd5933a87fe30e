"""Packed integers: add, min and max on pairs of 16-bit numbers, and the dot products dp4a and dp2a.

Symbolic operands are read as packed integers, whatever fields they were made of.
Source: PTX ISA 9.1, "Integer Arithmetic Instructions".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptx_engine.isa.bits import integer_term, refused, symbolic_integer
from ptx_engine.isa.decode import Decode, Step
from ptx_engine.isa.group import Group
from ptx_engine.isa.move import pack, unpack
from ptx_engine.isa.registry import instruction
from ptx_engine.isa.reinterpret import as_formats
from ptx_engine.isa.values import Fmt, Sym, Value, int_fmt, split_bits, uninitialised
from ptx_engine.terms import Arena, Ids

_S = "PTX ISA 9.1, Integer Arithmetic Instructions: "


def signed_field(value: "int | np.ndarray", width: int, signed: bool) -> "int | np.ndarray":
    """A field's bits as a number (columns as int64)."""
    if isinstance(value, int):
        return value - (1 << width) if signed and value >> width - 1 & 1 else value
    column = value.astype(np.int64)
    return column - ((column >> width - 1 & 1) << width) if signed else column


# --- pairs of 16 bits ---------------------------------------------------------------------------


def _pick(op: str, x: "int | np.ndarray", y: "int | np.ndarray") -> "int | np.ndarray":
    if isinstance(x, int) and isinstance(y, int):
        return x + y if op == "add" else min(x, y) if op == "min" else max(x, y)
    return {"add": np.add, "min": np.minimum, "max": np.maximum}[op](x, y)


def _halves(d: Decode) -> Step:
    """The operation on each half; ``.relu`` clamps negative results to zero."""
    d.expect(3)
    op, signed, relu = d.ins.opcode, d.mods["type"] == "s16x2", d.has("relu")
    dst, a, b, arena = d.dst(), d.src(1), d.src(2), d.arena

    def half(x: "int | np.ndarray", y: "int | np.ndarray") -> "int | np.ndarray":
        result = _pick(op, signed_field(x, 16, signed), signed_field(y, 16, signed))
        if relu:
            result = max(result, 0) if isinstance(result, int) else np.maximum(result, 0)
        return result & 0xFFFF if isinstance(result, int) else result.astype(np.uint16)

    def symbolic(x: Value, y: Value) -> Value:
        result = symbolic_integer(arena, op, (x, y), 16, signed)
        return symbolic_integer(arena, "max", (result, 0), 16, True) if relu else result

    def step(g: Group) -> None:
        x, y = g.R[a], g.R[b]
        if x is None or y is None:
            raise uninitialised()
        if isinstance(x, Sym) or isinstance(y, Sym):
            pairs = zip(unpack(arena, x, 16, 2), unpack(arena, y, 16, 2))
            g.R[dst] = pack([symbolic(p, q) if Sym in (p.__class__, q.__class__) else half(p, q) for p, q in pairs], 16)  # type: ignore[arg-type]
            return
        g.R[dst] = pack([half(p, q) for p, q in zip(split_bits(x, [16, 16]), split_bits(y, [16, 16]))], 16)

    return step


@instruction("add", "type=u16x2|s16x2", source=_S + "add")
@instruction("min", "type=u16x2", "[relu] type=s16x2", source=_S + "min")
@instruction("max", "type=u16x2", "[relu] type=s16x2", source=_S + "max")
def halves(d: Decode) -> Step:
    return _halves(d)


@instruction("min", "relu type=s32", source=_S + "min.relu")
@instruction("max", "relu type=s32", source=_S + "max.relu")
def extreme_relu(d: Decode) -> Step:
    """max(0, min or max of a and b)."""
    d.expect(3)
    dst, a, b, arena, op = d.dst(), d.src(1), d.src(2), d.arena, d.ins.opcode

    def step(g: Group) -> None:
        x, y = g.R[a], g.R[b]
        if x is None or y is None:
            raise uninitialised()
        if isinstance(x, Sym) or isinstance(y, Sym):
            g.R[dst] = symbolic_integer(arena, "max", (symbolic_integer(arena, op, (x, y), 32, True), 0), 32, True)
            return
        result = _pick(op, signed_field(x, 32, True), signed_field(y, 32, True))
        g.R[dst] = max(result, 0) if isinstance(result, int) else np.maximum(result, 0).astype(np.uint32)

    return step


# --- dot products -------------------------------------------------------------------------------


def _number_fmt(bits: int, signed: bool) -> Fmt:
    return int_fmt(bits, -(1 << bits - 1), (1 << bits - 1) - 1) if signed else int_fmt(bits, 0, (1 << bits) - 1)


def _dot(d: Decode, widths_a: Sequence[int], first_b: int) -> Step:
    """c + sum of a[i] * b[first + i], modulo 2^32."""
    d.expect(4)
    dst, a, b, c, arena, name = d.dst(), d.src(1, 32), d.src(2, 32), d.src(3, 32), d.arena, d.ins.mnemonic
    signed_a, signed_b = d.mods["atype"] == "s32", d.mods["type"] == "s32"
    count = len(widths_a)
    fmts_a = [_number_fmt(w, signed_a) for w in widths_a]
    fmts_b = [_number_fmt(8, signed_b)] * 4

    def concrete(x: "int | np.ndarray", y: "int | np.ndarray", z: "int | np.ndarray") -> Value:
        rows = [signed_field(f, w, signed_a) for f, w in zip(split_bits(x, widths_a), widths_a)]
        cols = [signed_field(f, 8, signed_b) for f in split_bits(y, [8] * 4)][first_b : first_b + count]
        total = z if isinstance(z, int) else z.astype(np.int64)
        for p, q in zip(rows, cols):
            total = total + p * q
        return total & 0xFFFFFFFF if isinstance(total, int) else total.astype(np.uint32)

    def step(g: Group) -> None:
        x, y, z = g.R[a], g.R[b], g.R[c]
        if x is None or y is None or z is None:
            raise uninitialised()
        if Sym in (x.__class__, y.__class__, z.__class__):
            g.R[dst] = _symbolic_dot(arena, (x, y, z), (fmts_a, fmts_b[:4]), first_b, name)
        else:
            g.R[dst] = concrete(x, y, z)  # type: ignore[arg-type]

    return step


def _symbolic_dot(arena: Arena, operands: tuple[Value, Value, Value], fmts: tuple[list[Fmt], list[Fmt]], first_b: int, name: str) -> Value:
    rows, cols = as_formats(arena, operands[0], fmts[0]), as_formats(arena, operands[1], fmts[1])
    total = integer_term(arena, operands[2], 32, True)
    if rows is None or cols is None or total is None:
        raise refused(name, next(v for v in operands if isinstance(v, Sym)))
    ids, low, high = total
    for p, q, f, h in zip(rows, cols[first_b:], fmts[0], fmts[1]):
        corners = [u * v for u in (f.lo, f.hi) for v in (h.lo, h.hi)]
        ids, low, high = _fma(arena, p, q, ids), low + min(corners), high + max(corners)
    return Sym(((int_fmt(32, low, high), ids),))


def _fma(arena: Arena, p: Ids, q: Ids, total: Ids) -> Ids:
    return arena.add(total, arena.mul(p, q))


@instruction("dp4a", "atype=u32|s32 type=u32|s32", source=_S + "dp4a")
def dp4a(d: Decode) -> Step:
    """Four products of bytes."""
    return _dot(d, [8] * 4, 0)


@instruction("dp2a", "mode=lo|hi atype=u32|s32 type=u32|s32", source=_S + "dp2a")
def dp2a(d: Decode) -> Step:
    """Two products of 16-bit numbers with the lower or the upper two bytes of b."""
    return _dot(d, [16, 16], 0 if d.mods["mode"] == "lo" else 2)


__all__ = ["dp2a", "dp4a", "extreme_relu", "halves"]
