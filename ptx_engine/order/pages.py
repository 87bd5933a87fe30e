"""Large arrays of which little is written: they cost the memory, and finding what is written costs the time, of what is."""

from __future__ import annotations

import mmap

import numpy as np

#: bytes from which on an array gets pages of its own
_LARGE = 1 << 22
#: elements of a block, of which it is known whether any is marked
_BLOCK = 1 << 12
#: elements from which on blocks are kept: looking through fewer takes less than keeping them up to date
_SEARCHED = 1 << 22


def scattered(count: int, dtype: "np.dtype | type") -> np.ndarray:
    """Zeros in pages as small as the system has them: NumPy asks for huge ones, of which each that is touched is cleared.

    Raises MemoryError where the process may not have so many addresses (``ulimit -v``)."""
    size = count * np.dtype(dtype).itemsize
    if size < _LARGE:
        return np.zeros(count, dtype)
    try:
        block = mmap.mmap(-1, size)
    except OSError:
        raise MemoryError(f"unable to allocate an array of {size >> 20} MiB") from None
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        block.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(block, dtype)


class Marks:
    """Which elements of an array are written. A tensor that is declared with 2**31 elements and of which a thousand are written is not
    looked through (that took seconds), only the blocks that have a mark."""

    def __init__(self, count: int) -> None:
        blocks = -(-count // _BLOCK)
        self._marked = scattered(blocks * _BLOCK, np.bool_)
        self._blocks = np.zeros(blocks, np.bool_) if count >= _SEARCHED else None

    def __getitem__(self, index: "int | np.ndarray") -> np.ndarray:
        """Whether elements are marked."""
        return np.asarray(self._marked[index])

    def add(self, index: "int | np.ndarray") -> None:
        """Mark elements."""
        self._marked[index] = True
        if self._blocks is not None:
            self._blocks[index // _BLOCK] = True

    def where(self) -> np.ndarray:
        """The marked elements, int64, sorted."""
        if self._blocks is None:
            return np.flatnonzero(self._marked)
        chosen = np.flatnonzero(self._blocks)
        if len(chosen) == len(self._blocks):
            return np.flatnonzero(self._marked)
        row, inner = np.nonzero(self._marked.reshape(-1, _BLOCK)[chosen])
        return np.asarray(chosen[row] * _BLOCK + inner)
