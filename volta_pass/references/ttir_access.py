"""Loads, stores and atomic read-modify-write of the tt dialect."""

from __future__ import annotations

import numpy as np

from ptx_engine.errors import UnsupportedError
from ptx_engine.terms.arena import CONST_CAP, Arena
from ptx_engine.terms.ops import Op
from volta_pass.references.memory_format import is_signed, to_memory
from volta_pass.references.ttir_frame import Frame
from volta_pass.references.ttir_memory import NOBODY, SEVERAL, Overlay, Part
from volta_pass.references.ttir_registry import OpInfo, Run, operation, refuse
from volta_pass.references.ttir_types import TtirType
from volta_pass.references.ttir_values import Sym, Value, emitted, id_operand, need_concrete, wrapped

ADDRESS, MASK = "an address", "a mask"
_I1 = TtirType("int", 1)


def _pointee(op: OpInfo) -> TtirType:
    pointee = op.operand_types[0].pointee
    if pointee is None:
        raise op.unsupported("through a block pointer or a descriptor")
    return pointee


@operation("tt.load")
def load(op: OpInfo) -> Run:
    """Elements at pointers; lanes masked off give ``other``, or are undefined. Cache hints mean nothing here."""
    pointee, result = _pointee(op), op.result
    sizes = op.attribute("operandSegmentSizes")
    counts = [int(n) for n in sizes] if sizes is not None else [1, int(len(op.operands) > 1), int(len(op.operands) > 2)]
    mask = op.operands[1] if counts[1] else None
    other = op.operands[counts[0] + counts[1]] if counts[2] else None

    def run(frame: Frame) -> None:
        addresses = need_concrete(frame.get(op.operands[0]), op.operand_types[0], frame.arena, ADDRESS)
        active = None if mask is None else need_concrete(frame.get(mask), _I1, frame.arena, MASK)
        default = None if other is None else frame.get(other)
        frame.regs[result] = frame.memory.load(addresses, pointee, active, default, frame.numbers)

    return run


@operation("tt.store")
def store(op: OpInfo) -> Run:
    """Elements written at pointers where the mask holds."""
    pointee = _pointee(op)
    mask = op.operands[2] if len(op.operands) > 2 else None

    def run(frame: Frame) -> None:
        addresses = need_concrete(frame.get(op.operands[0]), op.operand_types[0], frame.arena, ADDRESS)
        active = None if mask is None else need_concrete(frame.get(mask), _I1, frame.arena, MASK)
        full = np.broadcast_to(addresses, (addresses.shape[0], *op.operand_types[0].shape))
        frame.memory.store(full, frame.get(op.operands[1]), pointee, active, frame.numbers)

    return run


#: RMWOp of the tt dialect by number; None is refused
_RMW: dict[int, tuple[str, Op | None]] = {
    1: ("and", None), 2: ("or", None), 3: ("xor", None), 4: ("add", Op.NSUM), 5: ("fadd", Op.NSUM), 6: ("max", Op.NMAX),
    7: ("min", Op.NMIN), 8: ("umax", Op.NMAX), 9: ("umin", Op.NMIN), 10: ("exch", None),
}  # fmt: skip


@operation("tt.atomic_rmw")
def atomic_rmw(op: OpInfo) -> Run:
    """add, max, min: contributions of all lanes and programs are combined with the element, in no particular order.

    The value before the update depends on that order, so that it may be used only where one lane of a one-program launch
    makes it certain.
    """
    name, combine = _RMW.get(op.integer("atomic_rmw_op"), ("?", None))
    if combine is None:
        raise op.unsupported(f"atomic {name}: its result depends on the order of programs")
    pointee, mask = _pointee(op), op.operands[2] if len(op.operands) > 2 else None
    used = any(True for _ in op.raw_results[0].uses)

    def run(frame: Frame) -> None:
        addresses = need_concrete(frame.get(op.operands[0]), op.operand_types[0], frame.arena, ADDRESS)
        active = None if mask is None else need_concrete(frame.get(mask), _I1, frame.arena, MASK)
        full = np.broadcast_to(addresses, (addresses.shape[0], *op.operand_types[0].shape))
        if used:
            frame.regs[op.result] = _old_value(frame, full, pointee, active, op)
        value = frame.get(op.operands[1])
        for part, chosen, who in frame.memory.targets(full, value, pointee, active, frame.numbers, "atomic"):
            accumulate(frame, part, chosen, who, pointee, combine, name)

    return run


