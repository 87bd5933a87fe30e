"""Findings, as values: races, deadlocks, memory faults, each with its two sites and what is missing.

All findings of a launch are kept, grouped by instruction pair: ``count`` says how many instances a
group stands for, the sites are one worked example.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Severity(Enum):
    """ERROR makes the verdict ``refuted``; NOTE is shown and changes no verdict (same-value writes)."""

    ERROR = "error"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Site:
    """One access or wait: which thread, which instruction. ``instruction`` indexes the decoded function."""

    role: str  # "store", "load", "cp.async write", "barrier", ...
    cta: tuple[int, int, int]
    warp: int
    lane: int
    instruction: int
    ptx_line: int = 0
    ptx_text: str = ""
    user_loc: str = ""  # "file.py:12:3"; empty where the PTX has no .loc


@dataclass(frozen=True, slots=True)
class Finding:
    """One group of findings of a kind at one instruction (pair)."""

    kind: str  # "data race", "same-value write", "deadlock", "out of bounds", "misaligned", "uninitialised", ...
    message: str
    severity: Severity = Severity.ERROR
    space: str = ""  # "shared", "global", "local", "register"
    tensor: str = ""
    index: tuple[int, ...] = ()
    address_offset: int = 0  # bytes from the start of the tensor or of shared memory
    width_bytes: int = 0
    sites: tuple[Site, ...] = ()
    missing: str = ""
    count: int = 1
    details: dict[str, str] = field(default_factory=dict)

    @property
    def pair(self) -> tuple[str, tuple[int, ...]]:
        """Its kind and instructions, which tell findings of several runs of one launch apart; of a deadlock those at which threads wait, in
        however many groups."""
        if self.kind == "deadlock":
            return self.kind, tuple(sorted({site.instruction for site in self.sites}))
        return self.kind, tuple(sorted(site.instruction for site in self.sites[:2]))
