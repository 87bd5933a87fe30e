"""Correct rounding by error-free transformations: a float64 result with the sign of its error, rounded to odd or directed.

Rounding to odd (an inexact result takes the neighbour whose last bit is one) keeps enough of the exact value for one more
rounding to a format of at most 51 bits. f64 itself is rounded in a direction from the nearest value and its error's sign.
Lanes where a transformation could overflow or underflow are computed with exact rationals, once per distinct operand.
Source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", IEEE TC 57(4), 2008.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

Reals = np.ndarray
_SPLIT = float(2**27 + 1)


def two_sum(x: Reals, y: Reals) -> tuple[Reals, Reals]:
    """x + y as nearest value and exact error."""
    s = x + y
    t = s - x
    return s, (x - (s - t)) + (y - t)


def _split(x: Reals) -> tuple[Reals, Reals]:
    t = _SPLIT * x
    high = t - (t - x)
    return high, x - high


def two_product(x: Reals, y: Reals) -> tuple[Reals, Reals]:
    """x * y as nearest value and exact error, where nothing over- or underflows."""
    p = x * y
    a, b = _split(x)
    c, d = _split(y)
    return p, ((a * c - p) + a * d + b * c) + b * d


def to_odd(nearest: Reals, error: Reals) -> Reals:
    """The exact value ``nearest + error`` rounded to odd; only the sign of ``error`` counts."""
    bits = nearest.view(np.int64)
    move = (bits & 1 == 0) & (error != 0) & np.isfinite(error) & np.isfinite(nearest)
    if not move.any():
        return nearest
    outward = (error > 0) == (nearest > 0)
    return np.where(move, bits + np.where(outward, 1, -1), bits).view(np.float64)


def directed(nearest: Reals, error: Reals, rnd: str) -> Reals:
    """The exact value ``nearest + error`` of finite operands rounded to float64 in a mode; an infinite ``nearest`` overflowed."""
    if rnd == "rn":
        return nearest
    up, down = error > 0, error < 0
    if rnd == "rz":
        result = np.where((nearest > 0) & down | (nearest < 0) & up, np.nextafter(nearest, 0.0), nearest)
        return np.where(np.isinf(nearest), np.copysign(np.finfo(np.float64).max, nearest), result)
    if rnd == "rm":
        result = np.where(down, np.nextafter(nearest, -np.inf), nearest)
        return np.where(nearest == np.inf, np.finfo(np.float64).max, result)
    result = np.where(up, np.nextafter(nearest, np.inf), nearest)
    return np.where(nearest == -np.inf, -np.finfo(np.float64).max, result)


def zero_sign(result: Reals, x: Reals, y: Reals, rnd: str) -> Reals:
    """An exact zero sum of operands of different signs is -0 when rounding down."""
    if rnd != "rm":
        return result
    return np.where((result == 0) & (np.signbit(x) != np.signbit(y)), -0.0, result)


# --- operations whose operands are numbers of narrower formats: the exact value rounded to odd ----------------------------


def odd_add(x: Reals, y: Reals, rnd: str) -> Reals:
    s, e = two_sum(x, y)
    return zero_sign(to_odd(s, e), x, y, rnd)


def odd_fma(x: Reals, y: Reals, z: Reals, rnd: str) -> Reals:
    """The product of two numbers of at most 26 bits is exact in float64."""
    return odd_add(x * y, z, rnd)


def odd_div(x: Reals, y: Reals) -> Reals:
    q = x / y
    high, low = _split(q)
    rest = (x - high * y) - low * y
    return to_odd(q, np.where(y < 0, -rest, rest))


def odd_sqrt(x: Reals) -> Reals:
    s = np.sqrt(x)
    high, low = _split(s)
    return to_odd(s, ((x - high * high) - 2 * high * low) - low * low)


# --- float64 in every mode ---------------------------------------------------------------------------------------------


def finite(*operands: Reals) -> np.ndarray:
    """Lanes whose operands are all finite."""
    result = np.isfinite(operands[0])
    for x in operands[1:]:
        result = result & np.isfinite(x)
    return np.asarray(result)


def _finish(nearest: Reals, error: Reals, rnd: str, ok: np.ndarray) -> Reals:
    return np.where(ok, directed(nearest, error, rnd), nearest)


def add64(x: Reals, y: Reals, rnd: str) -> Reals:
    s, e = two_sum(x, y)
    if rnd == "rn":
        return s
    return zero_sign(_finish(s, np.where(np.isfinite(s), e, 0.0), rnd, finite(x, y)), x, y, rnd)


def mul64(x: Reals, y: Reals, rnd: str) -> Reals:
    p, e = two_product(x, y)
    if rnd == "rn":
        return p
    result = _finish(p, np.where(np.isfinite(p), e, 0.0), rnd, finite(x, y))
    return _exact_lanes(result, _unsafe_product(x, y, p), (x, y), lambda a, b: a * b, rnd)


def div64(x: Reals, y: Reals, rnd: str) -> Reals:
    q = x / y
    if rnd == "rn":
        return np.asarray(q)
    p, e = two_product(q, y)
    rest = (x - p) - e
    result = _finish(q, np.where(y < 0, -rest, rest), rnd, finite(x, y) & (y != 0))
    unsafe = (
        finite(x, y)
        & (x != 0)
        & (y != 0)
        & (_outside(x, 2.0**-900, 2.0**1000) | _outside(y, 2.0**-990, 2.0**990) | _outside(q, 2.0**-900, 2.0**990))
    )
    return _exact_lanes(result, unsafe, (x, y), lambda a, b: a / b, rnd)


def sqrt64(x: Reals, rnd: str) -> Reals:
    s: Reals = np.sqrt(x)
    if rnd == "rn":
        return s
    shift = np.where((x > 2.0**1000) & np.isfinite(x), -200, np.where((x > 0) & (x < 2.0**-900), 200, 0))
    scaled = np.ldexp(x, shift)  # exact: roots of even powers of two are powers of two
    root = np.sqrt(scaled)
    p, e = two_product(root, root)
    rounded = np.ldexp(directed(root, (scaled - p) - e, rnd), -(shift // 2))
    result: Reals = np.where(finite(x) & (x > 0), rounded, s)
    return result


def fma64(x: Reals, y: Reals, z: Reals, rnd: str) -> Reals:
    """x * y + z rounded once."""
    ph, pl = two_product(x, y)
    th, tl = two_sum(z, pl)
    vh, vl = two_sum(ph, th)
    s, e = two_sum(vh, to_odd(*two_sum(tl, vl)))
    ok = finite(x, y, z)
    result = np.where(ok, directed(s, np.where(np.isfinite(s), e, 0.0), rnd), np.where(finite(x, y) & np.isinf(z), z, x * y + z))
    nothing = ok & ((x == 0) | (y == 0))
    result = np.where(nothing, z, result)
    negative = np.signbit(x) ^ np.signbit(y)
    zero = np.where(np.where(negative == np.signbit(z), negative, rnd == "rm"), -0.0, 0.0)
    result = np.where(ok & (s == 0) & (e == 0) | nothing & (z == 0), zero, result)
    unsafe = _unsafe_product(x, y, ph) | _outside(s, 2.0**-900, 2.0**1000) | (np.abs(z) > 2.0**1000)
    return _exact_lanes(result, unsafe & ok & (x != 0) & (y != 0), (x, y, z), lambda a, b, c: a * b + c, rnd)


def _outside(x: Reals, low: float, high: float) -> np.ndarray:
    size = np.abs(x)
    return np.asarray((size < low) | (size > high))


def _unsafe_product(x: Reals, y: Reals, p: Reals) -> np.ndarray:
    """Finite non-zero factors whose split or product's error may over- or underflow."""
    return np.asarray(
        finite(x, y) & (x != 0) & (y != 0) & ((np.abs(x) > 2.0**990) | (np.abs(y) > 2.0**990) | _outside(p, 2.0**-900, 2.0**1000))
    )


