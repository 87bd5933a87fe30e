"""One process's validations: verdicts remembered, references of autotuned kernels, what is printed, and the table at exit.

Knows no compiler. A verdict is looked up by the candidate's code, its references, the launch and our own version: first in
this process, then (proofs only) in the store on disk.
"""

from __future__ import annotations

import atexit
import os
import threading
import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ptx_engine.errors import PtxError
from ptx_engine.verdict import Status
from volta_hooks.bundle import write_bundle
from volta_hooks.policy import Mode, tell
from volta_pass.baseline.recording import Recording
from volta_pass.job import Options, TtirReference, ValidationJob
from volta_pass.kernel_report import REFERENCE, KernelReport, proved_from_json
from volta_pass.progress_line import progress_line
from volta_pass.store import Store
from volta_pass.store.proofs import VERDICTS, proof_keys, put_proof
from volta_pass.store.references import ReferenceTerms
from volta_pass.validate import agree, contents_were_needed, failure_text, validate


@dataclass
class Tuning:
    """One autotuned kernel at one set of arguments: ``groups`` of configurations whose sources agree, the reference's first.

    A group is a representative source and the labels of its members.
    """

    reference: TtirReference
    groups: list[tuple[TtirReference, list[str]]]
    undecided: list[str] = field(default_factory=list)
    reports: list[KernelReport] = field(default_factory=list)

    def sentences(self) -> list[str]:
        """Which configurations agree with each other; nothing where all do."""
        if len(self.groups) < 2:
            return []
        rows = [f"the reference is the first configuration's source ({self.reference.label}); no reference function was given"]
        for i, (_, members) in enumerate(self.groups):
            verb = "agrees with no other" if len(members) == 1 else "agree with each other"
            side = "with the reference: " if i == 0 else ""
            rows.append(f"{side}{'; '.join(members)} {verb}")
        if self.undecided:
            rows.append(f"neither proved nor refuted against the reference: {'; '.join(self.undecided)}")
        return rows


