"""Kernels whose functions Triton's device library approximates, right and wrong."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, SCALE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, at < n)
    tl.store(out_ptr + at, 0.5 * x * (1 + tl.erf(x * SCALE)), at < n)


@triton.jit
def tanh_kernel(x_ptr, out_ptr, n, SCALE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, at < n)
    tl.store(out_ptr + at, libdevice.tanh(x * SCALE), at < n)


@triton.jit
def log_kernel(x_ptr, out_ptr, n, SCALE: tl.constexpr, BLOCK: tl.constexpr):
    """log(sum(exp)) of a row, and log2 of every element."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, at < n, other=0.0) * SCALE
    top = tl.max(x, 0)
    tl.store(out_ptr + at, top + tl.log(tl.sum(tl.exp(x - top), 0)) + tl.log2(x), at < n)


@triton.jit
def sine_kernel(x_ptr, out_ptr, n, SCALE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.sin(tl.load(x_ptr + at, at < n) * SCALE), at < n)


@triton.jit
def sort_integers_kernel(x_ptr, out_ptr, n, DESCENDING: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.sort(tl.load(x_ptr + at), descending=DESCENDING))


@triton.jit
def sort_kernel(x_ptr, out_ptr, n, SCALE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.sort(tl.load(x_ptr + at) * SCALE))


@triton.jit
def literal_kernel(x_ptr, out_ptr, n, FORM: tl.constexpr, LITERAL: tl.constexpr, BLOCK: tl.constexpr):
    """Functions of base ten and e, as the library has them, or by those of base two and a literal."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, at < n, other=1.0)
    if FORM == "log10":
        y = libdevice.log10(x)
    elif FORM == "log10 by log2":
        y = tl.log2(x) * LITERAL
    elif FORM == "exp10":
        y = libdevice.exp10(x)
    elif FORM == "exp10 by exp2":
        y = tl.exp2(x * LITERAL)
    elif FORM == "silu":
        y = x * tl.sigmoid(x)
    elif FORM == "silu by exp2":
        y = x / (1.0 + tl.exp2(x * LITERAL))
    elif FORM == "softplus":
        y = tl.log(1.0 + tl.exp(x))
    elif FORM == "softplus by log2":
        y = tl.log2(1.0 + tl.exp2(x * 1.44269504)) * LITERAL
    elif FORM == "density":
        y = tl.exp(-0.5 * x * x) / tl.sqrt(x * 0.0 + 6.283185307)
    else:
        y = tl.exp(-0.5 * x * x) * LITERAL
    tl.store(out_ptr + at, y, at < n)
