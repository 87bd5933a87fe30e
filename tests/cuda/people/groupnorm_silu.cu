extern "C" __global__ void opt(const float *x, const float *w, const float *b, float *y, int C, int HW, int G, float eps) {
  int n = blockIdx.y, g = blockIdx.x, D = C / G * HW;
  const float *xs = x + (n * C + g * (C / G)) * HW; float *ys = y + (n * C + g * (C / G)) * HW;
  float s = 0, s2 = 0;
  for (int i = threadIdx.x; i < D; i += blockDim.x) { float v = xs[i]; s += v; s2 += v * v; }
  __shared__ float2 red[4];
  for (int o = 16; o; o >>= 1) { s += __shfl_down_sync(~0u, s, o); s2 += __shfl_down_sync(~0u, s2, o); }
  if (threadIdx.x % 32 == 0) red[threadIdx.x / 32] = make_float2(s, s2);
  __syncthreads();
  if (threadIdx.x == 0) { float2 t = red[0]; for (int i = 1; i < 4; ++i) { t.x += red[i].x; t.y += red[i].y; } float m = t.x / D; red[0] = make_float2(m, rsqrtf(t.y / D - m * m + eps)); }
  __syncthreads();
  float m = red[0].x, r = red[0].y;
  for (int i = threadIdx.x; i < D; i += blockDim.x) {
    int c = g * (C / G) + i / HW;
#if MUTANT == 1
    c = g * (C / G) + i % (C / G);
#endif
    float v = (xs[i] - m) * r * w[c] + b[c];
    ys[i] = v / (1.f + __expf(-v));
  }
}
extern "C" __global__ void ref(const float *x, const float *w, const float *b, float *y, int C, int HW, int G, float eps) {
  int n = blockIdx.y, g = blockIdx.x, K = C / G;
  float m = 0, v = 0;
  for (int c = g * K; c < g * K + K; ++c) for (int i = 0; i < HW; ++i) m += x[(n * C + c) * HW + i];
  m /= K * HW;
  for (int c = g * K; c < g * K + K; ++c) for (int i = 0; i < HW; ++i) { float d = x[(n * C + c) * HW + i] - m; v += d * d; }
  v /= K * HW;
  for (int c = g * K; c < g * K + K; ++c) for (int i = 0; i < HW; ++i) { float u = (x[(n * C + c) * HW + i] - m) / sqrtf(v + eps) * w[c] + b[c]; y[(n * C + c) * HW + i] = u * (1.f / (1.f + expf(-u))); }
}
