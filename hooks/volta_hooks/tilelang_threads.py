"""Tile programs of TileLang 0.1.14, read by a newer TileLang: their threads are loops, which newer ones take for work of every thread.

Newer ones bind the indices of threads at the start of a kernel and say how many there are on its block. Compiled as it is, an older program
would run each of its tiles in every thread.
"""

from __future__ import annotations

from typing import Any

import tilelang  # noqa: F401  (it brings its own TVM)
import tvm
from tvm import tirx

_INDEX, _COUNTS = "tl.launch_thread_idx", "tl.launch_threads"


def with_bound_threads(func: Any) -> Any:
    """The function as the installed TileLang writes it; as it is where that has loops itself, or where there are none."""
    try:
        index = tvm.ir.Op.get(_INDEX)
    except Exception:  # an older TileLang has no such operation
        return func
    return func.with_body(_bound(func.body, {}, index))


def _bound(stmt: Any, loops: dict[int, Any], index: Any) -> Any:
    kind = type(stmt).__name__
    if loops and not _axis(stmt, "threadIdx."):
        return _kernel(stmt, loops, index) if kind == "SBlockRealize" else stmt
    if kind == "SeqStmt":
        return tirx.SeqStmt([_bound(part, {}, index) for part in stmt.seq])
    if kind == "SBlockRealize":
        return _realized(stmt, _bound(stmt.block.body, {}, index), dict(stmt.block.annotations))
    if _axis(stmt, "blockIdx."):
        body = _bound(stmt.body, {}, index)
        return tirx.For(stmt.loop_var, stmt.min, stmt.extent, stmt.kind, body, stmt.thread_binding, stmt.annotations, stmt.step)
    axis = _axis(stmt, "threadIdx.")
    if axis and isinstance(stmt.extent, tirx.IntImm):
        inner = _bound(stmt.body, {**loops, "xyz".index(axis): stmt}, index)
        return stmt if inner.same_as(stmt.body) else inner
    return stmt


def _axis(stmt: Any, prefix: str) -> str:
    """x, y or z of a loop over blocks or threads; "" for anything else."""
    binding = stmt.thread_binding if type(stmt).__name__ == "For" else None
    tag = str(binding.thread_tag) if binding is not None else ""
    return tag[-1] if tag.startswith(prefix) else ""


def _kernel(stmt: Any, loops: dict[int, Any], index: Any) -> Any:
    """A kernel's block with its threads bound; axis -> the loop that was around it."""
    counts = [int(loops[axis].extent) if axis in loops else 1 for axis in range(3)]
    block = _realized(stmt, stmt.block.body, {**dict(stmt.block.annotations), _COUNTS: counts})
    binds = [tirx.Bind(loop.loop_var, tirx.Call("int32", index, [axis])) for axis, loop in sorted(loops.items())]
    return tirx.SeqStmt([*binds, block])


def _realized(stmt: Any, body: Any, annotations: dict[str, Any]) -> Any:
    old = stmt.block
    block = tirx.SBlock(
        old.iter_vars, old.reads, old.writes, old.name_hint, body, old.init, old.alloc_buffers, old.match_buffers, annotations
    )
    return tirx.SBlockRealize(stmt.iter_values, stmt.predicate, block)
