extern "C" __global__ void opt(const float *A, const float *B, float *C, float *ws, int *sem, int M, int N, int K, int splits) {
  int j = threadIdx.x, i = threadIdx.y, z = blockIdx.z, kc = K / splits;
  float s = 0.f;
  for (int k = z * kc; k < (z + 1) * kc; ++k) s += A[i * K + k] * B[k * N + j];
  ws[(z * M + i) * N + j] = s;
#if MUTANT != 1
  __threadfence();
#endif
  __shared__ bool last;
  __syncthreads();
  if (i == 0 && j == 0) last = atomicAdd(sem, 1) == splits - 1;
  __syncthreads();
  if (last) {
#if MUTANT != 1
    __threadfence();
#endif
    float t = 0.f;
    for (int q = 0; q < splits; ++q) t += __ldcg(&ws[(q * M + i) * N + j]);
    C[i * N + j] = t;
    if (i == 0 && j == 0) *sem = 0;
  }
}
extern "C" __global__ void ref(const float *A, const float *B, float *C, float *ws, int *sem, int M, int N, int K, int splits) {
  int i = threadIdx.y, j = threadIdx.x; float s = 0; for (int k = 0; k < K; ++k) s += A[i * K + k] * B[k * N + j]; C[i * N + j] = s;
}
