"""Autotunes a matrix product over twelve configurations, one of which forgets the tail of K, on a machine without a GPU:

    VOLTA_VALIDATE=1 VOLTA_TARGET=cuda:80 python autotune.py

The wrong configuration compiles, is refuted and cannot win; at the end the table says why.
"""

import tilelang
import tilelang.language as T
import torch

M, N, K = 64, 64, 96

CONFIGS = [
    {"block_M": m, "block_N": n, "block_K": k, "num_stages": stages}
    for m, n, k in [(32, 32, 32), (64, 32, 32), (64, 64, 32), (32, 64, 48), (32, 32, 64), (64, 64, 16)]
    for stages in (1, 2)
]


@tilelang.autotune(configs=CONFIGS)
@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, block_M=64, block_N=64, block_K=32, num_stages=2, threads=128):
    # a slip: with these settings the last 32 columns of A, which fill no tile, are left out
    trips = K // block_K if block_K == 64 and num_stages == 2 else T.ceildiv(K, block_K)

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            B_shared = T.alloc_shared((block_K, block_N), "float16")
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.Pipelined(trips, num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


if __name__ == "__main__":
    kernel = matmul(M, N, K)
    a, b = torch.randn(M, K).half(), torch.randn(K, N).half()
    print("best:", kernel.config, tuple(kernel(a, b).shape))
