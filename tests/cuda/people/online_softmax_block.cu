// A block per row: threads fold elements into a running maximum and sum, warps and then the block join these.
struct __align__(8) State { float top; float sum; };
__device__ __forceinline__ State join(State x, State y) {
  bool first = x.top > y.top;
  State more = first ? x : y, less = first ? y : x, both;
#if MUTANT == 1
  both.sum = more.sum + less.sum;
#else
  both.sum = more.sum + less.sum * __expf(less.top - more.top);
#endif
  both.top = more.top;
  return both;
}
__device__ __forceinline__ State over_warp(State s) {
  for (int step = 16; step > 0; step >>= 1) {
    State other{__shfl_down_sync(~0u, s.top, step), __shfl_down_sync(~0u, s.sum, step)};
    s = join(s, other);
  }
  return s;
}
extern "C" __global__ void opt(const float *__restrict__ x, float *__restrict__ y, int n) {
  __shared__ State of_warp[32], of_row;
  x += blockIdx.x * n;
  y += blockIdx.x * n;
  State s{-3.402823466e+38f, 0.f};
  for (int i = threadIdx.x; i < n; i += blockDim.x) s = join(s, State{x[i], 1.f});
  s = over_warp(s);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x < 32) {
    s = threadIdx.x < blockDim.x / 32 ? of_warp[threadIdx.x] : State{-3.402823466e+38f, 0.f};
    s = over_warp(s);
    if (threadIdx.x == 0) of_row = s;
  }
#if MUTANT != 2
  __syncthreads();
#endif
  float scale = __fdividef(1.f, of_row.sum);
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = __expf(x[i] - of_row.top) * scale;
}
extern "C" __global__ void ref(const float *x, float *y, int n) {
  x += blockIdx.x * n;
  y += blockIdx.x * n;
  float top = x[0], sum = 0.f;
  for (int i = 1; i < n; ++i) top = fmaxf(top, x[i]);
  for (int i = 0; i < n; ++i) sum += expf(x[i] - top);
  for (int i = 0; i < n; ++i) y[i] = expf(x[i] - top) / sum;
}
