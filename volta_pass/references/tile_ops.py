"""Operations on tiles: copy, fill, gemm, reduce, scan, atomic updates; synchronisation means nothing to a whole block.

Hints (``coalesced_width``, layouts, eviction policies, warp policies) change nothing; any other option is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptx_engine.errors import UnsupportedError
from ptx_engine.terms.arena import ZERO
from ptx_engine.terms.ops import Op
from volta_pass.references.tile_calls import converted
from volta_pass.references.tile_expr import evaluate, float_operation, integer_operation, numbers
from volta_pass.references.tile_program import Expr, Operand, TileOp
from volta_pass.references.tile_regions import dtype_of, extents, need_region, read_region, reshaped, spread, write_region
from volta_pass.references.tile_scope import Scope
from volta_pass.references.tile_types import element, kind_of
from volta_pass.references.ttir_dot import emit_dot
from volta_pass.references.ttir_int import exact_ids
from volta_pass.references.ttir_ring import plain_ids
from volta_pass.references.ttir_types import TtirType
from volta_pass.references.ttir_values import Sym, Value, bounds, emitted, id_operand, map_rows, rows, unify

Operation = Callable[[Scope, TileOp], None]

OPERATIONS: dict[str, Operation] = {}

_HINTS = frozenset({
    "coalesced_width", "parallel_loop_layout", "loop_layout", "disable_tma", "eviction_policy", "prefer_instruction", "prefer_async",
    "tl.ws_op_id", "batch", "k_pack", "nan_propagate", "enable_fadd2", "memory_order",
})  # fmt: skip


def operation(*names: str) -> Callable[[Operation], Operation]:
    """Register what an operation does. Raises KeyError on a name that is taken."""

    def register(fn: Operation) -> Operation:
        for name in names:
            if name in OPERATIONS:
                raise KeyError(f"{name} is registered twice")
            OPERATIONS[name] = fn
        return fn

    return register


def run_operation(scope: Scope, op: TileOp) -> None:
    """Run one operation. Raises UnsupportedError naming it, or an option, where it has no meaning here."""
    run = OPERATIONS.get(op.op)
    if run is None:
        raise UnsupportedError(f"{op.op} has no tile semantics here", feature=op.op)
    unknown = sorted(set(op.options) - _HINTS)
    if unknown:
        raise UnsupportedError(f"{op.op} with {', '.join(unknown)}", feature=unknown[0])
    run(scope, op)


@operation("tvm_storage_sync", "sync_warp", "fence_proxy_async")
def _nothing(scope: Scope, op: TileOp) -> None:
    """A block runs its statements one after another: there is nothing to wait for."""


def truth_of(scope: Scope, operand: Operand) -> bool:
    """A flag that is the same in all programs."""
    values = numbers(scope, operand, "a flag")
    if values.size and (values != values.flat[0]).any():
        raise UnsupportedError("a flag that differs between programs", feature="flag")
    return bool(values.flat[0])


def integer_of(scope: Scope, operand: Operand) -> int:
    """A number that is the same in all programs."""
    values = numbers(scope, operand, "a number")
    if values.size and (values != values.flat[0]).any():
        raise UnsupportedError("a number that differs between programs", feature="number")
    return int(values.flat[0])


def _matched(value: Value, source: tuple[int, ...], target: tuple[int, ...]) -> Value:
    """A tile for a region of the same extents up to those of length 1. Raises UnsupportedError on others."""
    if [n for n in source if n != 1] != [n for n in target if n != 1]:
        raise UnsupportedError(f"a copy between regions of extents {source} and {target}", feature="T.copy")
    return reshaped(spread(value, source), target)


@operation("copy")
def _copy(scope: Scope, op: TileOp) -> None:
    source, target = op.args[0], op.args[1]
    shapes = [extents(scope, need_region(arg)) for arg in (source, target)]
    tile = _matched(read_region(scope, source), *shapes)
    write_region(scope, target, _as(scope, tile, dtype_of(scope, source), dtype_of(scope, target)))


@operation("transpose")
def _transpose(scope: Scope, op: TileOp) -> None:
    source, target = op.args[0], op.args[1]
    shape = extents(scope, need_region(source))
    tile = map_rows(spread(read_region(scope, source), shape), lambda array: array.swapaxes(-1, -2))
    write_region(scope, target, _as(scope, tile, dtype_of(scope, source), dtype_of(scope, target)))


def _as(scope: Scope, tile: Value, before: str, after: str) -> Value:
    """A tile as another type. The conversions are lane by lane, whatever the tile's rank."""
    from dataclasses import replace

    return converted(replace(scope, lanes=rows(tile).shape[1:]), tile, before, after)


