// AlexNet's first convolution as an implicit product: out[co, n] = sum over k of weight[co, k] * image[patch(n), k], with 96 output
// channels, k = (channel, ky, kx) over 3 x 11 x 11 = 363, and n over 100 images of 55 x 55 pixels (227 x 227, stride 4): 302500.
//
// A CTA of 256 threads makes 128 x 128 of 96 x 302500 (rows from 96 on are masked). OUT_OF_BOUNDS reads one row of the shared
// tile beyond its end, as a kernel with a slice of 16 and 15 rows does.
// MUTANT=1 loses the barrier before the tiles are overwritten, MUTANT=2 takes a stride of 2 for every other column of pixels.

#include <cuda_fp16.h>
#include <mma.h>

#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef OUT_OF_BOUNDS
#define OUT_OF_BOUNDS 0
#endif

constexpr int CO = 96, IMAGES = 100, CI = 3, SIZE = 227, FILTER = 11, STRIDE = 4, OUT = 55;
constexpr int K = CI * FILTER * FILTER, N = IMAGES * OUT * OUT, TILE = 128, THREADS = 256, BK = 16;

// Where pixel n's patch begins in the images.
__device__ __forceinline__ int patch(int n, bool wrong = false) {
    const int image = n / (OUT * OUT), y = n / OUT % OUT, x = n % OUT;
    return (image * CI * SIZE + y * STRIDE) * SIZE + x * (wrong && x % 2 ? 2 : STRIDE);
}

// Where element k of a patch lies from its beginning.
__device__ __forceinline__ int within(int k) {
    return (k / (FILTER * FILTER) * SIZE + k / FILTER % FILTER) * SIZE + k % FILTER;
}

// The reference. (Its inputs are floats where the kernel's are halves: both stand for the same real numbers.)
extern "C" __global__ void conv2d_naive(const float *weight, const float *image, float *out) {
    for (int e = threadIdx.x; e < CO * TILE; e += blockDim.x) {
        const int co = e / TILE, n = blockIdx.x * TILE + e % TILE;
        if (n >= N) continue;
        const float *pixels = image + patch(n), *w = weight + co * K;
        float sum = 0.0f;
        for (int c = 0; c < CI; ++c)
            for (int y = 0; y < FILTER; ++y) {
#pragma unroll
                for (int x = 0; x < FILTER; ++x) sum += *w++ * pixels[(c * SIZE + y) * SIZE + x];
            }
        out[co * N + n] = sum;
    }
}

extern "C" __global__ void conv2d(const half *weight, const half *image, float *out) {
    using namespace nvcuda;
    __shared__ __align__(32) half w[TILE][BK], p[BK - OUT_OF_BOUNDS][TILE];
    __shared__ __align__(32) float stage[8][16 * 16];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, n = blockIdx.x * TILE + t % TILE;
    const int start = n < N ? patch(n, MUTANT == 2) : -1;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[8];
    for (int j = 0; j < 8; ++j) wmma::fill_fragment(sum[j], 0.0f);
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int e = t; e < TILE * BK; e += THREADS) {
            const int co = e / BK, k = k0 + e % BK;
            w[co][e % BK] = co < CO && k < K ? weight[co * K + k] : half(0.0f);
        }
        for (int r = t / TILE; r < BK - OUT_OF_BOUNDS; r += THREADS / TILE) {
            const int k = k0 + r;
            p[r][t % TILE] = start >= 0 && k < K ? image[start + within(k)] : half(0.0f);
        }
        __syncthreads();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
        wmma::load_matrix_sync(left, &w[warp * 16][0], BK);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
            wmma::load_matrix_sync(right, &p[0][j * 16], TILE);
            wmma::mma_sync(sum[j], left, right, sum[j]);
        }
#if MUTANT != 1
        __syncthreads();
#endif
    }
    for (int j = 0; j < 8; ++j) {
        wmma::store_matrix_sync(stage[warp], sum[j], 16, wmma::mem_row_major);
        __syncwarp();
        for (int e = lane; e < 16 * 16; e += 32) {
            const int co = warp * 16 + e / 16, column = blockIdx.x * TILE + j * 16 + e % 16;
            if (co < CO && column < N) out[(size_t)co * N + column] = stage[warp][e];
        }
        __syncwarp();
    }
}
