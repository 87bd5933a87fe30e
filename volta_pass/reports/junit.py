"""JUnit XML, as CI systems read it: a suite of one case per validated launch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as xml

from ptx_engine.verdict import Status
from volta_pass.diagnostics import render
from volta_pass.kernel_report import KernelReport
from volta_pass.report import short_configuration

#: characters that XML 1.0 cannot hold
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_report(reports: Sequence[KernelReport]) -> str:
    """Refuted is a failure; unknown and unsupported are skipped, with the reason as message; bad input and defects of ours are errors."""
    failures = sum(report.status is Status.REFUTED for report in reports)
    errors = sum(bool(report.failure) for report in reports)
    skipped = sum(report.status in (Status.UNKNOWN, Status.UNSUPPORTED) and not report.failure for report in reports)
    seconds = sum(report.validate_s for report in reports)
    figures = {
        "tests": str(len(reports)),
        "failures": str(failures),
        "errors": str(errors),
        "skipped": str(skipped),
        "time": f"{seconds:.3f}",
    }
    totals = {name: value for name, value in figures.items() if name != "skipped"}  # (which the usual schema has for suites only)
    root = xml.Element("testsuites", {"name": "volta-pass", **totals})
    suite = xml.SubElement(root, "testsuite", {"name": "volta-pass", **figures})
    for report in reports:
        suite.append(_case(report))
    xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + xml.tostring(root, encoding="unicode") + "\n"


def _case(report: KernelReport) -> xml.Element:
    name = f"{report.kernel} {short_configuration(report)}".strip()
    case = xml.Element("testcase", {"classname": clean(report.kernel), "name": clean(name), "time": f"{report.validate_s:.3f}"})
    if report.status is Status.REFUTED:
        other = "wrong value" if report.comparisons else str(report.upgrade.get("change", "wrong value"))
        kinds = sorted({finding.kind for finding in report.error_findings}) or [other]
        xml.SubElement(case, "failure", {"type": clean(kinds[0]), "message": clean(_headline(report))}).text = clean(render(report))
    elif report.failure:
        xml.SubElement(case, "error", {"type": clean(report.failure), "message": clean(_headline(report))}).text = clean(render(report))
    elif report.status is not Status.PROVED:
        xml.SubElement(case, "skipped", {"message": clean(f"{report.verdict}: {report.reason or 'no verdict'}")})
    said = [f"upgrade: {report.upgrade_text()}"] if report.upgrade else []
    said += ["assumptions: " + "; ".join(report.assumptions)] if report.assumptions else []
    if said:
        xml.SubElement(case, "system-out").text = clean("\n".join(said))
    return case


def _headline(report: KernelReport) -> str:
    first = render(report).splitlines()
    return first[0].strip() if first else report.verdict


def clean(text: str) -> str:
    """The text without what XML cannot hold."""
    return _FORBIDDEN.sub("?", text)
