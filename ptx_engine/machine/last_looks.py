"""Where each thread has last looked at memory that others may write meanwhile: what a loop that never ends has waited for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ptx_engine.launch import Buffer

NOWHERE = -1


class LastLooks:
    """By thread of a batch of CTAs. Addresses of shared memory are kept below ``NOWHERE``."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self._buffers = buffers
        self._at = np.zeros(0, np.int64)

    def begin(self, threads: int) -> None:
        """A batch of so many threads begins."""
        self._at = np.full(threads, NOWHERE, np.int64)

    def note(self, threads: np.ndarray, space: str, addresses: np.ndarray) -> None:
        """Threads look at addresses of shared or global memory."""
        self._at[threads] = NOWHERE - 1 - addresses if space == "shared" else addresses

    def places(self, threads: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        """The places where threads have looked, each with its threads."""
        at = self._at[threads]
        for one in np.unique(at).tolist():
            yield self._name(one), threads[at == one]

    def _name(self, at: int) -> str:
        if at == NOWHERE:
            return "memory"
        if at < NOWHERE:
            return f"shared+0x{NOWHERE - 1 - at:x}"
        for buffer in self._buffers:
            if buffer.address <= at < buffer.address + buffer.bytes:
                index = buffer.arg.index_of((at - buffer.address) // buffer.arg.element_bytes)
                return f"{buffer.arg.name}[{', '.join(map(str, index))}]"
        return "memory"
