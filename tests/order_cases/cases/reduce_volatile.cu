// clean: Reduction, step 5 with volatile accesses, and a warp synchronisation after each load and each store.
// expect: clean
// fault lockstep: Reduction, step 5 with volatile accesses: no data race by the memory model (volatile accesses are relaxed atomics), but
// whether a lane sees what another one has stored depends on the schedule.
// expect: lockstep assumed shared R/W @Steps @Steps (no bar.warp.sync)
// expect: lockstep assumed shared R/W @Steps @Two (no bar.warp.sync)
// expect: lockstep assumed shared R/W @Steps @Last (no bar.warp.sync)
// expect: lockstep assumed shared R/W @Two @Two (no bar.warp.sync)
// expect: lockstep assumed shared R/W @Two @Last (no bar.warp.sync)
// expect: lockstep assumed shared R/W @Last @Last (no bar.warp.sync)
// differs by: 12 synchronisations
// fault one_sync_missing: Reduction, step 5 with volatile accesses, but for one warp synchronisation.
// expect: lockstep assumed shared R/W @Two @Last (no bar.warp.sync)
#ifdef LOCKSTEP
#define SYNC()
#else
#define SYNC() __syncwarp()
#endif
#define STEP(distance) y = v[t] + v[t + distance]; SYNC(); v[t] = y; SYNC();

extern "C" __global__ void reduce(const float *x, float *out) {
  __shared__ float a[64];
  unsigned t = threadIdx.x;
  a[t] = x[blockIdx.x * 64 + t];
  __syncthreads();
  if (t < 32) {
    volatile float *v = a;
    float y;
    STEP(32) STEP(16) STEP(8) STEP(4)  // @Steps
    y = v[t] + v[t + 2]; SYNC(); v[t] = y;  // @Two
#ifndef ONE_SYNC_MISSING
    SYNC();
#endif
    STEP(1)  // @Last
    if (t == 0) out[blockIdx.x] = v[0];
  }
}
