"""Triton kernels whose arithmetic is of integers, or whose reductions carry positions; each right one beside a wrong twin."""

import triton
import triton.language as tl


@triton.jit
def argmax(x_ptr, i_ptr, v_ptr, BLOCK: tl.constexpr, LARGEST: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    v, i = tl.max(x, 0, return_indices=True, return_indices_tie_break_left=True)
    tl.store(i_ptr, i if LARGEST else tl.argmin(x, 0))
    tl.store(v_ptr, v)


@triton.jit
def divided(x_ptr, y_ptr, z_ptr, BLOCK: tl.constexpr, D: tl.constexpr):
    o = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + o)
    tl.store(y_ptr + o, x // D)
    tl.store(z_ptr + o, x % D)


@triton.jit
def wide_sum(x_ptr, y_ptr, BLOCK: tl.constexpr, NARROW: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    y = tl.sum(x.to(tl.int32), 0).to(tl.int64) if NARROW else tl.sum(x, 0)
    tl.store(y_ptr, y)


@triton.jit
def quantised(x_ptr, y_ptr, BLOCK: tl.constexpr, CLAMP: tl.constexpr):
    o = tl.arange(0, BLOCK)
    q = tl.floor(tl.load(x_ptr + o) * 16.0 + 0.5)
    if CLAMP:
        q = tl.minimum(tl.maximum(q, -128.0), 127.0)
    tl.store(y_ptr + o, q.to(tl.int32).to(tl.int8))
