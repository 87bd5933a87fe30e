"""Integer arithmetic, logic and shifts on concrete columns, bit-exact; symbolic operands go to ``bits``.

Fast paths use ``+``, ``*`` ... directly: two Python ints are masked, unsigned NumPy columns wrap by themselves, and a
``Sym`` refuses the operator, which leads to the symbolic path.
Source: PTX ISA 9.1, "Integer Arithmetic Instructions", "Logic and Shift Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptx_engine.isa.bits import symbolic_integer
from ptx_engine.isa.decode import Decode, Step
from ptx_engine.isa.group import Group
from ptx_engine.isa.registry import instruction
from ptx_engine.isa.simple import Integers
from ptx_engine.isa.values import INT, UINT, Sym, Value

INTS = "type=u16|u32|u64|s16|s32|s64"
BITS_TYPES = "type=b16|b32|b64"


def to_signed(value: "int | np.ndarray", bits: int) -> "int | np.ndarray":
    """The two's complement reading of canonical unsigned bits."""
    if isinstance(value, np.ndarray):
        return value.view(INT[bits])
    return value - (1 << bits) if value >> (bits - 1) else value


def to_bits(value: "int | np.ndarray", bits: int) -> "int | np.ndarray":
    """Canonical unsigned bits of a signed or unsigned number."""
    if isinstance(value, np.ndarray):
        if value.dtype.itemsize * 8 == bits:
            return value.view(UINT[bits])
        return value.astype(UINT[bits])
    return int(value) & ((1 << bits) - 1)


Binary = Callable[["int | np.ndarray", "int | np.ndarray", int], "int | np.ndarray"]


def binary_step(d: Decode, name: str, fast: Callable[[Value, Value], Value], signed: bool = False) -> Step:
    """A step for ``dst = fast(a, b)`` masked to the type's width; symbolic operands take the symbolic path."""
    dst, a, b, bits = d.dst(), d.src(1), d.src(2), d.bits
    mask = (1 << bits) - 1
    arena, pc = d.arena, d.pc
    d.simple = Integers(name, dst, (a, b), bits)

    def step(g: Group) -> None:
        R = g.R
        x, y = R[a], R[b]
        try:
            result = fast(x, y)
        except TypeError:
            R[dst] = symbolic_integer(arena, name, (x, y), bits, signed)
            return
        R[dst] = result & mask if result.__class__ is int else result

    del pc
    return step


def table_step(d: Decode, name: str, compute: Callable[..., "int | np.ndarray"], sources: int, signed: bool) -> Step:
    """A step over any number of sources read as signed or unsigned numbers; ``compute(bits, *operands)``."""
    dst, bits = d.dst(), d.bits
    where = [d.src(i + 1) for i in range(sources)]
    arena = d.arena
    d.simple = Integers(name, dst, tuple(where), bits, signed)

    def step(g: Group) -> None:
        R = g.R
        operands = [R[i] for i in where]
        if any(v.__class__ is Sym or v is None for v in operands):
            R[dst] = symbolic_integer(arena, name, tuple(operands), bits, signed)
            return
        numbers = [to_signed(v, bits) for v in operands] if signed else operands  # type: ignore[arg-type]
        R[dst] = to_bits(compute(bits, *numbers), bits)

    return step


_SOURCE = "PTX ISA 9.1, Integer Arithmetic Instructions: "


@instruction("add", INTS, "[sat] type=s32", source=_SOURCE + "add")
def add(d: Decode) -> Step:
    d.expect(3)
    if d.has("sat"):
        return table_step(d, "add.sat", lambda bits, x, y: _saturate(x, y, 1), 2, True)
    return binary_step(d, "add", lambda x, y: x + y)  # type: ignore[operator]


@instruction("sub", INTS, "[sat] type=s32", source=_SOURCE + "sub")
def sub(d: Decode) -> Step:
    d.expect(3)
    if d.has("sat"):
        return table_step(d, "sub.sat", lambda bits, x, y: _saturate(x, y, -1), 2, True)
    return binary_step(d, "sub", lambda x, y: x - y)  # type: ignore[operator]


def _saturate(x: "int | np.ndarray", y: "int | np.ndarray", sign: int) -> "int | np.ndarray":
    wide = np.asarray(x, np.int64) + sign * np.asarray(y, np.int64)
    clipped = np.clip(wide, -(2**31), 2**31 - 1)
    return clipped if clipped.ndim else int(clipped)


