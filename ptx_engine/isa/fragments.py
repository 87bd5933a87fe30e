"""Fragment layouts of warp-level matrix instructions, as data: which lane and register part holds which element.

A layout is an int array ``(rows, cols)`` of ``part * 32 + lane``; each is a bijection onto the fragment (tested).
Source: PTX ISA 9.1, "Warp Level Matrix Multiply-Accumulate Instructions", figures of the fragments.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np


def _grid(rows: int, cols: int) -> tuple[np.ndarray, np.ndarray]:
    return np.meshgrid(np.arange(rows), np.arange(cols), indexing="ij")


@lru_cache(maxsize=None)
def fragment_a(k: int, per_register: int) -> np.ndarray:
    """A of m16n8kK, row-major: lane group (lane >> 2) is the row (and row + 8), lane & 3 the column block.

    ``per_register`` elements stand in one 32-bit register (2 for f16, 1 for tf32, 4 for 8-bit). Registers alternate row
    halves first, then column blocks of ``4 * per_register``.
    """
    row, col = _grid(16, k)
    block = 4 * per_register
    lane = (row % 8) * 4 + (col % block) // per_register
    register = (row // 8) + 2 * (col // block)
    return (register * per_register + col % per_register) * 32 + lane


@lru_cache(maxsize=None)
def fragment_b(k: int, per_register: int) -> np.ndarray:
    """B of m16n8kK as (n, k): lane >> 2 is the column n, lane & 3 the row block; registers go along k."""
    n, row = _grid(8, k)
    block = 4 * per_register
    lane = n * 4 + (row % block) // per_register
    return ((row // block) * per_register + row % per_register) * 32 + lane


@lru_cache(maxsize=None)
def fragment_c() -> np.ndarray:
    """C and D of m16n8: part = 2 * (row >= 8) + column parity."""
    row, col = _grid(16, 8)
    lane = (row % 8) * 4 + col // 2
    return (2 * (row // 8) + col % 2) * 32 + lane


@lru_cache(maxsize=None)
def fragment_a_m8n8k4() -> np.ndarray:
    """A of the f64 m8n8k4: one element a lane."""
    row, col = _grid(8, 4)
    return row * 4 + col


@lru_cache(maxsize=None)
def fragment_b_m8n8k4() -> np.ndarray:
    """B of the f64 m8n8k4 as (n, k)."""
    n, row = _grid(8, 4)
    return n * 4 + row


@lru_cache(maxsize=None)
def fragment_c_m8n8() -> np.ndarray:
    """C and D of m8n8: two elements a lane."""
    row, col = _grid(8, 8)
    return (col % 2) * 32 + row * 4 + col // 2


def inverse(layout: np.ndarray) -> np.ndarray:
    """``(parts, 32)`` of the flat element position that each part and lane holds."""
    result = np.empty(layout.size, np.int64)
    result[layout.ravel()] = np.arange(layout.size)
    return result.reshape(-1, 32)
