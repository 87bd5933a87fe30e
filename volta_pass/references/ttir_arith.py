"""Constants, select and conversions of arith and tt: what is neither integer arithmetic nor a float function."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptx_engine.terms.arena import Arena
from ptx_engine.terms.ops import Op
from volta_pass.references.contents import float_ids
from volta_pass.references.float_to_integer import held_integers
from volta_pass.references.freedoms import NARROW_BITS, Conversion
from volta_pass.references.memory_format import opaque_column, same_format
from volta_pass.references.ttir_frame import Frame
from volta_pass.references.ttir_int import exact_ids, unsigned
from volta_pass.references.ttir_registry import OpInfo, Run, operation
from volta_pass.references.ttir_types import TtirType
from volta_pass.references.ttir_values import (
    Sym,
    Value,
    concrete,
    emitted,
    id_operand,
    int_ids,
    type_range,
    unify,
    wrapped,
)  # fmt: skip


@operation("arith.constant")
def constant(op: OpInfo) -> Run:
    """A scalar or dense constant; floats by the exact bits of their type. Splats stay of length 1."""
    result, kind = op.result, op.kind
    numbers = _numbers(op.attribute("value"), kind, op)
    if not kind.is_float:
        value = numbers.astype(kind.dtype)
        return lambda frame: frame.assign((result,), (value,))

    def run(frame: Frame) -> None:
        frame.regs[result] = Sym(float_ids(numbers, kind.fmt, frame.arena))

    return run


def _numbers(attribute: Any, kind: TtirType, op: OpInfo) -> np.ndarray:
    """Numbers of an attribute as an array (1, *shape), axes of splats of length 1."""
    if not hasattr(attribute, "is_splat"):
        return np.full((1,) * (kind.rank + 1), attribute.value, np.float64 if kind.is_float else np.int64)
    if attribute.is_splat:
        value = attribute.get_splat_value().value
        return np.full((1,) * (kind.rank + 1), value, np.float64 if kind.is_float else np.int64)
    try:
        listed = [attribute[i] for i in range(len(attribute))]
    except (TypeError, ValueError) as error:
        raise op.unsupported(f"dense constant of {kind.fmt or kind.kind} elements") from error
    return np.array(listed, np.float64 if kind.is_float else np.int64).reshape(1, *kind.shape)


@operation("arith.select")
def select(op: OpInfo) -> Run:
    """Lane by lane for a concrete condition, a select term for a symbolic one."""
    condition, left, right = op.operands
    result, kind = op.result, op.kind
    chooser = op.operand_types[0]

    def run(frame: Frame) -> None:
        arena = frame.arena
        test = concrete(frame.get(condition), chooser, arena)
        (a, b), remake = unify(frame.values((left, right)), kind, arena)
        if test is not None:
            test = _full_rank(test, kind.rank)
            frame.regs[result] = remake(np.where(test, a, b)) if test.size > 1 else frame.get(left if test.item() else right)
            return
        choice = frame.get(condition)
        assert isinstance(choice, Sym)
        if not isinstance(frame.get(left), Sym) and not isinstance(frame.get(right), Sym):
            (a, b), remake = (int_ids(frame.get(left), arena), int_ids(frame.get(right), arena)), _bounded(frame.values((left, right)))
        ids = arena.select(id_operand(_full_rank(choice.ids, kind.rank)), id_operand(a), id_operand(b))
        frame.regs[result] = remake(emitted(ids, kind.rank))

    return run


def _full_rank(array: np.ndarray, rank: int) -> np.ndarray:
    """A scalar condition against tensors gets their axes."""
    return array.reshape(array.shape + (1,) * (rank + 1 - array.ndim))


def _bounded(values: list[Value]):  # type: ignore[no-untyped-def]
    low = min(int(v.min()) for v in values if isinstance(v, np.ndarray))
    high = max(int(v.max()) for v in values if isinstance(v, np.ndarray))
    return lambda ids: Sym(ids, low, high)


def _cast(op: OpInfo, signed: bool) -> Run:
    """Integer widening: the exact signed or unsigned number."""
    source, result = op.operands[0], op.result
    before, kind = op.operand_types[0], op.kind

    def run(frame: Frame) -> None:
        value = frame.get(source)
        if isinstance(value, Sym):
            frame.regs[result] = widened(frame.arena, value, before.width, signed)
        elif value.dtype == bool:
            wide = value.astype(kind.dtype)
            frame.regs[result] = -wide if signed else wide
        else:
            frame.regs[result] = (value if signed else unsigned(value)).astype(kind.dtype)

    return run


def widened(arena: Arena, value: Sym, width: int, signed: bool) -> Sym:
    """The exact number of a symbolic integer of ``width`` bits, for a wider type."""
    if width == 1:
        if not signed:
            return Sym(value.ids, 0, 1)
        return Sym(emitted(arena.neg(id_operand(value.ids)), value.ids.ndim - 1), -1, 0)
    exact = wrapped(value, width, signed, arena)
    return Sym(exact.ids, exact.lo, exact.hi, zeros=value.zeros if exact.ids is value.ids else 0)


operation("arith.extsi")(lambda op: _cast(op, True))
operation("arith.extui")(lambda op: _cast(op, False))


@operation("arith.trunci")
def trunci(op: OpInfo) -> Run:
    """The low bits: of a symbolic integer the same number, now modulo a smaller power of two."""
    source, result = op.operands[0], op.result
    kind = op.kind

    def run(frame: Frame) -> None:
        value = frame.get(source)
        if not isinstance(value, Sym):
            frame.regs[result] = (value & 1).astype(bool) if kind.width == 1 else value.astype(kind.dtype)
        elif kind.width == 1:
            ids = emitted(frame.arena.emit(Op.FIELD, id_operand(value.ids), 0, 1), kind.rank)
            frame.regs[result] = Sym(ids, 0, 1)
        elif value.bits:
            frame.regs[result] = wrapped(value, kind.width, True, frame.arena)
        else:
            frame.regs[result] = Sym(value.ids, value.lo, value.hi, zeros=min(value.zeros, kind.width), shifted=value.shifted)

    return run


@operation("arith.index_cast")
def index_cast(op: OpInfo) -> Run:
    """To or from index (64 bits), signed."""
    return _cast(op, True) if op.kind.width >= op.operand_types[0].width else trunci(op)


@operation("arith.index_castui")
def index_castui(op: OpInfo) -> Run:
    """To or from index (64 bits), unsigned."""
    return _cast(op, False) if op.kind.width >= op.operand_types[0].width else trunci(op)


def _to_float(op: OpInfo, signed: bool) -> Run:
    source, result = op.operands[0], op.result
    before = op.operand_types[0]

    def run(frame: Frame) -> None:
        value = frame.get(source)
        if isinstance(value, Sym) and before.width == 1:
            frame.regs[result] = Sym(widened(frame.arena, value, 1, signed).ids)
        else:
            frame.regs[result] = Sym(exact_ids(frame, value, before.width, signed))

    return run


operation("arith.sitofp")(lambda op: _to_float(op, True))
operation("arith.uitofp")(lambda op: _to_float(op, False))


def _to_int(op: OpInfo, signed: bool) -> Run:
    """Towards zero. Narrow numbers that do not fit are cut as the target cuts them, or all are taken to fit (``Freedoms``)."""
    source, result, kind, before = op.operands[0], op.result, op.kind, op.operand_types[0]
    own, narrow = type_range(kind.width, signed), kind.width < NARROW_BITS

    def run(frame: Frame) -> None:
        value, freedoms = frame.get(source), frame.memory.freedoms
        assert isinstance(value, Sym)
        whole, held = held_integers(frame.arena, value.ids, kind.width, signed, before.width)
        exact = wrapped(Sym(held.ids, *own) if narrow and freedoms.fitting else held, kind.width, signed, frame.arena)
        numbers = concrete(exact, kind, frame.arena)
        if numbers is None:
            freedoms.conversions.append(Conversion(np.unique(whole), *own, narrow, op.origin.user_loc))
        frame.regs[result] = exact if numbers is None else numbers

    return run


operation("arith.fptosi")(lambda op: _to_int(op, True))
operation("arith.fptoui")(lambda op: _to_int(op, False))


@operation("arith.bitcast", "tt.bitcast")
def bitcast(op: OpInfo) -> Run:
    """The same bits: identity between integers and pointers; a float keeps its term, marked as its format's bits."""
    source, result, kind = op.operands[0], op.result, op.kind
    before = op.operand_types[0]

    def run(frame: Frame) -> None:
        frame.regs[result] = reinterpreted(frame.arena, frame.get(source), before, kind)

    return run


def reinterpreted(arena: Arena, value: Value, before: TtirType, after: TtirType) -> Value:
    """A value's bits read as another type of the same width."""
    if not before.is_float and not after.is_float:
        return value
    if before.is_float and after.is_float:
        assert isinstance(value, Sym)
        return value if same_format(before.fmt, after.fmt) else Sym(opaque_column(f"bits of {before.fmt} as {after.fmt}", value.ids, arena))
    if before.is_float:
        assert isinstance(value, Sym)
        return Sym(value.ids, bits=before.fmt)
    if not isinstance(value, Sym):
        return Sym(arena.float_bits_column(unsigned(value), after.fmt))
    if value.bits and same_format(value.bits, after.fmt):
        return Sym(value.ids)
    return Sym(opaque_column(f"integer bits as {after.fmt}", wrapped(value, after.width, False, arena).ids, arena))


@operation("tt.int_to_ptr", "tt.ptr_to_int")
def pointer_cast(op: OpInfo) -> Run:
    """A pointer is its byte address."""
    source, result, kind = op.operands[0], op.result, op.kind

    def run(frame: Frame) -> None:
        value = frame.get(source)
        frame.regs[result] = value if isinstance(value, Sym) else value.astype(kind.dtype)

    return run
