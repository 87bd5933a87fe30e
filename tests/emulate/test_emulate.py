"""The concrete mode's interface: arguments of every kind, results in place, findings, and errors that name the remedy."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

from ptx_engine import emulate
from ptx_engine.errors import BudgetError, LaunchError, ParseError, UnsupportedError
from ptx_engine.machine import Budget

HEAD = ".version 8.8\n.target sm_80\n.address_size 64\n"
#: y[i] = a * x[i] + y[i]
AXPY = (
    HEAD
    + """
.visible .entry axpy(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n)
{
  .reg .pred %p<2>; .reg .f32 %f<5>; .reg .b32 %r<6>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.f32 %f1, [a]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1; @%p1 bra DONE;
  mul.wide.u32 %rd3, %r5, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f2, [%rd4]; ld.global.f32 %f3, [%rd5]; fma.rn.f32 %f4, %f1, %f2, %f3; st.global.f32 [%rd5], %f4;
DONE: ret;
}
"""
)


def copy_kernel(type_: str, size: int) -> str:
    """out[tid] = in[tid] for elements of a type."""
    return HEAD + (
        f".visible .entry copy(.param .u64 x, .param .u64 y) {{ .reg .b{max(16, 8 * size)} %v; .reg .b32 %r; .reg .b64 %rd<4>;"
        f" ld.param.u64 %rd0, [x]; ld.param.u64 %rd1, [y]; mov.u32 %r, %tid.x; mul.wide.u32 %rd2, %r, {size};"
        f" add.s64 %rd0, %rd0, %rd2; add.s64 %rd1, %rd1, %rd2; ld.global.{type_} %v, [%rd0]; st.global.{type_} [%rd1], %v; ret; }}\n"
    )


def test_arrays_are_written_in_place() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=1000).astype(np.float32) for _ in range(2))
    exact = (np.float64(np.float32(1.5)) * x.astype(np.float64) + y.astype(np.float64)).astype(np.float32)
    result = emulate(AXPY, "axpy", (8, 1, 1), 128, [x, y, 1.5, 1000])
    assert np.array_equal(y, exact)
    assert result.findings == [] and result.ctas == 8 and result.instructions > 10 * 1000


@pytest.mark.parametrize(
    ("dtype", "type_"),
    [
        (np.float16, "b16"), (np.float32, "f32"), (np.float64, "f64"), (np.dtype(ml_dtypes.bfloat16), "b16"), (np.int8, "s8"),
            (np.uint8, "u8"),
        (np.int16, "s16"), (np.uint16, "u16"), (np.int32, "s32"), (np.uint32, "u32"), (np.int64, "s64"), (np.uint64, "u64"),
            (np.bool_, "u8"),
        (np.dtype(ml_dtypes.float8_e4m3fn), "b8"), (np.dtype(ml_dtypes.float8_e5m2), "b8"),
    ],
)  # fmt: skip
def test_every_element_type(dtype: np.dtype, type_: str) -> None:
    x = np.arange(32).astype(dtype) if dtype is not np.bool_ else np.arange(32) % 3 == 0
    y = np.zeros(32, dtype)
    assert not emulate(copy_kernel(type_, np.dtype(dtype).itemsize), None, 1, 32, [x, y]).findings
    assert x.tobytes() == y.tobytes()


def test_strided_views_keep_what_lies_between() -> None:
    base = np.zeros(64, np.float32)
    x, view = np.ones(64, np.float32), base[::2]
    assert not emulate(AXPY, None, 1, 64, [x, view, 2.0, 63]).findings  # the kernel walks the view's memory
    assert np.array_equal(base[:63], np.full(63, 2.0)) and base[63] == 0


def test_the_same_array_twice_is_one_buffer() -> None:
    x = np.ones(16, np.float32)
    assert not emulate(AXPY, None, 1, 16, [x, x, 3.0, 16]).findings
    assert np.array_equal(x, np.full(16, 4.0))


def test_read_only_arrays_are_inputs() -> None:
    x, y = np.ones(8, np.float32), np.ones(8, np.float32)
    x.flags.writeable = False
    assert not emulate(AXPY, None, 1, 8, [x, y, 1.0, 8]).findings
    y.flags.writeable = False
    found = emulate(AXPY, None, 1, 8, [x, y, 1.0, 8]).findings
    assert [f.kind for f in found] == ["write to a read-only argument"] and y[0] == 2.0


def test_out_of_bounds_is_a_finding_and_the_rest_runs() -> None:
    x, y = np.ones(10, np.float32), np.ones(10, np.float32)
    result = emulate(AXPY, None, 1, 16, [x, y, 1.0, 16])
    assert {f.kind for f in result.findings} == {"out of bounds"}
    assert np.array_equal(y, np.full(10, 2.0))


def test_races_are_findings_unless_switched_off() -> None:
    ptx = HEAD + (
        ".shared .align 4 .b8 s[4]; .visible .entry k(.param .u64 o) { .reg .b32 %r<3>; .reg .b64 %rd; ld.param.u64 %rd, [o];"
        " mov.u32 %r1, %tid.x; st.shared.u32 [s], %r1; ld.shared.u32 %r2, [s]; st.global.u32 [%rd], %r2; ret; }\n"
    )
    out = np.zeros(1, np.uint32)
    assert any(f.kind == "data race" for f in emulate(ptx, None, 1, 64, [out]).findings)
    assert emulate(ptx, None, 1, 64, [out], order=False).findings == []


def test_scalars_by_declared_type() -> None:
    ptx = HEAD + (
        ".visible .entry k(.param .u64 o, .param .f64 a, .param .f32 b, .param .u64 c, .param .s32 d, .param .u16 e, .param .b32 f,"
        " .param .u8 g) {"
        " .reg .b64 %rd<4>; .reg .f32 %f; .reg .b32 %r<6>; .reg .f64 %d; ld.param.u64 %rd0, [o]; ld.param.f64 %d, [a];"
        " ld.param.f32 %f, [b];"
        " ld.param.u64 %rd1, [c]; ld.param.s32 %r0, [d]; ld.param.u16 %r1, [e]; ld.param.b32 %r2, [f]; ld.param.u8 %r3, [g];"
        " st.global.f64 [%rd0], %d; st.global.f32 [%rd0+8], %f; st.global.u64 [%rd0+16], %rd1; st.global.u32 [%rd0+24], %r0;"
        " st.global.u32 [%rd0+28], %r1; st.global.u32 [%rd0+32], %r2; st.global.u32 [%rd0+36], %r3; ret; }\n"
    )
    out = np.zeros(40, np.uint8)
    emulate(ptx, None, 1, 1, [out, 0.1, 2, 2**64 - 1, -5, np.uint16(65535), 1.5, True])
    assert out[:8].view(np.float64)[0] == 0.1 and out[8:12].view(np.float32)[0] == 2.0 and out[16:24].view(np.uint64)[0] == 2**64 - 1
    assert out[24:40].view(np.uint32).tolist() == [2**32 - 5, 65535, 0x3FC00000, 1]


def test_half_scalars_and_structures_by_value() -> None:
    ptx = HEAD + (
        ".visible .entry k(.param .u64 o, .param .align 4 .b8 s[12], .param .b16 h) { .reg .b64 %rd<2>; .reg .b32 %r<4>; .reg .b16 %h;"
        " ld.param.u64 %rd0, [o]; ld.param.u32 %r0, [s]; ld.param.u16 %r1, [s+4]; ld.param.u32 %r2, [s+8]; ld.param.b16 %h, [h];"
        " st.global.v2.u32 [%rd0], {%r0, %r1}; st.global.u32 [%rd0+8], %r2; st.global.b16 [%rd0+12], %h; ret; }\n"
    )
    out = np.zeros(14, np.uint8)
    emulate(ptx, None, 1, 1, [out, np.array([1, 0x10002, 3], np.uint32).tobytes(), ml_dtypes.bfloat16(1.0)])
    assert out[:12].view(np.uint32).tolist() == [1, 2, 3] and out[12:14].view(np.uint16)[0] == 0x3F80


STRUCT = HEAD + (
    ".visible .entry k(.param .u64 o, .param .align 4 .b8 s[12], .param .u32 n) { .reg .b64 %rd<2>; .reg .b32 %r<4>;"
    " ld.param.u64 %rd0, [o]; ld.param.u32 %r0, [s+4]; ld.param.u32 %r1, [n]; st.global.v2.u32 [%rd0], {%r0, %r1}; ret; }\n"
)
FIELDS = [("a", np.uint8), ("b", np.int32), ("c", np.float32)]


def test_a_structured_scalar_is_laid_out_as_c_does() -> None:
    out = np.zeros(2, np.uint32)
    emulate(STRUCT, None, 1, 1, [out, np.array((1, 7, 2.0), np.dtype(FIELDS, align=True))[()], 9])
    assert out.tolist() == [7, 9]


@pytest.mark.parametrize(
    ("fields", "count", "message"),
    [
        (FIELDS, 9, "field b at byte 1 is not aligned to 4"),  # 9 bytes
        ([*FIELDS, ("d", "V3")], 9, "field b at byte 1"),  # 12 bytes, by chance
        ([("a", np.uint32), ("b", [("x", np.uint16), ("y", np.uint32), ("z", np.uint16)])], 9, "field b.y at byte 2"),
        ([("a", np.uint32), ("b", ">u4"), ("c", np.uint32)], 9, "field b of >u4 is not in this machine's byte order"),
        ([("a", np.uint32)], 9, "has 12 bytes"),
        (np.dtype(FIELDS, align=True), np.array((9,), [("x", np.uint32)])[()], "n of type u32 cannot take a structured scalar"),
        (np.dtype(FIELDS, align=True), np.float32(9), "n of type u32 cannot take"),  # the bits of 9.0 are not 9
    ],
)
def test_structured_scalars_that_do_not_fit(fields: object, count: object, message: str) -> None:
    out, struct = np.zeros(2, np.uint32), np.zeros((), np.dtype(fields))[()]
    with pytest.raises(LaunchError, match=re.escape(message)):
        emulate(STRUCT, None, 1, 1, [out, struct, count])
    assert not out.any()


def test_two_entries_need_a_name() -> None:
    both = AXPY + AXPY[len(HEAD) :].replace("axpy", "other")
    x, y = np.ones(4, np.float32), np.ones(4, np.float32)
    with pytest.raises(LaunchError, match="2 entries"):
        emulate(both, None, 1, 4, [x, y, 1.0, 4])
    emulate(both, "other", 1, 4, [x, y, 1.0, 4])
    assert y[0] == 2
    with pytest.raises(LaunchError, match="no entry missing"):
        emulate(both, "missing", 1, 4, [x, y, 1.0, 4])


X, Y = np.ones(4, np.float32), np.ones(4, np.float32)
BASE = np.ones(8, np.float32)
BAD = {
    "3 arguments": ([X, Y, 1.0], 1, 4), "not a pointer|is f32": ([X, Y, X, 4], 1, 4), "cannot take": ([X, Y, "one", 4], 1, 4),
    "u32 cannot take": ([X, Y, 1.0, 2.5], 1, 4), "does not fit": ([X, Y, 1.0, 2**33], 1, 4),
    "complex64": ([X.astype(np.complex64), Y, 1.0, 4], 1, 4),
    "overlap": ([BASE[:5], BASE[3:], 1.0, 4], 1, 4), "strides": ([X[::-1], Y, 1.0, 4], 1, 4), "grid": ([X, Y, 1.0, 4], 0, 4),
    "block": ([X, Y, 1.0, 4], 1, (1, 2, 3, 4)), "block.x is 2048": ([X, Y, 1.0, 4], 1, 2048),
}  # fmt: skip


@pytest.mark.parametrize("message", list(BAD))
def test_arguments_that_do_not_fit(message: str) -> None:
    args, grid, block = BAD[message]
    with pytest.raises(LaunchError, match=message):
        emulate(AXPY, None, grid, block, args)


def test_other_failures_are_errors_of_ours_and_leave_arguments_alone() -> None:
    y = np.ones(4, np.float32)
    with pytest.raises(ParseError):
        emulate("not ptx", None, 1, 4, [])
    with pytest.raises(UnsupportedError, match="tex"):
        emulate(
            AXPY.replace("fma.rn.f32 %f4, %f1, %f2, %f3;", "tex.1d.v4.f32.f32 {%f4, %f4, %f4, %f4}, [%rd1, {%f1}];"),
            None,
            1,
            4,
            [X, y, 1.0, 4],
        )
    endless = AXPY.replace("DONE: ret;", "mov.u32 %r1, 0; DONE: add.u32 %r1, %r1, 1; bra DONE;")
    with pytest.raises(BudgetError):
        emulate(endless, None, 1, 4, [X, y, 5.0, 4], budget=Budget(thread_instructions=10_000))
    assert np.array_equal(y, np.ones(4))


def test_tensor_core_products_are_exact_for_small_integers() -> None:
    """mma.m16n8k16 f16 with f32 accumulator: A is one row of ones, B one column of twos; fragments as in the ISA's figures."""
    ptx = HEAD + (
        ".visible .entry k(.param .u64 o, .param .u64 a, .param .u64 b) { .reg .b64 %rd<6>; .reg .b32 %a<4>; .reg .b32 %b<2>;"
        " .reg .b32 %r<4>;"
        " .reg .f32 %d<4>; ld.param.u64 %rd0, [o]; ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r0, %tid.x;"
        " mul.wide.u32 %rd3, %r0, 16; add.s64 %rd1, %rd1, %rd3; add.s64 %rd0, %rd0, %rd3; mul.wide.u32 %rd4, %r0, 8;"
        " add.s64 %rd2, %rd2, %rd4;"
        " ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%rd1]; ld.global.v2.b32 {%b0, %b1}, [%rd2];"
        " mov.f32 %d0, 0f3F800000; mov.f32 %d1, %d0; mov.f32 %d2, %d0; mov.f32 %d3, %d0;"
        " mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%d0, %d1, %d2, %d3}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%d0, %d1, %d2, %d3};"
        " st.global.v4.f32 [%rd0], {%d0, %d1, %d2, %d3}; ret; }\n"
    )
    rng = np.random.default_rng(1)
    A, B = (rng.integers(-8, 9, shape).astype(np.float16) for shape in ((16, 16), (16, 8)))
    lane = np.arange(32)
    group, inside = lane // 4, lane % 4 * 2
    rows, cols = (group, group + 8, group, group + 8), (inside, inside, inside + 8, inside + 8)
    a = np.stack([A[r, c + k] for r, c in zip(rows, cols) for k in (0, 1)], 1).copy()
    b = np.stack([B[inside + base + k, group] for base in (0, 8) for k in (0, 1)], 1).copy()
    out = np.zeros((32, 4), np.float32)
    assert not emulate(ptx, None, 1, 32, [out, a, b]).findings
    wanted = A.astype(np.float64) @ B.astype(np.float64) + 1
    got = np.stack([wanted[group + 8 * (i // 2), inside + i % 2] for i in range(4)], 1)
    assert np.array_equal(out, got)
