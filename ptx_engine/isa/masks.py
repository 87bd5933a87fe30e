"""Instructions on counted bits: szext, bmsk, fns, cnot; and the 24-bit products and sums of differences.

Source: PTX ISA 9.1, "Integer Arithmetic Instructions", "Logic and Shift Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptx_engine.isa.bits import pred_ids, symbolic_extract, symbolic_integer, uniform_int
from ptx_engine.isa.carry import require_bits
from ptx_engine.isa.compare import compare_symbolic, select
from ptx_engine.isa.decode import Decode, Step
from ptx_engine.isa.group import Group
from ptx_engine.isa.registry import instruction
from ptx_engine.isa.values import UINT, Sym, Value, int_fmt, uninitialised

_I = "PTX ISA 9.1, Integer Arithmetic Instructions: "
_L = "PTX ISA 9.1, Logic and Shift Instructions: "

Column = np.ndarray
#: int64 columns -> int64 column
Kernel = Callable[..., Column]


def columns_step(d: Decode, kernel: Kernel, sources: int, signed: bool = False, bits: int = 32, otherwise: "Step | None" = None) -> Step:
    """A step on int64 columns of the operands' numbers; ``otherwise`` runs where one is symbolic."""
    dst, where, name = d.dst(), [d.src(i + 1, bits) for i in range(sources)], d.ins.mnemonic

    def step(g: Group) -> None:
        operands = [g.R[i] for i in where]
        if otherwise is not None and any(isinstance(v, Sym) for v in operands):
            otherwise(g)
            return
        require_bits(operands, name)
        uniform = all(isinstance(v, int) for v in operands)
        columns = [
            _signed(np.atleast_1d(np.asarray(v, np.int64)), bits) if signed else np.atleast_1d(np.asarray(v, np.int64)) for v in operands
        ]
        result = kernel(*np.broadcast_arrays(*columns)).astype(UINT[bits])
        g.R[dst] = int(result[0]) if uniform else result

    return step


def _signed(column: Column, bits: int) -> Column:
    number: Column = column - ((column >> bits - 1 & 1) << bits)
    return number


# --- extension, masks, n-th bit -----------------------------------------------------------------


@instruction("szext", "mode=clamp|wrap type=u32|s32", source=_I + "szext")
def szext(d: Decode) -> Step:
    """The low b bits of a, sign- or zero-extended."""
    d.expect(3)
    wrap, signed, arena = d.mods["mode"] == "wrap", d.signed, d.arena
    dst, a, b = d.dst(), d.src(1), d.src(2, 32)

    def kernel(x: Column, count: Column) -> Column:
        width = count & 31 if wrap else np.minimum(count, 32)
        low = x & ((np.int64(1) << width) - 1)
        sign = (low >> np.maximum(width - 1, 0)) & 1 if signed else np.zeros_like(low)
        return np.where(width == 0, 0, low - (sign << width))

    def symbolic(g: Group) -> None:
        value, count = g.R[a], uniform_int(g.R[b])
        if count is None or value is None:
            require_bits([value, g.R[b]], "szext")
            return
        g.R[dst] = symbolic_extract(arena, value, 0, count & 31 if wrap else min(count, 32), 32, signed)

    return columns_step(d, kernel, 2, otherwise=symbolic)


@instruction("bmsk", "mode=clamp|wrap type=b32", source=_I + "bmsk")
def bmsk(d: Decode) -> Step:
    """A mask of b ones from bit a on."""
    d.expect(3)
    clamp = d.mods["mode"] == "clamp"

    def kernel(position: Column, width: Column) -> Column:
        start, count = position & 31, width & 31
        low = (np.int64(0xFFFFFFFF) << start) & 0xFFFFFFFF
        end = start + count
        over = (end >= 32) | (clamp & ((position >= 32) | (width >= 32)))
        high = np.where(over, 0, (np.int64(0xFFFFFFFF) << end) & 0xFFFFFFFF)
        high = np.where(~over & (count == 0), 0xFFFFFFFF, high)
        return np.where(clamp & (position >= 32), 0, low) & ~high

    return columns_step(d, kernel, 2)


