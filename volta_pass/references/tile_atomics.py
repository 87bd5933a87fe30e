"""Atomic updates of a tile program: contributions of all lanes and programs combined with an element, in no particular order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ptx_engine.errors import NotStructuredError, UnsupportedError
from ptx_engine.terms.ops import Op
from volta_pass.references.tile_calls import converted
from volta_pass.references.tile_expr import evaluate, numbers
from volta_pass.references.tile_ops import operation
from volta_pass.references.tile_program import Expr, Region, TileOp
from volta_pass.references.tile_regions import dtype_of, extents, need_region, read_region, reshaped, spread
from volta_pass.references.tile_scope import Scope
from volta_pass.references.tile_types import element, kind_of
from volta_pass.references.ttir_access import accumulate
from volta_pass.references.ttir_memory import Part
from volta_pass.references.ttir_values import Value, map_rows, rows

_COMBINE = {"add": Op.NSUM, "max": Op.NMAX, "min": Op.NMIN}


@operation("atomicadd", "atomicmax", "atomicmin")
def _tile(scope: Scope, op: TileOp) -> None:
    """A tile, or one value, combined with a region."""
    value, target = op.args[0], op.args[1]
    region = need_region(target)
    shape = extents(scope, region)
    if isinstance(value, Region):
        tile = reshaped(spread(read_region(scope, value), extents(scope, value)), shape)
        before = dtype_of(scope, value)
    else:
        assert isinstance(value, Expr)
        tile = map_rows(evaluate(scope, value), lambda array: array.reshape(array.shape + (1,) * len(shape)))
        before = value.dtype
    tiles = replace(scope, lanes=shape, env={})
    index = []
    for d, start in enumerate(region.start):
        steps = np.arange(shape[d]).reshape(tuple(shape[d] if i == d else 1 for i in range(len(shape))))
        index.append(numbers(scope, start, "an index").astype(np.int64).reshape((-1,) + (1,) * len(shape)) + steps)
    _update(tiles, region, index, converted(tiles, tile, before, dtype_of(scope, target)), op.op.removeprefix("atomic"))


@operation("atomic_add_elem_op", "atomic_max_elem_op", "atomic_min_elem_op")
def _element(scope: Scope, op: TileOp) -> None:
    """Each lane of a parallel loop combines a value with one element."""
    if not scope.rank:
        raise UnsupportedError(
            "an atomic update of one element outside of a parallel loop: every thread does it", feature=op.op, hint="put it into T.Parallel"
        )
    pointer, value = need_region(op.args[0]), op.args[1]
    assert isinstance(value, Expr)
    index = [numbers(scope, start, "an index") for start in pointer.start]
    added = converted(scope, evaluate(scope, value), value.dtype, dtype_of(scope, pointer))
    _update(scope, pointer, index, added, op.op.split("_")[1])


def _update(scope: Scope, region: Region, index: list[np.ndarray], value: Value, name: str) -> None:
    memory = scope.memory
    decl = memory.program.buffers[region.buffer]
    if any(decl.storage in nest.watched for nest in scope.nests):
        raise UnsupportedError(f"atomic updates of {decl.name} beside plain accesses in one parallel loop", feature="parallel loop")
    if scope.guard is not None:
        raise NotStructuredError(f"an atomic update of {decl.name} depends on symbolic data", feature="a mask")
    if not decl.param:
        raise UnsupportedError(f"atomic update of {decl.name}, which is not in global memory", feature=f"atomic_{name}")
    flat, inside = memory.linear(region.buffer, index)
    mask = scope.mask if inside is None else inside if scope.mask is None else scope.mask & inside
    shape = np.broadcast_shapes(flat.shape, rows(value).shape, scope.full(), mask.shape if mask is not None else ())
    kept = slice(None) if mask is None else np.flatnonzero(np.broadcast_to(mask, shape))

    def lanes(array: np.ndarray) -> np.ndarray:
        return np.asarray(np.broadcast_to(array, shape).reshape(-1)[kept])

    who = lanes(scope.numbers.reshape(-1, *(1,) * scope.rank))
    where = lanes(flat)
    if where.size:
        called, combine = _operation(decl.dtype, name)
        part = Part(memory.buffer_of(decl), None, where)
        accumulate(scope.frame, part, map_rows(value, lanes), who, kind_of(decl.dtype, 0), combine, called)


def _operation(dtype: str, name: str) -> tuple[str, Op]:
    """The name that TTIR's atomics give an operation on elements of a type, and its operator."""
    kind = kind_of(dtype, 0)
    prefix = "f" if kind.is_float and name == "add" else "u" if not kind.is_float and name != "add" and not element(dtype).signed else ""
    return prefix + name, _COMBINE[name]
