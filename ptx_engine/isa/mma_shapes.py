"""Shapes and operand types of mma.sync: how many elements a register holds, and what they are.

Source: PTX ISA 9.1, "Warp Level Matrix Multiply-Accumulate Instructions: Matrix Shape".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ptx_engine.isa.values import BF16, E4M3, E5M2, F16, F32, F64, TF32, Fmt, int_fmt


@dataclass(frozen=True)
class Element:
    """A multiplicand's element format, how many stand in a register, and the register's width in bits."""

    fmt: Fmt
    per_register: int
    register_bits: int = 32


def integer_fmt(bits: int, signed: bool) -> Fmt:
    """The full range of an integer type."""
    return int_fmt(bits, -(1 << bits - 1), (1 << bits - 1) - 1) if signed else int_fmt(bits, 0, (1 << bits) - 1)


ELEMENTS: dict[str, Element] = {
    "f16": Element(F16, 2), "bf16": Element(BF16, 2), "tf32": Element(TF32, 1), "e4m3": Element(E4M3, 4), "e5m2": Element(E5M2, 4),
    "f64": Element(F64, 1, 64),
    "s8": Element(integer_fmt(8, True), 4), "u8": Element(integer_fmt(8, False), 4),
    "s4": Element(integer_fmt(4, True), 8), "u4": Element(integer_fmt(4, False), 8), "b1": Element(integer_fmt(1, False), 32),
}  # fmt: skip
S32 = integer_fmt(32, True)
#: accumulator type -> formats of the parts of one register, register bits
ACCUMULATORS: dict[str, tuple[tuple[Fmt, ...], int]] = {
    "f32": ((F32,), 32), "f16": ((F16, F16), 32), "f64": ((F64,), 64), "s32": ((S32,), 32),
}  # fmt: skip

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


def extents(shape: str) -> tuple[int, int, int]:
    """(m, n, k) of ``m16n8k16``."""
    found = _SHAPE.fullmatch(shape)
    assert found is not None
    m, n, k = (int(x) for x in found.groups())
    return m, n, k
