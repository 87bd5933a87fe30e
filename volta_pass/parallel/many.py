"""Many specs or jobs, each checked or validated by some worker: the same reports in the same order as one after the other.

A spec that cannot be read, a defect of ours and a lost worker are outcomes of that one spec; the others go on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from ptx_engine.errors import BudgetError, InternalError, PtxError, UnsupportedError
from ptx_engine.verdict import Status
from volta_pass.check import CheckOptions, check_spec
from volta_pass.job import ValidationJob
from volta_pass.kernel_report import KernelReport
from volta_pass.parallel.pool import RETRIES, Lost, run_tasks
from volta_pass.spec import Spec, read_spec
from volta_pass.validate import validate

#: validations of one process take turns: compiling and importing change what threads share (module tables, the path, stdout)
_TURN = threading.Lock()


class Failure(Enum):
    """Why there is no verdict about a kernel."""

    NONE = "none"
    BAD_INPUT = "bad input"
    DEFECT = "internal error"
    LOST = "lost worker"


@dataclass
class Outcome:
    """A report, and whether it is about the kernel or only says what failed."""

    report: KernelReport
    failure: Failure = Failure.NONE


@dataclass(frozen=True)
class _Check:
    """One check, as it is sent to a worker. ``path`` is set where the worker is to read the spec."""

    spec: Spec | None
    path: str
    configuration: Mapping[str, Any]
    options: CheckOptions


@dataclass(frozen=True)
class _Contents:
    """A tensor's elements, where a job has a function that would give them."""

    array: np.ndarray

    def __call__(self) -> np.ndarray:
        return self.array


@dataclass(frozen=True)
class Runner:
    """How tasks are run: see ``run_tasks``."""

    workers: int = 1
    executor: Executor | None = None
    retries: int = RETRIES
    memory_mib: int | None = None
    on_done: Callable[[int], None] = field(default=lambda number: None)

    def run(self, step: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        """The results, or Lost."""
        return run_tasks(
            step, tasks, workers=self.workers, executor=self.executor, retries=self.retries, memory_mib=self.memory_mib,
            on_done=self.on_done,
        )  # fmt: skip


def check_many(
    specs: Sequence["str | Path | Spec"],
    options: CheckOptions | None = None,
    *,
    workers: int = 1,
    executor: Executor | None = None,
    retries: int = RETRIES,
    memory_mib: int | None = None,
) -> list[KernelReport]:
    """A report for each spec, in their order. ``workers`` processes, or any executor; see ``run_tasks``.

    What would raise in ``check_file`` is a report of status unknown with the error.
    """
    rows: list[tuple[str | Path | Spec, Mapping[str, Any]]] = [(spec, {}) for spec in specs]
    outcomes = check_outcomes(rows, options, Runner(workers, executor, retries, memory_mib))
    return [outcome.report for outcome in outcomes]


def check_outcomes(
    specs: Sequence[tuple["str | Path | Spec", Mapping[str, Any]]], options: CheckOptions | None, runner: Runner
) -> list[Outcome]:
    """An outcome for each spec and configuration (what the report is to call it), in their order.

    Workers that fewer specs than workers leave over go to the CTA batches of each.
    """
    spare = runner.workers // max(1, len(specs)) if runner.executor is None else 1
    if spare > 1:
        options = replace(options or CheckOptions(), workers=spare, memory_mib=runner.memory_mib)
    tasks = [
        _Check(spec, "", dict(configuration), options or CheckOptions())
        if isinstance(spec, Spec)
        else _Check(None, str(spec), dict(configuration), options or CheckOptions())
        for spec, configuration in specs
    ]
    return [
        _lost(_name(task), task.configuration, found) if isinstance(found, Lost) else found
        for task, found in zip(tasks, runner.run(_check, tasks))
    ]


def validate_many(
    jobs: Sequence[ValidationJob],
    *,
    workers: int = 1,
    executor: Executor | None = None,
    retries: int = RETRIES,
    memory_mib: int | None = None,
) -> list[KernelReport]:
    """A report for each job, in their order. ``workers`` processes, or any executor; see ``run_tasks``.

    A reference function must be importable by the workers where there is more than this process; contents are read before.
    """
    runner = Runner(workers, executor, retries, memory_mib)
    sent = [_portable(job) for job in jobs] if workers > 1 or executor is not None else list(jobs)
    found = runner.run(_validate, sent)
    return [_lost(job.kernel, job.configuration, row).report if isinstance(row, Lost) else row for job, row in zip(jobs, found)]


# --- in the worker ------------------------------------------------------------------------------


def _check(task: _Check) -> Outcome:
    """The edge of a worker: everything becomes an outcome."""
    with _TURN:
        try:
            spec = task.spec if task.spec is not None else read_spec(task.path)
            outcome = Outcome(check_spec(spec, task.options))
        except InternalError as error:
            outcome = _failed(_name(task), Failure.DEFECT, error.message, error.render())
        except UnsupportedError as error:
            outcome = _failed(_name(task), Failure.NONE, error.message, error.render())
            outcome.report.status = Status.UNSUPPORTED
        except PtxError as error:
            outcome = _failed(_name(task), Failure.BAD_INPUT, error.message, error.render())
        except Exception as error:
            outcome = _internal(_name(task), error)
    outcome.report.configuration = dict(task.configuration)
    return outcome


def _validate(job: ValidationJob) -> KernelReport:
    with _TURN:
        try:
            return validate(job)
        except Exception as error:
            report = _internal(job.kernel, error).report
    report.configuration = dict(job.configuration)
    return report


def _internal(kernel: str, error: Exception) -> Outcome:
    """Memory that the worker may not have is a budget; anything else is a defect of ours."""
    if isinstance(error, MemoryError):
        budget = BudgetError(str(error) or "out of memory", hint="check fewer CTAs, or give each worker more memory")
        return _failed(kernel, Failure.NONE, budget.message, budget.render())
    text = error.render() if isinstance(error, PtxError) else f"internal error: {type(error).__name__}: {error}"
    return _failed(kernel, Failure.DEFECT, "internal error of volta-pass", text)


def _failed(kernel: str, failure: Failure, reason: str, text: str) -> Outcome:
    said = "" if failure is Failure.NONE else failure.value
    return Outcome(KernelReport(kernel=kernel, reason=reason, errors=[text], failure=said), failure)


# --- in the caller ------------------------------------------------------------------------------


def _lost(kernel: str, configuration: Mapping[str, Any], lost: Lost) -> Outcome:
    outcome = _failed(kernel, Failure.LOST, lost.reason, f"no verdict: {lost.reason}\n  help: give it more memory, or check it alone")
    outcome.report.configuration = dict(configuration)
    return outcome


def _name(task: _Check) -> str:
    if task.spec is None:
        return Path(task.path).stem
    return task.spec.candidate.entry or Path(task.spec.candidate.source).stem


def _portable(job: ValidationJob) -> ValidationJob:
    """The job with arrays where it has functions that read them: those belong to this process."""
    return replace(job, contents={name: _Contents(np.asarray(load())) for name, load in sorted(job.contents.items())})
