// clean: Reduction, step 5 with volatile accesses: no data race by the memory model, but what lanes see depends on the schedule.
// expect: clean in one schedule
extern "C" __global__ void reduce(const float *x, float *out) {
  __shared__ float a[64];
  unsigned t = threadIdx.x;
  a[t] = x[blockIdx.x * 64 + t];
  __syncthreads();
  if (t < 32) {
    volatile float *v = a;
    v[t] += v[t + 32];
    v[t] += v[t + 16];
    v[t] += v[t + 8];
    v[t] += v[t + 4];
    v[t] += v[t + 2];
    v[t] += v[t + 1];
    if (t == 0) out[blockIdx.x] = v[0];
  }
}
