"""Concrete contents of tensors: "arange", "random:SEED:LOW:HIGH" and lists, as values that the element type can hold.

Floats are rounded to the format (round to nearest even), so that what is written in a spec is what a kernel could really load. Integers
out of range are an error, never wrapped.
"""

from __future__ import annotations

import numpy as np

from ptx_engine.launch import DTYPES, SYMBOLIC, integer_range, shown_number
from ptx_engine.terms.float_formats import round_to_format

#: contents take memory, unlike symbolic elements: so many are a quarter of a GiB
MOST_ELEMENTS = 1 << 25


def build_contents(value: "str | list[int | float]", dtype: str, storage: int) -> "str | np.ndarray":
    """SYMBOLIC, or an array of ``storage`` elements. Raises ValueError with the reason."""
    if value == SYMBOLIC:
        return SYMBOLIC
    if not isinstance(value, str):
        if len(value) != storage:
            raise ValueError(f"{len(value)} values for a tensor of {storage} elements")
        return _listed(value, dtype)
    if storage > MOST_ELEMENTS:
        raise ValueError(f"{storage} elements, which is more than {MOST_ELEMENTS}: leave them symbolic, or give smaller extents")
    return _arange(dtype, storage) if value == "arange" else _random(value, dtype, storage)


def _arange(dtype: str, storage: int) -> np.ndarray:
    if DTYPES[dtype][1]:
        return _rounded(np.arange(storage, dtype=np.float64), dtype)
    least, largest = integer_range(dtype)
    if storage - 1 > largest:
        raise ValueError(f"element {largest + 1}, {largest + 1}, is no {dtype} ({least}..{largest})")
    return np.arange(storage, dtype=_wide(dtype))


def _random(text: str, dtype: str, storage: int) -> np.ndarray:
    _, seed, low_text, high_text = text.split(":")
    rng = np.random.default_rng(int(seed))
    if DTYPES[dtype][1]:
        low, high = float(low_text), float(high_text)
        if not low < high:
            raise ValueError(f"random needs LOW < HIGH, not {low_text} and {high_text}")
        if not np.isfinite(high - low):
            raise ValueError("random needs LOW and HIGH whose difference is a number of 64 bits")
        return _rounded(rng.uniform(low, high, storage), dtype)
    if "." in low_text + high_text:
        raise ValueError(f"random contents of {dtype} need integer bounds, not {low_text} and {high_text}")
    low_int, high_int = int(low_text), int(high_text)
    if not low_int < high_int:
        raise ValueError(f"random needs LOW < HIGH (HIGH is exclusive), not {low_text} and {high_text}")
    least, largest = integer_range(dtype)
    if low_int < least or high_int - 1 > largest:
        raise ValueError(f"{low_text}..{high_text} is outside {dtype} ({least}..{largest})")
    kind = np.uint64 if low_int >= 0 else np.int64
    return rng.integers(low_int, high_int, storage, dtype=kind).astype(_wide(dtype))


def _listed(values: "list[int | float]", dtype: str) -> np.ndarray:
    if DTYPES[dtype][1]:
        return _rounded(np.array(values, np.float64), dtype)
    least, largest = integer_range(dtype)
    for i, value in enumerate(values):
        if isinstance(value, float) or not least <= value <= largest:
            raise ValueError(f"element {i}, {shown_number(value)}, is no {dtype} ({least}..{largest})")
    return np.array(values, _wide(dtype))


def _wide(dtype: str) -> type[np.generic]:
    """Integers of every width are kept as the widest ones."""
    return np.int64 if integer_range(dtype)[0] < 0 else np.uint64


def _rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    try:
        return round_to_format(values, dtype)
    except OverflowError as error:
        raise ValueError(str(error)) from None
