"""Loads and stores of a group in every state space: bounds, alignment, order, and the data itself.

A faulting lane is a finding; it stores nothing and loads an undefined value, and the run goes on, so that one run
reports all faults.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from ptx_engine.errors import NotStructuredError, UnsupportedError
from ptx_engine.isa.atomic import AtomicOp
from ptx_engine.isa.decode import Strength, concrete_address
from ptx_engine.isa.group import Group
from ptx_engine.isa.move import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from ptx_engine.isa.values import BITS, F16, F32, F64, Fmt, Sym, Value, choose, join, split_bits, take
from ptx_engine.launch import Role
from ptx_engine.machine import atomics
from ptx_engine.machine.cells import UNINITIALISED, Column, assemble, join_bits, picked, to_cells, without_holes
from ptx_engine.machine.elements import byte_offset, element_index, elements_of, piece_of_element, spread, stored_values
from ptx_engine.machine.memory_checks import MemoryChecks
from ptx_engine.machine.tensors import TensorMemory
from ptx_engine.order.records import Space
from ptx_engine.terms import UNDEF

#: register width -> the format of an undefined value in it
_UNDEF_FMT: dict[int, Fmt] = {16: F16, 32: F32, 64: F64}


class Memory(MemoryChecks):
    """All memory of a launch."""

    # --- entry points of the specs -----------------------------------------------------------

    def load(self, g: Group, space: str, address: "int | np.ndarray", widths: tuple[int, ...], instruction: int) -> list[Value]:
        """Registers of the given widths (bits) from one access per lane."""
        if address.__class__ is int and space == "global" and len(widths) == 1:
            value = self._input_element(address, widths[0])
            if value is not None:
                return [value]
        if space == "param":
            return self._load_params(address, widths)
        address = concrete_address(address, "load")
        if space == "" or space == "const":
            space, address = self._generic(address)
        if space == "param":
            return self._load_params(address, widths)
        if space == "global":
            return self._load_global(g, address, widths, instruction)
        return self._load_cells(g, space, address, widths, instruction)

    def load_noncoherent(self, g: Group, space: str, address: "int | np.ndarray", widths: tuple[int, ...], instruction: int) -> list[Value]:
        """A load by way of a cache that no store reaches, and that no synchronisation is about: a finding where the launch has stored."""
        address = concrete_address(address, "load")
        self._check_stale(g, address, sum(widths) // 8, instruction)
        return self.load(g, space, address, widths, instruction)

    def store(
        self, g: Group, space: str, address: "int | np.ndarray", values: list[Value], widths: tuple[int, ...], instruction: int
    ) -> None:
        """One access per lane of registers side by side."""
        address = concrete_address(address, "store")
        self.writes += 1
        if space == "":
            space, address = self._generic(address, writes=True)
        if self.kept is not None:
            self.kept(g, space, address, values, widths, instruction)
        elif space == "global":
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
        address = concrete_address(address, "atomic")
        if space == "":
            space, address = self._generic(address, writes=True)
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

    def _generic(self, address: "int | np.ndarray", writes: bool = False) -> tuple[str, "int | np.ndarray"]:
        """State space and in-space address of generic addresses, which must agree on the space."""
        low = address if isinstance(address, int) else int(address.min())
        high = address if isinstance(address, int) else int(address.max())
        for space, window in (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW), ("param", PARAM_WINDOW)):
            if window <= low and high < window + WINDOW_BYTES:
                if writes and space == "param":
                    raise UnsupportedError("a kernel parameter is written through a generic address", feature="generic store to .param")
                return space, address - window
        if high >= PARAM_WINDOW:
            raise UnsupportedError("a generic access whose lanes go to different state spaces", feature="mixed generic access")
        return "global", address

    def generic(self, address: "int | np.ndarray") -> tuple[str, "int | np.ndarray"]:
        """State space and in-space address of the generic address of an mbarrier."""
        return self._generic(concrete_address(address, "mbarrier operation"))

    def _load_params(self, address: "int | np.ndarray", widths: tuple[int, ...]) -> list[Value]:
        if not isinstance(address, int):
            raise NotStructuredError("a parameter is indexed by a thread-dependent address", feature="ld.param indexed")
        result: list[Value] = []
        for width in widths:
            have, value = self._parameter(address, width)
            if have > width:
                if isinstance(value, Sym) or value is None:
                    raise NotStructuredError("part of a symbolic parameter is read", feature="partial ld.param")
                value = split_bits(value, [width])[0]
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

    def _load_cells(self, g: Group, space: str, address: "int | np.ndarray", widths: tuple[int, ...], instruction: int) -> list[Value]:
        nbytes = sum(widths) // 8
        cells, slots, size = self._window(g, space)
        good = self._check_window(g, space, address, nbytes, size, instruction, "load")
        if good is not None:
            return self._partial_load(g, space, address, widths, instruction, good)
        if space == "shared":
            if self.objects is not None:
                self.objects.accessed(g, address, nbytes, instruction, "load")
            self._order_access(False, Space.SHARED, g, address, nbytes, instruction, None)
        columns = cells.read(cells.index(slots, address), nbytes // self.formats.granule)
        if len(columns) == 1:
            plain = self._whole_cell(*columns[0])
            if plain is not None:
                return [plain]
        self._check_initialised(g, space, columns, address, nbytes, instruction)
        return self._registers(columns, widths)

    def _whole_cell(self, ids: "int | np.ndarray", tags: "int | np.ndarray") -> Value:
        """A column of elements of one cell and one format, which is what most loads find; None for anything else."""
        if not isinstance(tags, np.ndarray):
            return None
        tag = int(tags[0])
        if tag == UNINITIALISED or not bool((tags == tag).all()):
            return None
        fmt, piece = self.formats.fmt(tag)
        return Sym(((fmt, ids),)) if piece == 0 and fmt.kind != "bits" and fmt.bits == 8 * self.formats.granule else None

    def _registers(self, columns: list[Column], widths: tuple[int, ...]) -> list[Value]:
        values: list[Value] = []
        i = 0
        for width in widths:
            count = width // 8 // self.formats.granule
            values.append(assemble(self.arena, self.formats, columns[i : i + count], "a load"))
            i += count
        return values

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
        holes: list[np.ndarray | None] = []
        if any(value.__class__ is Sym for value in values):
            values, holes = without_holes(values)
        data = to_cells(self.arena, self.formats, values, widths)
        if space == "shared":
            if self.objects is not None:
                self.objects.accessed(g, address, nbytes, instruction, "store")
            seen = self._seen(g, data, widths)
            self._order_access(True, Space.SHARED, g, address, nbytes, instruction, seen)
        index = cells.index(slots, address)
        cells.write(index, data)
        for i, hole in enumerate(holes):
            if hole is not None:
                cells.unwrite(index + sum(widths[:i]) // 8 // self.formats.granule, widths[i] // 8 // self.formats.granule, hole)

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
            part = address if isinstance(address, int) else address[good]
            self.store(g.subset(good, ()), space, part, [take(v, good) for v in values], widths, instruction)

    # --- global ------------------------------------------------------------------------------

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
                tensor.cells.read(tensor.cells.index(0, byte_offset(tensor, address)), sum(widths) // 8 // self.formats.granule), widths
            )
        index = element_index(tensor, address)
        per = [w // tensor.fmt.bits for w in widths]
        if any(w % tensor.fmt.bits for w in widths):
            return self._pieces(g, number, address, widths, instruction)
        last = sum(per)
        values: list[Value] = []
        k = 0
        for count, width in zip(per, widths):
            bits = [tensor.concrete_bits(index + k + j) for j in range(count)] if tensor.contents is not None else [None]
            if all(b is not None for b in bits):
                values.append(join_bits(bits, tensor.fmt.bits))  # type: ignore[arg-type]
            else:
                values.append(tensor.element_value([tensor.load(index + k + j) for j in range(count)], width))
            k += count
        if tensor.buffer.input is None and any(tensor.undefined(index + j) for j in range(last)):
            self._report_unwritten(g, tensor, index, last, instruction)
        return values

    def _pieces(self, g: Group, number: int, address: "int | np.ndarray", widths: tuple[int, ...], instruction: int) -> list[Value]:
        """Loads of less than an element, as compilers narrow ``(q[i] >> 4) & 15``: bits of the element. Raises NotStructuredError."""
        tensor = self.tensors[number]
        inside = byte_offset(tensor, address) % (tensor.element_bytes if isinstance(address, int) else np.uint64(tensor.element_bytes))
        if isinstance(inside, np.ndarray):
            if (inside != inside[0]).any():
                return self._apart(g, address, widths, instruction, inside)  # type: ignore[arg-type]
            inside = int(inside[0])
        index, bits, at = element_index(tensor, address), tensor.fmt.bits, 8 * int(inside)
        values: list[Value] = []
        for width in widths:
            k, low = divmod(at, bits)
            known = tensor.concrete_bits(index + k) if tensor.contents is not None else None
            whole = tensor.element_value([tensor.load(index + k)], bits) if known is None else known
            values.append(piece_of_element(self.arena, whole, bits, low, width))
            if values[-1] is None:
                raise NotStructuredError(
                    f"a load of {width} bits reads part of an element of {tensor.buffer.arg.name} ({tensor.fmt.name})",
                    feature="torn element",
                )
            if tensor.buffer.input is None and tensor.undefined(index + k):
                self._report_unwritten(g, tensor, index + k, 1, instruction)
            at += width
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
        return self._apart(g, address, widths, instruction, number)

    def _apart(self, g: Group, address: np.ndarray, widths: tuple[int, ...], instruction: int, kinds: np.ndarray) -> list[Value]:
        """One load for the lanes of each kind, joined."""
        pieces: list[list[Value]] = []
        places: list[np.ndarray] = []
        for n in np.unique(kinds):
            where = np.flatnonzero(kinds == n)
            pieces.append(self._load_global(g.subset(where, ()), address[where], widths, instruction))
            places.append(where)
        back = np.argsort(np.concatenate(places))
        sizes = [len(p) for p in places]
        return [join(self.arena, [piece[i] for piece in pieces], sizes, back, w) for i, w in enumerate(widths)]

    def _store_global(self, g: Group, address: "int | np.ndarray", values: list[Value], widths: tuple[int, ...], instruction: int) -> None:
        number = self._resolve(address)
        nbytes = sum(widths) // 8
        if isinstance(number, np.ndarray):
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
            arg = tensor.buffer.arg
            offset = int(np.asarray(address).reshape(-1)[0]) - tensor.buffer.address
            self.log.add(
                "write to a read-only argument", f"{arg.name} is an input of this launch and is written", g, np.arange(g.n), instruction,
                role="store", space="global", tensor=arg.name, index=arg.index_of(offset // arg.element_bytes), offset=offset, width=nbytes,
            )  # fmt: skip
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
        told = self.told(g)
        shown = columns if told is None else elements_of(tensor, told, widths)
        seen = stored_values([(ids, False) for ids in shown], g.n)
        self._order_access(True, Space.GLOBAL, g, address, sum(widths) // 8, instruction, seen)
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
        seen = self._seen(g, data, widths)
        self._order_access(True, Space.GLOBAL, g, address, sum(widths) // 8, instruction, seen)
        tensor.cells.write(tensor.cells.index(0, byte_offset(tensor, address)), data)

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
        if self.objects is not None:
            self.objects.accessed(g, address, 16, instruction, "ldmatrix")
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

    def registers(self, ids: np.ndarray, tags: np.ndarray, picks: np.ndarray, what: str) -> list[Value]:
        """Cells (warps, cells of a warp) read as registers: ``picks`` (registers, cells of a register, lanes of a warp) says which."""
        return picked(self.arena, self.formats, ids, tags, picks, what)

    def async_copy(
        self, g: Group, shared: "int | np.ndarray", source: "int | np.ndarray", size: int, source_size: Value, instruction: int
    ) -> None:
        """cp.async: ``size`` bytes to shared memory, of which the first ``source_size`` come from global memory."""
        shared, source = concrete_address(shared, "cp.async"), concrete_address(source, "cp.async")
        if isinstance(source_size, Sym) or source_size is None:
            raise NotStructuredError("cp.async with a symbolic source size", feature="cp.async")
        most = int(source_size.max(initial=0)) if isinstance(source_size, np.ndarray) else source_size
        if most > size:
            raise NotStructuredError(f"cp.async of {size} bytes takes {most} from its source: undefined", feature="cp.async source size")
        if isinstance(source_size, np.ndarray):
            for left in np.unique(source_size):
                where = np.flatnonzero(source_size == left)
                part = [a if isinstance(a, int) else a[where] for a in (shared, source)]
                self._copy(g if len(where) == g.n else g.subset(where, ()), part[0], part[1], size, int(left), instruction)
            return
        self._copy(g, shared, source, size, source_size, instruction)

    def _copy(self, g: Group, shared: "int | np.ndarray", source: "int | np.ndarray", size: int, left: int, instruction: int) -> None:
        """All lanes copy ``left`` bytes and fill the rest with zeros."""
        if isinstance(shared, int):
            shared = np.full(g.n, shared, np.int64)
        good = self._check_window(g, "shared", shared, size, self.shared_bytes, instruction, "cp.async write")
        if good is not None:
            if good.size:
                self._copy(g.subset(good, ()), shared[good], source if isinstance(source, int) else source[good], size, left, instruction)
            return
        if self.objects is not None:
            self.objects.accessed(g, shared, size, instruction, "cp.async write")
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
        values, _ = without_holes(self._load_copy(g, source, left, instruction))  # (lanes that fault copy zeros: a finding)
        widths = [left * 8 // len(values)] * len(values)
        cells = to_cells(self.arena, formats, values, widths)
        return cells + [(0, formats.bits)] * ((size - left) // formats.granule)

    def _load_copy(self, g: Group, source: np.ndarray, left: int, instruction: int) -> list[Value]:
        """The source elements as registers, without an order event (the copy is the event)."""
        width = 32 if left % 4 == 0 else 16 if left % 2 == 0 else 8
        number = self._resolve(source)
        if isinstance(number, int) and number >= 0:
            element = self.tensors[number].fmt.bits
            width = max(width, element) if element <= left * 8 else width  # (part of an element is refused where it is read)
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
