"""``volta-pass bench exec``: thread-instructions per second of the engine, symbolic and with order checking, for 1 to 4096 threads."""

from __future__ import annotations

from dataclasses import dataclass

from ptx_engine.launch import Launch, Role, ScalarArg, TensorArg, bind
from ptx_engine.machine import execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena

_HEAD = ".version 8.4\n.target sm_80\n.address_size 64\n"

#: one thread adds the products of two vectors: ld, ld, fma, add, setp, bra
SCALAR = (
    _HEAD
    + """
.visible .entry dot(.param .u64 x, .param .u64 y, .param .u64 out, .param .u32 n)
{
.reg .pred %p<2>; .reg .f32 %f<5>; .reg .b32 %r<5>; .reg .b64 %d<9>;
ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; ld.param.u64 %d3, [out]; ld.param.u32 %r1, [n];
mov.f32 %f1, 0f00000000; mov.u32 %r2, 0;
LOOP:
ld.global.f32 %f2, [%d1]; ld.global.f32 %f3, [%d2]; fma.rn.f32 %f1, %f2, %f3, %f1;
add.s64 %d1, %d1, 4; add.s64 %d2, %d2, 4; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra LOOP;
st.global.f32 [%d3], %f1; ret;
}
"""
)

#: each thread computes one element of a tile of 32 columns from shared memory, 32 products and two barriers a turn; COPIES fills
#: the right-hand tile of 32 x 32
TILED = (
    _HEAD
    + """
.visible .entry tile(.param .u64 a, .param .u64 b, .param .u64 out, .param .u32 tiles)
{
.reg .pred %p<3>; .reg .f32 %f<6>; .reg .b32 %r<20>; .reg .b64 %d<12>; .shared .align 4 .b8 left[4096]; .shared .align 4 .b8 right[4096];
ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [out]; ld.param.u32 %r1, [tiles];
mov.u32 %r2, %tid.x; and.b32 %r3, %r2, 31; shr.u32 %r4, %r2, 5; shl.b32 %r5, %r2, 2; mul.wide.u32 %d4, %r2, 4; mov.u32 %r16, %ctaid.x;
mov.u32 %r17, %ntid.x; mad.lo.u32 %r18, %r16, %r17, %r2; mul.wide.u32 %d9, %r18, 4; add.s64 %d3, %d3, %d9;
add.s64 %d5, %d1, %d4; add.s64 %d6, %d2, %d4; mov.u32 %r6, left; mov.u32 %r7, right; add.u32 %r8, %r6, %r5; add.u32 %r9, %r7, %r5;
mov.f32 %f1, 0f00000000; mov.u32 %r10, 0; shl.b32 %r11, %r4, 7; shl.b32 %r12, %r3, 2;
TILES:
ld.global.f32 %f2, [%d5]; st.shared.f32 [%r8], %f2;
COPIES
bar.sync 0;
add.u32 %r13, %r6, %r11; add.u32 %r14, %r7, %r12; mov.u32 %r15, 0;
INNER:
ld.shared.f32 %f4, [%r13]; ld.shared.f32 %f5, [%r14]; fma.rn.f32 %f1, %f4, %f5, %f1;
add.u32 %r13, %r13, 4; add.u32 %r14, %r14, 128; add.u32 %r15, %r15, 1; setp.lt.u32 %p1, %r15, 32; @%p1 bra INNER;
bar.sync 0; add.u32 %r10, %r10, 1; setp.lt.u32 %p2, %r10, %r1; @%p2 bra TILES;
st.global.f32 [%d3], %f1; ret;
}
"""
)


@dataclass(frozen=True)
class Case:
    """Threads as CTAs x block, tiles (or loop turns), and the least rate in millions of thread-instructions per second."""

    threads: int
    ctas: int
    turns: int
    target: float


CASES = (Case(1, 1, 40_000, 1.5), Case(128, 1, 40, 10.0), Case(512, 1, 40, 25.0), Case(4096, 8, 20, 50.0))


def kernel(case: Case) -> str:
    """The PTX of a case."""
    block = case.threads // case.ctas
    if case.threads == 1:
        return SCALAR
    copies = [f"ld.global.f32 %f3, [%d6+{4 * j}]; st.shared.f32 [%r9+{4 * j}], %f3;" for j in range(0, 1024, block)]
    return TILED.replace("COPIES", "\n".join(copies))


def rate(case: Case, repeats: int = 3) -> float:
    """The best of several runs, in millions of thread-instructions per second of execution and order checking."""
    return max(_run(case) for _ in range(repeats))


def _run(case: Case) -> float:
    block, text = case.threads // case.ctas, kernel(case)
    size, out = (case.turns, 1) if case.threads == 1 else (1024, case.threads)
    args = (
        TensorArg("x", "f32", (size,), Role.IN), TensorArg("y", "f32", (size,), Role.IN), TensorArg("out", "f32", (out,), Role.OUT),
        ScalarArg("n", "u32", case.turns),
    )  # fmt: skip
    bound = bind(Launch((case.ctas, 1, 1), (block, 1, 1), args), Arena())
    module = parse(text)
    done = execute(module, None, bound, source=text)
    if done.findings:
        raise AssertionError(f"the benchmark kernel has findings: {done.findings[0].message}")
    return done.instructions / (done.seconds["execute"] + done.seconds["order"]) / 1e6
