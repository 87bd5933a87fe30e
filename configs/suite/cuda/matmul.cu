// C = alpha * A B + beta * C in f32, step by step: naive to warp tiles. Row-major, M x K times K x N, all extents multiples of
// the tiles. A CTA makes a tile of BM x BN of C; its index runs over columns first.
//
// MUTANT=1 loses the barrier after the inner products (the tile is overwritten while it is read; steps without shared memory:
// a product is lost), MUTANT=2 leaves out the last slice of K.

#ifndef MUTANT
#define MUTANT 0
#endif
#if MUTANT == 1
#define TILE_BARRIER()
#else
#define TILE_BARRIER() __syncthreads()
#endif
#if MUTANT == 2
#define END(K, SLICE) ((K) - (SLICE))
#else
#define END(K, SLICE) (K)
#endif
#if MUTANT == 1
#define FIRST 1
#else
#define FIRST 0
#endif

// One element: the sum over k of A[row, k] * B[k, col].
__device__ float inner_product(const float *A, const float *B, int row, int col, int first, int end, int N, int K) {
    const float *a = A + (size_t)row * K + first, *b = B + (size_t)first * N + col;
    float sum = 0.0f;
#pragma unroll 8
    for (int k = first; k < end; ++k, ++a, b += N) sum += *a * *b;
    return sum;
}

// The reference: the CTA's tile by any number of threads, one element after the other.
extern "C" __global__ void matmul_reference(const float *A, const float *B, float *C, int M, int N, int K, float alpha, float beta) {
    for (int e = threadIdx.x; e < 64 * 64; e += blockDim.x) {
        const int row = blockIdx.y * 64 + e / 64, col = blockIdx.x * 64 + e % 64;
        C[row * N + col] = alpha * inner_product(A, B, row, col, 0, K, N, K) + beta * C[row * N + col];
    }
}

// 1: naive: neighbouring threads in neighbouring rows
extern "C" __global__ void matmul1(const float *A, const float *B, float *C, int M, int N, int K, float alpha, float beta) {
    for (int e = threadIdx.x; e < 64 * 64; e += blockDim.x) {
        const int row = blockIdx.y * 64 + e % 64, col = blockIdx.x * 64 + e / 64;
        C[row * N + col] = alpha * inner_product(A, B, row, col, FIRST, END(K, 1), N, K) + beta * C[row * N + col];
    }
}

// 2: coalesced: neighbouring threads in neighbouring columns
extern "C" __global__ void matmul2(const float *A, const float *B, float *C, int M, int N, int K, float alpha, float beta) {
    for (int e = threadIdx.x; e < 64 * 64; e += blockDim.x) {
        const int row = blockIdx.y * 64 + e / 64, col = blockIdx.x * 64 + e % 64;
        C[row * N + col] = alpha * inner_product(A, B, row, col, FIRST, END(K, 1), N, K) + beta * C[row * N + col];
    }
}

// 3: tiles of A and B in shared memory, one slice of BK at a time; 512 threads load one element of each
extern "C" __global__ void matmul3(const float *A, const float *B, float *C, int M, int N, int K, float alpha, float beta) {
    constexpr int BM = 64, BN = 64, BK = 8, EACH = BM * BN / 512;
    __shared__ float As[BM * BK], Bs[BK * BN];
    const int t = threadIdx.x, col = t % BN, row0 = t / BN;
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;
    float sum[EACH] = {};
    for (int k0 = 0; k0 < END(K, BK); k0 += BK) {
        As[t] = A[(t / BK) * K + k0 + t % BK];
        Bs[t] = B[(k0 + t / BN) * N + t % BN];
        __syncthreads();
        for (int k = 0; k < BK; ++k)
            for (int i = 0; i < EACH; ++i) sum[i] += As[(row0 + i * 8) * BK + k] * Bs[k * BN + col];
        TILE_BARRIER();
    }
    for (int i = 0; i < EACH; ++i) {
        const int at = (row0 + i * 8) * N + col;
        C[at] = alpha * sum[i] + beta * C[at];
    }
}

// 4: a column of TM elements a thread
extern "C" __global__ void matmul4(const float *A, const float *B, float *C, int M, int N, int K, float alpha, float beta) {
    constexpr int BM = 64, BN = 64, BK = 8, THREADS = 128, TM = BM * BN / THREADS;
    __shared__ float As[BM * BK], Bs[BK * BN];
    const int t = threadIdx.x, col = t % BN, row0 = t / BN * TM;
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;
    float sum[TM] = {};
    for (int k0 = 0; k0 < END(K, BK); k0 += BK) {
        for (int i = t; i < BM * BK; i += THREADS) As[i] = A[(i / BK) * K + k0 + i % BK];
        for (int i = t; i < BK * BN; i += THREADS) Bs[i] = B[(k0 + i / BN) * N + i % BN];
        __syncthreads();
        for (int k = 0; k < BK; ++k) {
            const float b = Bs[k * BN + col];
            for (int i = 0; i < TM; ++i) sum[i] += As[(row0 + i) * BK + k] * b;
        }
        TILE_BARRIER();
    }
    for (int i = 0; i < TM; ++i) {
        const int at = (row0 + i) * N + col;
        C[at] = alpha * sum[i] + beta * C[at];
    }
}

