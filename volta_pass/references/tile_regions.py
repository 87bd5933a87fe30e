"""Regions of buffers as whole tiles: read and written at once, ragged edges of global tensors included."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ptx_engine.errors import UnsupportedError
from volta_pass.references.tile_expr import numbers
from volta_pass.references.tile_program import Operand, Region
from volta_pass.references.tile_scope import Scope
from volta_pass.references.ttir_values import Sym, Value, map_rows


def extents(scope: Scope, region: Region) -> tuple[int, ...]:
    """The region's extents, the same in all programs."""
    found = []
    for extent in region.extent:
        values = numbers(scope, extent, "the extent of a region")
        if values.size and (values != values.flat[0]).any():
            raise UnsupportedError("a region whose extent differs between programs", feature="region")
        found.append(int(values.flat[0]))
    return tuple(found)


def _tile_scope(scope: Scope, shape: tuple[int, ...]) -> Scope:
    """The scope of a tile's elements: one lane axis per dimension, no parallel loop."""
    if scope.rank:
        raise UnsupportedError("an operation on tiles inside of a parallel loop", feature="parallel loop")
    widen = (1,) * len(shape)
    guard = None if scope.guard is None else map_rows(scope.guard, lambda array: array.reshape(array.shape + widen))
    assert guard is None or isinstance(guard, Sym)
    return replace(scope, env={}, lanes=shape, mask=None, guard=guard, nests=())


def _index(scope: Scope, region: Region, shape: tuple[int, ...]) -> list[np.ndarray]:
    index = []
    for d, (start, extent) in enumerate(zip(region.start, shape)):
        steps = np.arange(extent, dtype=np.int64).reshape(tuple(extent if i == d else 1 for i in range(len(shape))))
        first = numbers(scope, start, "an index").astype(np.int64)
        index.append(first.reshape((-1,) + (1,) * len(shape)) + steps)
    return index


def need_region(operand: Operand) -> Region:
    """An operand that must be a region of a buffer."""
    if not isinstance(operand, Region):
        raise UnsupportedError("a value where a region is expected", feature="region")
    return operand


def read_region(scope: Scope, operand: Operand) -> Value:
    """The elements of a region: (programs, *extents). What lies out of bounds of a global tensor is zero."""
    region = need_region(operand)
    shape = extents(scope, region)
    return scope.memory.load_elements(_tile_scope(scope, shape), region.buffer, _index(scope, region, shape))


def write_region(scope: Scope, operand: Operand, value: Value) -> None:
    """Write a tile (programs, *extents); what lies out of bounds of a global tensor is dropped."""
    region = need_region(operand)
    shape = extents(scope, region)
    scope.memory.store_elements(_tile_scope(scope, shape), region.buffer, _index(scope, region, shape), value)


def dtype_of(scope: Scope, operand: Operand) -> str:
    """The element type of a region's buffer."""
    return scope.memory.program.buffers[need_region(operand).buffer].dtype


def name_of(scope: Scope, operand: Operand) -> str:
    """The name of a region's buffer."""
    return scope.memory.program.buffers[need_region(operand).buffer].name


def reshaped(value: Value, shape: tuple[int, ...]) -> Value:
    """A tile with other extents of the same elements; the program axis stays as it is."""
    return map_rows(value, lambda array: array.reshape((array.shape[0], *shape)))


def spread(value: Value, shape: tuple[int, ...]) -> Value:
    """A tile with all its extents in full."""
    return map_rows(value, lambda array: np.broadcast_to(array, (array.shape[0], *shape)))


def read_run(scope: Scope, operand: Operand) -> list[Value]:
    """Adjacent elements from a pointer on, one value each."""
    region = need_region(operand)
    count = numbers(scope, region.extent[0], "a number of elements")
    if (count != count.flat[0]).any():
        raise UnsupportedError("a number of elements that differs between lanes", feature="pointer")
    shape = scope.memory.shapes[region.buffer]
    first = np.zeros((1,) * (scope.rank + 1), np.int64)
    for start, extent in zip(region.start, shape):
        first = first * extent + numbers(scope, start, "an index")
    found = []
    for k in range(int(count.flat[0])):
        flat, index = first + k, []
        for extent in reversed(shape[1:]):
            index.append(flat % extent)
            flat = flat // extent
        index.append(flat)
        found.append(scope.memory.load_elements(scope, region.buffer, index[::-1]))
    return found
