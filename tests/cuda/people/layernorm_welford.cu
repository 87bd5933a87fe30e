struct WelfordDataLN { float mean, sigma2, count; };
__device__ WelfordDataLN cuWelfordOnlineSum(const float val, const WelfordDataLN &curr) {
  float delta = val - curr.mean;
  float new_count = curr.count + 1.f;
  float new_mean = curr.mean + delta * (1.f / new_count);
  return {new_mean, curr.sigma2 + delta * (val - new_mean), new_count};
}
__device__ WelfordDataLN cuWelfordCombine(const WelfordDataLN dataB, const WelfordDataLN dataA) {
  float delta = dataB.mean - dataA.mean;
  float count = dataA.count + dataB.count;
  float mean, sigma2;
  if (count > float{0}) {
    auto coef = 1.f / count;
    auto nA = dataA.count * coef;
    auto nB = dataB.count * coef;
    mean = nA * dataA.mean + nB * dataB.mean;
#if MUTANT == 1
    sigma2 = dataA.sigma2 + dataB.sigma2 + delta * delta * dataA.count;
#else
    sigma2 = dataA.sigma2 + dataB.sigma2 + delta * delta * dataA.count * nB;
#endif
  } else { mean = 0.f; sigma2 = 0.f; }
  return {mean, sigma2, count};
}
extern "C" __global__ void opt(const float *X, const float *gamma, const float *beta, float *mean, float *rstd, float *Y, int N, float eps) {
  extern __shared__ float s_data[];
  const float4 *X4 = reinterpret_cast<const float4 *>(X + blockIdx.x * N);
  const int nvec = N / 4, thrx = threadIdx.x + threadIdx.y * blockDim.x, numx = blockDim.x * blockDim.y;
  WelfordDataLN wd{0.f, 0.f, 0.f};
  for (int i = thrx; i < nvec; i += numx) {
    float4 d = X4[i];
    wd = cuWelfordOnlineSum(d.x, wd); wd = cuWelfordOnlineSum(d.y, wd); wd = cuWelfordOnlineSum(d.z, wd); wd = cuWelfordOnlineSum(d.w, wd);
  }
  for (int o = 16; o > 0; o >>= 1) {
    WelfordDataLN wb{__shfl_down_sync(~0u, wd.mean, o), __shfl_down_sync(~0u, wd.sigma2, o), __shfl_down_sync(~0u, wd.count, o)};
    wd = cuWelfordCombine(wd, wb);
  }
  float *buf = s_data, *cnt = &s_data[blockDim.y];
  for (int offset = blockDim.y / 2; offset > 0; offset /= 2) {
    if (threadIdx.x == 0 && threadIdx.y >= offset && threadIdx.y < 2 * offset) {
      const int y = threadIdx.y - offset;
      buf[2 * y] = wd.mean; buf[2 * y + 1] = wd.sigma2; cnt[y] = wd.count;
    }
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y < offset) {
      WelfordDataLN wb{buf[2 * threadIdx.y], buf[2 * threadIdx.y + 1], cnt[threadIdx.y]};
      wd = cuWelfordCombine(wd, wb);
    }
#if MUTANT != 2
    __syncthreads();
#endif
  }
  if (threadIdx.x == 0 && threadIdx.y == 0) { buf[0] = wd.mean; buf[1] = wd.sigma2 / float(N); }
  __syncthreads();
  float m = buf[0], r = rsqrtf(buf[1] + eps);
  const float4 *g4 = reinterpret_cast<const float4 *>(gamma), *b4 = reinterpret_cast<const float4 *>(beta);
  float4 *y4 = reinterpret_cast<float4 *>(Y + blockIdx.x * N);
  for (int i = thrx; i < nvec; i += numx) {
    float4 d = X4[i], g = g4[i], b = b4[i], out;
    out.x = g.x * (r * (d.x - m)) + b.x; out.y = g.y * (r * (d.y - m)) + b.y; out.z = g.z * (r * (d.z - m)) + b.z; out.w = g.w * (r * (d.w - m)) + b.w;
    y4[i] = out;
  }
  if (thrx == 0) { mean[blockIdx.x] = m; rstd[blockIdx.x] = r; }
}
extern "C" __global__ void ref(const float *X, const float *g, const float *b, float *mean, float *rstd, float *Y, int N, float eps) {
  int row = blockIdx.x; X += row * N; Y += row * N;
  float m = 0, v = 0;
  for (int i = 0; i < N; ++i) m += X[i];
  m /= N;
  for (int i = 0; i < N; ++i) v += (X[i] - m) * (X[i] - m);
  v /= N;
  float r = 1.f / sqrtf(v + eps);
  for (int i = 0; i < N; ++i) Y[i] = (X[i] - m) * r * g[i] + b[i];
  mean[row] = m; rstd[row] = r;
}
