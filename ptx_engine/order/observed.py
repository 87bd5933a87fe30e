"""Which atomic writes have been seen by whom: an atomic write comes before all that follows, in causality, a strong read that observed it.

So the last one to count may set the counter back by a plain store: its atomic has observed the atomics of all others. This is no order of
anything but the atomic write itself. Source: PTX ISA 9.1, "Observation Order" (from a write to a read, through read-modify-writes),
"Causality Order" ("X precedes some operation Z in observation order, and Z precedes Y in base causality order").
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: (CTA, or -1 for global memory; byte address)
Place = tuple[int, int]


@dataclass
class _Location:
    """``since``: when the sequence of read-modify-writes began that a read now observes. ``seen``: (time, thread, since) of reads."""

    since: int = -1
    seen: list[tuple[int, int, int]] = field(default_factory=list)


class Observed:
    """Strong reads on which control depends, by location: what they have observed holds in every schedule that gets beyond them."""

    def __init__(self) -> None:
        self._locations: dict[Place, _Location] = {}

    def read(self, place: Place, seq: int, thread: int) -> None:
        """A strong read."""
        location = self._locations.setdefault(place, _Location())
        location.seen.append((seq, thread, location.since))

    def begin(self, place: Place, seq: int) -> None:
        """A store: reads observe it and the read-modify-writes that follow it, and nothing before."""
        self._locations.setdefault(place, _Location()).since = seq

    def readers(self, place: Place, write: int, writer: int) -> list[tuple[int, int]]:
        """(time, thread) of the reads that have observed a thread's atomic write of the place. Those of one time take effect one after
        another, by thread."""
        location = self._locations.get(place)
        if location is None:
            return []
        return [(seq, thread) for seq, thread, since in location.seen if since <= write and (write, writer) < (seq, thread)]
