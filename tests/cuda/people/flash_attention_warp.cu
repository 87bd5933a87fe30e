#define D 32
#define BC 8
extern "C" __global__ void opt(const float *Q, const float *K, const float *V, float *O, int S, float scale) {
  __shared__ float ks[BC][D], vs[BC][D];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, q = blockIdx.x * 2 + warp;
  float qv = q < S ? Q[q * D + lane] * scale : 0.f, m = -INFINITY, l = 0.f, o = 0.f;
  int last = min(blockIdx.x * 2 + 1, S - 1);
  for (int k0 = 0; k0 <= last; k0 += BC) {
    for (int r = warp; r < BC; r += 2) { bool in = k0 + r < S; ks[r][lane] = in ? K[(k0 + r) * D + lane] : 0.f; vs[r][lane] = in ? V[(k0 + r) * D + lane] : 0.f; }
    __syncthreads();
    float s[BC], mn = m;
#pragma unroll
    for (int j = 0; j < BC; ++j) {
      float t = qv * ks[j][lane];
      for (int x = 16; x; x >>= 1) t += __shfl_xor_sync(~0u, t, x);
      s[j] = (k0 + j <= q + (MUTANT == 1)) ? t : -INFINITY;
      mn = fmaxf(mn, s[j]);
    }
    float corr = __expf(m - mn); l *= corr; o *= corr;
#pragma unroll
    for (int j = 0; j < BC; ++j) { float p = __expf(s[j] - mn); l += p; o += p * vs[j][lane]; }
    m = mn;
#if MUTANT != 2
    __syncthreads();
#endif
  }
  if (q < S) O[q * D + lane] = o / l;
}
extern "C" __global__ void ref(const float *Q, const float *K, const float *V, float *O, int S, float scale) {
  int q = blockIdx.x, d = threadIdx.x; float m = -INFINITY, l = 0, o = 0;
  for (int k = 0; k <= q; ++k) { float s = 0; for (int e = 0; e < D; ++e) s += Q[q * D + e] * K[k * D + e]; m = fmaxf(m, s * scale); }
  for (int k = 0; k <= q; ++k) { float s = 0; for (int e = 0; e < D; ++e) s += Q[q * D + e] * K[k * D + e]; float p = expf(s * scale - m); l += p; o += p * V[k * D + d]; }
  O[q * D + d] = o / l;
}
