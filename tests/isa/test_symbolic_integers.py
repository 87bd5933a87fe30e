"""Integer instructions on symbolic data: the terms, evaluated at random inputs, are the bits; what has no exact meaning is refused."""

from __future__ import annotations

import numpy as np
import pytest
from symbolic_twin import check, symbolic_results

from ptx_engine.errors import NotStructuredError, UnsupportedError

COUNT = 64
RNG = np.random.default_rng(11)
EDGES = [0, 1, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 255, 256, 0x80808080]
A = np.array(EDGES + RNG.integers(0, 2**32, COUNT - 8).tolist(), np.uint32).view(np.int32)
B = np.array(EDGES[::-1] + RNG.integers(0, 2**32, COUNT - 8).tolist(), np.uint32).view(np.int32)
REGISTERS = ".reg .b16 %h<9>; .reg .b32 %q<9>; .reg .b64 %rd<9>; .reg .b8 %b<9>; .reg .pred %s<3>; "
LANE = "mov.u32 %q8, %tid.x; and.b32 %q8, %q8, 31; "

WORDS = [
    "add.s32 d0,a0,a1;", "sub.s32 d0,a0,a1;", "mul.lo.s32 d0,a0,a1;", "mul.hi.s32 d0,a0,a1;", "mul.hi.u32 d0,a0,a1;", "mad.lo.s32 d0,a0,a1,a0;",
    "mad.hi.u32 d0,a0,a1,a0;", "add.sat.s32 d0,a0,a1;", "sub.sat.s32 d0,a0,a1;", "div.s32 d0,a0,7;", "div.s32 d0,a0,-3;", "div.u32 d0,a0,7;",
    "rem.s32 d0,a0,7;", "rem.u32 d0,a0,10;", "min.s32 d0,a0,a1;", "min.u32 d0,a0,a1;", "max.u32 d0,a0,5;", "abs.s32 d0,a0;", "neg.s32 d0,a0;",
    "sad.s32 d0,a0,a1,a0;", "sad.u32 d0,a0,a1,3;", "min.relu.s32 d0,a0,a1;",
    "and.b32 d0,a0,a1;", "or.b32 d0,a0,a1;", "xor.b32 d0,a0,a1;", "not.b32 d0,a0;", "cnot.b32 d0,a0;", "and.b32 d0,a0,255;", "and.b32 d0,a0,0xff00ff00;",
    "or.b32 d0,a0,0xf0;", "xor.b32 d0,a0,0x80000000;", "xor.b32 d0,a0,0x0ff0;", "xor.b32 d0,a0,a0;", "xor.b32 %q1,a0,a1; and.b32 d0,%q1,0xff;",
    "lop3.b32 d0,a0,0x000f000f,0x64006400,0xEA;", "lop3.b32 d0,a0,a1,a0,0x96;", "lop3.b32 d0,a0,a1,0x0f0f0f0f,0x6a;", "lop3.b32 d0,a0,a1,a1,0xe8;",
    "shl.b32 d0,a0,5;", "shr.u32 d0,a0,5;", "shr.s32 d0,a0,5;", "shr.s32 d0,a0,31;", "shr.s32 d0,a0,40;", "shl.b32 d0,a0,32;",
    "shl.b32 d0,a0,28; shr.s32 d0,d0,28;", LANE + "shr.u32 d0,a0,%q8;", LANE + "shl.b32 d0,a0,%q8;", LANE + "shr.s32 d0,a0,%q8;",
    "bfe.u32 d0,a0,4,8;", "bfe.s32 d0,a0,4,8;", "bfe.s32 d0,a0,28,8;", "bfe.u32 d0,a0,28,8;", "bfe.s32 d0,a0,40,8;", "bfe.u32 d0,a0,40,8;",
    "bfe.s32 d0,a0,3,0;", "bfi.b32 d0,a0,a1,4,8;", "bfi.b32 d0,a0,a1,28,8;", "bfi.b32 d0,a0,a1,0,32;", "bfi.b32 d0,a0,a1,40,3;",
    "prmt.b32 d0,a0,a1,0x5140;", "prmt.b32 d0,a0,a1,0x8880;", "prmt.b32 d0,a0,a1,0xba32;", "prmt.b32 d0,a0,a1,0x9911;", "prmt.b32 d0,a0,a1,0x7654;",
    "prmt.b32.b4e d0,a0,a1,1;", "shf.l.wrap.b32 d0,a0,a1,7;", "shf.r.wrap.b32 d0,a0,a1,39;", "shf.r.clamp.b32 d0,a0,a1,32;", "shf.l.wrap.b32 d0,a0,a0,16;",
    "cvt.s32.s8 d0,a0;", "cvt.u32.u8 d0,a0;", "cvt.s32.s16 d0,a0;", "cvt.sat.s8.s32 d0,a0;", "cvt.sat.u8.s32 d0,a0;", "cvt.u32.s8 d0,a0;",
    "szext.clamp.s32 d0,a0,5;", "szext.wrap.u32 d0,a0,9;", "dp4a.s32.u32 d0,a0,a1,a0;", "dp2a.hi.u32.s32 d0,a0,a1,5;", "dp4a.u32.s32 d0,a0,0x01020304,7;",
    "add.s16x2 d0,a0,a1;", "min.u16x2 d0,a0,a1;", "max.relu.s16x2 d0,a0,a1;",
    "setp.lt.s32 %s1,a0,a1; selp.b32 d0,a0,a1,%s1;", "setp.lo.u32 %s1,a0,a1; selp.b32 d0,a0,7,%s1;", "setp.eq.s32 %s1,a0,5; selp.b32 d0,100,7,%s1;",
    # a half that is bits on both sides of a selection
    "mov.b32 {%h1,%h2},a0; mov.b16 %h1,0; mov.b32 %q1,{%h1,%h2}; setp.lt.s32 %s1,a0,a1; selp.b32 d0,%q1,7,%s1;",
    "mov.b32 {%h1,%h2},a0; mov.b16 %h1,9; mov.b32 %q1,{%h1,%h2}; setp.lt.s32 %s1,a0,a1; selp.b32 d0,%q1,9,%s1;",
    "mov.b32 {%h1,%h2},a0; mov.b16 %h2,-3; mov.b32 %q1,{%h1,%h2}; setp.ge.s32 %s1,a0,a1; selp.b32 d0,0x70009,%q1,%s1; shr.s32 d0,d0,4;",
    "mov.b32 {%h1,%h2},a0; mov.b16 %h1,9; mov.b32 %q1,{%h1,%h2}; mov.b32 d0,7; setp.lt.s32 %s1,a0,a1; @%s1 bra M; mov.b32 d0,%q1; M: add.s32 d0,d0,0;",
    "and.b32 d0,a0,0x0f; shl.b32 d0,d0,4; or.b32 d0,d0,0x03;", "and.b32 d0,a0,0xff; add.s32 d0,d0,1; and.b32 d0,d0,0xff;",
    "and.b32 d0,a0,0xff; and.b32 %q1,a1,0xff; shl.b32 %q1,%q1,8; add.s32 d0,d0,%q1; shr.u32 d0,d0,4;",
    "cvt.s64.s32 %rd1,a0; mov.b64 {%q1,%q2},%rd1; xor.b32 d0,%q1,%q2;", "mul.wide.s32 %rd1,a0,a1; shr.s64 %rd1,%rd1,20; cvt.u32.u64 d0,%rd1;",
    "cvt.s64.s32 %rd1,a0; mov.b64 {%q1,%q2},%rd1; mov.b64 %rd2,{%q1,%q2}; shr.s64 %rd2,%rd2,7; cvt.u32.u64 d0,%rd2;",
]  # fmt: skip


