// clean: Reduction, step 3: halves first, without bank conflicts.
// expect: clean
// fault no_barrier: Reduction, step 3, without the barrier between its levels.
// expect: data race shared R/W @Add @Add (no barrier between them)
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
  for (unsigned s = 64; s > 0; s /= 2) {
    if (t < s) a[t] += a[t + s];  // @Add
    BARRIER();
  }
  if (t == 0) out[blockIdx.x] = a[0];
}
