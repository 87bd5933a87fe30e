"""Contents of integer tensors as a launch has them in memory: elements where their strides put them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from a tensor's first to its last; ``strides`` in elements."""
    return 1 + sum((int(extent) - 1) * int(step) for extent, step in zip(shape, strides)) if 0 not in shape else 0


def in_storage_order(parts: Sequence[tuple[np.ndarray, Sequence[int], int]], storage: int) -> np.ndarray:
    """``storage`` elements of memory from tensors that lie in it (values, strides in elements, first element); gaps hold zeros."""
    dtype = parts[0][0].dtype
    out = np.zeros(storage, dtype if dtype != np.bool_ else np.uint8)
    for values, strides, start in parts:
        places = np.full(values.shape, start, np.int64)
        for axis, (extent, step) in enumerate(zip(values.shape, strides)):
            places += (np.arange(extent, dtype=np.int64) * step).reshape([-1 if d == axis else 1 for d in range(values.ndim)])
        out[places.reshape(-1)] = values.reshape(-1)
    return out


def is_on_host(tensor: Any) -> bool:
    """Whether a tensor can be read without waiting for a device."""
    return getattr(getattr(tensor, "device", None), "type", "cpu") == "cpu"
