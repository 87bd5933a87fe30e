// C = A B, M = N = K = 4096, one CTA of 512 threads for a tile of 32 x 32: naive, and three ways to share the loads.
//
// MUTANT=1 loses the barrier before the tiles are overwritten, MUTANT=2 reads B's tile at its neighbour's column (3: as if it
// were column-major).

#include <cuda_fp16.h>
#include <mma.h>

#ifndef MUTANT
#define MUTANT 0
#endif
#if MUTANT == 1
#define TILE_BARRIER()
#else
#define TILE_BARRIER() __syncthreads()
#endif

constexpr int TILE = 32, THREADS = 512, HALVES = TILE * TILE / THREADS;

// The reference. (Its operands are floats even where a kernel's are halves: both stand for the same real numbers.)
extern "C" __global__ void gemm_naive(const float *A, const float *B, float *C, int M, int N, int K) {
    for (int e = threadIdx.x; e < TILE * TILE; e += blockDim.x) {
        const int row = blockIdx.y * TILE + e / TILE, col = blockIdx.x * TILE + e % TILE;
        const float *a = A + (size_t)row * K, *b = B + col;
        float sum = 0.0f;
#pragma unroll 8
        for (int k = 0; k < K; ++k, ++a, b += N) sum += *a * *b;
        C[(size_t)row * N + col] = sum;
    }
}

// 1: square tiles of both operands
extern "C" __global__ void gemm1(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float a[TILE][TILE], b[TILE][TILE];
    const int col = threadIdx.x % TILE, row = threadIdx.x / TILE;
    float sum[HALVES] = {};
    A += (size_t)blockIdx.y * TILE * K;
    B += blockIdx.x * TILE;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        for (int h = 0; h < HALVES; ++h) {
            const int r = row + h * TILE / HALVES;
            a[r][col] = A[(size_t)r * K + k0 + col];
            b[r][col] = B[(size_t)(k0 + r) * N + col];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k)
            for (int h = 0; h < HALVES; ++h) sum[h] += a[row + h * TILE / HALVES][k] * b[k][MUTANT == 2 ? col ^ 1 : col];
        TILE_BARRIER();
    }
    for (int h = 0; h < HALVES; ++h)
        C[(size_t)(blockIdx.y * TILE + row + h * TILE / HALVES) * N + blockIdx.x * TILE + col] = sum[h];
}

// 2: two tiles in turn: the next is loaded while one is multiplied, one barrier a tile
extern "C" __global__ void gemm2(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float a[2][TILE][TILE + 1], b[2][TILE][TILE];
    const int col = threadIdx.x % TILE, row = threadIdx.x / TILE;
    float sum[HALVES] = {};
    A += (size_t)blockIdx.y * TILE * K;
    B += blockIdx.x * TILE;
    for (int h = 0; h < HALVES; ++h) {
        const int r = row + h * TILE / HALVES;
        a[0][r][col] = A[(size_t)r * K + col];
        b[0][r][col] = B[(size_t)r * N + col];
    }
    __syncthreads();
    for (int k0 = 0, now = 0; k0 < K; k0 += TILE, now ^= 1) {
        if (k0 + TILE < K)
            for (int h = 0; h < HALVES; ++h) {
                const int r = row + h * TILE / HALVES;
                a[now ^ 1][r][col] = A[(size_t)r * K + k0 + TILE + col];
                b[now ^ 1][r][col] = B[(size_t)(k0 + TILE + r) * N + col];
            }
#pragma unroll
        for (int k = 0; k < TILE; ++k)
            for (int h = 0; h < HALVES; ++h) sum[h] += a[now][row + h * TILE / HALVES][k] * b[now][k][MUTANT == 2 ? col ^ 1 : col];
        TILE_BARRIER();
    }
    for (int h = 0; h < HALVES; ++h)
        C[(size_t)(blockIdx.y * TILE + row + h * TILE / HALVES) * N + blockIdx.x * TILE + col] = sum[h];
}

// 3: tensor cores: sixteen warps load, four of them multiply a tile of 16 x 16 each
extern "C" __global__ void gemm3(const half *A, const half *B, float *C, int M, int N, int K) {
    using namespace nvcuda;
    __shared__ __align__(32) half a[TILE][TILE], b[TILE][TILE];
    const int col = threadIdx.x % TILE, row = threadIdx.x / TILE, warp = threadIdx.x / 32;
    A += (size_t)blockIdx.y * TILE * K;
    B += blockIdx.x * TILE;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int k0 = 0; k0 < K; k0 += TILE) {
        for (int h = 0; h < HALVES; ++h) {
            const int r = row + h * TILE / HALVES;
            a[r][col] = A[(size_t)r * K + k0 + col];
            b[r][col] = B[(size_t)(k0 + r) * N + col];
        }
        __syncthreads();
        if (warp < 4)
            for (int k = 0; k < TILE; k += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
                wmma::load_matrix_sync(left, &a[warp / 2 * 16][k], TILE);
#if MUTANT == 2
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
#else
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
#endif
                wmma::load_matrix_sync(right, &b[k][warp % 2 * 16], TILE);
                wmma::mma_sync(sum, left, right, sum);
            }
        TILE_BARRIER();
    }
    if (warp < 4)
        wmma::store_matrix_sync(&C[(size_t)(blockIdx.y * TILE + warp / 2 * 16) * N + blockIdx.x * TILE + warp % 2 * 16], sum, N, wmma::mem_row_major);
}
