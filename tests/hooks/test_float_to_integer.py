"""Floats that become integers: what does not fit has no value, so that it is nobody's fault; what fits is compared."""

from __future__ import annotations

import pytest

ON = {"VOLTA_VALIDATE": "1", "VOLTA_TARGET": "cuda:80"}

PROGRAM = """
import numpy as np
import triton
import triton.language as tl
import volta_pass
from volta_pass import TensorSpec

REFERENCE
@triton.jit
def kernel(x_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(o_ptr + offs, VALUE)

kernel[(1,)](TensorSpec((128,), "f32"), TensorSpec((128,), "DTYPE"), BLOCK=128)
"""
FITS = "floats converted to narrow integers fit them"


def validated(run_program, value, dtype, reference=""):
    ran = run_program(PROGRAM.replace("VALUE", value).replace("DTYPE", dtype).replace("REFERENCE", reference), **ON)
    return ran.kernels[0], ran


@pytest.mark.parametrize(
    ("value", "dtype", "assumed"),
    [("x.to(tl.int32)", "i32", False), ("(x / 0.5).to(tl.int8)", "i8", False), ("x.to(tl.uint8).to(tl.float32)", "f32", True)],
)
def test_a_conversion_equals_its_own_source(run_program, value, dtype, assumed):
    kernel, ran = validated(run_program, value, dtype)
    assert (kernel["verdict"], ran.code) == ("proved", 0), ran.err
    assert any(line.startswith(FITS) for line in kernel["assumptions"]) is assumed


def test_what_is_wrong_among_the_numbers_that_fit_is_refuted(run_program):
    rounded = "@volta_pass.reference(lambda x_ptr: np.floor(x_ptr / 0.5 + 0.5).astype(np.int8))"
    assert validated(run_program, "tl.floor(x / 0.5 + 0.5).to(tl.int8)", "i8", rounded)[0]["verdict"] == "proved"
    kernel, ran = validated(run_program, "(x / 0.5 + 0.5).to(tl.int8)", "i8", rounded)
    assert (kernel["verdict"], kernel["blame"]["party"]) == ("refuted", "kernel"), ran.err
