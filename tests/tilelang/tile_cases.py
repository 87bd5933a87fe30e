"""Tile programs evaluated to terms, and the terms to numbers at given inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ptx_engine.decide.oracle import Reals
from ptx_engine.findings import Finding
from ptx_engine.launch import SYMBOLIC, BoundLaunch, Launch, Role, ScalarArg, TensorArg, bind
from ptx_engine.terms.arena import Arena
from volta_hooks.tilelang_source import tile_programs
from volta_pass.references.tile import evaluate, grid_of, load_program
from volta_pass.references.tile_types import element


@dataclass
class Result:
    """Numbers written per tensor (NaN where nothing was written), and what is wrong with the program itself."""

    numbers: dict[str, np.ndarray]
    findings: list[Finding]


def run(func: object, data: Mapping[str, object], grid: tuple[int, int, int] | None = None, fixed: tuple[str, ...] = ()) -> Result:
    """Evaluate a PrimFunc with one kernel; tensors take shapes and numbers from ``data``; ``fixed`` ones are concrete contents."""
    program = load_program(tile_programs(func)[0])
    args: list[TensorArg | ScalarArg] = []
    for param in func.params:  # type: ignore[attr-defined]
        if param in func.buffer_map:  # type: ignore[attr-defined]
            buffer = func.buffer_map[param]  # type: ignore[attr-defined]
            values = np.asarray(data[buffer.name])
            contents = values if buffer.name in fixed else SYMBOLIC
            args.append(TensorArg(str(buffer.name), element(str(buffer.dtype)).launch, values.shape, Role.INOUT, contents=contents))
        else:
            value = data[param.name]
            kind = element(str(param.dtype)).launch
            args.append(ScalarArg(str(param.name), kind, int(value) if isinstance(value, int) else SYMBOLIC))
    extents = grid if grid is not None else grid_of(program)
    bound = bind(Launch(extents, (128, 1, 1), tuple(args)), Arena())  # type: ignore[arg-type]
    findings: list[Finding] = []
    footprints = evaluate(program, bound, findings=findings)
    flat = np.concatenate([np.asarray(data[e.name], np.float64).ravel() for e in bound.arena.inputs] or [np.zeros(0)])
    return Result(_numbers(bound, footprints, flat), findings)


def _numbers(bound: BoundLaunch, footprints: Mapping[str, object], flat: np.ndarray) -> dict[str, np.ndarray]:
    wanted = np.concatenate([f.ids for f in footprints.values()] or [np.zeros(0, np.int32)])  # type: ignore[attr-defined]
    reals = Reals(bound.arena, wanted, lambda ids: flat[-1 - np.asarray(ids, np.int64)][:, None])
    found = {}
    for name, footprint in footprints.items():
        arg = bound.by_name[name].arg
        whole = np.full(arg.storage, np.nan)
        whole[footprint.index] = reals.of(footprint.ids)[:, 0]  # type: ignore[attr-defined]
        found[name] = whole.reshape(arg.shape)
    return found
