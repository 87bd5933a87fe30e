"""All kernels of this folder at small sizes, by name; run as a program, it compiles them:

VOLTA_VALIDATE=1 VOLTA_TARGET=cuda:80 python suite.py [NAME ...]
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import tilelang
from attention import attention
from matmul import dequantised, matmul, split_k
from rows import elementwise, softmax

#: name -> what makes the function; matrix products cover a grid of several blocks, and one is ragged in every dimension
KERNELS = {
    **{f"matmul 32x32x32 s{s}": lambda s=s: matmul(64, 64, 128, 32, 32, 32, s) for s in (1, 2, 3)},
    **{f"matmul 64x32x32 s{s}": lambda s=s: matmul(128, 64, 128, 64, 32, 32, s) for s in (1, 2, 3)},
    **{f"matmul 64x64x32 s{s}": lambda s=s: matmul(128, 128, 128, 64, 64, 32, s) for s in (1, 2, 3)},
    **{f"matmul 128x128x32 s{s}": lambda s=s: matmul(128, 128, 128, 128, 128, 32, s) for s in (1, 2, 3)},
    "matmul 64x64x32 s2 swizzled": lambda: matmul(256, 256, 64, 64, 64, 32, 2, panel=2),
    "matmul 32x32x32 s2 ragged": lambda: matmul(72, 40, 88, 32, 32, 32, 2),
    "matmul 64x32x32 s2 transposed": lambda: matmul(128, 64, 128, 64, 32, 32, 2, transpose_B=True),
    "elementwise": lambda: elementwise(72, 100, 32, 32),
    "softmax": lambda: softmax(32, 256, 16),
    "attention": lambda: attention(1, 2, 128, 64, 64, 64),
    "attention s2": lambda: attention(1, 1, 256, 64, 64, 64, num_stages=2),
    "attention causal": lambda: attention(1, 1, 128, 64, 64, 64, causal=True),
    "dequantised": lambda: dequantised(64, 64, 128, 32, 32, 32),
    "split k": lambda: split_k(64, 64, 256, 32, 32, 32, 4),
}

if __name__ == "__main__":
    for name in sys.argv[1:] or KERNELS:
        tilelang.compile(KERNELS[name]().with_attr("global_symbol", "".join(c if c.isalnum() else "_" for c in name)))
