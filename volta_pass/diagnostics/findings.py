"""Findings for people: both sites at the user's lines, the address, what is missing, what would help."""

from __future__ import annotations

from ptx_engine.findings import Finding, Severity, Site
from volta_pass.diagnostics.header import labelled, title
from volta_pass.diagnostics.hints import finding_hint
from volta_pass.diagnostics.source import excerpt, shown_place
from volta_pass.terminal import Painter, printable

#: details that the message says already
_SAID = ("conflict",)


def render_finding(finding: Finding, paint: Painter, kernel: str, ptx_name: str = "") -> list[str]:
    """The lines of one finding. ``ptx_name`` names the PTX file where sites have no line of the user's."""
    severity = "error" if finding.severity is Severity.ERROR else "note"
    about = finding.kind + (f" on {_place_name(finding)}" if _place_name(finding) else "")
    rows = [title(paint, severity, f"{kernel}: {about}", _tag(finding))]
    single = len(finding.sites) == 1
    for site in finding.sites:
        rows += _site(site, paint, ptx_name, with_excerpt=single)
    if finding.message:
        rows += labelled(paint, "what", printable(finding.message))
    if finding.tensor or finding.width_bytes:
        rows += labelled(paint, "address", _address(finding))
    if finding.missing:
        rows += labelled(paint, "missing", printable(finding.missing))
    for key, value in finding.details.items():
        if key in _SAID:
            continue
        rows += labelled(paint, printable(key), printable(value))
    if finding.count > 1:
        rows += labelled(paint, "also", _more(finding))
    hint = finding_hint(finding)
    return rows + (labelled(paint, "help", hint) if hint else [])


def thread_name(site: Site) -> str:
    """``CTA 3, warp 0, lane 5`` (a CTA with more than one index as ``CTA (3,1,0)``)."""
    x, y, z = site.cta
    cta = str(x) if y == 0 and z == 0 else f"({x},{y},{z})"
    return f"CTA {cta}, warp {site.warp}, lane {site.lane}"


def _site(site: Site, paint: Painter, ptx_name: str, *, with_excerpt: bool) -> list[str]:
    where = f"PTX line {site.ptx_line}" if site.ptx_line else f"instruction {site.instruction}"
    code = f": {printable(site.ptx_text.strip())}" if site.ptx_text else ""
    note = f"{site.role}, thread ({thread_name(site)}), {where}{code}"
    if with_excerpt and site.user_loc:
        return [*excerpt(site.user_loc, paint), f"    by {note}"]
    place = site.user_loc or (f"{ptx_name}:{site.ptx_line}" if ptx_name and site.ptx_line else where)
    return [f"  {paint('place', '-->')} {shown_place(place)}  {note}"]


def _place_name(finding: Finding) -> str:
    if finding.kind in ("data race", "same-value write"):
        return f"{finding.space} memory" if finding.space else ""
    return finding.tensor or (f"{finding.space} memory" if finding.space and finding.space != "register" else "")


def _tag(finding: Finding) -> str:
    if finding.kind == "data race":
        return "race, 2 schedules exist"
    return finding.kind if finding.severity is Severity.ERROR else f"{finding.kind}, no error"


def _address(finding: Finding) -> str:
    size = f" ({finding.width_bytes} bytes)" if finding.width_bytes else ""
    if finding.tensor and finding.index:
        return f"{finding.tensor}[{', '.join(map(str, finding.index))}]{size}"
    base = finding.tensor or finding.space or "address"
    sign = "-" if finding.address_offset < 0 else "+"
    return f"{base}{sign}{abs(finding.address_offset):#x}{size}"


def _more(finding: Finding) -> str:
    which = "pairs of the same two instructions" if len(finding.sites) > 1 else "instances at the same instruction"
    return f"{finding.count - 1} more {which}"