@operation("fill")
def _fill(scope: Scope, op: TileOp) -> None:
    target, value = op.args[0], op.args[1]
    assert isinstance(value, Expr)
    shape = extents(scope, need_region(target))
    filled = converted(scope, evaluate(scope, value), value.dtype, dtype_of(scope, target))
    write_region(scope, target, map_rows(filled, lambda array: array.reshape(array.shape + (1,) * len(shape))))


# --- products ---------------------------------------------------------------------------------------


@operation("gemm")
def _gemm(scope: Scope, op: TileOp) -> None:
    """C = A @ B, plus C unless it is to be cleared. Precisions of the inputs are rounding, hence the identity."""
    clear = numbers(scope, op.args[9], "a flag").reshape(-1)
    if clear.size > 1 and clear.any() and not clear.all():
        for chosen in (np.flatnonzero(clear), np.flatnonzero(~clear)):
            _gemm(scope.narrowed(chosen), op)
        return
    a, b = (_matrix(scope, op.args[i], truth_of(scope, op.args[i + 3])) for i in (0, 1))
    target = op.args[2]
    shape, dtype = extents(scope, need_region(target)), dtype_of(scope, target)
    kind = kind_of(dtype, len(shape))
    acc = None if clear.all() else read_region(scope, target)
    start = np.zeros((1, *shape[-2:]), np.int32) if acc is None else rows(acc).reshape(-1, *shape[-2:])
    if isinstance(acc, Sym) and acc.bits:
        start = plain_ids(acc, kind.width, scope.arena).reshape(start.shape)
    ids = emit_dot(scope.arena, rows(a), rows(b), np.broadcast_to(start, (start.shape[0], *shape[-2:])))
    ids = ids.reshape(-1, *shape)
    write_region(scope, target, Sym(ids) if kind.is_float else Sym(ids, *_product_bounds(a, b, acc)))


def _matrix(scope: Scope, operand: Operand, transposed: bool) -> Sym:
    """An operand as (programs, rows, columns) of exact numbers."""
    shape, dtype = extents(scope, need_region(operand)), dtype_of(scope, operand)
    if any(n != 1 for n in shape[:-2]):
        raise UnsupportedError(f"a product of a tile of extents {shape}", feature="T.gemm")
    tile = spread(read_region(scope, operand), shape)
    low, high = bounds(tile) if not kind_of(dtype, 0).is_float else (None, None)
    ids = rows(tile) if kind_of(dtype, 0).is_float else exact_ids(scope.frame, tile, kind_of(dtype, 0).width, element(dtype).signed)
    ids = ids.reshape(-1, *shape[-2:])
    return Sym(ids.swapaxes(-1, -2) if transposed else ids, low, high)


def _product_bounds(a: Sym, b: Sym, acc: Value | None) -> tuple[int | None, int | None]:
    start = (0, 0) if acc is None else bounds(acc)
    pairs = [(a.lo, a.hi), (b.lo, b.hi), start]
    if any(x is None for pair in pairs for x in pair):
        return None, None
    (al, ah), (bl, bh), (cl, ch) = ((low or 0, high or 0) for low, high in pairs)
    products, depth = [x * y for x in (al, ah) for y in (bl, bh)], a.ids.shape[-1]
    return cl + depth * min(products), ch + depth * max(products)


# --- reductions and scans ---------------------------------------------------------------------------

#: kind of reduction -> (n-ary node of floats, pairwise float function, pairwise integer operation: signed, unsigned; of magnitudes?)
_REDUCTIONS: dict[str, tuple[Op | None, str, str, str, bool]] = {
    "sum": (Op.NSUM, "add", "arith.addi", "arith.addi", False), "abssum": (Op.NSUM, "add", "arith.addi", "arith.addi", True),
    "max": (Op.NMAX, "max", "arith.maxsi", "arith.maxui", False), "min": (Op.NMIN, "min", "arith.minsi", "arith.minui", False),
    "absmax": (Op.NMAX, "max", "arith.maxsi", "arith.maxui", True),
    "bitand": (None, "", "arith.andi", "arith.andi", False), "bitor": (None, "", "arith.ori", "arith.ori", False),
    "bitxor": (None, "", "arith.xori", "arith.xori", False),
}  # fmt: skip


