// A thread per row, which rescales its sum where it meets a new maximum.
extern "C" __global__ void opt(const float *x, float *y, int rows, int n) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  x += row * n;
  y += row * n;
  float top = x[0], sum = 1.f;
  for (int i = 1; i < n; ++i) {
    float v = x[i];
    if (v > top) {
#if MUTANT == 1
      sum = sum + 1.f;
#else
      sum = sum * expf(top - v) + 1.f;
#endif
#if MUTANT != 2
      top = v;
#endif
    } else {
      sum += expf(v - top);
    }
  }
  for (int i = 0; i < n; ++i) y[i] = expf(x[i] - top) / sum;
}
extern "C" __global__ void ref(const float *x, float *y, int rows, int n) {
  x += blockIdx.x * n;
  y += blockIdx.x * n;
  float top = x[0], sum = 0.f;
  for (int i = 1; i < n; ++i) top = fmaxf(top, x[i]);
  for (int i = 0; i < n; ++i) sum += expf(x[i] - top);
  for (int i = 0; i < n; ++i) y[i] = expf(x[i] - top) / sum;
}
