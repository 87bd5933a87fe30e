// Parts of a bucket sort, one CTA: the prefix sums that give each bucket its position, the range of the keys, and the reduction
// of values. MISSING_SYNC leaves out the one barrier that a fix added to kernels like these.
//
// MUTANT=1 loses the barrier after the first store, MUTANT=2 leaves out the last step of the tree.

#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef MISSING_SYNC
#define MISSING_SYNC 0
#endif

constexpr int THREADS = 128, BUCKETS = 256;

__device__ __forceinline__ void fixed_barrier() {
#if !MISSING_SYNC
    __syncthreads();
#endif
}
__device__ __forceinline__ void first_barrier() {
#if MUTANT != 1
    __syncthreads();
#endif
}

extern "C" __global__ void bucket_positions_serial(const unsigned *count, unsigned *position) {
    unsigned sum = 0;
    for (int b = 0; b < BUCKETS; ++b) {
        sum += count[b];
        position[b] = sum;
    }
}

// Inclusive prefix sums of the buckets' sizes, THREADS of them at a time; the last sum of a part is carried into the next.
extern "C" __global__ void bucket_positions(const unsigned *count, unsigned *position) {
    __shared__ unsigned sums[THREADS];
    const int t = threadIdx.x;
    unsigned carried = 0;
    for (int start = 0; start < BUCKETS; start += THREADS) {
        sums[t] = count[start + t];
        first_barrier();
        for (int s = 1; s < (MUTANT == 2 ? THREADS / 2 : THREADS); s *= 2) {
            const unsigned before = t >= s ? sums[t - s] : 0;
            __syncthreads();
            sums[t] += before;
            __syncthreads();
        }
        position[start + t] = carried + sums[t];
        carried += sums[THREADS - 1];
        fixed_barrier();
    }
}

extern "C" __global__ void key_range_serial(const float *key, float *range, int n) {
    float low = key[0], high = key[0];
    for (int i = 1; i < n; ++i) {
        low = fminf(low, key[i]);
        high = fmaxf(high, key[i]);
    }
    range[0] = low;
    range[1] = high;
}

// Least and largest key: one tree after the other in one array.
extern "C" __global__ void key_range(const float *key, float *range, int n) {
    __shared__ float extreme[THREADS];
    const int t = threadIdx.x;
    float low = key[t], high = key[t];
    for (int i = t + THREADS; i < n; i += THREADS) {
        low = fminf(low, key[i]);
        high = fmaxf(high, key[i]);
    }
    extreme[t] = low;
    first_barrier();
    for (int s = THREADS / 2; s > 0; s /= 2) {
        if (t < s) extreme[t] = fminf(extreme[t], extreme[t + s]);
        __syncthreads();
    }
    if (t == 0) range[0] = extreme[0];
    fixed_barrier();
    extreme[THREADS - 1 - t] = high;
    __syncthreads();
    for (int s = THREADS / 2; s > (MUTANT == 2 ? 1 : 0); s /= 2) {
        if (t < s) extreme[t] = fmaxf(extreme[t], extreme[t + s]);
        __syncthreads();
    }
    if (t == 0) range[1] = extreme[0];
}

extern "C" __global__ void reduce_values_serial(const float *value, float *out, int n) {
    float sum = 0.0f;
    for (int i = 0; i < n; ++i) sum += value[i];
    out[0] = sum;
}

// The sum of values: warps first, without barriers between the steps of a warp where they would be needed.
extern "C" __global__ void reduce_values(const float *value, float *out, int n) {
    __shared__ float sums[THREADS];
    const int t = threadIdx.x;
    float sum = 0.0f;
    for (int i = t; i < n; i += THREADS) sum += value[i];
    sums[t] = sum;
    first_barrier();
    for (int s = 1; s < 32; s *= 2) {
        if (t % (2 * s) == 0) sums[t] += sums[t + s];
        fixed_barrier();
    }
    for (int s = 32; s < (MUTANT == 2 ? THREADS / 2 : THREADS); s *= 2) {
        if (t % (2 * s) == 0) sums[t] += sums[t + s];
        __syncthreads();
    }
    if (t == 0) out[0] = sums[0];
}
