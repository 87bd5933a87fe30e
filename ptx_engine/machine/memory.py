"""Loads and stores of a group in every state space: bounds, alignment, order, and the data itself.

A faulting lane is a finding; it stores nothing and loads an undefined value, and the run goes on, so that one run
reports all faults.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from ptx_engine.errors import NotStructuredError, UnsupportedError
from ptx_engine.isa.atomic import AtomicOp
from ptx_engine.isa.decode import Strength
from ptx_engine.isa.group import Group
from ptx_engine.isa.move import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from ptx_engine.isa.reinterpret import integer_of, pieces_of, width_of
from ptx_engine.isa.values import BITS, Fmt, Part, Sym, Value, choose, int_fmt, join, split_bits, uninitialised
from ptx_engine.launch import BoundLaunch, Role
from ptx_engine.machine import atomics
from ptx_engine.machine.cells import UNINITIALISED, CellFormats, Cells, Column, assemble, to_cells
from ptx_engine.machine.findings_log import FindingLog
from ptx_engine.machine.order_port import OrderPort, Space
from ptx_engine.machine.same_value import BITS_BASE
from ptx_engine.machine.tensors import TensorMemory
from ptx_engine.machine.variable_memory import VariableMemory
from ptx_engine.machine.variables import VariableBuffer
from ptx_engine.order.records import AtomicKind, MemoryOrder, Observation, Scope
from ptx_engine.terms import UNDEF, Arena, Ids

Address = "int | np.ndarray"


class Memory:
    """All memory of a launch. ``begin_batch`` gives the CTAs of a batch fresh shared and local memory."""

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
        self._starts = np.array([b.address for b in bound.buffers], np.uint64)
        self.params: dict[int, tuple[int, Value]] = {}  # byte offset -> (width in bits, value)
        self.constants: dict[str, Cells] = {}
        self.order_seconds = 0.0
        #: stores, copies and atomics so far: a polling loop looks again when this has changed
        self.writes = 0
        #: set while a strong load or store runs
        self.strength: Strength | None = None
        #: instructions that load what a polling loop waits for: the value that ends the loop is the same in every schedule
        self.polled: set[int] = set()
        self._tracked = [not t.read_only for t in self.tensors]

    def begin_batch(self, slots: int) -> None:
        """Fresh shared and local memory for a batch of CTAs."""
        self.shared = Cells(self.formats, slots, self.shared_bytes)
        self.local = Cells(self.formats, slots * self.block_threads, self.local_bytes)

    # --- entry points of the specs -----------------------------------------------------------

    def load(self, g: Group, space: str, address: "int | np.ndarray", widths: tuple[int, ...], instruction: int) -> list[Value]:
        """Registers of the given widths (bits) from one access per lane."""
        if space == "param":
            return self._load_params(address, widths)
        address = _concrete(address, "load")
        if space == "" or space == "const":
            space, address = self._generic(address)
        if space == "global":
            return self._load_global(g, address, widths, instruction)
        return self._load_cells(g, space, address, widths, instruction)

    def store(
        self, g: Group, space: str, address: "int | np.ndarray", values: list[Value], widths: tuple[int, ...], instruction: int
    ) -> None:
        """One access per lane of registers side by side."""
        address = _concrete(address, "store")
        self.writes += 1
        if space == "":
            space, address = self._generic(address)
        if space == "global":
            self._store_global(g, address, values, widths, instruction)
        elif space == "param":
            assert isinstance(address, int)
            for value, width in zip(values, widths):
                self.params[address] = (width, value)
                address += width // 8
        else:
            self._store_cells(g, space, address, values, widths, instruction)

    def atomic(self, g: Group, space: str, address: "int | np.ndarray", op: AtomicOp, operands: list[Value], instruction: int) -> Value:
        """An atomic update; the old values, where anyone reads them."""
        address = _concrete(address, "atomic")
        if space == "":
            space, address = self._generic(address)
        column = np.full(g.n, address, np.uint64) if isinstance(address, int) else address
        return atomics.apply(self, g, space, column, op, operands, instruction)

    def strong_load(
        self, g: Group, space: str, address: "int | np.ndarray", widths: tuple[int, ...], instruction: int, how: Strength
    ) -> list[Value]:
        """A load that takes part in the memory model: volatile, relaxed, acquire."""
        self.strength = how
        try:
            return self.load(g, space, address, widths, instruction)
        finally:
            self.strength = None

    def strong_store(
        self,
        g: Group,
        space: str,
        address: "int | np.ndarray",
        values: list[Value],
        widths: tuple[int, ...],
        instruction: int,
        how: Strength,
    ) -> None:
        """A store that takes part in the memory model: volatile, relaxed, release."""
        self.strength = how
        try:
            self.store(g, space, address, values, widths, instruction)
        finally:
            self.strength = None

    def _generic(self, address: "int | np.ndarray") -> tuple[str, "int | np.ndarray"]:
        """State space and in-space address of generic addresses, which must agree on the space."""
        low = address if isinstance(address, int) else int(address.min())
        high = address if isinstance(address, int) else int(address.max())
        for space, window in (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW)):
            if window <= low and high < window + WINDOW_BYTES:
                return space, address - window
        if high >= SHARED_WINDOW:
            raise UnsupportedError("a generic access whose lanes go to different state spaces", feature="mixed generic access")
        return "global", address

    def _load_params(self, address: "int | np.ndarray", widths: tuple[int, ...]) -> list[Value]:
        if not isinstance(address, int):
            raise NotStructuredError("a parameter is indexed by a thread-dependent address", feature="ld.param indexed")
        result: list[Value] = []
        for width in widths:
            have, value = self._parameter(address, width)
            if have > width:
                if isinstance(value, Sym) or value is None:
                    raise NotStructuredError("part of a symbolic parameter is read", feature="partial ld.param")
                value = split_bits(value, [width])[0]  # type: ignore[arg-type]
            result.append(value)
            address += width // 8
        return result

    def _parameter(self, address: int, width: int) -> tuple[int, Value]:
        """Width and value of the parameter bytes from ``address`` on: a whole parameter, or the rest of a concrete one."""
        found = self.params.get(address)
        if found is not None and found[0] >= width:
            return found
        for start, (bits, value) in self.params.items():
            skipped = 8 * (address - start)
            if skipped > 0 and skipped + width <= bits and isinstance(value, int):
                return bits - skipped, value >> skipped
        raise UnsupportedError(f"{width}-bit read at byte {address} of the parameters", feature="partial ld.param")

    # --- shared and local ----------------------------------------------------------------------

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
            columns = np.full(g.n, address, np.int64)
        else:
            if int(address.max()) <= size - nbytes and not (nbytes > 1 and int(np.bitwise_or.reduce(address)) & (nbytes - 1)):
                return None
            columns = address.astype(np.int64)
        outside = (columns < 0) | (columns > size - nbytes)
        if outside.any():
            where = np.flatnonzero(outside)
            at = int(columns[where[0]])
            self.log.add(
                "out of bounds", f"{role} of {nbytes} bytes at {space}+0x{at & 0xFFFFFFFF:x}, but the window has {size} bytes",
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
            self.log.schedule_dependent(f"ld.{how.sem} returns a value that depends on the schedule", instruction)
        column = np.full(g.n, address, np.int64) if isinstance(address, int) else address.astype(np.int64)
        kind = AtomicKind.STORE if write else AtomicKind.LOAD
        observation = Observation.DECIDES if how.decides else Observation.IGNORED
        self.order.atomic(space, instruction, g.threads, column, nbytes, Scope(how.scope), MemoryOrder(how.sem), kind, observation)

    def _load_cells(self, g: Group, space: str, address: "int | np.ndarray", widths: tuple[int, ...], instruction: int) -> list[Value]:
        nbytes = sum(widths) // 8
        cells, slots, size = self._window(g, space)
        good = self._check_window(g, space, address, nbytes, size, instruction, "load")
        if good is not None:
            return self._partial_load(g, space, address, widths, instruction, good)
        if space == "shared":
            self._order_access(False, Space.SHARED, g, address, nbytes, instruction, None)
        columns = cells.read(cells.index(slots, address), nbytes // self.formats.granule)
        self._check_initialised(g, space, columns, address, nbytes, instruction)
        return self._registers(columns, widths)

    def _registers(self, columns: list[Column], widths: tuple[int, ...]) -> list[Value]:
        values: list[Value] = []
        i = 0
        for width in widths:
            count = width // 8 // self.formats.granule
            values.append(assemble(self.arena, self.formats, columns[i : i + count], "a load"))
            i += count
        return values

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

    def _partial_load(
        self, g: Group, space: str, address: "int | np.ndarray", widths: tuple[int, ...], instruction: int, good: np.ndarray
    ) -> list[Value]:
        """Only the good lanes load; the others get undefined values."""
        if not good.size:
            return [
                Sym(((BITS[w] if w in BITS else BITS[32], 0),)) if w not in _UNDEF_FMT else Sym(((_UNDEF_FMT[w], UNDEF),)) for w in widths
            ]
        sub = g.subset(good, ())
        part = address if isinstance(address, int) else address[good]
        values = self.load(sub, space, part, widths, instruction)
        mask = np.zeros(g.n, bool)
        mask[good] = True
        return [choose(self.arena, mask, spread(v, good, g.n), None, w) for v, w in zip(values, widths)]

    def _store_cells(
        self, g: Group, space: str, address: "int | np.ndarray", values: list[Value], widths: tuple[int, ...], instruction: int
    ) -> None:
        nbytes = sum(widths) // 8
        cells, slots, size = self._window(g, space)
        good = self._check_window(g, space, address, nbytes, size, instruction, "store")
        if good is not None:
            self._partial_store(g, space, address, values, widths, instruction, good)
            return
        data = to_cells(self.arena, self.formats, values, widths)
        if space == "shared":
            seen = stored_values([(ids, tag == self.formats.bits) for ids, tag in data], g.n)
            self._order_access(True, Space.SHARED, g, address, nbytes, instruction, seen)
        index = cells.index(slots, address)
        cells.write(index, data)

    def _partial_store(
        self,
        g: Group,
        space: str,
        address: "int | np.ndarray",
        values: list[Value],
        widths: tuple[int, ...],
        instruction: int,
        good: np.ndarray,
    ) -> None:
        if good.size:
            from ptx_engine.isa.values import take

            part = address if isinstance(address, int) else address[good]
            self.store(g.subset(good, ()), space, part, [take(v, good) for v in values], widths, instruction)

    # --- global ------------------------------------------------------------------------------

    def _resolve(self, address: "int | np.ndarray") -> "int | np.ndarray":
        """The number of the buffer that each address would belong to (the last one starting at or before it)."""
        if isinstance(address, int):
            return int(np.searchsorted(self._starts, np.uint64(address), "right")) - 1
        low = int(np.searchsorted(self._starts, np.uint64(address.min()), "right")) - 1
        high = int(np.searchsorted(self._starts, np.uint64(address.max()), "right")) - 1
        if low == high:
            return low
        return np.searchsorted(self._starts, address.astype(np.uint64), "right") - 1

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
            columns = np.full(g.n, address, np.int64)
        else:
            if int(address.max()) <= last and not (nbytes > 1 and int(np.bitwise_or.reduce(address)) & (nbytes - 1)):
                return None
            columns = address.astype(np.int64)
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

    def _load_global(self, g: Group, address: "int | np.ndarray", widths: tuple[int, ...], instruction: int) -> list[Value]:
        number = self._resolve(address)
        nbytes = sum(widths) // 8
        if isinstance(number, np.ndarray):
            return self._load_many(g, address, widths, instruction, number)  # type: ignore[arg-type]
        good = self._check_tensor(g, number, address, nbytes, instruction, "load")
        if good is not None:
            if good.size or number < 0 or not self.tensors[number]:
                return self._partial_load(g, "global", address, widths, instruction, good)
            return self._undefined_elements(number, widths)
        if self._tracked[number]:
            self._order_access(False, Space.GLOBAL, g, address, nbytes, instruction, None)
        return self._elements(g, number, address, widths, instruction)

    def _undefined_elements(self, number: int, widths: tuple[int, ...]) -> list[Value]:
        fmt = self.tensors[number].fmt
        return [Sym(((fmt, UNDEF),) * (w // fmt.bits)) if w >= fmt.bits else Sym(((BITS[w], 0),)) for w in widths]

    def _elements(self, g: Group, number: int, address: "int | np.ndarray", widths: tuple[int, ...], instruction: int) -> list[Value]:
        tensor = self.tensors[number]
        if tensor.cells is not None:
            return self._registers(
                tensor.cells.read(tensor.cells.index(0, _offset(tensor, address)), sum(widths) // 8 // self.formats.granule), widths
            )
        index = element_index(tensor, address)
        per = [w // tensor.fmt.bits for w in widths]
        if 0 in per or any(w % tensor.fmt.bits for w in widths):
            raise NotStructuredError(
                f"a load of {widths[0]} bits reads part of an element of {tensor.buffer.arg.name} ({tensor.fmt.name})",
                feature="torn element",
            )
        last = sum(per)
        values: list[Value] = []
        k = 0
        for count, width in zip(per, widths):
            bits = [tensor.concrete_bits(index + k + j) for j in range(count)] if tensor.contents is not None else [None]
            if all(b is not None for b in bits):
                from ptx_engine.machine.cells import join_bits

                values.append(join_bits(bits, tensor.fmt.bits))  # type: ignore[arg-type]
            else:
                values.append(tensor.element_value([tensor.load(index + k + j) for j in range(count)], width))
            k += count
        if tensor.buffer.input is None and any(tensor.undefined(index + j) for j in range(last)):
            self._report_unwritten(g, tensor, index, last, instruction)
        return values

    def _report_unwritten(self, g: Group, tensor: TensorMemory, index: "int | np.ndarray", count: int, instruction: int) -> None:
        columns = np.broadcast_to(np.asarray(index), (g.n,))
        fresh = np.array([any(tensor.undefined(int(i) + j) for j in range(count)) for i in columns])
        where = np.flatnonzero(fresh)
        name = tensor.buffer.arg.name
        at = tensor.buffer.arg.index_of(int(columns[where[0]]))
        self.log.add(
            "uninitialised", f"{name}{list(at)} has no contents at the launch and is read before it is written", g, where, instruction,
            role="load", space="global", tensor=name, index=at, width=tensor.element_bytes,
        )  # fmt: skip

    def _load_many(self, g: Group, address: np.ndarray, widths: tuple[int, ...], instruction: int, number: np.ndarray) -> list[Value]:
        """Lanes read different tensors: one load per tensor, joined."""
        pieces: list[list[Value]] = []
        places: list[np.ndarray] = []
        for n in np.unique(number):
            where = np.flatnonzero(number == n)
            pieces.append(self._load_global(g.subset(where, ()), address[where], widths, instruction))
            places.append(where)
        back = np.argsort(np.concatenate(places))
        sizes = [len(p) for p in places]
        return [join(self.arena, [piece[i] for piece in pieces], sizes, back, w) for i, w in enumerate(widths)]

    def _store_global(self, g: Group, address: "int | np.ndarray", values: list[Value], widths: tuple[int, ...], instruction: int) -> None:
        number = self._resolve(address)
        nbytes = sum(widths) // 8
        if isinstance(number, np.ndarray):
            from ptx_engine.isa.values import take

            for n in np.unique(number):
                where = np.flatnonzero(number == n)
                self._store_global(g.subset(where, ()), address[where], [take(v, where) for v in values], widths, instruction)  # type: ignore[index]
            return
        good = self._check_tensor(g, number, address, nbytes, instruction, "store")
        if good is not None:
            self._partial_store(g, "global", address, values, widths, instruction, good)
            return
        tensor = self.tensors[number]
        if tensor.buffer.arg.role is Role.IN:
            name = tensor.buffer.arg.name
            self.log.add("write to a read-only argument", f"{name} is an input of this launch and is written", g, np.arange(g.n), instruction,
                         role="store", space="global", tensor=name, width=nbytes)  # fmt: skip
            return
        self._put(g, number, address, values, widths, instruction)

    def _put(
        self, g: Group, number: int, address: "int | np.ndarray", values: list[Value], widths: tuple[int, ...], instruction: int
    ) -> None:
        """A checked store into one tensor."""
        tensor = self.tensors[number]
        if tensor.cells is not None:
            self._put_cells(g, tensor, address, values, widths, instruction)
            return
        columns = elements_of(tensor, values, widths)
        self._order_access(
            True, Space.GLOBAL, g, address, sum(widths) // 8, instruction, stored_values([(ids, False) for ids in columns], g.n)
        )
        index = element_index(tensor, address)
        for j, ids in enumerate(columns):
            tensor.store(index + j, ids)

    def _put_cells(
        self, g: Group, tensor: TensorMemory, address: "int | np.ndarray", values: list[Value], widths: tuple[int, ...], instruction: int
    ) -> None:
        """A checked store into a module variable."""
        assert tensor.cells is not None
        self.arena.assumptions.setdefault(f"what is stored to variable {tensor.buffer.arg.name} is no output")
        data = to_cells(self.arena, self.formats, values, widths)
        seen = stored_values([(ids, tag == self.formats.bits) for ids, tag in data], g.n)
        self._order_access(True, Space.GLOBAL, g, address, sum(widths) // 8, instruction, seen)
        tensor.cells.write(tensor.cells.index(0, _offset(tensor, address)), data)

    # --- collectives and asynchronous copies ---------------------------------------------------

    def load_rows(self, g: Group, address: np.ndarray, instruction: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows of 16 bytes of shared memory (ldmatrix): ids and tags, (lanes, 16 / granule) each."""
        good = self._check_window(g, "shared", address, 16, self.shared_bytes, instruction, "ldmatrix")
        count = 16 // self.formats.granule
        if good is not None:
            address = address.copy()
            bad = np.ones(g.n, bool)
            bad[good] = False
            address[bad] = 0
        self._order_access(False, Space.SHARED, g, address, 16, instruction, None)
        index = self.shared.index(g.slots, address)
        assert isinstance(index, np.ndarray)
        block = index[:, None] + np.arange(count)
        ids, tags = self.shared.ids[block], self.shared.tags[block]
        if good is not None:
            ids[bad], tags[bad] = 0, UNINITIALISED
        elif int(tags.min()) == UNINITIALISED:
            self._check_initialised(g, "shared", [(ids[:, j], tags[:, j]) for j in range(count)], address, 16, instruction)
        return ids, tags

    def assemble(self, columns: list[Column], what: str) -> Value:
        """Cells read as one register."""
        return assemble(self.arena, self.formats, columns, what)

    def async_copy(
        self, g: Group, shared: "int | np.ndarray", source: "int | np.ndarray", size: int, source_size: Value, instruction: int
    ) -> None:
        """cp.async: ``size`` bytes to shared memory, of which the first ``source_size`` come from global memory."""
        shared, source = _concrete(shared, "cp.async"), _concrete(source, "cp.async")
        if isinstance(source_size, Sym) or source_size is None:
            raise NotStructuredError("cp.async with a symbolic source size", feature="cp.async")
        if isinstance(source_size, np.ndarray):
            for left in np.unique(source_size):
                where = np.flatnonzero(source_size == left)
                part = [a if isinstance(a, int) else a[where] for a in (shared, source)]
                self._copy(g if len(where) == g.n else g.subset(where, ()), part[0], part[1], size, min(int(left), size), instruction)
            return
        self._copy(g, shared, source, size, min(int(source_size), size), instruction)

    def _copy(self, g: Group, shared: "int | np.ndarray", source: "int | np.ndarray", size: int, left: int, instruction: int) -> None:
        """All lanes copy ``left`` bytes and fill the rest with zeros."""
        if isinstance(shared, int):
            shared = np.full(g.n, shared, np.int64)
        good = self._check_window(g, "shared", shared, size, self.shared_bytes, instruction, "cp.async write")
        if good is not None:
            if good.size:
                self._copy(g.subset(good, ()), shared[good], source if isinstance(source, int) else source[good], size, left, instruction)
            return
        cells = self._copied_cells(g, source, size, left, instruction)
        start = perf_counter()
        reads = None if left else np.zeros(g.n, bool)
        self.order.async_copy(instruction, g.threads, shared, source, size, left, reads)
        self.order_seconds += perf_counter() - start
        self.shared.write(self.shared.index(g.slots, shared), cells)

    def _copied_cells(
        self, g: Group, source: "int | np.ndarray", size: int, left: int, instruction: int
    ) -> list[tuple["int | np.ndarray", int]]:
        """The cells that arrive."""
        formats = self.formats
        if left == 0:
            return [(0, formats.bits)] * (size // formats.granule)
        if isinstance(source, int):
            source = np.full(g.n, source, np.uint64)
        values = self._load_copy(g, source, left, instruction)
        widths = [left * 8 // len(values)] * len(values)
        cells = to_cells(self.arena, formats, values, widths)
        return cells + [(0, formats.bits)] * ((size - left) // formats.granule)

    def _load_copy(self, g: Group, source: np.ndarray, left: int, instruction: int) -> list[Value]:
        """The source elements as registers, without an order event (the copy is the event)."""
        width = 32 if left % 4 == 0 else 16 if left % 2 == 0 else 8
        number = self._resolve(source)
        if isinstance(number, int) and number >= 0:
            width = max(width, self.tensors[number].fmt.bits)
        widths = (width,) * (left * 8 // width)
        if isinstance(number, np.ndarray):
            return self._load_many(g, source, widths, instruction, number)
        good = self._check_copy(g, number, source, left, instruction)
        if good is None:
            return self._elements(g, number, source, widths, instruction)
        if not good.size:
            return self._undefined_elements(max(number, 0), widths)
        values = self._elements(g.subset(good, ()), number, source[good], widths, instruction)
        mask = np.zeros(g.n, bool)
        mask[good] = True
        return [choose(self.arena, mask, spread(v, good, g.n), None, width) for v in values]

    def _check_copy(self, g: Group, number: int, source: np.ndarray, left: int, instruction: int) -> np.ndarray | None:
        aligned = left if left & (left - 1) == 0 else 4
        return self._check_tensor(g, number, source, aligned, instruction, "cp.async read")


_UNDEF_FMT: dict[int, Fmt] = {}


def _fill_undef() -> None:
    from ptx_engine.isa.values import F16, F32, F64

    _UNDEF_FMT.update({16: F16, 32: F32, 64: F64})


_fill_undef()


def _concrete(address: "int | np.ndarray", what: str) -> "int | np.ndarray":
    """An address that is concrete, or the refusal."""
    if isinstance(address, (int, np.ndarray)):
        return address
    if address is None:
        raise uninitialised(f"address of a {what}")
    raise NotStructuredError(
        f"the address of a {what} depends on symbolic data", feature=f"symbolic address of a {what}",
        hint="give the integer argument it comes from concrete contents in the launch",
    )  # fmt: skip


def _offset(tensor: TensorMemory, address: "int | np.ndarray") -> "int | np.ndarray":
    """Byte offsets in a buffer."""
    return address - tensor.buffer.address if isinstance(address, int) else address - np.uint64(tensor.buffer.address)


def element_index(tensor: TensorMemory, address: "int | np.ndarray") -> "int | np.ndarray":
    """The storage index of each address."""
    shift = tensor.element_bytes.bit_length() - 1
    if isinstance(address, int):
        return (address - tensor.buffer.address) >> shift
    return ((address - np.uint64(tensor.buffer.address)) >> np.uint64(shift)).astype(np.int64)


def elements_of(tensor: TensorMemory, values: list[Value], widths: tuple[int, ...]) -> list[Ids]:
    """Registers cut into elements of a tensor, as term ids."""
    columns: list[Ids] = []
    size = tensor.fmt.bits
    for value, width in zip(values, widths):
        if value is None:
            raise uninitialised("source of a store")
        if width % size:
            raise NotStructuredError(
                f"a store of {width} bits writes part of an element of {tensor.buffer.arg.name}", feature="torn element"
            )
        if not isinstance(value, Sym):
            from ptx_engine.isa.values import const_part

            columns.extend(const_part(tensor.arena, piece, tensor.fmt) for piece in split_bits(value, [size] * (width // size)))
            continue
        columns.extend(_elements_of_symbolic(tensor, value, width))
    return columns


def _elements_of_symbolic(tensor: TensorMemory, value: Sym, width: int) -> list[Ids]:
    """The low ``width`` bits of a symbolic register as elements; parts that are elements already are taken as they are."""
    size = tensor.fmt.bits
    parts = value.parts
    if len(parts) * size != width or any(f.bits != size or f.kind == "piece" for f, _ in parts):
        if width > size or len(parts) != 1 or parts[0][0].kind == "piece":
            parts = _parts_of_width(tensor.arena, value, width, size)
    return [tensor.as_element(part, "a store") for part in parts]


def _parts_of_width(arena: Arena, value: Sym, width: int, size: int) -> tuple[Part, ...]:
    pieces = pieces_of(arena, value, [size] * (width // size) + [max(0, width_of(value, width) - width)])
    found: list[Part] = []
    for piece in (pieces or ())[: width // size]:
        if isinstance(piece, Sym):
            found.extend(piece.parts if len(piece.parts) == 1 else _as_one(arena, piece, size))
        else:
            assert piece is not None
            found.append((BITS[size], piece))
    if len(found) != width // size:
        held = "+".join(f.name for f, _ in value.parts)
        raise NotStructuredError(f"a store of {held} data writes part of an element", feature=f"torn {held}")
    return tuple(found)


def _as_one(arena: Arena, piece: Sym, size: int) -> tuple[Part, ...]:
    """Fields of one element as one integer."""
    number = integer_of(arena, piece, size, False)
    return () if number is None else ((int_fmt(size, number[1], number[2]), number[0]),)


def stored_values(cells: "list[tuple[int | np.ndarray, bool]]", n: int) -> np.ndarray:
    """What tells stored values apart: int64 (n,) or (n, k), term ids as they are, concrete bits above ``BITS_BASE``."""
    columns = [np.broadcast_to(np.asarray(ids).astype(np.int64) + (BITS_BASE if bits else 0), (n,)) for ids, bits in cells]
    return columns[0] if len(columns) == 1 else np.stack(columns, 1)


def spread(value: Value, where: np.ndarray, n: int) -> Value:
    """A subset's column laid out over n lanes (other lanes hold anything)."""
    if isinstance(value, np.ndarray):
        full = np.zeros(n, value.dtype)
        full[where] = value
        return full
    if isinstance(value, Sym):
        parts = []
        for fmt, ids in value.parts:
            if isinstance(ids, np.ndarray):
                full = np.zeros(n, ids.dtype)
                full[where] = ids
                parts.append((fmt, full))
            else:
                parts.append((fmt, ids))
        return Sym(tuple(parts))
    return value
