"""Which pieces of global memory some CTAs touched: enough to say that other CTAs, run elsewhere, had nothing to do with them.

CTAs of a grid can only meet in global memory. If no piece that one part of the grid writes is touched by another part, no access of
one part conflicts with any of another (no race between them), and no load of one part sees a store of another: each part does alone what it
does in the whole grid, under every schedule. Pieces are larger than elements, which errs on the side of "they meet". Strong operations
(atomics, volatile, acquire and release) may order CTAs and return what others stored: with one of them nothing is said.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptx_engine.launch import Buffer, Role
from ptx_engine.order.records import ATOMIC, WRITE, Column

#: log2 of the bytes of a piece
PIECE = 4
TOUCHED, WRITTEN = 1, 3


@dataclass(frozen=True)
class Touched:
    """Per buffer, a mark for each piece of memory (0, TOUCHED or WRITTEN); ``why`` not, where nothing can be said."""

    marks: dict[int, np.ndarray]
    why: str = ""


class Traffic:
    """Collects the accesses to global memory of the CTAs that ran."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        ordered = sorted(buffers, key=lambda b: b.address)
        self._cuts = [cut for b in ordered for cut in (b.address, b.address + max(b.bytes, 1))]
        self._buffers = ordered
        self._marks: dict[int, np.ndarray] = {}
        self._why = ""

    def add(self, column: Column) -> None:
        """An access; its ``low`` and ``high`` are known (``records.measure``)."""
        if column.kind & ATOMIC:
            self._why = "an atomic or volatile access to global memory"
            return
        first = bisect_right(self._cuts, column.low)
        if first == bisect_right(self._cuts, column.high - 1):
            self._mark(first, column.addresses, column.nbytes, bool(column.kind & WRITE))
            return
        where = np.searchsorted(np.asarray(self._cuts, np.int64), column.addresses, "right")
        for number in np.unique(where).tolist():
            self._mark(number, column.addresses[where == number], column.nbytes, bool(column.kind & WRITE))

    def _mark(self, region: int, addresses: np.ndarray, nbytes: int, write: bool) -> None:
        """Odd regions are buffers, even ones what lies between. Inputs cannot be written: reading them says nothing."""
        if not region & 1:
            self._why = self._why or ("a store outside all arguments" if write else "")
            return
        buffer = self._buffers[region // 2]
        if buffer.arg.role is Role.IN:
            self._why = self._why or (f"a store to {buffer.arg.name}, which is an input" if write else "")
            return
        marks = self._marks.get(buffer.number)
        if marks is None:
            marks = self._marks[buffer.number] = np.zeros((buffer.bytes >> PIECE) + 1, np.uint8)
        offsets = addresses - buffer.address
        low, high = offsets >> PIECE, (offsets + (nbytes - 1)) >> PIECE
        for step in range(int((high - low).max()) + 1):
            marks[np.minimum(low + step, high)] |= WRITTEN if write else TOUCHED

    def touched(self) -> Touched:
        """What was touched so far."""
        return Touched(self._marks, self._why)


def meeting(parts: Sequence[Touched]) -> str:
    """Why parts of a grid may have to do with each other; empty where they have not."""
    for part in parts:
        if part.why:
            return part.why
    for number in sorted(set().union(*(part.marks for part in parts))):
        seen: np.ndarray | None = None
        for part in parts:
            marks = part.marks.get(number)
            if marks is None:
                continue
            if seen is None:
                seen = marks.copy()
                continue
            if bool(((seen & marks & TOUCHED != 0) & ((seen | marks) == WRITTEN)).any()):
                return "CTAs that touch the same piece of global memory"
            seen |= marks
    return ""
