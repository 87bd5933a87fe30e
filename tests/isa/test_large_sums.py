"""expf of CUDA's library as nvcc emits it: a sum rounded to an integer, its low bits as an exponent, log2(e) in two parts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ptx_engine import emulate
from ptx_engine.decide import decide
from ptx_engine.errors import NotStructuredError
from ptx_engine.launch import Footprint, Launch, Role, TensorArg, bind
from ptx_engine.machine import execute
from ptx_engine.syntax import parse
from ptx_engine.terms import CONST_CAP, Arena, Op
from ptx_engine.verdict import Status, Verdict

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 X, .param .u64 Y)
{
.reg .b64 %d<8>; .reg .b32 %r<8>; .reg .f32 %f<16>;
ld.param.u64 %d0, [X]; ld.param.u64 %d1, [Y]; mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 4;
add.s64 %d3, %d0, %d2; add.s64 %d4, %d1, %d2; ld.global.f32 %f1, [%d3];
"""
TAIL = "st.global.f32 [%d4], %f9; ret;\n}\n"
SPLIT = """fma.rn.f32 %f2, %f1, 0f3BBB989D, 0f3F000000; cvt.sat.f32.f32 %f3, %f2;
fma.rm.f32 %f4, %f3, 0f437C0000, 0f4B400001; add.f32 %f5, %f4, 0fCB40007F; neg.f32 %f6, %f5;
fma.rn.f32 %f7, %f1, 0f3FB8AA3B, %f6; fma.rn.f32 %f7, %f1, 0f32A57060, %f7;
mov.b32 %r1, %f4; shl.b32 %r2, %r1, 23; mov.b32 %f8, %r2; ex2.approx.ftz.f32 %f7, %f7; mul.f32 %f9, %f7, %f8;
"""
PLAIN = "mul.f32 %f2, %f1, 0f3FB8AA3B; ex2.approx.f32 %f9, %f2;\n"
N = 8


def run(arena: Arena, body: str) -> dict[str, Footprint]:
    launch = Launch((1, 1, 1), (N, 1, 1), (TensorArg("X", "f32", (N,), Role.IN), TensorArg("Y", "f32", (N,), Role.OUT)))
    if not hasattr(arena, "bound"):
        arena.bound = bind(launch, arena)  # type: ignore[attr-defined]
    return execute(parse(HEAD + body + TAIL), None, arena.bound).footprints  # type: ignore[attr-defined]


def compare(reference: str, candidate: str) -> Verdict:
    arena = Arena()
    first, second = run(arena, reference), run(arena, candidate)
    return decide(arena, first, second, launch=arena.bound)  # type: ignore[attr-defined]


def test_the_library_function_is_the_exponential() -> None:
    verdict = compare(PLAIN, SPLIT)
    assert verdict.status is Status.PROVED
    assert any("rest of log2(e)" in line for line in verdict.assumptions) or verdict.assumptions


def test_the_split_is_put_together_where_it_is_emitted() -> None:
    """Nothing of the integer and the clamp is left below the output, with one added at once, too; another integer's power stays apart."""

    def operators(body: str) -> set[Op]:
        arena = Arena()
        ids = [int(i) for i in run(arena, body)["Y"].ids]
        found: set[Op] = set()
        while ids:
            ident = ids.pop()
            if ident >= CONST_CAP:
                op, *operands = arena.node(ident)
                found.add(op)
                ids += operands
        return found

    added = SPLIT.replace("mul.f32 %f9, %f7, %f8;", "fma.rn.f32 %f9, %f7, %f8, 0f3F800000;")
    assert operators(SPLIT) == {Op.EXP2, Op.MUL}
    assert operators(added) == {Op.EXP2, Op.MUL, Op.ADD}
    assert Op.FLOOR in operators(SPLIT.replace("0fCB40007F", "0fCB40007E"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("0fCB40007F", "0fCB40007E"),  # another power of two is taken off than is put back
        ("shl.b32 %r2, %r1, 23", "shl.b32 %r2, %r1, 24"),
        ("0f3FB8AA3B", "0f3FB8AA4B"),  # no logarithm of e
    ],
)
def test_a_slip_in_it_is_not_proved(before: str, after: str) -> None:
    try:
        verdict = compare(PLAIN, SPLIT.replace(before, after))
    except NotStructuredError:
        return
    assert verdict.status is not Status.PROVED


def test_the_power_alone_is_a_staircase_and_no_exponential() -> None:
    stairs = "cvt.sat.f32.f32 %f3, %f1; fma.rm.f32 %f4, %f3, 0f437C0000, 0f4B400001;"
    stairs += "mov.b32 %r1, %f4; shl.b32 %r2, %r1, 23; mov.b32 %f8, %r2; mul.f32 %f9, %f8, 0f3F800000;\n"
    smooth = "cvt.sat.f32.f32 %f3, %f1; fma.rn.f32 %f4, %f3, 0f437C0000, 0fC2FC0000; ex2.approx.f32 %f9, %f4;\n"
    assert compare(smooth, stairs).status is Status.REFUTED
    floor = "cvt.sat.f32.f32 %f3, %f1; mul.f32 %f4, %f3, 0f437C0000; cvt.rmi.f32.f32 %f4, %f4; add.f32 %f4, %f4, 0fC2FC0000;"
    assert compare(floor + " ex2.approx.f32 %f9, %f4;\n", stairs).status is Status.PROVED


def test_without_bounds_the_low_bits_have_no_meaning() -> None:
    with pytest.raises(NotStructuredError):
        run(Arena(), SPLIT.replace("cvt.sat.f32.f32", "mov.f32"))


def test_the_numbers_agree() -> None:
    x = np.array([-80, -3.25, -1, 0, 0.5, 1, 10, 80], np.float32)
    y = np.zeros(N, np.float32)
    emulate(HEAD + SPLIT + TAIL, None, 1, N, [x, y])
    np.testing.assert_allclose(y, [math.exp(v) for v in x], rtol=1e-5)
