"""Float operators on bit columns: one row per operator of ``algebra.ARITY``, correctly rounded or approximated as the ISA says.

Approximate instructions (``.approx``, ``.full``) are computed in float64 and rounded once, which is within every error bound
the ISA states; their special cases (overflowing divisors, flushed subnormals, the low word of f64 approximations) are kept.
Source: PTX ISA 9.1, "Floating Point Instructions", "Half Precision Floating Point Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptx_engine.errors import UnsupportedError
from ptx_engine.isa import concrete_exact as exact
from ptx_engine.isa.algebra import ARITY, Mode
from ptx_engine.isa.concrete_formats import LAYOUTS, Bits, Reals, canonical, decode, encode, flush, is_nan, round_bits, sign_bit
from ptx_engine.isa.values import Fmt

#: bit columns of one format -> bit column of that format
Kernel = Callable[..., Bits]
Builder = Callable[[Fmt, Mode], Kernel]

_NATIVE: dict[str, Callable[..., np.ndarray]] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "sqrt": np.sqrt}
_ODD: dict[str, Callable[..., Reals]] = {
    "add": exact.odd_add, "sub": lambda x, y, rnd: exact.odd_add(x, -y, rnd), "mul": lambda x, y, rnd: x * y,
    "div": lambda x, y, rnd: exact.odd_div(x, y),
    "sqrt": lambda x, rnd: exact.odd_sqrt(x), "fma": exact.odd_fma, "rcp": lambda x, rnd: exact.odd_div(np.ones_like(x), x),
}  # fmt: skip
_DOUBLE: dict[str, Callable[..., Reals]] = {
    "add": exact.add64, "sub": lambda x, y, rnd: exact.add64(x, -y, rnd), "mul": exact.mul64, "div": exact.div64, "sqrt": exact.sqrt64,
    "fma": exact.fma64, "rcp": lambda x, rnd: exact.div64(np.ones_like(x), x, rnd),
}  # fmt: skip


def _rounded(operator: str) -> Builder:
    """An IEEE operation in a rounding mode; ``sub`` of NaN and the like follow NumPy, NaN becomes canonical later."""

    def build(fmt: Fmt, mode: Mode) -> Kernel:
        if mode.approx:
            return _APPROXIMATE[operator](fmt, mode)
        native = _NATIVE.get(operator)
        if mode.rnd == "rn" and native is not None and fmt.name in ("f32", "f64"):
            dtype, uint = (np.float32, np.uint32) if fmt.name == "f32" else (np.float64, np.uint64)
            return lambda *bits: native(*(b.view(dtype) for b in bits)).view(uint)
        rnd = mode.rnd
        if fmt.name == "f64":
            double = _DOUBLE[operator]
            return lambda *bits: double(*(b.view(np.float64) for b in bits), rnd).view(np.uint64)
        if operator == "fma" and fmt.name == "f32" and rnd == "rn":
            return _fma_f32
        odd = _ODD[operator]
        return lambda *bits: round_bits(odd(*(decode(b, fmt) for b in bits), rnd), fmt, rnd)

    return build


def _fma_f32(a: Bits, b: Bits, c: Bits) -> Bits:
    """fma.rn.f32: the product is exact in float64; rounding twice is wrong only where the sum looks like a tie or is subnormal."""
    x, y, z = (bits.view(np.float32).astype(np.float64) for bits in (a, b, c))
    nearest = x * y + z
    unsure = (nearest.view(np.int64) & 0x1FFFFFFF == 0x10000000) | ((np.abs(nearest) < 2.0**-126) & (nearest != 0))
    if unsure.any():
        nearest = exact.odd_fma(x, y, z, "rn")
    return nearest.astype(np.float32).view(np.uint32)


def _nearest(function: Callable[..., Reals]) -> Builder:
    """A function evaluated in float64 and rounded to nearest."""

    def build(fmt: Fmt, mode: Mode) -> Kernel:
        if fmt.name == "f64" and mode.ftz:  # rcp/rsqrt.approx.ftz.f64: the low word of the result is zero
            return lambda *bits: function(*(b.view(np.float64) for b in bits)).view(np.uint64) & np.uint64(0xFFFFFFFF00000000)
        return lambda *bits: round_bits(function(*(decode(b, fmt) for b in bits)), fmt, "rn")

    return build


def _divide_approx(fmt: Fmt, mode: Mode) -> Kernel:
    """``div.approx``: with 2^126 < |y| < 2^128 the reciprocal underflows: finite x gives 0, infinite x NaN."""

    def kernel(a: Bits, b: Bits) -> Bits:
        x, y = decode(a, fmt), decode(b, fmt)
        quotient = x / y
        huge = (np.abs(y) > 2.0**126) & np.isfinite(y)
        if mode.approx == "approx" and huge.any():
            quotient = np.where(huge, np.where(np.isinf(x), np.nan, np.copysign(0.0, quotient)), quotient)
        return round_bits(quotient, fmt, "rn")

    return kernel


def _rsqrt(x: Reals) -> Reals:
    return np.asarray(1.0 / np.sqrt(x))


_APPROXIMATE: dict[str, Builder] = {"div": _divide_approx, "rcp": _nearest(np.reciprocal), "sqrt": _nearest(np.sqrt)}


# --- sign and extremes --------------------------------------------------------------------------


def _neg(fmt: Fmt, mode: Mode) -> Kernel:
    sign = sign_bit(fmt)
    return lambda a: a ^ sign


def _abs(fmt: Fmt, mode: Mode) -> Kernel:
    keep = ~sign_bit(fmt)
    return lambda a: a & keep


def _copysign(fmt: Fmt, mode: Mode) -> Kernel:
    sign = sign_bit(fmt)
    return lambda a, b: (a & sign) | (b & ~sign)


def _order(bits: Bits, fmt: Fmt) -> np.ndarray:
    """Integers ordered as the numbers are, -0 below +0 (NaN anywhere)."""
    sign = sign_bit(fmt)
    magnitude = (bits & ~sign).astype(np.int64)
    return np.asarray(np.where(bits & sign, -1 - magnitude, magnitude))


def _extreme(operator: str) -> Builder:
    """min/max: -0 < +0; a NaN operand gives the other one, or with ``.NaN`` the canonical NaN."""
    words = operator.split(".")
    less, propagate, magnitude, xor = words[0] == "min", "NaN" in words, "abs" in words, "xorsign" in words

    def build(fmt: Fmt, mode: Mode) -> Kernel:
        sign, nan = sign_bit(fmt), LAYOUTS[fmt.name].uint(LAYOUTS[fmt.name].nan)

        def kernel(a: Bits, b: Bits) -> Bits:
            signs = (a ^ b) & sign
            if magnitude:
                a, b = a & ~sign, b & ~sign
            p, q = _order(a, fmt), _order(b, fmt)
            result = np.where(p < q if less else p > q, a, b)
            x, y = is_nan(a, fmt), is_nan(b, fmt)
            if x.any() or y.any():
                result = np.where(x, b, np.where(y, a, result))
                result = np.where((x | y) if propagate else (x & y), nan, result)
            return np.where(is_nan(result, fmt), result, (result & ~sign) | signs) if xor else result

        return kernel

    return build


_ROUND_INTEGER: dict[str, Callable[[Reals], Reals]] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _integral(operator: str) -> Builder:
    def build(fmt: Fmt, mode: Mode) -> Kernel:
        return lambda a: encode(_ROUND_INTEGER[operator](decode(a, fmt)), fmt)

    return build


BUILDERS: dict[str, Builder] = {
    **{name: _rounded(name) for name in ("add", "sub", "mul", "div", "fma", "sqrt", "rcp")},
    "rsqrt": _nearest(_rsqrt), "ex2": _nearest(np.exp2), "lg2": _nearest(np.log2), "sin": _nearest(np.sin), "cos": _nearest(np.cos),
    "tanh": _nearest(np.tanh), "neg": _neg, "abs": _abs, "copysign": _copysign, "id": lambda fmt, mode: lambda a: a,
    **{name: _extreme(name) for name in ARITY if name.startswith(("min", "max"))},
    **{name: _integral(name) for name in _ROUND_INTEGER},
}  # fmt: skip

#: operators that only move the sign bit: a NaN keeps its payload
_SIGN_ONLY = frozenset({"neg", "abs", "copysign"})


def clamp_bits(bits: Bits, fmt: Fmt, mode: Mode) -> Bits:
    """``.sat`` (to [+0, 1], NaN to +0) and ``.relu`` (negative to +0, NaN canonical) on results."""
    sign = sign_bit(fmt)
    zero = bits.dtype.type(0)
    if mode.sat:
        one = encode(np.ones(1), fmt)[0]
        magnitude = bits & ~sign
        bits = np.where((bits & sign != 0) | is_nan(bits, fmt), zero, np.where(magnitude > one, one, bits))
    if mode.relu:
        bits = np.where((bits & sign != 0) & ~is_nan(bits, fmt), zero, bits)
    return bits


def evaluator(operator: str, fmt: Fmt, mode: Mode) -> Kernel:
    """The whole instruction on one part: flush, compute, canonical NaN, flush, clamp."""
    kernel = BUILDERS[operator](fmt, mode)
    if mode.ftz and fmt.name not in ("f32", "f16", "bf16") and mode.approx == "":
        raise UnsupportedError(f".ftz on {fmt.name}", feature=f"ftz.{fmt.name}")
    keep_nan = operator in _SIGN_ONLY
    ftz, clamps = mode.ftz, mode.sat or mode.relu

    def run(*bits: Bits) -> Bits:
        with np.errstate(all="ignore"):
            if ftz:
                bits = tuple(flush(b, fmt) for b in bits)
            result = kernel(*bits)
            if not keep_nan:
                result = canonical(result, fmt)
            if ftz:
                result = flush(result, fmt)
            return clamp_bits(result, fmt, mode) if clamps else result

    return run
