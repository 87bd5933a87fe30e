"""Matrix products in TileLang: tiles in shared memory, tensor cores, software pipelines, swizzled blocks."""

import tilelang.language as T


def matmul(
    M, N, K, block_M, block_N, block_K, num_stages=2, panel=0, transpose_B=False, dtype="float16", accum_dtype="float32", threads=128
):
    """C = A @ B. ``panel`` > 0: blocks run in panels of so many rows."""
    B_shape, B_tile = ((N, K), (block_N, block_K)) if transpose_B else ((K, N), (block_K, block_N))

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor(B_shape, dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared(B_tile, dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.use_swizzle(panel_size=panel, enable=panel > 0)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                if transpose_B:
                    T.copy(B[bx * block_N, k * block_K], B_shared)
                else:
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=transpose_B)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def split_k(M, N, K, block_M, block_N, block_K, splits, num_stages=2, dtype="float16", accum_dtype="float32", threads=128):
    """C += A @ B, each block adding the products of its share of K atomically."""
    share = K // splits

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), accum_dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), splits, threads=threads) as (bx, by, bz):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(share, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, bz * share + k * block_K], A_shared)
                T.copy(B[bz * share + k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.atomic_add(C[by * block_M, bx * block_N], C_local)

    return main


def dequantised(M, N, K, block_M, block_N, block_K, num_stages=2, dtype="float16", accum_dtype="float32", threads=128):
    """C = A @ B.T where B is packed: two unsigned 4-bit numbers in a byte, low half first, standing for -8 to 7."""

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K // 2), "uint8"), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_packed = T.alloc_shared((block_N, block_K // 2), "uint8")
            B_local = T.alloc_fragment((block_N, block_K // 2), "uint8")
            B_wide = T.alloc_fragment((block_N, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * (block_K // 2)], B_packed)
                T.copy(B_packed, B_local)
                for i, j in T.Parallel(block_N, block_K):
                    number = (B_local[i, j // 2] >> T.cast(j % 2 * 4, "uint8")) & T.uint8(15)
                    B_wide[i, j] = T.cast(number, dtype) - T.cast(8, dtype)
                T.copy(B_wide, B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main
