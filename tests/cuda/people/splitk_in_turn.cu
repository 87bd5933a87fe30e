__device__ __forceinline__ void barrier_acquire(int *barrier, int count) {
  if (threadIdx.x == 0) {
    int state = -1;
    do { asm volatile("ld.global.acquire.gpu.b32 %0, [%1];\n" : "=r"(state) : "l"(barrier)); } while (state != count);
  }
  __syncthreads();
}
__device__ __forceinline__ void barrier_release(int *barrier, bool reset) {
#if MUTANT != 1
  __syncthreads();
#endif
  if (threadIdx.x == 0) {
    if (reset) { barrier[0] = 0; return; }
    int val = 1;
#if MUTANT == 2
    asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;\n" : : "l"(barrier), "r"(val));
#else
    asm volatile("fence.acq_rel.gpu;\n");
    asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;\n" : : "l"(barrier), "r"(val));
#endif
  }
}
extern "C" __global__ void opt(const float *A, const float *B, float *C, int *locks, int K, int splits) {
  int z = blockIdx.x, j = threadIdx.x, kc = K / splits; float s = 0.f;
  for (int k = z * kc; k < (z + 1) * kc; ++k) s += A[k] * B[k * 64 + j];
  barrier_acquire(locks, z);
  if (z > 0) s += C[j];
  C[j] = s;
  barrier_release(locks, z == splits - 1);
}
extern "C" __global__ void ref(const float *A, const float *B, float *C, int *locks, int K, int splits) {
  int j = threadIdx.x; float s = 0; for (int k = 0; k < K; ++k) s += A[k] * B[k * 64 + j]; C[j] = s;
}
