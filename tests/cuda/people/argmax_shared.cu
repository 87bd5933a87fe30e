// A block's largest number and where it stands: a tree in shared memory, in which the smaller place wins a tie.
extern "C" __global__ void opt(const float *x, int *place, float *top) {
  __shared__ float value[64];
  __shared__ int at[64];
  int t = threadIdx.x;
  value[t] = x[t];
  at[t] = t;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half >>= 1) {
    if (t < half) {
#if MUTANT == 1
      if (value[t + half] >= value[t]) {
#else
      if (value[t + half] > value[t] || (value[t + half] == value[t] && at[t + half] < at[t])) {
#endif
        value[t] = value[t + half];
        at[t] = at[t + half];
      }
    }
#if MUTANT != 2
    __syncthreads();
#endif
  }
  if (t == 0) {
    *place = at[0];
    *top = value[0];
  }
}
extern "C" __global__ void ref(const float *x, int *place, float *top) {
  int best = 0;
  float most = x[0];
  for (int i = 1; i < 64; ++i)
    if (x[i] > most) {
      most = x[i];
      best = i;
    }
  *place = best;
  *top = most;
}
