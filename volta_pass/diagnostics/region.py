"""Which elements of a tensor fail, in words and as a small map: storage indices of any layout, as the engine's regions."""

from __future__ import annotations

import math

import numpy as np

from ptx_engine.decide.regions import ascii_map, describe
from ptx_engine.launch import TensorArg


def flat_indices(tensor: TensorArg, storage: np.ndarray) -> np.ndarray:
    """Row-major indices of storage indices; those that are no element of a strided view are left out."""
    strides = tensor.element_strides()
    rest = np.asarray(storage, np.int64).copy()
    flat = np.zeros(len(rest), np.int64)
    steps = _row_major(tensor.shape)
    for d in sorted(range(len(tensor.shape)), key=lambda axis: -strides[axis]):
        if strides[d] and tensor.shape[d] > 1:
            index = np.minimum(rest // strides[d], tensor.shape[d] - 1)
            rest -= index * strides[d]
            flat += index * steps[d]
    whole: np.ndarray = flat[rest == 0]
    return whole


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


def describe_region(tensor: TensorArg, storage: np.ndarray) -> str:
    """A phrase such as "column 63 of every row" or "rows >= 100"."""
    flat = flat_indices(tensor, storage)
    if not len(flat) and len(storage):
        return f"{len(storage)} storage elements outside the view"
    return describe(flat, tensor.shape)


def draw_map(tensor: TensorArg, storage: np.ndarray) -> list[str]:
    """Lines of a map, "." right, "+" some, "x" most, "#" all elements of a cell fail; none where all fail: words say it."""
    flat = flat_indices(tensor, storage)
    total = math.prod(tensor.shape)
    if total <= 1 or len(flat) in (0, total):
        return []
    return ascii_map(flat, tensor.shape).splitlines()
