// A thread per query: where a score exceeds the maximum so far, what was summed is rescaled.
constexpr int WIDTH = 12;
extern "C" __global__ void opt(const float *q, const float *k, const float *v, float *o, int keys) {
  int i = threadIdx.x;
  float sum = 0.f, top = -INFINITY, acc[WIDTH];
  for (int d = 0; d < WIDTH; ++d) acc[d] = 0.f;
  for (int j = 0; j < keys; ++j) {
    float s = 0.f;
    for (int d = 0; d < WIDTH; ++d) s += q[i * WIDTH + d] * k[j * WIDTH + d];
    s *= 0.28867513f;
    if (s > top) {
      float scale = expf(top - s);
#if MUTANT != 1
      sum *= scale;
#endif
      for (int d = 0; d < WIDTH; ++d) acc[d] *= scale;
      top = s;
    }
    float p = expf(s - top);
    sum += p;
    for (int d = 0; d < WIDTH; ++d) acc[d] += p * v[j * WIDTH + d];
  }
  for (int d = 0; d < WIDTH; ++d) o[i * WIDTH + d] = acc[d] / sum;
}
extern "C" __global__ void ref(const float *q, const float *k, const float *v, float *o, int keys) {
  int i = threadIdx.x;
  float s[8], top = -INFINITY, sum = 0.f;
  for (int j = 0; j < keys; ++j) {
    s[j] = 0.f;
    for (int d = 0; d < WIDTH; ++d) s[j] += q[i * WIDTH + d] * k[j * WIDTH + d];
    s[j] *= 0.28867513f;
    top = fmaxf(top, s[j]);
  }
  for (int j = 0; j < keys; ++j) sum += expf(s[j] - top);
  for (int d = 0; d < WIDTH; ++d) {
    float a = 0.f;
    for (int j = 0; j < keys; ++j) a += expf(s[j] - top) * v[j * WIDTH + d];
    o[i * WIDTH + d] = a / sum;
  }
}
