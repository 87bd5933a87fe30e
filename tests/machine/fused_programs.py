"""Random small kernels with loops, for comparing two ways to run them: straight and branching bodies, divergence, faults and races."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import strategies as st

from ptx_engine.launch import Arg, Role, ScalarArg, TensorArg

#: threads of a CTA: one, a part of a warp, several warps
BLOCKS = (1, 8, 64)
ELEMENTS = 256

#: %r0 lane, %r1 counter, %r2 turns, %r3-%r6 scratch, %r7 own shared cell, %r8 a cell of all; %d1 own, %d2 a uniform address of x;
#: %d8 and %r11 own pairs of x and of shared cells; %d3-%d5 scratch; %f0-%f5 data; %p1 the loop's, %p2-%p4 scratch; %h1 %h2 16 bits
HEAD = """
.version 8.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u64 out, .param .u32 n, .param .u64 z)
{
.reg .pred %p<6>; .reg .b16 %h<4>; .reg .b32 %r<12>; .reg .f32 %f<8>; .reg .b64 %d<10>; .shared .align 4 .b8 cells[512];
ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; ld.param.u64 %d7, [out]; ld.param.u64 %d6, [z]; ld.param.u32 %r9, [n];
mov.u32 %r0, %tid.x; mov.u32 %r10, cells; shl.b32 %r3, %r0, 2; add.u32 %r7, %r10, %r3; mov.u32 %r8, %r10;
mul.wide.u32 %d3, %r0, 4; add.s64 %d1, %d1, %d3; add.s64 %d7, %d7, %d3; mov.u64 %d4, 5; mov.u64 %d5, %d3;
ld.global.f32 %f0, [%d1]; ld.global.f32 %f1, [%d2]; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f3F800000; mov.f32 %f4, %f1;
ld.global.f32 %f5, [%d2+4]; mov.u32 %r3, 7; mov.u32 %r4, %r0; mov.u32 %r5, %r9; mov.u32 %r6, 0xFFFFFFF0; setp.lt.u32 %p2, %r0, 3;
setp.eq.u32 %p3, %r9, 0; setp.ne.s32 %p4, %r0, %r5; mov.b32 {%h2, %h1}, %r0; mov.u16 %h1, 3; mul.wide.u32 %d8, %r0, 8; ld.param.u64 %d9, [x]; add.s64 %d8, %d8, %d9;
shl.b32 %r11, %r0, 3; add.u32 %r11, %r11, %r10; st.shared.v2.f32 [%r11], {%f1, %f5}; bar.sync 0; st.shared.f32 [%r7], %f1;
"""
TAIL = """
st.global.f32 [%d7], %f0; st.global.f32 [%d7+512], %f4; xor.b32 %r3, %r3, %r4; xor.b32 %r3, %r3, %r5; add.u32 %r3, %r3, %r6;
cvt.u32.u64 %r4, %d4; xor.b32 %r3, %r3, %r4; cvt.u32.u64 %r4, %d5; xor.b32 %r3, %r3, %r4; selp.b32 %r4, 1, 2, %p2; add.u32 %r3, %r3, %r4;
cvt.rn.f32.u32 %f6, %r3; add.f32 %f5, %f5, %f6; st.global.f32 [%d7+1024], %f5; ret;
}
"""

_INT = (
    "add.u32",
    "sub.s32",
    "mul.lo.u32",
    "and.b32",
    "or.b32",
    "xor.b32",
    "min.s32",
    "max.u32",
    "shl.b32",
    "shr.u32",
    "shr.s32",
    "min.u32",
)
_FLOAT2 = ("add.f32", "sub.f32", "mul.f32", "max.f32", "min.f32", "div.rn.f32", "mul.sat.f32")
_FLOAT1 = ("neg.f32", "abs.f32", "sqrt.rn.f32", "ex2.approx.f32", "rcp.rn.f32")
_COMPARE = ("lt.u32", "ge.s32", "eq.u32", "ne.u32", "le.s32", "hi.u32")
_R = ("%r0", "%r3", "%r4", "%r5", "%r6", "%r1", "%r9", "1", "3", "29", "0xFFFFFFFF", "32")
_F = ("%f0", "%f1", "%f2", "%f3", "%f4", "%f5", "0f40000000", "0f3F800000", "0f00000000", "0fFF800000")


def instruction(r: random.Random) -> str:
    """One instruction that may stand anywhere in a body."""
    rd, fd = f"%r{r.randint(3, 6)}", f"%f{r.randint(0, 5)}"
    a, b, c = (r.choice(_R) for _ in range(3))
    f, g, h = (r.choice(_F) for _ in range(3))
    f = r.choice(_F[:6])
    dd, ds = f"%d{r.randint(3, 5)}", f"%d{r.randint(3, 5)}"
    p, q = f"%p{r.randint(2, 4)}", f"%p{r.randint(2, 4)}"
    rows = [
        (6, f"{r.choice(_INT)} {rd}, {a}, {b};"), (2, f"mad.lo.u32 {rd}, {a}, {b}, {c};"), (1, f"mov.b32 {rd}, {a};"),
        (2, f"setp.{r.choice(_COMPARE)} {p}, {a}, {b};"), (1, f"selp.b32 {rd}, {a}, {b}, {q};"), (1, f"xor.pred {p}, {p}, {q};"),
        (1, f"not.pred {p}, {q};"), (1, f"not.b32 {rd}, {rd};"), (1, f"selp.f32 {fd}, %f0, %f1, {q};"),
        (1, f"mul.wide.u32 {dd}, {a}, {b};"), (1, f"mad.wide.s32 {dd}, {a}, {b}, {ds};"), (1, f"add.s64 {dd}, {ds}, 12;"),
        (1, f"cvt.u32.u64 {rd}, {ds};"), (1, f"cvt.s64.s32 {dd}, {rd};"), (1, f"shr.u64 {dd}, {ds}, {r.choice((3, 70))};"),
        (1, f"mul.lo.s64 {dd}, {dd}, {ds};"), (1, "add.u16 %h1, %h1, %h2;"), (1, f"mul.wide.u16 {rd}, %h1, %h2;"),
        (1, f"@{q} add.u32 {rd}, {rd}, {a};"), (1, f"@!{q} add.f32 {fd}, {f}, %f1;"), (1, f"rem.u32 {rd}, {a}, 7;"),
        (6, f"{r.choice(_FLOAT2)} {fd}, {f}, {g};"), (4, f"fma.rn.f32 {fd}, {f}, {g}, {h};"), (2, f"{r.choice(_FLOAT1)} {fd}, {f};"),
        (1, f"mov.f32 {fd}, {g};"), (3, f"ld.global.f32 {fd}, [%d1];"), (3, f"ld.global.f32 {fd}, [%d2+{4 * r.randint(0, 3)}];"),
        (1, f"ld.global.f32 {fd}, [%d6];"), (2, "add.s64 %d2, %d2, 4;"), (1, f"add.s64 %d1, %d1, {r.choice((4, 8, 2))};"),
        (3, f"ld.shared.f32 {fd}, [%r7];"), (2, f"ld.shared.f32 {fd}, [%r8];"), (3, f"st.shared.f32 [%r7], {f};"),
        (1, f"st.shared.f32 [%r8], {f};"), (1, f"st.shared.b32 [%r7], {rd};"), (1, f"ld.shared.b32 {rd}, [%r7];"),
        (1, "add.u32 %r8, %r8, 4;"), (1, f"st.global.f32 [%d7], {f};"),
        (3, f"ld.shared.f32 {fd}, [%r7+{4 * r.randint(-1, 3)}];"), (3, f"ld.global.f32 {fd}, [%d1+{4 * r.randint(-1, 3)}];"),
        (3, f"ld.shared.v2.f32 {{{fd}, {r.choice(_F[:6])}}}, [%r11+{8 * r.randint(0, 1)}];"), (1, "add.u32 %r11, %r11, 8;"),
        (3, f"ld.global.v2.f32 {{{fd}, {r.choice(_F[:6])}}}, [{r.choice(('%d8', '%d8', '%d1'))}+{8 * r.randint(0, 2)}];"),
        (1, f"ld.shared.f32 {fd}, [%r11+4];"), (1, f"st.shared.f32 [%r11+4], {f};"),
    ]  # fmt: skip
    return r.choices([text for _, text in rows], [weight for weight, _ in rows])[0]


def _loop(r: random.Random, number: int, length: int) -> list[str]:
    """A loop of one block or, with a branch in it, of more; its turns are the same in all threads or not."""
    body = [instruction(r) for _ in range(r.randint(1, length))]
    if r.random() < 0.25:
        at = r.randint(0, len(body))
        body = [*body[:at], f"@%p{r.randint(2, 4)} bra SKIP{number};", *body[at:], f"SKIP{number}:"]
    if r.random() < 0.2:
        body.append("bar.sync 0;")
    turns = r.choice(("12", "12", "%r9", "%r2"))
    head = ["mov.u32 %r1, 0;", f"and.b32 %r2, %r0, {r.choice((1, 3))};", "add.u32 %r2, %r2, 9;", f"LOOP{number}:"]
    return [*head, *body, "add.u32 %r1, %r1, 1;", f"setp.lt.u32 %p1, %r1, {turns};", f"@%p1 bra LOOP{number};"]


def program(r: random.Random, length: int) -> str:
    """A kernel of one to three loops."""
    lines = [line for number in range(r.randint(1, 3)) for line in _loop(r, number, length)]
    narrow = "cvt.u16.u32 %h2, %r0;\n" if r.random() < 0.2 else ""  # a cell is two bytes then, and shared memory left to closures
    return HEAD + narrow + "\n".join(lines) + TAIL


def programs(length: int = 8) -> st.SearchStrategy[str]:
    """Kernels for hypothesis."""
    return st.integers(0, 2**32).map(lambda seed: program(random.Random(seed), length))


def arguments() -> tuple[Arg, ...]:
    """Two symbolic inputs, an output, a number, and a tensor of given contents."""
    return (
        TensorArg("x", "f32", (ELEMENTS,), Role.IN), TensorArg("y", "f32", (ELEMENTS,), Role.IN),
        TensorArg("out", "f32", (ELEMENTS + 512,), Role.OUT), ScalarArg("n", "u32", 11),
        TensorArg("z", "f32", (4,), Role.IN, contents=np.array([0.0, 1.0, 2.5, -3.0], np.float32)),
    )  # fmt: skip
