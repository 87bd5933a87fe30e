"""Sides made ready to run: PTX is parsed and matched with its launch, code is imported and compiled, then evaluated."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ptx_engine.errors import LaunchError, PtxError
from ptx_engine.findings import Finding
from ptx_engine.launch import BoundLaunch, Footprint, Launch
from ptx_engine.syntax.ast import Module
from volta_pass.check.entry import check_arguments, find_entry
from volta_pass.check.module_values import with_globals
from volta_pass.check.options import CheckOptions
from volta_pass.check.ptx_file import read_ptx
from volta_pass.spec import SideKind, SideSpec, Spec, SpecError
from volta_pass.spec.structure import spec_error, suggestion


@dataclass
class SideRun:
    """What one side wrote and did. ``ctas`` is (executed, total)."""

    footprints: dict[str, Footprint]
    findings: list[Finding] = field(default_factory=list)
    ctas: tuple[int, int] = (0, 0)
    instructions: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    assumptions: list[str] = field(default_factory=list)
    #: why this run does not stand for all schedules
    dependent: list[str] = field(default_factory=list)
    #: whether its CTA batches ran in several processes: then terms have no places in the PTX
    split: bool = False


@dataclass
class ReadySide:
    """A side that can run on a bound launch. ``kernel`` names it; ``ptx_name`` is the PTX file of its sites."""

    side: SideSpec
    kernel: str
    launch: Launch
    run: Callable[[BoundLaunch], SideRun]
    seconds: dict[str, float]
    ptx_name: str = ""
    #: the PTX, of a side that is or was compiled to PTX
    text: str = ""
    toolchain: dict[str, str] = field(default_factory=dict)
    #: what its module declares: variables and functions
    names: frozenset[str] = frozenset()
    #: the tile program of a Triton candidate: its reference where the spec has none
    own_source: ReadySide | None = None
    #: the TTIR that a tile program was compiled to, as Triton prints it
    ttir: str = ""


class CompilerRefusedError(SpecError):
    """A spec is in order and its kernel is not: the compiler's own words."""


def ready_side(side: SideSpec, spec: Spec, options: CheckOptions) -> ReadySide:
    """A side, parsed or compiled. Raises SpecError, ParseError, UnsupportedError."""
    if side.runs_code and not options.allow_code:
        raise SpecError(
            f"[{side.side}] names code to import: {side.kind.value} = {side.source!r}", span=side.span, source_line=side.source_line,
            hint="pass --allow-code if you trust this spec",
        )  # fmt: skip
    if side.kind is SideKind.CUDA:
        from volta_pass.check.cuda_side import ready_cuda

        return ready_cuda(side, spec, options)
    if side.kind is SideKind.PTX:
        return ready_ptx(side, read_text(side), spec, options)
    if side.kind is SideKind.TRITON:
        from volta_pass.check.triton_side import ready_triton

        return ready_triton(side, spec, options)
    from volta_pass.check.python_side import ready_python

    return ready_python(side, spec)


def refuse_unknown_names(spec: Spec, sides: Sequence[ReadySide]) -> None:
    """Raise SpecError for a name in [globals] or [externs] that no side's PTX declares."""
    declared = sorted(frozenset[str]().union(*(side.names for side in sides)))
    for table, names in (("globals", spec.globals), ("externs", spec.externs)):
        for name in names:
            if name not in declared:
                raise spec_error(spec.table, (table, name), f"[{table}] {name} is declared by neither side", suggestion(name, declared))


def read_text(side: SideSpec) -> str:
    """A side's text, given or in its file. Raises SpecError."""
    if side.text is not None:
        return side.text
    try:
        return read_ptx(side.source, "paths are relative to the spec file")
    except LaunchError as error:
        raise SpecError(f"[{side.side}] {error.message}", span=side.span, source_line=side.source_line, hint=error.hint) from None


def ready_ptx(side: SideSpec, text: str, spec: Spec, options: CheckOptions, ptx_name: str = "") -> ReadySide:
    """A PTX side. Raises ParseError with the file's name, SpecError where launch and entry do not fit."""
    from ptx_engine.syntax import parse

    name = ptx_name or side.source
    start = time.perf_counter()
    module = with_globals(parse(text, name), spec.globals, side)
    entry = find_entry(module, side)
    check_arguments(entry, side)
    seconds = {"parse": time.perf_counter() - start}

    def run(bound: BoundLaunch) -> SideRun:
        try:
            return _execute(module, entry.name, bound, options, text, spec.externs)
        except PtxError as error:
            error.place_in(name, text)
            raise

    names = frozenset(v.name for v in module.variables) | frozenset(f.name for f in module.functions)
    return ReadySide(side, entry.name, side.launch, run, seconds, name, text, names=names)


def _execute(module: Module, entry: str, bound: BoundLaunch, options: CheckOptions, text: str, externs: dict[str, str]) -> SideRun:
    from ptx_engine.machine import execute

    split = False
    if options.workers > 1:
        from volta_pass.parallel.batches import execute_in_parts

        done, split = execute_in_parts(
            module,
            entry,
            bound,
            options.workers,
            budget=options.budget(),
            source=text,
            externs=externs,
            memory_mib=options.memory_mib,
            outputs=options.outputs,
        )
    else:
        done = execute(module, entry, bound, budget=options.budget(), source=text, externs=externs)
    return SideRun(
        done.footprints, done.findings, (done.ctas_executed, done.ctas_total), done.instructions, done.seconds,
        done.assumptions, done.schedule_dependent, split,
    )  # fmt: skip
