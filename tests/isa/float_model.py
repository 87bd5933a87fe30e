"""An independent model of float arithmetic: MPFR through gmpy2, with each format's precision, exponent range and subnormals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import gmpy2
import ml_dtypes
import numpy as np

ROUND = {"rn": gmpy2.RoundToNearest, "rz": gmpy2.RoundToZero, "rm": gmpy2.RoundDown, "rp": gmpy2.RoundUp}


@dataclass(frozen=True)
class Format:
    name: str
    uint: type
    dtype: np.dtype
    precision: int
    emax: int  # MPFR's: numbers are below 2^emax
    emin: int
    nan: int

    def value(self, bits: int) -> float:
        return _value(self, bits)

    def bits(self, value: "gmpy2.mpfr") -> int:
        number = float(value)
        if math.isnan(number):
            return self.nan
        return int(np.array(number).astype(self.dtype).view(self.uint))  # exact: the number is one of the format

    def context(self, rnd: str) -> "gmpy2.context":
        return gmpy2.context(precision=self.precision, emax=self.emax, emin=self.emin, subnormalize=True, round=ROUND[rnd])


@cache
def _value(fmt: Format, bits: int) -> float:
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return float(np.array(bits, fmt.uint).view(fmt.dtype).astype(np.float64))


F16 = Format("f16", np.uint16, np.dtype(np.float16), 11, 16, -23, 0x7FFF)
BF16 = Format("bf16", np.uint16, np.dtype(ml_dtypes.bfloat16), 8, 128, -132, 0x7FFF)
F32 = Format("f32", np.uint32, np.dtype(np.float32), 24, 128, -148, 0x7FFFFFFF)
F64 = Format("f64", np.uint64, np.dtype(np.float64), 53, 1024, -1073, 0x7FF8000000000000)
FORMATS = {f.name: f for f in (F16, BF16, F32, F64)}


def calculate(fmt: Format, operator: str, rnd: str, *bits: int) -> int:
    """The correctly rounded result of one operation on bits."""
    context = fmt.context(rnd)
    x = [gmpy2.mpfr(fmt.value(b), 53) for b in bits]
    with gmpy2.context(context):
        result = {
            "add": lambda: x[0] + x[1], "sub": lambda: x[0] - x[1], "mul": lambda: x[0] * x[1], "div": lambda: _divide(*x),
            "fma": lambda: gmpy2.fma(*x), "sqrt": lambda: gmpy2.sqrt(x[0]), "rcp": lambda: _divide(gmpy2.mpfr(1), x[0]),
        }[operator]()  # fmt: skip
    return fmt.bits(result)


def _divide(x: "gmpy2.mpfr", y: "gmpy2.mpfr") -> "gmpy2.mpfr":
    if y == 0 and x != 0 and not gmpy2.is_nan(x):
        return gmpy2.inf(-1 if gmpy2.is_signed(x) != gmpy2.is_signed(y) else 1)
    return x / y


def specials(fmt: Format) -> np.ndarray:
    """Zeros, ones, subnormals, neighbours of powers of two, the largest numbers, infinities, NaN, of both signs."""
    width = fmt.uint().itemsize * 8
    one = int(np.array(1.0).astype(fmt.dtype).view(fmt.uint))
    inf = int(np.array(np.inf).astype(fmt.dtype).view(fmt.uint))
    least_normal = 1 << (fmt.precision - 1)
    words = [
        0, 1, 2, 3, least_normal - 1, least_normal, least_normal + 1, one - 1, one, one + 1, one + least_normal, inf - 1, inf - 2, inf,
        inf + 1, fmt.nan,
    ]  # fmt: skip
    return np.array([w | s << (width - 1) for w in words for s in (0, 1)], fmt.uint)


def close_pairs(fmt: Format, rng: np.random.Generator, count: int) -> np.ndarray:
    """Random bits whose exponents lie near one another half of the time, so that sums and ties are interesting."""
    width = fmt.uint().itemsize * 8
    words = rng.integers(0, 2**64, count, dtype=np.uint64) >> np.uint64(64 - width)
    one = int(np.array(1.0).astype(fmt.dtype).view(fmt.uint))
    low = rng.integers(0, 1 << (fmt.precision + 2), count).astype(np.uint64)
    near = (low + np.uint64(one) - np.uint64(1 << (fmt.precision + 1))) | (words & np.uint64(1 << (width - 1)))
    round_ones = near & ~np.uint64((1 << (fmt.precision // 2)) - 1)
    pick = rng.integers(0, 3, count)
    return np.where(pick == 0, words, np.where(pick == 1, near, round_ones)).astype(fmt.uint)