@pytest.mark.parametrize("text", WORDS)
def test_words(text: str) -> None:
    check(REGISTERS + text, (A, B), (np.int32,))


#: a constant in some lanes widens what is known about the others
RANGES = [
    LANE + "setp.lt.u32 %s1,%q8,9; selp.b32 d0,a0,100000,%s1; shr.s32 d0,d0,3;",
    LANE + "setp.lt.u32 %s1,%q8,9; and.b32 d0,a0,15; selp.b32 d0,d0,100000,%s1; and.b32 d0,d0,0x1ffff; add.u32 d0,d0,1;",
    LANE + "setp.lt.u32 %s1,%q8,9; and.b32 d0,a0,15; @%s1 mov.b32 d0, 0xfffffff0; shr.s32 d0,d0,2;",
    LANE + "setp.lt.u32 %s1,%q8,9; and.b32 d0,a0,15; @%s1 bra M; mov.b32 d0, 4096; M: shr.u32 d0,d0,4;",
    "setp.gt.s32 %s1,a0,a1; and.b32 d0,a0,15; selp.b32 d0,d0,70000,%s1; shl.b32 d0,d0,16; shr.u32 d0,d0,16;",
]  # fmt: skip


@pytest.mark.parametrize("text", RANGES)
def test_ranges_cover_constants_of_other_lanes(text: str) -> None:
    check(REGISTERS + text, (A, B), (np.int32,))


