"""Between registers and memory: what an element of a tensor's dtype means as a value of a TTIR type, and back.

A float datum read through an integer pointer keeps its term and is marked as that format's bits, so that a round trip is
the identity; any other reinterpretation is opaque.
"""

from __future__ import annotations

import numpy as np

from ptx_engine.launch import DTYPES, TensorArg
from ptx_engine.terms.arena import Arena
from volta_pass.references.ttir_types import TtirType
from volta_pass.references.ttir_values import Sym, Value, emitted, id_operand, type_range, wrapped


def same_format(first: str, second: str) -> bool:
    """Whether two float formats hold the same data (tf32 is f32 in memory)."""
    return first == second or {first, second} == {"f32", "tf32"}


def dtype_range(dtype: str) -> tuple[int, int]:
    """Least and greatest number of an integer dtype of a launch."""
    return (0, 1) if dtype == "pred" else type_range(8 * DTYPES[dtype][0], is_signed(dtype))


def is_signed(dtype: str) -> bool:
    """Whether an integer dtype's elements are kept as signed numbers."""
    return dtype.startswith("s")


def opaque_column(name: str, ids: np.ndarray, arena: Arena) -> np.ndarray:
    """Ids of an operation without a meaning over the reals."""
    return emitted(arena.opaque(name, id_operand(ids)), ids.ndim - 1)


def from_memory(ids: np.ndarray, kind: TtirType, arg: TensorArg, arena: Arena) -> Value:
    """The value of ids that stand in a tensor, read as ``kind``."""
    if kind.is_float:
        if arg.is_float and same_format(kind.fmt, arg.dtype):
            return Sym(ids)
        return Sym(opaque_column(f"{arg.dtype} read as {kind.fmt}", ids, arena))
    if arg.is_float:
        return Sym(ids, bits=arg.dtype)
    return Sym(ids, *dtype_range(arg.dtype))


def to_memory(value: Value, kind: TtirType, arg: TensorArg, arena: Arena) -> np.ndarray:
    """Ids to keep in a tensor for a value of type ``kind``."""
    if kind.is_float:
        assert isinstance(value, Sym)
        if arg.is_float and same_format(kind.fmt, arg.dtype):
            return value.ids
        return opaque_column(f"{kind.fmt} written as {arg.dtype}", value.ids, arena)
    if isinstance(value, Sym):
        return _symbolic_int(value, arg, arena)
    width = 8 * arg.element_bytes
    unsigned = value.astype(np.int64).view(np.uint64) & np.uint64((1 << width) - 1)
    if arg.is_float:
        return arena.float_bits_column(unsigned, arg.dtype)
    return arena.integers(value.astype(np.int64) if is_signed(arg.dtype) else unsigned)


def _symbolic_int(value: Sym, arg: TensorArg, arena: Arena) -> np.ndarray:
    if arg.is_float:
        if value.bits and same_format(value.bits, arg.dtype):
            return value.ids
        return opaque_column(f"integer written as {arg.dtype}", value.ids, arena)
    return wrapped(value, 8 * arg.element_bytes, is_signed(arg.dtype), arena).ids
