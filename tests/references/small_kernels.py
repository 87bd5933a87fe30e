"""Triton kernels of a few lines for tests: control flow, reductions, scans, atomics, shapes."""

import triton
import triton.language as tl


@triton.jit
def program_dependent_loop(x_ptr, o_ptr, stride, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for i in range(pid):
        total += tl.load(x_ptr + i * stride + offs)
    tl.store(o_ptr + pid * BLOCK + offs, total)


@triton.jit
def program_dependent_branch(x_ptr, o_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    if pid % 2 == 0:
        y = x * 2
    else:
        y = x + 1.0
        if pid == 3:
            y = y * y
    tl.store(o_ptr + offs, y)


@triton.jit
def early_return(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if pid >= n:
        return
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + offs, tl.load(x_ptr + offs))


@triton.jit
def collatz_steps(o_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    value = pid + 1
    steps = 0
    while value > 1:
        value = tl.where(value % 2 == 0, value // 2, 3 * value + 1)
        steps += 1
    tl.store(o_ptr + pid, steps)


@triton.jit
def data_dependent_branch(x_ptr, o_ptr):
    x = tl.load(x_ptr)
    if x > 0:
        tl.store(o_ptr, x)


@triton.jit
def prefix(x_ptr, o_ptr, p_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(o_ptr + offs, tl.cumsum(x, 0))
    tl.store(p_ptr + offs, tl.cumsum(x, 0, reverse=True))


@triton.jit
def _first_order(a1, b1, a2, b2):
    return a1 * a2, a2 * b1 + b2


@triton.jit
def linear_recurrence(a_ptr, b_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    _, h = tl.associative_scan((tl.load(a_ptr + offs), tl.load(b_ptr + offs)), 0, _first_order)
    tl.store(o_ptr + offs, h)


@triton.jit
def reductions(x_ptr, o_ptr, i_ptr, M: tl.constexpr, N: tl.constexpr):
    rows, cols = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(x_ptr + rows[:, None] * N + cols[None, :])
    tl.store(o_ptr + rows, tl.sum(x, 1))
    tl.store(o_ptr + M + rows, tl.max(x, 1))
    tl.store(o_ptr + 2 * M + rows, tl.min(x, 1))
    tl.store(i_ptr + rows, tl.argmax(x, 1))
    tl.store(o_ptr + 3 * M, tl.sum(x))


@triton.jit
def integer_reductions(x_ptr, o_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(o_ptr, tl.sum(x, 0))
    tl.store(o_ptr + 1, tl.max(x, 0))
    tl.store(o_ptr + 2, tl.xor_sum(x, 0))


@triton.jit
def split_sum(x_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(o_ptr + tl.arange(0, BLOCK) % 4, tl.load(x_ptr + offs))


@triton.jit
def atomic_counter_used(c_ptr, o_ptr):
    old = tl.atomic_add(c_ptr, 1)
    tl.store(o_ptr + old, 1.0)


@triton.jit
def integer_extremes(x_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.atomic_max(o_ptr, tl.max(x, 0))
    tl.atomic_min(o_ptr + 1, tl.min(x, 0))


@triton.jit
def same_element(x_ptr, o_ptr, scale):
    pid = tl.program_id(0)
    tl.store(o_ptr, tl.load(x_ptr + pid * scale))


@triton.jit
def reads_the_neighbour(x_ptr):
    pid = tl.program_id(0)
    tl.store(x_ptr + pid, 2.0 * tl.load(x_ptr + pid))
    tl.store(x_ptr + pid, 1.0 + tl.load(x_ptr + (pid + 1) % 4))


@triton.jit
def stores_then_loads(x_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, 3.0 * tl.load(x_ptr + offs), mask=offs < 2)
    tl.store(o_ptr + offs, tl.load(x_ptr + offs))


@triton.jit
def shapes(x_ptr, y_ptr, o_ptr, N: tl.constexpr):
    offs = tl.arange(0, N)
    x, y = tl.load(x_ptr + offs), tl.load(y_ptr + offs)
    both = tl.interleave(x, y)
    tl.store(o_ptr + tl.arange(0, 2 * N), both)
    even, odd = tl.split(tl.reshape(both, (N, 2)))
    tl.store(o_ptr + 2 * N + offs, even - odd)
    square = tl.trans(tl.reshape(x, (2, N // 2)))
    tl.store(o_ptr + 3 * N + offs, tl.reshape(square, (N,)))


@triton.jit
def gathered(x_ptr, i_ptr, o_ptr, N: tl.constexpr):
    offs = tl.arange(0, N)
    tl.store(o_ptr + offs, tl.gather(tl.load(x_ptr + offs), tl.load(i_ptr + offs), 0))


@triton.jit
def batched_dot(a_ptr, b_ptr, o_ptr, B: tl.constexpr, N: tl.constexpr):
    z, i, j = tl.arange(0, B)[:, None, None], tl.arange(0, N)[None, :, None], tl.arange(0, N)[None, None, :]
    offs = z * N * N + i * N + j
    tl.store(o_ptr + offs, tl.dot(tl.load(a_ptr + offs), tl.load(b_ptr + offs)))


@triton.jit
def int8_dot(a_ptr, b_ptr, o_ptr, N: tl.constexpr):
    offs = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(o_ptr + offs, tl.dot(tl.load(a_ptr + offs), tl.load(b_ptr + offs)))


@triton.jit(noinline=True)
def _twice(x):
    return x + x


@triton.jit
def calls(x_ptr, o_ptr, N: tl.constexpr):
    for i in range(N):
        tl.store(o_ptr + i, _twice(tl.load(x_ptr + i)))


@triton.jit
def asserts(x_ptr, o_ptr, n, N: tl.constexpr):
    tl.device_assert(n < 8, "n is too large")
    offs = tl.arange(0, N)
    tl.device_print("x", offs)
    tl.store(o_ptr + offs, tl.load(x_ptr + offs))


@triton.jit
def sorted_rows(x_ptr, o_ptr, N: tl.constexpr):
    offs = tl.arange(0, N)
    tl.store(o_ptr + offs, tl.sort(tl.load(x_ptr + offs)))


@triton.jit
def histogram(x_ptr, o_ptr, N: tl.constexpr):
    offs = tl.arange(0, N)
    tl.store(o_ptr + offs, tl.histogram(tl.load(x_ptr + offs), N))


@triton.jit
def compare_and_swap(x_ptr):
    tl.atomic_cas(x_ptr, 0, 1)


@triton.jit
def unmasked_undefined(x_ptr, o_ptr, n, N: tl.constexpr):
    offs = tl.arange(0, N)
    tl.store(o_ptr + offs, tl.load(x_ptr + offs, mask=offs < n))


@triton.jit
def pid_axes(o_ptr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    number = x + tl.num_programs(0) * (y + tl.num_programs(1) * z)
    tl.store(o_ptr + number, x + 10 * y + 100 * z)


@triton.jit
def unknown_mask(x_ptr, m_ptr, o_ptr, N: tl.constexpr):
    offs = tl.arange(0, N)
    tl.store(o_ptr + offs, tl.load(x_ptr + offs), mask=tl.load(m_ptr + offs) > 0)


@triton.jit
def first_program_clears(x_ptr, o_ptr, CLEAR: tl.constexpr):
    pid = tl.program_id(0)
    if CLEAR:
        if pid == 0:
            tl.store(o_ptr, 0.0)
    tl.atomic_add(o_ptr, tl.load(x_ptr + pid))
