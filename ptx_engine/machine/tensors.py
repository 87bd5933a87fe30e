"""Global memory: the tensors of a launch. Inputs are implicit ids; what is written lies over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ptx_engine.errors import NotStructuredError
from ptx_engine.isa.algebra_symbolic import constant_integers
from ptx_engine.isa.chosen import chosen_floats
from ptx_engine.isa.values import FLOATS, UINT, Part, Sym, Value, const_part, dtype_fmt, wrap_int
from ptx_engine.launch import Buffer, Footprint, Role
from ptx_engine.machine.contents import Contents
from ptx_engine.order.pages import Marks, scattered
from ptx_engine.terms import UNDEF, Arena, Ids

if TYPE_CHECKING:
    from ptx_engine.machine.cells import Cells


class TensorMemory:
    """One buffer: element ids by storage index. Nothing is allocated until the first store."""

    #: the cells of a module variable (see ``variable_memory``), which has no elements
    cells: "Cells | None" = None

    def __init__(self, arena: Arena, buffer: Buffer) -> None:
        self.arena = arena
        self.buffer = buffer
        self.fmt = dtype_fmt(buffer.arg.dtype)
        self.element_bytes = buffer.arg.element_bytes
        self.read_only = buffer.arg.role is Role.IN
        self.first, self.stop = buffer.address, buffer.address + buffer.bytes
        contents = buffer.arg.contents
        self.contents: np.ndarray | None = None if isinstance(contents, str) else np.ascontiguousarray(contents).ravel()
        self._ids: np.ndarray | None = None
        self._written: Marks | None = None
        self._constants: Contents | None = None

    def _initial(self, index: "int | np.ndarray") -> Ids:
        """The ids before any store."""
        if self.buffer.input is not None:
            return self.buffer.input.ids(index)
        if self.contents is not None:
            if self._constants is None:
                self._constants = Contents(self.buffer.arg, self.arena)
            return int(self._constants.ids(np.array([index]))[0]) if isinstance(index, int) else self._constants.ids(index)
        return UNDEF if isinstance(index, int) else np.full(index.shape, UNDEF, np.int32)

    def load(self, index: "int | np.ndarray") -> Ids:
        """Term ids of elements."""
        if self._ids is None:
            return self._initial(index)
        assert self._written is not None
        if isinstance(index, int):
            return int(self._ids[index]) if self._written[index] else self._initial(index)
        return np.where(self._written[index], self._ids[index], self._initial(index))

    def concrete_bits(self, index: "int | np.ndarray") -> "int | np.ndarray | None":
        """Concrete element bits, for untouched tensors with given integer contents."""
        if self.contents is None or self._ids is not None or self.fmt.kind != "int":
            return None
        if isinstance(index, int):
            return int(self.contents[index]) & ((1 << self.fmt.bits) - 1)
        bits: np.ndarray = self.contents[index].astype(f"i{self.element_bytes}").view(f"u{self.element_bytes}")
        return bits

    def undefined(self, index: "int | np.ndarray") -> bool:
        """Whether an element that was never given contents is among these."""
        if self.buffer.input is not None or self.contents is not None:
            return False
        return self._written is None or not bool(np.all(self._written[index]))

    @property
    def stored(self) -> bool:
        """Whether the launch has stored to any element."""
        return self._written is not None

    def stored_between(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Whether the launch has stored to any of the elements from ``first`` to ``last``, for columns of these."""
        assert self._written is not None
        most = int((last - first).max()) if len(first) else 0
        return np.asarray(np.any([self._written[np.minimum(first + j, last)] for j in range(most + 1)], axis=0))

    def store(self, index: "int | np.ndarray", ids: Ids) -> None:
        """Write term ids to elements."""
        if self._ids is None:
            self._ids = scattered(self.buffer.arg.storage, np.int32)
            self._written = Marks(self.buffer.arg.storage)
        assert self._written is not None
        if isinstance(index, int) and not isinstance(ids, int):
            ids = int(ids[-1])  # several threads, one element: a race, reported elsewhere, if they are more than one
        self._ids[index] = ids
        self._written.add(index)

    def footprint(self) -> Footprint:
        """All elements written."""
        if self._ids is None or self._written is None:
            return Footprint(np.zeros(0, np.int64), np.zeros(0, np.int32))
        index = self._written.where()
        return Footprint(index, self._ids[index])

    def element_value(self, columns: list[Ids], width: int) -> Value:
        """Elements side by side as one register of ``width`` bits; constants of integer tensors become concrete bits."""
        fmt = self.fmt
        if fmt.kind == "int":
            known = [constant_integers(self.arena, ids) for ids in columns]
            if all(k is not None for k in known):
                from ptx_engine.machine.cells import join_bits

                mask = (1 << fmt.bits) - 1
                pieces = [k & mask if isinstance(k, int) else k.astype(UINT[fmt.bits]) for k in known if k is not None]
                return join_bits(pieces, fmt.bits)
        del width
        return Sym(tuple((fmt, ids) for ids in columns))

    def as_element(self, part: Part, what: str) -> Ids:
        """A part as an element of this tensor. A float of another format of the same width is refused (bits would be reread)."""
        fmt, ids = part
        if fmt is self.fmt or (fmt.kind == "bits" and fmt.bits == self.fmt.bits):
            return const_part(self.arena, ids, self.fmt) if fmt.kind == "bits" else ids
        if fmt.kind == self.fmt.kind == "int":
            return wrap_int(self.arena, ids, fmt, self.fmt.bits, self.fmt.lo < 0)[0]
        if {fmt.name, self.fmt.name} <= {"f32", "tf32"}:
            return ids
        if fmt.bits == self.fmt.bits and FLOATS.get(fmt.name):
            return self.arena.opaque(f"{fmt.name} bits stored as {self.fmt.name}", ids)
        if fmt.kind == "int" and self.fmt.kind == "float" and fmt.bits == self.fmt.bits:
            chosen = chosen_floats(self.arena, ids, self.fmt)
            if chosen is not None:
                return chosen
        raise NotStructuredError(f"{what}: {fmt.name} data in a tensor of {self.fmt.name}", feature=f"{fmt.name} in {self.fmt.name} tensor")
