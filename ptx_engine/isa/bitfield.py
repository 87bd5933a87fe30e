"""Bit-field instructions on concrete columns: bfe, bfi, popc, clz, bfind, brev, lop3, shf; whole-byte cases also on symbolic data.

Source: PTX ISA 9.1, "Integer Arithmetic Instructions", "Logic and Shift Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptx_engine.errors import ParseError
from ptx_engine.isa.bits import symbolic_extract, symbolic_funnel, symbolic_insert, symbolic_integer, symbolic_lop3, uniform_int
from ptx_engine.isa.compare import combine, compare_symbolic, invert
from ptx_engine.isa.decode import Decode, Step
from ptx_engine.isa.group import Group
from ptx_engine.isa.integer import table_step, to_bits, to_signed
from ptx_engine.isa.registry import instruction
from ptx_engine.isa.values import INT, UINT, Sym, Value

_I = "PTX ISA 9.1, Integer Arithmetic Instructions: "
_L = "PTX ISA 9.1, Logic and Shift Instructions: "
Number = "int | np.ndarray"


def field_mask(length: "int | np.ndarray", bits: int) -> "int | np.ndarray":
    """``length`` low ones, for 0 <= length <= bits."""
    if isinstance(length, int):
        return (1 << min(length, bits)) - 1
    dtype = UINT[bits].type
    capped = np.minimum(length, bits).astype(UINT[bits])
    below: np.ndarray = (dtype(1) << np.minimum(capped, dtype(bits - 1))) - dtype(1)
    return np.where(capped >= bits, dtype((1 << bits) - 1), below)


def extract(bits: int, signed: bool, value: "int | np.ndarray", pos: "int | np.ndarray", length: "int | np.ndarray") -> "int | np.ndarray":
    """bfe as the ISA's pseudo code: a field reaching past the top is filled with the sign (signed) or zero."""
    if not isinstance(pos, int) or not isinstance(length, int):
        count = max(np.size(value), np.size(pos), np.size(length))
        column = np.empty(count, UINT[bits])
        v, p, n = (np.broadcast_to(np.asarray(x), (count,)) for x in (value, pos, length))
        for i, j in {(int(a) & 0xFF, int(b) & 0xFF) for a, b in zip(p, n)}:
            where = ((p & 0xFF) == i) & ((n & 0xFF) == j)
            column[where] = extract(bits, signed, v[where].astype(UINT[bits]), i, j)
        return column
    pos, length = pos & 0xFF, length & 0xFF
    if length == 0:
        return 0
    mask = (1 << min(length, bits)) - 1
    if isinstance(value, int):
        field = value >> pos & mask if pos < bits else 0
        sign = value >> min(pos + length - 1, bits - 1) & 1
        return (
            (field | (~mask if pos + length <= bits else ~((1 << max(bits - pos, 0)) - 1))) & ((1 << bits) - 1)
            if signed and sign
            else field
        )
    dtype = UINT[bits].type
    shifted = value >> dtype(pos) if pos < bits else np.zeros_like(value)
    if not signed:
        return shifted & dtype(mask) if length < bits else shifted
    held = min(length, bits - pos) if pos < bits else 0
    up, top = (bits - held, shifted) if held > 0 else (bits - 1, value)
    filled: np.ndarray = (top << dtype(up) if held > 0 else top).view(INT[bits]) >> INT[bits].type(up)
    return filled.view(UINT[bits])


@instruction("bfe", "type=u32|u64|s32|s64", source=_I + "bfe")
def bfe(d: Decode) -> Step:
    d.expect(4)
    dst, a, b, c, bits, signed, arena = d.dst(), d.src(1), d.bit_count(2), d.bit_count(3), d.bits, d.signed, d.arena

    def step(g: Group) -> None:
        R = g.R
        value, pos, length = R[a], R[b], R[c]
        if any(v.__class__ is Sym or v is None for v in (value, pos, length)):
            R[dst] = _extract_symbolic(value, pos, length)
            return
        R[dst] = extract(bits, signed, value, pos, length)  # type: ignore[arg-type]

    def _extract_symbolic(value: Value, pos: Value, length: Value) -> Value:
        if isinstance(pos, int) and isinstance(length, int) and value is not None:
            return symbolic_extract(arena, value, pos & 0xFF, length & 0xFF, bits, signed)
        return symbolic_integer(arena, "bfe", (value, pos, length), bits, signed)

    return step


