#include <cuda_fp16.h>
template <typename scalar_t, bool IS_true>
inline __device__ void apply_token_rotary_embedding(scalar_t *__restrict__ arr, const scalar_t *__restrict__ cos_ptr,
                                                    const scalar_t *__restrict__ sin_ptr, int rot_offset, int embed_dim) {
  int x_index, y_index;
  scalar_t cos, sin;
  if (IS_true) {
    x_index = rot_offset;
    y_index = embed_dim + rot_offset;
    cos = __ldg(cos_ptr + x_index);
    sin = __ldg(sin_ptr + x_index);
  } else {
    x_index = 2 * rot_offset;
    y_index = 2 * rot_offset + 1;
    cos = __ldg(cos_ptr + x_index / 2);
    sin = __ldg(sin_ptr + x_index / 2);
  }
  const scalar_t x = arr[x_index];
  const scalar_t y = arr[y_index];
#if MUTANT == 1
  arr[x_index] = x * cos + y * sin;
#else
  arr[x_index] = x * cos - y * sin;
#endif
#if MUTANT == 2
  arr[y_index] = y * cos + arr[x_index] * sin;
#else
  arr[y_index] = y * cos + x * sin;
#endif
}
template <typename scalar_t, bool IS_true>
__global__ void rotary_embedding_kernel(const long long *__restrict__ positions, scalar_t *__restrict__ query, const scalar_t *__restrict__ cos_sin_cache,
                                        int rot_dim, int query_stride, int num_heads, int head_size) {
  const int token_idx = blockIdx.x;
  long long pos = positions[token_idx];
  const scalar_t *cache_ptr = cos_sin_cache + pos * rot_dim;
  const int embed_dim = rot_dim / 2;
  const scalar_t *cos_ptr = cache_ptr;
  const scalar_t *sin_ptr = cache_ptr + embed_dim;
  const int nq = num_heads * embed_dim;
  for (int i = threadIdx.x; i < nq; i += blockDim.x) {
    const int head_idx = i / embed_dim;
    const long long token_head = token_idx * query_stride + head_idx * head_size;
    const int rot_offset = i % embed_dim;
    apply_token_rotary_embedding<scalar_t, IS_true>(query + token_head, cos_ptr, sin_ptr, rot_offset, embed_dim);
  }
}
template __global__ void rotary_embedding_kernel<float, true>(const long long *, float *, const float *, int, int, int, int);
extern "C" __global__ void ref(const long long *pos, float *q, const float *cache, int rot, int stride, int heads, int hs) {
  int t = blockIdx.x, h = threadIdx.x;
  for (int i = 0; i < rot / 2; ++i) {
    float c = cache[pos[t] * rot + i], s = cache[pos[t] * rot + rot / 2 + i];
    float *a = q + t * stride + h * hs;
    int ix = true ? i : 2 * i, iy = true ? i + rot / 2 : 2 * i + 1;
    float x = a[ix], y = a[iy];
    a[ix] = x * c - y * s; a[iy] = y * c + x * s;
  }
}
