"""Fragment layouts of warp-level matrix instructions, as data: which lane and register part holds which element.

A layout is an int array ``(rows, cols)`` of ``part * 32 + lane``; each is a bijection onto the fragment (tested). Parts count
elements in register order, low bits first. B is always given as (n, k).
Source: PTX ISA 9.1, "Warp Level Matrix Multiply-Accumulate Instructions", figures of the fragments.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

Layout = npt.NDArray[np.int64]


def _grid(*extents: int) -> tuple[Layout, ...]:
    return np.meshgrid(*(np.arange(n, dtype=np.int64) for n in extents), indexing="ij")


@cache
def fragment_a(m: int, k: int, per_register: int) -> Layout:
    """A of m8n8kK and m16n8kK, row-major: the lane's group (lane >> 2) is the row, its place in the group the block of columns.

    ``per_register`` elements stand in one register (2 for f16, 1 for tf32 and f64, 4 for 8-bit, 8 for 4-bit, 32 for bits).
    Registers alternate between the halves of the rows (of m16) first, then go along k in blocks of ``4 * per_register``.
    """
    row, col = _grid(m, k)
    block = 4 * per_register
    lane = (row % 8) * 4 + (col % block) // per_register
    register = (row // 8) + (m // 8) * (col // block)
    return (register * per_register + col % per_register) * 32 + lane


@cache
def fragment_b(k: int, per_register: int) -> Layout:
    """B of m8n8kK and m16n8kK as (n, k): lane >> 2 is the column n, lane & 3 the block of rows; registers go along k."""
    n, row = _grid(8, k)
    block = 4 * per_register
    lane = n * 4 + (row % block) // per_register
    return ((row // block) * per_register + row % per_register) * 32 + lane


@cache
def fragment_c(m: int) -> Layout:
    """C and D of m8n8 and m16n8: part = 2 * (row >= 8) + column parity."""
    row, col = _grid(m, 8)
    lane = (row % 8) * 4 + col // 2
    return (2 * (row // 8) + col % 2) * 32 + lane


# --- the four 8x8x4 products of m8n8k4 with f16 ---------------------------------------------------
# Product q is computed by lanes 4q..4q+3 and 16+4q..16+4q+3. Layouts are (4, rows, cols).


def _quad_lane(q: Layout, place: Layout, upper: Layout) -> Layout:
    """The lane at a place of the lower or the upper quad of product q."""
    return q * 4 + place + 16 * upper


@cache
def quad_a(layout: str) -> Layout:
    """A (4, 8, 4): row-major holds a row of four a lane, column-major four rows of a column."""
    q, row, col = _grid(4, 8, 4)
    if layout == "row":
        return col * 32 + _quad_lane(q, row % 4, row // 4)
    return (row % 4) * 32 + _quad_lane(q, col, row // 4)


@cache
def quad_b(layout: str) -> Layout:
    """B (4, 8, 4) as (product, n, k)."""
    q, n, row = _grid(4, 8, 4)
    if layout == "row":
        return (n % 4) * 32 + _quad_lane(q, row, n // 4)
    return row * 32 + _quad_lane(q, n % 4, n // 4)


@cache
def quad_c(half: bool) -> Layout:
    """C and D (4, 8, 8): f16 holds a row of eight a lane; f32 is spread in blocks of two by two."""
    q, row, col = _grid(4, 8, 8)
    if half:
        return col * 32 + _quad_lane(q, row % 4, row // 4)
    part = (row & 2) | (col & 4) | (col & 1)
    return part * 32 + _quad_lane(q, (row & 1) | (col & 2), row // 4)


# --- wmma ----------------------------------------------------------------------------------------


@cache
def opaque_fragment(rows: int, cols: int, per_register: int) -> Layout:
    """A wmma fragment, whose layout the ISA leaves open: registers of ``per_register`` neighbours along a row, lane by lane."""
    row, col = _grid(rows, cols)
    place: Layout = row * cols + col
    register, lane = place // (32 * per_register), place // per_register % 32
    return (register * per_register + place % per_register) * 32 + lane


def inverse(layout: Layout) -> np.ndarray:
    """``(parts, 32)`` of the flat element position that each part and lane holds."""
    result = np.empty(layout.size, np.int64)
    result[layout.ravel()] = np.arange(layout.size)
    return result.reshape(-1, 32)
