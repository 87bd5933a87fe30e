"""Kernels whose arguments are views of one buffer: what one writes the other reads, exactly where the addresses say so."""

from __future__ import annotations

ON = {"VOLTA_VALIDATE": "1", "VOLTA_TARGET": "cuda:80"}

PROGRAM = """
import numpy as np
import triton
import triton.language as tl
import volta_pass

@volta_pass.reference(lambda a, b: (a - b, a + b))
@triton.jit
def kernel(a, b, stride, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(a + stride * offs, mask=offs < n)
    y = tl.load(b + stride * offs, mask=offs < n)
    tl.store(a + stride * offs, x - y, mask=offs < n)
    tl.store(b + STRIDE * offs, x + y, mask=offs < n)

base = np.zeros(512, np.float32)
kernel[(2,)](base[0::2], base[1::2], 2, 256, BLOCK=128)
"""


def test_interleaved_views_are_proved(run_program):
    ran = run_program(PROGRAM.replace("STRIDE", "stride"), **ON)
    (kernel,) = ran.kernels
    assert (kernel["verdict"], ran.code) == ("proved", 0), ran.err


def test_a_wrong_stride_meets_the_other_view(run_program):
    (kernel,) = run_program(PROGRAM.replace("STRIDE", "1"), **ON).kernels
    assert kernel["verdict"] == "refuted"
    assert {finding["kind"] for finding in kernel["findings"]} == {"data race"}