class Session:
    """Validates jobs and remembers; ``mode`` is what the environment asked for."""

    def __init__(self, mode: Mode, store: Store | None = None) -> None:
        self.mode = mode
        self.options = Options.from_environment()
        self.store = Store.from_environment(self.say_once) if store is None else store
        self.references = ReferenceTerms(self.store)
        self.recording = _recording()
        self.reports: list[KernelReport] = []
        self.tunings: dict[str, Tuning] = {}
        self._lock = threading.RLock()
        self._known: dict[str, KernelReport] = {}
        self._said: set[str] = set()
        self._pid = os.getpid()
        #: no table at exit: whoever reads the reports shows them
        self.quiet = False
        _sessions.append(self)

    # ------------------------------------------------------------------ validating

    def run(self, job: ValidationJob, *, tuning_key: str = "", label: str = "") -> KernelReport:
        """Validate a job or recall its verdict; an autotuned kernel's first configuration becomes the others' reference.

        A defect of ours is a report of status unknown with a bug bundle; in strict mode it is raised.
        """
        with self._lock:
            tuning = self._tuning(job, tuning_key, label)
            if tuning is not None and job.source is not None and not self._is_reference(tuning, job):
                job = replace(job, reference=tuning.reference)
            report = self._recall(job) or self._decide(job)
            report.seconds.setdefault("compile", 0.0)
            self.reports.append(report)
            if tuning is not None:
                tuning.reports.append(report)
                self._group(tuning, job, report, label)
            if self.recording is not None:
                self._record(self.recording, job, report)
            if report.blame.party == "compiler" and not report.bundle:
                report.bundle = write_bundle(job, report=report)
            return report

    def open_tuning(self, key: str, reference: TtirReference) -> None:
        """Say which source the configurations of a tuning are compared with, before the first of them is validated."""
        with self._lock:
            self.tunings.setdefault(key, Tuning(reference, [(reference, [])]))

    def _record(self, recording: Recording, job: ValidationJob, report: KernelReport) -> None:
        try:
            recording.add(job, job.recipe, report)
        except OSError as error:
            self.say_once(f"{recording.folder} cannot be written, so that {job.kernel} is not recorded: {error}")

    def _tuning(self, job: ValidationJob, key: str, label: str) -> Tuning | None:
        """The tuning that a job belongs to; the first job with a source of its own opens it."""
        if not key or job.reference is not None:
            return None
        if key not in self.tunings and job.source is not None:
            reference = TtirReference(job.source, job.launch, label, job.language)
            self.tunings[key] = Tuning(reference, [(reference, [])])
        return self.tunings.get(key)

    @staticmethod
    def _is_reference(tuning: Tuning, job: ValidationJob) -> bool:
        return tuning.reference.text == job.source and tuning.reference.launch == job.launch

    def _recall(self, job: ValidationJob) -> KernelReport | None:
        for key in proof_keys(job):
            if key in self._known:
                return replace(self._known[key], configuration=dict(job.configuration), cached=True)
            stored = self.store.get_json(VERDICTS, key)
            if stored is not None:
                try:
                    report = proved_from_json(stored[0])
                except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
                    why = f"it holds no proof: {type(error).__name__}: {error}"
                    self.store.refuse(self.store.local, self.store.name(VERDICTS, key), why)
                    continue
                report.kernel, report.configuration = job.kernel, dict(job.configuration)
                report.seconds = {"validate": 0.0}
                if stored[1]:
                    report.assumptions.append(f"proved elsewhere: the verdict was read from the shared store {stored[1]}")
                return report
        return None

    def _decide(self, job: ValidationJob) -> KernelReport:
        try:
            with progress_line(f"volta-pass: {job.kernel}", quiet=self.quiet):
                report = validate(job, self.references)
        except Exception as error:
            return self.internal(job.kernel, dict(job.configuration), error, job)
        keys = proof_keys(job)
        if not keys:
            return report
        key = keys[-1] if contents_were_needed(report) else keys[0]
        if report.status in (Status.PROVED, Status.REFUTED, Status.UNSUPPORTED):
            self._known[key] = report
        if report.status is Status.PROVED:
            put_proof(self.store, job, report, key)
        return report

    def internal(self, kernel: str, configuration: dict[str, Any], error: Exception, job: ValidationJob | None = None) -> KernelReport:
        """A report on a defect of ours: status unknown, with a bug bundle where there is a job. Raises in strict mode."""
        if self.mode is Mode.STRICT:
            raise error
        trace = "".join(traceback.format_exception(error))
        text = error.render() if isinstance(error, PtxError) else f"internal error: {type(error).__name__}: {error}"
        if not isinstance(error, PtxError):
            frames = traceback.extract_tb(error.__traceback__)
            place = next((frame for frame in reversed(frames) if _is_ours(frame.filename)), frames[-1])
            text += f"\n  in {os.path.basename(place.filename)}:{place.lineno}"
        report = KernelReport(kernel=kernel, configuration=configuration, failure="internal error")
        report.reason = "internal error of volta-pass; the build goes on without a verdict"
        if job is not None:
            report.target, report.toolchain, report.bundle = job.target, dict(job.toolchain), write_bundle(job, trace=trace)
        elif os.environ.get("VOLTA_DEBUG") == "1":
            text += "\n" + trace
        text += f"\n  bundle: {report.bundle} (please report it)" if report.bundle else ""
        report.errors.append(failure_text(report, report.reason, text))
        return report

    def _group(self, tuning: Tuning, job: ValidationJob, report: KernelReport, label: str) -> None:
        """Put a configuration's source into the group it agrees with, or into one of its own."""
        if job.source is None:
            return
        found = {row.status for row in report.comparisons if row.against == REFERENCE}
        if found <= {Status.PROVED}:  # (the reference itself is compared with its own source only)
            tuning.groups[0][1].append(label)
            return
        if Status.REFUTED not in found:
            tuning.undecided.append(label)
            return
        mine = TtirReference(job.source, job.launch, label, job.language)
        for representative, members in tuning.groups[1:]:
            if agree(mine, representative, job) is Status.PROVED:
                members.append(label)
                break
        else:
            tuning.groups.append((mine, [label]))
        report.agreement = tuning.sentences()

    # ------------------------------------------------------------------ telling

    def say_once(self, text: str) -> None:
        """Print a warning the first time."""
        with self._lock:
            if text in self._said:
                return
            self._said.add(text)
        tell(f"volta-pass: {text}")

    def show(self, report: KernelReport) -> str:
        """Print a report's diagnostic; returns its text."""
        text = self.text(report)
        tell(text)
        return text

    def text(self, report: KernelReport) -> str:
        """A report's diagnostic as plain text."""
        from volta_pass.diagnostics import render

        return render(report)

    def follow_exit(self) -> None:
        """Print the table and write ``VOLTA_REPORT`` when the interpreter ends."""
        atexit.register(self.finish)

    def finish(self) -> None:
        """The table on stderr, the agreement of configurations, the JSON file; nothing in a forked child."""
        if os.getpid() != self._pid:
            return
        from volta_pass.report import exit_table
        from volta_pass.reports import write_report

        for tuning in self.tunings.values():
            for report in tuning.reports:
                report.agreement = tuning.sentences() if report.status is Status.REFUTED else []
        if not self.reports:
            return
        for path in filter(None, os.environ.get("VOLTA_REPORT", "").split(os.pathsep)):
            try:
                write_report(self.reports, path)
            except (OSError, PtxError) as error:
                said = str(error)
                tell(f"volta-pass: {said if said.startswith('cannot write') else f'cannot write {path}: {said}'}")
        if not self.quiet:
            tell(exit_table(self.reports), end="")
            for sentences in (tuning.sentences() for tuning in self.tunings.values()):
                tell("".join(f"agree: {sentence}\n" for sentence in sentences), end="")


_sessions: list[Session] = []


def sessions() -> tuple[Session, ...]:
    """All sessions of this process: one per compiler that was imported under validation."""
    return tuple(_sessions)


def _recording() -> Recording | None:
    """Where ``VOLTA_BASELINE`` asks for launches to be recorded."""
    folder = os.environ.get("VOLTA_BASELINE")
    return Recording(Path(folder)) if folder else None


def _is_ours(filename: str) -> bool:
    return any(f"{os.sep}{package}{os.sep}" in filename for package in ("ptx_engine", "volta_pass", "volta_hooks"))