def _signed_high(x: "int | np.ndarray", y: "int | np.ndarray") -> "int | np.ndarray":
    """The upper half of a product of signed 32-bit numbers, as a number."""
    wide = np.asarray(x, np.int64) * np.asarray(y, np.int64) >> 32
    return wide if wide.ndim else int(wide)


def wide_product(x: "int | np.ndarray", y: "int | np.ndarray", bits: int, signed: bool) -> "int | np.ndarray":
    """The 2*bits-wide product of two canonical operands of up to 32 bits, as canonical unsigned bits."""
    if isinstance(x, int) and isinstance(y, int):
        return (to_signed(x, bits) * to_signed(y, bits) if signed else x * y) & ((1 << 2 * bits) - 1)
    wide = INT[2 * bits] if signed else UINT[2 * bits]
    p, q = (v if isinstance(v, int) else v.astype(wide) for v in ((to_signed(x, bits), to_signed(y, bits)) if signed else (x, y)))
    return (p * q).view(UINT[2 * bits])  # type: ignore[union-attr]


def high_product(x: "int | np.ndarray", y: "int | np.ndarray", bits: int, signed: bool) -> "int | np.ndarray":
    """The upper half of the product."""
    if bits <= 32:
        wide = wide_product(x, y, bits, signed)
        return wide >> bits if isinstance(wide, int) else (wide >> wide.dtype.type(bits)).astype(UINT[bits])
    if isinstance(x, int) and isinstance(y, int):
        return ((to_signed(x, 64) * to_signed(y, 64) if signed else x * y) >> 64) & ((1 << 64) - 1)
    p, q = (np.asarray(v, np.uint64) for v in (x, y))
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    a, b, c, e = p >> half, p & low, q >> half, q & low
    mid = a * e + (b * e >> half)
    mid2 = b * c + (mid & low)
    high: np.ndarray = a * c + (mid >> half) + (mid2 >> half)
    if signed:
        high = high - np.where(p >> np.uint64(63), q, np.uint64(0)) - np.where(q >> np.uint64(63), p, np.uint64(0))
    return high


_WIDE = "mode=wide type=u16|u32|s16|s32"


@instruction("mul", "mode=lo|hi " + INTS, _WIDE, source=_SOURCE + "mul")
def mul(d: Decode) -> Step:
    d.expect(3)
    if d.mod("mode") == "lo":
        return binary_step(d, "mul", lambda x, y: x * y)  # type: ignore[operator]
    return _product_step(d, wide=d.mod("mode") == "wide", addend=None)


@instruction("mad", "mode=lo|hi " + INTS, _WIDE, "mode=hi sat type=s32", source=_SOURCE + "mad")
def mad(d: Decode) -> Step:
    d.expect(4)
    if d.has("sat"):
        return table_step(d, "mad.hi.sat", lambda bits, x, y, z: _saturate(_signed_high(x, y), z, 1), 3, True)
    bits, signed = d.bits, d.signed
    mode = d.mod("mode")
    if mode != "lo":
        return _product_step(d, wide=mode == "wide", addend=d.src(3, 2 * bits if mode == "wide" else bits))
    dst, a, b, c = d.dst(), d.src(1), d.src(2), d.src(3)
    mask = (1 << bits) - 1
    arena = d.arena
    d.simple = Integers("mad", dst, (a, b, c), bits)

    def step(g: Group) -> None:
        R = g.R
        try:
            result = R[a] * R[b]  # type: ignore[operator]
            if result.__class__ is int:
                result &= mask
            result = result + R[c]  # type: ignore[operator]
        except TypeError:
            product = symbolic_integer(arena, "mul", (R[a], R[b]), bits, signed)
            R[dst] = symbolic_integer(arena, "add", (product, R[c]), bits, signed)
            return
        R[dst] = result & mask if result.__class__ is int else result

    return step


