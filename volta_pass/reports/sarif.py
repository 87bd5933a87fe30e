"""SARIF 2.1.0 (OASIS): every finding and difference as a result at the user's line, for code scanning."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from ptx_engine.findings import Finding, Severity
from ptx_engine.verdict import Status
from volta_pass.diagnostics import render
from volta_pass.doctor import own_version
from volta_pass.kernel_report import KernelReport
from volta_pass.report import short_configuration
from volta_pass.reports.places import Place, finding_places, report_place

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

#: rules that are not kinds of findings
_RULES = {
    "wrong-value": "An output differs from the reference over the real numbers; a witness was found.",
    "no-verdict": "Bad input, a worker that was lost, or a defect of volta-pass: nothing is said about the kernel.",
    "not-proved": "No proof and no counterexample was found within the budget.",
    "target-missed": "A figure of a benchmark misses its target.",
    "no-longer-compiles": "The newer compiler refuses a kernel that the older one compiled.",
    "unsupported": "The kernel uses something that has no semantics here.",
}


def sarif_report(reports: Sequence[KernelReport]) -> str:
    """One run; results in the order of the reports."""
    return document([result for report in reports for result in _results(report)])


def document(results: list[dict[str, Any]]) -> str:
    """A whole SARIF file around results."""
    rules = sorted({result["ruleId"] for result in results})
    driver = {
        "name": "volta-pass", "semanticVersion": own_version() if own_version()[:1].isdigit() else "0.0.0",
        "informationUri": "https://arxiv.org/abs/2511.12638", "rules": [_rule(name) for name in rules],
    }  # fmt: skip
    for result in results:
        result["ruleIndex"] = rules.index(result["ruleId"])
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(name: str) -> dict[str, Any]:
    text = _RULES.get(name, f"{name.replace('-', ' ')}, in some schedule of the threads.")
    return {"id": name, "name": "".join(word.title() for word in name.split("-")), "shortDescription": {"text": text}}


def _results(report: KernelReport) -> list[dict[str, Any]]:
    found = [_finding(report, finding) for finding in report.findings]
    comparison = report.deciding
    if comparison is not None and comparison.status is Status.REFUTED:
        found.append(_result(report, "wrong-value", "error", _difference(report), [report_place(report)]))
    elif report.status is Status.REFUTED and not report.error_findings:  # (an upgrade: nothing is there to be compared)
        rule = str(report.upgrade.get("change", "wrong-value")).replace(" ", "-")
        found.append(_result(report, rule, "error", f"{report.kernel}: {report.reason or 'refuted'}", [report_place(report)]))
    elif report.failure:
        found.append(_result(report, "no-verdict", "error", f"{report.kernel}: {report.failure}: {report.reason}", [report_place(report)]))
    elif report.status is Status.UNKNOWN:
        found.append(_result(report, "not-proved", "warning", f"{report.kernel}: {report.reason or 'no verdict'}", [report_place(report)]))
    elif report.status is Status.UNSUPPORTED:
        found.append(
            _result(report, "unsupported", "warning", f"{report.kernel}: {report.reason or 'unsupported'}", [report_place(report)])
        )
    return found


def _difference(report: KernelReport) -> str:
    assert report.deciding is not None
    said = [f"{output.tensor}: {output.explanation.text}" for output in report.deciding.verdict.outputs if output.explanation is not None]
    blame = f" Blame: {report.blame.party}." if report.blame.party else ""
    return f"{report.kernel}: {'; '.join(said) or 'outputs differ from the reference'}.{blame}"


def _finding(report: KernelReport, finding: Finding) -> dict[str, Any]:
    level = "error" if finding.severity is Severity.ERROR else "note"
    more = f" ({finding.count} times)" if finding.count > 1 else ""
    missing = f"; missing: {finding.missing}" if finding.missing else ""
    places: list[Place | None] = [*finding_places(finding)]
    return _result(report, finding.kind.replace(" ", "-"), level, f"{report.kernel}: {finding.message}{missing}{more}", places or [None])


def _result(report: KernelReport, rule: str, level: str, message: str, places: Sequence[Place | None]) -> dict[str, Any]:
    first, *others = places
    upgrade = report.upgrade_text()
    result: dict[str, Any] = {
        "ruleId": rule, "level": level, "message": {"text": f"{message} ({upgrade})" if upgrade else message},
        "locations": [_location(first, report)],
        "properties": {"kernel": report.kernel, "configuration": short_configuration(report), "diagnostic": render(report)},
    }  # fmt: skip
    if others:
        result["relatedLocations"] = [{"id": i, **_location(place, report)} for i, place in enumerate(others, 1)]
    identity = "\n".join([rule, report.kernel, short_configuration(report), str(first)])
    result["partialFingerprints"] = {"voltaPass/v1": hashlib.sha256(identity.encode()).hexdigest()[:32]}
    return result


def _location(place: Place | None, report: KernelReport) -> dict[str, Any]:
    logical = [{"name": report.kernel, "kind": "function"}]
    if place is None:
        return {"logicalLocations": logical}
    region: dict[str, int] = {"startLine": max(1, place.line)}
    if place.column > 0:
        region["startColumn"] = place.column
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(place.file)}, "region": region}, "logicalLocations": logical}


def _uri(file: str) -> str:
    from urllib.parse import quote

    return ("file://" if file.startswith("/") else "") + quote(file)
