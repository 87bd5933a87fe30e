"""Words a deadlock that the machine has found: who waits where, and for whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptx_engine.findings import Finding, Site
from ptx_engine.launch import Launch
from ptx_engine.order.report import cta_index

#: sites shown; the count says how many groups wait
SHOWN = 4


@dataclass(frozen=True)
class Blocked:
    """A group of threads that waits: its CTA (number in the grid) and thread numbers, sorted; the instruction, what it waits at
    ("bar.sync 1, count 64", "mbarrier at shared+0x40, phase 3", "flag[0]") and what is missing ("32 of 64 threads arrived")."""

    cta: int
    tids: np.ndarray
    instruction: int
    at: str
    waits_for: str


def deadlock_finding(launch: Launch, blocked: Sequence[Blocked], warp_size: int = 32) -> Finding:
    """The finding for groups of which none can ever go on; ``blocked`` must not be empty."""
    sites = tuple(_site(launch, b, int(b.tids[0]), warp_size) for b in blocked[:SHOWN])
    each = "; ".join(f"{thread_names(b.tids)} wait{'s' * (len(b.tids) == 1)} at {b.at}: {b.waits_for}" for b in blocked[:SHOWN])
    more = f"; and {len(blocked) - SHOWN} more groups" if len(blocked) > SHOWN else ""
    return Finding(
        kind="deadlock", message=f"deadlock: {each}{more}", sites=sites, missing=blocked[0].waits_for, count=len(blocked)
    )  # fmt: skip


def _site(launch: Launch, blocked: Blocked, tid: int, warp_size: int) -> Site:
    return Site(f"waits at {blocked.at}", cta_index(launch, blocked.cta), tid // warp_size, tid % warp_size, blocked.instruction)


def thread_names(tids: np.ndarray) -> str:
    """ "thread 3", "threads 0-15, 20" of sorted thread numbers; at most four runs of them, and then how many there are."""
    runs = np.split(tids, np.flatnonzero(np.diff(tids) > 1) + 1)
    words = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs[:4]]
    more = f", ... ({len(tids)})" if len(runs) > 4 else ""
    return f"thread{'s' * (len(tids) != 1)} {', '.join(words)}{more}"
