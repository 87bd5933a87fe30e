"""Loads and stores of whole columns for fused code: the usual access at its lowest price.

Each function does what ``Memory`` does for an access without a fault, of elements of one format that fill one cell and fold with nothing.
Where an access is not like that it does nothing and says so (None, False), and the instruction's closure takes over.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from ptx_engine.isa.group import Group
from ptx_engine.isa.values import Fmt
from ptx_engine.machine.memory import Memory
from ptx_engine.machine.tensors import TensorMemory
from ptx_engine.order.records import Space
from ptx_engine.terms import CONST_CAP, Ids
from ptx_engine.terms.storage import has_const

Loader = Callable[[Group, "int | np.ndarray"], "Ids | None"]
#: rows of ids, one for each register that several loads fill
RowLoader = Callable[[Group, np.ndarray], "np.ndarray | None"]
Storer = Callable[[Group, "int | np.ndarray", Ids], bool]


def fits_a_cell(memory: Memory, fmt: Fmt, bits: int) -> bool:
    """Whether an element of the format is one cell of shared memory and one register of ``bits``."""
    return fmt.kind == "float" and fmt.bits == bits == 8 * memory.formats.granule


def input_at(memory: Memory, address: int, bits: int) -> TensorMemory | None:
    """The input whose elements of ``bits`` are implicit terms, if an address lies in one."""
    number = bisect_right([b.address for b in memory.bound.buffers], address) - 1
    tensor = memory.tensors[number] if number >= 0 else None
    if tensor is None or address >= tensor.stop or tensor.cells is not None or not tensor.read_only or tensor.buffer.input is None:
        return None
    aligned = tensor.first % tensor.element_bytes == 0
    return tensor if aligned and tensor.fmt.kind == "float" and tensor.fmt.bits == bits else None


def input_loader(tensor: TensorMemory) -> Loader:
    """Elements of an input that nothing may write, at addresses that differ between threads."""
    entry = tensor.buffer.input
    assert entry is not None
    first, last, size = np.uint64(tensor.first), tensor.stop - tensor.first - tensor.element_bytes, tensor.element_bytes
    shift, highest = np.uint64(size.bit_length() - 1), -1 - entry.base

    def load(g: Group, address: "int | np.ndarray") -> Ids | None:
        offset = address - first
        union = int(np.bitwise_or.reduce(offset))
        if union & (size - 1) or (union > last and int(np.maximum.reduce(offset)) > last):
            return None
        return np.asarray((highest - (offset >> shift).view(np.int64)).astype(np.int32))

    return load


def shared_loader(memory: Memory, fmt: Fmt, instruction: int) -> Loader:
    """One cell of shared memory for each thread."""
    tag, size, order = memory.formats.tag(fmt), fmt.bits // 8, memory.order
    pattern = bytes([tag])

    def load(g: Group, address: "int | np.ndarray") -> Ids | None:
        nonlocal pattern
        if isinstance(address, int):
            return _one(memory, g, address, tag, size, instruction)
        if not _inside(address, size, memory.shared_bytes):
            return None
        cells = memory.shared
        index = cells.index(g.slots, address)
        if len(pattern) != g.n:
            pattern = bytes([tag]) * g.n
        if cells.tags[index].tobytes() != pattern:
            return None
        ids: np.ndarray = cells.ids[index]
        if cells.constants and has_const(ids):
            return None
        start = perf_counter()
        order.read(Space.SHARED, instruction, g.threads, address, size)
        memory.order_seconds += perf_counter() - start
        return ids

    return load


@dataclass(frozen=True)
class Access:
    """One load of a batch: its instruction, its offset from the batch's base register, and how many elements it takes."""

    instruction: int
    offset: int
    count: int


