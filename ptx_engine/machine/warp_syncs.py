"""Lanes that wait for others of their warp: ``.sync`` instructions with a member mask act as barriers of a warp's lanes.

A lane goes on when every lane of its mask has come with the same mask, or has exited: to any ``bar.warp.sync``, or to the very same
instruction where values are exchanged. All lanes of a warp come to an ``.aligned`` collective, or nobody does what it says.
Source: PTX ISA 9.1, "bar.warp.sync", "shfl.sync" ("non-exited threads corresponding to membermask have executed shfl.sync with the
same qualifiers and same membermask value"), "mma" ("undefined ... if any thread in the warp has exited").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ptx_engine.isa.group import WARP, Group
from ptx_engine.isa.warp import Meeting, absent_lanes, lane_bits

#: instead of an instruction number: all ``bar.warp.sync`` are one meeting place
ANY_PLACE = -1
NOBODY, LANES = np.zeros(0, np.int32), np.arange(WARP, dtype=np.int32)


@dataclass
class Standing:
    """A group that has come to instruction ``pc``; ``members`` is each lane's mask."""

    group: Group
    pc: int
    what: str
    members: np.ndarray
    meeting: Meeting

    @property
    def place(self) -> int:
        return ANY_PLACE if self.meeting is Meeting.ANYWHERE else self.pc


@dataclass
class Met:
    """Groups that go on, each at an instruction; and for ``bar.warp.sync`` the threads that have met, one array per mask."""

    groups: list[tuple[Group, int]] = field(default_factory=list)
    barriers: list[tuple[int, np.ndarray]] = field(default_factory=list)

    def together(self) -> dict[int, list[Group]]:
        """The groups by instruction: an exchange takes all of its lanes at once, and no schedule may part them again."""
        found: dict[int, list[Group]] = {}
        for group, pc in self.groups:
            found.setdefault(pc, []).append(group)
        return found


