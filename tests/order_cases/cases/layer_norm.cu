// clean: Normalises rows of 32 elements, a warp each, through shared memory: the lanes synchronise before they read the row.
// expect: clean
// fault no_sync: Normalises rows, a warp each, as if the lanes of a warp ran in lockstep: a lane may not have stored yet.
// expect: data race shared R/W @Row @Sum (no bar.warp.sync)
// expect: data race shared R/W @Row @Deviation (no bar.warp.sync)
extern "C" __global__ void layer_norm(const float *x, float *y) {
  __shared__ float rows[4][32];
  unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float *row = rows[warp], v = x[blockIdx.x * 128 + threadIdx.x];
  row[lane] = v;  // @Row
#ifndef NO_SYNC
  __syncwarp();
#endif
  float sum = 0, squares = 0;
#pragma unroll 1
  for (int i = 0; i < 32; i++) sum += row[i];  // @Sum
#pragma unroll 1
  for (int i = 0; i < 32; i++) squares += (row[i] - sum / 32) * (row[i] - sum / 32);  // @Deviation
  y[blockIdx.x * 128 + threadIdx.x] = (v - sum / 32) * rsqrtf(squares / 32 + 1e-5f);
}
