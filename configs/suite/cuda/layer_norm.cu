// Layer normalisation of rows, and the gradient of its input, by CTAs of four warps that share a row: each warp has a partial
// result, the CTA puts them together in shared memory. The array for that is used twice; MISSING_SYNC leaves out the barrier
// between the last read of the first use and the writes of the second (the fault of a widely used training library).
//
// MUTANT=1 loses the barrier between writing and reading partial results, MUTANT=2 forgets one warp's part.

#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef MISSING_SYNC
#define MISSING_SYNC 0
#endif

constexpr int WIDTH = 512, THREADS = 128, WARPS = THREADS / 32, EACH = WIDTH / THREADS;

__device__ float warp_sum(float x) {
    for (int s = 16; s > 0; s /= 2) x += __shfl_xor_sync(0xffffffff, x, s);
    return x;
}

__device__ float block_sum(float x, float *partial) {
    const int warp = threadIdx.x / 32;
    x = warp_sum(x);
#if !MISSING_SYNC
    __syncthreads();
#endif
    if (threadIdx.x % 32 == 0) partial[warp] = x;
#if MUTANT != 1
    __syncthreads();
#endif
    float sum = 0.0f;
    for (int w = 0; w < (MUTANT == 2 ? WARPS - 1 : WARPS); ++w) sum += partial[w];
    return sum;
}

extern "C" __global__ void layer_norm_serial(const float *x, const float *gamma, const float *beta, float *y, float eps) {
    x += blockIdx.x * WIDTH;
    y += blockIdx.x * WIDTH;
    float sum = 0.0f, squares = 0.0f;
    for (int i = 0; i < WIDTH; ++i) sum += x[i];
    const float mean = sum / WIDTH;
    for (int i = 0; i < WIDTH; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const float scale = rsqrtf(squares / WIDTH + eps);
    for (int i = 0; i < WIDTH; ++i) y[i] = (x[i] - mean) * scale * gamma[i] + beta[i];
}

extern "C" __global__ void layer_norm(const float *x, const float *gamma, const float *beta, float *y, float eps) {
    __shared__ float partial[WARPS];
    x += blockIdx.x * WIDTH;
    y += blockIdx.x * WIDTH;
    float own[EACH], sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int i = 0; i < EACH; ++i) sum += own[i] = x[threadIdx.x + i * THREADS];
    const float mean = block_sum(sum, partial) / WIDTH;
#pragma unroll
    for (int i = 0; i < EACH; ++i) squares += (own[i] - mean) * (own[i] - mean);
    const float scale = rsqrtf(block_sum(squares, partial) / WIDTH + eps);
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const int at = threadIdx.x + i * THREADS;
        y[at] = (own[i] - mean) * scale * gamma[at] + beta[at];
    }
}

// dx = (scale / WIDTH) * (WIDTH * dy * gamma - sum(dy * gamma) - xhat * sum(dy * gamma * xhat)), xhat = (x - mean) * scale
extern "C" __global__ void gradient_input_serial(const float *dy, const float *x, const float *gamma, const float *mean, const float *scale,
                                                 float *dx) {
    dy += blockIdx.x * WIDTH;
    x += blockIdx.x * WIDTH;
    dx += blockIdx.x * WIDTH;
    const float m = mean[blockIdx.x], s = scale[blockIdx.x];
    float first = 0.0f, second = 0.0f;
    for (int i = 0; i < WIDTH; ++i) {
        first += dy[i] * gamma[i];
        second += dy[i] * gamma[i] * (x[i] - m) * s;
    }
    for (int i = 0; i < WIDTH; ++i) dx[i] = s / WIDTH * (WIDTH * dy[i] * gamma[i] - first - (x[i] - m) * s * second);
}

extern "C" __global__ void gradient_input(const float *dy, const float *x, const float *gamma, const float *mean, const float *scale,
                                          float *dx) {
    __shared__ float partial[WARPS];
    dy += blockIdx.x * WIDTH;
    x += blockIdx.x * WIDTH;
    dx += blockIdx.x * WIDTH;
    const float m = mean[blockIdx.x], s = scale[blockIdx.x];
    float product[EACH], normal[EACH], first = 0.0f, second = 0.0f;
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const int at = threadIdx.x + i * THREADS;
        product[i] = dy[at] * gamma[at];
        normal[i] = (x[at] - m) * s;
        first += product[i];
        second += product[i] * normal[i];
    }
    first = block_sum(first, partial);
    second = block_sum(second, partial);
#pragma unroll
    for (int i = 0; i < EACH; ++i) dx[threadIdx.x + i * THREADS] = (product[i] - (first + normal[i] * second) * (1.0f / WIDTH)) * s;
}