@operation("reduce")
def _reduce(scope: Scope, op: TileOp) -> None:
    source, target, name, dim, clear = op.args[:5]
    if not isinstance(name, str) or name not in _REDUCTIONS:
        raise UnsupportedError(f"a reduction by {name}", feature="T.reduce")
    node, floating, signed, unsigned, magnitudes = _REDUCTIONS[name]
    shape, dtype = extents(scope, need_region(source)), dtype_of(scope, target)
    axis = integer_of(scope, dim) % len(shape)
    tile = spread(_as(scope, spread(read_region(scope, source), shape), dtype_of(scope, source), dtype), shape)
    if magnitudes:
        tile = _magnitude(scope, tile, dtype)
    along = map_rows(tile, lambda array: np.moveaxis(array, axis + 1, -1))
    if name == "absmax" and isinstance(along, Sym):  # starts from zero, which changes nothing and which compilers keep
        start = np.full((*along.ids.shape[:-1], 1), ZERO, np.int32)
        along = Sym(np.concatenate([start, along.ids], axis=-1), along.lo, along.hi)
    pair = _pairwise(scope, dtype, floating, signed if element(dtype).signed else unsigned)
    total = _folded(scope, along, node if kind_of(dtype, 0).is_float else None, pair)
    total = reshaped(total, extents(scope, need_region(target)))
    if not truth_of(scope, clear):
        total = pair(read_region(scope, target), total)
    write_region(scope, target, total)


def _magnitude(scope: Scope, tile: Value, dtype: str) -> Value:
    kind = kind_of(dtype, rows(tile).ndim - 1)
    if not kind.is_float and not isinstance(tile, Sym):
        return np.abs(tile)
    ids = rows(tile) if kind.is_float else exact_ids(scope.frame, tile, kind.width, element(dtype).signed)
    sizes = emitted(scope.arena.abs(id_operand(ids)), kind.rank)
    return Sym(sizes) if kind.is_float else Sym(sizes, 0, 1 << kind.width - 1)


def _pairwise(scope: Scope, dtype: str, floating: str, integer: str) -> Callable[[Value, Value], Value]:
    """A function of two tiles, of floats or of integers."""
    from dataclasses import replace

    def run(a: Value, b: Value) -> Value:
        rank = max(rows(a).ndim, rows(b).ndim) - 1
        tiles = replace(scope, lanes=(1,) * rank)
        if kind_of(dtype, 0).is_float:
            return float_operation(tiles, floating, a, b)
        return integer_operation(tiles, integer, kind_of(dtype, rank), a, b)

    return run


def _folded(scope: Scope, tile: Value, node: Op | None, pair: Callable[[Value, Value], Value]) -> Value:
    """A tile combined along its last axis."""
    if node is not None:
        ids = rows(tile)
        return Sym(ids[..., 0] if ids.shape[-1] == 1 else scope.arena.nary(node, ids))
    parts = [map_rows(tile, lambda array, i=i: array[..., i]) for i in range(rows(tile).shape[-1])]  # type: ignore[misc]
    while len(parts) > 1:
        parts = [pair(*parts[i : i + 2]) if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)]
    return parts[0]


@operation("cumsum", "cummax")
def _scan(scope: Scope, op: TileOp) -> None:
    """Inclusive prefix sums or maxima along a dimension, by doubling."""
    source, target, dim, reverse = op.args[:4]
    shape, dtype = extents(scope, need_region(source)), dtype_of(scope, target)
    axis = integer_of(scope, dim) % len(shape) + 1
    back = truth_of(scope, reverse)
    pair = _pairwise(scope, dtype, *(("add", "arith.addi") if op.op == "cumsum" else ("max", _maximum(dtype))))
    tile = _as(scope, spread(read_region(scope, source), shape), dtype_of(scope, source), dtype)
    tile = map_rows(spread(tile, shape), lambda array: _turned(np.moveaxis(array, axis, -1), back))
    distance, kind = 1, kind_of(dtype, len(shape))
    while distance < shape[axis - 1]:
        moved = pair(_part(tile, slice(None, -distance)), _part(tile, slice(distance, None)))
        tile = _joined(scope, _part(tile, slice(distance)), moved, kind)
        distance *= 2
    write_region(scope, target, map_rows(tile, lambda array: np.moveaxis(_turned(array, back), -1, axis)))


def _maximum(dtype: str) -> str:
    return "arith.maxsi" if element(dtype).signed else "arith.maxui"


def _turned(array: np.ndarray, back: bool) -> np.ndarray:
    return array[..., ::-1] if back else array


def _part(tile: Value, part: slice) -> Value:
    return map_rows(tile, lambda array: array[..., part])


def _joined(scope: Scope, left: Value, right: Value, kind: TtirType) -> Value:
    (a, b), remake = unify([left, right], kind, scope.arena)
    programs = max(a.shape[0], b.shape[0])
    return remake(np.concatenate([np.broadcast_to(x, (programs, *x.shape[1:])) for x in (a, b)], axis=-1))
