"""Shared and local memory of a batch of CTAs: cells of a fixed granule, each with a term id or bits and a tag.

A tag names the format of the element a cell belongs to and the cell's piece of it; tag 0 is uninitialised. The granule
(1, 2 or 4 bytes) is the smallest element the kernel moves, so that an f32 kernel pays for one cell a word.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptx_engine.errors import NotStructuredError
from ptx_engine.isa.fields import Slice, slice_part
from ptx_engine.isa.reinterpret import byte_parts, low_bits
from ptx_engine.isa.values import (
    BITS,
    PARTLY,
    UINT,
    UNWRITTEN,
    Fmt,
    Part,
    Sym,
    Value,
    const_part,
    covering,
    int_fmt,
    is_partial,
    piece_of,
    same_ids,
    split_bits,
    uninitialised,
)
from ptx_engine.terms import UNDEF, Arena
from ptx_engine.terms.storage import has_const

UNINITIALISED = 0
_PIECES = 8  # tags per format: no element has more pieces than 8 bytes / 1


class CellFormats:
    """The tag table: format <-> tag."""

    def __init__(self, granule: int) -> None:
        self.granule = granule
        self.fmts: list[Fmt] = []
        self._index: dict[Fmt, int] = {}
        self.bits = self.tag(BITS[8 * granule])

    def tag(self, fmt: Fmt) -> int:
        """The tag of an element's first piece."""
        found = self._index.get(fmt)
        if found is None:
            found = self._index[fmt] = len(self.fmts) + 1
            self.fmts.append(fmt)
            if found * _PIECES > 255:
                raise NotStructuredError("more than 30 data formats in one memory", feature="too many formats in shared memory")
        return found * _PIECES

    def fmt(self, tag: int) -> tuple[Fmt, int]:
        """Format and piece of a non-zero tag."""
        return self.fmts[tag // _PIECES - 1], tag % _PIECES

    def pieces(self, fmt: Fmt) -> int:
        """How many cells an element of a format takes. Raises if it is smaller than a cell."""
        size = fmt.bits // 8
        if size < self.granule:
            raise NotStructuredError(f"{fmt.name} data in memory of {self.granule}-byte cells", feature=f"{fmt.name} in memory")
        return size // self.granule


Column = tuple["int | np.ndarray", "int | np.ndarray"]  # ids or bits, tags


def to_cells(arena: Arena, formats: CellFormats, values: Sequence[Value], widths: Sequence[int]) -> list[tuple["int | np.ndarray", int]]:
    """Registers as columns of cells: (ids or bits, tag) each, low address first. ``widths`` in bits."""
    cells: list[tuple[int | np.ndarray, int]] = []
    g = formats.granule
    for value, width in zip(values, widths):
        if value is None:
            raise uninitialised("source of a store")
        if isinstance(value, Sym):
            if is_partial(value):
                raise uninitialised(PARTLY)
            for fmt, ids in stored_parts(arena, value, width, 8 * g):
                if fmt.kind == "bits":
                    cells.extend((piece, formats.bits) for piece in split_bits(ids, [8 * g] * (fmt.bits // 8 // g)))
                else:
                    held = cell_fmt(fmt)
                    first = formats.tag(held)
                    cells.extend((ids, first + i) for i in range(formats.pieces(held)))
        else:
            cells.extend((piece, formats.bits) for piece in split_bits(value, [8 * g] * (width // 8 // g)))
    return cells


def without_holes(values: Sequence[Value]) -> "tuple[list[Value], list[np.ndarray | None]]":
    """Registers with zeros in the lanes that never wrote them, and which lanes these are (None: none)."""
    filled: list[Value] = []
    holes: list[np.ndarray | None] = []
    for value in values:
        hole = None
        if isinstance(value, Sym) and is_partial(value):
            if len(value.parts) > 1:
                raise uninitialised(PARTLY)
            ((fmt, ids),) = value.parts
            column = np.asarray(ids)
            hole = column == UNWRITTEN
            value = np.where(hole, np.int64(0), column).astype(np.uint64).astype(UINT[fmt.bits])
        filled.append(value)
        holes.append(hole)
    return filled, holes


def stored_parts(arena: Arena, value: Sym, width: int, cell_bits: int) -> tuple[Part, ...]:
    """The low ``width`` bits of a register as parts of whole cells. Raises NotStructuredError where a float would be torn."""
    parts = value.parts
    if sum(f.bits for f, _ in parts) == width and all(f.bits % cell_bits == 0 and f.kind != "piece" for f, _ in parts):
        return parts
    low = low_bits(arena, value, width)
    if isinstance(low, Sym):
        found = byte_parts(arena, low, cell_bits)
        if found is not None:
            return found
    held = "+".join(f.name for f, _ in parts)
    raise NotStructuredError(f"{held} data is stored in cells of {cell_bits} bits", feature=f"{held} in memory")


def cell_fmt(fmt: Fmt) -> Fmt:
    """The format under which an integer is kept in memory: few ranges, since a memory knows few formats."""
    if fmt.kind != "int":
        return fmt
    low = -(1 << (-1 - fmt.lo).bit_length()) if fmt.lo < 0 else 0
    return int_fmt(fmt.bits, low, (1 << max(fmt.hi, 0).bit_length()) - 1)


class Cells:
    """One memory: ``slots`` windows of ``size`` bytes, cell index = (slot * stride + address / granule)."""

    def __init__(self, formats: CellFormats, slots: int, size_bytes: int) -> None:
        self.formats = formats
        self.stride = (size_bytes + formats.granule - 1) // formats.granule
        self.size_bytes = size_bytes
        self.ids = np.zeros(slots * self.stride, np.int32)
        self.tags = np.zeros(slots * self.stride, np.uint8)
        #: whether a cell that is no bits may hold an interned constant
        self.constants = False

    def index(self, slots: "int | np.ndarray", address: "int | np.ndarray") -> "int | np.ndarray":
        """The first cell of each access."""
        g = self.formats.granule
        shift = g.bit_length() - 1
        if isinstance(address, int):
            cell: "int | np.ndarray" = address >> shift
        else:
            cell = (address >> address.dtype.type(shift)).astype(np.int64)
        if isinstance(slots, int):
            return cell + slots * self.stride if slots else cell
        return cell + slots.astype(np.int64) * self.stride

    def write(self, index: "int | np.ndarray", cells: Sequence[tuple["int | np.ndarray", int]]) -> None:
        """Store columns of cells at consecutive indices from ``index``; of several lanes at one address the last one stays."""
        for j, (ids, tag) in enumerate(cells):
            where = index + j
            if not self.constants and tag != self.formats.bits:
                self.constants = has_const(ids)
            if isinstance(where, int) and isinstance(ids, np.ndarray):
                ids = ids[-1:]
                where = slice(where, where + 1)  # type: ignore[assignment]
            self.ids[where] = _as_int32(ids)
            self.tags[where] = tag

    def unwrite(self, index: "int | np.ndarray", count: int, hole: np.ndarray) -> None:
        """Mark ``count`` cells from ``index`` as uninitialised in some lanes: those stored a register that they never wrote."""
        for j in range(count):
            if isinstance(index, int):
                self.tags[index + j] = UNINITIALISED if hole[-1] else self.tags[index + j]
            else:
                self.tags[index[hole] + j] = UNINITIALISED

    def read(self, index: "int | np.ndarray", count: int) -> list[Column]:
        """``count`` consecutive cells of each access as columns."""
        if isinstance(index, int):
            return [(int(self.ids[index + j]), int(self.tags[index + j])) for j in range(count)]
        if count == 1:
            return [(self.ids[index], self.tags[index])]
        block = index[:, None] + np.arange(count)
        ids, tags = self.ids[block], self.tags[block]
        return [(ids[:, j], tags[:, j]) for j in range(count)]


def _as_int32(ids: "int | np.ndarray") -> "int | np.ndarray":
    if isinstance(ids, int):
        return ids - (1 << 32) if ids >> 31 & 1 and ids > 0 else ids
    if ids.dtype == np.uint32:
        return ids.view(np.int32)
    return ids


def assemble(arena: Arena, formats: CellFormats, columns: Sequence[Column], what: str) -> Value:
    """Cells read as one register. Raises NotStructuredError where an element is torn or formats do not fit together."""
    parts: list[Part] = []
    i = 0
    while i < len(columns):
        tag = uniform_tag(columns[i][1])
        if tag is None or tag == UNINITIALISED:
            part, used = _mixed(arena, formats, columns[i:], what)
        else:
            part, used = _uniform(arena, formats, columns[i:], tag, what)
        parts.append(part)
        i += used
    if all(f.kind == "bits" for f, _ in parts):
        return join_wide([bits for _, bits in parts], 8 * formats.granule)
    return Sym(tuple(parts))


def picked(arena: Arena, formats: CellFormats, ids: np.ndarray, tags: np.ndarray, picks: np.ndarray, what: str) -> list[Value]:
    """Cells ``picks`` (registers, cells of a register, lanes of a warp) of a table (warps, cells of a warp) read as registers."""
    columns = _picked_columns(ids, picks)
    tag = int(tags[0, 0])
    alike = tag != UNINITIALISED and bool((tags == tag).all())
    labels: Sequence[int] | np.ndarray = [tag] * len(columns) if alike else _picked_columns(tags, picks)
    cells = list(zip(columns, labels))
    count = picks.shape[1]
    return [assemble(arena, formats, cells[i : i + count], what) for i in range(0, len(cells), count)]


def _picked_columns(table: np.ndarray, picks: np.ndarray) -> np.ndarray:
    """One row per cell of a register, lane by lane."""
    taken = table.take(picks.reshape(-1), axis=1).reshape(len(table), -1, picks.shape[2])
    return np.ascontiguousarray(taken.swapaxes(0, 1)).reshape(taken.shape[1], -1)


def uniform_tag(tags: "int | np.ndarray") -> int | None:
    """The one tag of a column, None if lanes differ."""
    if isinstance(tags, int):
        return tags
    first = int(tags[0])
    return first if bool((tags == first).all()) else None


def _uniform(arena: Arena, formats: CellFormats, columns: Sequence[Column], tag: int, what: str) -> tuple[Part, int]:
    """The element, or the piece of one, that a column begins with, and how many columns it takes."""
    fmt, piece = formats.fmt(tag)
    ids = columns[0][0]
    if fmt.kind == "bits":
        return (fmt, _bits(ids, formats.granule)), 1
    count = formats.pieces(fmt)
    used = 1
    while piece + used < count and used < len(columns) and uniform_tag(columns[used][1]) == tag + used and same_ids(columns[used][0], ids):
        used += 1
    if used == count:
        return (fmt, ids), count
    cell = 8 * formats.granule
    parent, lo = piece_of(fmt) if fmt.kind == "piece" else (fmt, 0)
    part = slice_part(arena, Slice((parent, ids), lo + cell * piece, cell * used))
    if part is None:
        raise NotStructuredError(f"{what} reads part of a {fmt.name} element", feature=f"torn {fmt.name}")
    return part, used


def _bits(ids: "int | np.ndarray", granule: int) -> "int | np.ndarray":
    """Stored int32 back to unsigned bits of the granule."""
    if isinstance(ids, int):
        return ids & ((1 << 8 * granule) - 1)
    return ids.astype(UINT[8 * granule]) if granule < 4 else ids.view(np.uint32) if ids.flags.c_contiguous else ids.astype(np.uint32)


def _mixed(arena: Arena, formats: CellFormats, columns: Sequence[Column], what: str) -> tuple[Part, int]:
    """Lanes differ: concrete bits become constants of the format beside them, uninitialised lanes are undefined."""
    if isinstance(columns[0][1], int):  # one cell for all lanes, which nothing was stored to
        return (BITS[8 * formats.granule], 0), 1
    tags = columns[0][1]
    fmts = [formats.fmt(int(t)) for t in np.unique(tags) if t != UNINITIALISED]
    if any(piece for _, piece in fmts):
        raise NotStructuredError(f"{what} reads part of an element", feature="torn element")
    typed = [f for f, _ in fmts if f.kind != "bits"]
    if not typed:
        return (BITS[8 * formats.granule], _bits(np.where(tags == UNINITIALISED, np.int32(0), columns[0][0]), formats.granule)), 1
    fmt = typed[0]
    for other in typed[1:]:
        if other.kind == fmt.kind == "int" and other.bits == fmt.bits:
            fmt = int_fmt(fmt.bits, min(fmt.lo, other.lo), max(fmt.hi, other.hi))
        elif other is not fmt:
            raise NotStructuredError(f"{what} reads {fmt.name} and {other.name} in one column", feature="mixed formats in memory")
    count = formats.pieces(fmt)
    if len(columns) < count:
        raise NotStructuredError(f"{what} reads part of a {fmt.name} element", feature=f"torn {fmt.name}")
    ids = np.array(columns[0][0], np.int32)
    plain = tags == formats.bits
    if plain.any():
        pieces = [_bits(np.asarray(columns[j][0])[plain], formats.granule) for j in range(count)]
        if any(np.any(np.asarray(columns[j][1])[plain] != formats.bits) for j in range(count)):
            raise NotStructuredError(f"{what} reads part of an element", feature="torn element")
        bits = join_bits(pieces, 8 * formats.granule)
        fmt = covering(fmt, bits)
        ids[plain] = const_part(arena, bits, fmt)
    ids[tags == UNINITIALISED] = UNDEF
    return (fmt, ids), count


def join_wide(pieces: Sequence["int | np.ndarray"], width: int) -> Value:
    """Concrete fields as one register; a register of 128 bits is two parts of 64."""
    per = 64 // width
    if len(pieces) <= per:
        return join_bits(pieces, width)
    return Sym(tuple((BITS[64], join_bits(pieces[i : i + per], width)) for i in range(0, len(pieces), per)))


def join_bits(pieces: Sequence["int | np.ndarray"], width: int) -> "int | np.ndarray":
    """Concrete fields of ``width`` bits, low first, as one number."""
    if len(pieces) == 1:
        return pieces[0]
    total = width * len(pieces)
    if all(isinstance(p, int) for p in pieces):
        return sum(int(p) << i * width for i, p in enumerate(pieces))
    wide = UINT[total]
    result: "int | np.ndarray" = 0
    for i, p in enumerate(pieces):
        term = wide.type(p) if isinstance(p, int) else p.astype(wide)
        result = result | (term << wide.type(i * width))
    return result
