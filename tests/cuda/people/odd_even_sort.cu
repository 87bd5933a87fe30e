// Eight numbers sorted by exchanges of neighbours in shared memory.
extern "C" __global__ void opt(const float *x, float *y) {
  __shared__ float s[8];
  int t = threadIdx.x;
  s[t] = x[t];
  __syncthreads();
#if MUTANT == 1
  for (int turn = 0; turn < 6; ++turn) {
#else
  for (int turn = 0; turn < 8; ++turn) {
#endif
    int i = 2 * t + (turn & 1);
    if (i + 1 < 8 && s[i] > s[i + 1]) {
      float more = s[i];
      s[i] = s[i + 1];
#if MUTANT != 2
      s[i + 1] = more;
#endif
    }
    __syncthreads();
  }
  y[t] = s[t];
}
extern "C" __global__ void ref(const float *x, float *y) {
  float a[8];
  for (int i = 0; i < 8; ++i) a[i] = x[i];
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 7 - i; ++j) {
      float less = fminf(a[j], a[j + 1]), more = fmaxf(a[j], a[j + 1]);
      a[j] = less;
      a[j + 1] = more;
    }
  for (int i = 0; i < 8; ++i) y[i] = a[i];
}
