"""Flash attention, forward, in TileLang: one pass over the keys with a running maximum and a running sum."""

import tilelang.language as T


def attention(batch, heads, length, dim, block_M, block_N, causal=False, num_stages=1, dtype="float16", threads=128):
    """Output = softmax(Q @ K.T / sqrt(dim)) @ V for each batch and head; ``causal``: no row sees a later one."""
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    shape = (batch, length, heads, dim)

    @T.prim_func
    def main(Q: T.Tensor(shape, dtype), K: T.Tensor(shape, dtype), V: T.Tensor(shape, dtype), Output: T.Tensor(shape, dtype)):
        with T.Kernel(T.ceildiv(length, block_M), heads, batch, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_M, dim), dtype)
            K_shared = T.alloc_shared((block_N, dim), dtype)
            V_shared = T.alloc_shared((block_N, dim), dtype)
            scores = T.alloc_fragment((block_M, block_N), "float32")
            weights = T.alloc_fragment((block_M, block_N), dtype)
            result = T.alloc_fragment((block_M, dim), "float32")
            top = T.alloc_fragment((block_M,), "float32")
            top_before = T.alloc_fragment((block_M,), "float32")
            shrink = T.alloc_fragment((block_M,), "float32")
            part = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], Q_shared)
            T.fill(result, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            steps = T.ceildiv((bx + 1) * block_M, block_N) if causal else T.ceildiv(length, block_N)
            for k in T.Pipelined(steps, num_stages=num_stages):
                T.copy(K[bz, k * block_N : (k + 1) * block_N, by, :], K_shared)
                if causal:
                    for i, j in T.Parallel(block_M, block_N):
                        scores[i, j] = T.if_then_else(bx * block_M + i >= k * block_N + j, 0, -T.infinity("float32"))
                else:
                    T.clear(scores)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(top, top_before)
                T.fill(top, -T.infinity("float32"))
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    top[i] = T.max(top[i], top_before[i])
                for i in T.Parallel(block_M):
                    shrink[i] = T.exp2(top_before[i] * scale - top[i] * scale)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * shrink[i] + part[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(block_M, dim):
                    result[i, j] *= shrink[i]
                T.copy(V[bz, k * block_N : (k + 1) * block_N, by, :], V_shared)
                T.gemm(weights, V_shared, result, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                result[i, j] /= total[i]
            T.copy(result, Output[bz, bx * block_M : (bx + 1) * block_M, by, :])

    return main
