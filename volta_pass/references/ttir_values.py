"""Run-time values of the TTIR evaluator: columns over programs, each axis either in full or of length 1 where uniform.

An integer, pointer or i1 tensor is a NumPy array of the type's width (signed; i1 is bool), so that wrapping is NumPy's
own. Anything symbolic is a ``Sym``: term ids of one shape. Axis 0 runs over programs, the others over the tensor; splat and
broadcast therefore cost nothing, and arithmetic on uniform parts is done once.

A symbolic integer stands for *some* integer congruent to the bits modulo 2**width, with bounds where they are known:
ring operations need no wrap; ``wrapped`` makes the exact signed or unsigned number where an operation looks at it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Union

import numpy as np

from ptx_engine.errors import NotStructuredError
from ptx_engine.terms.arena import CONST_CAP, Arena, Ids
from ptx_engine.terms.constants import FLOAT_FORMATS
from ptx_engine.terms.ops import Op
from volta_pass.references.ttir_types import TtirType


@dataclass(frozen=True, slots=True)
class Sym:
    """Term ids (int32). For integers ``lo <= value <= hi`` where not None. ``bits`` names the float format whose bit pattern
    an integer-typed value is (a bitcast float); its ids are those of the float. ``zeros``: known trailing zero bits.
    ``shifted``: (ids, amount) where the value is that integer shifted right, so that a mask can take the field at once.
    ``xored``: words of one meaning (``xored_bits`` as ``bits``) whose exclusive or the value is, so that one can cancel later; each
    lies in ``xored_range``, where that is known."""

    ids: np.ndarray
    lo: int | None = None
    hi: int | None = None
    bits: str = ""
    zeros: int = 0
    shifted: tuple[np.ndarray, int] | None = None
    xored: tuple[np.ndarray, ...] = ()
    xored_bits: str = ""
    xored_range: tuple[int | None, int | None] = (None, None)


Value = Union[np.ndarray, Sym]


def rows(value: Value) -> np.ndarray:
    """The array behind a value: numbers or ids."""
    return value.ids if isinstance(value, Sym) else value


def map_rows(value: Value, fn: Callable[[np.ndarray], np.ndarray]) -> Value:
    """A value with its lanes rearranged: bounds, bits and trailing zeros stay."""
    if isinstance(value, Sym):
        shifted = (fn(value.shifted[0]), value.shifted[1]) if value.shifted is not None else None
        xored = tuple(fn(word) for word in value.xored)
        return Sym(fn(value.ids), value.lo, value.hi, value.bits, value.zeros, shifted, xored, value.xored_bits, value.xored_range)
    return fn(value)


def take_programs(value: Value, programs: np.ndarray) -> Value:
    """The rows of some programs; a uniform value stays as it is."""
    return value if rows(value).shape[0] == 1 else map_rows(value, lambda x: x[programs])


def spread(value: Value, shape: Sequence[int]) -> np.ndarray:
    """The array with its tensor axes in full (a view); the program axis stays as it is."""
    array = rows(value)
    return np.broadcast_to(array, (array.shape[0], *shape))


def id_operand(array: np.ndarray) -> Ids:
    """Ids as the arena likes them: a uniform value is a Python int."""
    return int(array.item()) if array.size == 1 else array


def emitted(ids: Ids, rank: int) -> np.ndarray:
    """An arena's result as a column: a Python int becomes a uniform array of ``rank`` tensor axes."""
    return np.full((1,) * (rank + 1), ids, np.int32) if isinstance(ids, int) else ids


def int_ids(value: Value, arena: Arena) -> np.ndarray:
    """Ids of an integer value; concrete numbers become constants (signed; i1 as 0 and 1)."""
    return value.ids if isinstance(value, Sym) else arena.integers(value.astype(np.int64))


def bounds(value: Value) -> tuple[int | None, int | None]:
    """Known bounds of an integer value."""
    if isinstance(value, Sym):
        return value.lo, value.hi
    return (int(value.min()), int(value.max())) if value.size else (0, 0)


def type_range(width: int, signed: bool) -> tuple[int, int]:
    """Least and greatest integer of a width."""
    if width == 1:
        return (-1, 0) if signed else (0, 1)
    return (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)


def fold_wrap(number: int, width: int, signed: bool) -> int:
    """An integer modulo 2**width, in the signed or unsigned range."""
    number &= (1 << width) - 1
    return number - (1 << width) if signed and number >> (width - 1) else number


def wrapped(value: Sym, width: int, signed: bool, arena: Arena) -> Sym:
    """The exact signed or unsigned number of a symbolic integer: an explicit WRAP unless its bounds make it the identity."""
    if value.bits:  # the unsigned word; another reading of it is another number
        word = emitted(arena.opaque(f"bits of {value.bits}", id_operand(value.ids)), value.ids.ndim - 1)
        value = Sym(np.asarray(word), *type_range(FLOAT_FORMATS[value.bits][0], signed=False))
    low, high = type_range(width, signed)
    if value.lo is not None and value.hi is not None and low <= value.lo and value.hi <= high:
        return value
    ids = value.ids
    result = np.asarray(arena.emit(Op.WRAP, ids, -width if signed else width))
    constant = (ids >= 0) & (ids < CONST_CAP)
    if constant.any():
        unique, inverse = np.unique(ids[constant], return_inverse=True)
        result[constant] = np.array([_wrapped_const(int(i), width, signed, arena) for i in unique], np.int32)[inverse]
    return Sym(result, low, high)


