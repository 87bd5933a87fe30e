"""Tile programs as a reference: what a TileLang kernel means before its first pass, run over all blocks, emitting terms.

A block runs its statements one after another on whole tiles: no threads, no pipelines, no layouts. Blocks are assumed not to
communicate except by atomics (else: findings).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptx_engine.errors import BudgetError, LaunchError
from ptx_engine.findings import Finding
from ptx_engine.launch import BoundLaunch, Footprint, ScalarArg, TensorArg
from volta_pass.references import tile_atomics, tile_calls  # noqa: F401  (operation tables register themselves)
from volta_pass.references.budget import Budget
from volta_pass.references.contents import float_ids
from volta_pass.references.finding_log import FindingLog
from volta_pass.references.freedoms import Freedoms
from volta_pass.references.memory_format import dtype_range
from volta_pass.references.tile_expr import numbers
from volta_pass.references.tile_memory import TileMemory
from volta_pass.references.tile_program import Expr, TileProgram, load_program
from volta_pass.references.tile_run import run_block
from volta_pass.references.tile_scope import Scope
from volta_pass.references.ttir_frame import Frame
from volta_pass.references.ttir_values import Sym, Value

#: elements of all buffers of a block, times blocks, that are evaluated at once
BATCH_ELEMENTS = 1 << 23


def evaluate(
    program: TileProgram,
    bound: BoundLaunch,
    blocks: Sequence[tuple[int, int, int]] | None = None,
    budget: Budget | None = None,
    findings: list[Finding] | None = None,
    freedoms: Freedoms | None = None,
) -> dict[str, Footprint]:
    """Run the program over the launch's grid; what it wrote, per tensor.

    ``blocks`` are the blocks to run (default: the launch's CTAs; all of them where the compiler runs blocks in another
    order). What is wrong with the tile program itself is appended to ``findings``, what it leaves open to ``freedoms``.
    Raises LaunchError, NotStructuredError, UnsupportedError, BudgetError.
    """
    budget = budget or Budget()
    log = FindingLog(bound.launch.grid)
    sizes = _sizes(program, bound)
    memory = TileMemory(program, bound, log, (), ())
    memory.freedoms = freedoms or memory.freedoms
    outer = Scope(_frame(memory, budget, bound), memory, dict(sizes), np.zeros(1, np.int32))
    memory.shapes = [_extents(outer, decl.shape) for decl in program.buffers]
    memory.strides = [_extents(outer, decl.strides) or _compact(shape) for decl, shape in zip(program.buffers, memory.shapes)]
    grid = _extents(outer, program.grid)
    if grid != bound.launch.grid:
        raise LaunchError(f"{program.name} runs on a grid of {grid}, the launch on {bound.launch.grid}")
    previous = bound.arena.origin
    try:
        _run(program, outer, sizes, _block_ids(program, bound, blocks))
    except MemoryError as error:
        raise BudgetError(f"the reference is too large: {error}", feature="terms") from None
    finally:
        bound.arena.origin = previous
    if findings is not None:
        findings.extend(log.findings())
    return memory.footprints()


def grid_of(program: TileProgram) -> tuple[int, ...]:
    """The grid of a program without symbolic extents. Raises UnsupportedError where it has any."""
    from ptx_engine.launch import Launch, bind
    from ptx_engine.terms.arena import Arena

    bound = bind(Launch((1, 1, 1), (1, 1, 1), ()), Arena())
    memory = TileMemory(program, bound, FindingLog((1, 1, 1)), (), ())
    return _extents(Scope(_frame(memory, Budget(), bound), memory, {}, np.zeros(1, np.int32)), program.grid)


def _frame(memory: TileMemory, budget: Budget, bound: BoundLaunch) -> Frame:
    nothing = np.zeros(1, np.int32)
    return Frame([], (nothing, nothing, nothing), nothing, memory, budget, bound.launch.grid)


def _run(program: TileProgram, outer: Scope, sizes: dict[int, Value], ids: np.ndarray) -> None:
    memory, grid = outer.memory, outer.frame.grid
    own = sum(int(np.prod(shape, dtype=np.int64)) for decl, shape in zip(program.buffers, memory.shapes) if not decl.param)
    batch = max(1, BATCH_ELEMENTS // max(1, own))
    for first in range(0, ids.shape[1], batch):
        x, y, z = (row.astype(np.int32) for row in ids[:, first : first + batch])
        env = dict(sizes)
        env.update({var: row for var, row in zip(program.blocks, (x, y, z)) if var >= 0})
        memory.begin(len(x))
        run_block(Scope(outer.frame, memory, env, (x + grid[0] * (y + grid[1] * z)).astype(np.int32)), program.body)


def _extents(scope: Scope, exprs: Sequence[Expr]) -> tuple[int, ...]:
    return tuple(int(numbers(scope, expr, "an extent").item()) for expr in exprs)


def _compact(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _block_ids(program: TileProgram, bound: BoundLaunch, blocks: Sequence[tuple[int, int, int]] | None) -> np.ndarray:
    """Block indices as rows x, y, z."""
    chosen = blocks if blocks is not None else None if program.swizzled else bound.launch.ctas
    if chosen is None:
        x, y, z = bound.launch.grid
        number = np.arange(x * y * z)
        return np.array([number % x, number // x % y, number // (x * y)])
    return np.array(chosen, np.int64).reshape(-1, 3).T


def _sizes(program: TileProgram, bound: BoundLaunch) -> dict[int, Value]:
    """Values of scalar arguments and of symbolic extents; those of arguments that the kernel does not take are not needed."""
    by_name = {arg.name: arg for arg in bound.launch.args}
    found: dict[int, Value] = {}
    for var, (name, dim) in program.sizes.items():
        arg = by_name.get(name)
        if arg is None:
            continue
        if not isinstance(arg, TensorArg) or dim >= 2 * len(arg.shape):
            raise LaunchError(f"{program.name}: no tensor argument {name} with a dimension {dim}")
        found[var] = np.array([(*arg.shape, *arg.element_strides())[dim]], np.int32)
    for var, name in program.scalars.items():
        scalar = by_name.get(name)
        if scalar is None:
            continue
        if not isinstance(scalar, ScalarArg):
            raise LaunchError(f"{program.name}: no scalar argument is named {name}")
        found[var] = _scalar(scalar, bound)
    return found


def _scalar(arg: ScalarArg, bound: BoundLaunch) -> Value:
    floating = not arg.dtype.startswith(("s", "u", "pred"))
    if isinstance(arg.value, str):
        ids = np.array([bound.scalar_ids[arg.name]], np.int32)
        return Sym(ids) if floating else Sym(ids, *dtype_range(arg.dtype))
    if floating:
        return Sym(float_ids(np.array([arg.value], np.float64), arg.dtype, bound.arena))
    width = 1 if arg.dtype == "pred" else int(arg.dtype[1:])
    if width == 1:
        return np.array([bool(arg.value)])
    bits = int(arg.value) & ((1 << width) - 1)
    return np.array([bits], np.uint64).astype(f"u{width // 8}").view(f"i{width // 8}")


__all__ = ["Budget", "TileProgram", "evaluate", "load_program"]
