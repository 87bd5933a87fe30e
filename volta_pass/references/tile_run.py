"""Runs the statements of a tile program over all programs of a batch at once: loops, conditions, stores, tile operations.

Programs that a loop bound or a condition tells apart run apart; lanes of a parallel loop are masked; a symbolic condition
guards the stores to a program's own buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ptx_engine.errors import NotStructuredError, PtxError
from volta_pass.references.tile_expr import evaluate, numbers
from volta_pass.references.tile_hazards import Nest, perfect_nest, watch
from volta_pass.references.tile_logic import opposite, truth
from volta_pass.references.tile_ops import run_operation
from volta_pass.references.tile_program import Alloc, Bind, For, If, Stmt, Store, TileOp, While
from volta_pass.references.tile_scope import Scope
from volta_pass.references.ttir_values import Sym


@dataclass(frozen=True, slots=True)
class TileOrigin:
    """Who emitted a term: a statement of the tile program, and its place "file.py:12:3"."""

    op_name: str
    user_loc: str

    def __str__(self) -> str:
        return f"{self.op_name} at {self.user_loc}" if self.user_loc else self.op_name


def run_block(scope: Scope, block: Sequence[Stmt]) -> None:
    """Run statements in order; failures get the place of the statement that failed."""
    for stmt in block:
        name = stmt.op if isinstance(stmt, TileOp) else type(stmt).__name__.lower()
        scope.arena.origin = TileOrigin(name, stmt.at)
        try:
            _RUN[type(stmt)](scope, stmt)
        except PtxError as error:
            error.user_loc = error.user_loc or stmt.at
            raise
    scope.frame.budget.check(scope.arena)


def _store(scope: Scope, stmt: Store) -> None:
    value = evaluate(scope, stmt.value)
    index = [numbers(scope, part, "an index") for part in stmt.index]
    scope.memory.store_elements(scope, stmt.buffer, index, value)


def _bind(scope: Scope, stmt: Bind) -> None:
    scope.env[stmt.var] = evaluate(scope, stmt.value)


def _alloc(scope: Scope, stmt: Alloc) -> None:
    scope.memory.allocate(scope, stmt.buffer)


def _if(scope: Scope, stmt: If) -> None:
    condition = truth(scope, evaluate(scope, stmt.condition))
    if isinstance(condition, Sym):
        otherwise = opposite(scope, condition)
        assert isinstance(otherwise, Sym)
        run_block(scope.guarded(condition), stmt.then)
        if stmt.orelse:
            run_block(scope.guarded(otherwise), stmt.orelse)
        return
    for active, block in ((condition, stmt.then), (~condition, stmt.orelse)):
        inner = _where(scope, active) if block else None
        if inner is not None:
            run_block(inner, block)


def _where(scope: Scope, active: np.ndarray) -> Scope | None:
    """The scope of the programs and lanes for which a condition holds; None if there are none."""
    if not active.any():
        return None
    if active.all():
        return replace(scope, env=dict(scope.env))
    if active.size == active.shape[0]:
        return scope.narrowed(np.flatnonzero(active))
    return scope.masked(active)


def _for(scope: Scope, stmt: For) -> None:
    start, extent = numbers(scope, stmt.start, "a loop bound"), numbers(scope, stmt.extent, "a loop bound")
    count = int(extent.max(initial=0))
    if count <= 0:
        return
    if stmt.kind == "parallel":
        _parallel(scope, stmt, start, extent, count)
        return
    uniform = bool((extent == count).all())
    for step in range(count):
        inner = scope if uniform else _where(scope, np.asarray(step < extent))
        if inner is not None:
            inner.env[stmt.var] = _rows_of(start + start.dtype.type(step), scope, inner)
            run_block(inner, stmt.body)


def _rows_of(value: np.ndarray, outer: Scope, inner: Scope) -> np.ndarray:
    """A column of the outer scope's programs, for the inner scope's."""
    if value.shape[0] == 1 or inner.programs == outer.programs:
        return value
    return np.asarray(value[np.searchsorted(outer.positions(), inner.positions())])


def _parallel(scope: Scope, stmt: For, start: np.ndarray, extent: np.ndarray, count: int) -> None:
    """All iterations at once, on an axis of their own."""
    lanes = scope.with_lane(stmt.var, start, count)
    depth = len(perfect_nest(stmt))
    if not any(nest.first <= scope.rank < nest.last for nest in scope.nests):
        lanes = replace(lanes, nests=(*scope.nests, Nest(scope.rank, scope.rank + depth, watch(scope.memory.program, stmt))))
    if (extent != count).any():
        lanes = lanes.masked(np.arange(count) < extent[..., None])
    run_block(lanes, stmt.body)


def _while(scope: Scope, stmt: While) -> None:
    """Until no program's condition holds."""
    while True:
        condition = truth(scope, evaluate(scope, stmt.condition))
        if isinstance(condition, Sym):
            raise NotStructuredError("the condition of a while loop depends on symbolic data", feature="while")
        inner = _where(scope, condition)
        if inner is None:
            return
        run_block(inner, stmt.body)
        scope = inner


_RUN: dict[type, Callable[[Scope, Any], None]] = {
    For: _for, While: _while, If: _if, Bind: _bind, Store: _store, Alloc: _alloc, TileOp: run_operation,
}  # fmt: skip
