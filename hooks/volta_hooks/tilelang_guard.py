"""Validates the kernels of one compiled TileLang function, at the sizes of a launch or, ahead of one, at sizes of our choice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tilelang
from tvm import tirx

from ptx_engine.errors import PtxError, UnsupportedError
from ptx_engine.launch import Launch, Role, TensorArg
from ptx_engine.verdict import Status
from volta_hooks.policy import Action, Mode, action
from volta_hooks.session import Session
from volta_hooks.tilelang_again import recipe
from volta_hooks.tilelang_errors import KernelNotProved, KernelRefuted, ValidationFailure
from volta_hooks.tilelang_launch import DISJOINT, KernelCall, kernel_calls, make_launch, symbolic_sizes
from volta_hooks.tilelang_library import remedy_of
from volta_hooks.tilelang_source import tile_programs
from volta_pass.job import FunctionReference, ValidationJob, contents_digest
from volta_pass.kernel_report import KernelReport
from volta_pass.reference_decorator import match_parameters
from volta_pass.validate import contents_were_needed, failure_text

#: what symbolic extents are taken to be ahead of a launch: a multiple of most tiles, and a ragged one
AHEAD = (128, 136)

Contents = Mapping[str, Callable[[], np.ndarray]]


@dataclass(frozen=True)
class Tuned:
    """Where a configuration of an autotuner belongs: ``key`` names the tuning, ``configuration`` what was chosen."""

    key: str
    configuration: Mapping[str, Any]
    reference: Callable[..., Any] | None = None


@dataclass
class CompiledFunction:
    """One compiled function: its PrimFunc before the first pass, its module of host and kernels, the PTX of its module."""

    func: tirx.PrimFunc
    lowered: Any
    ptx: str
    target: str
    compile_s: float = 0.0
    tuned: Tuned | None = None
    #: PTX of the library functions that a tile program calls
    library: Callable[[str], Mapping[str, str] | None] = lambda source: None
    #: pass configurations of its compilation
    config: Mapping[str, Any] = field(default_factory=dict)
    outcomes: dict[Any, ValidationFailure | None] = field(default_factory=dict)
    #: a kernel could not be decided without the contents of integer tensors
    needs_contents: bool = False
    #: a verdict was reached that holds for the contents of its launch only
    contents_matter: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def name(self) -> str:
        return str(self.func.attrs["global_symbol"]) if self.func.attrs else "kernel"


@contextmanager
def never_breaking(session: Session, name: str) -> Iterator[None]:
    """Only a ValidationFailure leaves: a kernel that cannot be described, or a defect of ours, is said once, or in strict mode
    raised."""
    try:
        yield
    except ValidationFailure:
        raise
    except PtxError as error:
        if session.mode is Mode.STRICT:
            raise KernelNotProved(error.render()) from error
        session.say_once(f"{name}: not validated\n{error.render()}")
    except Exception as error:
        if session.mode is Mode.STRICT:
            raise
        session.say_once(f"{name}: not validated, internal error: {type(error).__name__}: {error}")


def check_ahead(session: Session, compiled: CompiledFunction) -> None:
    """Validate a function that has just been compiled. Raises ValidationFailure where the policy says so."""
    names = symbolic_sizes(compiled.func)
    for size in AHEAD if names else AHEAD[:1]:
        check(session, compiled, dict.fromkeys(names, size))


def check(
    session: Session, compiled: CompiledFunction, values: Mapping[str, Any], contents: Contents | None = None, on_host: Collection[str] = ()
) -> None:
    """Validate a function's kernels at given sizes and scalars, once. Raises ValidationFailure where the policy says so.

    Other contents of the tensors ``on_host`` are another launch, where contents matter; reading those on a device would wait
    for it at every call.
    """
    contents = contents or {}
    with compiled._lock:
        key = _key(compiled, values, contents, on_host)
        if key not in compiled.outcomes:
            failure = None
            with never_breaking(session, compiled.name):
                failure = _validate(session, compiled, values, contents)
            key = _key(compiled, values, contents, on_host)  # by now it is known whether contents matter
            compiled.outcomes[key] = failure
        failure = compiled.outcomes[key]
    if failure is not None:
        raise type(failure)(str(failure))


def _key(compiled: CompiledFunction, values: Mapping[str, Any], contents: Contents, on_host: Collection[str]) -> Any:
    """What a verdict holds for."""
    matter = sorted(contents.keys() & set(on_host)) if compiled.contents_matter else []
    return tuple(sorted(values.items())), bool(contents), tuple(contents_digest(contents[name]()) for name in matter)


def _validate(session: Session, compiled: CompiledFunction, values: Mapping[str, Any], contents: Contents) -> ValidationFailure | None:
    failures = [_enforce(session, compiled, report) for report in _reports(session, compiled, values, contents)]
    return next((failure for failure in failures if failure is not None), None)


def _reports(session: Session, compiled: CompiledFunction, values: Mapping[str, Any], contents: Contents) -> list[KernelReport]:
    """One report for each kernel; what fails before a job exists is a report too."""
    try:
        sources, calls = tile_programs(compiled.func), kernel_calls(compiled.lowered)
        if len(sources) != len(calls):
            raise UnsupportedError(f"{len(sources)} kernels in the source, {len(calls)} in the compiled module", feature="T.Kernel")
        jobs = [_job(session, compiled, i, call, source, values, contents) for i, (call, source) in enumerate(zip(calls, sources))]
    except PtxError as error:
        return [_failed(session, compiled, error, "unsupported" if error.kind == "unsupported" else "unknown")]
    except Exception as error:  # a defect of ours
        report = session.internal(compiled.name, {}, error)
        session.reports.append(report)
        return [report]
    tuned = compiled.tuned
    reports = []
    for i, job in enumerate(jobs):
        key = f"{tuned.key}#{i}" if tuned is not None and tuned.key else ""
        report = session.run(job, tuning_key=key, label=label_of(job.configuration))
        report.seconds["compile"] = compiled.compile_s
        compiled.needs_contents |= report.status is Status.UNKNOWN and _integers(job)
        compiled.contents_matter |= contents_were_needed(report)
        reports.append(report)
    return reports


def _failed(session: Session, compiled: CompiledFunction, error: PtxError, status: str) -> KernelReport:
    report = KernelReport(compiled.name, _configuration(compiled, {}), compiled.target, Status(status), reason=error.message)
    report.errors.append(failure_text(report, "the launch could not be validated", error.render()))
    session.reports.append(report)
    return report


def _job(
    session: Session, compiled: CompiledFunction, number: int, call: KernelCall, source: str, values: Mapping[str, Any], contents: Contents
) -> ValidationJob:
    launch = make_launch(compiled.func, call, source, values)
    tensors = [arg for arg in launch.args if isinstance(arg, TensorArg)]
    return ValidationJob(
        kernel=call.kernel,
        ptx=compiled.ptx,
        launch=launch,
        entry=call.kernel,
        configuration=_configuration(compiled, values),
        target=compiled.target,
        source=source,
        reference=_function_reference(compiled, launch),
        contents={name: load for name, load in contents.items() if name in {arg.name for arg in tensors}},
        toolchain={"TileLang": tilelang.__version__},
        options=session.options,
        library=compiled.library(source),
        remedy=remedy_of(source),
        assumptions=(DISJOINT,) if len(tensors) > 1 else (),
        language="tile",
        recipe=recipe(compiled.func, number, values, compiled.config) if session.recording is not None else {},
    )


def _configuration(compiled: CompiledFunction, values: Mapping[str, Any]) -> dict[str, Any]:
    chosen = dict(compiled.tuned.configuration) if compiled.tuned is not None else {}
    return {**chosen, **{name: value for name, value in values.items() if isinstance(value, (int, float))}}


def _integers(job: ValidationJob) -> bool:
    """Whether the launch has integer inputs whose contents nobody gave."""
    tensors = [arg for arg in job.launch.args if isinstance(arg, TensorArg) and arg.role is not Role.OUT]
    return not job.contents and any(not arg.is_float for arg in tensors)


def _function_reference(compiled: CompiledFunction, launch: Launch) -> FunctionReference | None:
    fn = compiled.tuned.reference if compiled.tuned is not None else None
    if fn is None:
        return None
    names = [arg.name for arg in launch.args]
    outputs = tuple(arg.name for arg in launch.args if isinstance(arg, TensorArg) and arg.role is not Role.IN)
    return FunctionReference(fn, match_parameters(fn, compiled.name, names), outputs, f"the function {getattr(fn, '__name__', 'given')}")


def label_of(configuration: Mapping[str, Any]) -> str:
    """A configuration in short."""
    return " ".join(f"{name}={value}" for name, value in configuration.items())


def _enforce(session: Session, compiled: CompiledFunction, report: KernelReport) -> ValidationFailure | None:
    """Print or return a failure; an autotuner keeps exceptions to itself, so that its diagnostics are printed here."""
    what = action(session.mode, report.status)
    if what is Action.PASS:
        return None
    if what is Action.WARN or (compiled.tuned is not None and compiled.tuned.key):
        session.show(report)
    if what is Action.WARN:
        return None
    kind = KernelRefuted if report.status is Status.REFUTED else KernelNotProved
    return kind(session.text(report))