@instruction("bfi", "type=b32|b64", source=_I + "bfi")
def bfi(d: Decode) -> Step:
    """bfi f, a, b, pos, len: the low ``len`` bits of a into b at ``pos``."""
    d.expect(5)
    dst, a, b, p, n = d.dst(), d.src(1), d.src(2), d.bit_count(3), d.bit_count(4)
    bits, arena = d.bits, d.arena
    full = (1 << bits) - 1

    def step(g: Group) -> None:
        R = g.R
        source, base, pos, length = R[a], R[b], R[p], R[n]
        if isinstance(pos, int) and isinstance(length, int):
            pos, length = pos & 0xFF, length & 0xFF
            mask = (((1 << length) - 1) << pos) & full
            if source.__class__ is Sym or base.__class__ is Sym or source is None or base is None:
                R[dst] = symbolic_insert(arena, source, base, pos, length, bits)
                return
            R[dst] = (_shift_up(source, pos, bits) & mask) | (base & (full & ~mask))  # type: ignore[operator]
            return
        if any(v.__class__ is Sym or v is None for v in (source, base, pos, length)):
            R[dst] = symbolic_integer(arena, "bfi", (source, base, pos, length), bits, False)
            return
        R[dst] = _insert_columns(bits, source, base, pos, length)  # type: ignore[arg-type]

    return step


def _shift_up(value: Value, pos: int, bits: int) -> "int | np.ndarray":
    if isinstance(value, int):
        return value << pos & ((1 << bits) - 1) if pos < bits else 0
    assert isinstance(value, np.ndarray)
    return value << UINT[bits].type(pos) if pos < bits else np.zeros_like(value)


def _insert_columns(
    bits: int, source: "int | np.ndarray", base: "int | np.ndarray", pos: "int | np.ndarray", length: "int | np.ndarray"
) -> np.ndarray:
    dtype = UINT[bits]
    p = np.asarray(pos).astype(dtype) & dtype.type(0xFF)
    n = np.asarray(length).astype(np.int64) & 0xFF
    safe = np.minimum(p, dtype.type(bits - 1))
    mask = np.asarray(field_mask(n, bits), dtype) << safe
    moved = np.asarray(source, dtype) << safe
    mask = np.where(p >= bits, dtype.type(0), mask)
    inserted: np.ndarray = (moved & mask) | (np.asarray(base, dtype) & ~mask)
    return inserted


def _popcount(bits: int, x: "int | np.ndarray") -> "int | np.ndarray":
    return x.bit_count() if isinstance(x, int) else np.bitwise_count(x).astype(np.uint32)


def _leading_zeros(bits: int, x: "int | np.ndarray") -> "int | np.ndarray":
    if isinstance(x, int):
        return bits - x.bit_length()
    result = np.full(x.shape, bits, np.uint32)
    value = x.copy()
    for i in range(bits):
        top = (value >> value.dtype.type(bits - 1 - i)) & value.dtype.type(1) != 0
        result = np.where(top & (result == bits), np.uint32(i), result)
    return result


def _reverse(bits: int, x: "int | np.ndarray") -> "int | np.ndarray":
    if isinstance(x, int):
        return int(f"{x:0{bits}b}"[::-1], 2)
    result = np.zeros_like(x)
    one = x.dtype.type(1)
    for i in range(bits):
        result |= ((x >> x.dtype.type(i)) & one) << x.dtype.type(bits - 1 - i)
    return result


def _to_u32(d: Decode, name: str, compute: Callable[..., "int | np.ndarray"]) -> Step:
    """A one-operand instruction whose result is u32 whatever the source's width."""
    d.expect(2)
    dst, a, bits, arena = d.dst(), d.src(1), d.bits, d.arena

    def step(g: Group) -> None:
        value = g.R[a]
        if value.__class__ is Sym or value is None:
            g.R[dst] = symbolic_integer(arena, name, (value,), bits, False)
        else:
            g.R[dst] = to_bits(compute(bits, value), 32)

    return step


@instruction("popc", "type=b32|b64", source=_I + "popc")
def popc(d: Decode) -> Step:
    return _to_u32(d, "popc", _popcount)


@instruction("clz", "type=b32|b64", source=_I + "clz")
def clz(d: Decode) -> Step:
    return _to_u32(d, "clz", _leading_zeros)


@instruction("brev", "type=b32|b64", source=_I + "brev")
def brev(d: Decode) -> Step:
    d.expect(2)
    return table_step(d, "brev", _reverse, 1, False)


