"""Literals as operands: numbers of the instruction's type; an integer as a float and a float as an integer are refused, as ptxas does."""

from __future__ import annotations

import numpy as np
import pytest
from one_instruction import run_one

from ptx_engine.errors import ParseError


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("add.f32 d0, a0, 0f3F800000;", "add.f32 d0, a0, 1;"), ("fma.rn.f32 d0, a0, 2.0, 1.5;", "fma.rn.f32 d0, a0, 2, 1.5;"),
        ("mov.f32 d0, 1.5;", "mov.f32 d0, 0x3F800000;"), ("mov.u32 d0, 3;", "mov.u32 d0, 1.5;"), ("add.s32 d0, a0, -1;", "add.s32 d0, a0, 0f3F800000;"),
        ("max.f32 d0, a0, 0f00000000;", "max.f32 d0, a0, 0;"), ("cvt.rn.f32.s32 d0, 5;", "cvt.rzi.s32.f32 d0, 5;"),
        ("cvt.rzi.s32.f32 d0, 5.5;", "cvt.rn.f32.s32 d0, 5.5;"),
    ],
)  # fmt: skip
def test_literals_of_the_other_kind(line: str, wrong: str) -> None:
    word = np.array([1], np.uint32)
    run_one(line, [word], np.uint32)
    with pytest.raises(ParseError, match="literal"):
        run_one(wrong, [word], np.uint32)


@pytest.mark.parametrize(
    ("line", "wanted"), [("mov.b32 d0, 0f3FC00000;", 0x3FC00000), ("mov.b32 d0, 0f3F800000;", 0x3F800000), ("mov.b32 d0, 7;", 7)]
)
def test_untyped_bits_take_both(line: str, wanted: int) -> None:
    assert run_one(line, [np.array([1], np.uint32)], np.uint32).tolist() == [wanted]
