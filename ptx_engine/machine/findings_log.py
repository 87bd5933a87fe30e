"""Collects memory and synchronisation findings while the machine runs: one group per kind and instruction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ptx_engine.findings import Finding, Severity, Site
from ptx_engine.isa.group import WARP, Group
from ptx_engine.launch import Launch
from ptx_engine.order.turns import Turn, turn_text


@dataclass
class _Entry:
    kind: str
    message: str
    severity: Severity
    space: str
    tensor: str
    index: tuple[int, ...]
    offset: int
    width: int
    site: Site
    missing: str
    count: int = 0
    details: dict[str, str] = field(default_factory=dict)


class FindingLog:
    """Findings by (kind, instruction, tensor); the first instance is the worked example."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.ctas: np.ndarray = np.zeros(0, np.int64)  # linear CTA numbers of the current batch
        #: why equal footprints of this run prove nothing about other schedules, with the instruction
        self._dependent: dict[str, set[int]] = {}
        #: whether nothing that is computed depends on what an instruction returns
        self.harmless: Callable[[int, Callable[[int], bool]], bool] = lambda instruction, reaches_global: False
        #: the state spaces that each atomic has been executed on
        self.atomic_spaces: dict[int, set[str]] = {}
        #: shown with the findings that follow
        self.turn: Turn = ()
        self._entries: dict[tuple[str, int, str], _Entry] = {}

    def site(self, role: str, thread: int, instruction: int) -> Site:
        """The site of a batch thread number."""
        block = self.launch.threads
        slot, tid = divmod(int(thread), block)
        linear = int(self.ctas[slot]) if slot < len(self.ctas) else 0
        gx, gy, _ = self.launch.grid
        cta = (linear % gx, linear // gx % gy, linear // (gx * gy))
        return Site(role, cta, tid // WARP, tid % WARP, instruction)

    def add(
        self, kind: str, message: str, g: Group, lanes: np.ndarray, instruction: int, *, role: str = "", space: str = "", tensor: str = "",
        index: tuple[int, ...] = (), offset: int = 0, width: int = 0, missing: str = "", severity: Severity = Severity.ERROR,
    ) -> None:  # fmt: skip
        """Record that ``lanes`` (positions in the group) have a finding at an instruction."""
        key = (kind, instruction, tensor)
        entry = self._entries.get(key)
        if entry is None:
            site = self.site(role or kind, int(g.threads[int(lanes[0])]), instruction)
            details = {"loop": turn_text(self.turn)} if self.turn else {}
            entry = self._entries[key] = _Entry(
                kind, message, severity, space, tensor, index, offset, width, site, missing, details=details
            )
        entry.count += len(lanes)

    def faulty(self) -> set[int]:
        """Instructions that have found no memory where they looked, in some thread."""
        return {instruction for kind, instruction, _ in self._entries if kind in ("out of bounds", "misaligned")}

    def schedule_dependent(self, reason: str, instruction: int) -> None:
        """Note that what was computed may differ in another schedule that is free of races."""
        self._dependent.setdefault(reason, set()).add(instruction)

    def dependent(self) -> list[tuple[str, int]]:
        """What may differ, each with the first instruction whose result is not harmless."""
        found: list[tuple[str, int]] = []
        for reason, instructions in self._dependent.items():
            harmful = [pc for pc in sorted(instructions) if not self.harmless(pc, self._may_be_global)]
            found += [(reason, pc) for pc in harmful[:1]]
        return found

    def harmful(self) -> set[int]:
        """All instructions on whose results what was computed depends."""
        every = {pc for instructions in self._dependent.values() for pc in instructions}
        return {pc for pc in every if not self.harmless(pc, self._may_be_global)}

    def _may_be_global(self, atomic: int) -> bool:
        return self.atomic_spaces.get(atomic) != {"shared"}

    def findings(self) -> list[Finding]:
        """All groups, in order of instruction."""
        rows = sorted(self._entries.items(), key=lambda item: (item[0][1], item[0][0], item[0][2]))
        return [
            Finding(e.kind, e.message, e.severity, e.space, e.tensor, e.index, e.offset, e.width, (e.site,), e.missing, e.count, e.details)
            for _, e in rows
        ]
