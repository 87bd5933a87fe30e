"""The program of ``volta-pass demo``: an ordinary autotuned matmul whose K mask was forgotten, and a flash attention.

K is 96: the forgotten mask is harmless for BLOCK_K 16 and 32 and wrong for 64. The arrays are slices of wider ones, so that
the wrong configuration reads in bounds: on a GPU nothing crashes, the product is just wrong.
"""

import sys
from pathlib import Path

import numpy as np
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).parent.parent / "triton"))
from flash_attention import attention_kernel


def config(m, n, k, warps, stages):
    return triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, num_warps=warps, num_stages=stages)


CONFIGS = [
    config(32, 32, 32, 4, 2), config(32, 64, 32, 4, 3), config(64, 32, 16, 4, 3),
    config(64, 64, 32, 4, 4), config(64, 64, 64, 4, 3), config(32, 32, 16, 2, 2),
]  # fmt: skip


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :]
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs)
        b = tl.load(b_ptrs)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * stride_bk
    c_ptrs = c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :]
    tl.store(c_ptrs, acc.to(tl.float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))


def matmul(m=64, n=64, k=96):
    a = np.ones((m, 128), np.float16)[:, :k]
    b = np.ones((128, n), np.float16)[:k]
    c = np.empty((m, n), np.float16)

    def grid(meta):
        return triton.cdiv(m, meta["BLOCK_M"]), triton.cdiv(n, meta["BLOCK_N"])

    matmul_kernel[grid](a, b, c, m, n, k, a.strides[0] // 2, b.strides[0] // 2, n)
    return matmul_kernel.best_config


def attention(heads=1, context=128, d=16):
    q, k, v = (np.ones((heads, context, d), np.float16) for _ in range(3))
    o = np.empty((heads, context, d), np.float16)
    grid = (context // 64, heads)
    blocks = {"BLOCK_M": 64, "BLOCK_N": 32, "D": d, "CAUSAL": False}
    attention_kernel[grid](q, k, v, o, d**-0.5, context, context * d, d, **blocks, num_warps=4, num_stages=2)


if __name__ == "__main__":
    print("best configuration:", matmul())
    attention()
