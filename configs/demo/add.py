"""The smallest program to validate: a masked vector addition on a length that no block divides."""

import sys
from pathlib import Path

import numpy as np
import triton

sys.path.insert(0, str(Path(__file__).parent.parent / "triton"))
from vector_add import add_kernel

if __name__ == "__main__":
    n = 1000
    x, y, out = np.ones(n, np.float32), np.ones(n, np.float32), np.empty(n, np.float32)
    add_kernel[(triton.cdiv(n, 256),)](x, y, out, n, BLOCK=256)
