"""Findings for people: both sites at the user's lines, the address, what is missing, what would help."""

from __future__ import annotations

from ptx_engine.findings import Finding, Severity, Site
from volta_pass.diagnostics.header import labelled, title
from volta_pass.diagnostics.hints import finding_hint
from volta_pass.diagnostics.source import excerpt, shown_place
from volta_pass.terminal import Painter, printable

#: details that the message says already
_SAID = ("conflict", "counted")


def render_finding(finding: Finding, paint: Painter, kernel: str, ptx_name: str = "", alike: tuple[int, int] = (0, 0)) -> list[str]:
    """The lines of one finding. ``ptx_name`` names the PTX file where sites have no line of the user's; ``alike`` counts
    the findings at the same lines that are not printed, and their instances."""
    about = finding.kind + (f" on {_place_name(finding)}" if _place_name(finding) else "")
    if finding.severity is Severity.NOTE:
        return _note(finding, paint, f"{kernel}: {about}", ptx_name, alike)
    rows = [title(paint, "error", f"{kernel}: {about}", _tag(finding))]
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
    if alike[0]:
        rows += labelled(paint, "also", _at_the_same_lines(finding, *alike))
    hint = finding_hint(finding)
    return rows + (labelled(paint, "help", hint) if hint else [])


def _note(finding: Finding, paint: Painter, about: str, ptx_name: str, alike: tuple[int, int]) -> list[str]:
    """A note changes no verdict: two lines, with the first site's place."""
    site = next(iter(finding.sites), None)
    count = finding.count + alike[1]
    times = f", {count} times" if count > 1 else ""
    rows = [f"{paint('note', 'note:')} {about}{times}: {finding_hint(finding) or printable(finding.message)}"]
    if site is not None:
        rows.append(f"  {paint('place', '-->')} {_place(site, ptx_name)}  {_instruction(site)}")
    return rows


def thread_name(site: Site) -> str:
    """``CTA 3, warp 0, lane 5`` (a CTA with more than one index as ``CTA (3,1,0)``)."""
    x, y, z = site.cta
    cta = str(x) if y == 0 and z == 0 else f"({x},{y},{z})"
    return f"CTA {cta}, warp {site.warp}, lane {site.lane}"


def _site(site: Site, paint: Painter, ptx_name: str, *, with_excerpt: bool) -> list[str]:
    note = f"{site.role}, thread ({thread_name(site)}), {_instruction(site)}"
    if with_excerpt and site.user_loc:
        return [*excerpt(site.user_loc, paint), f"    {'' if site.role.startswith('waits at') else 'by '}{note}"]
    return [f"  {paint('place', '-->')} {_place(site, ptx_name)}  {note}"]


def _instruction(site: Site) -> str:
    where = f"PTX line {site.ptx_line}" if site.ptx_line else f"instruction {site.instruction}"
    return where + (f": {printable(site.ptx_text.strip())}" if site.ptx_text else "")


def _place(site: Site, ptx_name: str) -> str:
    """The user's line, else the PTX line, else the instruction's number."""
    if site.user_loc or not site.ptx_line:
        return shown_place(site.user_loc or f"instruction {site.instruction}")
    return shown_place(f"{ptx_name}:{site.ptx_line}") if ptx_name else f"PTX line {site.ptx_line}"


def _place_name(finding: Finding) -> str:
    if finding.kind in ("data race", "same-value write", "unused read"):
        return f"{finding.space} memory" if finding.space else ""
    return finding.tensor or (f"{finding.space} memory" if finding.space and finding.space != "register" else "")


def _tag(finding: Finding) -> str:
    if finding.kind == "data race":
        return "race, 2 schedules exist"
    return finding.kind


def _address(finding: Finding) -> str:
    size = f" ({finding.width_bytes} bytes)" if finding.width_bytes else ""
    if finding.tensor and finding.index:
        return f"{finding.tensor}[{', '.join(map(str, finding.index))}]{size}"
    base = finding.tensor or finding.space or "address"
    sign = "-" if finding.address_offset < 0 else "+"
    return f"{base}{sign}{abs(finding.address_offset):#x}{size}"


def _at_the_same_lines(finding: Finding, groups: int, instances: int) -> str:
    what = f"{'pair' if len(finding.sites) > 1 else 'instruction'}{'s' * (groups > 1)}"
    what = f"{what} of instructions" if len(finding.sites) > 1 else what
    return f"{groups} more {what} at the same lines ({instances} instance{'s' * (instances > 1)}); the JSON report has them"


def _more(finding: Finding) -> str:
    if finding.kind == "deadlock":
        return f"{finding.count - 1} more CTA{'s' * (finding.count > 2)} at the same instructions"
    several = "s" * (finding.count > 2)
    which = f"pair{several} of the same two instructions" if len(finding.sites) > 1 else f"instance{several} at the same instruction"
    least = f"{finding.details['counted']} " if "counted" in finding.details else ""
    return f"{least}{finding.count - 1} more {which}"
