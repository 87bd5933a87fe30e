"""Concrete contents of tensors: "arange", "random:SEED:LOW:HIGH" and lists, as values that the element type can hold.

Floats are rounded to the format's significand (round to nearest even), so that what is written in a spec is what a
kernel could really load. Integers out of range are an error, never wrapped.
"""

from __future__ import annotations

import numpy as np

from ptx_engine.launch import DTYPES, SYMBOLIC

#: significand bits with the hidden one, and the largest finite magnitude
_FLOATS: dict[str, tuple[int, float]] = {
    "f64": (53, 1.7976931348623157e308), "f32": (24, 3.4028234663852886e38), "tf32": (11, 3.4011621342146535e38),
    "f16": (11, 65504.0), "bf16": (8, 3.3895313892515355e38), "e4m3": (4, 448.0), "e5m2": (3, 57344.0),
}  # fmt: skip


def integer_range(dtype: str) -> tuple[int, int]:
    """Least and largest value of an integer format."""
    if dtype == "pred":
        return 0, 1
    bits = 8 * DTYPES[dtype][0]
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype[0] == "s" else (0, (1 << bits) - 1)


def build_contents(value: "str | list[int | float]", dtype: str, storage: int) -> "str | np.ndarray":
    """SYMBOLIC, or an array of ``storage`` elements. Raises ValueError with the reason."""
    if value == SYMBOLIC:
        return SYMBOLIC
    if value == "arange":
        return _as_dtype(range(storage), dtype)
    if isinstance(value, str):
        return _random(value, dtype, storage)
    if len(value) != storage:
        raise ValueError(f"{len(value)} values for a tensor of {storage} elements")
    return _as_dtype(value, dtype)


def _random(text: str, dtype: str, storage: int) -> np.ndarray:
    _, seed, low_text, high_text = text.split(":")
    rng = np.random.default_rng(int(seed))
    if DTYPES[dtype][1]:
        low, high = float(low_text), float(high_text)
        if not low < high:
            raise ValueError(f"random needs LOW < HIGH, not {low_text} and {high_text}")
        return _as_dtype([float(x) for x in rng.uniform(low, high, storage)], dtype)
    if "." in low_text + high_text:
        raise ValueError(f"random contents of {dtype} need integer bounds, not {low_text} and {high_text}")
    low_int, high_int = int(low_text), int(high_text)
    if not low_int < high_int:
        raise ValueError(f"random needs LOW < HIGH (HIGH is exclusive), not {low_text} and {high_text}")
    least, largest = integer_range(dtype)
    if low_int < least or high_int - 1 > largest:
        raise ValueError(f"{low_text}..{high_text} is outside {dtype} ({least}..{largest})")
    kind = np.uint64 if low_int >= 0 else np.int64
    return _as_dtype(rng.integers(low_int, high_int, storage, dtype=kind).tolist(), dtype)


def _as_dtype(values: "range | list[int | float]", dtype: str) -> np.ndarray:
    if DTYPES[dtype][1]:
        return round_to_format(np.array(list(values), np.float64), dtype)
    least, largest = integer_range(dtype)
    for i, value in enumerate(values):
        if isinstance(value, float) or not least <= value <= largest:
            raise ValueError(f"element {i}, {value}, is no {dtype} ({least}..{largest})")
    signed = least < 0
    return np.array(list(values), np.int64 if signed else np.uint64)


def round_to_format(values: np.ndarray, dtype: str) -> np.ndarray:
    """float64 values rounded to a float format's precision; ValueError where one is out of range."""
    bits, largest = _FLOATS[dtype]
    significand, exponent = np.frexp(values)
    rounded = np.ldexp(np.rint(np.ldexp(significand, bits)), exponent - bits)
    rounded = np.where(np.isfinite(values), rounded, values)
    if np.any(np.isfinite(rounded) & (np.abs(rounded) > largest)):
        raise ValueError(f"a value is beyond the largest {dtype}, {largest:g}")
    return rounded
