"""Floats chosen among constants: compilers select between words, which are stored as floats or go on as operands."""

from __future__ import annotations

import pytest

ON = {"VOLTA_VALIDATE": "1", "VOLTA_TARGET": "cuda:80"}

PROGRAM = """
import numpy as np
import triton
import triton.language as tl
import volta_pass
from volta_pass import TensorSpec

@volta_pass.reference(lambda x: REFERENCE)
@triton.jit
def kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(o_ptr + offs, BODY, mask=offs < n)

kernel[(1,)](TensorSpec((100,), "TYPE"), TensorSpec((100,), "TYPE"), 100, BLOCK=128)
"""
STEP, SIGN = "tl.where(x >= 0, 1.0, 0.0)", "tl.where(x > 0, 1.0, tl.where(x < 0, -1.0, 0.0))"
CASES = [
    (STEP, "np.where(x >= 0, 1.0, 0.0)", "f32", "proved"),
    (STEP, "np.where(x >= 0, 1.0, 0.5)", "f32", "refuted"),
    (SIGN, "np.where(x > 0, 1.0, np.where(x < 0, -1.0, 0.0))", "f32", "proved"),
    (SIGN, "np.where(x > 0, 1.0, np.where(x < 0, 1.0, 0.0))", "f32", "refuted"),
    (STEP, "np.where(x >= 0, 1.0, 0.0)", "f16", "proved"),
    (SIGN + " * 3 + x", "x + np.where(x > 0, 3.0, np.where(x < 0, -3.0, 0.0))", "f32", "proved"),
]


@pytest.mark.parametrize(("body", "reference", "dtype", "verdict"), CASES)
def test_a_choice_of_constants(run_program, body, reference, dtype, verdict):
    ran = run_program(PROGRAM.replace("REFERENCE", reference).replace("BODY", body).replace("TYPE", dtype), **ON)
    assert [kernel["verdict"] for kernel in ran.kernels] == [verdict], ran.err
