"""In-place kernels with fewer elements than threads: Triton's replicated threads load what the storing ones overwrite."""

from __future__ import annotations

import pytest

ON = {"VOLTA_VALIDATE": "1", "VOLTA_TARGET": "cuda:80"}

HEAD = """
import triton
import triton.language as tl
from volta_pass import TensorSpec
"""
SCALE = """
@triton.jit
def kernel(x_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, 2 * tl.load(x_ptr + offs))
"""
SOFTMAX = """
@triton.jit
def kernel(x_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(x_ptr + offs, e / tl.sum(e, 0))
"""
#: every program reads an element that the one before it overwrites
SHIFT = SCALE.replace("tl.load(x_ptr + offs)", "tl.load(x_ptr + offs + 1)")


def launched(block: int, warps: int) -> str:
    return f"kernel[(4,)](TensorSpec((4 * {block} + 1,), 'f32'), BLOCK={block}, num_warps={warps})\n"


@pytest.mark.parametrize(("source", "block", "warps"), [(SCALE, 64, 4), (SCALE, 16, 1), (SOFTMAX, 32, 4), (SOFTMAX, 16, 1)])
def test_replicated_threads_are_no_race(run_program, source, block, warps):
    ran = run_program(HEAD + source + launched(block, warps), **ON)
    (kernel,) = ran.kernels
    assert (kernel["verdict"], ran.code) == ("proved", 0), ran.err
    notes = [finding for finding in kernel["findings"] if finding["kind"] == "unused read"]
    assert notes and {finding["severity"] for finding in notes} == {"note"}
    assert "0 (+" in ran.err


def test_enough_elements_need_no_note(run_program):
    (kernel,) = run_program(HEAD + SCALE + launched(128, 4), **ON).kernels
    assert (kernel["verdict"], kernel["findings"]) == ("proved", [])


def test_a_neighbours_element_is_a_race(run_program):
    (kernel,) = run_program(HEAD + SHIFT + launched(64, 4), **ON).kernels
    assert kernel["verdict"] == "refuted"
    assert "error" in {finding["severity"] for finding in kernel["findings"] if "race" in finding["kind"]}
