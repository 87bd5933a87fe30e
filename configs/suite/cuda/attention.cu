// softmax(Q K^T / 8) V for 16 queries and 512 keys, D = 64, one CTA: one thread without a maximum, FlashAttention 1 and 2.
//
// CAUSAL: the queries are the last 16 positions, key j is visible to query i if j <= i + 496. CAUSAL=1 masks in a pass of its own
// after the scores, CAUSAL=2 where the scores are computed, and leaves out the keys that no query sees.
// MUTANT=1 loses the barrier between the probabilities and their use, MUTANT=2 does not rescale the sum of earlier blocks.

#include <cuda_fp16.h>
#include <math_constants.h>
#include <mma.h>

#ifndef CAUSAL
#define CAUSAL 0
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

#ifndef KEYS
#define KEYS 512
#endif

constexpr int ROWS = 16, D = 64, BC = 128, THREADS = 128, OFFSET = KEYS - ROWS, PARTS = THREADS / ROWS;
constexpr float SCALE = 0.125f;

__device__ __forceinline__ bool visible(int row, int key) { return CAUSAL == 0 || key <= row + OFFSET; }

// 2^x as the special function unit computes it
__device__ __forceinline__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ void probabilities_barrier() {
#if MUTANT != 1
    __syncthreads();
#endif
}

// The reference. (Its inputs are floats even where a kernel's are halves: both stand for the same real numbers.)
extern "C" __global__ void attention_naive(const float *Q, const float *K, const float *V, float *O) {
    for (int i = 0; i < ROWS; ++i) {
        float out[D] = {}, sum = 0.0f;
        for (int j = 0; j < (CAUSAL ? i + OFFSET + 1 : KEYS); ++j) {
            float score = 0.0f;
#pragma unroll
            for (int d = 0; d < D; ++d) score += Q[i * D + d] * K[j * D + d];
            const float p = __expf(score * SCALE);
            sum += p;
#pragma unroll
            for (int d = 0; d < D; ++d) out[d] += p * V[j * D + d];
        }
#pragma unroll
        for (int d = 0; d < D; ++d) O[i * D + d] = out[d] / sum;
    }
}

// The statistics of one row over a block, by the PARTS neighbouring threads that share the row.
__device__ float row_max(float x) {
    for (int s = PARTS / 2; s > 0; s /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, s));
    return x;
}
__device__ float row_sum(float x) {
    for (int s = PARTS / 2; s > 0; s /= 2) x += __shfl_xor_sync(0xffffffff, x, s);
    return x;
}

// Mask of its own pass over the scores in shared memory.
__device__ void mask_scores(float *S, int j0, int t) {
#if CAUSAL == 1
    for (int e = t; e < ROWS * BC; e += THREADS)
        if (!visible(e / BC, j0 + e % BC)) S[e] = -CUDART_INF_F;
    __syncthreads();
#endif
}
__device__ __forceinline__ float masked(float score, int row, int key) {
    return CAUSAL == 2 && !visible(row, key) ? -CUDART_INF_F : score;
}

// FlashAttention 1: the output is kept normalised, in global memory.
extern "C" __global__ void attention_fa1(const float *Q, const float *K, const float *V, float *O) {
    extern __shared__ __align__(16) float shared[];
    float *q = shared, *k = q + ROWS * D, *v = k + BC * (D + 1), *S = v + BC * D;
    const int t = threadIdx.x, row = t / PARTS, part = t % PARTS;
    float m = -CUDART_INF_F, l = 0.0f;
    for (int e = t; e < ROWS * D; e += THREADS) q[e] = Q[e];
    for (int d = part; d < D; d += PARTS) O[row * D + d] = 0.0f;
    for (int j0 = 0; j0 < KEYS; j0 += BC) {
        for (int e = t; e < BC * D; e += THREADS) {
            k[e / D * (D + 1) + e % D] = K[j0 * D + e];
            v[e] = V[j0 * D + e];
        }
        __syncthreads();
        for (int r = 0; r < ROWS; ++r) {
            float score = 0.0f;
#pragma unroll 16
            for (int d = 0; d < D; ++d) score += q[r * D + d] * k[t * (D + 1) + d];
            S[r * BC + t] = masked(score * SCALE, r, j0 + t);
        }
        __syncthreads();
        mask_scores(S, j0, t);
        float highest = -CUDART_INF_F, sum = 0.0f;
        for (int c = part; c < BC; c += PARTS) highest = fmaxf(highest, S[row * BC + c]);
        highest = row_max(highest);
        for (int c = part; c < BC; c += PARTS) {
            const float p = __expf(S[row * BC + c] - highest);
            S[row * BC + c] = p;
            sum += p;
        }
        sum = row_sum(sum);
        probabilities_barrier();
        const float m_new = fmaxf(m, highest), before = MUTANT == 2 ? 1.0f : __expf(m - m_new), now = __expf(highest - m_new);
        const float l_new = before * l + now * sum;
        for (int d = part; d < D; d += PARTS) {
            float pv = 0.0f;
#pragma unroll 16
            for (int c = 0; c < BC; ++c) pv += S[row * BC + c] * v[c * D + d];
            O[row * D + d] = (before * l * O[row * D + d] + now * pv) / l_new;
        }
        m = m_new;
        l = l_new;
        __syncthreads();
    }
}

using namespace nvcuda;
using FragmentA = wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major>;
using FragmentBT = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major>;
using FragmentB = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major>;
using Accumulator = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

__device__ void load_tiles(const half *K, const half *V, half *k, half *v, int j0, int t) {
    for (int e = t * 8; e < BC * D; e += THREADS * 8) {
        *reinterpret_cast<uint4 *>(&k[e]) = *reinterpret_cast<const uint4 *>(&K[j0 * D + e]);
        *reinterpret_cast<uint4 *>(&v[e]) = *reinterpret_cast<const uint4 *>(&V[j0 * D + e]);
    }
}

