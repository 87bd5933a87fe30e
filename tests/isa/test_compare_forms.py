"""setp, set, selp, slct: all operators and types against Python's comparisons and the ISA's tables."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
from float_model import FORMATS, Format
from one_instruction import run, run_one

from ptx_engine.errors import PtxError

ORDERED = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
UNSIGNED = {"lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge}
BOOL = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
UINT = {16: np.uint16, 32: np.uint32, 64: np.uint64}


def float_holds(cmp: str, x: float, y: float) -> bool:
    """The ISA's table of float comparisons."""
    bad = math.isnan(x) or math.isnan(y)
    if cmp in ("num", "nan"):
        return bad == (cmp == "nan")
    if cmp in ORDERED:
        return not bad and ORDERED[cmp](x, y)
    return bad or ORDERED[cmp[:-1]](x, y)


FLOAT_CMPS = [*ORDERED, *(f"{c}u" for c in ORDERED), "num", "nan"]


def float_pairs(fmt: Format) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(over="ignore"):
        values = np.array([0.0, -0.0, 1.0, 1.5, -1.0, 6e-8, np.inf, -np.inf, np.nan]).astype(fmt.dtype).view(fmt.uint)
    grid = np.array(np.meshgrid(values, values)).reshape(2, -1)
    return grid[0].copy(), grid[1].copy()


@pytest.mark.parametrize("cmp", FLOAT_CMPS)
@pytest.mark.parametrize("name", list(FORMATS))
def test_float_comparisons(name: str, cmp: str) -> None:
    fmt = FORMATS[name]
    a, b = float_pairs(fmt)
    wanted = [float_holds(cmp, fmt.value(int(x)), fmt.value(int(y))) for x, y in zip(a, b)]
    if name in ("f16", "bf16"):
        assert run_one(f"setp.{cmp}.{name} p0, a0, a1;", [a, b], np.uint32).tolist() == wanted
        return
    p, q = run(f"setp.{cmp}.{name} p0|p1, a0, a1;", [a, b], [np.uint32, np.uint32])
    assert p.tolist() == wanted and q.tolist() == [not w for w in wanted]


def test_flushing_before_a_comparison() -> None:
    a, b = np.array([1, 1], np.uint32), np.array([0, 0x80000001], np.uint32)
    assert run_one("setp.eq.f32 p0, a0, a1;", [a, b], np.uint32).tolist() == [0, 0]
    assert run_one("setp.eq.ftz.f32 p0, a0, a1;", [a, b], np.uint32).tolist() == [1, 1]


INT_TYPES = [f"{k}{b}" for k in "us" for b in (16, 32, 64)]


@pytest.mark.parametrize("kind", INT_TYPES)
def test_integer_comparisons(kind: str) -> None:
    bits, signed = int(kind[1:]), kind[0] == "s"
    words = [0, 1, 2, (1 << bits - 1) - 1, 1 << bits - 1, (1 << bits) - 1]
    grid = [(x, y) for x in words for y in words]
    a, b = (np.array([g[i] for g in grid], UINT[bits]) for i in range(2))
    value = [tuple(w - (1 << bits) if signed and w >> (bits - 1) else w for w in g) for g in grid]
    for cmp, holds in {**ORDERED, **({} if signed else UNSIGNED)}.items():
        assert run_one(f"setp.{cmp}.{kind} p0, a0, a1;", [a, b], np.uint32).tolist() == [holds(x, y) for x, y in value]
    for cmp in ("eq", "ne"):
        assert run_one(f"setp.{cmp}.b{bits} p0, a0, a1;", [a, b], np.uint32).tolist() == [ORDERED[cmp](x, y) for x, y in grid]


@pytest.mark.parametrize("combine", list(BOOL))
@pytest.mark.parametrize("negated", [False, True])
def test_boolean_combination(combine: str, negated: bool) -> None:
    a, b, c = (np.array(x, np.uint32) for x in ([1, 1, 2, 2], [1, 1, 1, 1], [0, 1, 0, 1]))
    text = f"setp.ne.u32 %p3, a2, 0; setp.eq.{combine}.u32 p0|p1, a0, a1, {'!' if negated else ''}%p3;"
    p, q = run(text, [a, b, c], [np.uint32, np.uint32])
    third = [bool(x) != negated for x in c]
    assert p.tolist() == [BOOL[combine](bool(x == y), t) for x, y, t in zip(a, b, third)]
    assert q.tolist() == [BOOL[combine](bool(x != y), t) for x, y, t in zip(a, b, third)]


def test_packed_halves_give_one_predicate_each() -> None:
    a = np.array([0x3C004000, 0x40003C00, 0x7E003C00], np.uint32)
    b = np.array([0x3C003C00] * 3, np.uint32)
    p, q = run("setp.gt.f16x2 p0|p1, a0, a1;", [a, b], [np.uint32, np.uint32])
    assert p.tolist() == [1, 0, 0] and q.tolist() == [0, 1, 0]
    p, q = run("setp.gtu.f16x2 p0|p1, a0, a1;", [a, b], [np.uint32, np.uint32])
    assert q.tolist() == [0, 1, 1]
    c = np.array([0, 1, 1], np.uint32)
    p, q = run("setp.ne.u32 %p3, a2, 0; setp.eq.and.bf16x2 p0|p1, a0, a0, %p3;", [b, b, c], [np.uint32, np.uint32])
    assert p.tolist() == q.tolist() == [0, 1, 1]