// 5: a tile of TM x TN elements a thread, operands in registers
extern "C" __global__ void matmul5(const float *A, const float *B, float *C, int M, int N, int K, float alpha, float beta) {
    constexpr int BM = 64, BN = 64, BK = 8, THREADS = 128, TM = 8, TN = 4;
    __shared__ float As[BM * BK], Bs[BK * BN];
    const int t = threadIdx.x, row0 = t / (BN / TN) * TM, col0 = t % (BN / TN) * TN;
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;
    float sum[TM][TN] = {}, a[TM], b[TN];
    for (int k0 = 0; k0 < END(K, BK); k0 += BK) {
        for (int i = t; i < BM * BK; i += THREADS) As[i] = A[(i / BK) * K + k0 + i % BK];
        for (int i = t; i < BK * BN; i += THREADS) Bs[i] = B[(k0 + i / BN) * N + i % BN];
        __syncthreads();
        for (int k = 0; k < BK; ++k) {
            for (int i = 0; i < TM; ++i) a[i] = As[(row0 + i) * BK + k];
            for (int j = 0; j < TN; ++j) b[j] = Bs[k * BN + col0 + j];
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j) sum[i][j] += a[i] * b[j];
        }
        TILE_BARRIER();
    }
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) {
            const int at = (row0 + i) * N + col0 + j;
            C[at] = alpha * sum[i][j] + beta * C[at];
        }
}

// 6 and 7: vectors of four; A transposed in shared memory; 7 pads the rows of A's tile so that its columns are in other banks
template <int PAD> __device__ void vectorised(const float *A, const float *B, float *C, int N, int K, float alpha, float beta) {
    constexpr int BM = 64, BN = 64, BK = 8, TM = 4, TN = 4, STRIDE = BM + PAD;
    __shared__ __align__(16) float As[BK * STRIDE], Bs[BK * BN];
    const int t = threadIdx.x, row0 = t / (BN / TN) * TM, col0 = t % (BN / TN) * TN;
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;
    float sum[TM][TN] = {};
    for (int k0 = 0; k0 < END(K, BK); k0 += BK) {
        if (t < 128) {
            const int row = t / (BK / 4), k = t % (BK / 4) * 4;
            const float4 a = *reinterpret_cast<const float4 *>(&A[row * K + k0 + k]);
            As[(k + 0) * STRIDE + row] = a.x;
            As[(k + 1) * STRIDE + row] = a.y;
            As[(k + 2) * STRIDE + row] = a.z;
            As[(k + 3) * STRIDE + row] = a.w;
        } else {
            const int u = t - 128, k = u / (BN / 4), col = u % (BN / 4) * 4;
            *reinterpret_cast<float4 *>(&Bs[k * BN + col]) = *reinterpret_cast<const float4 *>(&B[(k0 + k) * N + col]);
        }
        __syncthreads();
        for (int k = 0; k < BK; ++k) {
            const float4 a = *reinterpret_cast<const float4 *>(&As[k * STRIDE + row0]);
            const float4 b = *reinterpret_cast<const float4 *>(&Bs[k * BN + col0]);
            const float left[4] = {a.x, a.y, a.z, a.w}, right[4] = {b.x, b.y, b.z, b.w};
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j) sum[i][j] += left[i] * right[j];
        }
        TILE_BARRIER();
    }
    for (int i = 0; i < TM; ++i) {
        float4 *at = reinterpret_cast<float4 *>(&C[(row0 + i) * N + col0]);
        const float4 c = *at;
        *at = make_float4(alpha * sum[i][0] + beta * c.x, alpha * sum[i][1] + beta * c.y, alpha * sum[i][2] + beta * c.z,
                          alpha * sum[i][3] + beta * c.w);
    }
}

extern "C" __global__ void matmul6(const float *A, const float *B, float *C, int M, int N, int K, float alpha, float beta) {
    vectorised<0>(A, B, C, N, K, alpha, beta);
}

extern "C" __global__ void matmul7(const float *A, const float *B, float *C, int M, int N, int K, float alpha, float beta) {
    vectorised<4>(A, B, C, N, K, alpha, beta);
}