def _wrapped_const(ident: int, width: int, signed: bool, arena: Arena) -> int:
    const = arena.consts[ident]
    if not const.is_rational or const.coef.denominator != 1:
        return ident
    return arena.rational(fold_wrap(int(const.coef), width, signed))


def concrete(value: Value, kind: TtirType, arena: Arena) -> np.ndarray | None:
    """The numbers of a value whose every lane is a constant integer; None for anything else."""
    if not isinstance(value, Sym):
        return value
    ids = value.ids
    if value.bits or kind.is_float or (ids < 0).any() or (ids >= CONST_CAP).any():
        return None
    unique, inverse = np.unique(ids, return_inverse=True)
    numbers = [arena.consts[int(i)] for i in unique]
    if not all(c.is_rational and c.coef.denominator == 1 for c in numbers):
        return None
    width = kind.width
    table = np.array([fold_wrap(int(c.coef), width, width > 1) for c in numbers], np.int64)
    return table[inverse].reshape(ids.shape).astype(kind.dtype)


def need_concrete(value: Value, kind: TtirType, arena: Arena, use: str) -> np.ndarray:
    """The numbers of a value that decides an address, a mask or control. Raises NotStructuredError naming an input it depends on."""
    numbers = concrete(value, kind, arena)
    if numbers is not None:
        return numbers
    ids = rows(value).ravel()
    source = dependency(arena, int(ids[np.argmax((ids < 0) | (ids >= CONST_CAP))]))
    raise NotStructuredError(
        f"{use} depends on symbolic data" + (f" ({source})" if source else ""),
        feature=use,
        hint=f"give concrete contents for {source.split('[')[0]} in the launch" if source else "",
    )


def dependency(arena: Arena, ident: int, limit: int = 4096) -> str:
    """The name of an input element that a term depends on, for messages; "" if none is met within ``limit`` nodes."""
    stack, seen = [ident], 0
    while stack and seen < limit:
        current, seen = stack.pop(), seen + 1
        if current < 0:
            entry, index = arena.input_of(current)
            return f"{entry.name}[{index}]" if entry.count > 1 else entry.name
        op, a, b, c = arena.node(current)
        stack.extend(operand_ids(arena, current, op, a, b, c))
    return ""


def operand_ids(arena: Arena, ident: int, op: Op, a: int, b: int, c: int) -> list[int]:
    """The operand ids of a node, records included."""
    if op is Op.CONST:
        return []
    if op is Op.DOT:
        left, right, acc = arena.dot_operands(ident)
        return [*left.tolist(), *right.tolist(), acc]
    if op in (Op.NSUM, Op.NMAX, Op.NMIN):
        return list(arena.nary_operands(ident).tolist())
    if op in (Op.WRAP, Op.FIELD):
        return [a]
    if op is Op.OPAQUE:
        return [a, b]
    return [a, b, c]


def union_bounds(values: Sequence[Value]) -> tuple[int | None, int | None]:
    """Bounds that hold for every one of some values."""
    pairs = [bounds(v) for v in values]
    lows, highs = [p[0] for p in pairs], [p[1] for p in pairs]
    return (
        None if any(x is None for x in lows) else min(x for x in lows if x is not None),
        None if any(x is None for x in highs) else max(x for x in highs if x is not None),
    )


def unify(values: Sequence[Value], kind: TtirType, arena: Arena) -> tuple[list[np.ndarray], Callable[[np.ndarray], Value]]:
    """Arrays of one meaning (all numbers or all ids) behind values of one type, and what makes a value of such an array again."""
    if not any(isinstance(v, Sym) for v in values):
        return [rows(v) for v in values], lambda array: array
    bits = {v.bits if isinstance(v, Sym) else "" for v in values}
    if len(bits) > 1:
        values = [wrapped(v, kind.width, True, arena) if isinstance(v, Sym) and v.bits else v for v in values]
        bits = {""}
    low, high = (None, None) if kind.is_float else union_bounds(values)
    tag = bits.pop()
    return [int_ids(v, arena) for v in values], lambda array: Sym(array, low, high, tag)


def merge(parts: Sequence[tuple[np.ndarray, Value]], programs: int, kind: TtirType, arena: Arena) -> Value:
    """One value from those of disjoint groups of programs that make up all of them."""
    if len(parts) == 1:
        return parts[0][1]
    arrays, remake = unify([value for _, value in parts], kind, arena)
    tail = np.broadcast_shapes(*(array.shape[1:] for array in arrays))
    whole = np.empty((programs, *tail), arrays[0].dtype)
    for (chosen, _), array in zip(parts, arrays):
        whole[chosen] = array
    return remake(whole)
