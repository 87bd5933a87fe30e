"""tt.reduce, tt.scan and tt.map_elementwise: regions run over whole columns.

A region that is a plain add, max or min of floats makes one n-ary node; any other is applied as a tree of adjacent pairs,
log2 of the axis deep, and a scan as log2 steps: both assume that the region is associative, as Triton does, and note it for
``combine_order``, which is asked where a comparison fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ptx_engine.terms.ops import Op
from volta_pass.references.combine_order import note_combine
from volta_pass.references.ttir_frame import Frame, run_block
from volta_pass.references.ttir_registry import Block, OpInfo, Run, operation
from volta_pass.references.ttir_types import TtirType
from volta_pass.references.ttir_values import Sym, Value, map_rows, rows, unify

#: the body operation of a region -> the node it makes
_NODES = {
    "arith.addf": Op.NSUM, "arith.maxnumf": Op.NMAX, "arith.maximumf": Op.NMAX, "arith.minnumf": Op.NMIN, "arith.minimumf": Op.NMIN,
}  # fmt: skip


def plain_node(op: OpInfo) -> Op | None:
    """The n-ary operator that a region is, if it is one operation on its two arguments; None otherwise."""
    if len(op.operands) != 1 or not op.operand_types[0].is_float:
        return None
    block = op.regions[0].block
    if len(block.steps) != 1 or set(block.end.operands) & set(block.args):
        return None
    node = _NODES.get(block.steps[0].origin.op_name)
    return node if node is not None and op.region_reads(0) == sorted(block.args) else None


@operation("tt.reduce")
def reduce(op: OpInfo) -> Run:
    """Along ``axis``; every result loses it."""
    axis = op.integer("axis") + 1
    node = plain_node(op)
    if node is not None:
        return _as_node(op, axis, node)
    block = op.regions[0].block

    def run(frame: Frame) -> None:
        note_combine(frame, op, apply_region)
        columns = [_along(frame.get(r), kind, axis) for r, kind in zip(op.operands, op.operand_types)]
        while rows(columns[0]).shape[-1] > 1:
            count = rows(columns[0]).shape[-1]
            pairs = count // 2 * 2
            rest = _cut(columns, slice(pairs, None))
            columns = apply_region(frame, block, _cut(columns, slice(0, pairs, 2)) + _cut(columns, slice(1, pairs, 2)))
            if pairs != count:
                columns = [_joined(frame, v, r, kind) for v, r, kind in zip(columns, rest, op.operand_types)]
        frame.assign(op.results, [map_rows(v, lambda x: x[..., 0]) for v in columns])

    return run


def _as_node(op: OpInfo, axis: int, node: Op) -> Run:
    source, result, kind = op.operands[0], op.result, op.operand_types[0]

    def run(frame: Frame) -> None:
        ids = rows(_along(frame.get(source), kind, axis))
        frame.regs[result] = Sym(ids[..., 0] if ids.shape[-1] == 1 else frame.arena.nary(node, ids))

    return run


def _along(value: Value, kind: TtirType, axis: int) -> Value:
    """The reduced axis in full and last; the others as they are."""

    def move(x: np.ndarray) -> np.ndarray:
        shape = list(x.shape)
        shape[axis] = kind.shape[axis - 1]
        return np.moveaxis(np.broadcast_to(x, shape), axis, -1)

    return map_rows(value, move)


def _cut(columns: Sequence[Value], part: slice) -> list[Value]:
    """A slice of the last axis of each column."""
    return [map_rows(v, lambda x: x[..., part]) for v in columns]


def _joined(frame: Frame, left: Value, right: Value, kind: TtirType) -> Value:
    (a, b), remake = unify([left, right], kind, frame.arena)
    shape = np.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    return remake(np.concatenate([np.broadcast_to(x, (*shape, x.shape[-1])) for x in (a, b)], axis=-1))


def apply_region(frame: Frame, block: Block, columns: Sequence[Value]) -> list[Value]:
    """A region of scalars applied lane by lane to columns: the lanes stand in for programs.

    Values from outside of the region are scalars; they are uniform over lanes, or one per program and repeated.
    """
    shape = np.broadcast_shapes(*(rows(v).shape for v in columns))
    flat = [map_rows(v, lambda x: x.reshape(-1) if x.size == 1 else np.broadcast_to(x, shape).reshape(-1)) for v in columns]
    frame.assign(block.args, flat)
    run_block(frame, block)
    results = frame.values(block.end.operands)
    return [map_rows(v, lambda x: np.broadcast_to(x, (int(np.prod(shape)),)).reshape(shape)) for v in results]


@operation("tt.scan")
def scan(op: OpInfo) -> Run:
    """Inclusive prefix combination along ``axis``, from the end where ``reverse``."""
    axis, reverse = op.integer("axis") + 1, op.boolean("reverse")
    block = op.regions[0].block

    def run(frame: Frame) -> None:
        note_combine(frame, op, apply_region)
        flip: Callable[[np.ndarray], np.ndarray] = lambda x: x[..., ::-1] if reverse else x  # noqa: E731
        columns = [map_rows(_along(frame.get(r), kind, axis), flip) for r, kind in zip(op.operands, op.operand_types)]
        length, distance = rows(columns[0]).shape[-1], 1
        while distance < length:
            moved = apply_region(frame, block, _cut(columns, slice(None, -distance)) + _cut(columns, slice(distance, None)))
            head = _cut(columns, slice(distance))
            columns = [_joined(frame, h, m, kind) for h, m, kind in zip(head, moved, op.operand_types)]
            distance *= 2
        frame.assign(op.results, [map_rows(v, lambda x: np.moveaxis(flip(x), -1, axis)) for v in columns])

    return run


@operation("tt.map_elementwise")
def map_elementwise(op: OpInfo) -> Run:
    """A scalar region on every lane (``pack`` 1)."""
    if op.integer("pack", 1) != 1:
        raise op.unsupported("with pack other than 1")
    region = op.regions[0]
    if len(region.blocks) != 1:
        raise op.unsupported("with control flow")

    def run(frame: Frame) -> None:
        frame.assign(op.results, apply_region(frame, region.block, frame.values(op.operands)))

    return run
