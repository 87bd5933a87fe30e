"""Ids of concrete data of a launch: fixed tensor contents and scalar arguments, rounded to their dtype."""

from __future__ import annotations

import numpy as np

from ptx_engine.errors import LaunchError
from ptx_engine.launch import TensorArg
from ptx_engine.terms.arena import Arena
from ptx_engine.terms.constants import FLOAT_FORMATS, from_float, ulp_of

_NATIVE = {"f16": (np.float16, np.uint16), "f32": (np.float32, np.uint32), "tf32": (np.float32, np.uint32), "f64": (np.float64, np.uint64)}


def float_ids(values: np.ndarray, fmt: str, arena: Arena) -> np.ndarray:
    """Constants of floats after rounding to a format (to nearest even)."""
    if fmt in _NATIVE:
        number, word = _NATIVE[fmt]
        return arena.float_bits_column(np.ascontiguousarray(values.astype(number)).view(word), fmt)
    if fmt == "bf16":
        word32 = np.ascontiguousarray(values.astype(np.float32)).view(np.uint32).astype(np.uint64)
        rounded = np.where(np.isnan(values), word32, word32 + np.uint64(0x7FFF) + (word32 >> np.uint64(16) & np.uint64(1)))
        return arena.float_bits_column(rounded >> np.uint64(16), fmt)
    assert fmt in FLOAT_FORMATS
    return np.array([arena.const(from_float(float(v), ulp_of(float(v), fmt))[0]) for v in values.ravel()], np.int32).reshape(values.shape)


def content_ids(arg: TensorArg, arena: Arena) -> np.ndarray:
    """Ids of a tensor's fixed contents, one per storage element. Raises LaunchError if their number does not fit."""
    values = np.asarray(arg.contents).reshape(-1)
    if len(values) != arg.storage:
        raise LaunchError(f"argument {arg.name}: {len(values)} contents for {arg.storage} elements")
    return float_ids(values, arg.dtype, arena) if arg.is_float else arena.integers(values)
