"""Launch specs in recordings: their candidate, compiled where it is code, is captured and compiled again from the same spec."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from ptx_engine.errors import LaunchError, UnsupportedError
from volta_pass.baseline.recording import Record, Recording
from volta_pass.check import CheckOptions, check_spec
from volta_pass.check.sides import ready_side
from volta_pass.job import ValidationJob
from volta_pass.kernel_report import KernelReport
from volta_pass.spec import Spec, read_spec


def record_spec(path: str, recording: Recording, options: CheckOptions) -> KernelReport:
    """Check a spec and record its candidate. Raises SpecError, ParseError, LaunchError."""
    spec = read_spec(path)
    report = check_spec(spec, options)
    job = _job(spec, options, Path(path))
    recording.add(job, job.recipe, report)
    return report


def recompile_spec(record: Record, options: CheckOptions) -> Record:
    """The candidate of the recorded spec as it is compiled now. Raises UnsupportedError where the spec is gone, SpecError."""
    path = Path(str(record.recipe.get("path", "")))
    if not path.is_file():
        raise UnsupportedError(f"{record.kernel}: the recorded spec {path} is not there any more", feature="recipe")
    job = _job(read_spec(path), options, path)
    return replace(record, ptx=job.ptx, entry=job.entry, launch=job.launch, toolchain=job.toolchain, report={}, assumptions=job.assumptions)


def _job(spec: Spec, options: CheckOptions, path: Path) -> ValidationJob:
    ready = ready_side(spec.candidate, spec, options)
    if not ready.text:
        raise LaunchError(f"{path}: its candidate is no PTX", hint="a baseline records what is compiled to PTX")
    side = spec.candidate
    return ValidationJob(
        kernel=ready.kernel, ptx=ready.text, launch=ready.launch, entry=ready.kernel,
        configuration={**side.constexprs, **side.options}, target=side.target.replace("cuda:", "sm_") if side.target else "",
        toolchain={name: text for name, text in ready.toolchain.items() if name != "target"},
        recipe={"compiler": "spec", "path": os.path.abspath(path)},
    )  # fmt: skip
