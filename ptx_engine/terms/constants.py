"""Exact constants: a rational times powers of log2(e), log2(10), sqrt(2) and pi, or one of inf, -inf, NaN, undefined.

A float literal within 1 ulp (f32) of a small rational multiple of log2(e), ln 2, sqrt 2 or pi is read as that constant (design,
"What values mean"), and so is one of log2(10), log10(2), ln 10 or log10(e): functions of base ten are computed with
them. Each such reading is recorded for the assumption ledger.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from enum import Enum

import gmpy2
import numpy as np
from gmpy2 import mpq


class Special(Enum):
    """What is not a finite number."""

    POS_INF = "inf"
    NEG_INF = "-inf"
    NAN = "nan"
    UNDEF = "undefined"


@dataclass(frozen=True, slots=True)
class Const:
    """``coef * log2e**log2e * sqrt2**sqrt2 * pi**pi * log2(10)**log2ten``; ``sqrt2`` is 0 or 1; ``special`` overrides all of it."""

    coef: mpq
    log2e: int = 0
    sqrt2: int = 0
    pi: int = 0
    special: Special | None = None
    log2ten: int = 0

    @property
    def is_rational(self) -> bool:
        return self.special is None and not (self.log2e or self.sqrt2 or self.pi or self.log2ten)

    def value(self, precision_bits: int = 53) -> "gmpy2.mpfr":
        """The value in MPFR at the given precision (specials become inf/nan)."""
        with gmpy2.context(precision=precision_bits):
            if self.special is Special.POS_INF:
                return gmpy2.inf(1)
            if self.special is Special.NEG_INF:
                return gmpy2.inf(-1)
            if self.special is not None:
                return gmpy2.nan()
            result = gmpy2.mpfr(self.coef)
            if self.log2e:
                result *= (1 / gmpy2.log(gmpy2.mpfr(2))) ** self.log2e
            if self.sqrt2:
                result *= gmpy2.sqrt(gmpy2.mpfr(2))
            if self.pi:
                result *= gmpy2.const_pi() ** self.pi
            if self.log2ten:
                result *= gmpy2.log2(gmpy2.mpfr(10)) ** self.log2ten
            return result

    def __str__(self) -> str:
        if self.special is not None:
            return self.special.value
        text = str(self.coef)
        for name, power in (("log2e", self.log2e), ("sqrt2", self.sqrt2), ("pi", self.pi), ("log2(10)", self.log2ten)):
            if power:
                text += f"*{name}" + (f"^{power}" if power != 1 else "")
        return text


def multiply(x: Const, y: Const) -> Const:
    """The product of two finite constants."""
    coef, root = x.coef * y.coef, x.sqrt2 + y.sqrt2
    if coef == 0:
        return Const(mpq(0))
    if root == 2:
        coef, root = coef * 2, 0
    return Const(coef, x.log2e + y.log2e, root, x.pi + y.pi, log2ten=x.log2ten + y.log2ten)


def reciprocal(x: Const) -> Const:
    """1/x of a finite non-zero constant."""
    coef, root = 1 / x.coef, 0
    if x.sqrt2:  # 1/sqrt2 = sqrt2/2
        coef, root = coef / 2, 1
    return Const(coef, -x.log2e, root, -x.pi, log2ten=-x.log2ten)


ZERO, ONE = Const(mpq(0)), Const(mpq(1))

_LOG2E, _LOG2TEN, _SQRT2, _PI = 1 / math.log(2), math.log2(10), math.sqrt(2), math.pi
#: what constants have beyond their f32 literals, which are read as all of them: CUDA's expf and exp10f multiply by both. Such a rest is
#: a zero of its own, of a sign: its product with a number vanishes, but that with an infinity is that infinity (expf of one), not
#: undefined. In what is no product it is the literal's own number (``number_of_rest``)
_RESTS = {
    name: (float(mpq(value) - mpq(float(np.float32(value)))), zero)
    for name, value, zero in (("log2(e)", _LOG2E, Const(mpq(0), log2e=1)), ("log2(10)", _LOG2TEN, Const(mpq(0), log2ten=1)))
}
#: name, value, constant of unit coefficient
_BASES: tuple[tuple[str, float, Const], ...] = (
    ("log2(e)", _LOG2E, Const(mpq(1), log2e=1)),
    ("ln(2)", 1 / _LOG2E, Const(mpq(1), log2e=-1)),
    ("sqrt(2)", _SQRT2, Const(mpq(1), sqrt2=1)),
    ("pi", _PI, Const(mpq(1), pi=1)),
    ("1/pi", 1 / _PI, Const(mpq(1), pi=-1)),
    ("log2(10)", _LOG2TEN, Const(mpq(1), log2ten=1)),
    ("log10(2)", 1 / _LOG2TEN, Const(mpq(1), log2ten=-1)),
    ("ln(10)", _LOG2TEN / _LOG2E, Const(mpq(1), log2e=-1, log2ten=1)),
    ("log10(e)", _LOG2E / _LOG2TEN, Const(mpq(1), log2e=1, log2ten=-1)),
)
#: The multiples that compilers and people write: log2(e)*2^k and small ratios, sqrt(2/pi) is left alone.
_MULTIPLES: tuple[mpq, ...] = tuple(
    sorted({mpq(n) * mpq(2) ** k for n in (1, 3) for k in range(-8, 3)} | {-mpq(n) * mpq(2) ** k for n in (1, 3) for k in range(-8, 3)})
)


def sign_of_rest(const: Const) -> int:
    """1 or -1 for the rest of a constant, a zero that has a sign; 0 for any other constant."""
    return (const.log2e or const.log2ten) if const.special is None and const.coef == 0 else 0


def negative_rest(const: Const) -> Const:
    """The rest with its sign changed."""
    return Const(mpq(0), -const.log2e, log2ten=-const.log2ten)


def number_of_rest(const: Const) -> mpq:
    """The literal that is read as a rest, for what is no product: a quotient or a comparison tells it from zero."""
    name = "log2(e)" if const.log2e else "log2(10)"
    return mpq(float(np.float32(_RESTS[name][0]))) * sign_of_rest(const)


def is_short(value: int) -> bool:
    """Whether an integer has few significant bits: nothing was rounded to get it."""
    mantissa = abs(int(value))
    return (mantissa // max(1, mantissa & -mantissa)).bit_length() <= 12


def recognise(value: float, ulp: float) -> tuple[Const, str] | None:
    """The symbolic constant that a literal stands for, and its name, or None; ``ulp`` is the literal's last place.

    A literal with few significant bits (0.75, 1.5) is a plain rational: no multiple of an irrational base is
    within an f32 ulp of such a number by intent.
    """
    if value == 0 or not math.isfinite(value):
        return None
    if is_short(value.as_integer_ratio()[0]):
        return None
    for name, base, const in _BASES:
        ratio = value / base
        for multiple in _MULTIPLES:
            if abs(ratio - float(multiple)) * base <= ulp:
                return multiply(const, Const(multiple)), (name if multiple == 1 else f"{multiple}*{name}")
    return None


def from_float(value: float, ulp: float) -> tuple[Const, str]:
    """A constant from a float datum, exactly, unless it is recognised; the string names the recognition ("" if none)."""
    if math.isnan(value):
        return Const(mpq(0), special=Special.NAN), ""
    if math.isinf(value):
        return Const(mpq(0), special=Special.POS_INF if value > 0 else Special.NEG_INF), ""
    known = recognise(value, ulp)
    if known is not None:
        return known
    for name, (rest, zero) in _RESTS.items():
        for sign in (1, -1):
            if abs(value - sign * rest) <= ulp:
                return (zero if value > 0 else negative_rest(zero)), f"0, the rest of {name} in f32"
    numerator, denominator = value.as_integer_ratio()
    return Const(mpq(numerator, denominator)), ""


#: format name -> (width in bits, mantissa bits without the hidden one)
FLOAT_FORMATS: dict[str, tuple[int, int]] = {
    "f16": (16, 10), "bf16": (16, 7), "f32": (32, 23), "tf32": (32, 23), "f64": (64, 52), "e4m3": (8, 3), "e5m2": (8, 2),
}  # fmt: skip


def float_from_bits(bits: int, fmt: str) -> float:
    """The value of a bit pattern in a float format of ``FLOAT_FORMATS`` (IEEE 754; e4m3 has no infinity)."""
    if fmt in ("f32", "tf32"):
        return float(struct.unpack("<f", struct.pack("<I", bits))[0])
    if fmt == "f64":
        return float(struct.unpack("<d", struct.pack("<Q", bits))[0])
    if fmt == "f16":
        return float(np.array(bits, np.uint16).view(np.float16))
    if fmt == "bf16":
        return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])
    if fmt == "e5m2":
        return float(np.array(bits << 8, np.uint16).view(np.float16))
    if fmt == "e4m3":
        sign, exponent, fraction = -1.0 if bits & 0x80 else 1.0, bits >> 3 & 15, bits & 7
        if exponent == 15 and fraction == 7:
            return math.nan
        return sign * (fraction / 8 * 2.0**-6 if exponent == 0 else (1 + fraction / 8) * 2.0 ** (exponent - 7))
    raise KeyError(fmt)


def ulp_of(value: float, fmt: str) -> float:
    """The f32 last place of a finite value: narrower formats do not widen what counts as a recognised constant."""
    if value == 0 or not math.isfinite(value):
        return 0.0
    exponent = math.frexp(value)[1] - 1
    return 2.0 ** (exponent - 23)
