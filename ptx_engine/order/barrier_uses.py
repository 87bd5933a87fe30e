"""Whether the uses of a numbered barrier can run into each other: two barriers of one id in flight.

A thread that comes to a barrier must know that the last use of its id is over: it was released by it, or has heard from a thread that was,
or, where all only arrived, from all of them. Else some schedule counts it among those of the last use.
Source: PTX ISA 9.1, "bar, barrier" ("when the barrier completes ... it can be immediately reused").
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

#: the rows of a clock that are asked: times of execution by thread of the CTA; None where nothing is known
Known = np.ndarray


@dataclass(frozen=True, slots=True)
class Overlap:
    """A thread (grid-wide) that comes to a barrier too early, and the instruction at which its last use ended."""

    barrier_id: int
    thread: int
    instruction: int
    last: tuple[int, int]


@dataclass
class _Use:
    """The last use of an id in a CTA: when and where it ended, who was released; and who only arrived, and when."""

    seq: int
    last: tuple[int, int]
    released: np.ndarray
    arrived: list[tuple[int, int]]


@dataclass
class BarrierUses:
    """All ids of all CTAs. ``overlaps``: the first of each pair of instructions, and how many there are."""

    threads_per_cta: int
    overlaps: dict[tuple[int, int], tuple[Overlap, int]] = field(default_factory=dict)
    _last: dict[tuple[int, int], _Use] = field(default_factory=dict)
    _coming: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)

    def come(self, cta: int, barrier_id: int, thread: int, known: "Known | None", instruction: int) -> None:
        """A thread comes to a barrier, knowing of threads that they have executed up to ``known``."""
        use = self._last.get((cta, barrier_id))
        if use is None or is_over(use, known):
            return
        at = (use.last[1], instruction)
        first, count = self.overlaps.get(at, (Overlap(barrier_id, thread, instruction, use.last), 0))
        self.overlaps[at] = (first, count + 1)

    def arrive(self, cta: int, barrier_id: int, thread: int, seq: int) -> None:
        """A thread arrives that does not wait."""
        self._coming.setdefault((cta, barrier_id), []).append((thread - cta * self.threads_per_cta, seq))

    def end(self, cta: int, barrier_id: int, seq: int, instruction: int, released: list[int]) -> None:
        """A use ends; ``released``: the threads (grid-wide) that waited."""
        tids = np.asarray(released, np.int64) - cta * self.threads_per_cta
        arrived = self._coming.pop((cta, barrier_id), [])
        thread = released[0] if released else cta * self.threads_per_cta + arrived[0][0] if arrived else cta * self.threads_per_cta
        self._last[cta, barrier_id] = _Use(seq, (thread, instruction), tids, arrived)


def is_over(use: _Use, known: "Known | None") -> bool:
    """Whether a thread with such knowledge comes after the end of a use."""
    if len(use.released):
        return known is not None and bool((known[use.released] >= use.seq).any())
    return all(known is not None and known[other] > when for other, when in use.arrived)
