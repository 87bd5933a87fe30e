// Source of the nvcc_*.ptx samples: nvcc 13.0 -ptx (-lineinfo, -G).
#include <cstdio>

__constant__ float coefficients[4] = {1.0f, 2.0f, 3.0f, 4.0f};
__device__ const char* names[2] = {"abc", "def"};
struct Pair { int a; double b; };

__device__ __noinline__ Pair scaled(Pair p, int by) { p.a *= by; p.b *= by; return p; }
__device__ __forceinline__ float square(float x) { return x * x; }
__device__ __forceinline__ float quartic(float x) { return square(square(x)); }

template <typename T> __global__ void sum(const T* __restrict__ in, T* out) {
  __shared__ T buffer[4];
  T v = in[threadIdx.x];
  for (int o = 16; o; o /= 2) v += __shfl_xor_sync(~0u, v, o);
  if (threadIdx.x % 32 == 0) buffer[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) *out = buffer[0] + buffer[1];
}
template __global__ void sum<float>(const float*, float*);

__global__ void choose(int* p, int k) {
  int x = p[threadIdx.x];
  switch (k) {
    case 0: x += 1; break;
    case 1: x *= 3; break;
    case 2: x ^= 7; break;
    case 3: x /= 5; break;
    case 4: x %= 9; break;
    case 5: x <<= 2; break;
    case 6: x = __popc(x); break;
    default: x = 0;
  }
  p[threadIdx.x] = x;
}

__global__ void calls(float* o, int k) {
  Pair p = scaled(Pair{k, 2.5}, 3);
  o[0] = quartic(o[1]) + coefficients[k] + p.a;
  printf("%d %f %s\n", p.a, p.b, names[k & 1]);
}

__global__ void waits(unsigned* flag) {
  for (int i = 0; i < 2; i++)
    asm volatile("{\n .reg .pred P1;\nWAIT:\n setp.eq.u32 P1, %0, 0;\n @P1 bra DONE;\n bra WAIT;\nDONE:\n}" ::"r"(flag[i]));
}
