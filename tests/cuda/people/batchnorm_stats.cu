__device__ __forceinline__ void welford_merge(float &avg, float &m2, int &n, float o_avg, float o_m2, int o_n) {
  float factor = 1.0f / fmaxf(1.0f, n + o_n);
  float delta = o_avg - avg;
  m2 += o_m2 + delta * delta * n * o_n * factor;
  avg = (n * avg + o_n * o_avg) * factor;
  n += o_n;
}
extern "C" __global__ void opt(const float *x, float *mean, float *invstd, float *run_mean, float *run_var, int N, int C, int HW, float eps, float mom) {
  __shared__ int sn[2]; __shared__ float sa[2], sv[2];
  int plane = blockIdx.x, tid = threadIdx.x + threadIdx.y * blockDim.x;
  float avg = 0, var_n = 0; int n = 0;
  for (int b = threadIdx.y; b < N; b += blockDim.y)
    for (int i = threadIdx.x; i < HW; i += blockDim.x) {
      float v = x[(b * C + plane) * HW + i];
      float d1 = v - avg; n++; avg += d1 / n; var_n += d1 * (v - avg);
    }
  for (int i = 0; i < 5; ++i) {
    float o_avg = __shfl_xor_sync(~0u, avg, 1 << i, 32); int o_n = __shfl_xor_sync(~0u, n, 1 << i, 32);
    float o_m2 = __shfl_xor_sync(~0u, var_n, 1 << i, 32);
    welford_merge(avg, var_n, n, o_avg, o_m2, o_n);
  }
  if (tid % 32 == 0) { sn[tid / 32] = n; sa[tid / 32] = avg; sv[tid / 32] = var_n; }
#if MUTANT != 1
  __syncthreads();
#endif
  if (tid == 0) {
    avg = sa[0]; var_n = sv[0]; n = sn[0];
    welford_merge(avg, var_n, n, sa[1], sv[1], sn[1]);
    mean[plane] = avg; invstd[plane] = 1.0f / sqrtf(var_n / n + eps);
    run_mean[plane] = (1 - mom) * run_mean[plane] + mom * avg;
    run_var[plane] = (1 - mom) * run_var[plane] + mom * (var_n / (n - (MUTANT == 2 ? 0 : 1)));
  }
}
extern "C" __global__ void ref(const float *x, float *mean, float *invstd, float *rm, float *rv, int N, int C, int HW, float eps, float mom) {
  int c = blockIdx.x; float s = 0, v = 0;
  for (int b = 0; b < N; ++b) for (int i = 0; i < HW; ++i) s += x[(b * C + c) * HW + i];
  s /= (N * HW);
  for (int b = 0; b < N; ++b) for (int i = 0; i < HW; ++i) { float d = x[(b * C + c) * HW + i] - s; v += d * d; }
  mean[c] = s; invstd[c] = rsqrtf(v / (N * HW) + eps);
  rm[c] += mom * (s - rm[c]); rv[c] += mom * (v / (N * HW - 1) - rv[c]);
}
