#define CF(n) ((n) >> 5)
extern "C" __global__ void opt(float *g_odata, const float *g_idata, int n) {
  extern __shared__ float temp[];
  int thid = threadIdx.x, offset = 1;
  int ai = thid, bi = thid + n / 2, oa = CF(ai), ob = CF(bi);
  temp[ai + oa] = g_idata[ai]; temp[bi + ob] = g_idata[bi];
  for (int d = n >> 1; d > 0; d >>= 1) {
    __syncthreads();
    if (thid < d) { int a = offset * (2 * thid + 1) - 1, b = offset * (2 * thid + 2) - 1; a += CF(a); b += CF(b); temp[b] += temp[a]; }
    offset *= 2;
  }
  if (thid == 0) temp[n - 1 + CF(n - 1)] = 0;
  for (int d = 1; d < n; d *= 2) {
    offset >>= 1;
#if MUTANT != 1
    __syncthreads();
#endif
    if (thid < d) { int a = offset * (2 * thid + 1) - 1, b = offset * (2 * thid + 2) - 1; a += CF(a); b += CF(b); float t = temp[a]; temp[a] = temp[b]; temp[b] += t; }
  }
  __syncthreads();
  g_odata[ai] = temp[ai + oa]; g_odata[bi] = temp[bi + (MUTANT == 2 ? oa : ob)];
}
extern "C" __global__ void ref(float *o, const float *in, int n) { float s = 0; for (int i = 0; i < n; ++i) { o[i] = s; s += in[i]; } }
