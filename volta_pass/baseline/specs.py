"""Launch specs in recordings: their candidate, compiled where it is code, is captured and compiled again from the same spec."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ptx_engine.errors import LaunchError, PtxError, UnsupportedError
from volta_pass.baseline.recompile import CompileFailedError
from volta_pass.baseline.recording import Record, record_of
from volta_pass.check import CheckOptions, check_spec
from volta_pass.check.sides import CompilerRefusedError, ReadySide, ready_side
from volta_pass.check.triton_library import library_of
from volta_pass.cuda import CudaCompileError
from volta_pass.job import ValidationJob
from volta_pass.kernel_report import KernelReport
from volta_pass.references.generic import generic_of_text
from volta_pass.spec import SideSpec, Spec, read_sweep, with_defines


@dataclass(frozen=True)
class SpecPoint:
    """A spec, or one combination of its [sweep]: its file, what it is called there, and macros of the command line."""

    path: str
    configuration: Mapping[str, Any]
    defines: tuple[str, ...] = ()

    def label(self) -> str:
        """File and combination on one line."""
        return " ".join([self.path, *(f"{name}={value}" for name, value in self.configuration.items())])


def points_of(paths: Sequence[str], defines: Sequence[str]) -> list[SpecPoint]:
    """Every spec of the files. Raises SpecError."""
    return [SpecPoint(path, named, tuple(defines)) for path in paths for _, named in read_sweep(path)]


def spec_record(point: SpecPoint, options: CheckOptions) -> tuple[Record, KernelReport]:
    """Check a spec and capture its candidate. Raises SpecError, ParseError, LaunchError."""
    spec = _spec(point)
    report = check_spec(spec, options)
    report.configuration = {"spec": point.path, **point.configuration}
    job = _job(spec, options, point)
    return record_of(job, job.recipe, report), report


def recompile_spec(record: Record, options: CheckOptions) -> Record:
    """The candidate of the recorded spec as it is compiled now.

    Raises UnsupportedError where the spec is gone, CompileFailedError where the compiler refuses, SpecError, LaunchError.
    """
    recipe = record.recipe
    path, named, defines = str(recipe.get("path", "")), recipe.get("point", {}), recipe.get("defines", [])
    if not isinstance(named, Mapping) or not isinstance(defines, list) or not all(isinstance(text, str) for text in defines):
        raise LaunchError(f"{record.kernel}: the recorded recipe is damaged")
    if not Path(path).is_file():
        raise UnsupportedError(f"{record.kernel}: the recorded spec {path} is not there any more", feature="recipe")
    point = SpecPoint(path, named, tuple(defines))
    try:
        job = _job(_spec(point), options, point)
    except (CompilerRefusedError, CudaCompileError) as error:
        raise CompileFailedError(error.message) from error
    return replace(
        record, ptx=job.ptx, entry=job.entry, source=job.source, launch=job.launch, toolchain=job.toolchain, report={},
        assumptions=job.assumptions, library=job.library,
    )  # fmt: skip


def _spec(point: SpecPoint) -> Spec:
    """The spec of a point. Raises SpecError, and UnsupportedError where the file's sweep has no such combination any more."""
    for spec, named in read_sweep(point.path):
        if dict(named) == dict(point.configuration):
            return with_defines(spec, point.defines)
    raise UnsupportedError(f"{point.path} has no configuration {dict(point.configuration)} any more", feature="recipe")


def _job(spec: Spec, options: CheckOptions, point: SpecPoint) -> ValidationJob:
    ready = ready_side(spec.candidate, spec, options)
    if not ready.text:
        raise LaunchError(f"{point.path}: its candidate is no PTX", hint="a baseline records what is compiled to PTX")
    side = spec.candidate
    source = _tile_program(ready)
    return ValidationJob(
        kernel=ready.kernel, ptx=ready.text, launch=ready.launch, entry=ready.kernel, source=source, library=_library(source, side),
        configuration={"spec": point.path, **side.constexprs, **side.options, **side.defines},
        target=side.target.replace("cuda:", "sm_") if side.target else "",
        toolchain={name: text for name, text in ready.toolchain.items() if name != "target"},
        recipe={
            "compiler": "spec", "path": os.path.abspath(point.path), "point": dict(point.configuration), "defines": list(point.defines),
        },
    )  # fmt: skip


def _tile_program(ready: ReadySide) -> str | None:
    """A Triton kernel's own TTIR in generic form; None for other kernels, and where no MLIR can read it."""
    if ready.own_source is None:
        return None
    try:
        return generic_of_text(ready.own_source.ttir)
    except PtxError:
        return None


def _library(source: str | None, side: SideSpec) -> dict[str, str] | None:
    return None if source is None else library_of(source, int(side.target.partition(":")[2]))
