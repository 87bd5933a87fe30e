extern "C" __global__ void opt(const float *dout, const float *inp, const float *weight, const float *mean, const float *rstd,
                               float *dinp, float *dweight, float *dbias, int B, int C) {
  extern __shared__ float shared[];
  float *db = shared, *dw = shared + C;
  int warps = blockDim.x / 32, warpId = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = threadIdx.x; i < C; i += blockDim.x) { db[i] = 0.f; dw[i] = 0.f; }
#if MUTANT != 1
  __syncthreads();
#endif
  int idx = blockIdx.x * warps + warpId;
  if (idx < B) {
    const float *d = dout + idx * C, *x = inp + idx * C;
    float m = mean[idx], r = rstd[idx], dn = 0.f, dnn = 0.f;
    for (int i = lane; i < C; i += 32) { float nb = (x[i] - m) * r, di = weight[i] * d[i]; dn += di; dnn += di * nb; }
    for (int o = 16; o; o >>= 1) { dn += __shfl_xor_sync(~0u, dn, o); dnn += __shfl_xor_sync(~0u, dnn, o); }
    dn /= C; dnn /= C;
    for (int i = lane; i < C; i += 32) {
      float nb = (x[i] - m) * r, di = weight[i] * d[i];
      atomicAdd(&db[i], d[i]);
#if MUTANT == 2
      dw[i] += nb * d[i];
#else
      atomicAdd(&dw[i], nb * d[i]);
#endif
      dinp[idx * C + i] += (di - dn - nb * dnn) * r;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < C; i += blockDim.x) { atomicAdd(&dbias[i], db[i]); atomicAdd(&dweight[i], dw[i]); }
}
extern "C" __global__ void ref(const float *dout, const float *inp, const float *w, const float *mean, const float *rstd,
                               float *dinp, float *dweight, float *dbias, int B, int C) {
  for (int b = 0; b < B; ++b) {
    float dn = 0, dnn = 0;
    for (int i = 0; i < C; ++i) { float nb = (inp[b * C + i] - mean[b]) * rstd[b]; float di = w[i] * dout[b * C + i]; dn += di; dnn += di * nb; }
    dn = dn / C; dnn = dnn / C;
    for (int i = 0; i < C; ++i) {
      float nb = (inp[b * C + i] - mean[b]) * rstd[b]; float di = w[i] * dout[b * C + i];
      dbias[i] += dout[b * C + i]; dweight[i] += nb * dout[b * C + i];
      dinp[b * C + i] += (di - dn - nb * dnn) * rstd[b];
    }
  }
}
