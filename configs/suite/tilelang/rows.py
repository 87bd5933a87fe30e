"""Elementwise functions and softmax over rows in TileLang."""

import tilelang.language as T


def elementwise(M, N, block_M, block_N, dtype="float16", threads=128):
    """C = exp(A) * s + max(B, 0), in any shape: the last tiles are ragged."""

    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), "float32"), s: T.float32, C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                row, column = by * block_M + i, bx * block_N + j
                C[row, column] = T.exp(T.cast(A[row, column], "float32")) * s + T.max(B[row, column], T.float32(0))

    return main


def softmax(M, N, block_M, dtype="float16", threads=128):
    """Rows of C are the softmax of the rows of A."""

    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            top = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.copy(A[bx * block_M, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = T.exp2((x[i, j] - top[i]) * T.float32(1.44269504))
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, C[bx * block_M, 0])

    return main
