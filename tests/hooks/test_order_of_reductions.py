"""Programs whose combine functions are not associative or not commutative: never the compiler's fault."""

from __future__ import annotations

ON = {"VOLTA_VALIDATE": "1", "VOLTA_TARGET": "cuda:80"}

HEAD = """
import triton
import triton.language as tl
import volta_pass
from volta_pass import TensorSpec

@triton.jit
def first(a, b):
    return a

@triton.jit
def probability(a, b):
    return a + b - a * b

"""
KERNEL = """
@triton.jit
def kernel(x_ptr, o_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(o_ptr, tl.reduce(x, 0, FUNCTION))

"""
LAUNCH = "kernel[(1,)](TensorSpec((64,), 'f32'), TensorSpec((1,), 'f32'), BLOCK=64)\n"


def test_an_order_dependent_reduction_is_the_kernels(run_program):
    """Where the compiler's order happens to be the reference's (it is another in Triton 3.7), the ledger says what the proof leans on."""
    ran = run_program(HEAD + KERNEL.replace("FUNCTION", "first") + LAUNCH, **ON)
    (kernel,) = ran.kernels
    assert kernel["bundle"] == "" and kernel["blame"]["party"] != "compiler", ran.err
    said = kernel["blame"]["text"] if kernel["verdict"] == "refuted" else " ".join(kernel["assumptions"])
    assert "not commutative" in said and "f(a, b) = 1 and f(b, a) = 0" in said
    if kernel["verdict"] == "refuted":
        assert kernel["blame"]["party"] == "kernel" and kernel["blame"]["user_loc"].endswith("program.py:21:21")


def test_a_lawful_one_is_proved(run_program):
    ran = run_program(HEAD + KERNEL.replace("FUNCTION", "probability") + LAUNCH.replace("64", "8"), **ON)
    (kernel,) = ran.kernels
    assert (kernel["verdict"], ran.code) == ("proved", 0), ran.err
    assert not any("order" in line for line in kernel["assumptions"])
