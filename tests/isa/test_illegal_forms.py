"""Instructions that ptxas refuses are refused here, each beside the nearest legal one; a slow test asks ptxas about both columns."""

from __future__ import annotations

import numpy as np
import pytest
from assembler import complaints

from ptx_engine import emulate
from ptx_engine.errors import ParseError, UnsupportedError

#: legal, illegal; registers are %p %h %r %d %q by width, %f .f32, %e .f64, %s .s32, %g .f16; gv is a .global and sv a .shared variable
PAIRS = [
    # loads and stores: types, vectors, spaces and hints
    ("ld.global.b16 %h0, [%d0];", "ld.global.f16 %h0, [%d0];"), ("st.global.b32 [%d0], %r0;", "st.global.f16x2 [%d0], %r0;"),
    ("ld.global.v2.b64 {%d0, %d1}, [%d0];", "ld.global.v2.b128 {%q0, %q1}, [%d0];"), ("ld.global.nc.u32 %r0, [%d0];", "ld.shared.nc.u32 %r0, [sv];"),
    ("ld.global.nc.u32 %r0, [%d0];", "ld.nc.u32 %r0, [%d0];"), ("ld.global.ca.u32 %r0, [%d0];", "ld.global.wb.u32 %r0, [%d0];"),
    ("st.global.wt.u32 [%d0], %r0;", "st.global.cv.u32 [%d0], %r0;"), ("st.global.wb.u32 [%d0], %r0;", "st.global.ca.u32 [%d0], %r0;"),
    ("ld.relaxed.cta.shared.u32 %r0, [sv];", "ld.relaxed.cta.local.u32 %r0, [lv];"), ("ld.volatile.shared.u32 %r0, [sv];", "ld.volatile.const.u32 %r0, [cv];"),
    ("ld.acquire.gpu.global.u32 %r0, [%d0];", "ld.acquire.gpu.param.u32 %r0, [kp];"), ("st.release.gpu.u32 [%d0], %r0;", "st.release.gpu.local.u32 [lv], %r0;"),
    ("ld.global.L1::evict_last.u32 %r0, [%d0];", "ld.shared.L1::evict_last.u32 %r0, [sv];"),
    ("ld.global.L1::evict_last.u32 %r0, [%d0];", "ld.global.cg.L1::evict_last.u32 %r0, [%d0];"),
    ("ld.global.L2::128B.u32 %r0, [%d0];", "ld.local.L2::128B.u32 %r0, [lv];"), ("st.local.u32 [lv], %r0;", "st.const.u32 [cv], %r0;"),
    ("ld.global.L2::cache_hint.u32 %r0, [%d0], %d1;", "ld.global.u32 %r0, [%d0], %d1;"),
    ("ld.global.L2::cache_hint.u32 %r0, [%d0], %d1;", "ld.global.L2::cache_hint.u32 %r0, [%d0], %r1;"),
    ("ld.global.u32 %r0, [gv];", "ld.shared.u32 %r0, [gv];"), ("ld.shared.u32 %r0, [sv];", "ld.global.u32 %r0, [sv];"),
    ("ld.global.f32 %f0, [%d0];", "ld.global.f32 %s0, [%d0];"), ("ld.global.u32 %s0, [%d0];", "ld.global.u32 %f0, [%d0];"),
    ("ld.global.u32 %r0, [%d0];", "ld.global.u32 %r0, [%e0];"),
    ("st.global.b32 [%d0], 0f3F800000;", "st.global.b32 [%d0], 1.5;"),
    # atomics
    ("atom.global.add.L2::cache_hint.u32 %r0, [%d0], %r1, %d1;", "atom.shared.add.L2::cache_hint.u32 %r0, [sv], %r1, %d1;"),
    ("atom.global.add.f32 %f0, [%d0], 0f3F800000;", "atom.global.add.f32 %f0, [%d0], 1;"), ("atom.global.and.b32 %r0, [%d0], %r1;", "atom.global.and.u32 %r0, [%d0], %r1;"),
    ("red.global.or.b32 [%d0], %r1;", "red.global.or.b32 [%d0], 1.5;"), ("cp.async.ca.shared.global [sv], [%d0], 4, 4;", "cp.async.ca.shared.global [sv], [%d0], 4, 8;"),
    # barriers
    ("barrier.arrive.aligned 1, 64;", "barrier.aligned.arrive 1, 64;"), ("barrier.red.aligned.or.pred %p0, 1, %p1;", "barrier.aligned.red.or.pred %p0, 1, %p1;"),
    ("barrier.aligned.sync 1;", "barrier.aligned.sync.aligned 1;"),
    # conversions
    ("cvt.rn.f16.f32 %h0, %f0;", "cvt.f16.f32 %h0, %f0;"), ("cvt.f64.f32 %e0, %f0;", "cvt.rn.f64.f32 %e0, %f0;"),
    ("cvt.rn.ftz.f32.s32 %f0, %r0;", "cvt.rn.ftz.f64.s32 %e0, %r0;"), ("cvt.sat.u16.u32 %h0, %r0;", "cvt.sat.u32.u16 %r0, %h0;"),
    ("cvt.rn.bf16.s32 %h0, %r0;", "cvt.rn.bf16.s8 %h0, %r0;"), ("cvt.rzi.s32.bf16 %r0, %h0;", "cvt.rzi.sat.s32.bf16 %r0, %h0;"),
    ("cvt.u16.u32 %h0, %tid.x;", "cvt.u32.u32 %r0, gv;"),
    # operands of other kinds
    ("add.s32 %r0, %s0, 1;", "add.s32 %r0, %f0, 1;"), ("add.f32 %r0, %f0, %r1;", "add.f32 %r0, %s0, %r1;"), ("add.f16 %h0, %g0, %h1;", "add.bf16 %h0, %g0, %h1;"),
    ("and.b32 %r0, %f0, %s0;", "popc.b32 %f0, %r0;"), ("add.u32 %r0, %r1, 1;", "add.f16x2 %r0, %r1, 1;"),
    ("mov.u32 %r0, %tid.x;", "add.u32 %r0, %r1, %tid.x;"), ("mov.u64 %d0, gv;", "add.u64 %d0, %d1, gv;"), ("mov.u16 %h0, %tid.x;", "mov.u32 %h0, %tid.x;"),
    ("bfe.u32 %r0, %r1, 255, 1;", "bfe.u32 %r0, %r1, 256, 1;"), ("bfi.b32 %r0, %r1, %r2, 0, 8;", "bfi.b32 %r0, %r1, %r2, 0, -1;"),
    ("lop3.or.b32 %r0|%p0, %r1, %r2, %r3, 1, %p1;", "lop3.or.b32 %r0, %r1, %r2, %r3, 1, %p1;"),
    ("setp.eq.f32 %p0|%p1, %f0, %f1;", "setp.eq.f16 %p0|%p1, %h0, %h1;"), ("setp.eq.ftz.f16 %p0, %h0, %h1;", "setp.eq.ftz.bf16 %p0, %h0, %h1;"),
    ("set.eq.ftz.u32.f32 %r0, %f0, %f1;", "set.eq.ftz.u32.f64 %r0, %e0, %e1;"), ("match.all.sync.b32 %r0|%p0, %r1, -1;", "match.any.sync.b32 %r0|%p0, %r1, -1;"),
    ("elect.sync %r0|%p0, -1;", "elect.sync %r0, -1;"), ("@%p0 add.u32 %r0, %r1, %r2;", "@%r0 add.u32 %r0, %r1, %r2;"),
    ("mad.rn.f32 %f0, %f1, %f2, %f0;", "mad.f32 %f0, %f1, %f2, %f0;"), ("mul.wide.u32 %d0, %r1, %r2;", "mul.wide.u64 %q0, %d1, %d2;"),
    ("createpolicy.fractional.L2::evict_first.b64 %d0, 0.5;", "createpolicy.fractional.L2::evict_first.b64 %d0, 1.5;"),
    ("createpolicy.range.L2::evict_first.b64 %d0, [%d1], %r0, %r1;", "createpolicy.range.L2::evict_first.b64 %d0;"),
    ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [sv];", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 %r0, [sv];"),
    ("prefetch.global.L1 [%d0];", "prefetch.global.L1 %d0;"), ("applypriority.global.L2::evict_normal [%d0], 128;", "applypriority.global.L2::evict_normal [%d0], 64;"),
    ("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r0, %r1}, {%r2, %r3}, {%r4}, {%r5, %r6};",
     "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f32 {%r0, %r1}, {%r2, %r3}, {%r4}, {%r5, %r6, %r7, %r8};"),
    # addresses
    ("ld.param.u64 %d0, [kp];", "st.param.u64 [kp], %d0;"), ("ld.local.u32 %r0, [16];", "ld.global.u32 %r0, [1024];"),
    ("st.local.u32 [16], %r0;", "st.shared.u32 [16], %r0;"), ("atom.shared.add.u32 %r0, [%r1], %r2;", "atom.shared.add.u32 %r0, [16], %r2;"),
    ("ld.shared.u32 %r0, [%r1];", "ld.shared.u32 %r0, [%q0];"), ("ld.shared.u32 %r0, [%r1];", "ld.shared.u32 %r0, [%f0];"),
    ("mbarrier.init.shared.b64 [sv], 1;", "mbarrier.init.b64 [gv], 1;"), ("prefetch.local.L2 [lv];", "prefetchu.L1 [lv];"),
    ("createpolicy.range.global.L2::evict_first.b64 %d0, [gv], %r0, %r1;", "createpolicy.range.global.L2::evict_first.b64 %d0, [sv], %r0, %r1;"),
    ("cvta.shared.u64 %d0, sv;", "cvta.shared.u64 %d0, gv;"), ("cvta.global.u64 %d0, gv+4;", "cvta.to.global.u64 %d0, gv;"),
    # moves
    ("mov.b32 %f0, %tid.x;", "mov.f32 %f0, %tid.x;"), ("mov.u64 %d0, %clock64;", "mov.u32 %r0, %clock64;"), ("mov.b64 %d0, gv;", "mov.f64 %d0, gv;"),
    ("mov.b32 {%h0, %h1}, %r0;", "mov.u32 {%h0, %h1}, %r0;"), ("mov.b64 %d0, {%r0, %r1};", "mov.u64 %d0, {%r0, %r1};"),
    ("mov.b64 {%f0, %r1}, %d0;", "mov.b64 {%h0, %r1}, %d0;"), ("mov.b64 {%r0, _}, %d0;", "mov.b64 {_, _}, %d0;"),
    ("mov.b64 {%h0, %h1, %h2, %h3}, %d0;", "mov.b64 {%h0, %h1}, %d0;"), ("mov.b64 %d0, {%r0, 0f3F800000};", "mov.b64 %d0, {%r0, sv};"),
    ("mov.b32 %r0, 0f3F800000;", "mov.b32 %r0, 1.5;"), ("mov.b128 %q0, {%d0, %d1};", "mov.b128 %q0, %tid.x;"),
    # vectors
    ("ld.global.v2.f32 {%f0, %r1}, [%d0];", "ld.global.v2.f32 {%f0, %d1}, [%d0];"), ("st.shared.v2.u16 [sv], {%h0, %h1};", "st.shared.v2.u16 [sv], {%h0, %r1};"),
    ("atom.global.v2.f32.add {%f0, %f1}, [%d0], {%f2, %r0};", "atom.global.v2.f32.add {%d1, %d2}, [%d0], {%f2, %r0};"),
    ("red.global.max.s32 [%d0], %r0;", "red.global.max.s32 [%d0], {%r0};"), ("ld.global.v2.u32 {%r0, _}, [%d0];", "ld.global.v2.u32 {_, _}, [%d0];"),
    # results that are left out, and second ones
    ("vote.sync.all.pred %p0, %p1, -1;", "vote.sync.all.pred _, %p1, -1;"), ("vote.sync.ballot.b32 %f0, %p0, -1;", "vote.sync.ballot.b32 _, %p0, -1;"),
    ("lop3.or.b32 _|%p0, %r1, %r2, %r3, 1, %p1;", "lop3.or.b32 %r0|_, %r1, %r2, %r3, 1, %p1;"), ("setp.eq.u32 %p0|_, %r0, %r1;", "setp.eq.u32 _|_, %r0, %r1;"),
    ("setp.eq.u32 _|%p0, %r0, %r1;", "setp.eq.u32 %p0|%r0, %r0, %r1;"), ("shfl.sync.up.b32 %r0|_, %r1, 1, 0, -1;", "shfl.sync.up.b32 %r0|%r1, %r1, 1, 0, -1;"),
    ("elect.sync _|%p0, -1;", "elect.sync %r0|_, -1;"), ("match.all.sync.b32 %r0|_, %r1, -1;", "match.all.sync.b32 %r0|%r2, %r1, -1;"),
    ("mbarrier.arrive.shared.b64 _, [sv];", "mbarrier.test_wait.shared.b64 _, [sv], %d0;"),
    # votes and barriers
    ("vote.sync.ballot.b32 %r0, !%p0, %s0;", "vote.sync.ballot.b32 %r0, %p0, %f0;"), ("redux.sync.and.b32 %r0, %s1, -1;", "redux.sync.and.b32 %r0, %f1, -1;"),
    ("bar.sync 15;", "bar.sync 16;"), ("bar.sync 1, 96;", "bar.sync 1, 80;"), ("bar.sync 1, 0;", "bar.arrive 1, 0;"), ("bar.sync %r0, %r1;", "bar.sync %r0, %f1;"),
    ("bar.cta.sync 0;", "bar.sync.cta 0;"), ("barrier.sync.aligned 0;", "bar.sync.aligned 0;"), ("bar.sync 1, 64;", "bar.sync 1, 64, 0;"),
    ("bar.red.popc.u32 %r0, 1, %p0;", "bar.red.popc.u32 %d0, 1, %p0;"), ("bar.red.and.pred %p1, 1, !%p0;", "bar.red.and.u32 %r1, 1, %p0;"),
    ("barrier.cta.red.or.aligned.pred %p1, 1, 64, %p0;", "barrier.cta.red.xor.aligned.pred %p1, 1, 64, %p0;"),
    ("mbarrier.arrive.shared.b64 %d0, [sv], %r0;", "mbarrier.arrive.shared.b64 %r1, [sv], %r0;"), ("mbarrier.arrive.shared.b64 %d0, [sv], 1;", "mbarrier.arrive.shared.b64 %d0, [sv], 0;"),
    ("mbarrier.arrive.noComplete.release.cta.shared.b64 %d0, [sv], 1;", "mbarrier.arrive.noComplete.relaxed.cta.shared.b64 %d0, [sv], 1;"),
    ("mbarrier.try_wait.parity.shared.b64 %p0, [sv], 1;", "mbarrier.try_wait.parity.shared.b64 %p0, [sv], 2;"),
    ("mbarrier.test_wait.shared.b64 %p0, [sv], %d0;", "mbarrier.test_wait.shared.b64 %r0, [sv], %d0;"), ("mbarrier.pending_count.b64 %r0, %d0;", "mbarrier.pending_count.b64 %d1, %d0;"),
    ("mbarrier.init.shared.b64 [sv], %s0;", "mbarrier.init.shared.b64 [sv], %f0;"),
    # copies, matrices and policies
    ("cp.async.ca.shared.global [sv], [%d0], 16, %s0;", "cp.async.ca.shared.global [sv], [%d0], 16, %f0;"), ("createpolicy.cvt.L2.b64 %d0, %d1;", "createpolicy.cvt.L2.b64 %r0, %d1;"),
    ("createpolicy.range.L2::evict_first.b64 %d0, [%d1], 16, 16;", "createpolicy.range.L2::evict_first.b64 %d0, [%d1], 32, 16;"),
    ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [sv], {%f0};", "stmatrix.sync.aligned.m8n8.x1.shared.b16 [sv], {0};"),
    ("movmatrix.sync.aligned.m8n8.trans.b16 %f0, %f1;", "movmatrix.sync.aligned.m8n8.trans.b16 %r0, 0;"),
    # conversions between registers of other widths
    ("cvt.s32.u16 %d0, %h1;", "cvt.s32.u16 %h0, %h1;"), ("cvt.rn.f16.f32 %r0, %f1;", "cvt.rn.bf16.f32 %r0, %f1;"), ("cvt.f32.f16 %f0, %r1;", "cvt.f32.bf16 %f0, %r1;"),
    ("cvt.rs.f16x2.f32 %r0, %f0, %f1, %r2;", "cvt.rs.f16x2.f32 %r0, %f0, %f1, %s2;"), ("cvt.u32.u8 %r0, %h1;", "cvt.pack.sat.u16.s32 %h0, %r1, %r2;"),
    ("cvt.pack.sat.u16.s32 %d0, %r1, %r2;", "cvt.pack.sat.u16.s32 %r0, %tid.x, %r2;"), ("cvt.s16.u32 %h0, %tid.x;", "cvt.rn.f32.u32 %f0, %tid.x;"),
    # control flow
    ("bra.uni END;", "bra.foo END;"), ("bra END;", "bra END, END;"), ("exit;", "exit.uni;"), ("@%p0 trap;", "trap 0;"), ("ret.uni;", "ret 0;"),
]  # fmt: skip
#: the same, where some versions of ptxas say nothing
TEXT_ONLY = [
    ("ld.global.u32 %r0, [%d0];", "ld.global.u32 _, [%d0];"),
    ("and.b32 %r0, %r1, 0f3FC00000;", "add.u32 %r0, %r1, 0d3FF0000000000000;"),
    ("add.u32 %r0, %r1, %r2;", "add.u32 _, %r1, %r2;"),
    ("lop3.b32 %r0, %r1, %r2, %r3, 255;", "lop3.b32 %r0, %r1, %r2, %r3, 256;"),
]
#: what ptxas takes beyond the ISA's text, or where all of a module's addresses are alike: refused by name
BEYOND = [
    "ld.global.u32 %r0, [%r1];", "st.u32 [%r1], %r0;", "atom.global.add.u32 %r0, [%r1], %r2;", "cvta.global.u32 %r0, %r1;", "mov.u32 %r0, gv;",
    "mov.u32 %r0, cv+4;",
    "and.pred %p0, %p1, !%p2;", "not.pred %p0, !%p1;", "mov.v4.u32 {%r0, %r1, %r2, %r3}, %tid;",
]  # fmt: skip
DECLARED = ".reg .f32 %f<3>; .reg .f64 %e<3>; .reg .s32 %s<3>; .reg .f16 %g<3>; .global .b32 gv[64]; .shared .align 16 .b32 sv[64]; .local .b32 lv[64];"


