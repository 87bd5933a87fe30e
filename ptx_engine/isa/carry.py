"""Extended-precision integer arithmetic: add.cc, addc, sub.cc, subc, mad.cc, madc, with the condition code register CC.CF.

Concrete data only: a carry out of symbolic data is refused by name.
Source: PTX ISA 9.1, "Extended-Precision Integer Arithmetic Instructions".
"""

from __future__ import annotations

import numpy as np

from ptx_engine.isa.bits import refused
from ptx_engine.isa.decode import Decode, Step
from ptx_engine.isa.group import Group
from ptx_engine.isa.integer import high_product
from ptx_engine.isa.registry import instruction
from ptx_engine.isa.values import UINT, Sym, Value, uninitialised

_S = "PTX ISA 9.1, Extended-Precision Integer Arithmetic Instructions: "
TYPES = "type=u32|s32|u64|s64"
Word = "int | np.ndarray"


def require_bits(values: list[Value], name: str) -> None:
    """Refuse symbolic and unwritten operands."""
    for v in values:
        if v is None:
            raise uninitialised()
        if isinstance(v, Sym):
            raise refused(name, v)


def with_carry(
    x: "int | np.ndarray", y: "int | np.ndarray", carry: "bool | np.ndarray", bits: int
) -> "tuple[int | np.ndarray, bool | np.ndarray]":
    """x + y + carry as (low bits, carry out)."""
    if isinstance(x, int) and isinstance(y, int) and isinstance(carry, (bool, int)):
        total = x + y + int(carry)
        return total & ((1 << bits) - 1), total >> bits != 0
    dtype = UINT[bits].type
    p, q, c = np.broadcast_arrays(np.asarray(x, dtype), np.asarray(y, dtype), np.asarray(carry, dtype))
    partial = p + q
    total = partial + c
    return total, (partial < p) | (total < partial)


def with_borrow(
    x: "int | np.ndarray", y: "int | np.ndarray", borrow: "bool | np.ndarray", bits: int
) -> "tuple[int | np.ndarray, bool | np.ndarray]":
    """x - (y + borrow) as (low bits, borrow out)."""
    if isinstance(x, int) and isinstance(y, int) and isinstance(borrow, (bool, int)):
        total = x - y - int(borrow)
        return total & ((1 << bits) - 1), total < 0
    dtype = UINT[bits].type
    p, q, c = np.broadcast_arrays(np.asarray(x, dtype), np.asarray(y, dtype), np.asarray(borrow, dtype))
    partial = p - q
    return partial - c, (p < q) | (partial < c)


def _chained(d: Decode, subtract: bool, reads: bool, product: "str | None" = None) -> Step:
    """The one step of all forms: an optional product, then a sum or difference with carry in and out."""
    d.expect(4 if product else 3)
    bits, signed, name = d.bits, d.signed, d.ins.mnemonic
    sources = [d.src(i + 1) for i in range(3 if product else 2)]
    dst = d.dst()
    carry_in = d.carry_in() if reads else None
    carry_out = d.carry_out() if d.has("cc") else None
    combine = with_borrow if subtract else with_carry
    mask = (1 << bits) - 1

    def step(g: Group) -> None:
        R = g.R
        operands = [R[i] for i in sources]
        flag = R[carry_in] if carry_in is not None else False
        require_bits([*operands, flag], name)
        if product is not None:
            x, y, z = operands
            if product == "hi":
                operands = [high_product(x, y, bits, signed), z]  # type: ignore[arg-type]
            else:
                low = x * y  # type: ignore[operator]
                operands = [low & mask if isinstance(low, int) else low, z]
        result, flag = combine(operands[0], operands[1], flag, bits)  # type: ignore[arg-type]
        R[dst] = result
        if carry_out is not None:
            R[carry_out] = flag

    return step


@instruction("add", f"cc {TYPES}", source=_S + "add.cc")
def add_cc(d: Decode) -> Step:
    return _chained(d, subtract=False, reads=False)


@instruction("addc", f"[cc] {TYPES}", source=_S + "addc")
def addc(d: Decode) -> Step:
    return _chained(d, subtract=False, reads=True)


@instruction("sub", f"cc {TYPES}", source=_S + "sub.cc")
def sub_cc(d: Decode) -> Step:
    return _chained(d, subtract=True, reads=False)


@instruction("subc", f"[cc] {TYPES}", source=_S + "subc")
def subc(d: Decode) -> Step:
    return _chained(d, subtract=True, reads=True)


@instruction("mad", f"mode=hi|lo cc {TYPES}", source=_S + "mad.cc")
def mad_cc(d: Decode) -> Step:
    return _chained(d, subtract=False, reads=False, product=d.mods["mode"])


@instruction("madc", f"mode=hi|lo [cc] {TYPES}", source=_S + "madc")
def madc(d: Decode) -> Step:
    return _chained(d, subtract=False, reads=True, product=d.mods["mode"])
