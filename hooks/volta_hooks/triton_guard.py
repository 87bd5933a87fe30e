"""What stands in front of a compiled Triton kernel's launches: a launch that is new gets validated, a known one costs a look-up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import triton

from ptx_engine.errors import PtxError, UnsupportedError
from ptx_engine.verdict import Status
from volta_hooks.policy import Action, Mode, action
from volta_hooks.session import Session
from volta_hooks.triton_arguments import adapt, contents_key, flatten, launch_key
from volta_hooks.triton_errors import KernelNotProved, KernelRefuted, ValidationFailure
from volta_hooks.triton_launch import CONSTANT, CapturedLaunch, capture
from volta_hooks.triton_tuning import compile_first, current_tuner, tuned_names
from volta_pass.check.triton_library import library_of
from volta_pass.job import FunctionReference, TtirReference, ValidationJob
from volta_pass.kernel_report import KernelReport
from volta_pass.reference_decorator import match_parameters, reference_of
from volta_pass.store import digest
from volta_pass.ttir_uses import ParameterUse, parameter_uses
from volta_pass.validate import contents_were_needed, failure_text

#: what a winner is compared with where the first configuration cannot be had
NO_FIRST = "no other configuration met this launch: the first one could not be compiled for it"


@dataclass(frozen=True)
class CompiledCode:
    """One compiled kernel, from Triton's cache or fresh: texts, signature, constants by parameter name, metadata."""

    name: str
    fn: Any
    ptx: str
    ttir: str
    names: tuple[str, ...]
    types: tuple[Any, ...]
    constants: Mapping[str, Any]
    metadata: Any
    compile_s: float
    #: what Triton specialised arguments on, by path
    attributes: Any = None


