"""Findings of an evaluation, grouped: one per kind, tensor and operation, with a count and the first instance as example."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from ptx_engine.findings import Finding, Severity, Site
from ptx_engine.launch import Buffer


@dataclass
class FindingLog:
    """Collects findings; ``grid`` turns program numbers into program ids."""

    grid: tuple[int, int, int]
    _groups: dict[tuple[str, str, object], Finding] = field(default_factory=dict)

    def program(self, number: int) -> tuple[int, int, int]:
        """Program ids (x, y, z) of a linear number."""
        x, y, _ = self.grid
        return number % x, number // x % y, number // (x * y)

    def add(
        self,
        kind: str,
        message: str,
        role: str,
        origin: object,
        number: int,
        *,
        buffer: Buffer | None = None,
        offset_bytes: int = 0,
        severity: Severity = Severity.ERROR,
        count: int = 1,
    ) -> None:
        """One group of ``count`` instances; a group seen before only grows."""
        tensor = buffer.arg.name if buffer is not None else ""
        key = (kind, tensor, origin)
        known = self._groups.get(key)
        if known is not None:
            self._groups[key] = dataclasses.replace(known, count=known.count + count)
            return
        place = getattr(origin, "user_loc", "")
        site = Site(role, self.program(number), 0, 0, 0, 0, getattr(origin, "op_name", ""), place)
        width = buffer.arg.element_bytes if buffer is not None else 0
        index = _index(buffer, offset_bytes) if buffer is not None else ()
        self._groups[key] = Finding(
            kind, message, severity, "global", tensor, index, offset_bytes, width, (site,), count=count, details={"side": "reference"}
        )

    def findings(self) -> list[Finding]:
        """All groups, in order of first appearance."""
        return list(self._groups.values())


def _index(buffer: Buffer, offset_bytes: int) -> tuple[int, ...]:
    """The multi-index of a byte offset; the flat element index where it lies outside of the tensor."""
    flat = offset_bytes // buffer.arg.element_bytes
    return buffer.arg.index_of(flat) if 0 <= flat < buffer.arg.storage else (flat,)
