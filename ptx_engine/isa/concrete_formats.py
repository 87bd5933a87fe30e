"""Float formats as bits: exact decoding to float64, rounding of float64 values to a format in every mode, encoding.

A value to be rounded is exact or *rounded to odd* in float64 (see ``concrete_exact``), so that one more rounding to any
narrower format is the correct rounding of the exact value, in every mode.
Source: PTX ISA 9.1, "Alternate Floating-Point Data Formats", "cvt", "Floating Point Instructions".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from ptx_engine.isa.values import Fmt

Bits = np.ndarray
Reals = np.ndarray  # float64


@dataclass(frozen=True, slots=True)
class Layout:
    """``precision`` counts the hidden bit; ``least`` is the exponent of the smallest normal number; ``nan`` the canonical NaN."""

    precision: int
    least: int
    largest: float
    nan: int
    uint: type


LAYOUTS: dict[str, Layout] = {
    "f16": Layout(11, -14, 65504.0, 0x7FFF, np.uint16),
    "bf16": Layout(8, -126, float.fromhex("0x1.fep127"), 0x7FFF, np.uint16),
    "tf32": Layout(11, -126, float.fromhex("0x1.ffcp127"), 0x7FFFFFFF, np.uint32),
    "f32": Layout(24, -126, float.fromhex("0x1.fffffep127"), 0x7FFFFFFF, np.uint32),
    "f64": Layout(53, -1022, float.fromhex("0x1.fffffffffffffp1023"), 0x7FF8000000000000, np.uint64),
    "e4m3": Layout(4, -6, 448.0, 0x7F, np.uint8),
    "e5m2": Layout(3, -14, 57344.0, 0x7F, np.uint8),
}


#: formats that NumPy computes with
_NATIVE: dict[str, type] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def sign_bit(fmt: Fmt) -> np.unsignedinteger:
    """The sign bit of a format, as a scalar of its unsigned type."""
    return LAYOUTS[fmt.name].uint(1 << (fmt.bits - 1))  # type: ignore[no-any-return]


@cache
def _byte_table(name: str) -> np.ndarray:
    codes = np.arange(256)
    sign = np.where(codes & 0x80, -1.0, 1.0)
    if name == "e5m2":
        return (codes.astype(np.uint16) << 8).view(np.float16).astype(np.float64)
    exponent, fraction = codes >> 3 & 15, codes & 7
    value = np.where(exponent == 0, np.ldexp(fraction / 8.0, -6), np.ldexp(1 + fraction / 8.0, exponent - 7))
    return np.where((codes & 0x7F) == 0x7F, np.nan, sign * value)


def decode(bits: Bits, fmt: Fmt) -> Reals:
    """The exact values of bit patterns, as float64. The low 13 bits of tf32 data do not count."""
    name = fmt.name
    if name == "f32":
        return bits.view(np.float32).astype(np.float64)
    if name == "f64":
        return bits.view(np.float64)
    if name == "f16":
        return bits.view(np.float16).astype(np.float64)
    if name == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    if name == "tf32":
        return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    return np.asarray(_byte_table(name)[bits])


def is_nan(bits: Bits, fmt: Fmt) -> np.ndarray:
    """Which patterns are NaN."""
    if fmt.name in _NATIVE:
        return np.isnan(bits.view(_NATIVE[fmt.name]))
    layout = LAYOUTS[fmt.name]
    magnitude = bits & layout.uint((1 << (fmt.bits - 1)) - 1)
    return np.asarray(magnitude == layout.nan if fmt.name == "e4m3" else magnitude > infinity(fmt))


def infinity(fmt: Fmt) -> np.unsignedinteger:
    """The bits of +inf (formats that have one)."""
    stored = LAYOUTS[fmt.name].precision - 1 if fmt.name != "tf32" else 23
    return LAYOUTS[fmt.name].uint(((1 << (fmt.bits - 1 - stored)) - 1) << stored)  # type: ignore[no-any-return]


def canonical(bits: Bits, fmt: Fmt) -> Bits:
    """Every NaN as the format's canonical NaN; f64 keeps payloads."""
    if fmt.name == "f64":
        return bits
    bad = is_nan(bits, fmt)
    return np.where(bad, LAYOUTS[fmt.name].uint(LAYOUTS[fmt.name].nan), bits) if bad.any() else bits


