// C = A B in halves on tensor cores, in the form that tile compilers emit: 128 threads, one stage, ldmatrix and mma.sync m16n8k16.
// M = N = K = 4096; a CTA makes BM x BN (define them), four warps as 2 x 2, 32 of K at a time; f32 accumulators, C in halves.
//
// MUTANT=1 loses the barrier before the tiles are overwritten, MUTANT=2 leaves out the second half of each slice.

#include <cuda_fp16.h>

#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef BM
#define BM 32
#endif
#ifndef BN
#define BN 32
#endif

constexpr int BK = 32, THREADS = 128, WM = BM / 2, WN = BN / 2, PAD = 8;

// The reference. (Its operands are floats: both stand for the same real numbers.)
extern "C" __global__ void tile_naive(const float *A, const float *B, float *C, int M, int N, int K) {
    for (int e = threadIdx.x; e < BM * BN; e += blockDim.x) {
        const int row = blockIdx.y * BM + e / BN, col = blockIdx.x * BN + e % BN;
        const float *a = A + (size_t)row * K, *b = B + col;
        float sum = 0.0f;
#pragma unroll 8
        for (int k = 0; k < K; ++k, ++a, b += N) sum += *a * *b;
        C[(size_t)row * N + col] = sum;
    }
}

__device__ __forceinline__ unsigned shared_address(const void *p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void load_a(unsigned (&r)[4], const half *tile, int lane) {
    const unsigned at = shared_address(tile + lane % 16 * (BK + PAD) + lane / 16 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}

__device__ __forceinline__ void load_b(unsigned (&r)[2], const half *tile, int lane) {
    const unsigned at = shared_address(tile + lane % 16 * (BN + PAD));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(at));
}

__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

extern "C" __global__ void tile_mma(const half *A, const half *B, half *C, int M, int N, int K) {
    __shared__ __align__(16) half a[BM][BK + PAD], b[BK][BN + PAD];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, row0 = warp / 2 * WM, col0 = warp % 2 * WN;
    A += (size_t)blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    float sum[WM / 16][WN / 8][4] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int e = t * 8; e < BM * BK; e += THREADS * 8)
            *reinterpret_cast<uint4 *>(&a[e / BK][e % BK]) = *reinterpret_cast<const uint4 *>(&A[(size_t)(e / BK) * K + k0 + e % BK]);
        for (int e = t * 8; e < BK * BN; e += THREADS * 8)
            *reinterpret_cast<uint4 *>(&b[e / BN][e % BN]) = *reinterpret_cast<const uint4 *>(&B[(size_t)(k0 + e / BN) * N + e % BN]);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < (MUTANT == 2 ? BK / 2 : BK); k += 16)
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
                unsigned left[4];
                load_a(left, &a[row0 + i * 16][k], lane);
#pragma unroll
                for (int j = 0; j < WN / 8; ++j) {
                    unsigned right[2];
                    load_b(right, &b[k][col0 + j * 8], lane);
                    multiply(sum[i][j], left, right);
                }
            }
#if MUTANT != 1
        __syncthreads();
#endif
    }
#pragma unroll
    for (int i = 0; i < WM / 16; ++i)
#pragma unroll
        for (int j = 0; j < WN / 8; ++j)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int row = blockIdx.y * BM + row0 + i * 16 + lane / 4 + h * 8, col = blockIdx.x * BN + col0 + j * 8 + lane % 4 * 2;
                *reinterpret_cast<half2 *>(&C[(size_t)row * N + col]) = __floats2half2_rn(sum[i][j][2 * h], sum[i][j][2 * h + 1]);
            }
}