def _old_value(frame: Frame, addresses: np.ndarray, pointee: TtirType, active: np.ndarray | None, op: OpInfo) -> Value:
    grid = frame.grid[0] * frame.grid[1] * frame.grid[2]
    shape = np.broadcast_shapes(addresses.shape, active.shape if active is not None else ())
    lanes = np.flatnonzero(np.broadcast_to(True if active is None else active, shape))
    touched = np.broadcast_to(addresses, shape).reshape(-1)[lanes]
    if grid != 1 or len(np.unique(touched)) != len(touched):
        raise op.unsupported("the value before the update is used, and it depends on the order of programs or lanes")
    return frame.memory.load(addresses, pointee, active, None, frame.numbers)


def accumulate(frame: Frame, part: Part, value: Value, who: np.ndarray, kind: TtirType, combine: Op, name: str) -> None:
    """Combine every element's contributions with what it holds; elements with equally many contributions go together."""
    arena, memory, arg = frame.arena, frame.memory, part.buffer.arg
    if (name == "fadd") != arg.is_float or (combine is not Op.NSUM and (name[0] == "u") == is_signed(arg.dtype)):
        raise UnsupportedError(f"atomic {name} on {part.buffer.arg.name}, whose elements are {arg.dtype}", feature="tt.atomic_rmw")
    ids = to_memory(value, kind, arg, arena)
    overlay, order = memory.overlay(part.buffer), np.argsort(part.index, kind="stable")
    index, starts, counts = np.unique(part.index[order], return_index=True, return_counts=True)
    before = memory.current(Part(part.buffer, None, index))
    for count in np.unique(counts):
        chosen = np.flatnonzero(counts == count)
        lanes = order[starts[chosen][:, None] + np.arange(count)]
        operands = np.concatenate([before[chosen][:, None], ids[lanes]], axis=1)
        total = _combined(arena, combine, operands)
        if not kind.is_float and combine is Op.NSUM:
            total = wrapped(Sym(total), 8 * arg.element_bytes, is_signed(arg.dtype), arena).ids
        who_now = _writers(frame, overlay, part, index[chosen], who[lanes], combine)
        overlay.write(index[chosen], total, who_now, combine)


def _writers(frame: Frame, overlay: Overlay, part: Part, index: np.ndarray, who: np.ndarray, combine: Op) -> np.ndarray:
    """Who has written each element after an update; one over another program's plain store, or of another kind than its, is a race."""
    first, last = who.min(axis=1), who.max(axis=1)
    writer = overlay.writer(index)
    own = (first == last) & ((writer == NOBODY) | (writer == first))
    racy = np.flatnonzero(~own & (writer != NOBODY) & (overlay.atomic[index] != combine))
    if racy.size:
        name, offset = part.buffer.arg.name, int(index[racy[0]]) * part.buffer.arg.element_bytes
        text = f"atomic update of {name}, an element that another program writes otherwise: nothing orders the two"
        frame.memory.log.add(
            "race between programs", text, "atomic", frame.arena.origin, int(last[racy[0]]),
            buffer=part.buffer, offset_bytes=offset, count=len(racy),
        )  # fmt: skip
    return np.where(own, first, SEVERAL)


def _combined(arena: Arena, combine: Op, operands: np.ndarray) -> np.ndarray:
    """One node per row; few operands or constants among them combine pairwise, so that constants fold."""
    if operands.shape[1] > 2 and not ((operands >= 0) & (operands < CONST_CAP)).any():
        return arena.nary(combine, operands)
    fn = {Op.NSUM: arena.add, Op.NMAX: arena.maximum, Op.NMIN: arena.minimum}[combine]
    total = operands[:, 0]
    for i in range(1, operands.shape[1]):
        total = emitted(fn(id_operand(total), id_operand(operands[:, i])), 0)
        total = np.broadcast_to(total, operands.shape[:1])
    return total


refuse("tt.atomic_cas", "compare-and-swap depends on the schedule of programs")
