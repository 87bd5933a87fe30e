"""Contents of a module variable: cells, as in shared memory, since compilers mix element types in arrays of bytes."""

from __future__ import annotations

import numpy as np

from ptx_engine.isa.values import BITS, UINT, dtype_fmt
from ptx_engine.machine.cells import CellFormats, Cells
from ptx_engine.machine.tensors import TensorMemory
from ptx_engine.machine.variables import VariableBuffer
from ptx_engine.terms import Arena


class VariableMemory(TensorMemory):
    """One variable. It lives as long as the launch, and is no output."""

    cells: Cells

    def __init__(self, arena: Arena, buffer: VariableBuffer, formats: CellFormats) -> None:
        super().__init__(arena, buffer)
        self.cells = Cells(formats, 1, buffer.bytes)
        if buffer.initial is not None:
            self._fill_bits(buffer.initial)
        else:
            self._fill_symbolic()
        self.fmt = BITS[8 * formats.granule]  # for accesses that fault

    def _fill_bits(self, data: np.ndarray) -> None:
        granule = self.cells.formats.granule
        padded = np.zeros(self.cells.stride * granule, np.uint8)
        padded[: len(data)] = data
        words = padded.view(UINT[8 * granule])
        self.cells.ids[:] = words.view(np.int32) if granule == 4 else words
        self.cells.tags[:] = self.cells.formats.bits

    def _fill_symbolic(self) -> None:
        entry = self.buffer.input
        assert entry is not None
        fmt = dtype_fmt(entry.fmt)
        pieces = self.cells.formats.pieces(fmt)
        self.cells.ids[:] = np.repeat(np.asarray(entry.ids(np.arange(entry.count))), pieces)
        self.cells.tags[:] = np.tile(np.arange(pieces) + self.cells.formats.tag(fmt), entry.count)
