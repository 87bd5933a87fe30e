"""What bounds an execution, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ptx_engine.findings import Finding, Site
from ptx_engine.launch import Footprint
from ptx_engine.machine.program import PtxOrigin


@dataclass(frozen=True)
class Budget:
    """Limits of one execution; running out raises BudgetError, which becomes the verdict ``unknown``."""

    thread_instructions: int = 2_000_000_000
    seconds: float = 120.0
    terms: int = 1 << 28
    #: threads of CTAs executed together (columns are this long)
    batch_threads: int = 1 << 15
    batch_shared_bytes: int = 1 << 25
    #: runs of a block by closures after which it is fused; None: never. The outcome is the same
    fuse_after: int | None = 24


@dataclass
class Execution:
    """What one side did: elements written per tensor, findings, how much ran."""

    footprints: dict[str, Footprint]
    findings: list[Finding]
    ctas_executed: int
    ctas_total: int
    instructions: int
    seconds: dict[str, float]
    assumptions: list[str]
    #: the arena origins of this side, by instruction
    origins: list[PtxOrigin] = field(default_factory=list)
    #: why equal footprints prove nothing about other schedules (a value returned by an atomic is used): no proof then
    schedule_dependent: list[str] = field(default_factory=list)


def ptx_lines(lines: Iterable[int]) -> str:
    """Lines of PTX in a message."""
    found = sorted(set(lines))
    return f"PTX line{'s' * (len(found) != 1)} {', '.join(map(str, found))}"


def untrapped(traps: Mapping[int, frozenset[int]], origins: Sequence[PtxOrigin]) -> list[str]:
    """The assumption that no test of an mbarrier leads to a trap, where it may; ``traps`` with these tests."""
    tests = {pc for pcs in traps.values() for pc in pcs}
    return [f"tests of mbarriers lead to no trap ({ptx_lines(origins[pc].ptx_line for pc in tests)})"] if tests else []


def placed(finding: Finding, origins: Sequence[PtxOrigin]) -> Finding:
    """A finding with the PTX and user lines of its sites filled in."""

    def place(site: Site) -> Site:
        if not 0 <= site.instruction < len(origins):
            return site
        origin = origins[site.instruction]
        return replace(site, ptx_line=origin.ptx_line, ptx_text=origin.ptx_text, user_loc=origin.user_loc)

    return replace(finding, sites=tuple(map(place, finding.sites)))
