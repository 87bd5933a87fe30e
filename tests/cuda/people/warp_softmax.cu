template <typename T> struct Max { __device__ T operator()(T a, T b) const { return a < b ? b : a; } };
template <typename T> struct Add { __device__ T operator()(T a, T b) const { return a + b; } };
template <typename acc_t, int WARP_BATCH, int WARP_SIZE, template <typename> class Op>
__device__ __forceinline__ void warp_reduce(acc_t *sum) {
  Op<acc_t> r;
#pragma unroll
  for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2) {
#pragma unroll
    for (int i = 0; i < WARP_BATCH; ++i) { acc_t b = __shfl_xor_sync(0xffffffff, sum[i], offset, WARP_SIZE); sum[i] = r(sum[i], b); }
  }
}
template <int log2_elements, bool is_log>
__global__ void softmax_warp_forward(float *dst, const float *src, int batch_size, int stride, int element_count) {
  constexpr int next = 1 << log2_elements, WARP_SIZE = next < 32 ? next : 32, IT = next / WARP_SIZE, WB = next <= 128 ? 2 : 1;
  int first = (blockDim.y * blockIdx.x + threadIdx.y) * WB;
  int local = batch_size - first; if (local > WB) local = WB;
  int t = threadIdx.x;
  src += first * stride + t; dst += first * stride + t;
  float e[WB][IT];
  for (int i = 0; i < WB; ++i) {
    int n = i >= local ? 0 : element_count;
    for (int it = 0; it < IT; ++it) e[i][it] = (t + it * WARP_SIZE < n) ? src[i * element_count + it * WARP_SIZE] : (MUTANT == 1 ? 0.f : -INFINITY);
  }
  float mx[WB];
  for (int i = 0; i < WB; ++i) { mx[i] = e[i][0]; for (int it = 1; it < IT; ++it) mx[i] = mx[i] > e[i][it] ? mx[i] : e[i][it]; }
  warp_reduce<float, WB, WARP_SIZE, Max>(mx);
  float sum[WB]{0.0f};
  for (int i = 0; i < WB; ++i) for (int it = 0; it < IT; ++it) { if (is_log) sum[i] += std::exp(e[i][it] - mx[i]); else { e[i][it] = std::exp(e[i][it] - mx[i]); sum[i] += e[i][it]; } }
  warp_reduce<float, WB, WARP_SIZE, Add>(sum);
  for (int i = 0; i < WB; ++i) {
    if (i >= local) break;
    if (is_log) sum[i] = std::log(sum[i]);
    for (int it = 0; it < IT; ++it) {
      if (t + it * WARP_SIZE < element_count) dst[i * element_count + it * WARP_SIZE] = is_log ? e[i][it] - mx[i] - sum[i] : e[i][it] / sum[i];
      else break;
    }
  }
}
template __global__ void softmax_warp_forward<6, false>(float *, const float *, int, int, int);
extern "C" __global__ void ref(float *y, const float *x, int B, int stride, int V) {
  x += blockIdx.x * V; y += blockIdx.x * V;
  float m = x[0], s = 0;
  for (int i = 1; i < V; ++i) m = fmaxf(m, x[i]);
  for (int i = 0; i < V; ++i) s += expf(x[i] - m);
  for (int i = 0; i < V; ++i) y[i] = false ? x[i] - m - logf(s) : expf(x[i] - m) / s;
}
