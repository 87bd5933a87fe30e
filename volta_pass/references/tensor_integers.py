"""Operators of integers over symbolic tensors, as NumPy has them: floor division, remainder, shifts, bits.

Integers are exact until they are converted or stored (``tensor.converted``): a sum does not wrap on the way. Bits are those of
the wider operand's type; a Python number beside a tensor counts as 64 bits wide, as its exact value does not depend on that.
"""

from __future__ import annotations

import numpy as np

from ptx_engine.errors import UnsupportedError
from ptx_engine.launch import DTYPES
from ptx_engine.terms.arena import CONST_CAP, Arena, Ids
from ptx_engine.terms.ops import Op
from volta_pass.references.tensor import Operand, SymbolicTensor, _caller, apply, elementwise, logic, note, tensors
from volta_pass.references.ttir_values import Sym, wrapped


def _whole(values: list[SymbolicTensor]) -> bool:
    return not any(DTYPES[value.dtype][1] for value in values)


def _integers(name: str, *operands: Operand) -> list[SymbolicTensor]:
    values = tensors(*operands)
    if not _whole(values):
        raise UnsupportedError(f"{name} of floats", feature=name, user_loc=_caller())
    return values


def floor_divide(a: Operand, b: Operand) -> SymbolicTensor:
    """The greatest integer that is no greater than the quotient."""
    values = tensors(a, b)
    if not _whole(values):
        return apply("floor", apply("div", a, b))
    arena = note(values[0].arena, "floor_divide")
    return elementwise(lambda x, y: arena.emit(Op.FLOORDIV, x, y), values)


def remainder(a: Operand, b: Operand) -> SymbolicTensor:
    """``a - b * (a // b)``: with the sign of ``b``."""
    return apply("sub", a, apply("mul", b, floor_divide(a, b)))


def _power_of_two(arena: Arena, amount: Ids) -> Ids:
    """2**amount of constants. Raises UnsupportedError for a negative or symbolic amount."""
    column = np.atleast_1d(np.asarray(amount))
    unique, inverse = np.unique(column, return_inverse=True)
    table = []
    for ident in unique:
        constant = arena.consts[int(ident)] if 0 <= ident < CONST_CAP else None
        if constant is None or not constant.is_rational or not 0 <= constant.coef < 64:
            raise UnsupportedError("a shift by what is no constant from 0 to 63", feature="shift", user_loc=_caller())
        table.append(arena.rational(1 << int(constant.coef)))
    return np.array(table, np.int32)[inverse].reshape(np.shape(amount)) if np.ndim(amount) else table[0]


def shift_right(a: Operand, b: Operand) -> SymbolicTensor:
    """The floor of a quotient by a power of two, also of negative numbers."""
    values = _integers("shift", a, b)
    arena = note(values[0].arena, "right_shift")
    return elementwise(lambda x, y: arena.emit(Op.FLOORDIV, x, _power_of_two(arena, y)), values)


def shift_left(a: Operand, b: Operand) -> SymbolicTensor:
    """The product with a power of two."""
    values = _integers("shift", a, b)
    arena = note(values[0].arena, "left_shift")
    return elementwise(lambda x, y: arena.mul(x, _power_of_two(arena, y)), values)


def bits(op: Op, a: Operand, b: Operand) -> SymbolicTensor:
    """and, or, exclusive or of words in two's complement; of truth values their logic."""
    values = tensors(a, b)
    if all(value.predicate for value in values):
        return logic({Op.BITAND: Op.AND, Op.BITOR: Op.OR}[op], a, b) if op is not Op.BITXOR else _differ(values)
    values = _integers("bits", a, b)
    arena = note(values[0].arena, op.name.lower())
    low = _low_mask(arena, values[1]) if op is Op.BITAND else None
    if low is not None:  # the remainder by a power of two, whatever the sign
        return elementwise(lambda x, y: arena.emit(Op.FIELD, x, 0, low), values)
    width = 8 * max(DTYPES[value.dtype][0] for value in values)
    signed = any(value.dtype.startswith("s") for value in values)
    words = [SymbolicTensor(wrapped(Sym(value.ids), width, False, arena).ids, arena, value.dtype) for value in values]
    result = elementwise(lambda x, y: arena.emit(op, x, y), words)
    return SymbolicTensor(wrapped(Sym(result.ids), width, signed, arena).ids, arena, result.dtype)


def _differ(values: list[SymbolicTensor]) -> SymbolicTensor:
    arena = note(values[0].arena, "xor")
    return elementwise(lambda x, y: arena.compare(Op.NE, x, y), values, predicate=True)


def _low_mask(arena: Arena, mask: SymbolicTensor) -> int | None:
    """k where every element of the mask is 2**k - 1."""
    first = int(mask.ids.flat[0]) if mask.size else -1
    if not 0 <= first < CONST_CAP or (mask.ids != first).any() or not arena.consts[first].is_rational:
        return None
    number = int(arena.consts[first].coef)
    return number.bit_length() if number > 0 and number & (number + 1) == 0 else None
