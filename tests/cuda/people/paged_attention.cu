#define WARP 32
extern "C" __global__ void opt(float *__restrict__ out, const float *__restrict__ q, const float *__restrict__ k_cache, const float *__restrict__ v_cache,
    const int *__restrict__ block_tables, const int *__restrict__ context_lens, float scale, int max_blocks) {
  constexpr int D = 16, BS = 4, H = 2;
  const int seq = blockIdx.y, head = blockIdx.x, len = context_lens[seq];
  extern __shared__ char shared_mem[];
  float *logits = reinterpret_cast<float *>(shared_mem);
  __shared__ float red[2 * (64 / WARP)];
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  const int *table = block_tables + seq * max_blocks;
  float qk_max = -3.402823466e+38f;
  const int group = lane / 4, glane = lane % 4;   // 8 groups of 4 lanes
  for (int base = warp * 8; base < len; base += 2 * 8) {
    int tok = base + group;
    float qk = 0.f;
    if (tok < len) {
      const float *k = k_cache + ((table[tok / BS] * H + head) * BS + tok % BS) * D;
      for (int d = glane; d < D; d += 4) qk += q[(seq * H + head) * D + d] * k[d];
    }
    qk += __shfl_xor_sync(~0u, qk, 2); qk += __shfl_xor_sync(~0u, qk, 1);
    qk *= scale;
    if (glane == 0 && tok < len) { logits[tok] = qk; qk_max = fmaxf(qk_max, qk); }
  }
  for (int m = 16; m >= 4; m /= 2) qk_max = fmaxf(qk_max, __shfl_xor_sync(~0u, qk_max, m));
  if (lane == 0) red[warp] = qk_max;
#if MUTANT != 1
  __syncthreads();
#endif
  qk_max = fmaxf(red[0], red[1]);
  float sum = 0.f;
  for (int i = threadIdx.x; i < len; i += 64) { float v = __expf(logits[i] - qk_max); logits[i] = v; sum += v; }
  for (int m = 16; m; m /= 2) sum += __shfl_xor_sync(~0u, sum, m);
  if (lane == 0) red[2 + warp] = sum;
  __syncthreads();
  sum = red[2] + red[3];
  const float inv = __fdividef(1.f, sum + (MUTANT == 2 ? 1.f : 0.f));
  for (int i = threadIdx.x; i < len; i += 64) logits[i] *= inv;
#if MUTANT != 3
  __syncthreads();
#endif
  if (threadIdx.x < D) {
    float acc = 0.f;
    for (int t = 0; t < len; ++t) acc += logits[t] * v_cache[((table[t / BS] * H + head) * BS + t % BS) * D + threadIdx.x];
    out[(seq * H + head) * D + threadIdx.x] = acc;
  }
}
extern "C" __global__ void ref(float *out, const float *q, const float *kc, const float *vc, const int *bt, const int *lens, float scale, int mb) {
  int seq = blockIdx.y, head = blockIdx.x, d = threadIdx.x, len = lens[seq];
  float m = -INFINITY, l = 0, o = 0;
  for (int t = 0; t < len; ++t) {
    int row = (bt[seq * mb + t / 4] * 2 + head) * 4 + t % 4;
    float s = 0;
    for (int e = 0; e < 16; ++e) s += q[(seq * 2 + head) * 16 + e] * kc[row * 16 + e];
    s *= scale;
    float nm = fmaxf(m, s), p = expf(s - nm), c = expf(m - nm);
    l = l * c + p; o = o * c + p * vc[row * 16 + d]; m = nm;
  }
  out[(seq * 2 + head) * 16 + d] = o / l;
}
