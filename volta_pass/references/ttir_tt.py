"""Shapes, ranges, programs and calls of the tt dialect. Splat and broadcast keep uniform axes at length 1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptx_engine.findings import Severity
from ptx_engine.terms.arena import UNDEF
from volta_pass.references.ttir_frame import Frame, run_function
from volta_pass.references.ttir_registry import OpInfo, Run, operation
from volta_pass.references.ttir_values import Sym, Value, concrete, map_rows, need_concrete, rows, spread, unify

Rearrange = Callable[[np.ndarray], np.ndarray]


def _rearranged(op: OpInfo, fn: Rearrange) -> Run:
    source, result = op.operands[0], op.result

    def run(frame: Frame) -> None:
        frame.regs[result] = map_rows(frame.get(source), fn)

    return run


@operation("tt.splat")
def splat(op: OpInfo) -> Run:
    """A scalar on every lane."""
    rank = op.kind.rank
    return _rearranged(op, lambda x: x.reshape(-1, *(1,) * rank))


@operation("tt.unsplat")
def unsplat(op: OpInfo) -> Run:
    """The element of a tensor of one element."""
    return _rearranged(op, lambda x: x.reshape(-1))


@operation("tt.broadcast")
def broadcast(op: OpInfo) -> Run:
    """Axes of length 1 repeated: nothing to do, they are uniform."""
    return _rearranged(op, lambda x: x)


@operation("tt.expand_dims")
def expand_dims(op: OpInfo) -> Run:
    """A new axis of length 1."""
    axis = op.integer("axis") + 1
    return _rearranged(op, lambda x: np.expand_dims(x, axis))


@operation("tt.reshape")
def reshape(op: OpInfo) -> Run:
    """Row-major reshape; where the compiler may reorder, this order stands for any (noted as an assumption)."""
    source, result = op.operands[0], op.result
    before, after = op.operand_types[0].shape, op.kind.shape
    reorders = op.boolean("allow_reorder") or op.boolean("allowReorder")

    def run(frame: Frame) -> None:
        if reorders:
            frame.arena.assumptions.setdefault("tt.reshape with allow_reorder keeps the order of elements")
        value = frame.get(source)
        if rows(value).size == rows(value).shape[0]:  # uniform
            frame.regs[result] = map_rows(value, lambda x: x.reshape(x.shape[0], *(1,) * len(after)))
            return
        frame.regs[result] = map_rows(value, lambda x: np.broadcast_to(x, (x.shape[0], *before)).reshape(x.shape[0], *after))

    return run


@operation("tt.trans")
def trans(op: OpInfo) -> Run:
    """Axes permuted by ``order``."""
    order = (0, *(int(axis) + 1 for axis in op.attribute("order")))
    return _rearranged(op, lambda x: x.transpose(order))


def _combined(op: OpInfo, fn: Callable[[list[np.ndarray]], np.ndarray]) -> Run:
    """Operands of one type, put together by a NumPy function over full columns."""
    result, kind = op.result, op.operand_types[0]

    def run(frame: Frame) -> None:
        arrays, remake = unify(frame.values(op.operands), kind, frame.arena)
        programs = max(a.shape[0] for a in arrays)
        full = [np.broadcast_to(a, (programs, *shape.shape)) for a, shape in zip(arrays, op.operand_types)]
        frame.regs[result] = remake(fn(full))

    return run


@operation("tt.join")
def join(op: OpInfo) -> Run:
    """Two tensors along a new last axis."""
    return _combined(op, lambda arrays: np.stack(arrays, axis=-1))


@operation("tt.cat")
def cat(op: OpInfo) -> Run:
    """Two tensors along axis 0; the compiler may reorder elements, this order stands for any (noted as an assumption)."""
    inner = _combined(op, lambda arrays: np.concatenate(arrays, axis=1))

    def run(frame: Frame) -> None:
        frame.arena.assumptions.setdefault("tt.cat keeps the order of elements")
        frame.memory.freedoms.reordered[op.origin.user_loc] = None
        inner(frame)

    return run


@operation("tt.split")
def split(op: OpInfo) -> Run:
    """The two halves of the last axis, which has length 2."""
    source, shape = op.operands[0], op.operand_types[0].shape

    def run(frame: Frame) -> None:
        value = frame.get(source)
        frame.assign(op.results, [map_rows(value, lambda x: spread(x, shape)[..., 0]), map_rows(value, lambda x: spread(x, shape)[..., 1])])

    return run


@operation("tt.make_range")
def make_range(op: OpInfo) -> Run:
    """start, ..., end - 1."""
    value = np.arange(op.integer("start"), op.integer("end"), dtype=np.int32)[None]
    return lambda frame: frame.assign((op.result,), (value,))


@operation("tt.get_program_id")
def get_program_id(op: OpInfo) -> Run:
    """One of the program's coordinates."""
    axis, result = op.integer("axis"), op.result

    def run(frame: Frame) -> None:
        pid = frame.pids[axis]
        frame.regs[result] = pid[:1] if len(pid) > 1 and (pid == pid[0]).all() else pid

    return run


