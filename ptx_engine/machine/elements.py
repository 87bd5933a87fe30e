"""Registers as elements of a tensor and back to lanes: indices, cuts into elements, what tells stored values apart."""

from __future__ import annotations

import numpy as np

from ptx_engine.errors import NotStructuredError
from ptx_engine.isa.fields import cut, fields_of, to_value
from ptx_engine.isa.reinterpret import integer_of, pieces_of, width_of
from ptx_engine.isa.values import (
    BITS,
    PARTLY,
    UINT,
    Fmt,
    Part,
    Sym,
    Value,
    as_parts,
    const_part,
    int_fmt,
    is_partial,
    split_bits,
    uninitialised,
)
from ptx_engine.machine.same_value import BITS_BASE
from ptx_engine.machine.tensors import TensorMemory
from ptx_engine.terms import Arena, Ids


def byte_offset(tensor: TensorMemory, address: "int | np.ndarray") -> "int | np.ndarray":
    """Byte offsets in a buffer."""
    return address - tensor.buffer.address if isinstance(address, int) else address - np.uint64(tensor.buffer.address)


def element_index(tensor: TensorMemory, address: "int | np.ndarray") -> "int | np.ndarray":
    """The storage index of each address."""
    shift = tensor.element_bytes.bit_length() - 1
    if isinstance(address, int):
        return (address - tensor.buffer.address) >> shift
    return ((address - np.uint64(tensor.buffer.address)) >> np.uint64(shift)).astype(np.int64)


def piece_of_element(arena: Arena, whole: Value, bits: int, low: int, width: int) -> Value | None:
    """Bits [low, low + width) of an element of ``bits`` bits, as a register; None where they are not in it or have no meaning."""
    if low + width > bits or whole is None:
        return None
    if isinstance(whole, Sym):
        return to_value(arena, cut(fields_of(whole, bits), low, width))
    if isinstance(whole, int):
        return whole >> low & (1 << width) - 1
    found: np.ndarray = (whole >> whole.dtype.type(low)).astype(UINT[width])
    return found


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
            columns.extend(const_part(tensor.arena, piece, tensor.fmt) for piece in split_bits(value, [size] * (width // size)))
            continue
        if is_partial(value):
            raise uninitialised(PARTLY)
        columns.extend(_elements_of_symbolic(tensor, value, width))
    return columns


def _elements_of_symbolic(tensor: TensorMemory, value: Sym, width: int) -> list[Ids]:
    """The low ``width`` bits of a symbolic register as elements; parts that are elements already are taken as they are."""
    size = tensor.fmt.bits
    parts = value.parts
    if len(parts) * size != width or any(f.bits != size or f.kind == "piece" for f, _ in parts):
        if width > size or len(parts) != 1 or parts[0][0].kind == "piece":
            parts = _parts_of_width(tensor.arena, value, width, tensor.fmt)
    return [tensor.as_element(part, "a store") for part in parts]


def _parts_of_width(arena: Arena, value: Sym, width: int, fmt: Fmt) -> tuple[Part, ...]:
    size = fmt.bits
    pieces = pieces_of(arena, value, [size] * (width // size) + [max(0, width_of(value, width) - width)])
    found: list[Part] = []
    for piece in (pieces or ())[: width // size]:
        if isinstance(piece, Sym):
            found.extend(piece.parts if len(piece.parts) == 1 else _as_one(arena, piece, fmt))
        else:
            assert piece is not None
            found.append((BITS[size], piece))
    if len(found) != width // size:
        held = "+".join(f.name for f, _ in value.parts)
        raise NotStructuredError(f"a store of {held} data writes part of an element", feature=f"torn {held}")
    return tuple(found)


def _as_one(arena: Arena, piece: Sym, fmt: Fmt) -> tuple[Part, ...]:
    """Fields of one element as one float (bf16 above a zero half is an f32) or integer."""
    floats = as_parts(arena, piece, (fmt,)) if fmt.kind == "float" else None
    if floats is not None:
        return ((fmt, floats[0]),)
    number = integer_of(arena, piece, fmt.bits, False)
    return () if number is None else ((int_fmt(fmt.bits, number[1], number[2]), number[0]),)


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
        parts: list[Part] = []
        for fmt, ids in value.parts:
            if isinstance(ids, np.ndarray):
                full = np.zeros(n, ids.dtype)
                full[where] = ids
                parts.append((fmt, full))
            else:
                parts.append((fmt, ids))
        return Sym(tuple(parts))
    return value