@contextmanager
def never_breaking(session: Session, name: str) -> Iterator[None]:
    """Only a ValidationFailure leaves: a launch that cannot be described, or a defect of ours, is said once, or in strict mode
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


class Guard:
    """Validates the launches of one compiled kernel; remembers what became of each."""

    def __init__(self, session: Session, code: CompiledCode) -> None:
        self.session = session
        self.code = code
        self.outcomes: dict[Any, ValidationFailure | None] = {}
        self.contents_matter = False
        self._source: tuple[str | None, list[ParameterUse]] | None = None

    def check(self, grid: tuple[int, int, int], args: tuple[Any, ...]) -> None:
        """Validate a launch that has not been seen. Raises ValidationFailure where the policy says so, and nothing else."""
        if 0 in grid:  # Triton launches nothing
            return
        with never_breaking(self.session, self.code.name):
            key = self._key(grid, args)
            if key in self.outcomes:
                failure = self.outcomes[key]
            else:
                failure = self._validate(grid, args)
                self.outcomes[self._key(grid, args)] = failure  # by now it is known whether contents matter
            if failure is not None:
                raise type(failure)(str(failure))

    def _key(self, grid: tuple[int, int, int], args: tuple[Any, ...]) -> Any:
        return (grid, launch_key(args), contents_key(args) if self.contents_matter else None)

    def _validate(self, grid: tuple[int, int, int], args: tuple[Any, ...]) -> ValidationFailure | None:
        """Validate a launch; what fails before a job exists is a report too."""
        try:
            return self._enforce(self._report(grid, args))
        except ValidationFailure:
            raise
        except PtxError as error:
            report = KernelReport(self.code.name, self.configuration(), self.target(), reason=error.message)
            report.errors.append(failure_text(report, "the launch could not be validated", error.render()))
            report.status = Status.UNSUPPORTED if error.kind == "unsupported" else Status.UNKNOWN
        except Exception as error:  # a defect of ours
            report = self.session.internal(self.code.name, self.configuration(), error)
        self.session.reports.append(report)
        return self._enforce(report)

    def _report(self, grid: tuple[int, int, int], args: tuple[Any, ...]) -> KernelReport:
        if not self.code.ptx:
            raise UnsupportedError(f"{self.code.name} was not compiled to PTX ({self.code.metadata.target.backend})", feature="target")
        source, uses = self.source()
        captured = capture(self.code.names, self.code.types, args, grid, self.code.metadata, uses)
        job, key = self._job(captured, source), self._tuning_key(args)
        if key and job.reference is None and key not in self.session.tunings:
            job = replace(job, assumptions=job.assumptions + self._meet_first(key))
        report = self.session.run(job, tuning_key=key, label=self._label())
        report.seconds["compile"] = self.code.compile_s
        self.contents_matter |= contents_were_needed(report)
        return report

    def _meet_first(self, key: str) -> tuple[str, ...]:
        """Make the first configuration's source the reference of a launch that only a tuner's winner makes; what is assumed if
        that fails."""

        def take(first: Guard, grid: tuple[int, int, int], args: tuple[Any, ...]) -> None:
            source, uses = first.source()
            if source is not None:
                launch = capture(first.code.names, first.code.types, args, grid, first.code.metadata, uses).launch
                self.session.open_tuning(key, TtirReference(source, launch, first._label()))

        try:
            compile_first(take)
        except Exception as error:
            self.session.say_once(f"{self.code.name}: the first configuration could not be compiled for a launch of the winner: {error}")
            return (NO_FIRST,)
        return ()

    def _enforce(self, report: KernelReport) -> ValidationFailure | None:
        """Print or return a failure; a diagnostic is printed here only where no exception will carry it to the user."""
        what = action(self.session.mode, report.status)
        if what is Action.PASS:
            return None
        if what is Action.WARN:
            self.session.show(report)
            return None
        if current_tuner.get() is not None:
            self.session.show(report)
        kind = KernelRefuted if report.status is Status.REFUTED else KernelNotProved
        return kind(self.session.text(report))

    # ------------------------------------------------------------------ the job

    def source(self) -> tuple[str | None, list[ParameterUse]]:
        """The kernel's TTIR in generic form and its parameters' uses; (None, []) where it cannot be read."""
        if self._source is None:
            self._source = self._read_source()
        return self._source

    def _read_source(self) -> tuple[str | None, list[ParameterUse]]:
        from volta_pass.references.generic import generic_of_text

        if not self.code.ttir:
            self.session.say_once(f"{self.code.name}: the compilation has no TTIR; only order and memory are checked")
            return None, []
        try:
            text = generic_of_text(self.code.ttir)
            return text, parameter_uses(text)
        except PtxError as error:
            self.session.say_once(f"{self.code.name}: its TTIR cannot be read, so there is nothing to compare with:\n{error.render()}")
            return None, []

    def _job(self, captured: CapturedLaunch, source: str | None) -> ValidationJob:
        code = self.code
        return ValidationJob(
            kernel=code.name,
            ptx=code.ptx,
            launch=captured.launch,
            entry=code.metadata.name,
            configuration=self.configuration(),
            target=self.target(),
            source=source,
            reference=self._function_reference(captured),
            contents=captured.contents,
            constants=dict(code.constants),
            library=library_of(source, int(code.metadata.target.arch)),
            recipe=self._recipe() if self.session.recording is not None else {},
            toolchain={"Triton": triton.__version__},
            options=self.session.options,
            assumptions=captured.assumptions,
        )

    def _recipe(self) -> dict[str, Any]:
        from volta_hooks.triton_recipe import recipe

        code = self.code
        return recipe(code.fn, dict(zip(code.names, code.types)), code.constants, code.attributes, code.metadata)

    def _function_reference(self, captured: CapturedLaunch) -> FunctionReference | None:
        fn = reference_of(self.code.fn)
        if fn is None:
            return None
        available = [arg.name for arg in captured.launch.args] + list(self.code.constants)
        label = f"the function {getattr(fn, '__name__', 'given')}"
        return FunctionReference(fn, match_parameters(fn, self.code.fn, available), captured.outputs, label)

    def target(self) -> str:
        return f"sm_{self.code.metadata.target.arch}"

    def configuration(self) -> dict[str, Any]:
        """Compile-time constants (of an autotuned kernel: the tuned ones) and launch options."""
        tuned = tuned_names(current_tuner.get())
        declared = {param.name for param in getattr(self.code.fn, "params", ()) if param.is_constexpr}
        shown = tuned & set(self.code.constants) or declared or set(self.code.constants)
        chosen = {n: v for n, v in self.code.constants.items() if n in shown and isinstance(v, (int, str, float, bool))}
        metadata = self.code.metadata
        return {**chosen, "num_warps": metadata.num_warps, "num_stages": getattr(metadata, "num_stages", 0)}

    def _label(self) -> str:
        """The configuration in short: ``BLOCK=128 w4 s3``."""
        short = {"num_warps": "w", "num_stages": "s"}
        return " ".join(f"{short[name]}{value}" if name in short else f"{name}={value}" for name, value in self.configuration().items())

    def _tuning_key(self, args: tuple[Any, ...]) -> str:
        """What all configurations of one tuning share: the kernel, its arguments, its constants that are not tuned."""
        tuner = current_tuner.get()
        if tuner is None:
            return ""
        tuned = tuned_names(tuner)
        fixed = sorted((name, repr(value)) for name, value in self.code.constants.items() if name not in tuned)
        positions = [i for i, kind in enumerate(self.code.types) if kind != CONSTANT]
        facts = launch_key(tuple(args[i] for i in positions))
        return digest(self.code.name, str(getattr(self.code.fn, "cache_key", "")), repr(facts), repr(fixed))


def guarded(guard: Guard, launch: Callable[..., Any]) -> Callable[..., Any]:
    """Triton's launcher behind a guard, with the launcher's own parameters (the same in 3.7, 3.8 and 3.9)."""

    def run(
        grid_x: int, grid_y: int, grid_z: int, stream: Any, function: Any, packed: Any, facts: Any, enter: Any, leave: Any, *args: Any
    ) -> Any:
        guard.check((grid_x, grid_y, grid_z), args)
        return launch(grid_x, grid_y, grid_z, stream, function, packed, facts, enter, leave, *args)

    return run


def adapted(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """NumPy arrays among a launch's arguments as tensors."""
    return tuple(adapt(arg) for arg in args), {name: adapt(value) for name, value in kwargs.items()}


def leaves_with_shapes(names: tuple[str, ...], values: tuple[Any, ...], types: tuple[Any, ...]) -> bool:
    """Whether every pointer argument says how large it is, so that a launch can be validated without being made."""
    return all(hasattr(v, "shape") and hasattr(v, "data_ptr") for _, v, kind in flatten(names, values, types) if str(kind).startswith("*"))
