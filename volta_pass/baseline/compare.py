"""A recorded kernel against what another compiler makes of it: same text, proved equal, refuted, and what changed in cost and races."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from ptx_engine.errors import PtxError
from ptx_engine.syntax import parse, print_module
from ptx_engine.verdict import Status
from volta_pass.baseline.cost import Cost, cost_of
from volta_pass.baseline.recording import Record
from volta_pass.job import Options, PtxReference, ValidationJob, launch_to_json
from volta_pass.kernel_report import OWN_SOURCE, REFERENCE, KernelReport, finding_to_json
from volta_pass.stages import KnownReferences
from volta_pass.validate import validate


class Change(Enum):
    """What became of a kernel, from best to worst."""

    SAME_TEXT = "same text"
    PROVED = "proved equal"
    UNKNOWN = "unknown"
    UNSUPPORTED = "unsupported"
    REFUTED = "refuted"
    NEW_RACES = "new races"
    NO_LONGER_COMPILES = "no longer compiles"
    MISSING = "not in the other recording"


#: the verdict on an upgrade, where it is not that the kernel is wrong
_STATUS = {
    Change.SAME_TEXT: Status.PROVED, Change.PROVED: Status.PROVED, Change.UNKNOWN: Status.UNKNOWN, Change.MISSING: Status.UNKNOWN,
    Change.UNSUPPORTED: Status.UNSUPPORTED,
}  # fmt: skip
#: changes that make the exit code 1
WRONG = frozenset({Change.REFUTED, Change.NEW_RACES, Change.NO_LONGER_COMPILES})


@dataclass
class Outcome:
    """One recorded launch under another compiler."""

    record: Record
    newer: Record | None
    change: Change
    reason: str = ""
    blame: str = ""
    report: KernelReport | None = None
    cost: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def as_report(self) -> KernelReport:
        """The report of the comparison, or one of its own where nothing had to be compared; its status says what the change is."""
        status = _STATUS.get(self.change, Status.REFUTED)
        upgrade = {
            "change": self.change.value, "before": self.record.compiler, "after": self.newer.compiler if self.newer is not None else "",
            "reason": self.reason, "blame": self.blame, "cost": {name: list(pair) for name, pair in self.cost.items()},
        }  # fmt: skip
        if self.report is not None:
            return replace(self.report, status=status, upgrade=upgrade)
        report = KernelReport(self.record.kernel, dict(self.record.configuration), self.record.target, status, upgrade=upgrade)
        report.reason = f"{self.change.value}: {self.reason}" if self.reason else self.change.value
        report.errors = [] if status is Status.PROVED else [f"{self.record.kernel}: {report.reason}"]
        report.toolchain, report.ptx = dict(self.record.toolchain), self.record.ptx
        return report

    def to_json(self) -> dict[str, Any]:
        """JSON values; ``report`` as in other commands."""
        return {
            "kernel": self.record.kernel,
            "configuration": {key: str(value) for key, value in self.record.configuration.items()},
            "target": self.record.target,
            "before": dict(self.record.toolchain),
            "after": dict(self.newer.toolchain) if self.newer is not None else {},
            "change": self.change.value,
            "reason": self.reason,
            "blame": self.blame,
            "cost": {name: list(pair) for name, pair in self.cost.items()},
            "report": self.report.to_json() if self.report is not None else None,
        }


def compare(old: Record, new: Record, options: Options, known: KnownReferences | None = None) -> Outcome:
    """The new PTX against its own source and, over the same inputs, against the old PTX (``known``: evaluated before)."""
    if normalised(old.ptx) == normalised(new.ptx) and launch_to_json(old.launch) == launch_to_json(new.launch):
        return Outcome(old, new, Change.SAME_TEXT, reason=f"its verdict then was {old.report.get('verdict', 'none')}")
    if old.arguments() != new.arguments():
        return Outcome(old, new, Change.UNKNOWN, "it was recorded for other arguments")
    reference = PtxReference(old.ptx, old.entry, old.launch, f"the PTX of {old.compiler}")
    job = ValidationJob(
        new.kernel, new.ptx, new.launch, new.entry, new.configuration, new.target, new.source, reference, toolchain=new.toolchain,
        options=options, assumptions=new.assumptions, library=new.library, language=new.language,
    )  # fmt: skip
    report = validate(job, known)
    cost = _cost(old, old.report).changes(_cost(new, report.to_json()))
    outcome = Outcome(old, new, Change.UNKNOWN, report.reason, report=report, cost=cost)
    _judge(outcome, report)
    return outcome


def _cost(record: Record, report: Mapping[str, Any]) -> Cost:
    return cost_of(record.ptx, record.entry, record.launch, report)


def _judge(outcome: Outcome, report: KernelReport) -> None:
    """Set the change, its reason and whom to blame."""
    found = {comparison.against: comparison.status for comparison in report.comparisons}
    raced = {_place(f) for f in outcome.record.report.get("findings", []) if f.get("severity") == "error"}
    races = {_place(finding_to_json(finding)) for finding in report.error_findings}
    fresh = sorted(races - raced)
    if Status.REFUTED in found.values():
        outcome.change = Change.REFUTED
        outcome.blame = _blame(outcome, found)
    elif fresh:
        outcome.change, outcome.reason = Change.NEW_RACES, "new: " + ", ".join(map(_said, fresh))
    elif found.get(REFERENCE) is Status.PROVED:
        outcome.change, outcome.reason = Change.PROVED, "as before: " + ", ".join(map(_said, sorted(races))) if races else ""
        if found.get(OWN_SOURCE, Status.PROVED) is not Status.PROVED:
            outcome.reason = f"equal to the old PTX; against its own source: {found[OWN_SOURCE].value}"
    elif report.status is Status.UNSUPPORTED:
        outcome.change = Change.UNSUPPORTED


def _place(finding: Mapping[str, Any]) -> tuple[str, str, str]:
    """What a finding is, and in which memory: lines and addresses differ between compilers."""
    return str(finding.get("kind", "")), str(finding.get("space", "")), str(finding.get("tensor", ""))


def _said(place: tuple[str, str, str]) -> str:
    kind, space, tensor = place
    return f"{kind} of {tensor}" if tensor else f"{kind} in {space} memory" if space else kind


def _blame(outcome: Outcome, found: Mapping[str, Status]) -> str:
    """Who changed the meaning: the new compiler's back end, its front end, or the old compiler."""
    assert outcome.newer is not None
    old, new = outcome.record.compiler, outcome.newer.compiler
    if found.get(OWN_SOURCE) is Status.REFUTED:
        return f"{new}: its PTX differs from its own source"
    then = {row.get("against"): row.get("verdict") for row in outcome.record.report.get("comparisons", [])}
    if found.get(OWN_SOURCE) is not Status.PROVED:
        return f"{old} or {new}: the new PTX differs from the old one and was not proved equal to its own source"
    if then.get(OWN_SOURCE) == Status.PROVED.value:
        return f"the front end of {new} (or of {old}): each PTX equals its own source, the sources differ"
    if then.get(OWN_SOURCE) == Status.REFUTED.value:
        return f"{old}: its PTX differed from its own source, the new one does not"
    return f"{old}, or the front end of {new}: the new PTX equals its own source, the old one was not proved to"


def normalised(ptx: str) -> str:
    """PTX without comments, line tables, debug sections and version; the text itself where it cannot be parsed."""
    try:
        text = print_module(parse(ptx))
    except PtxError:
        return ptx
    skipped = (".loc", ".file", ".version", "//")
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(skipped))


def missing(record: Record) -> Outcome:
    """A launch that only one of two recordings has."""
    return Outcome(record, None, Change.MISSING)


def no_longer_compiles(record: Record, why: str) -> Outcome:
    """A launch whose kernel the compiler refuses."""
    return Outcome(record, None, Change.NO_LONGER_COMPILES, why)
