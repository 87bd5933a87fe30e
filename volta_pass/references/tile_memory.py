"""Memory of a tile program: global buffers as ``ttir_memory`` keeps them, and what each program allocates for itself.

An index out of bounds of a global buffer reads zero and stores nothing, as TileLang promises; out of bounds of any other
buffer it is a finding. Elements that nothing wrote are undefined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptx_engine.errors import LaunchError, NotStructuredError, UnsupportedError
from ptx_engine.launch import BoundLaunch, Buffer
from ptx_engine.terms.arena import UNDEF, ZERO
from volta_pass.references.finding_log import FindingLog
from volta_pass.references.memory_format import to_memory
from volta_pass.references.tile_logic import choose
from volta_pass.references.tile_program import BufferDecl, TileProgram
from volta_pass.references.tile_scope import Scope
from volta_pass.references.tile_types import kind_of
from volta_pass.references.ttir_memory import Memory, Part
from volta_pass.references.ttir_types import TtirType
from volta_pass.references.ttir_values import Sym, Value, bounds, int_ids, map_rows, rows, unify, wrapped

#: scopes whose elements start as zero
_ZEROED = ("local.var",)


@dataclass
class Cells:
    """One allocation: ids of shape (programs, elements); of integers, bounds and the float format whose bits they are."""

    ids: np.ndarray
    dtype: str
    lo: int | None = 0
    hi: int | None = 0
    bits: str = ""
    written: bool = False


class TileMemory(Memory):
    """Global buffers of the launch, and the allocations of one batch of programs at a time."""

    def __init__(
        self,
        program: TileProgram,
        bound: BoundLaunch,
        log: FindingLog,
        shapes: Sequence[tuple[int, ...]],
        strides: Sequence[tuple[int, ...]],
    ) -> None:
        super().__init__(bound, log)
        self.program = program
        self.shapes = shapes
        self.strides = strides
        self.cells: dict[int, Cells] = {}
        self._programs = 0

    def begin(self, programs: int) -> None:
        """Start a batch: nothing is allocated."""
        self.cells = {}
        self._programs = programs

    def allocate(self, scope: Scope, number: int) -> None:
        """A buffer's elements lose their contents in the active programs."""
        decl = self.program.buffers[number]
        cells = self.cells.get(decl.storage)
        if cells is None:
            self._fresh(number)
        else:
            cells.ids[scope.positions()] = ZERO if decl.scope in _ZEROED else UNDEF

    def _fresh(self, number: int) -> Cells:
        decl = self.program.buffers[number]
        size = 1 + sum((n - 1) * s for n, s in zip(self.shapes[number], self.strides[number]))
        start = ZERO if decl.scope in _ZEROED else UNDEF
        cells = self.cells[decl.storage] = Cells(np.full((self._programs, size), start, np.int32), decl.dtype)
        return cells

    def _cells(self, number: int) -> Cells:
        decl = self.program.buffers[number]
        cells = self.cells.get(decl.storage)
        if cells is None:
            cells = self._fresh(number)
        if cells.dtype != decl.dtype:
            raise UnsupportedError(f"{decl.name} views elements of {cells.dtype} as {decl.dtype}", feature="T.view")
        return cells

    def buffer_of(self, decl: BufferDecl) -> Buffer:
        """The launch's buffer behind a global one. Raises LaunchError, or UnsupportedError on another element width."""
        buffer = self.bound.by_name.get(decl.param)
        if buffer is None:
            raise LaunchError(f"no tensor argument is named {decl.param}")
        if buffer.arg.element_bytes != kind_of(decl.dtype, 0).element_bytes:
            raise UnsupportedError(f"{decl.name} reads elements of {buffer.arg.dtype} as {decl.dtype}", feature="T.view")
        return buffer

    # --- where an index points ------------------------------------------------------------------

    def linear(self, number: int, index: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray | None]:
        """Storage indices, and which of them are in bounds (None: all); those that are not become 0."""
        shape, decl = self.shapes[number], self.program.buffers[number]
        flat: np.ndarray | None = None
        inside: np.ndarray | None = None
        for part, extent, stride in zip(index, shape, self.strides[number]):
            part = part.astype(np.int64)
            if part.size and part.max() < 0:
                if part.size > 1:
                    raise UnsupportedError(f"an index of {decl.name} that is negative throughout", feature="negative index")
                part = part + extent
            if part.size and (part.min() < 0 or part.max() >= extent):
                good = (part >= 0) & (part < extent)
                inside = good if inside is None else inside & good
            step = part * stride
            flat = step if flat is None else flat + step
        if flat is None:
            return np.zeros((1,), np.int64), None
        if inside is not None:
            flat = np.where(inside, flat, 0)
            inside = np.broadcast_to(inside, flat.shape)
        return flat, inside

    # --- loads ----------------------------------------------------------------------------------

    def load_elements(self, scope: Scope, number: int, index: Sequence[np.ndarray]) -> Value:
        """The values at indices that broadcast to the scope's shape."""
        decl = self.program.buffers[number]
        flat, inside = self.linear(number, index)
        value = self._load_global(scope, decl, flat, inside) if decl.param else self._load_cells(scope, number, flat)
        self._note(scope, number, flat, inside, write=False)
        if inside is None:
            return value
        kind = kind_of(decl.dtype, scope.rank)
        if decl.param:
            zero: Value = Sym(np.full((1,) * flat.ndim, ZERO, np.int32)) if kind.is_float else np.zeros((1,) * flat.ndim, kind.dtype)
            return choose(scope, inside, value, zero, kind)
        self._beyond(scope, decl, inside, "load")
        (ids, undefined), remake = unify([value, Sym(np.full((1,) * flat.ndim, UNDEF, np.int32))], kind, self.arena)
        return remake(np.where(inside, ids, undefined))

    def _load_global(self, scope: Scope, decl: BufferDecl, flat: np.ndarray, inside: np.ndarray | None) -> Value:
        buffer, kind = self.buffer_of(decl), kind_of(decl.dtype, scope.rank)
        if buffer.number not in self.overlays:
            value = self._read(Part(buffer, None, flat.reshape(-1)), kind, int(scope.numbers[0]))
            return map_rows(value, lambda array: array.reshape(flat.shape))
        return self._load_written(scope, buffer, kind, flat, inside)

    def _load_written(self, scope: Scope, buffer: Buffer, kind: TtirType, flat: np.ndarray, inside: np.ndarray | None) -> Value:
        """A buffer that has been stored to: only the lanes that really read may meet what another program wrote."""
        masks = [m for m in (inside, scope.mask) if m is not None]
        shape = np.broadcast_shapes(flat.shape, (scope.programs, *(1,) * scope.rank), *(m.shape for m in masks))
        kept = slice(None) if not masks else np.flatnonzero(np.broadcast_to(np.logical_and.reduce(np.broadcast_arrays(*masks)), shape))
        index = np.broadcast_to(flat, shape).reshape(-1)[kept]
        numbers = np.broadcast_to(scope.numbers.reshape(-1, *(1,) * scope.rank), shape).reshape(-1)[kept]
        loaded = self._read(Part(buffer, None, index), kind, numbers)
        nothing = Sym(np.full(int(np.prod(shape)), UNDEF, np.int32))
        (ids, whole), remake = unify([loaded, nothing], kind, self.arena)
        whole[kept] = ids
        return remake(whole.reshape(shape))

    def _load_cells(self, scope: Scope, number: int, flat: np.ndarray) -> Value:
        cells = self._cells(number)
        programs, shape = scope.programs, (scope.programs, *flat.shape[1:])
        if flat.shape[0] == 1:
            chosen = cells.ids if scope.rows is None else cells.ids[scope.rows]
            ids = chosen[:, flat.reshape(-1)].reshape(shape)
        else:
            ids = cells.ids[scope.positions()[:, None], flat.reshape(programs, -1)].reshape(shape)
        return Sym(ids) if kind_of(cells.dtype, 0).is_float else Sym(ids, cells.lo, cells.hi, cells.bits)

    # --- stores ---------------------------------------------------------------------------------

    def store_elements(self, scope: Scope, number: int, index: Sequence[np.ndarray], value: Value) -> None:
        """Write values of the buffer's type where the scope's mask and guard hold."""
        decl = self.program.buffers[number]
        flat, inside = self.linear(number, index)
        mask = scope.mask
        if inside is not None:
            mask = inside if mask is None else mask & inside
            if not decl.param:
                self._beyond(scope, decl, inside, "store")
        if scope.guard is not None:
            value = self._guarded(scope, number, flat, value)
        shape = np.broadcast_shapes(
            flat.shape, rows(value).shape, (scope.programs, *(1,) * scope.rank), mask.shape if mask is not None else ()
        )
        kept = None if mask is None or mask.all() else np.flatnonzero(np.broadcast_to(mask, shape))
        where, who = _lanes(flat, shape, kept), _lanes(scope.positions().reshape(-1, *(1,) * scope.rank), shape, kept)
        chosen = map_rows(value, lambda array: _lanes(array, shape, kept))
        self._note(scope, number, flat, inside, write=True)
        if decl.param:
            self._store_global(scope, decl, where, who, chosen)
        else:
            self._store_cells(scope, number, where, who, chosen)

    def _guarded(self, scope: Scope, number: int, flat: np.ndarray, value: Value) -> Value:
        decl = self.program.buffers[number]
        if decl.param:
            raise NotStructuredError(f"a store to {decl.name} depends on symbolic data", feature="a mask")
        assert scope.guard is not None
        return choose(scope, scope.guard, value, self._load_cells(scope, number, flat), kind_of(decl.dtype, scope.rank))

    def _store_global(self, scope: Scope, decl: BufferDecl, where: np.ndarray, who: np.ndarray, value: Value) -> None:
        buffer = self.buffer_of(decl)
        part = Part(buffer, None, where)
        if not where.size:
            return
        numbers = self._numbers_of(scope, who)
        self._check_role(part, numbers, "store")
        self._write(part, np.asarray(to_memory(value, kind_of(decl.dtype, 0), buffer.arg, self.arena)), numbers)

    @staticmethod
    def _numbers_of(scope: Scope, positions: np.ndarray) -> np.ndarray:
        """Program numbers of positions in the batch."""
        own = scope.positions()
        table = np.zeros(int(own.max()) + 1, np.int32)
        table[own] = scope.numbers
        return np.asarray(table[positions])

    def _store_cells(self, scope: Scope, number: int, where: np.ndarray, who: np.ndarray, value: Value) -> None:
        cells, name = self._cells(number), self.program.buffers[number].name
        if not where.size:
            return
        ids = self._cell_ids(cells, value)
        cells.ids[who, where] = ids
        if scope.rank and (cells.ids[who, where] != ids).any():
            raise UnsupportedError(
                f"iterations of a parallel loop write different values to one element of {name}", feature="parallel loop",
                hint="use a reduction or an atomic update",
            )  # fmt: skip
        cells.written = True

    def _cell_ids(self, cells: Cells, value: Value) -> np.ndarray:
        """Ids to keep, with the allocation's bounds widened to hold them."""
        kind = kind_of(cells.dtype, 0)
        if kind.is_float:
            return rows(value)
        bits = value.bits if isinstance(value, Sym) else ""
        if bits and (not cells.written or cells.bits == bits):
            cells.bits, cells.lo, cells.hi = bits, None, None
            return rows(value)
        if bits:
            assert isinstance(value, Sym)
            value = wrapped(value, kind.width, True, self.arena)
        if cells.bits:
            raise UnsupportedError("integers where the bits of floats were", feature="bits")
        low, high = bounds(value)
        cells.lo = None if low is None or cells.lo is None else min(low, cells.lo)
        cells.hi = None if high is None or cells.hi is None else max(high, cells.hi)
        return int_ids(value, self.arena)

    # --- what goes wrong ------------------------------------------------------------------------

    def _beyond(self, scope: Scope, decl: BufferDecl, inside: np.ndarray, role: str) -> None:
        bad = ~inside if scope.mask is None else ~inside & scope.mask
        if bad.any():
            text = f"{role} of {decl.name} out of its bounds {tuple(self.shapes[self.program.buffers.index(decl)])}"
            self.log.add("out of bounds", text, role, self.arena.origin, int(scope.numbers[0]), count=int(bad.sum()))

    def _note(self, scope: Scope, number: int, flat: np.ndarray, inside: np.ndarray | None, write: bool) -> None:
        """Tell the parallel nests that watch this buffer which lane touches which element."""
        decl = self.program.buffers[number]
        for nest in scope.nests:
            if decl.storage not in nest.watched:
                continue
            lane = nest.lane_numbers(scope.lanes)
            size = self.buffer_of(decl).arg.storage if decl.param else self._cells(number).ids.shape[1]
            positions = scope.positions().reshape(-1, *(1,) * scope.rank)
            parts = [lane, flat] if decl.param else [lane, positions, flat]
            parts += [m for m in (scope.mask, inside) if m is not None]
            full = np.broadcast_arrays(*parts)
            count = 2 if decl.param else 3
            kept = np.flatnonzero(np.logical_and.reduce(full[count:])) if len(full) > count else slice(None)
            columns = [array.reshape(-1)[kept] for array in full[:count]]
            nest.note(decl.storage, size, tuple(columns[1:]), columns[0], write, decl.name)


def _lanes(array: np.ndarray, shape: tuple[int, ...], kept: np.ndarray | None) -> np.ndarray:
    flat = np.broadcast_to(array, shape).reshape(-1)
    return flat if kept is None else flat[kept]