// S = Q K^T: each of the four warps makes two tiles of 16 x 16
__device__ void score_tiles(const half *q, const half *k, float *S, int warp) {
    for (int tile = 2 * warp; tile < 2 * warp + 2; ++tile) {
        Accumulator acc;
        wmma::fill_fragment(acc, 0.0f);
        for (int d = 0; d < D; d += 16) {
            FragmentA a;
            FragmentBT b;
            wmma::load_matrix_sync(a, q + d, D);
            wmma::load_matrix_sync(b, k + tile * 16 * D + d, D);
            wmma::mma_sync(acc, a, b, acc);
        }
        wmma::store_matrix_sync(S + tile * 16, acc, BC, wmma::mem_row_major);
    }
}

// out += P V: each warp makes 16 columns
__device__ void value_tiles(const half *P, const half *v, float *out, int warp, bool accumulate) {
    Accumulator acc;
    if (accumulate)
        wmma::load_matrix_sync(acc, out + warp * 16, D, wmma::mem_row_major);
    else
        wmma::fill_fragment(acc, 0.0f);
    for (int c = 0; c < BC; c += 16) {
        FragmentA a;
        FragmentB b;
        wmma::load_matrix_sync(a, P + c, BC);
        wmma::load_matrix_sync(b, v + c * D + warp * 16, D);
        wmma::mma_sync(acc, a, b, acc);
    }
    wmma::store_matrix_sync(out + warp * 16, acc, D, wmma::mem_row_major);
}

// FlashAttention 1 on tensor cores
extern "C" __global__ void attention_fa1_wmma(const half *Q, const half *K, const half *V, float *O) {
    extern __shared__ __align__(32) half half_shared[];
    half *q = half_shared, *k = q + ROWS * D, *v = k + BC * D, *P = v + BC * D;
    float *S = reinterpret_cast<float *>(P + ROWS * BC), *pv = S + ROWS * BC;
    const int t = threadIdx.x, warp = t / 32, row = t / PARTS, part = t % PARTS;
    float m = -CUDART_INF_F, l = 0.0f;
    for (int e = t; e < ROWS * D; e += THREADS) q[e] = Q[e];
    for (int d = part; d < D; d += PARTS) O[row * D + d] = 0.0f;
    for (int j0 = 0; j0 < KEYS; j0 += BC) {
        load_tiles(K, V, k, v, j0, t);
        __syncthreads();
        score_tiles(q, k, S, warp);
        __syncthreads();
        mask_scores(S, j0, t);
        float highest = -CUDART_INF_F, sum = 0.0f;
        for (int c = part; c < BC; c += PARTS) highest = fmaxf(highest, masked(S[row * BC + c] * SCALE, row, j0 + c));
        highest = row_max(highest);
        for (int c = part; c < BC; c += PARTS) {
            const float p = __expf(masked(S[row * BC + c] * SCALE, row, j0 + c) - highest);
            P[row * BC + c] = __float2half(p);
            sum += p;
        }
        sum = row_sum(sum);
        const float m_new = fmaxf(m, highest), before = MUTANT == 2 ? 1.0f : __expf(m - m_new), now = __expf(highest - m_new);
        const float l_new = before * l + now * sum;
        probabilities_barrier();
        value_tiles(P, v, pv, warp, false);
        __syncthreads();
        for (int d = part; d < D; d += PARTS) O[row * D + d] = (before * l * O[row * D + d] + now * pv[row * D + d]) / l_new;
        m = m_new;
        l = l_new;
        __syncthreads();
    }
}

// FlashAttention 2 on tensor cores: the output is normalised once, at the end; powers of two
extern "C" __global__ void attention_fa2_wmma(const half *Q, const half *K, const half *V, float *O) {
    extern __shared__ __align__(32) half half_shared[];
    half *q = half_shared, *k = q + ROWS * D, *v = k + BC * D, *P = v + BC * D;
    float *S = reinterpret_cast<float *>(P + ROWS * BC), *out = S + ROWS * BC;
    constexpr float LOG2_SCALE = SCALE * 1.4426950408889634f;
    const int t = threadIdx.x, warp = t / 32, row = t / PARTS, part = t % PARTS;
    float m = -CUDART_INF_F, l = 0.0f;
    for (int e = t; e < ROWS * D; e += THREADS) {
        q[e] = Q[e];
        out[e] = 0.0f;
    }
    for (int j0 = 0; j0 < KEYS; j0 += BC) {
        load_tiles(K, V, k, v, j0, t);
        __syncthreads();
        score_tiles(q, k, S, warp);
        __syncthreads();
        mask_scores(S, j0, t);
        float highest = m, sum = 0.0f;
        for (int c = part; c < BC; c += PARTS) highest = fmaxf(highest, masked(S[row * BC + c], row, j0 + c));
        highest = row_max(highest);
        const float before = exp2_approx((m - highest) * LOG2_SCALE);
        for (int c = part; c < BC; c += PARTS) {
            const float p = exp2_approx(masked(S[row * BC + c], row, j0 + c) * LOG2_SCALE - highest * LOG2_SCALE);
            P[row * BC + c] = __float2half(p);
            sum += p;
        }
        l = (MUTANT == 2 ? l : before * l) + row_sum(sum);
        for (int d = part; d < D; d += PARTS) out[row * D + d] *= before;
        m = highest;
        probabilities_barrier();
        value_tiles(P, v, out, warp, true);
        __syncthreads();
    }
    for (int d = part; d < D; d += PARTS) O[row * D + d] = out[row * D + d] / l;
}
