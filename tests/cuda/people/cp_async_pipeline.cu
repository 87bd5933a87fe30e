#include <cuda_pipeline.h>
#define STAGES 3
#define BK 16
extern "C" __global__ void opt(const float *A, const float *B, float *C, int N, int K) {
  __shared__ __align__(16) float as[STAGES][16][BK], bs[STAGES][BK][16];
  int tid = threadIdx.x, r = tid / 4, c = tid % 4 * 4, tiles = K / BK;
  auto load = [&](int t) {
    if (t < tiles) {
      int s = t % STAGES;
      __pipeline_memcpy_async(&as[s][r][c], &A[(blockIdx.y * 16 + r) * K + t * BK + c], 16);
      __pipeline_memcpy_async(&bs[s][r][c], &B[(t * BK + r) * N + blockIdx.x * 16 + c], 16);
    }
    __pipeline_commit();
  };
  for (int t = 0; t < STAGES - 1; ++t) load(t);
  float acc[4] = {};
  for (int t = 0; t < tiles; ++t) {
    __pipeline_wait_prior(MUTANT == 1 ? STAGES - 1 : STAGES - 2);
#if MUTANT != 2
    __syncthreads();
#endif
    load(t + STAGES - 1);
    for (int k = 0; k < BK; ++k) for (int j = 0; j < 4; ++j) acc[j] += as[t % STAGES][r][k] * bs[t % STAGES][k][c + j];
  }
  *reinterpret_cast<float4 *>(&C[(blockIdx.y * 16 + r) * N + blockIdx.x * 16 + c]) = make_float4(acc[0], acc[1], acc[2], acc[3]);
}
extern "C" __global__ void ref(const float *A, const float *B, float *C, int N, int K) {
  int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x; float s = 0; for (int k = 0; k < K; ++k) s += A[i * K + k] * B[k * N + j]; C[i * N + j] = s;
}
