"""Sums of products over the lanes of a warp: the products are fused into the first step, differently in the two lanes that meet."""

from __future__ import annotations

import pytest

ON = {"VOLTA_VALIDATE": "1", "VOLTA_TARGET": "cuda:80"}

HEAD = """
import triton
import triton.language as tl
from volta_pass import TensorSpec

@triton.jit
def kernel(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    y = tl.load(y_ptr + offs, mask=offs < n, other=0.0)
"""
LAUNCH = "\nkernel[(1,)](*(TensorSpec((200,), 'f32') for _ in range(3)), 100, BLOCK=128)\n"
RMS = "    tl.store(o_ptr + offs, x * tl.rsqrt(tl.sum(x * x) / n + 1e-5), mask=offs < n)"
DOT = "    tl.store(o_ptr, tl.sum(x * y))"
CUBES = "    tl.store(o_ptr, tl.sum(x * x * x))"
CENTRED = "    c = x - tl.sum(x) / n\n    tl.store(o_ptr, tl.sum(tl.where(offs < n, c * c, 0.0)))"


@pytest.mark.parametrize("body", [RMS, DOT, CUBES, CENTRED], ids=["rms", "dot", "cubes", "centred"])
def test_every_lane_stores_one_value(run_program, body):
    ran = run_program(HEAD + body + LAUNCH, **ON)
    (kernel,) = ran.kernels
    assert (kernel["verdict"], ran.code) == ("proved", 0), ran.err