@instruction("fns", "type=b32", source=_I + "fns")
def fns(d: Decode) -> Step:
    """The position of the offset-th set bit from bit ``base`` on, upwards or downwards; all ones if there is none."""
    d.expect(4)
    lanes = np.arange(32)

    def kernel(mask: Column, base: Column, offset: Column) -> Column:
        offset = _signed(offset, 32)
        flags = (mask[:, None] >> lanes & 1).astype(bool)
        up = offset >= 0
        ahead = np.where(up[:, None], lanes >= base[:, None], lanes <= base[:, None]) & flags
        rank = np.where(up[:, None], np.cumsum(ahead, 1), np.cumsum(ahead[:, ::-1], 1)[:, ::-1])
        hit = ahead & (rank == np.abs(offset)[:, None])
        hit = np.where((offset == 0)[:, None], flags & (lanes == base[:, None]), hit)
        return np.where(hit.any(1), hit.argmax(1), 0xFFFFFFFF)

    return columns_step(d, kernel, 3)


@instruction("cnot", "type=b16|b32|b64", source=_L + "cnot")
def cnot(d: Decode) -> Step:
    """1 where a is zero, else 0."""
    d.expect(2)
    dst, a, bits, arena = d.dst(), d.src(1), d.bits, d.arena

    def step(g: Group) -> None:
        value = g.R[a]
        if value is None:
            raise uninitialised()
        if not isinstance(value, Sym):
            g.R[dst] = int(value == 0) if isinstance(value, int) else (value == 0).astype(UINT[bits])
            return
        zero = compare_symbolic(arena, "eq", value, 0, bits, False)
        g.R[dst] = Sym(((int_fmt(bits, 0, 1), pred_ids(zero)),)) if isinstance(zero, Sym) else select(arena, zero, 1, 0, bits, "cnot")

    return step


# --- 24 bits, absolute differences --------------------------------------------------------------


def _product24(x: Column, y: Column, signed: bool, high: bool) -> Column:
    """Bits 47..16 or 31..0 of the product of the low 24 bits of each."""
    p, q = (v & 0xFFFFFF for v in (x, y))
    if signed:
        p, q = _signed(p, 24), _signed(q, 24)
    return (p * q >> 16) & 0xFFFFFFFF if high else (p * q) & 0xFFFFFFFF


@instruction("mul24", "mode=hi|lo type=u32|s32", source=_I + "mul24")
def mul24(d: Decode) -> Step:
    d.expect(3)
    signed, high = d.signed, d.mods["mode"] == "hi"
    return columns_step(d, lambda x, y: _product24(x, y, signed, high), 2)


@instruction("mad24", "mode=hi|lo type=u32|s32", "mode=hi sat type=s32", source=_I + "mad24")
def mad24(d: Decode) -> Step:
    d.expect(4)
    signed, high, sat = d.signed, d.mods["mode"] == "hi", d.has("sat")

    def kernel(x: Column, y: Column, z: Column) -> Column:
        product = _product24(x, y, signed, high)
        total: Column = np.clip(_signed(product, 32) + _signed(z, 32), -(2**31), 2**31 - 1) if sat else product + z
        return total

    return columns_step(d, kernel, 3)


@instruction("sad", "type=u16|u32|u64|s16|s32|s64", source=_I + "sad")
def sad(d: Decode) -> Step:
    """c + |a - b|."""
    d.expect(4)
    dst, a, b, c, bits, signed, arena = d.dst(), d.src(1), d.src(2), d.src(3), d.bits, d.signed, d.arena
    view = np.dtype(f"i{bits // 8}") if signed else UINT[bits]

    def step(g: Group) -> None:
        x, y, z = g.R[a], g.R[b], g.R[c]
        if x is None or y is None or z is None:
            raise uninitialised()
        if Sym in (x.__class__, y.__class__, z.__class__):
            g.R[dst] = symbolic_sad(x, y, z)
            return
        uniform = all(isinstance(v, int) for v in (x, y, z))
        p, q, r = np.broadcast_arrays(*(np.atleast_1d(np.asarray(v).astype(UINT[bits])) for v in (x, y, z)))
        result = r + np.where(p.view(view) < q.view(view), q - p, p - q)
        g.R[dst] = int(result[0]) if uniform else result

    def symbolic_sad(x: Value, y: Value, z: Value) -> Value:
        pair = (x, y)
        if isinstance(x, Sym) or isinstance(y, Sym):
            high, low = (symbolic_integer(arena, op, pair, bits, signed) for op in ("max", "min"))
            distance = symbolic_integer(arena, "sub", (high, low), bits, signed)
        else:
            p, q = (np.asarray(v).astype(UINT[bits]).view(view) for v in pair)
            distance = np.asarray(np.where(p < q, q - p, p - q)).astype(UINT[bits])
            distance = int(distance) if distance.ndim == 0 else distance
        return symbolic_integer(arena, "add", (distance, z), bits, signed)

    return step
