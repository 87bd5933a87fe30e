"""Large arrays of which little is written: they cost the memory of what is."""

from __future__ import annotations

import mmap

import numpy as np

#: bytes from which on an array gets pages of its own
_LARGE = 1 << 22


def scattered(count: int, dtype: "np.dtype | type") -> np.ndarray:
    """Zeros in pages as small as the system has them: NumPy asks for huge ones, of which each that is touched is cleared."""
    size = count * np.dtype(dtype).itemsize
    if size < _LARGE:
        return np.zeros(count, dtype)
    block = mmap.mmap(-1, size)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        block.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(block, dtype)
