"""Conformance of float instructions: for each form operands and results that follow from the ISA's text and tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from one_instruction import run, run_one

from ptx_engine.errors import ParseError, UnsupportedError

NAN, INF, NINF, ONE, NONE, TWO, NZERO, SUB, NSUB, MIN = (
    0x7FFFFFFF, 0x7F800000, 0xFF800000, 0x3F800000, 0xBF800000, 0x40000000, 0x80000000, 0x00000001, 0x80000001, 0x00800000,
)  # fmt: skip
HALF, THREE, QUIET = 0x3F000000, 0x40400000, 0x7FC00001

#: instruction -> rows of operands and the result, all f32 bits
F32: dict[str, list[tuple[int, ...]]] = {
    # saturation: NaN and negative values give +0
    "add.sat.f32 d0, a0, a1;": [(ONE, ONE, ONE), (NONE, HALF, 0), (QUIET, ONE, 0), (HALF, 0, HALF), (INF, ONE, ONE), (INF, NINF, 0)],
    "sub.sat.f32 d0, a0, a1;": [(ONE, HALF, HALF), (HALF, ONE, 0), (THREE, ONE, ONE), (QUIET, QUIET, 0)],
    "mul.sat.f32 d0, a0, a1;": [(TWO, HALF, ONE), (NZERO, ONE, 0), (INF, 0, 0)],
    "fma.rn.sat.f32 d0, a0, a1, a2;": [(TWO, TWO, NONE, ONE), (HALF, HALF, 0, 0x3E800000), (NONE, ONE, 0, 0), (INF, 0, 0, 0)],
    # flushing: subnormal operands and results become zeros of their sign
    "add.ftz.f32 d0, a0, a1;": [(SUB, 0, 0), (NSUB, NZERO, NZERO), (SUB, ONE, ONE), (MIN, 0x80000001 | MIN, 0x80000000)],
    "add.f32 d0, a0, a1;": [(SUB, 0, SUB), (SUB, SUB, 2), (NSUB, NZERO, NSUB), (INF, NINF, NAN), (NZERO, NZERO, NZERO), (0, NZERO, 0)],
    "mul.ftz.f32 d0, a0, a1;": [(MIN, HALF, 0), (0x80800000, HALF, NZERO), (SUB, 0x7F000000, 0)],
    "mul.f32 d0, a0, a1;": [(MIN, HALF, 0x00400000), (SUB, HALF, 0), (0x00000003, HALF, 2), (0, INF, NAN), (QUIET, ONE, NAN)],
    "sub.rm.f32 d0, a0, a1;": [(ONE, ONE, NZERO), (0, 0, NZERO)],
    "sub.rp.f32 d0, a0, a1;": [(ONE, ONE, 0), (NZERO, 0, NZERO)],
    "fma.rn.ftz.f32 d0, a0, a1, a2;": [(SUB, ONE, 0, 0), (MIN, HALF, SUB, 0), (ONE, ONE, SUB, ONE)],
    "mad.rz.f32 d0, a0, a1, a2;": [(ONE, ONE, 0x32000000, ONE), (0xBF800000, ONE, 0x32000000, 0xBF7FFFFF)],
    "div.rn.f32 d0, a0, a1;": [(ONE, THREE, 0x3EAAAAAB), (ONE, 0, INF), (ONE, NZERO, NINF), (0, 0, NAN), (INF, INF, NAN), (ONE, INF, 0)],
    "div.rz.f32 d0, a0, a1;": [(ONE, THREE, 0x3EAAAAAA), (0x7F7FFFFF, HALF, 0x7F7FFFFF)],
    "div.rn.ftz.f32 d0, a0, a1;": [(SUB, ONE, 0), (MIN, TWO, 0), (ONE, SUB, INF)],
    "div.full.f32 d0, a0, a1;": [(THREE, TWO, 0x3FC00000), (ONE, 0, INF), (0, 0, NAN)],
    # div.approx: 2^126 < |y| < 2^128 gives 0, or NaN for infinite x
    "div.approx.f32 d0, a0, a1;": [(THREE, TWO, 0x3FC00000), (THREE, 0x7F000000, 0), (INF, 0x7F000000, NAN), (NONE, 0x7F000000, NZERO),
        (ONE, INF, 0)],
    "rcp.rn.f32 d0, a0;": [(TWO, HALF), (0, INF), (NZERO, NINF), (INF, 0), (SUB, INF), (QUIET, NAN), (0x00400000, 0x7E800000 + 0x800000)],
    "rcp.approx.ftz.f32 d0, a0;": [(NINF, NZERO), (NSUB, NINF), (SUB, INF), (TWO, HALF), (0x7F000000, 0)],
    "rcp.approx.f32 d0, a0;": [(0x7F000000, 0x00400000), (NZERO, NINF), (0, INF), (INF, 0), (NAN, NAN)],
    "sqrt.rn.f32 d0, a0;": [(0x40800000, TWO), (NONE, NAN), (NZERO, NZERO), (INF, INF), (TWO, 0x3FB504F3), (NINF, NAN)],
    "sqrt.approx.ftz.f32 d0, a0;": [(SUB, 0), (NSUB, NZERO), (0x40800000, TWO), (NONE, NAN)],
    "sqrt.approx.f32 d0, a0;": [(0x40800000, TWO), (0x00000002, 0x1A800000)],
    "rsqrt.approx.f32 d0, a0;": [(0x40800000, HALF), (0, INF), (NZERO, NINF), (INF, 0), (NONE, NAN), (QUIET, NAN)],
    "rsqrt.approx.ftz.f32 d0, a0;": [(SUB, INF), (NSUB, NINF), (0x3E800000, TWO)],
    "ex2.approx.ftz.f32 d0, a0;": [(NINF, 0), (NSUB, ONE), (NZERO, ONE), (0, ONE), (SUB, ONE), (INF, INF), (NAN, NAN), (0xC3020000, 0)],
    "ex2.approx.f32 d0, a0;": [(THREE, 0x41000000), (0xC3020000, 0x00080000), (0x43000000, INF)],
    "lg2.approx.f32 d0, a0;": [(NINF, NAN), (0, NINF), (NZERO, NINF), (INF, INF), (ONE, 0), (0x41000000, THREE), (NONE, NAN),
        (SUB, 0xC3150000)],
    "lg2.approx.ftz.f32 d0, a0;": [(SUB, NINF), (NSUB, NINF), (HALF, NONE)],
    "sin.approx.f32 d0, a0;": [(0, 0), (NZERO, NZERO), (INF, NAN), (NINF, NAN), (NAN, NAN)],
    "sin.approx.ftz.f32 d0, a0;": [(SUB, 0), (NSUB, NZERO)],
    "cos.approx.f32 d0, a0;": [(0, ONE), (NZERO, ONE), (INF, NAN), (SUB, ONE)],
    "cos.approx.ftz.f32 d0, a0;": [(NSUB, ONE)],
    "tanh.approx.f32 d0, a0;": [(NINF, NONE), (INF, ONE), (NZERO, NZERO), (0, 0), (NAN, NAN), (SUB, SUB)],
    "neg.f32 d0, a0;": [(0, NZERO), (ONE, NONE), (SUB, NSUB), (INF, NINF)],
    "neg.ftz.f32 d0, a0;": [(SUB, NZERO), (NSUB, 0), (ONE, NONE)],
    "abs.f32 d0, a0;": [(NZERO, 0), (NONE, ONE), (NSUB, SUB), (NINF, INF)],
    "abs.ftz.f32 d0, a0;": [(NSUB, 0), (NONE, ONE)],
    "copysign.f32 d0, a0, a1;": [(NZERO, ONE, NONE), (0, NONE, ONE), (NINF, 0, NZERO), (ONE, NINF, INF)],
    "min.f32 d0, a0, a1;": [(0, NZERO, NZERO), (NZERO, 0, NZERO), (QUIET, ONE, ONE), (ONE, QUIET, ONE), (QUIET, QUIET, NAN),
        (NINF, ONE, NINF), (SUB, ONE, SUB)],
    "max.f32 d0, a0, a1;": [(0, NZERO, 0), (NZERO, 0, 0), (QUIET, NONE, NONE), (QUIET, NAN, NAN), (INF, ONE, INF), (NSUB, NZERO, NZERO)],
    "min.ftz.f32 d0, a0, a1;": [(SUB, ONE, 0), (NSUB, 0, NZERO)],
    "min.NaN.f32 d0, a0, a1;": [(QUIET, ONE, NAN), (ONE, QUIET, NAN), (ONE, TWO, ONE)],
    "max.NaN.f32 d0, a0, a1;": [(QUIET, ONE, NAN), (NINF, QUIET, NAN), (ONE, TWO, TWO)],
    "max.ftz.NaN.f32 d0, a0, a1;": [(SUB, QUIET, NAN), (SUB, NZERO, 0)],
    "min.xorsign.abs.f32 d0, a0, a1;": [(NONE, TWO, NONE), (NONE, 0xC0000000, ONE), (ONE, QUIET, ONE), (QUIET, NONE, NONE),
        (NZERO, ONE, NZERO), (QUIET, QUIET, NAN)],
    "max.xorsign.abs.f32 d0, a0, a1;": [(NONE, TWO, 0xC0000000), (NZERO, THREE, 0xC0400000), (NONE, NONE, ONE)],
    "min.NaN.xorsign.abs.f32 d0, a0, a1;": [(QUIET, NONE, NAN), (NONE, TWO, NONE)],
    "max.NaN.xorsign.abs.f32 d0, a0, a1;": [(NONE, QUIET, NAN), (NONE, TWO, 0xC0000000)],
    "min.f32 d0, a0, a1, a2;": [(ONE, NONE, TWO, NONE), (QUIET, QUIET, ONE, ONE), (0, NZERO, ONE, NZERO)],
    "max.NaN.f32 d0, a0, a1, a2;": [(ONE, QUIET, TWO, NAN), (ONE, TWO, THREE, THREE)],
    "max.abs.f32 d0, a0, a1, a2;": [(NONE, 0xC0400000, TWO, THREE), (0, NZERO, NZERO, 0)],
}  # fmt: skip


@pytest.mark.parametrize("text", list(F32))
def test_f32(text: str) -> None:
    rows = np.array(F32[text], np.uint32)
    got = run_one(text, list(rows[:, :-1].T), np.uint32)
    assert [hex(x) for x in got] == [hex(x) for x in rows[:, -1]], text


@pytest.mark.parametrize("text", list(F32))
def test_f32_as_uniform_scalars(text: str) -> None:
    """One thread at a time: the same values, held as Python ints."""
    row = np.array(F32[text][0], np.uint32)
    assert run_one(text, [row[i : i + 1] for i in range(len(row) - 1)], np.uint32)[0] == row[-1]


F64: dict[str, list[tuple[int, ...]]] = {
    "add.rn.f64 d0, a0, a1;": [(0x3FF0000000000000, 0x3CA0000000000000, 0x3FF0000000000000), (1, 1, 2), (1 << 63, 0, 0)],
    "add.rp.f64 d0, a0, a1;": [(0x3FF0000000000000, 1, 0x3FF0000000000001)],
    "mul.rz.f64 d0, a0, a1;": [(0x7FEFFFFFFFFFFFFF, 0x4000000000000000, 0x7FEFFFFFFFFFFFFF), (1, 0x3FE0000000000000, 0)],
    "mul.rp.f64 d0, a0, a1;": [(1, 0x3FE0000000000000, 1), (0x7FEFFFFFFFFFFFFF, 0x4000000000000000, 0x7FF0000000000000)],
    "fma.rn.f64 d0, a0, a1, a2;": [(0x3FF0000000000001, 0x3FF0000000000001, 0xBFF0000000000002, 0x3970000000000000)],
    "mad.rm.f64 d0, a0, a1, a2;": [(0x3FF0000000000000, 0x3FF0000000000000, 0xBFF0000000000000, 1 << 63)],
    "div.rm.f64 d0, a0, a1;": [(0x3FF0000000000000, 0x4008000000000000, 0x3FD5555555555555)],
    "sqrt.rp.f64 d0, a0;": [(0x4000000000000000, 0x3FF6A09E667F3BCD)],
    "sqrt.rz.f64 d0, a0;": [(0x4000000000000000, 0x3FF6A09E667F3BCC)],
    "rcp.rn.f64 d0, a0;": [(0x4008000000000000, 0x3FD5555555555555), (1 << 63, 0xFFF0000000000000)],
    # the low word of these approximations is zero, and subnormals are flushed
    "rcp.approx.ftz.f64 d0, a0;": [(0x4008000000000000, 0x3FD5555500000000), (1, 0x7FF0000000000000), (0x7FF0000000000000, 0)],
    "rsqrt.approx.ftz.f64 d0, a0;": [(0x4000000000000000, 0x3FE6A09E00000000), (1, 0x7FF0000000000000)],
    "rsqrt.approx.f64 d0, a0;": [(0x4010000000000000, 0x3FE0000000000000), (0, 0x7FF0000000000000)],
    "neg.f64 d0, a0;": [(0, 1 << 63), (0x3FF0000000000000, 0xBFF0000000000000)],
    "abs.f64 d0, a0;": [(1 << 63, 0), (0xFFF0000000000000, 0x7FF0000000000000)],
    "min.f64 d0, a0, a1;": [(0, 1 << 63, 1 << 63), (0x7FF8000000000000, 1, 1)],
    "max.f64 d0, a0, a1;": [(1 << 63, 0, 0), (0x7FF8000000000000, 1 << 63, 1 << 63)],
    "copysign.f64 d0, a0, a1;": [(1 << 63, 0x3FF0000000000000, 0xBFF0000000000000)],
}  # fmt: skip


@pytest.mark.parametrize("text", list(F64))
def test_f64(text: str) -> None:
    rows = np.array(F64[text], np.uint64)
    got = run_one(text, list(rows[:, :-1].T), np.uint64)
    assert [hex(x) for x in got] == [hex(x) for x in rows[:, -1]], text


#: 16-bit forms: (f16 rows, bf16 rows); every row also runs in both halves of the packed type, swapped
HALVES: dict[str, tuple[list[tuple[int, ...]], list[tuple[int, ...]]]] = {
    "add.T d0, a0, a1;": ([(0x3C00, 0x3C00, 0x4000), (0x7BFF, 0x7BFF, 0x7C00), (1, 1, 2), (0x7C00, 0xFC00, 0x7FFF)],
        [(0x3F80, 0x3F80, 0x4000), (0x7F7F, 0x7F7F, 0x7F80)]),
    "sub.rn.T d0, a0, a1;": ([(0x3C00, 0x3C00, 0), (0x3C00, 0x0C00, 0x3C00), (0x3C00, 0x1000, 0x3BFF)], [(0x3F80, 0x4000, 0xBF80)]),
    "mul.T d0, a0, a1;": ([(0x4200, 0x4200, 0x4880), (0x0400, 0x3800, 0x0200)], [(0x4040, 0x4040, 0x4110)]),
    "fma.rn.T d0, a0, a1, a2;": ([(0x4000, 0x4000, 0xC400, 0), (0x3C01, 0x3C01, 0xBC02, 0x0010)], [(0x4000, 0x4000, 0xC080, 0)]),
    "fma.rn.relu.T d0, a0, a1, a2;": ([(0x3C00, 0xBC00, 0, 0), (0x7E00, 0, 0, 0x7FFF), (0x4000, 0x3C00, 0, 0x4000)],
        [(0x3F80, 0xBF80, 0, 0), (0x7FC0, 0, 0, 0x7FFF)]),
    "neg.T d0, a0;": ([(0, 0x8000), (0x3C00, 0xBC00)], [(0x3F80, 0xBF80)]),
    "abs.T d0, a0;": ([(0x8000, 0), (0xFC00, 0x7C00)], [(0xBF80, 0x3F80)]),
    "min.T d0, a0, a1;": ([(0, 0x8000, 0x8000), (0x7E00, 0x3C00, 0x3C00)], [(0xFF80, 0x3F80, 0xFF80), (0x7FC0, 0x7FC0, 0x7FFF)]),
    "max.T d0, a0, a1;": ([(0, 0x8000, 0), (0x3C00, 0xBC00, 0x3C00)], [(0x3F80, 0xFF80, 0x3F80)]),
    "min.NaN.T d0, a0, a1;": ([(0x7E00, 0x3C00, 0x7FFF)], [(0x3F80, 0x7FC0, 0x7FFF)]),
    "max.NaN.T d0, a0, a1;": ([(0x7E00, 0x3C00, 0x7FFF)], [(0x3F80, 0x4000, 0x4000)]),
    "min.xorsign.abs.T d0, a0, a1;": ([(0xBC00, 0x4000, 0xBC00)], [(0xBF80, 0xC000, 0x3F80)]),
    "max.NaN.xorsign.abs.T d0, a0, a1;": ([(0xBC00, 0x4000, 0xC000), (0x7E00, 0, 0x7FFF)], [(0xBF80, 0xC000, 0x4000)]),
    "tanh.approx.T d0, a0;": ([(0x7C00, 0x3C00), (0x8000, 0x8000)], [(0xFF80, 0xBF80), (0, 0)]),
}  # fmt: skip
F16_ONLY: dict[str, list[tuple[int, ...]]] = {
    "add.sat.T d0, a0, a1;": [(0x3C00, 0x3C00, 0x3C00), (0xBC00, 0, 0), (0x7E00, 0, 0)],
    "sub.ftz.sat.T d0, a0, a1;": [(0x3C00, 0x3800, 0x3800), (1, 0, 0)],
    "mul.ftz.T d0, a0, a1;": [(0x0400, 0x3800, 0), (0x83FF, 0x3C00, 0x8000)],
    "fma.rn.sat.T d0, a0, a1, a2;": [(0x4000, 0x4000, 0, 0x3C00)],
    "fma.rn.ftz.relu.T d0, a0, a1, a2;": [(1, 0x3C00, 0, 0), (0xBC00, 0x3C00, 0, 0)],
    "neg.ftz.T d0, a0;": [(1, 0x8000)],
    "abs.ftz.T d0, a0;": [(0x8001, 0)],
    "min.ftz.T d0, a0, a1;": [(1, 0x3C00, 0)],
    "ex2.approx.T d0, a0;": [(0x4000, 0x4400), (0xFC00, 0), (0xCC00, 0x0100)],
}  # fmt: skip
BF16_ONLY: dict[str, list[tuple[int, ...]]] = {"ex2.approx.ftz.T d0, a0;": [(0x4000, 0x4080), (0x0001, 0x3F80), (0xFF80, 0)]}


def half_cases() -> list[tuple[str, str, list[tuple[int, ...]]]]:
    cases = [(text, "f16", rows[0]) for text, rows in HALVES.items()] + [(text, "bf16", rows[1]) for text, rows in HALVES.items()]
    return cases + [(t, "f16", r) for t, r in F16_ONLY.items()] + [(t, "bf16", r) for t, r in BF16_ONLY.items()]


@pytest.mark.parametrize(("text", "kind", "rows"), half_cases())
def test_halves(text: str, kind: str, rows: list[tuple[int, ...]]) -> None:
    table = np.array(rows, np.uint16)
    got = run_one(text.replace(".T ", f".{kind} "), list(table[:, :-1].T), np.uint16)
    assert [hex(x) for x in got] == [hex(x) for x in table[:, -1]]
    flipped = table[::-1].astype(np.uint32)
    packed = table.astype(np.uint32) | flipped << np.uint32(16)
    pair = run_one(text.replace(".T ", f".{kind}x2 "), list(packed[:, :-1].T), np.uint32)
    assert [hex(x) for x in pair] == [hex(x) for x in packed[:, -1]]


def test_f32x2_acts_on_each_half() -> None:
    a = np.array([ONE | TWO << 32, SUB | ONE << 32], np.uint64)
    b = np.array([ONE | ONE << 32, 0], np.uint64)
    assert run_one("add.rn.f32x2 d0, a0, a1;", [a, b], np.uint64).tolist() == [TWO | THREE << 32, SUB | ONE << 32]
    assert run_one("add.rn.ftz.f32x2 d0, a0, a1;", [a, b], np.uint64).tolist() == [TWO | THREE << 32, ONE << 32]
    assert run_one("mul.f32x2 d0, a0, a1;", [a, a], np.uint64).tolist() == [ONE | 0x40800000 << 32, ONE << 32]
    assert run_one("fma.rz.f32x2 d0, a0, a1, a1;", [a, b], np.uint64).tolist() == [TWO | THREE << 32, 0]


#: property -> which of the numbers below have it
NUMBERS = [0, NZERO, SUB, MIN, ONE, 0x7F7FFFFF, INF, NINF, NAN, 0xFFC00000]
PROPERTIES = {
    "finite": "1111110000", "infinite": "0000001100", "number": "1111111100", "notanumber": "0000000011",
    "normal": "1101110000", "subnormal": "0010000000",
}  # fmt: skip


@pytest.mark.parametrize("prop", list(PROPERTIES))
def test_testp(prop: str) -> None:
    single = np.array(NUMBERS, np.uint32)
    got = run_one(f"testp.{prop}.f32 p0, a0;", [single], np.uint32)
    assert "".join(map(str, got)) == PROPERTIES[prop]
    with np.errstate(invalid="ignore"):
        double = single.view(np.float32).astype(np.float64)
    double[2] = 5e-324
    double[3] = 2.0**-1022
    got = run_one(f"testp.{prop}.f64 p0, a0;", [double.view(np.uint64)], np.uint32)
    assert "".join(map(str, got)) == PROPERTIES[prop]


REFUSED = [
    "add.rna.f32 d0, a0, a1;", "add.sat.f64 d0, a0, a1;", "fma.f32 d0, a0, a1, a1;", "add.rz.f16 d0, a0, a1;", "div.f32 d0, a0, a1;",
        "ex2.f32 d0, a0;",
    "sqrt.sat.f32 d0, a0;", "min.sat.f32 d0, a0, a1;", "max.NaN.f64 d0, a0, a1;", "fma.rn.oob.f16 d0, a0, a1, a1;",
        "ex2.approx.f64 d0, a0;",
    "tanh.approx.ftz.f32 d0, a0;", "add.f32.f16 d0, a0, a1;", "rcp.approx.f64 d0, a0;", "lg2.approx.f16 d0, a0;", "mad.f64 d0, a0, a1, a1;",
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_what_the_isa_does_not_have_is_refused_by_name(text: str) -> None:
    x = np.zeros(1, np.uint64 if "64" in text else np.uint32)
    with pytest.raises(UnsupportedError) as caught:
        run_one(text, [x, x], x.dtype.type)
    assert text.split()[0].split(".")[0] in caught.value.message


def test_xorsign_and_abs_stand_together() -> None:
    x = np.zeros(1, np.uint32)
    for text in (
        "min.abs.f32 d0, a0, a1;",
        "min.xorsign.f32 d0, a0, a1;",
        "max.xorsign.abs.f32 d0, a0, a1, a1;",
        "max.f16 d0, a0, a1, a1;",
    ):
        with pytest.raises(ParseError):
            run_one(text, [x, x], np.uint32)


words = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)), min_size=1, max_size=40)


@settings(max_examples=40, deadline=None)
@given(words)
def test_min_and_max_are_the_two_operands_and_commute(rows: list[tuple[int, int]]) -> None:
    a, b = np.array(rows, np.uint32).T.copy()
    low, high = run_one("min.f32 d0, a0, a1;", [a, b], np.uint32), run_one("max.f32 d0, a0, a1;", [a, b], np.uint32)
    assert np.array_equal(low, run_one("min.f32 d0, a0, a1;", [b, a], np.uint32))
    assert np.array_equal(high, run_one("max.f32 d0, a0, a1;", [b, a], np.uint32))
    x, y = a.view(np.float32), b.view(np.float32)
    plain = ~(np.isnan(x) | np.isnan(y))
    assert np.array_equal(np.sort(np.stack([low, high]), 0)[:, plain], np.sort(np.stack([a, b]), 0)[:, plain])
    assert (low.view(np.float32)[plain] <= high.view(np.float32)[plain]).all()


@settings(max_examples=40, deadline=None)
@given(words)
def test_copysign_takes_one_bit(rows: list[tuple[int, int]]) -> None:
    a, b = np.array(rows, np.uint32).T.copy()
    assert np.array_equal(run_one("copysign.f32 d0, a0, a1;", [a, b], np.uint32), (a & np.uint32(1 << 31)) | (b & np.uint32(2**31 - 1)))


def test_columns_equal_scalar_steps() -> None:
    """One vector step equals n scalar steps, for every kind of float instruction."""
    rng = np.random.default_rng(5)
    a, b = (rng.integers(0, 2**32, 12, dtype=np.uint64).astype(np.uint32) for _ in range(2))
    for text in (
        "add.rz.f32 d0, a0, a1;",
        "fma.rp.f32 d0, a0, a1, a0;",
        "min.NaN.f32 d0, a0, a1;",
        "ex2.approx.f32 d0, a0;",
        "mul.f16x2 d0, a0, a1;",
    ):
        operands = [a, b] if "a1" in text else [a]
        whole = run_one(text, operands, np.uint32)
        single = [run(text, [x[i : i + 1] for x in operands], [np.uint32])[0][0] for i in range(len(a))]
        assert whole.tolist() == single
