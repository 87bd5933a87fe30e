// clean: Reduction, step 2: neighbours first, the working threads side by side.
// expect: clean
// fault no_barrier: Reduction, step 2, without the barrier between its levels.
// expect: data race shared R/W @Add @Add (no barrier between them)
// expect: data race shared W/W @Add @Add (no barrier between them)
#ifdef NO_BARRIER
#define BARRIER()
#else
#define BARRIER() __syncthreads()
#endif

extern "C" __global__ void reduce(const float *x, float *out) {
  __shared__ float a[128];
  unsigned t = threadIdx.x;
  a[t] = x[blockIdx.x * 128 + t];
  __syncthreads();
#pragma unroll 1
  for (unsigned s = 1; s < 128; s *= 2) {
    if (2 * s * t < 128) a[2 * s * t] += a[2 * s * t + s];  // @Add
    BARRIER();
  }
  if (t == 0) out[blockIdx.x] = a[0];
}
