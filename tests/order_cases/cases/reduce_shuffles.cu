// clean: Reduction, repaired otherwise: the last warp exchanges its values by shuffles, which need no memory.
// expect: clean
// fault no_barrier: Reduction with shuffles: the last warp reads what another warp has added without a barrier.
// expect: data race shared R/W @Half @Pair (no barrier between them)
extern "C" __global__ void reduce(const float *x, float *out) {
  __shared__ float a[128];
  unsigned t = threadIdx.x;
  a[t] = x[blockIdx.x * 128 + t];
  __syncthreads();
  if (t < 64) a[t] += a[t + 64];  // @Half
#ifndef NO_BARRIER
  __syncthreads();
#endif
  if (t < 32) {
    float v = a[t] + a[t + 32];  // @Pair
    for (int distance = 16; distance > 0; distance /= 2) v += __shfl_down_sync(0xffffffff, v, distance);
    if (t == 0) out[blockIdx.x] = v;
  }
}
