"""Which elements of a tensor fail, in words and as a small map."""

from __future__ import annotations

import math

import numpy as np

from ptx_engine.launch import TensorArg

_MAP_WIDTH = 64
_MAP_HEIGHT = 16
_AXIS_NAMES = {1: ("elements",), 2: ("rows", "columns")}


def logical_indices(tensor: TensorArg, storage: np.ndarray) -> np.ndarray:
    """(n, rank) multi-indices of storage indices; rows that are no element of a strided view are left out."""
    strides = tensor.element_strides()
    rest = np.asarray(storage, np.int64).copy()
    found = np.zeros((len(rest), len(tensor.shape)), np.int64)
    for d in sorted(range(len(tensor.shape)), key=lambda axis: -strides[axis]):
        if strides[d] and tensor.shape[d] > 1:
            found[:, d] = np.minimum(rest // strides[d], tensor.shape[d] - 1)
            rest -= found[:, d] * strides[d]
    whole: np.ndarray = found[rest == 0]
    return whole


def describe_region(tensor: TensorArg, storage: np.ndarray) -> str:
    """A summary such as "64 of 4096 elements: column 63", "1024 of 4096 elements: rows 48..63, columns 0..63"."""
    index = logical_indices(tensor, storage)
    total = math.prod(tensor.shape)
    if len(index) == 0:
        return f"{len(storage)} storage elements outside the view"
    if len(index) == total:
        return f"all {total} elements" if total != 1 else "the only element"
    axes = [np.unique(index[:, d]) for d in range(index.shape[1])]
    count = f"{len(index)} of {total} elements"
    if math.prod(len(values) for values in axes) != len(index):
        box = ", ".join(f"{int(values[0])}..{int(values[-1])}" for values in axes)
        return f"{count}, scattered within [{box}]"
    names = _AXIS_NAMES.get(len(axes)) or tuple(f"axis {d}" for d in range(len(axes)))
    parts = [
        f"{_number_name(name, len(values))} {describe_values(values)}"
        for name, values, extent in zip(names, axes, tensor.shape)
        if len(values) < extent
    ]
    return f"{count}: " + ", ".join(parts)


def _number_name(name: str, count: int) -> str:
    return name[:-1] if count == 1 and name.endswith("s") and not name.startswith("axis") else name


def describe_values(values: np.ndarray) -> str:
    """Sorted integers as "3", "3..9", "0, 4, ..., 60 (every 4th)" or a list."""
    if len(values) == 1:
        return str(int(values[0]))
    steps = np.diff(values)
    if np.all(steps == 1):
        return f"{int(values[0])}..{int(values[-1])}"
    if len(values) > 3 and np.all(steps == steps[0]):
        return f"{int(values[0])}, {int(values[1])}, ..., {int(values[-1])} (every {_ordinal(int(steps[0]))})"
    runs = np.split(values, np.flatnonzero(steps != 1) + 1)
    texts = [str(int(r[0])) if len(r) == 1 else f"{int(r[0])}..{int(r[-1])}" for r in runs[:6]]
    return ", ".join(texts) + (f", ... ({len(runs)} runs)" if len(runs) > 6 else "")


def _ordinal(n: int) -> str:
    if n % 100 in (11, 12, 13):
        return f"{n}th"
    return f"{n}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th') }"


def draw_map(tensor: TensorArg, storage: np.ndarray) -> list[str]:
    """Rows of a map of at most 64 by 16 cells ("." right, "+" some of the cell's elements fail, "#" all fail).

    Leading axes are folded into rows. Empty for a tensor of one element, and where everything fails: words say it.
    """
    index = logical_indices(tensor, storage)
    total = math.prod(tensor.shape)
    if total <= 1 or len(index) in (0, total):
        return []
    columns = tensor.shape[-1]
    rows = total // columns
    flat_row = np.zeros(len(index), np.int64)
    for d in range(len(tensor.shape) - 1):
        flat_row = flat_row * tensor.shape[d] + index[:, d]
    height, width = min(rows, _MAP_HEIGHT), min(columns, _MAP_WIDTH)
    row_of, col_of = _cell(flat_row, rows, height), _cell(index[:, -1], columns, width)
    failing = np.zeros((height, width), np.int64)
    np.add.at(failing, (row_of, col_of), 1)
    per_row = np.bincount(_cell(np.arange(rows), rows, height), minlength=height)
    per_col = np.bincount(_cell(np.arange(columns), columns, width), minlength=width)
    full = np.outer(per_row, per_col)
    marks = np.where(failing == 0, ".", np.where(failing == full, "#", "+"))
    return ["".join(row) for row in marks]


def _cell(position: np.ndarray, extent: int, cells: int) -> np.ndarray:
    return position * cells // extent
