"""What each form of ``form_table`` computes, on bits, written from the ISA's text: Python ints, exact rationals, MPFR, ``ml_dtypes``.

A model takes a form and the operands' bits and returns the destinations' bits; None where the ISA leaves the result open, a ``Close``
where it states an error bound. Nothing here uses the engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import gmpy2
import ml_dtypes
import numpy as np
from float_model import FORMATS, Format, calculate
from form_table import WIDTHS, Legal
from integer_model import FORMS as INTEGER_FORMS
from integer_model import Model, signed

INTEGER_MODELS: dict[str, Model] = {form.text.split(";")[-2].split()[0]: form.model for form in INTEGER_FORMS}
E4M3, E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)


@dataclass(frozen=True)
class Close:
    """A result in a float format within an error: relative, or absolute for small results."""

    value: float
    fmt: Format
    relative: float
    absolute: float = 0.0

    def holds(self, bits: int) -> bool:
        found = self.fmt.value(bits)
        if math.isnan(self.value) or math.isinf(self.value):
            return math.isnan(found) if math.isnan(self.value) else found == self.value
        return abs(found - self.value) <= max(abs(self.value) * self.relative, self.absolute)


Result = "int | Close | None"


def format_of(kind: str) -> Format:
    return FORMATS[kind.removesuffix("x2")]


def parts(bits: int, kind: str) -> list[int]:
    """The elements of a packed operand, low first."""
    if not kind.endswith("x2"):
        return [bits]
    width = WIDTHS[kind] // 2
    return [bits & ((1 << width) - 1), bits >> width]


def joined(values: Sequence[int], width: int) -> int:
    return sum(v << width * i for i, v in enumerate(values))


# --- finishing ------------------------------------------------------------------------------------


def is_nan(bits: int, fmt: Format) -> bool:
    return math.isnan(fmt.value(bits))


def sign_of(bits: int, fmt: Format) -> int:
    return bits >> fmt.uint().itemsize * 8 - 1


def top(fmt: Format) -> int:
    return 1 << fmt.uint().itemsize * 8 - 1


def flushed(bits: int, fmt: Format) -> int:
    """A subnormal number as the zero of its sign."""
    size = bits & ~top(fmt)
    return bits & top(fmt) if 0 < size < 1 << fmt.precision - 1 else bits


def finished(bits: int, fmt: Format, mods: Sequence[str]) -> int:
    """.ftz, .sat and .relu on a result."""
    if "ftz" in mods and fmt.name in ("f16", "f32"):
        bits = flushed(bits, fmt)
    if "sat" in mods:
        one = fmt.bits(gmpy2.mpfr(1))
        value = fmt.value(bits)
        return 0 if math.isnan(value) or value <= 0 else one if value >= 1 else bits
    if "relu" in mods:
        return fmt.nan if is_nan(bits, fmt) else 0 if sign_of(bits, fmt) else bits
    return bits


def inputs(operands: Sequence[int], fmt: Format, mods: Sequence[str]) -> list[int]:
    return [flushed(x, fmt) for x in operands] if "ftz" in mods else list(operands)


# --- float arithmetic -----------------------------------------------------------------------------

_ROUNDED = {"add": "add", "sub": "sub", "mul": "mul", "fma": "fma", "mad": "fma", "div": "div", "rcp": "rcp", "sqrt": "sqrt"}
#: function, relative error, absolute error; f16 and bf16 forms are only as good as their formats
_APPROXIMATE: dict[str, tuple[Callable[..., float], float, float]] = {
    "div": (lambda x, y: x / y, 2.0**-22, 0), "rcp": (lambda x: 1 / x, 2.0**-22, 0), "sqrt": (math.sqrt, 2.0**-22, 0),
    "rsqrt": (lambda x: 1 / math.sqrt(x), 2.0**-22, 0), "sin": (math.sin, 0, 2.0**-20.5), "cos": (math.cos, 0, 2.0**-20.5),
    "lg2": (math.log2, 2.0**-22, 2.0**-22), "ex2": (lambda x: 2.0**x, 2.0**-21, 0), "tanh": (math.tanh, 2.0**-10.9, 0),
}  # fmt: skip
#: operands for which the error bound is stated as a number
_PLAIN = {"sin": math.pi, "cos": math.pi, "ex2": 14, "div": 2.0**60, "rcp": 2.0**60, "tanh": 8}


def _approximate(name: str, operands: Sequence[int], fmt: Format) -> "Close | None":
    function, relative, absolute = _APPROXIMATE[name]
    values = [fmt.value(x) for x in operands]
    if any(not math.isfinite(v) or v == 0 or abs(v) < 2.0**-60 or abs(v) > _PLAIN.get(name, 2.0**100) for v in values):
        return None  # special values are rows of tables elsewhere
    if name in ("sqrt", "rsqrt", "lg2") and values[0] < 0:
        return None
    coarse = {"f16": 2.0**-9.9, "bf16": 2.0**-7}.get(fmt.name, 0.0)
    if fmt.name == "f64":
        relative = 2.0**-19  # only the upper 32 bits of the result are computed
    least = 2.0**-24 if fmt.name == "f16" else 0.0
    return Close(function(*values), fmt, max(relative, coarse), max(absolute, least))


def _less(x: int, y: int, fmt: Format) -> bool:
    """x < y, with -0 below +0."""
    a, b = fmt.value(x), fmt.value(y)
    return a < b or (a == b and sign_of(x, fmt) > sign_of(y, fmt))


def _extreme(name: str, x: int, y: int, fmt: Format, propagate: bool) -> int:
    if is_nan(x, fmt) or is_nan(y, fmt):
        return fmt.nan if propagate or (is_nan(x, fmt) and is_nan(y, fmt)) else y if is_nan(x, fmt) else x
    return x if _less(x, y, fmt) == (name == "min") else y


def _float_element(form: Legal, operands: Sequence[int], fmt: Format) -> "int | Close | None":
    name, mods = form.opcode, form.modifiers
    x = inputs(operands, fmt, mods)
    if name in ("abs", "neg"):
        return x[0] & ~top(fmt) if name == "abs" else x[0] ^ top(fmt)
    if name == "copysign":
        return x[1] & ~top(fmt) | x[0] & top(fmt)
    if name in ("min", "max"):
        sign = (sign_of(x[0], fmt) ^ sign_of(x[1], fmt)) * top(fmt) if "xorsign" in mods else None
        if "abs" in mods:
            x = [v & ~top(fmt) for v in x]
        result = x[0]
        for y in x[1:]:
            result = _extreme(name, result, y, fmt, "NaN" in mods)
        return result if sign is None or is_nan(result, fmt) else result & ~top(fmt) | sign
    if "approx" in mods or "full" in mods:
        return _approximate(name, x, fmt)
    rnd = next((m for m in mods if m in ("rn", "rz", "rm", "rp")), "rn")
    return finished(calculate(fmt, _ROUNDED[name], rnd, *x), fmt, mods)


def float_result(form: Legal, operands: Sequence[int]) -> "list[int | Close | None]":
    """Of each element of the result, low first."""
    kind = form.types[-1]
    if form.opcode == "testp":
        return [int(_PROPERTIES[form.modifiers[0]](operands[0], format_of(kind)))]
    rows = zip(*(parts(x, kind) for x in operands))
    return [_float_element(form, row, format_of(kind)) for row in rows]


_PROPERTIES: dict[str, Callable[[int, Format], bool]] = {
    "finite": lambda x, f: math.isfinite(f.value(x)), "infinite": lambda x, f: math.isinf(f.value(x)), "number": lambda x, f: not is_nan(x, f),
    "notanumber": is_nan, "normal": lambda x, f: math.isfinite(f.value(x)) and not 0 < abs(f.value(x)) < 2.0 ** (f.emin + f.precision - 2),
    "subnormal": lambda x, f: 0 < abs(f.value(x)) < 2.0 ** (f.emin + f.precision - 2),
}  # fmt: skip


# --- conversions ----------------------------------------------------------------------------------


def _integer_range(kind: str) -> tuple[int, int]:
    bits = WIDTHS[kind] if kind not in ("u4", "s4", "u2", "s2") else int(kind[1:])
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


def _number(bits: int, kind: str) -> int:
    return signed(bits, WIDTHS[kind]) if kind[0] == "s" else bits & ((1 << WIDTHS[kind]) - 1)


_INTEGRAL: dict[str, Callable[[float], int]] = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


def rounded(value: "gmpy2.mpfr", fmt: Format, rnd: str, satfinite: bool = False) -> int:
    """An exact number in a format; NaN and infinities as they are."""
    with gmpy2.context(fmt.context(rnd)):
        result = +value
    bits = fmt.bits(result)
    if satfinite and math.isinf(fmt.value(bits)):
        return bits - 1
    return bits


TF32 = Format("tf32", np.uint32, np.dtype(np.float32), 11, 128, -135, 0x7FFFFFFF)


def _tf32(value: float, bits: int, mods: Sequence[str]) -> "int | None":
    if math.isnan(value):
        return None if "relu" not in mods else 0x7FFFFFFF
    if "rna" in mods and math.isfinite(value):
        size = (bits & 0x7FFFFFFF) + 0x1000 & ~0x1FFF  # ties away: a half of the last place is added and the rest cut off
        result = bits & 0x80000000 | size
    else:
        result = rounded(gmpy2.mpfr(value, 53), TF32, "rz" if "rz" in mods else "rn")
    if "satfinite" in mods and math.isinf(FORMATS["f32"].value(result)):
        result = result & 0x80000000 | 0x7F7FE000
    return 0 if "relu" in mods and result >> 31 else result


def _fp8(value: float, kind: str, mods: Sequence[str]) -> int:
    dtype = E4M3 if kind.startswith("e4m3") else E5M2
    if math.isnan(value):
        return 0x7F
    if "relu" in mods and (value < 0 or math.copysign(1, value) < 0):
        return 0
    limit = float(ml_dtypes.finfo(dtype).max)
    return int(np.array(np.clip(value, -limit, limit), np.float64).astype(np.float32).astype(dtype).view(np.uint8))


def _stochastic(value: float, random: int, bits: int, fmt: "Format | str", mods: Sequence[str]) -> "int | None":
    """The magnitude in units of the last place, plus the random fraction, cut off. Numbers only: what else the ISA has no text for."""
    precision, least = {"e4m3": (4, -6), "e5m2": (3, -14)}[fmt] if isinstance(fmt, str) else (fmt.precision, fmt.emin + fmt.precision - 2)
    if not math.isfinite(value) or value == 0:
        return None
    exponent = max(math.frexp(value)[1] - 1, least)
    unit = gmpy2.mpq(2) ** (exponent - precision + 1)
    size = (gmpy2.mpq(abs(value)) / unit + gmpy2.mpq(random, 1 << bits)).__floor__() * unit
    result = gmpy2.copy_sign(gmpy2.mpfr(size, 60), gmpy2.mpfr(value))
    if isinstance(fmt, str):
        return _fp8(float(result), fmt, mods)
    return finished(rounded(result, fmt, "rn", "satfinite" in mods), fmt, mods)


def convert_one(bits: int, source: str, target: str, mods: Sequence[str]) -> "int | None":
    """One element; integers in the width of their type."""
    rnd = next((m for m in mods if m in ("rn", "rz", "rm", "rp")), "rn")
    irnd = next((m for m in mods if m in _INTEGRAL), "")
    if source[0] in "us":
        number = _number(bits, source)
        if target[0] in "us":
            low, high = _integer_range(target)
            return min(max(number, low), high) if "sat" in mods else _number(number, target)
        return finished(rounded(gmpy2.mpfr(number, 65), FORMATS[target], rnd), FORMATS[target], mods)
    if source.startswith("e"):
        value = float(np.array(bits, np.uint8).view(E4M3 if source.startswith("e4m3") else E5M2).astype(np.float32))
    else:
        fmt = FORMATS[source]
        if "ftz" in mods and source == "f32":
            bits = flushed(bits, fmt)
        value = fmt.value(bits)
    if target[0] in "us":
        low, high = _integer_range(target)
        if math.isnan(value):
            top_bit = 1 << WIDTHS[target] - 1
            return 0 if source != "f64" and target not in ("s64", "u64") else -top_bit if target[0] == "s" else top_bit
        return high if value == math.inf else low if value == -math.inf else min(max(_INTEGRAL[irnd](value), low), high)
    if target == "tf32":
        return _tf32(value, bits, mods)
    if target.startswith("e"):
        return _fp8(value, target, mods)
    fmt = FORMATS[target]
    if irnd and math.isfinite(value):
        value = math.copysign(float(_INTEGRAL[irnd](value)), value)
    result = rounded(gmpy2.mpfr(value, 53), fmt, rnd, "satfinite" in mods and math.isfinite(value))
    if math.isinf(value) and "satfinite" in mods:
        result = rounded(gmpy2.mpfr(value, 53), fmt, rnd, True)
    return finished(flushed(result, fmt) if "ftz" in mods and target == "f32" else result, fmt, [m for m in mods if m != "ftz"])


def convert_result(form: Legal, operands: Sequence[int]) -> "list[int | Close | None]":
    mods, types = form.modifiers, form.types
    if "pack" in mods:
        low, high = _integer_range(types[0])
        width = int(types[0][1:])
        a, b = (min(max(signed(x, 32), low), high) & ((1 << width) - 1) for x in operands[:2])
        return [b | a << width | (operands[2] << 2 * width if len(operands) > 2 else 0)]
    target, source = types[0], types[-1]
    if "rs" in mods:
        fmt = target[:4] if target.startswith("e") else format_of(target)
        bits = {"f16x2": 13}.get(target, 16)
        random = [operands[-1] & ((1 << bits) - 1), operands[-1] >> 16 & ((1 << bits) - 1)]
        values = [FORMATS["f32"].value(x) for x in reversed(operands[:-1])]
        return [_stochastic(v, random[i * 2 // len(values)], bits, fmt, mods) for i, v in enumerate(values)]
    if target.endswith("x2") and source == "f32":
        return [convert_one(x, source, target.removesuffix("x2"), mods) for x in reversed(operands)]
    if source.endswith("x2"):
        return [convert_one(x, source.removesuffix("x2"), target.removesuffix("x2"), mods) for x in parts(operands[0], source)]
    return [convert_one(operands[0], source, target, mods)]


# --- comparisons ----------------------------------------------------------------------------------

_ORDER: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y, "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y, "lo": lambda x, y: x < y, "ls": lambda x, y: x <= y, "hi": lambda x, y: x > y, "hs": lambda x, y: x >= y,
}  # fmt: skip
_BOOL: dict[str, Callable[[int, int], int]] = {"and": lambda p, q: p & q, "or": lambda p, q: p | q, "xor": lambda p, q: p ^ q}


def compares(operator: str, x: int, y: int, kind: str, ftz: bool) -> int:
    """Whether a comparison holds."""
    if kind[0] in "usb" and not kind.startswith("bf"):
        return int(_ORDER[operator](_number(x, kind), _number(y, kind)))
    fmt = FORMATS[kind]
    a, b = (fmt.value(flushed(v, fmt) if ftz else v) for v in (x, y))
    unordered = math.isnan(a) or math.isnan(b)
    if operator in ("num", "nan"):
        return int(unordered == (operator == "nan"))
    if len(operator) == 3:
        return int(unordered or _ORDER[operator[:2]](a, b))
    return int(not unordered and _ORDER[operator](a, b))


def select_result(form: Legal, operands: Sequence[int]) -> "list[int | Close | None]":
    mods, types = form.modifiers, form.types
    if form.opcode == "selp":
        return [operands[0] if operands[2] else operands[1]]
    if form.opcode == "slct":
        c = operands[2]
        nonnegative = signed(c, 32) >= 0 if types[-1] == "s32" else compares("ge", c, 0, "f32", "ftz" in mods)
        return [operands[0] if nonnegative else operands[1]]
    kind = types[-1].removesuffix("x2")
    pairs = zip(parts(operands[0], types[-1]), parts(operands[1], types[-1]))
    holds = [compares(mods[0], x, y, kind, "ftz" in mods) for x, y in pairs]
    combine = next((_BOOL[m] for m in mods[1:] if m in _BOOL), None)
    if combine is not None:
        holds = [combine(h, operands[2]) for h in holds]
    if form.opcode == "setp":
        return list(holds)
    out = types[0]
    if types[-1].endswith("x2") and not out.endswith("x2"):
        return [joined([0xFFFF * h for h in holds], 16)]
    true = FORMATS[out.removesuffix("x2")].bits(gmpy2.mpfr(1)) if out.removesuffix("x2") in FORMATS else (1 << WIDTHS[out]) - 1
    return [true * h for h in holds]
