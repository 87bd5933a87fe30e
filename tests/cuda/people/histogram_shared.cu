extern "C" __global__ void opt(const unsigned char *data, unsigned *hist, int n) {
  __shared__ unsigned s[16];
  if (threadIdx.x < 16) s[threadIdx.x] = 0;
#if MUTANT != 1
  __syncthreads();
#endif
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
#if MUTANT == 2
    s[data[i] >> 4]++;
#else
    atomicAdd(&s[data[i] >> 4], 1u);
#endif
  }
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&hist[threadIdx.x], s[threadIdx.x]);
}
extern "C" __global__ void ref(const unsigned char *d, unsigned *hist, int n) { for (int i = 0; i < n; ++i) hist[d[i] / 16]++; }