HALVES = "mov.b32 {%h1,%h2}, %q1; cvt.f32.f16 d0,%h1; cvt.f32.f16 d1,%h2;"
HALF_TRICKS = [
    "lop3.b32 %q1,a0,0x000f000f,0x64006400,0xEA;", "lop3.b32 %q1,a0,0x00f000f0,0x64006400,0xEA;", "and.b32 %q1,a0,0x00ff00ff; or.b32 %q1,%q1,0x64006400;",
    "shr.u32 %q2,a0,8; lop3.b32 %q1,%q2,0x000f000f,0x64006400,0xEA; mov.b32 %q3,0x64086408; sub.f16x2 %q1,%q1,%q3;",
    "lop3.b32 %q1,a0,0x00f000f0,0x64006400,0xEA; mov.b32 %q3,0x2c002c00; mov.b32 %q4,0xd480d480; fma.rn.f16x2 %q1,%q1,%q3,%q4;",
    "prmt.b32 %q1,a0,0x64646464,0x5150;", "prmt.b32 %q1,a0,0x64646464,0x5352;",
    "xor.b32 %q2,a0,0x80808080; prmt.b32 %q1,%q2,0x64646464,0x5250; mov.b32 %q3,0x64806480; sub.f16x2 %q1,%q1,%q3;",
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["s32", "s8", "u8"])
@pytest.mark.parametrize("text", HALF_TRICKS)
def test_magic_numbers_of_halves(text: str, dtype: str) -> None:
    check(REGISTERS + text + HALVES, (A,), (np.float32, np.float32), [dtype])


NUMBERS = [
    "prmt.b32 %q1,a0,0x4B000000,0x7650; sub.f32 d0,%q1,0f4B000000;", "and.b32 %q1,a0,0xff; or.b32 %q1,%q1,0x4B000000; sub.f32 d0,%q1,0f4B000000;",
    "and.b32 %q1,a0,0x7fffff; xor.b32 %q1,%q1,0x4B400000; sub.f32 d0,%q1,0f4B400000;", "cvt.s8.s32 %q1,a0; cvt.rn.f32.s32 d0,%q1;",
    "cvt.rn.f32.s8 d0,a0;", "cvt.rn.f32.u8 d0,a0;", "shr.s32 %q1,a0,24; cvt.rn.f32.s32 d0,%q1;", "bfe.s32 %q1,a0,8,8; cvt.rn.f32.s32 d0,%q1;",
    "shl.b32 %q1,a0,24; shr.s32 %q1,%q1,24; cvt.rn.f32.s32 d0,%q1;", "bfe.s32 %q1,a0,12,4; cvt.rn.f32.s32 d0,%q1;",
    "mov.b32 {%h1,%h2},a0; shr.s16 %h3,%h1,8; cvt.rn.f32.s16 d0,%h3;", "mov.b32 {%h1,%h2},a0; and.b16 %h3,%h1,255; cvt.rn.f32.u16 d0,%h3;",
    "mov.b32 {%h1,%h2},a0; shl.b16 %h3,%h1,12; shr.s16 %h3,%h3,12; cvt.rn.f32.s16 d0,%h3;", "mov.b32 {%b1,%b2,%b3,%b4},a0; cvt.rn.f32.s8 d0,%b3;",
    "mov.b32 {%h1,%h2},a0; and.b16 %h3,%h1,15; add.s16 %h3,%h3,-8; and.b16 %h3,%h3,255; cvt.s16.s8 %h4,%h3; cvt.rn.f32.s16 d0,%h4;",
    "and.b32 %q1,a0,0xffff; mov.b64 %rd1,{%q1,1127219200}; sub.f64 %rd1,%rd1,0d4330000000000000; cvt.rn.f32.f64 d0,%rd1;",
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["s8", "u8", "s16", "s32", "u32"])
@pytest.mark.parametrize("text", NUMBERS)
def test_fields_as_numbers(text: str, dtype: str) -> None:
    check(REGISTERS + text, (A,), (np.float32,), [dtype])


FLOATS = RNG.standard_normal(COUNT).astype(np.float32)
FLOAT_BITS = [
    "and.b32 d0,a0,0x7fffffff;", "xor.b32 d0,a0,0x80000000;", "or.b32 d0,a0,0x80000000;", "lop3.b32 d0,a0,0x7fffffff,0x80000000,0xEA;",
    "lop3.b32 d0,0x7fffffff,a0,a1,0xCA;", "prmt.b32 %q1,a0,a0,0x0123; prmt.b32 d0,%q1,%q1,0x0123;", "mov.b32 {%h1,%h2},a0; mov.b32 d0,{%h1,%h2};",
    "shf.l.wrap.b32 %q1,a0,a0,16; shf.l.wrap.b32 d0,%q1,%q1,16;", "xor.b32 %q1,a0,0x80000000; xor.b32 d0,%q1,0x80000000;",
    "cvt.f64.f32 %rd1,a0; mov.b64 {%q1,%q2},%rd1; shfl.sync.bfly.b32 %q3,%q1,1,31,-1; shfl.sync.bfly.b32 %q4,%q2,1,31,-1; mov.b64 %rd2,{%q3,%q4}; "
    "cvt.rn.f32.f64 d0,%rd2;",
]  # fmt: skip