class WarpSyncs:
    """The waiting lanes of a batch of CTAs."""

    def __init__(self, slots: int, block_threads: int) -> None:
        self.block_threads = block_threads
        self.waiting: list[Standing] = []
        self._exited: list[np.ndarray] = []
        #: the branch at which each thread last parted from others
        self._parted_at = np.full(slots * block_threads, -1, np.int32)
        per_cta = -(-block_threads // WARP)
        last = block_threads % WARP or WARP
        never = np.zeros((slots, per_cta), np.uint32)
        never[:, -1] = np.uint32(0xFFFFFFFF & ~((1 << last) - 1))  # lanes that the last warp does not have
        self._gone = never.ravel()

    def exited(self, threads: np.ndarray) -> None:
        """Threads have exited: nobody waits for them."""
        self._exited.append(threads)

    def part(self, threads: np.ndarray, branch: int, behind: Callable[[int, int], bool]) -> None:
        """Threads go different ways at a branch. ``behind(a, b)`` says that branch b comes after the place where the ways of a meet.

        Lanes that are behind that place without others of their warp have left those at the earlier branch: what they passed by there
        counts, wherever they part from each other afterwards.
        """
        earlier = self._parted_at[threads]
        left = [a for a in np.unique(earlier).tolist() if a >= 0 and a != branch and behind(a, branch)]
        if not left:
            self._parted_at[threads] = branch
            return
        slot, tid = np.divmod(threads, self.block_threads)
        warp = slot * (-(-self.block_threads // WARP)) + tid // WARP
        here = self.gone().copy()
        np.bitwise_or.at(here, warp, lane_bits(tid % WARP))
        alone = (here[warp] != 0xFFFFFFFF) & np.isin(earlier, left)
        self._parted_at[threads[~alone]] = branch

    def excused(self, quiet: Callable[[int], bool]) -> np.ndarray:
        """Of the lanes that are gone (as ``gone`` has them) those that left for good at the branch at which they parted from others:
        ``quiet`` says that nothing follows where its ways meet. A lane that passed a barrier by, and exited later, is not one of them."""
        excused = self.gone().copy()
        parted = np.flatnonzero(self._parted_at >= 0)
        busy = [branch for branch in np.unique(self._parted_at[parted]).tolist() if not quiet(branch)] if len(parted) else []
        if not busy:
            return excused
        threads = parted[np.isin(self._parted_at[parted], busy)]
        slot, tid = np.divmod(threads, self.block_threads)
        warp = slot * (-(-self.block_threads // WARP)) + tid // WARP
        np.bitwise_and.at(excused, warp, ~lane_bits(tid % WARP))
        return excused

    def gone(self) -> np.ndarray:
        """The lanes of each warp (numbered as ``Group.lane_and_warp`` does) that do not run any more."""
        for threads in self._exited:
            slot, tid = np.divmod(threads, self.block_threads)
            warp = slot * (-(-self.block_threads // WARP)) + tid // WARP
            np.bitwise_or.at(self._gone, warp, lane_bits(tid % WARP))
        self._exited.clear()
        return self._gone

    def meet(self) -> Met:
        """Take out the lanes that have met; ``bar.warp.sync`` is behind them, an exchange is still to be executed, by all together."""
        met = Met()
        for place in sorted({s.place for s in self.waiting}):
            entries = [s for s in self.waiting if s.place == place]
            self._meet_at(entries, _absent(entries, self.gone()), met)
        return met

    def _meet_at(self, entries: list[Standing], absent: np.ndarray, met: Met) -> None:
        if (absent != 0).all():
            return
        start = 0
        for entry in entries:
            ready = absent[start : start + entry.group.n] == 0
            start += entry.group.n
            if not ready.any():
                continue
            self.waiting.remove(entry)
            if not ready.all():
                self.waiting.append(_part(entry, ~ready))
                entry = _part(entry, ready)
            met.groups.append((entry.group, entry.pc + (entry.meeting is Meeting.ANYWHERE)))
        if entries[0].meeting is Meeting.ANYWHERE:
            threads = np.concatenate([e.group.threads for e in entries])[absent == 0]
            members = np.concatenate([e.members for e in entries])[absent == 0]
            met.barriers += [(entries[0].pc, np.sort(threads[members == mask])) for mask in np.unique(members)]

    def missing(self, standing: Standing) -> np.ndarray:
        """For each lane of a waiting group, the lanes that it waits for."""
        alike = [standing, *(s for s in self.waiting if s is not standing and s.place == standing.place)]
        return _absent(alike, self.gone())[: standing.group.n]

    def awaited(self) -> np.ndarray:
        """The threads that waiting lanes wait for."""
        found = [NOBODY]
        for s in self.waiting:
            first = s.group.threads - s.group.threads % self.block_threads % WARP  # of each lane's warp
            found.append((first[:, None] + LANES)[self.missing(s)[:, None] >> LANES.astype(np.uint32) & 1 != 0])
        return np.unique(np.concatenate(found))

    def take_parted(self, mnemonic: Callable[[int], str]) -> list[Standing]:
        """Take out lanes that stand at one instruction in different places of the program, and have all met if the places do not count."""
        for first in self.waiting:
            alike = [s for s in self.waiting if s.meeting is Meeting.INSTRUCTION and mnemonic(s.pc) == mnemonic(first.pc)]
            if first not in alike or len({s.pc for s in alike}) < 2:
                continue
            ready = np.split(_absent(alike, self.gone()) == 0, np.cumsum([s.group.n for s in alike])[:-1])
            found = [(entry, chosen) for entry, chosen in zip(alike, ready) if chosen.any()]
            for entry, chosen in found:
                self.waiting.remove(entry)
                if not chosen.all():
                    self.waiting.append(_part(entry, ~chosen))
            if found:
                return [_part(entry, chosen) for entry, chosen in found]
        return []


def _part(entry: Standing, chosen: np.ndarray) -> Standing:
    where = np.flatnonzero(chosen)
    return Standing(entry.group.subset(where, range(len(entry.group.R))), entry.pc, entry.what, entry.members[where], entry.meeting)


def _absent(entries: list[Standing], gone: np.ndarray) -> np.ndarray:
    """For all lanes of the entries, one after another, who of their masks is missing."""
    places = [e.group.lane_and_warp() for e in entries]
    lane, warp = (np.concatenate([place[i] for place in places]) for i in (0, 1))
    if entries[0].meeting is Meeting.ALIGNED:
        gone = np.zeros_like(gone)
    return absent_lanes(lane, warp, np.concatenate([e.members for e in entries]), gone)
