#define BAR_SYNC(id, n) asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory")
#define BAR_ARRIVE(id, n) asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n) : "memory")
extern "C" __global__ void opt(const float *x, float *y, int tiles) {
  __shared__ float buf[2][32];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 0) {
    for (int t = 0; t < tiles; ++t) {
      int s = t & 1;
      if (t >= 2) BAR_SYNC(3 + s, 64);   // empty
      buf[s][lane] = x[t * 32 + lane] * 2.f;
#if MUTANT == 1
      BAR_ARRIVE(1 + (s ^ 1), 64);
#else
      BAR_ARRIVE(1 + s, 64);
#endif
    }
  } else {
    float acc = 0.f;
    for (int t = 0; t < tiles; ++t) {
      int s = t & 1;
      BAR_SYNC(1 + s, 64);    // full
      acc += buf[s][31 - lane];
#if MUTANT == 2
      if (t + 1 < tiles) BAR_ARRIVE(3 + s, 64);
#else
      if (t + 2 < tiles) BAR_ARRIVE(3 + s, 64);
#endif
    }
    y[lane] = acc;
  }
}
extern "C" __global__ void ref(const float *x, float *y, int tiles) { float s = 0; for (int t = 0; t < tiles; ++t) s += 2.f * x[t * 32 + 31 - threadIdx.x]; y[threadIdx.x] = s; }
