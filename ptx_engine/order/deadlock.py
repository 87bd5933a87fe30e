"""Words a deadlock that the machine has found: who waits where, and for whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptx_engine.findings import Finding, Site
from ptx_engine.launch import Launch
from ptx_engine.order.report import cta_index

#: sites shown; the count says how many groups wait
SHOWN = 4


@dataclass(frozen=True)
class Blocked:
    """A group of threads that waits: a representative (grid CTA number, tid), its size, the instruction, what it waits at
    ("bar.sync 1, count 64", "mbarrier at shared+0x40, phase 3", "flag[0]") and what is missing ("32 of 64 threads arrived")."""

    cta: int
    tid: int
    threads: int
    instruction: int
    at: str
    waits_for: str


def deadlock_finding(launch: Launch, blocked: Sequence[Blocked], warp_size: int = 32) -> Finding:
    """The finding for groups of which none can ever go on; ``blocked`` must not be empty."""
    sites = tuple(
        Site(f"waits at {b.at}", cta_index(launch, b.cta), b.tid // warp_size, b.tid % warp_size, b.instruction) for b in blocked[:SHOWN]
    )
    each = "; ".join(f"{b.threads} thread{'s' * (b.threads != 1)} at {b.at}: {b.waits_for}" for b in blocked[:SHOWN])
    more = f"; and {len(blocked) - SHOWN} more groups" if len(blocked) > SHOWN else ""
    return Finding(
        kind="deadlock", message=f"deadlock: {each}{more}", sites=sites, missing=blocked[0].waits_for, count=len(blocked)
    )  # fmt: skip