@instruction("bfind", "[shiftamt] type=u32|u64|s32|s64", source=_I + "bfind")
def bfind(d: Decode) -> Step:
    """The position of the most significant non-sign bit, all ones if there is none; ``.shiftamt`` counts from the top."""
    signed, shift = d.signed, d.has("shiftamt")

    def compute(bits: int, x: "int | np.ndarray") -> "int | np.ndarray":
        if signed:
            s = to_signed(x, bits)
            x = to_bits(np.where(s < 0, ~s, s) if isinstance(s, np.ndarray) else (~s if s < 0 else s), bits)
        zeros = _leading_zeros(bits, x)
        found = bits - 1 - zeros if isinstance(zeros, int) else (bits - 1 - zeros.astype(np.int64))
        if isinstance(found, int):
            return 0xFFFFFFFF if found < 0 else (bits - 1 - found if shift else found)
        return np.where(found < 0, 0xFFFFFFFF, bits - 1 - found if shift else found).astype(np.uint32)

    return _to_u32(d, "bfind", compute)


def _lop3(table: int) -> Callable[..., "int | np.ndarray"]:
    """The sum of products of a look-up table; the common tables are written directly."""

    def compute(bits: int, a: "int | np.ndarray", b: "int | np.ndarray", c: "int | np.ndarray") -> "int | np.ndarray":
        full = (1 << bits) - 1
        result: "int | np.ndarray" = 0
        for i in range(8):
            if table >> i & 1:
                x = a if i & 4 else a ^ full
                y = b if i & 2 else b ^ full
                z = c if i & 1 else c ^ full
                result = result | (x & y & z)
        return result

    return compute


@instruction("lop3", "type=b32", "bool=and|or type=b32", source=_L + "lop3")
def lop3(d: Decode) -> Step:
    """With ``.and``/``.or`` also p = (d != 0) op q."""
    d.expect(6 if d.has("bool") else 5)
    dst, p = d.pair()
    if d.has("bool") != (p is not None):
        raise ParseError(f"{d.ins.mnemonic}: a predicate result goes with .and or .or", span=d.ins.span)
    sources, arena = [d.src(i) for i in (1, 2, 3)], d.arena
    table = d.literal(4)
    if not 0 <= table <= 255:
        raise ParseError(f"{d.ins.mnemonic}: a look-up table is a number from 0 to 255", span=d.ins.span)
    compute = _lop3(table)

    def step(g: Group) -> None:
        R = g.R
        values = [R[i] for i in sources]
        if any(v.__class__ is Sym or v is None for v in values):
            R[dst] = symbolic_lop3(arena, table, values)
        else:
            R[dst] = compute(32, *values)

    if not d.has("bool"):
        return step
    (q, negated), op = d.predicate(5), d.mods["bool"]

    def with_predicate(g: Group) -> None:
        step(g)
        result = g.R[dst]
        found = compare_symbolic(arena, "ne", result, 0, 32, False) if isinstance(result, Sym) else result != 0
        if p is not None:
            g.R[p] = combine(arena, op, found, invert(arena, g.R[q]) if negated else g.R[q])

    return with_predicate


@instruction("shf", "dir=l|r mode=clamp|wrap type=b32", source=_L + "shf")
def shf(d: Decode) -> Step:
    """The funnel shift of {b, a}: left gives the upper, right the lower word."""
    d.expect(4)
    left, wrap = d.mods["dir"] == "l", d.mods["mode"] == "wrap"

    def compute(bits: int, a: "int | np.ndarray", b: "int | np.ndarray", c: "int | np.ndarray") -> "int | np.ndarray":
        count = max(np.size(a), np.size(b), np.size(c))
        uniform = all(isinstance(v, int) for v in (a, b, c))
        low, high, amount = (np.broadcast_to(np.asarray(v, np.uint64), (count,)) for v in (a, b, c))
        amount = amount & np.uint64(31) if wrap else np.minimum(amount, np.uint64(32))
        word = high << np.uint64(32) | low
        result = (word << amount >> np.uint64(32)) if left else word >> amount
        result = (result & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        return int(result[0]) if uniform else result

    dst, sources, arena = d.dst(), [d.src(i, 32) for i in (1, 2, 3)], d.arena
    concrete = table_step(d, "shf", compute, 3, False)

    def step(g: Group) -> None:
        low, high, amount = (g.R[i] for i in sources)
        count = uniform_int(amount) if low.__class__ is Sym or high.__class__ is Sym else None
        if count is None or low is None or high is None:
            concrete(g)
        else:
            g.R[dst] = symbolic_funnel(arena, low, high, count & 31 if wrap else min(count, 32), left)

    return step
