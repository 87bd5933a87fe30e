#include <cuda_fp16.h>
#include <cstdint>
#define LDMATRIX_X4(R0, R1, R2, R3, addr) asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n" : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3) : "r"(addr))
#define LDMATRIX_X2_T(R0, R1, addr) asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n" : "=r"(R0), "=r"(R1) : "r"(addr))
__device__ __forceinline__ int swz(int row, int col8) { return row * 32 + ((col8 ^ ((row >> 1) & 3)) << 3); } // 32 halves a row, chunks of 8
extern "C" __global__ void opt(const half *A, const half *B, half *C, int N, int K) {
  __shared__ __align__(16) half sa[32 * 32], sb[32 * 32];
  int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;    // 4 warps, each 16 x 16 of a 32 x 32 tile
  int wm = warp / 2 * 16, wn = warp % 2 * 16;
  float acc[2][4] = {};
  for (int k0 = 0; k0 < K; k0 += 32) {
    {
      int r = tid / 4, c = tid % 4;
      *reinterpret_cast<uint4 *>(&sa[swz(r, c)]) = *reinterpret_cast<const uint4 *>(&A[r * K + k0 + c * 8]);
      *reinterpret_cast<uint4 *>(&sb[swz(r, c)]) = *reinterpret_cast<const uint4 *>(&B[(k0 + r) * N + c * 8]);
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < 2; ++kk) {
      uint32_t a[4];
      int ar = wm + lane % 16, ac = kk * 2 + lane / 16;
      LDMATRIX_X4(a[0], a[1], a[2], a[3], (uint32_t)__cvta_generic_to_shared(&sa[MUTANT == 1 ? ar * 32 + ac * 8 : swz(ar, ac)]));
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        uint32_t b[2];
        int br = kk * 16 + lane % 16, bc = (wn + n * 8) / 8;
        LDMATRIX_X2_T(b[0], b[1], (uint32_t)__cvta_generic_to_shared(&sb[swz(br, bc)]));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};\n"
          : "=f"(acc[n][0]), "=f"(acc[n][1]), "=f"(acc[n][2]), "=f"(acc[n][3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(acc[n][0]), "f"(acc[n][1]), "f"(acc[n][2]), "f"(acc[n][3]));
      }
    }
#if MUTANT != 2
    __syncthreads();
#endif
  }
  int g = lane / 4, t = lane % 4;
  for (int n = 0; n < 2; ++n) {
    int col = wn + n * 8 + t * 2;
    *reinterpret_cast<half2 *>(&C[(wm + g) * N + col]) = __floats2half2_rn(acc[n][0], acc[n][1]);
    *reinterpret_cast<half2 *>(&C[(wm + g + 8) * N + col]) = __floats2half2_rn(acc[n][MUTANT == 3 ? 3 : 2], acc[n][MUTANT == 3 ? 2 : 3]);
  }
}
extern "C" __global__ void ref(const half *A, const half *B, half *C, int N, int K) {
  int i = threadIdx.y, j = threadIdx.x; float s = 0; for (int k = 0; k < K; ++k) s += __half2float(A[i * K + k]) * __half2float(B[k * N + j]); C[i * N + j] = __float2half(s);
}
