// clean: Matrix product by tiles of 8 x 8 in shared memory, with a barrier before and after the use of a tile.
// expect: clean
// fault no_barrier: Matrix product by tiles: the next tile is loaded while other threads still use this one.
// expect: data race shared R/W @Left @Use (no bar.warp.sync)
// expect: data race shared R/W @Right @Use (no barrier between them)
extern "C" __global__ void matmul(const float *a, const float *b, float *c) {
  __shared__ float left[8][8], right[8][8];
  unsigned column = threadIdx.x, row = threadIdx.y;
  float sum = 0;
#pragma unroll 1
  for (unsigned k = 0; k < 16; k += 8) {
    left[row][column] = a[row * 16 + k + column];  // @Left
    right[row][column] = b[(k + row) * 8 + column];  // @Right
    __syncthreads();
    for (unsigned i = 0; i < 8; i++) sum += left[row][i] * right[i][column];  // @Use
#ifndef NO_BARRIER
    __syncthreads();
#endif
  }
  c[row * 8 + column] = sum;
}
