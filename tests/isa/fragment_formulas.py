"""The ISA's index formulas of mma fragments, written out case by case, as (lane, element) -> (row, column).

Source: PTX ISA 9.1, "Matrix Fragments for mma.m8n8k4" and the sections after it. Nothing here uses the engine's layouts.
"""

from __future__ import annotations

from collections.abc import Callable

Place = Callable[[int, int], tuple[int, int]]


def _group(lane: int) -> tuple[int, int]:
    return lane >> 2, lane % 4


def a_16bit(k: int) -> Place:
    """m16n8k8 and m16n8k16, .f16 and .bf16."""

    def place(lane: int, i: int) -> tuple[int, int]:
        group, thread = _group(lane)
        if k == 8:
            return (group if i < 2 else group + 8), thread * 2 + (i & 1)
        return (group if i < 2 or 4 <= i < 6 else group + 8), thread * 2 + (i & 1) + (0 if i < 4 else 8)

    return place


def b_16bit(k: int) -> Place:
    def place(lane: int, i: int) -> tuple[int, int]:
        group, thread = _group(lane)
        return thread * 2 + (i & 1) + (8 if i >= 2 else 0), group

    return place


def a_tf32(k: int) -> Place:
    def place(lane: int, i: int) -> tuple[int, int]:
        group, thread = _group(lane)
        return (group if i in (0, 2) else group + 8), (thread if i < 2 else thread + 4)

    return place


def b_tf32(k: int) -> Place:
    def place(lane: int, i: int) -> tuple[int, int]:
        group, thread = _group(lane)
        return thread + 4 * i, group

    return place


def a_f64(m: int, k: int) -> Place:
    def place(lane: int, i: int) -> tuple[int, int]:
        group, thread = _group(lane)
        if m == 8:
            return group, thread
        if k == 16:
            return (group if i % 2 == 0 else group + 8), (i * 2 + thread if i % 2 == 0 else i * 2 - 2 + thread)
        return (group if i in (0, 2) else group + 8), (thread if i < 2 else thread + 4)

    return place


def b_f64(k: int) -> Place:
    def place(lane: int, i: int) -> tuple[int, int]:
        group, thread = _group(lane)
        return thread + 4 * i, group

    return place


def a_narrow(m: int, k: int, per: int) -> Place:
    """8-, 4- and 1-bit elements, ``per`` in a register."""

    def place(lane: int, i: int) -> tuple[int, int]:
        group, thread = _group(lane)
        if m == 8:
            return group, thread * per + i
        column = thread * per + (i & (per - 1))
        if k == 4 * per:
            return (group if i < per else group + 8), column
        return (group if i < per or 2 * per <= i < 3 * per else group + 8), column + (0 if i < 2 * per else 4 * per)

    return place


def b_narrow(k: int, per: int) -> Place:
    def place(lane: int, i: int) -> tuple[int, int]:
        group, thread = _group(lane)
        return thread * per + (i & (per - 1)) + (0 if i < per else 4 * per), group

    return place


def accumulator(m: int) -> Place:
    def place(lane: int, i: int) -> tuple[int, int]:
        group, thread = _group(lane)
        return (group if i < 2 else group + 8), thread * 2 + (i & 1)

    return place


# --- m8n8k4 with f16: row and column within the lane's product ------------------------------------


def quad_a(layout: str) -> Place:
    def place(lane: int, i: int) -> tuple[int, int]:
        if layout == "row":
            return (lane % 4 if lane < 16 else lane % 4 + 4), i
        return (i % 4 if lane < 16 else i % 4 + 4), lane % 4

    return place


def quad_b(layout: str) -> Place:
    def place(lane: int, i: int) -> tuple[int, int]:
        if layout == "row":
            return lane % 4, (i if lane < 16 else i + 4)
        return i, (lane % 4 if lane < 16 else lane % 4 + 4)

    return place


def quad_c(half: bool) -> Place:
    def place(lane: int, i: int) -> tuple[int, int]:
        if half:
            return (lane % 4 if lane < 16 else lane % 4 + 4), i
        x = (lane & 1) + (i & 2)
        return (x if lane < 16 else x + 4), (i & 4) + (lane & 2) + (i & 1)

    return place


def product_of(lane: int) -> int:
    """Which of the four products of m8n8k4 a lane takes part in: lanes 0-3 and 16-19 the first, and so on."""
    return lane % 16 // 4
