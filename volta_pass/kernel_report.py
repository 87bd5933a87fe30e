"""What was found out about one kernel in one configuration at one launch, as a value that people and JSON readers share.

A report holds the candidate's findings, one comparison per reference ("own source", "reference"), who is to blame, and
what was covered. It decides nothing: ``validate`` fills it, ``report`` and ``diagnostics`` print it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from ptx_engine.findings import Finding, Severity, Site
from ptx_engine.launch import TensorArg
from ptx_engine.verdict import Explanation, Method, OutputVerdict, Status, Verdict, Witness
from volta_pass.job import finite_or_text

#: names of comparisons
OWN_SOURCE = "own source"
REFERENCE = "reference"

#: most failing storage indices that go into JSON; the count is always exact
FAILING_SHOWN = 64


@dataclass(frozen=True)
class Blame:
    """Who is to blame: ``party`` is "compiler", "kernel", "unknown" or "" (nobody); ``user_loc`` is "file.py:12:3"."""

    party: str = ""
    text: str = ""
    user_loc: str = ""
    detail: str = ""
    help: str = ""


@dataclass
class Comparison:
    """The candidate against one reference: ``against`` is OWN_SOURCE or REFERENCE, ``label`` names the reference."""

    against: str
    label: str
    verdict: Verdict

    @property
    def status(self) -> Status:
        return self.verdict.status


@dataclass
class KernelReport:
    """The whole answer. ``seconds`` per stage: parse, execute, order, source, reference, decide, validate (all of it), compile."""

    kernel: str
    configuration: dict[str, Any] = field(default_factory=dict)
    target: str = ""
    status: Status = Status.UNKNOWN
    method: Method = Method.EXACT
    reason: str = ""
    findings: list[Finding] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    blame: Blame = field(default_factory=Blame)
    ctas_executed: int = 0
    ctas_total: int = 0
    instructions: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    peak_mib: float = 0.0
    assumptions: list[str] = field(default_factory=list)
    #: rendered failures of ours or of the input (unsupported, not structured, budget, launch), each several lines
    errors: list[str] = field(default_factory=list)
    #: which configurations agree with each other, one sentence each; only where they disagree and no function was given
    agreement: list[str] = field(default_factory=list)
    toolchain: dict[str, str] = field(default_factory=dict)
    #: what another compiler made of a recorded launch (``Outcome.as_report``): change, before, after, cost, blame; only of baselines
    upgrade: dict[str, Any] = field(default_factory=dict)
    launch: dict[str, Any] = field(default_factory=dict)
    #: tensor arguments by name: turn storage indices into indices for people; not part of the JSON
    tensors: dict[str, TensorArg] = field(default_factory=dict, repr=False, compare=False)
    bundle: str = ""
    cached: bool = False
    #: why nothing is said about the kernel itself (bad input, internal error, lost worker); not part of the JSON
    failure: str = field(default="", compare=False)
    #: the candidate's PTX, for pages that show it; not part of the JSON
    ptx: str = field(default="", repr=False, compare=False)
    #: what the store keeps with a proof (fingerprints, terms), by section; not part of the JSON
    evidence: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    @property
    def verdict(self) -> str:
        """The verdict's name, as in the JSON."""
        return self.status.value

    @property
    def compile_s(self) -> float:
        return self.seconds.get("compile", 0.0)

    @property
    def validate_s(self) -> float:
        return self.seconds.get("validate", 0.0)

    @property
    def error_findings(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity is Severity.ERROR]

    @property
    def deciding(self) -> Comparison | None:
        """The comparison to show: the first refuted one, else the first not proved, else the first."""
        for wanted in (Status.REFUTED, Status.UNKNOWN, Status.UNSUPPORTED):
            for comparison in self.comparisons:
                if comparison.status is wanted:
                    return comparison
        return self.comparisons[0] if self.comparisons else None

    @property
    def output_elements(self) -> int:
        return sum(output.elements for output in self.deciding.verdict.outputs) if self.deciding else 0

    @property
    def output_classes(self) -> int:
        return sum(output.classes for output in self.deciding.verdict.outputs) if self.deciding else 0

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from volta_pass.reports.html import html_fragment

        return html_fragment(self)

    def configuration_text(self) -> str:
        """One line: ``BLOCK_M=64 num_warps=4``."""
        return " ".join(f"{key}={value}" for key, value in self.configuration.items())

    @property
    def answer(self) -> str:
        """The verdict in a word, or what became of a recorded launch: text that stayed the same is not proved to be right."""
        return str(self.upgrade["change"]) if self.upgrade else self.verdict

    def upgrade_text(self) -> str:
        """One line: ``proved equal, Triton 3.8.0 -> Triton 3.9.0; instructions 71 -> 62``; nothing for what is no upgrade."""
        if not self.upgrade:
            return ""
        cost = [f"{name.replace('_', ' ')} {before} -> {after}" for name, (before, after) in self.upgrade["cost"].items()]
        head = f"{self.upgrade['change']}, {self.upgrade['before']} -> {self.upgrade['after'] or 'nothing'}"
        return "; ".join(filter(None, [head, self.upgrade["blame"], self.upgrade["reason"], *cost]))

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values (design section 10's keys, and the hook's own)."""
        deciding = self.deciding
        return {
            "kernel": self.kernel,
            "configuration": {key: _plain(value) for key, value in self.configuration.items()},
            "target": self.target,
            "verdict": self.verdict,
            "method": (self.method if deciding else Method.ORDER).value,
            "reason": self.reason,
            "blame": asdict(self.blame),
            "findings": [finding_to_json(finding) for finding in self.findings],
            "outputs": [output_to_json(output) for output in deciding.verdict.outputs] if deciding else [],
            "comparisons": [_comparison_to_json(comparison) for comparison in self.comparisons],
            "ctas": {"executed": self.ctas_executed, "total": self.ctas_total},
            "instructions": self.instructions,
            "seconds": {stage: round(value, 6) for stage, value in self.seconds.items()},
            "peak_mib": round(self.peak_mib, 1),
            "assumptions": list(self.assumptions),
            "errors": list(self.errors),
            "agreement": list(self.agreement),
            "toolchain": dict(self.toolchain),
            "upgrade": dict(self.upgrade),
            "launch": self.launch,
            "bundle": self.bundle,
            "cached": self.cached,
        }


def _plain(value: Any) -> Any:
    return finite_or_text(value) if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def finding_to_json(finding: Finding) -> dict[str, Any]:
    """One finding as JSON values."""
    return {
        "kind": finding.kind,
        "severity": finding.severity.value,
        "message": finding.message,
        "space": finding.space,
        "tensor": finding.tensor,
        "index": [int(i) for i in finding.index],
        "address_offset": int(finding.address_offset),
        "width_bytes": int(finding.width_bytes),
        "sites": [_site_to_json(site) for site in finding.sites],
        "missing": finding.missing,
        "count": int(finding.count),
        "details": dict(finding.details),
    }


def _site_to_json(site: Site) -> dict[str, Any]:
    return {
        "role": site.role,
        "cta": [int(c) for c in site.cta],
        "warp": int(site.warp),
        "lane": int(site.lane),
        "instruction": int(site.instruction),
        "ptx_line": int(site.ptx_line),
        "ptx_text": site.ptx_text,
        "user_loc": site.user_loc,
    }


def finding_from_json(row: Mapping[str, Any]) -> Finding:
    """The inverse of ``finding_to_json``; raises KeyError, TypeError or ValueError on anything else."""
    values = dict(row)
    values["severity"] = Severity(values["severity"])
    values["index"] = tuple(values["index"])
    values["sites"] = tuple(Site(**{**site, "cta": tuple(site["cta"])}) for site in values["sites"])
    return Finding(**values)


def output_to_json(output: OutputVerdict) -> dict[str, Any]:
    """One output tensor's verdict as JSON values; at most FAILING_SHOWN failing indices, and their exact number."""
    return {
        "tensor": output.tensor,
        "status": output.status.value,
        "elements": int(output.elements),
        "classes": int(output.classes),
        "reason": output.reason,
        "failing": [int(i) for i in output.failing[:FAILING_SHOWN]],
        "failing_total": len(output.failing),
        "numeric_difference": output.numeric_difference,
        "witness": None if output.witness is None else _witness_to_json(output.witness),
        "explanation": None if output.explanation is None else _explanation_to_json(output.explanation),
    }