@operation("tt.get_num_programs")
def get_num_programs(op: OpInfo) -> Run:
    """The grid's extent."""
    axis, result = op.integer("axis"), op.result
    return lambda frame: frame.assign((result,), (np.array([frame.grid[axis]], np.int32),))


@operation("tt.addptr")
def addptr(op: OpInfo) -> Run:
    """Byte address plus offset times element size; the offset is signed."""
    pointer, offset = op.operands
    result, kind, offset_kind = op.result, op.kind, op.operand_types[1]
    assert kind.pointee is not None
    size = np.int64(kind.pointee.element_bytes)

    def run(frame: Frame) -> None:
        base = need_concrete(frame.get(pointer), kind, frame.arena, "an address")
        step = need_concrete(frame.get(offset), offset_kind, frame.arena, "an address")
        wide = -step.astype(np.int64) if step.dtype == bool else step.astype(np.int64)
        frame.regs[result] = base + wide * size

    return run


@operation("tt.gather")
def gather(op: OpInfo) -> Run:
    """Elements along an axis at concrete indices."""
    source, indices = op.operands
    result, axis = op.result, op.integer("axis") + 1
    shape, index_kind = op.operand_types[0].shape, op.operand_types[1]

    def run(frame: Frame) -> None:
        where = need_concrete(frame.get(indices), index_kind, frame.arena, "a gather index")
        value = frame.get(source)
        programs = max(where.shape[0], rows(value).shape[0])
        chosen = np.broadcast_to(where, (programs, *index_kind.shape)).astype(np.int64)
        if ((chosen < 0) | (chosen >= shape[axis - 1])).any():
            frame.memory.log.add("out of bounds", f"tt.gather outside of axis {axis - 1}", "gather", op.origin, int(frame.numbers[0]))
            chosen = np.clip(chosen, 0, shape[axis - 1] - 1)
        frame.regs[result] = map_rows(value, lambda x: np.take_along_axis(np.broadcast_to(x, (programs, *shape)), chosen, axis))

    return run


@operation("tt.call")
def call(op: OpInfo) -> Run:
    """A private function, run on the same programs."""
    callee = op.decoder.resolve(str(op.attribute("callee").value).lstrip("@"))

    def run(frame: Frame) -> None:
        inner = frame.with_registers(callee.registers)
        inner.assign(callee.body.block.args, frame.values(op.operands))
        frame.assign(op.results, run_function(inner, callee))

    return run


@operation("tt.assert", "cf.assert")
def device_assert(op: OpInfo) -> Run:
    """A condition known to be false is a finding; a symbolic one is assumed."""
    condition, kind = op.operands[0], op.operand_types[0]
    message = op.attribute("message") or op.attribute("msg")
    text = f"assertion fails: {message.value}" if message is not None else "assertion fails"

    def run(frame: Frame) -> None:
        value: Value = frame.get(condition)
        truth = concrete(value, kind, frame.arena)
        if truth is None:
            frame.arena.assumptions.setdefault(f"assertion holds at {op.origin.user_loc or op.name}")
        elif not truth.all():
            failing = np.flatnonzero(~truth.reshape(truth.shape[0], -1).all(axis=1))
            number = int(frame.numbers[failing[0]])
            frame.memory.log.add("assertion", text, "assert", op.origin, number, severity=Severity.ERROR, count=len(failing))

    return run


@operation("tt.print", "ttg.barrier", "gpu.barrier", "ttg.local_barrier", "llvm.intr.assume")
def nothing(op: OpInfo) -> Run:
    """Printing has no effect on tensors; the reference is sequential, a barrier orders nothing in it; hints promise only."""
    return lambda frame: None


@operation("ub.poison")
def poison(op: OpInfo) -> Run:
    """An undefined value."""
    value = Sym(np.full((1,) * (op.kind.rank + 1), UNDEF, np.int32))
    return lambda frame: frame.assign((op.result,), (value,))