@pytest.mark.parametrize("text", FLOAT_BITS)
def test_moves_and_signs_of_floats(text: str) -> None:
    check(REGISTERS + text, (FLOATS, FLOATS[::-1].copy()), (np.float32,))


PARTNER = "shfl.sync.bfly.b32 %q1,a0,1,31,-1; "
EXCHANGES = [
    PARTNER + "setp.lt.KIND %s1,%q1,a0; xor.b32 %q2,a0,%q1; selp.b32 %q3,%q2,0,%s1; xor.b32 d0,a0,%q3;",
    PARTNER + LANE + "and.b32 %q8,%q8,1; setp.ne.u32 %s2,%q8,0; setp.lt.KIND %s1,%q1,a0; xor.pred %s1,%s1,%s2; xor.b32 %q2,%q1,a0; "
    "selp.b32 %q3,%q2,0,%s1; xor.b32 d0,%q3,a0;",
    PARTNER + LANE + "and.b32 %q8,%q8,1; setp.ne.u32 %s2,%q8,0; xor.b32 %q2,%q1,a0; selp.b32 %q3,%q2,0,%s2; xor.b32 d0,%q3,a0;",
    PARTNER + "xor.b32 %q2,a0,%q1; xor.b32 d0,%q2,a0;",
    # one word computed twice: two terms, built alike
    PARTNER + "setp.lt.KIND %s1,%q1,a0; selp.b32 %q2,%q1,a0,%s1; selp.b32 %q3,%q1,a0,%s1; xor.b32 %q4,%q1,%q3; xor.b32 d0,%q4,%q2;",
]  # fmt: skip


@pytest.mark.parametrize("text", EXCHANGES)
def test_words_that_occur_twice_in_an_exclusive_or_cancel(text: str) -> None:
    check(REGISTERS + text.replace("KIND", "f32"), (FLOATS,), (np.float32,))
    check(REGISTERS + text.replace("KIND", "s32"), (A,), (np.int32,))


def test_an_exclusive_or_of_floats_is_no_number() -> None:
    nearly = "selp.b32 %q3,%q1,a0,%s1; selp.b32 %q4,a0,%q1,%s1; xor.b32 %q5,%q1,%q3; xor.b32 d0,%q5,%q4;"
    for tail in ("add.f32 d0,%q2,a0;", "mov.b32 d0,%q2;", "selp.b32 %q3,%q2,1,%s1; xor.b32 d0,%q3,a0;", nearly):
        with pytest.raises(NotStructuredError):
            symbolic_results(REGISTERS + PARTNER + "setp.lt.f32 %s1,%q1,a0; xor.b32 %q2,a0,%q1; " + tail, (FLOATS,), (np.float32,))


REFUSED = [
    ("popc.b32 d0,a0;", np.int32), ("clz.b32 d0,a0;", np.int32), ("brev.b32 d0,a0;", np.int32), ("bfind.u32 d0,a0;", np.int32), ("div.s32 d0,a1,a0;", np.int32),
    ("lop3.b32 d0,a0,a1,0xff00ff00,0xCA;", np.int32), ("add.cc.u32 d0,a0,a1;", np.int32), ("prmt.b32 d0,a0,a1,a0;", np.int32),
    ("fns.b32 d0,a0,0,1;", np.int32), ("mul24.lo.u32 d0,a0,a1;", np.int32),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind"), REFUSED)
def test_what_has_no_exact_meaning_is_refused_by_name(text: str, kind: type) -> None:
    with pytest.raises((NotStructuredError, UnsupportedError)) as error:
        symbolic_results(REGISTERS + text, (A, B), (kind,))
    assert error.value.feature and error.value.span is not None


@pytest.mark.parametrize(
    "text", ["add.s32 d0,a0,1;", "shl.b32 d0,a0,1;", "and.b32 d0,a0,0xffff0000;", "or.b32 d0,a0,1;", "mul.lo.s32 d0,a0,3;"]
)
def test_arithmetic_on_bits_of_floats_is_refused(text: str) -> None:
    with pytest.raises(NotStructuredError):
        symbolic_results(REGISTERS + text, (FLOATS, FLOATS), (np.float32,))
