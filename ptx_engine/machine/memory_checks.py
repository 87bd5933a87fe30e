"""What a launch's memory is made of, and the checks in front of every access: bounds, alignment, what was never stored."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from ptx_engine.errors import UnsupportedError
from ptx_engine.isa.decode import Strength
from ptx_engine.isa.group import Group
from ptx_engine.isa.values import Sym, Value, take
from ptx_engine.launch import BoundLaunch
from ptx_engine.machine.cells import UNINITIALISED, CellFormats, Cells, Column, to_cells, without_holes
from ptx_engine.machine.elements import stored_values
from ptx_engine.machine.findings_log import FindingLog
from ptx_engine.machine.last_looks import LastLooks
from ptx_engine.machine.order_port import OrderPort
from ptx_engine.machine.tensors import TensorMemory
from ptx_engine.machine.variable_memory import VariableMemory
from ptx_engine.machine.variables import VariableBuffer
from ptx_engine.order.records import AtomicKind, MemoryOrder, Observation, Scope, Space
from ptx_engine.terms import Arena

if TYPE_CHECKING:
    from ptx_engine.machine.mbarriers import Mbarriers


#: stands for every address that an int64 does not hold: negative numbers as addresses lie behind everything
_FAR = (1 << 63) - 1


class MemoryChecks:
    """The state of all memory of a launch. ``begin_batch`` gives the CTAs of a batch fresh shared and local memory."""

    def __init__(self, bound: BoundLaunch, granule: int, shared_bytes: int, local_bytes: int, log: FindingLog, order: OrderPort) -> None:
        self.arena: Arena = bound.arena
        self.bound = bound
        self.log = log
        self.order = order
        self.shared_bytes = shared_bytes
        self.local_bytes = local_bytes
        self.block_threads = bound.launch.threads
        self.formats = CellFormats(granule)
        self.shared = Cells(self.formats, 0, shared_bytes)
        self.local = Cells(self.formats, 0, local_bytes)
        self.tensors = [
            VariableMemory(bound.arena, buffer, self.formats) if isinstance(buffer, VariableBuffer) else TensorMemory(bound.arena, buffer)
            for buffer in bound.buffers
        ]
        self._start_list = [b.address for b in bound.buffers]
        self._starts = np.array(self._start_list, np.uint64)
        self._recent: TensorMemory | None = None
        self.params: dict[int, tuple[int, Value]] = {}  # byte offset -> (width in bits, value)
        #: variables of the shared and the local window: (offset, size, name), ascending
        self.places: dict[str, list[tuple[int, int, str]]] = {"shared": [], "local": []}
        self.order_seconds = 0.0
        self.last_looks = LastLooks(bound.buffers)
        #: stores, copies and atomics so far: a polling loop looks again when this has changed
        self.writes = 0
        #: set while a strong load or store runs
        self.strength: Strength | None = None
        #: makes a store (group, space, address, values, widths, instruction) that may be made or not (``possible``)
        self.kept: Callable[..., None] | None = None
        #: threads that make such a store, ascending, and what they store if they do
        self.stored: tuple[np.ndarray, list[Value]] | None = None
        #: instructions that load what a polling loop waits for: the value that ends the loop is the same in every schedule
        self.polled: set[int] = set()
        self._tracked = [not t.read_only for t in self.tensors]
        #: the mbarriers of the batch, where the kernel has any
        self.objects: Mbarriers | None = None

    def begin_batch(self, slots: int) -> None:
        """Fresh shared and local memory for a batch of CTAs."""
        self.last_looks.begin(slots * self.block_threads)
        self.shared = Cells(self.formats, slots, self.shared_bytes)
        self.local = Cells(self.formats, slots * self.block_threads, self.local_bytes)

    def check_shared(self, g: Group, address: np.ndarray, nbytes: int, instruction: int, role: str) -> np.ndarray | None:
        """Bounds and alignment of an access to shared memory: None if all lanes are good, else the good positions."""
        return self._check_window(g, "shared", address, nbytes, self.shared_bytes, instruction, role)

    def forget_shared(self, slots: np.ndarray, address: int, nbytes: int) -> None:
        """Bytes of shared memory that hold nothing that can be read."""
        index = self.shared.index(slots, np.full(len(slots), address, np.int64))
        self.shared.write(index, [(0, UNINITIALISED)] * (nbytes // self.formats.granule))

    def _check_stale(self, g: Group, address: "int | np.ndarray", nbytes: int, instruction: int) -> None:
        """A non-coherent load of what was stored in this launch. Whatever was stored before it in one schedule only is a race."""
        lowest, highest = (address, address) if isinstance(address, int) else (int(address.min()), int(address.max()))
        for tensor in self.tensors:
            if not tensor.stored or lowest >= tensor.stop or highest + nbytes <= tensor.first:
                continue
            low = np.broadcast_to(np.asarray(address).astype(np.int64), (g.n,))
            where = np.flatnonzero((low < tensor.stop) & (low + nbytes > tensor.first))
            first = np.maximum(low[where] - tensor.first, 0) // tensor.element_bytes
            last = (np.minimum(low[where] + nbytes, tensor.stop) - tensor.first - 1) // tensor.element_bytes
            stale = tensor.stored_between(first, last)
            if stale.any():
                example = np.arange(first[stale][0], last[stale][0] + 1)
                at = tensor.buffer.arg.index_of(int(example[tensor.stored_between(example, example)][0]))
                self.log.add(
                    "stale read", f"a non-coherent load reads {tensor.buffer.arg.name}{list(at)}, which this launch has stored to", g,
                    where[stale], instruction, role="load", space="global", tensor=tensor.buffer.arg.name, index=at,
                    width=nbytes, missing="no synchronisation orders ld.global.nc after a store",
                )  # fmt: skip

    def told(self, g: Group) -> list[Value] | None:
        """What threads store if they do, where that is not what memory holds then."""
        if self.stored is None:
            return None
        threads, values = self.stored
        return [take(value, np.searchsorted(threads, g.threads)) for value in values]

    def _seen(self, g: Group, data: Sequence[Column], widths: tuple[int, ...]) -> np.ndarray:
        """What tells the values of a store apart, of which memory will hold some cells."""
        told = self.told(g)
        if told is not None:
            data = to_cells(self.arena, self.formats, without_holes(told)[0], widths)
        return stored_values([(ids, tag == self.formats.bits) for ids, tag in data], g.n)

    def _order_access(
        self, write: bool, space: Space, g: Group, address: "int | np.ndarray", nbytes: int, instruction: int, values: np.ndarray | None
    ) -> None:
        start = perf_counter()
        if self.strength is not None:
            self._order_strong(write, space, g, address, nbytes, instruction, self.strength)
        elif write:
            self.order.write(space, instruction, g.threads, address, nbytes, values)
        else:
            self.order.read(space, instruction, g.threads, address, nbytes)
        self.order_seconds += perf_counter() - start

    def _order_strong(
        self, write: bool, space: Space, g: Group, address: "int | np.ndarray", nbytes: int, instruction: int, how: Strength
    ) -> None:
        if how.wanted and instruction not in self.polled:
            name = "volatile" if how.volatile else how.sem
            self.log.schedule_dependent(f"ld.{name} returns a value that depends on the schedule", instruction)
        column = np.full(g.n, min(address, _FAR), np.int64) if isinstance(address, int) else address.astype(np.int64)
        kind = AtomicKind.STORE if write else AtomicKind.LOAD
        if not write:
            self.last_looks.note(g.threads, space.value, column)
        observation = Observation.DECIDES if how.decides else Observation.IGNORED
        scope, sem = Scope(how.scope), MemoryOrder(how.sem)
        self.order.atomic(space, instruction, g.threads, column, nbytes, scope, sem, kind, observation, volatile=how.volatile)

    def _window(self, g: Group, space: str) -> tuple[Cells, "int | np.ndarray", int]:
        """Cells of a space, the window number of each lane, and the window's size in bytes."""
        if space == "shared":
            return self.shared, g.slots, self.shared_bytes
        if space == "local":
            return self.local, g.threads, self.local_bytes
        raise UnsupportedError(f"state space {space}", feature=space)

    def _check_window(
        self, g: Group, space: str, address: "int | np.ndarray", nbytes: int, size: int, instruction: int, role: str
    ) -> np.ndarray | None:
        """Record out-of-bounds and misaligned lanes; None if all lanes are good, else the good positions."""
        if isinstance(address, int):
            if 0 <= address <= size - nbytes and address % nbytes == 0:
                return None
            columns = np.full(g.n, min(address, _FAR), np.int64)
        else:
            union = int(np.bitwise_or.reduce(address))  # at least the greatest address, with every bit that one has
            if not union & (nbytes - 1) and (0 <= union <= size - nbytes or int(address.max()) <= size - nbytes):
                return None
            columns = address.astype(np.int64)
        outside = (columns < 0) | (columns > size - nbytes)
        if outside.any():
            where = np.flatnonzero(outside)
            at = int(columns[where[0]])
            self.log.add(
                "out of bounds",
                f"{role} of {nbytes} bytes at {space}+0x{at & 0xFFFFFFFF:x}, but the window has {size} bytes"
                f"{self._beside(space, at, nbytes)}",
                g, where, instruction, role=role, space=space, offset=at, width=nbytes,
            )  # fmt: skip
        crooked = ~outside & (columns % nbytes != 0)
        if crooked.any():
            where = np.flatnonzero(crooked)
            at = int(columns[where[0]])
            self.log.add(
                "misaligned", f"{role} of {nbytes} bytes at {space}+0x{at:x} is not aligned to {nbytes}",
                g, where, instruction, role=role, space=space, offset=at, width=nbytes,
            )  # fmt: skip
        return np.flatnonzero(~outside & ~crooked)

    def _beside(self, space: str, at: int, nbytes: int) -> str:
        """The variable that an access outside of a window is nearest to, and how far it reaches beyond."""
        places = self.places[space]
        if not places:
            return ""
        offset, size, name = max((p for p in places if p[0] <= at), default=places[0])
        return f": {at + nbytes - offset - size} bytes past the end of {name}" if at >= offset else f": {offset - at} bytes before {name}"

    def _check_initialised(
        self, g: Group, space: str, columns: list[Column], address: "int | np.ndarray", nbytes: int, instruction: int
    ) -> None:
        for _, tags in columns:
            if isinstance(tags, int):
                fresh = np.arange(g.n) if tags == UNINITIALISED else None
            else:
                fresh = np.flatnonzero(tags == UNINITIALISED) if int(tags.min()) == UNINITIALISED else None
            if fresh is not None and fresh.size:
                at = address if isinstance(address, int) else int(address[fresh[0]])
                self.log.add(
                    "uninitialised", f"{space} memory at {space}+0x{at:x} is read before anything was stored there",
                    g, fresh, instruction, role="load", space=space, offset=at, width=nbytes,
                )  # fmt: skip
                return

    def _resolve(self, address: "int | np.ndarray") -> "int | np.ndarray":
        """The number of the buffer that each address would belong to (the last one starting at or before it)."""
        if isinstance(address, int):
            return bisect_right(self._start_list, address) - 1
        low = int(np.searchsorted(self._starts, np.uint64(address.min()), "right")) - 1
        high = int(np.searchsorted(self._starts, np.uint64(address.max()), "right")) - 1
        if low == high:
            return low
        return np.searchsorted(self._starts, address.astype(np.uint64), "right") - 1

    def _input_element(self, address: int, width: int) -> Value:
        """One element of an input at an address that is the same in all threads; None where that is not what is read."""
        tensor = self._recent
        if tensor is None or not tensor.first <= address < tensor.stop:
            number = bisect_right(self._start_list, address) - 1
            if number < 0:
                return None
            tensor = self._recent = self.tensors[number]
            if address >= tensor.stop:
                return None
        entry = tensor.buffer.input
        if entry is None or width != tensor.fmt.bits or not tensor.read_only or tensor.cells is not None or address % tensor.element_bytes:
            return None
        return Sym(((tensor.fmt, -1 - entry.base - (address - tensor.first) // tensor.element_bytes),))

    def _check_tensor(
        self, g: Group, number: int, address: "int | np.ndarray", nbytes: int, instruction: int, role: str
    ) -> np.ndarray | None:
        """Bounds and alignment in one buffer: None if all lanes are good, else the good positions."""
        if number < 0:
            self._report_outside(g, np.arange(g.n), address, nbytes, instruction, role)
            return np.zeros(0, np.int64)
        buffer = self.bound.buffers[number]
        last = buffer.address + buffer.bytes - nbytes
        if isinstance(address, int):
            if address <= last and address % nbytes == 0:
                return None
            columns = np.full(g.n, min(address, _FAR), np.int64)
        else:
            if int(address.max()) <= last and not (nbytes > 1 and int(np.bitwise_or.reduce(address)) & (nbytes - 1)):
                return None
            columns = np.minimum(address, np.uint64(_FAR)).astype(np.int64)
        outside = columns > last
        if outside.any():
            self._report_outside(g, np.flatnonzero(outside), columns, nbytes, instruction, role)
        crooked = ~outside & (columns % nbytes != 0)
        if crooked.any():
            where = np.flatnonzero(crooked)
            offset = int(columns[where[0]]) - buffer.address
            self.log.add(
                "misaligned", f"{role} of {nbytes} bytes at byte {offset} of {buffer.arg.name} is not aligned to {nbytes}",
                g, where, instruction, role=role, space="global", tensor=buffer.arg.name, offset=offset, width=nbytes,
            )  # fmt: skip
        return np.flatnonzero(~outside & ~crooked)

    def _report_outside(self, g: Group, lanes: np.ndarray, address: "int | np.ndarray", nbytes: int, instruction: int, role: str) -> None:
        at = address if isinstance(address, int) else int(address[lanes[0]])
        buffer = self.bound.nearest(at)
        if buffer is None:
            self.log.add(
                "out of bounds", f"{role} at address 0x{at:x}: the launch has no tensors", g, lanes, instruction, role=role, space="global"
            )
            return
        offset = at - buffer.address
        element = offset // buffer.arg.element_bytes
        if 0 <= at < 1 << 20:
            message = f"{role} of {nbytes} bytes through a null pointer (address 0x{at:x})"
        elif offset < 0:
            message = f"{role} of {nbytes} bytes {-offset} bytes before the start of {buffer.arg.name}"
        else:
            beyond = offset + nbytes - buffer.bytes
            message = (
                f"{role} of {nbytes} bytes at element {element} of {buffer.arg.name}{list(buffer.arg.shape)}: "
                f"{beyond} bytes past its end ({buffer.arg.storage} elements)"
            )
        self.log.add(
            "out of bounds", message, g, lanes, instruction, role=role, space="global", tensor=buffer.arg.name,
            index=(element,), offset=offset, width=nbytes,
        )  # fmt: skip