def _exact_lanes(result: Reals, lanes: np.ndarray, operands: tuple[Reals, ...], compute: Callable[..., Fraction], rnd: str) -> Reals:
    """``result`` with some lanes recomputed from exact rationals, one Python step per distinct operand tuple."""
    where = np.flatnonzero(lanes)
    if not where.size:
        return result
    rows = np.stack([np.broadcast_to(x, lanes.shape)[where] for x in operands], 1)
    unique, inverse = np.unique(rows.view(np.int64), axis=0, return_inverse=True)
    values = np.array([_rounded(row, compute, rnd) for row in unique.view(np.float64)])
    result = result.copy()
    result[where] = values[inverse.ravel()]
    return result


def _rounded(row: np.ndarray, compute: Callable[..., Fraction], rnd: str) -> float:
    exact = compute(*(Fraction(float(x)) for x in row))
    if exact == 0:  # a product and its addend cancel
        return -0.0 if rnd == "rm" else 0.0
    return round_fraction(exact, rnd)


def round_fraction(value: Fraction, rnd: str) -> float:
    """A non-zero rational rounded to float64 in a mode."""
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    last = max(exponent - 52, -1074)
    scaled = size / Fraction(2) ** last
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    nearest = 2 * rest > scaled.denominator or (2 * rest == scaled.denominator and whole % 2 == 1)
    up = {"rz": False, "rm": value < 0, "rp": value > 0}.get(rnd, nearest)
    with np.errstate(over="ignore"):
        result = float(np.ldexp(float(whole + (bool(rest) and up)), last))
    if result == np.inf and rnd in ("rz", "rm" if value > 0 else "rp"):
        result = float(np.finfo(np.float64).max)
    return result if value > 0 else -result