def _product_step(d: Decode, wide: bool, addend: int | None) -> Step:
    dst, a, b, bits, signed = d.dst(), d.src(1), d.src(2), d.bits, d.signed
    out = 2 * bits if wide else bits
    mask = (1 << out) - 1
    arena = d.arena
    name = "mul.wide" if wide else "mul.hi"
    if wide:
        d.simple = Integers(name, dst, (a, b), bits, signed) if addend is None else Integers("mad.wide", dst, (a, b, addend), bits, signed)

    def step(g: Group) -> None:
        R = g.R
        x, y = R[a], R[b]
        if x.__class__ is Sym or y.__class__ is Sym or x is None or y is None:
            result: Value = symbolic_integer(arena, name, (x, y), bits, signed)
        else:
            result = (wide_product if wide else high_product)(x, y, bits, signed)  # type: ignore[arg-type]
        if addend is not None:
            z = R[addend]
            try:
                result = result + z  # type: ignore[operator]
            except TypeError:
                result = symbolic_integer(arena, "add", (result, z), out, signed)
            if result.__class__ is int:
                result &= mask
        R[dst] = result

    return step


def _trunc_div(bits: int, x: "int | np.ndarray", y: "int | np.ndarray") -> "int | np.ndarray":
    """Quotient rounded towards zero; a zero divisor gives all ones (the ISA leaves it unspecified: the finding is the division)."""
    if isinstance(x, int) and isinstance(y, int):
        if y == 0:
            return -1
        quotient = abs(x) // abs(y)
        return quotient if (x < 0) == (y < 0) else -quotient
    p, q = np.broadcast_arrays(np.asarray(x), np.asarray(y))
    if p.dtype.kind == "u" or q.dtype.kind == "u":
        dtype = p.dtype if isinstance(x, np.ndarray) else q.dtype
        p, q = p.astype(dtype), q.astype(dtype)
        return np.where(q == 0, dtype.type(-1 & int(np.iinfo(dtype).max)), p // np.where(q == 0, dtype.type(1), q))
    dtype = INT[bits]
    p, q = p.astype(dtype), q.astype(dtype)
    safe = np.where(q == 0, dtype.type(1), q)
    with np.errstate(over="ignore"):  # the least number over -1 is itself
        floor = p // safe
    fixed = floor + ((p - floor * safe != 0) & ((p < 0) != (safe < 0)))
    quotients: np.ndarray = np.where(q == 0, dtype.type(-1), fixed).astype(dtype)
    return quotients


def _trunc_rem(bits: int, x: "int | np.ndarray", y: "int | np.ndarray") -> "int | np.ndarray":
    quotient = _trunc_div(bits, x, y)
    if isinstance(quotient, int):
        return x - quotient * y if y else x
    p, q = np.asarray(x).astype(quotient.dtype), np.asarray(y).astype(quotient.dtype)
    return np.where(q == 0, p, p - quotient * q).astype(quotient.dtype)


@instruction("div", INTS, source=_SOURCE + "div")
def div(d: Decode) -> Step:
    d.expect(3)
    return table_step(d, "div", _trunc_div, 2, d.signed)


@instruction("rem", INTS, source=_SOURCE + "rem")
def rem(d: Decode) -> Step:
    d.expect(3)
    return table_step(d, "rem", _trunc_rem, 2, d.signed)


def _pick(less: bool) -> Callable[..., "int | np.ndarray"]:
    def compute(bits: int, x: "int | np.ndarray", y: "int | np.ndarray") -> "int | np.ndarray":
        if isinstance(x, int) and isinstance(y, int):
            return min(x, y) if less else max(x, y)
        return (np.minimum if less else np.maximum)(x, y)

    return compute


@instruction("min", INTS, source=_SOURCE + "min")
def minimum(d: Decode) -> Step:
    d.expect(3)
    return table_step(d, "min", _pick(True), 2, d.signed)


@instruction("max", INTS, source=_SOURCE + "max")
def maximum(d: Decode) -> Step:
    d.expect(3)
    return table_step(d, "max", _pick(False), 2, d.signed)


@instruction("abs", "type=s16|s32|s64", source=_SOURCE + "abs")
def absolute(d: Decode) -> Step:
    d.expect(2)
    return table_step(d, "abs", lambda bits, x: abs(x), 1, True)


@instruction("neg", "type=s16|s32|s64", source=_SOURCE + "neg")
def negate(d: Decode) -> Step:
    d.expect(2)
    return table_step(d, "neg", lambda bits, x: -x, 1, True)


# --- logic and shifts ---------------------------------------------------------------------------

_LOGIC = "PTX ISA 9.1, Logic and Shift Instructions: "


def _logic_step(d: Decode, name: str, fast: Callable[[Value, Value], Value]) -> Step:
    """and/or/xor on bits or predicates; predicates may be symbolic."""
    d.expect(3)
    dst, a, b = d.dst(), d.src(1), d.src(2)
    bits, arena = d.bits, d.arena
    d.simple = Integers(name, dst, (a, b), bits)

    def step(g: Group) -> None:
        R = g.R
        try:
            R[dst] = fast(R[a], R[b])
        except TypeError:
            R[dst] = symbolic_integer(arena, name, (R[a], R[b]), bits, False)

    return step


LOGIC_TYPES = "type=pred|b16|b32|b64"


@instruction("and", LOGIC_TYPES, source=_LOGIC + "and")
def logic_and(d: Decode) -> Step:
    return _logic_step(d, "and", lambda x, y: x & y)  # type: ignore[operator]


@instruction("or", LOGIC_TYPES, source=_LOGIC + "or")
def logic_or(d: Decode) -> Step:
    return _logic_step(d, "or", lambda x, y: x | y)  # type: ignore[operator]


@instruction("xor", LOGIC_TYPES, source=_LOGIC + "xor")
def logic_xor(d: Decode) -> Step:
    return _logic_step(d, "xor", lambda x, y: x ^ y)  # type: ignore[operator]


@instruction("not", LOGIC_TYPES, source=_LOGIC + "not")
def logic_not(d: Decode) -> Step:
    d.expect(2)
    dst, a, bits, arena = d.dst(), d.src(1), d.bits, d.arena
    mask: "int | bool" = True if bits == 1 else (1 << bits) - 1
    d.simple = Integers("not", dst, (a,), bits)

    def step(g: Group) -> None:
        R = g.R
        x = R[a]
        if x.__class__ is Sym or x is None:
            R[dst] = symbolic_integer(arena, "not", (x,), bits, False)
        else:
            R[dst] = x ^ mask  # type: ignore[operator]

    return step


def _shift(bits: int, value: "int | np.ndarray", amount: "int | np.ndarray", left: bool) -> "int | np.ndarray":
    """Shift with amounts clamped at the width, as the ISA has it; ``value`` signed for an arithmetic right shift."""
    if isinstance(value, int) and isinstance(amount, int):
        if left:
            return value << amount if amount < bits else 0
        return value >> min(amount, bits)
    column = value if isinstance(value, np.ndarray) else np.full(np.shape(amount), value, INT[bits] if value < 0 else UINT[bits])
    if isinstance(amount, int):
        if amount >= bits:
            return np.zeros_like(column) if left or column.dtype.kind == "u" else column >> column.dtype.type(bits - 1)
        by = column.dtype.type(amount)
        moved: np.ndarray = column << by if left else column >> by
        return moved
    capped = np.minimum(amount, bits - 1).astype(column.dtype)
    shifted: np.ndarray = column << capped if left else column >> capped
    over = amount >= bits
    if over.any() and (left or column.dtype.kind == "u"):
        shifted = np.where(over, column.dtype.type(0), shifted)
    return shifted


def _shift_step(d: Decode, name: str, left: bool, signed: bool) -> Step:
    d.expect(3)
    dst, a, b, bits, arena = d.dst(), d.src(1), d.src(2, 32), d.bits, d.arena
    d.simple = Integers(name, dst, (a, b), bits, signed)

    def step(g: Group) -> None:
        R = g.R
        x, amount = R[a], R[b]
        if x.__class__ is Sym or amount.__class__ is Sym or x is None or amount is None:
            R[dst] = symbolic_integer(arena, name, (x, amount), bits, signed)
            return
        value = to_signed(x, bits) if signed else x  # type: ignore[arg-type]
        R[dst] = to_bits(_shift(bits, value, amount, left), bits)  # type: ignore[arg-type]

    return step


@instruction("shl", BITS_TYPES, source=_LOGIC + "shl")
def shift_left(d: Decode) -> Step:
    return _shift_step(d, "shl", True, False)


@instruction("shr", "type=b16|b32|b64|u16|u32|u64|s16|s32|s64", source=_LOGIC + "shr")
def shift_right(d: Decode) -> Step:
    return _shift_step(d, "shr.s" if d.signed else "shr", False, d.signed)