def _witness_to_json(witness: Witness) -> dict[str, Any]:
    return {
        "output": witness.output,
        "index": int(witness.index),
        "inputs": dict(witness.inputs),
        "reference_value": witness.reference_value,
        "candidate_value": witness.candidate_value,
    }


def _explanation_to_json(explanation: Explanation) -> dict[str, Any]:
    return {
        "kind": explanation.kind,
        "text": explanation.text,
        "missing": list(explanation.missing),
        "extra": list(explanation.extra),
        "missing_total": explanation.missing_total,
        "extra_total": explanation.extra_total,
    }


def _comparison_to_json(comparison: Comparison) -> dict[str, Any]:
    verdict = comparison.verdict
    return {
        "against": comparison.against,
        "label": comparison.label,
        "verdict": verdict.status.value,
        "method": verdict.method.value,
        "reason": verdict.reason,
        "outputs": [output_to_json(output) for output in verdict.outputs],
    }


Typed = TypeVar("Typed")


def _typed(kind: type[Typed], value: Any) -> Typed:
    """The value, if JSON has that type there; raises TypeError."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{kind.__name__} expected, not {type(value).__name__}")
    return value


def _number(value: Any) -> float:
    return float(_typed(int, value)) if isinstance(value, int) else _typed(float, value)


def _rows(values: Any) -> list[dict[str, Any]]:
    return [_typed(dict, row) for row in _typed(list, values)]


def _texts(values: Any) -> list[str]:
    return [_typed(str, line) for line in _typed(list, values)]


def _proved(name: Any) -> Status:
    if name != Status.PROVED.value:
        raise ValueError("a part of a proof that is not proved")
    return Status.PROVED


def _comparison_from_json(row: Mapping[str, Any]) -> Comparison:
    outputs = [
        OutputVerdict(
            _typed(str, o["tensor"]), _proved(o["status"]), _typed(int, o["elements"]), _typed(int, o["classes"]), _typed(str, o["reason"])
        )
        for o in _rows(row["outputs"])
    ]
    verdict = Verdict(_proved(row["verdict"]), Method(_typed(str, row["method"])), outputs, _typed(str, row["reason"]))
    return Comparison(_typed(str, row["against"]), _typed(str, row["label"]), verdict)


def _note_from_json(row: Mapping[str, Any]) -> Finding:
    """A finding of a proved kernel: no error; every part of the type that ``Finding`` says."""
    found = finding_from_json(row)
    texts = (found.kind, found.message, found.space, found.tensor, found.missing, *found.details, *found.details.values())
    numbers = (*found.index, found.address_offset, found.width_bytes, found.count)
    for site in found.sites:
        texts = (*texts, site.role, site.ptx_text, site.user_loc)
        numbers = (*numbers, *site.cta, site.warp, site.lane, site.instruction, site.ptx_line)
        if len(site.cta) != 3:
            raise ValueError("a CTA has three numbers")
    for text in texts:
        _typed(str, text)
    for number in numbers:
        _typed(int, number)
    if found.severity is Severity.ERROR:
        raise ValueError("an error in a proof")
    return found


def proved_from_json(row: Mapping[str, Any]) -> KernelReport:
    """A stored proved report, marked ``cached``; raises KeyError, TypeError or ValueError on a malformed one.

    Only proved reports are stored: witnesses and explanations are made anew, so that they are never stale.
    """
    if row["verdict"] != Status.PROVED.value:
        raise ValueError("only proved reports are stored")
    ctas = _typed(dict, row["ctas"])
    return KernelReport(
        kernel=_typed(str, row["kernel"]),
        configuration=dict(_typed(dict, row["configuration"])),
        target=_typed(str, row["target"]),
        status=Status.PROVED,
        method=Method(_typed(str, row["method"])),
        findings=[_note_from_json(finding) for finding in _rows(row["findings"])],
        comparisons=[_comparison_from_json(comparison) for comparison in _rows(row["comparisons"])],
        ctas_executed=_typed(int, ctas["executed"]),
        ctas_total=_typed(int, ctas["total"]),
        instructions=_typed(int, row["instructions"]),
        seconds={stage: _number(value) for stage, value in _typed(dict, row["seconds"]).items()},
        peak_mib=_number(row["peak_mib"]),
        assumptions=_texts(row["assumptions"]),
        toolchain={name: _typed(str, text) for name, text in _typed(dict, row["toolchain"]).items()},
        launch=dict(_typed(dict, row["launch"])),
        cached=True,
    )