def flush(bits: Bits, fmt: Fmt) -> Bits:
    """Subnormal numbers as zeros of the same sign."""
    layout = LAYOUTS[fmt.name]
    sign = sign_bit(fmt)
    magnitude = bits & ~sign
    smallest_normal = layout.uint(1 << (layout.precision - 1)) if fmt.name != "tf32" else np.uint32(1 << 23)
    tiny = (magnitude < smallest_normal) & (magnitude != 0)
    return np.where(tiny, bits & sign, bits) if tiny.any() else bits


def _nearest_away(x: Reals) -> Reals:
    whole = np.trunc(x)
    return np.asarray(np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1.0, x), whole))


ROUNDERS: dict[str, Callable[[Reals], Reals]] = {"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil, "rna": _nearest_away}


def round_to(values: Reals, fmt: Fmt, rnd: str, satfinite: bool = False) -> Reals:
    """float64 values (exact or rounded to odd) as numbers of a format, still in float64; overflow as the mode says."""
    if fmt.name == "f64":
        return values
    layout = LAYOUTS[fmt.name]
    _, exponent = np.frexp(values)
    last = np.maximum(exponent - layout.precision, layout.least - layout.precision + 1)
    result = np.ldexp(ROUNDERS[rnd](np.ldexp(values, -last)), last)
    result = np.where(np.isfinite(values), np.copysign(result, values), values)
    over = np.abs(result) > layout.largest
    if satfinite or fmt.name == "e4m3":
        return np.where(over, np.copysign(layout.largest, result), result)
    clipped = over & np.isfinite(values)
    if clipped.any():
        to_max = np.signbit(result) if rnd == "rp" else ~np.signbit(result) if rnd == "rm" else np.full(result.shape, rnd == "rz")
        result = np.where(clipped, np.copysign(np.where(to_max, layout.largest, np.inf), result), result)
    return result


def round_stochastic(values: Reals, random: Bits, fmt: Fmt, satfinite: bool) -> Bits:
    """Magnitudes rounded up where the part that is cut off and ``random`` / 2^16 make up a whole unit of the last place."""
    layout = LAYOUTS[fmt.name]
    _, exponent = np.frexp(values)
    last = np.maximum(exponent - layout.precision, layout.least - layout.precision + 1)
    whole = np.floor(np.ldexp(np.abs(values), -last) + random / 65536.0)
    result = np.where(np.isfinite(values), np.copysign(np.ldexp(whole, last), values), values)
    return encode(round_to(result, fmt, "rn", satfinite), fmt)


def _pack_e4m3(values: Reals) -> Bits:
    size = np.abs(values)
    fraction, exponent = np.frexp(size)
    normal = (exponent + 6).astype(np.int64) * 8 + np.rint(fraction * 16).astype(np.int64) - 8
    code = np.where(size < 2.0**-6, np.rint(size * 512), normal).astype(np.uint8)
    return np.asarray(code | np.where(np.signbit(values), np.uint8(0x80), np.uint8(0)))


def encode(values: Reals, fmt: Fmt) -> Bits:
    """The bits of float64 values that are numbers of the format; NaN is canonical."""
    name = fmt.name
    if name == "f64":
        return values.view(np.uint64)
    bad = np.isnan(values)
    any_bad = bool(bad.any())
    if any_bad:
        values = np.where(bad, 0.0, values)
    if name in ("f32", "tf32"):
        bits: Bits = values.astype(np.float32).view(np.uint32)
    elif name == "f16":
        bits = values.astype(np.float16).view(np.uint16)
    elif name == "bf16":
        bits = (values.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    elif name == "e5m2":
        bits = (values.astype(np.float16).view(np.uint16) >> np.uint16(8)).astype(np.uint8)
    else:
        bits = _pack_e4m3(values)
    layout = LAYOUTS[name]
    return np.where(bad, layout.uint(layout.nan), bits) if any_bad else bits


def round_bits(values: Reals, fmt: Fmt, rnd: str, satfinite: bool = False) -> Bits:
    """The bits of float64 values (exact or rounded to odd) rounded to a format. f64 is not rounded."""
    if rnd == "rn" and not satfinite and fmt.name in ("f32", "f16"):  # NumPy's conversion rounds to nearest even, once
        return encode(values, fmt)
    return encode(round_to(values, fmt, rnd, satfinite), fmt)
