// Sum of a block's elements in shared memory, step by step (interleaved addressing to warp-synchronous code).
//
// Steps 5 to 7 end in code that trusts the 32 threads of a warp to run in step, which no GPU has promised since Volta: they race.
// VOLATILE=1 makes those accesses volatile, as the code of that time had them: strong operations, so no data race by the letter,
// but what they read depends on the schedule. The repaired twins order the last steps with __syncwarp, or exchange by shuffles.
// MUTANT=1 loses the barrier of the loop (or the last __syncwarp), MUTANT=2 leaves out the last step of the tree.

#ifndef ELEMENTS
#define ELEMENTS 128
#endif
#ifndef THREADS
#define THREADS 128
#endif
#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef VOLATILE
#define VOLATILE 0
#endif

#if MUTANT == 1
#define LOOP_BARRIER()
#define WARP_BARRIER()
#else
#define LOOP_BARRIER() __syncthreads()
#define WARP_BARRIER() __syncwarp()
#endif
#if MUTANT == 2
#define LEAST 1
#else
#define LEAST 0
#endif

extern "C" __global__ void reduce_serial(const float *x, float *out) {
    float sum = 0.0f;
    for (int i = 0; i < ELEMENTS; ++i) sum += x[i];
    out[0] = sum;
}

// 1: interleaved addressing, divergent branches
extern "C" __global__ void reduce1(const float *x, float *out) {
    __shared__ float data[THREADS];
    const unsigned t = threadIdx.x;
    data[t] = x[blockIdx.x * blockDim.x + t];
    __syncthreads();
    for (unsigned s = 1; s < (blockDim.x >> LEAST); s *= 2) {
        if (t % (2 * s) == 0) data[t] += data[t + s];
        LOOP_BARRIER();
    }
    if (t == 0) out[blockIdx.x] = data[0];
}

// 2: interleaved addressing, no divergence within a warp
extern "C" __global__ void reduce2(const float *x, float *out) {
    __shared__ float data[THREADS];
    const unsigned t = threadIdx.x;
    data[t] = x[blockIdx.x * blockDim.x + t];
    __syncthreads();
    for (unsigned s = 1; s < (blockDim.x >> LEAST); s *= 2) {
        const unsigned index = 2 * s * t;
        if (index < blockDim.x) data[index] += data[index + s];
        LOOP_BARRIER();
    }
    if (t == 0) out[blockIdx.x] = data[0];
}

// 3: sequential addressing
extern "C" __global__ void reduce3(const float *x, float *out) {
    __shared__ float data[THREADS];
    const unsigned t = threadIdx.x;
    data[t] = x[blockIdx.x * blockDim.x + t];
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > LEAST; s >>= 1) {
        if (t < s) data[t] += data[t + s];
        LOOP_BARRIER();
    }
    if (t == 0) out[blockIdx.x] = data[0];
}

// 4: the first addition while loading: half of the threads
extern "C" __global__ void reduce4(const float *x, float *out) {
    __shared__ float data[THREADS];
    const unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x * 2 + t;
    data[t] = x[i] + x[i + blockDim.x];
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > LEAST; s >>= 1) {
        if (t < s) data[t] += data[t + s];
        LOOP_BARRIER();
    }
    if (t == 0) out[blockIdx.x] = data[0];
}

#if VOLATILE
typedef volatile float Shared;
#else
typedef float Shared;
#endif

__device__ void warp_tail(Shared *data, unsigned t) {
    data[t] += data[t + 32];
    data[t] += data[t + 16];
    data[t] += data[t + 8];
    data[t] += data[t + 4];
    data[t] += data[t + 2];
    data[t] += data[t + 1];
}

__device__ void warp_tail_ordered(float *data, unsigned t) {
    float sum = data[t];
#pragma unroll
    for (unsigned s = 32; s > LEAST; s >>= 1) {
        sum += data[t + s];
        WARP_BARRIER();
        data[t] = sum;
        WARP_BARRIER();
    }
}

// 5: the last warp without barriers
extern "C" __global__ void reduce5(const float *x, float *out) {
    __shared__ float data[THREADS];
    const unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x * 2 + t;
    data[t] = x[i] + x[i + blockDim.x];
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > 32; s >>= 1) {
        if (t < s) data[t] += data[t + s];
        __syncthreads();
    }
    if (t < 32) warp_tail(data, t);
    if (t == 0) out[blockIdx.x] = data[0];
}

// 6: completely unrolled
template <unsigned BLOCK> __device__ void unrolled(const float *x, float *out, float *data) {
    const unsigned t = threadIdx.x, i = blockIdx.x * BLOCK * 2 + t;
    data[t] = x[i] + x[i + BLOCK];
    __syncthreads();
    if (BLOCK >= 512) { if (t < 256) data[t] += data[t + 256]; __syncthreads(); }
    if (BLOCK >= 256) { if (t < 128) data[t] += data[t + 128]; __syncthreads(); }
    if (BLOCK >= 128) { if (t < 64) data[t] += data[t + 64]; __syncthreads(); }
}

extern "C" __global__ void reduce6(const float *x, float *out) {
    __shared__ float data[THREADS];
    unrolled<THREADS>(x, out, data);
    if (threadIdx.x < 32) warp_tail(data, threadIdx.x);
    if (threadIdx.x == 0) out[blockIdx.x] = data[0];
}

// 7: several elements a thread
template <unsigned BLOCK> __device__ void striding(const float *x, float *data, unsigned n) {
    const unsigned t = threadIdx.x;
    float sum = 0.0f;
    for (unsigned i = blockIdx.x * BLOCK * 2 + t; i < n; i += BLOCK * 2 * gridDim.x) sum += x[i] + x[i + BLOCK];
    data[t] = sum;
    __syncthreads();
    if (BLOCK >= 128) { if (t < 64) data[t] += data[t + 64]; __syncthreads(); }
}

extern "C" __global__ void reduce7(const float *x, float *out, unsigned n) {
    __shared__ float data[THREADS];
    striding<THREADS>(x, data, n);
    if (threadIdx.x < 32) warp_tail(data, threadIdx.x);
    if (threadIdx.x == 0) out[blockIdx.x] = data[0];
}

extern "C" __global__ void reduce5_repaired(const float *x, float *out) {
    __shared__ float data[THREADS];
    const unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x * 2 + t;
    data[t] = x[i] + x[i + blockDim.x];
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > 32; s >>= 1) {
        if (t < s) data[t] += data[t + s];
        __syncthreads();
    }
    if (t < 32) warp_tail_ordered(data, t);
    if (t == 0) out[blockIdx.x] = data[0];
}

extern "C" __global__ void reduce6_repaired(const float *x, float *out) {
    __shared__ float data[THREADS];
    unrolled<THREADS>(x, out, data);
    if (threadIdx.x < 32) warp_tail_ordered(data, threadIdx.x);
    if (threadIdx.x == 0) out[blockIdx.x] = data[0];
}

// the last warp exchanges registers: no shared memory, nothing to order
extern "C" __global__ void reduce7_repaired(const float *x, float *out, unsigned n) {
    __shared__ float data[THREADS];
    striding<THREADS>(x, data, n);
    if (threadIdx.x >= 32) return;
    float sum = data[threadIdx.x];
#if MUTANT != 1
    sum += data[threadIdx.x + 32];
#endif
#pragma unroll
    for (unsigned s = 16; s > LEAST; s >>= 1) sum += __shfl_down_sync(0xffffffff, sum, s);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
