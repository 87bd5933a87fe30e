"""Numbers into float formats: rounded to nearest even as an array's elements are when somebody writes them, and as the bits that stand
there. The one place for it: scalars and contents of a launch, initialisers, arguments of an emulation. Reading bits: ``constants``.

A finite number that would round to an infinity is an error, never an infinity: whoever means that can say so.
"""

from __future__ import annotations

import numpy as np

#: format -> significand bits with the hidden one, exponent of the least normal number, largest finite number. tf32 is an f32 of which
#: the unit reads 11 bits
_SHAPES: dict[str, tuple[int, int, float]] = {
    "f64": (53, -1022, 1.7976931348623157e308), "f32": (24, -126, 3.4028234663852886e38), "tf32": (11, -126, 3.4011621342146535e38),
    "f16": (11, -14, 65504.0), "bf16": (8, -126, 3.3895313892515355e38), "e4m3": (4, -6, 448.0), "e5m2": (3, -14, 57344.0),
}  # fmt: skip
#: formats that NumPy rounds to, from float64 in one step
_NATIVE = {"f16": np.float16, "f32": np.float32}


def largest(fmt: str) -> float:
    """The largest finite number of a format."""
    return _SHAPES[fmt][2]


def round_to_format(values: np.ndarray, fmt: str) -> np.ndarray:
    """float64 numbers rounded to a format, subnormal ones too; infinities and NaNs stay (e4m3 has no infinity).

    Raises OverflowError with the reason where a finite number is beyond the largest.
    """
    if fmt == "f64":
        return values
    if fmt in _NATIVE:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            rounded = values.astype(_NATIVE[fmt]).astype(np.float64)
        beyond = np.isinf(rounded) & np.isfinite(values)
    else:
        rounded = _rounded(values, fmt)
        beyond = (np.abs(rounded) > largest(fmt)) & np.isfinite(values)
    if beyond.any():
        raise OverflowError(f"a value is beyond the largest {fmt}, {largest(fmt)!r}")
    if fmt == "e4m3" and np.isinf(values).any():
        raise OverflowError("e4m3 has no infinity")
    return rounded


def _rounded(values: np.ndarray, fmt: str) -> np.ndarray:
    bits, least, _ = _SHAPES[fmt]
    finite = np.isfinite(values)
    known = np.where(finite, values, 0.0)
    place = np.maximum(np.frexp(known)[1] - bits, least - bits + 1)  # the last place of each; scaling by powers of two is exact
    return np.where(finite, np.ldexp(np.rint(np.ldexp(known, -place)), place), values)


def float_bits(values: np.ndarray, fmt: str) -> np.ndarray:
    """The bit patterns of float64 numbers in a format, unsigned. Raises OverflowError as ``round_to_format``."""
    rounded = round_to_format(values, fmt)
    if fmt == "f64":
        return rounded.view(np.uint64)
    if fmt in ("f16", "e5m2"):
        half = rounded.astype(np.float16).view(np.uint16)
        return half if fmt == "f16" else (half >> np.uint16(8)).astype(np.uint8)
    if fmt == "e4m3":
        return _e4m3_bits(rounded)
    single = rounded.astype(np.float32).view(np.uint32)
    return (single >> np.uint32(16)).astype(np.uint16) if fmt == "bf16" else single


def number_bits(value: "int | float", fmt: str) -> int:
    """The bit pattern of one number in a format. Raises OverflowError where it is beyond the largest."""
    return int(float_bits(np.array([_double(value, fmt)]), fmt)[0])


def rounded_number(value: "int | float", fmt: str) -> float:
    """The number that a format has for another. Raises OverflowError where it is beyond the largest."""
    return float(round_to_format(np.array([_double(value, fmt)]), fmt)[0])


def _double(value: "int | float", fmt: str) -> float:
    """An integer may be beyond f64, too."""
    try:
        return float(value)
    except OverflowError:
        raise OverflowError(f"a value is beyond the largest {fmt}, {largest(fmt)!r}") from None


def _e4m3_bits(rounded: np.ndarray) -> np.ndarray:
    """Sign, four bits of exponent (bias 7), three of fraction; all ones is NaN (OCP 8-bit floating point specification)."""
    known = np.where(np.isnan(rounded), 0.0, np.abs(rounded))
    exponent = np.maximum(np.frexp(known)[1] - 1, -6)
    steps = np.ldexp(known, 3 - exponent).astype(np.int64)  # 8 to 15; fewer where subnormal
    code = np.where(steps < 8, steps, ((exponent + 7) << 3) + steps - 8)
    return np.where(np.isnan(rounded), 0x7F, code | np.signbit(rounded).astype(np.int64) << 7).astype(np.uint8)
