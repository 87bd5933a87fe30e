"""Triton kernels that are wrong in one detail each: the line with the fault ends in ``# fault``."""

import triton
import triton.language as tl


@triton.jit
def attention_without_rescaling(
    q_ptr, k_ptr, v_ptr, o_ptr, scale, N_CTX,
    stride_h, stride_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr, SUM: tl.constexpr,
):  # fmt: skip
    """Flash attention whose accumulator (or, with ``SUM``, running sum) is not rescaled when the maximum grows."""
    block = tl.program_id(0)
    base = tl.program_id(1) * stride_h
    offs_m = block * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    q = tl.load(q_ptr + base + offs_m[:, None] * stride_n + offs_d[None, :])
    m_i = tl.full([BLOCK_M], -float("inf"), dtype=tl.float32)
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    qk_scale = scale * 1.44269504
    for start in range(0, N_CTX, BLOCK_N):
        k = tl.load(k_ptr + base + (start + offs_n)[None, :] * stride_n + offs_d[:, None])
        qk = tl.dot(q, k) * qk_scale
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_new[:, None])
        alpha = tl.math.exp2(m_i - m_new)
        v = tl.load(v_ptr + base + (start + offs_n)[:, None] * stride_n + offs_d[None, :])
        if SUM:
            l_i = l_i + tl.sum(p, 1)  # fault
            acc = acc * alpha[:, None]
        else:
            l_i = l_i * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc)  # fault
        m_i = m_new
    acc = acc / l_i[:, None]
    tl.store(o_ptr + base + offs_m[:, None] * stride_n + offs_d[None, :], acc.to(o_ptr.dtype.element_ty))


@triton.jit
def softmax_without_division(out_ptr, in_ptr, in_row_stride, out_row_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(in_ptr + row * in_row_stride + cols, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))  # fault
    tl.store(out_ptr + row * out_row_stride + cols, numerator, mask=mask)


@triton.jit
def softmax_filled_with_zero(out_ptr, in_ptr, in_row_stride, out_row_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(in_ptr + row * in_row_stride + cols, mask=mask, other=0.0)
    shifted = x - tl.max(x, axis=0)
    numerator = tl.exp(shifted)
    denominator = tl.sum(numerator, axis=0)  # fault
    tl.store(out_ptr + row * out_row_stride + cols, numerator / denominator, mask=mask)


@triton.jit
def softmax_of_columns(out_ptr, in_ptr, n_rows, n_cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    """One program for the whole matrix, reduced along the wrong axis."""
    rows, cols = tl.arange(0, ROWS), tl.arange(0, COLS)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    offsets = rows[:, None] * n_cols + cols[None, :]
    x = tl.load(in_ptr + offsets, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=1)[:, None])
    denominator = tl.sum(numerator, axis=0)  # fault
    tl.store(out_ptr + offsets, numerator / denominator[None, :], mask=mask)


@triton.jit
def layer_norm_over_the_block(
    x_ptr, out_ptr, weight_ptr, bias_ptr, mean_ptr, rstd_ptr, row_stride, n_cols, eps, BLOCK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / BLOCK  # fault
    centred = tl.where(mask, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / n_cols + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    weight = tl.load(weight_ptr + cols, mask=mask)
    bias = tl.load(bias_ptr + cols, mask=mask)
    tl.store(out_ptr + row * row_stride + cols, centred * rstd * weight + bias, mask=mask)


@triton.jit
def transposed_b_matmul(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """Matmul of square matrices whose B is read with the row's stride for its columns."""
    pid = tl.program_id(0)
    num_pid_n = tl.cdiv(N, BLOCK_N)
    offs_m = pid // num_pid_n * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid % num_pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        left = K - k
        a_ptrs = a_ptr + offs_m[:, None] * stride_am + (k + offs_k)[None, :] * stride_ak
        b_ptrs = b_ptr + (k + offs_k)[:, None] * stride_bn + offs_n[None, :] * stride_bk
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & (offs_k[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=(offs_k[:, None] < left) & (offs_n[None, :] < N), other=0.0)  # fault
        acc = tl.dot(a, b, acc)
    c_ptrs = c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))


@triton.jit
def add_of_columns(x_ptr, y_ptr, out_ptr, row_stride, n_cols, BLOCK: tl.constexpr):
    """Adds rows of two matrices whose rows are padded; the result's row starts at a multiple of its columns."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * row_stride + cols, mask=mask)
    y = tl.load(y_ptr + row * n_cols + cols, mask=mask)  # fault
    tl.store(out_ptr + row * row_stride + cols, x + y, mask=mask)


@triton.jit
def add_of_rows(x_ptr, y_ptr, out_ptr, row_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * row_stride + cols, mask=mask)
    y = tl.load(y_ptr + row * row_stride + cols, mask=mask)
    tl.store(out_ptr + row * row_stride + cols, x + y, mask=mask)