class SharedRows:
    """Cells of shared memory around one base register, for each thread: several loads at once.

    The order checker is told of those loads at once that come before code may give way to closures, which repeat the others; it is
    told of the others, from each such place to the next, when that is past (``cuts``: numbers of the first load of each stretch).
    """

    def __init__(self, memory: Memory, fmt: Fmt, accesses: Sequence[Access]) -> None:
        self._memory, self._accesses = memory, accesses
        self._tag, self._size = memory.formats.tag(fmt), fmt.bits // 8
        self._low = min(a.offset for a in accesses)
        self._aligned = self._size * max(a.count for a in accesses) - 1
        self._last = memory.shared_bytes - max(a.offset - self._low + self._size * a.count for a in accesses)
        self._to_first, self._apart = np.uint32(self._low & (1 << 32) - 1), accesses[0].offset - self._low
        self._places = np.array([(a.offset - self._low) // self._size + i for a in accesses for i in range(a.count)])[:, None]
        self.cuts = [0]
        self._first = np.zeros(0, np.uint32)

    def __call__(self, g: Group, base: np.ndarray) -> np.ndarray | None:
        first = base + self._to_first  # where that is below zero it is beyond all
        apart = self._apart
        if int(np.maximum.reduce(first)) > self._last or int(np.bitwise_or.reduce(first + apart if apart else first)) & self._aligned:
            return None
        cells = self._memory.shared
        index = cells.index(g.slots, first) + self._places
        if not (cells.tags[index] == self._tag).all():
            return None
        ids: np.ndarray = cells.ids[index]
        if cells.constants and has_const(ids):
            return None
        self._first = first
        self.tell(g, 0)
        return ids

    def tell(self, g: Group, stretch: int) -> None:
        """Tell of a stretch of the latest call's loads."""
        order, first, low, size = self._memory.order, self._first, self._low, self._size
        end = self.cuts[stretch + 1] if stretch + 1 < len(self.cuts) else len(self._accesses)
        start = perf_counter()
        for access in self._accesses[self.cuts[stretch] : end]:
            order.read(Space.SHARED, access.instruction, g.threads, first + (access.offset - low), size * access.count)
        self._memory.order_seconds += perf_counter() - start


def input_rows(tensor: TensorMemory, accesses: Sequence[Access]) -> RowLoader:
    """Elements of an input that nothing may write around one base register: several loads at once."""
    entry = tensor.buffer.input
    assert entry is not None
    size = tensor.element_bytes
    lowest, end = min(a.offset for a in accesses), max(a.offset + size * a.count for a in accesses)
    origin, span = np.uint64(tensor.first - lowest & (1 << 64) - 1), tensor.stop - tensor.first - (end - lowest)
    shift, aligned = np.uint64(size.bit_length() - 1), np.uint64(size * max(a.count for a in accesses) - 1)
    to_first = np.uint64(accesses[0].offset & (1 << 64) - 1)
    heads = np.array([-1 - entry.base - (a.offset - lowest) // size - i for a in accesses for i in range(a.count)], np.int64)[:, None]

    def load(g: Group, base: np.ndarray) -> np.ndarray | None:
        offset = base - origin
        if int(np.maximum.reduce(offset)) > span or np.bitwise_or.reduce(base + to_first) & aligned:
            return None
        return np.asarray((heads - (offset >> shift).view(np.int64)).astype(np.int32))

    return load


def _inside(address: np.ndarray, size: int, window: int) -> bool:
    """Whether all addresses are aligned and in the window."""
    union = int(np.bitwise_or.reduce(address))
    return not union & (size - 1) and (union <= window - size or int(np.maximum.reduce(address)) <= window - size)


def _one(memory: Memory, g: Group, address: int, tag: int, size: int, instruction: int) -> int | None:
    """The cell that all threads read."""
    cells, slot = memory.shared, g.slots
    if slot.__class__ is not int or not 0 <= address <= memory.shared_bytes - size or address % size:
        return None
    index = address // size + slot * cells.stride
    if cells.tags[index] != tag:
        return None
    found = int(cells.ids[index])
    if 0 <= found < CONST_CAP:
        return None
    start = perf_counter()
    memory.order.read(Space.SHARED, instruction, g.threads, address, size)
    memory.order_seconds += perf_counter() - start
    return found


def shared_storer(memory: Memory, fmt: Fmt, instruction: int) -> Storer:
    """One cell of shared memory for each thread; no id may be a constant."""
    tag, size, order = memory.formats.tag(fmt), fmt.bits // 8, memory.order

    def store(g: Group, address: "int | np.ndarray", ids: Ids) -> bool:
        if not isinstance(address, np.ndarray) or not _inside(address, size, memory.shared_bytes):
            return False
        memory.writes += 1
        seen = np.full(g.n, ids, np.int64) if isinstance(ids, int) else ids.astype(np.int64)
        start = perf_counter()
        order.write(Space.SHARED, instruction, g.threads, address, size, seen)
        memory.order_seconds += perf_counter() - start
        cells = memory.shared
        index = cells.index(g.slots, address)
        cells.ids[index] = ids
        cells.tags[index] = tag
        return True

    return store
