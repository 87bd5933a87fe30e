#include <cuda_fp16.h>
extern "C" __global__ void opt(const unsigned *qw, const half *scales, const unsigned *zeros, const half *x, float *y, int K) {
  // group size 32: one word has 8 nibbles; one warp per row
  int row = blockIdx.x * blockDim.y + threadIdx.y, words = K / 8;
  float acc = 0.f;
  for (int w = threadIdx.x; w < words; w += 32) {
    unsigned q = qw[row * words + w];
    int g = w / 4;
    float s = __half2float(scales[row * (K / 32) + g]);
    float z = (float)((zeros[row] >> (4 * g)) & 0xF);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#if MUTANT == 1
      float wv = ((float)((q >> (4 * j)) & 0x7) - z) * s;
#else
      float wv = ((float)((q >> (4 * j)) & 0xF) - z) * s;
#endif
      acc = fmaf(wv, __half2float(x[w * 8 + j]), acc);
    }
  }
  for (int o = 16; o; o >>= 1) acc += __shfl_down_sync(~0u, acc, o);
#if MUTANT == 2
  y[row] = acc;
#else
  if (threadIdx.x == 0) y[row] = acc;
#endif
}
extern "C" __global__ void ref(const unsigned *qw, const half *scales, const unsigned *zeros, const half *x, float *y, int K) {
  int row = threadIdx.x; float a = 0;
  for (int k = 0; k < K; ++k) {
    int q = (qw[row * K / 8 + k / 8] >> (4 * (k % 8))) & 15, z = (zeros[row] >> (4 * (k / 32))) & 15;
    a += (float)(q - z) * __half2float(scales[row * (K / 32) + k / 32]) * __half2float(x[k]);
  }
  y[row] = a;
}