def module(line: str) -> str:
    """A kernel that decodes an instruction and does not run it."""
    registers = ".reg .pred %p<20>; .reg .b16 %h<20>; .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .b128 %q<20>;"
    return (
        ".version 9.1\n.target sm_100a\n.address_size 64\n.const .b32 cv[64];\n.visible .entry k(.param .u64 kp)\n{\n"
        f"{registers}\n{DECLARED}\nbra END;\n{line}\nEND: ret;\n}}\n"
    )


@pytest.mark.parametrize(("legal", "other"), [*PAIRS, *TEXT_ONLY], ids=[other for _, other in (*PAIRS, *TEXT_ONLY)])
def test_one_is_taken_and_the_other_refused_with_its_line(legal: str, other: str) -> None:
    emulate(module(legal), None, 1, 1, [np.zeros(64, np.uint32)])
    with pytest.raises((ParseError, UnsupportedError)) as caught:
        emulate(module(other), None, 1, 1, [np.zeros(64, np.uint32)])
    assert caught.value.span is not None and caught.value.span.line == 10


@pytest.mark.parametrize("line", BEYOND)
def test_what_the_text_does_not_define_is_refused_by_name(line: str) -> None:
    with pytest.raises((UnsupportedError, ParseError), match=line.split()[0]) as caught:
        emulate(module(line), None, 1, 1, [np.zeros(64, np.uint32)])
    assert caught.value.span is not None and caught.value.span.line == 10


def test_sixteen_bits_of_a_thread_number() -> None:
    out = np.zeros(2, np.uint16)
    text = module("").replace(
        "bra END;", "mov.u16 %h0, %ntid.x; cvt.u16.u32 %h1, %ctaid.x; ld.param.u64 %d0, [kp]; st.global.v2.u16 [%d0], {%h0, %h1};"
    )
    emulate(text, None, 1, 300, [out], order=False)
    assert out.tolist() == [300, 0]


@pytest.mark.slow
@pytest.mark.parametrize(("legal", "other"), PAIRS, ids=[other for _, other in PAIRS])
def test_ptxas_agrees(legal: str, other: str) -> None:
    assert not complaints(module(legal)) and complaints(module(other))
