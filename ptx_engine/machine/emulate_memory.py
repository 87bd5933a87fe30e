"""Memory of the concrete mode: bytes. Shared and local memory are the machine's cells, which hold bits already.

A tensor is a padded copy of the argument's bytes, so that an access of any width is one gather over a typed view; the
copy goes back to the argument when the run ends.
"""

from __future__ import annotations

import numpy as np

from ptx_engine.isa.concrete import concrete_bits
from ptx_engine.isa.fields import Plain, fields_of
from ptx_engine.isa.group import Group
from ptx_engine.isa.values import BITS, UINT, Sym, Value, choose, is_partial, split_bits, uninitialised
from ptx_engine.launch import BoundLaunch
from ptx_engine.machine.elements import spread, stored_values
from ptx_engine.machine.findings_log import FindingLog
from ptx_engine.machine.memory import Memory
from ptx_engine.machine.order_port import OrderPort
from ptx_engine.order.records import Space

_PAD = 64


class ByteStorage:
    """The bytes of one argument, readable and writable at any width."""

    def __init__(self, source: np.ndarray) -> None:
        self.source = source  # uint8, a view of the argument's memory
        padded = np.zeros((len(source) + _PAD - 1) // 16 * 16, np.uint8)
        padded[: len(source)] = source
        self._views = {width: padded.view(UINT[width]) for width in (8, 16, 32, 64)}

    def load(self, offset: "int | np.ndarray", width: int) -> "int | np.ndarray":
        """``width`` bits at byte offsets that are multiples of the width."""
        view = self._views[width]
        index = offset // (width // 8)
        return int(view[index]) if isinstance(index, int) else view[index]

    def store(self, offset: "int | np.ndarray", width: int, bits: "int | np.ndarray") -> None:
        """The other way; where lanes meet at one address the last one stays."""
        if isinstance(offset, int) and isinstance(bits, np.ndarray):
            bits = int(bits[-1])
        self._views[width][offset // (width // 8)] = bits

    def write_back(self) -> None:
        """Put the bytes back into the argument."""
        self.source[:] = self._views[8][: len(self.source)]


class ConcreteMemory(Memory):
    """The machine's memory over bytes. ``storages[i]`` is buffer i's; it must be set before the first access."""

    def __init__(
        self, bound: BoundLaunch, granule: int, shared_bytes: int, local_bytes: int, log: FindingLog, order: OrderPort,
        storages: list[ByteStorage],
    ) -> None:  # fmt: skip
        super().__init__(bound, granule, shared_bytes, local_bytes, log, order)
        self.storages = storages

    def _offset(self, number: int, address: "int | np.ndarray") -> "int | np.ndarray":
        base = self.bound.buffers[number].address
        return address - base if isinstance(address, int) else (address - np.uint64(base)).astype(np.int64)

    def _elements(self, g: Group, number: int, address: "int | np.ndarray", widths: tuple[int, ...], instruction: int) -> list[Value]:
        storage, offset = self.storages[number], self._offset(number, address)
        values: list[Value] = []
        for width in widths:
            pieces = [storage.load(offset + 8 * i, min(width, 64)) for i in range(max(1, width // 64))]
            values.append(pieces[0] if len(pieces) == 1 else Sym(tuple((BITS[64], p) for p in pieces)))
            offset = offset + width // 8
        return values

    def _undefined_elements(self, number: int, widths: tuple[int, ...]) -> list[Value]:
        return [0 if w <= 64 else Sym(((BITS[64], 0),) * (w // 64)) for w in widths]

    def _partial_load(
        self, g: Group, space: str, address: "int | np.ndarray", widths: tuple[int, ...], instruction: int, good: np.ndarray
    ) -> list[Value]:
        """Faulting lanes load zeros (the fault is a finding)."""
        blank = self._undefined_elements(0, widths)
        if not good.size:
            return blank
        values = self.load(g.subset(good, []), space, address if isinstance(address, int) else address[good], widths, instruction)
        mask = np.zeros(g.n, bool)
        mask[good] = True
        return [choose(self.arena, mask, spread(v, good, g.n), b, w) for v, b, w in zip(values, blank, widths)]

    def _put(
        self, g: Group, number: int, address: "int | np.ndarray", values: list[Value], widths: tuple[int, ...], instruction: int
    ) -> None:
        pieces = [piece for value, width in zip(values, widths) for piece in fields(value, width)]
        seen: list[tuple[int | np.ndarray, bool]] = []
        for width, bits in pieces:
            seen.extend((half, True) for half in split_bits(bits, [min(width, 32)] * max(1, width // 32)))
        self._order_access(True, Space.GLOBAL, g, address, sum(widths) // 8, instruction, stored_values(seen, g.n))
        storage, offset = self.storages[number], self._offset(number, address)
        for width, bits in pieces:
            storage.store(offset, width, bits)
            offset = offset + width // 8


def fields(value: Value, width: int) -> "list[tuple[int, int | np.ndarray]]":
    """A register stored in ``width`` bits as (width, bits) pieces of at most 64 bits. Raises where some of them were never written."""
    if isinstance(value, Sym) and not is_partial(value):
        if all(fmt.kind == "bits" for fmt, _ in value.parts) and width > 64:
            return [(64, ids) for _, ids in value.parts]
        stored = fields_of(value, width)
        if len(stored) != 1 or not isinstance(stored[0], Plain):
            raise uninitialised()
        value = stored[0].bits
    bits = concrete_bits(value)
    if isinstance(bits, int):
        return [(min(width, 64), bits >> at & ((1 << min(width, 64)) - 1)) for at in range(0, width, 64)]
    return [(width, bits.astype(UINT[width], copy=False))]