#: set forms: instruction, operands, results
SET: dict[str, tuple[type, type, list[tuple[int, int, int]]]] = {
    "set.lt.u32.f32 d0, a0, a1;": (np.uint32, np.uint32, [(0, 0x3F800000, 0xFFFFFFFF), (0x7FC00000, 0, 0), (0x3F800000, 0, 0)]),
    "set.ltu.s32.f32 d0, a0, a1;": (np.uint32, np.uint32, [(0x7FC00000, 0, 0xFFFFFFFF)]),
    "set.eq.f32.s32 d0, a0, a1;": (np.uint32, np.uint32, [(5, 5, 0x3F800000), (5, 6, 0)]),
    "set.hi.f32.u16 d0, a0, a1;": (np.uint16, np.uint32, [(0xFFFF, 1, 0x3F800000), (0, 1, 0)]),
    "set.ne.u32.b64 d0, a0, a1;": (np.uint64, np.uint32, [(1 << 40, 0, 0xFFFFFFFF), (7, 7, 0)]),
    "set.ge.f16.f16 d0, a0, a1;": (np.uint16, np.uint16, [(0x3C00, 0x3C00, 0x3C00), (0, 0x3C00, 0)]),
    "set.ge.u16.f16 d0, a0, a1;": (np.uint16, np.uint16, [(0x3C00, 0x3C00, 0xFFFF), (0, 0x3C00, 0)]),
    "set.ge.s32.bf16 d0, a0, a1;": (np.uint16, np.uint32, [(0x3F80, 0x3F80, 0xFFFFFFFF)]),
    "set.gt.bf16.bf16 d0, a0, a1;": (np.uint16, np.uint16, [(0x4000, 0x3F80, 0x3F80), (0x3F80, 0x4000, 0)]),
    "set.gt.f16x2.f16x2 d0, a0, a1;": (np.uint32, np.uint32, [(0x3C000000, 0x00003C00, 0x3C000000), (0x40004000, 0x3C003C00, 0x3C003C00)]),
    "set.gt.u32.f16x2 d0, a0, a1;": (np.uint32, np.uint32, [(0x3C000000, 0x00003C00, 0xFFFF0000)]),
    "set.gt.bf16x2.bf16x2 d0, a0, a1;": (np.uint32, np.uint32, [(0x00004000, 0x3F803F80, 0x00003F80)]),
    "set.lt.f16.s32 d0, a0, a1;": (np.uint32, np.uint16, [(0xFFFFFFFF, 0, 0x3C00), (0, 0, 0)]),
    "set.eq.ftz.f32.f32 d0, a0, a1;": (np.uint32, np.uint32, [(1, 0, 0x3F800000)]),
}  # fmt: skip


@pytest.mark.parametrize("text", list(SET))
def test_set(text: str) -> None:
    source, target, rows = SET[text]
    table = np.array([r[:2] for r in rows], source)
    got = run_one(text, [table[:, 0].copy(), table[:, 1].copy()], target)
    assert [hex(x) for x in got] == [hex(r[2]) for r in rows]


def test_set_with_a_boolean_operand() -> None:
    a, c = np.array([1, 1, 2, 2], np.uint32), np.array([0, 1, 0, 1], np.uint32)
    got = run_one("setp.ne.u32 %p3, a1, 0; set.eq.xor.u32.u32 d0, a0, 1, %p3;", [a, c], np.uint32)
    assert got.tolist() == [0xFFFFFFFF, 0, 0, 0xFFFFFFFF]


@pytest.mark.parametrize("kind", ["b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"])
def test_selp_and_slct(kind: str) -> None:
    bits = int(kind[1:])
    a, b = np.array([1, 2, 3, 4], UINT[bits]), np.array([5, 6, 7, 8], UINT[bits])
    choice = np.array([0, 1, 0, 1], np.uint32)
    got = run_one(f"setp.ne.u32 %p3, a2, 0; selp.{kind} d0, a0, a1, %p3;", [a, b, choice], UINT[bits])
    assert got.tolist() == [5, 2, 7, 4]
    sign = np.array([0, 1, 0xFFFFFFFF, 0x80000000], np.uint32)
    assert run_one(f"slct.{kind}.s32 d0, a0, a1, a2;", [a, b, sign], UINT[bits]).tolist() == [1, 2, 7, 8]
    number = np.array([0x80000000, 0x3F800000, 0xBF800000, 0x7FC00000], np.uint32)  # -0, 1, -1, NaN
    assert run_one(f"slct.{kind}.f32 d0, a0, a1, a2;", [a, b, number], UINT[bits]).tolist() == [1, 2, 7, 8]


def test_slct_flushes_its_condition() -> None:
    one, two, tiny = np.array([1], np.uint32), np.array([2], np.uint32), np.array([0x80000001], np.uint32)
    assert run_one("slct.b32.f32 d0, a0, a1, a2;", [one, two, tiny], np.uint32)[0] == 2
    assert run_one("slct.ftz.b32.f32 d0, a0, a1, a2;", [one, two, tiny], np.uint32)[0] == 1


@pytest.mark.parametrize(
    "text",
    [
        "setp.lo.s32 p0, a0, a1;", "setp.lt.b32 p0, a0, a1;", "setp.equ.u32 p0, a0, a1;", "setp.gt.f16x2 p0, a0, a1;",
            "set.lt.u64.f32 d0, a0, a1;",
        "setp.lt.and.f32 p0, a0, a1;", "selp.f16 d0, a0, a1, %p3;", "set.gt.f32.f16x2 d0, a0, a1;",
    ],
)  # fmt: skip
def test_refused_forms(text: str) -> None:
    x = np.zeros(1, np.uint32)
    with pytest.raises(PtxError):
        run_one(text, [x, x], np.uint32)
