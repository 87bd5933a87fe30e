"""Which elements of a tensor fail, in words, as a map for the terminal and as data.

Works on storage indices of a row-major tensor of a given shape; the last axis is "columns", the one before "rows".
"""

from __future__ import annotations

import math

import numpy as np

#: from little to much: no element of the cell fails, up to half do, most do, all do
_SHADES = ".+x#"


def describe(failing: np.ndarray, shape: tuple[int, ...]) -> str:
    """One phrase for a set of storage indices (sorted or not): "all 4096 elements", "column 63 of every row", "rows >= 100"."""
    total = math.prod(shape) if shape else 1
    failing = np.unique(failing[(failing >= 0) & (failing < total)])
    if not len(failing):
        return "no element"
    if len(failing) == total:
        return f"all {total} elements" if total > 1 else "the only element"
    if len(shape) < 2 or len(failing) == 1:
        return _flat(failing, shape, total)
    leading, rows, columns = math.prod(shape[:-2]), shape[-2], shape[-1]
    batch, row, column = np.unravel_index(failing, (leading, rows, columns))
    parts = [np.unique(x) for x in (batch, row, column)]
    if math.prod(len(part) for part in parts) != len(failing):
        return f"{len(failing)} of {total} elements, {_bounds(parts, (leading, rows, columns))}"
    return _box(parts, (leading, rows, columns), len(failing), total)


def _flat(failing: np.ndarray, shape: tuple[int, ...], total: int) -> str:
    if len(failing) == 1:
        index = ", ".join(str(int(i)) for i in np.unravel_index(int(failing[0]), shape)) if shape else "0"
        return f"element [{index}] of {total}"
    span = _interval(failing, total, "element", "elements")
    return span if span else f"{len(failing)} of {total} elements, first {int(failing[0])}, last {int(failing[-1])}"


def _interval(values: np.ndarray, extent: int, one: str, many: str) -> str:
    """Sorted distinct values as an interval or a progression; empty where they are neither."""
    first, last, count = int(values[0]), int(values[-1]), len(values)
    if count == extent:
        return f"every {one}"
    if count == 1:
        return f"{one} {first}"
    steps = np.diff(values)
    if (steps == 1).all():
        if last == extent - 1:
            return f"{many} >= {first}"
        return f"{many} < {last + 1}" if first == 0 else f"{many} {first}..{last}"
    if count > 2 and (steps == steps[0]).all():
        return f"{many} {first}, {first + int(steps[0])}, ..., {last}"
    return ""


def _box(parts: list[np.ndarray], extents: tuple[int, int, int], count: int, total: int) -> str:
    batch, row, column = parts
    row_text, column_text = _interval(row, extents[1], "row", "rows"), _interval(column, extents[2], "column", "columns")
    batch_text = "" if extents[0] == 1 else _interval(batch, extents[0], "batch", "batches")
    if not row_text or not column_text or (extents[0] > 1 and not batch_text):
        return f"{count} of {total} elements, {_bounds(parts, extents)}"
    tail = "" if not batch_text or batch_text == "every batch" else f" of {batch_text}"
    if row_text == "every row" and column_text == "every column":
        return f"all of {batch_text}"
    if column_text == "every column":
        return row_text + tail
    if row_text == "every row":
        return f"{column_text} of every row{tail}"
    if len(row) > 1 and len(column) > 1:
        return f"a {len(row)}x{len(column)} tile at {row_text}, {column_text}{tail}"
    return f"{column_text} of {row_text}{tail}"


def _bounds(parts: list[np.ndarray], extents: tuple[int, int, int]) -> str:
    """The bounding box of a set that fills it only in part."""
    batch, row, column = parts
    text = f"within rows {int(row[0])}..{int(row[-1])}, columns {int(column[0])}..{int(column[-1])}"
    return text if extents[0] == 1 else f"{text}, batches {int(batch[0])}..{int(batch[-1])}"


def cells(failing: np.ndarray, shape: tuple[int, ...], width: int = 64, height: int = 32) -> np.ndarray:
    """The share of failing elements per cell of a downsampled map: float64 (rows, columns), at most height x width."""
    total, columns = max(math.prod(shape), 1), shape[-1] if shape else 1
    rows = max(total // max(columns, 1), 1)
    if len(shape) < 2 and columns > width:  # a long vector fills lines
        rows, columns = -(-columns // width), width
    cell_rows, cell_columns = -(-rows // height), -(-columns // width)
    grid = (-(-rows // cell_rows), -(-columns // cell_columns))
    everything = np.arange(total, dtype=np.int64) if total <= 1 << 24 else None
    row, column = np.divmod(np.asarray(failing, np.int64), columns)
    bad = np.bincount((row // cell_rows) * grid[1] + column // cell_columns, minlength=grid[0] * grid[1])[: grid[0] * grid[1]]
    if everything is None:
        size = np.full(grid[0] * grid[1], cell_rows * cell_columns)
    else:
        row, column = np.divmod(everything, columns)
        size = np.bincount((row // cell_rows) * grid[1] + column // cell_columns, minlength=grid[0] * grid[1])
    return np.asarray(bad / np.maximum(size, 1)).reshape(grid)


def ascii_map(failing: np.ndarray, shape: tuple[int, ...], width: int = 64) -> str:
    """The map as text, one character per cell: ``.`` none fails, ``+`` some, ``x`` most, ``#`` all."""
    shares = cells(failing, shape, width)
    level = np.where(shares == 0, 0, np.where(shares >= 1, 3, np.where(shares <= 0.5, 1, 2)))
    return "\n".join("".join(_SHADES[i] for i in line) for line in level.tolist())


def region_data(failing: np.ndarray, shape: tuple[int, ...], limit: int = 16) -> dict[str, object]:
    """The same as data: count, phrase, the first multi-indices, and the map's shares."""
    first = [
        [int(i) for i in np.unravel_index(int(flat), shape or (1,))] for flat in np.sort(failing)[:limit] if flat < max(math.prod(shape), 1)
    ]
    return {
        "failing": len(failing),
        "elements": math.prod(shape),
        "where": describe(failing, shape),
        "first": first,
        "map": np.round(cells(failing, shape), 3).tolist(),
    }
