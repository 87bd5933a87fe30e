// clean: Reduction, step 6: all levels unrolled, repaired: the last warp synchronises after each load and each store.
// expect: clean
// fault lockstep: Reduction, step 6: all levels unrolled: the last warp relies on its lanes running in lockstep; nothing lets other
// lanes see the stores of the first steps, so that the compiler has dropped them.
// expect: data race shared R/W @Steps @Two (no bar.warp.sync)
// expect: data race shared R/W @Two @Two (no bar.warp.sync)
// expect: data race shared R/W @Two @Last (no bar.warp.sync)
// differs by: 13 instructions, nine synchronisations and four stores
// fault one_sync_missing: Reduction, step 6, repaired but for one warp synchronisation.
// expect: data race shared R/W @Two @Last (no bar.warp.sync)
#ifdef LOCKSTEP
#define SYNC()
#else
#define SYNC() __syncwarp()
#endif
#define STEP(distance) v += a[t + distance]; SYNC(); a[t] = v; SYNC();

extern "C" __global__ void reduce(const float *x, float *out) {
  __shared__ float a[128];
  unsigned t = threadIdx.x;
  a[t] = x[blockIdx.x * 256 + t] + x[blockIdx.x * 256 + 128 + t];
  __syncthreads();
  if (t < 64) a[t] += a[t + 64];
  __syncthreads();
  if (t < 32) {
    float v = a[t] + a[t + 32];
    a[t] = v;
    SYNC();
    STEP(16) STEP(8) STEP(4)  // @Steps
    v += a[t + 2]; SYNC(); a[t] = v;  // @Two
#ifndef ONE_SYNC_MISSING
    SYNC();
#endif
    v += a[t + 1];  // @Last
    if (t == 0) out[blockIdx.x] = v;
  }
}
