"""Deadlocks as findings: one for each set of instructions at which a CTA's threads wait, with who waits for whom in one CTA."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ptx_engine.findings import Finding
from ptx_engine.isa.group import WARP
from ptx_engine.isa.warp import Meeting, lane_names
from ptx_engine.launch import Launch
from ptx_engine.machine.barriers import Barriers, Waiting
from ptx_engine.machine.findings_log import FindingLog
from ptx_engine.machine.last_looks import LastLooks
from ptx_engine.machine.mbarriers import Mbarriers, Objects
from ptx_engine.machine.polling import Pollers
from ptx_engine.machine.warp_syncs import Standing, WarpSyncs
from ptx_engine.order.deadlock import Blocked, deadlock_finding, thread_names


@dataclass(frozen=True)
class Stuck:
    """Threads (batch numbers) that wait at an instruction; ``waits_for`` says for whom, given a CTA slot of theirs."""

    threads: np.ndarray
    instruction: int
    at: str
    waits_for: Callable[[int], str]


class Deadlocks:
    """The deadlocks of a launch."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._found: dict[tuple[int, ...], Finding] = {}

    def add(self, ctas: np.ndarray, stuck: Sequence[Stuck], but: frozenset[int] = frozenset()) -> None:
        """Record the groups that wait at the end of a batch of CTAs (linear numbers), but for some slots: there the cause is known."""
        slots = [np.unique(s.threads // self._launch.threads) for s in stuck]
        for slot in np.setdiff1d(np.concatenate(slots), list(but)).tolist() if stuck else []:
            here = [s for s, of in zip(stuck, slots) if slot in of]
            key = tuple(sorted({s.instruction for s in here}))
            known = self._found.get(key)
            if known is None:
                finding = deadlock_finding(self._launch, [self._blocked(s, slot, int(ctas[slot])) for s in here])
                self._found[key] = replace(finding, count=1)
            else:
                self._found[key] = replace(known, count=known.count + 1)

    def _blocked(self, stuck: Stuck, slot: int, cta: int) -> Blocked:
        tids = stuck.threads[stuck.threads // self._launch.threads == slot] % self._launch.threads
        return Blocked(cta, np.sort(tids), stuck.instruction, stuck.at, stuck.waits_for(slot))

    def findings(self) -> list[Finding]:
        """One per set of instructions; ``count`` is the number of CTAs."""
        return [self._found[key] for key in sorted(self._found)]


def stuck_at_barriers(barriers: Barriers) -> Iterator[Stuck]:
    """Who waits at CTA barriers."""
    for w in barriers.waiting:
        if w.op.kind != "arrive":
            count = "" if w.count is None else f", count {w.count}"
            yield Stuck(w.group.threads, w.pc, f"bar.{w.op.kind} {w.number}{count}", _arrivals(barriers, w))


def _arrivals(barriers: Barriers, waiting: Waiting) -> Callable[[int], str]:
    def text(slot: int) -> str:
        come, absent, gone = barriers.whereabouts(waiting.number, slot)
        arrived, expected, with_warp = len(come), int(barriers.live[slot]), 0
        if waiting.count is not None:
            times, missing = barriers.arrivals(waiting.number)
            arrived, expected = int(WARP * times[slot].sum() - missing[slot].sum()), waiting.count
            with_warp = arrived - len(come)
        counted = f" ({with_warp} of them have exited: they count with their warps)" if with_warp > 0 else ""
        if arrived > expected:
            return f"{arrived} threads have arrived{counted}, more than the {expected} that it counts"
        if waiting.count is None:
            living = " that have not exited" * (expected < barriers.block_threads)
            return f"{arrived} of {expected} threads{living} have arrived, {_never(absent)}"
        others = [_never(absent)] if len(absent) else []
        others += [f"{thread_names(gone)} {'has' if len(gone) == 1 else 'have'} exited"] if len(gone) else []
        return f"{arrived} of {expected} threads have arrived{counted}, {' and '.join(others) or 'the CTA has no others'}"

    return text


def _never(tids: np.ndarray) -> str:
    return f"{thread_names(tids)} never come{'s' * (len(tids) == 1)}"


def stuck_at_warp_syncs(syncs: WarpSyncs) -> Iterator[Stuck]:
    """Who waits for lanes of the same warp."""
    for s in syncs.waiting:
        if s.meeting is Meeting.ALIGNED:
            continue
        masks = np.unique(s.members)
        mask = f"mask 0x{int(masks[0]):08x}" if len(masks) == 1 else "different masks"
        yield Stuck(s.group.threads, s.pc, f"{s.what} with {mask}", _missing_lanes(s, syncs))


def _missing_lanes(s: Standing, syncs: WarpSyncs) -> Callable[[int], str]:
    def text(slot: int) -> str:
        first = int(np.flatnonzero(s.group.threads // syncs.block_threads == slot)[0])
        missing = int(syncs.missing(s)[first])
        one = "s" * (missing.bit_count() == 1)
        how = f"come{one} to a" if s.meeting is Meeting.ANYWHERE else f"execute{one} this"
        return f"{lane_names(missing)} of the warp, named by the mask, never {how} {s.what}"

    return text


def divided_warps(syncs: WarpSyncs, log: FindingLog, stuck: Sequence[Stuck], but: Container[int] = ()) -> frozenset[int]:
    """Report the ``.aligned`` collectives that only a part of a warp has come to, but for CTAs in slots whose cause is known; the slots of
    all that are stuck so."""
    found: set[int] = set()
    for s in syncs.waiting:
        if s.meeting is not Meeting.ALIGNED:
            continue
        slots = (s.group.threads // syncs.block_threads).tolist()
        found.update(slots)
        lanes = np.flatnonzero([slot not in but for slot in slots])
        if not len(lanes):
            continue
        missing = int(syncs.missing(s)[lanes[0]])
        names = lane_names(missing)
        why = _whereabouts(s, int(s.group.threads[lanes[0]]), missing, syncs, stuck)
        log.add(
            "divergent collective", f"{s.what} is executed by a part of a warp: {names} {why}", s.group, lanes, s.pc,
            role=s.what, missing=f"{names} of the warp at the same instruction",
        )  # fmt: skip
    return frozenset(found)


def _whereabouts(s: Standing, thread: int, missing: int, syncs: WarpSyncs, stuck: Sequence[Stuck]) -> str:
    """What has become of the lanes that are missing in the warp of a thread."""
    tid = thread % syncs.block_threads
    base = thread - tid % WARP
    if tid - tid % WARP + missing.bit_length() > syncs.block_threads:
        return f"do not exist in a block of {syncs.block_threads} threads"
    lanes = [base + i for i in range(WARP) if missing >> i & 1]
    elsewhere = [(o.group.threads, f"another {o.what}") for o in syncs.waiting if o is not s and o.meeting is Meeting.ALIGNED]
    for threads, at in [*elsewhere, *((other.threads, other.at) for other in stuck)]:
        if np.isin(lanes, threads).all():
            return f"wait{'s' * (len(lanes) == 1)} at {at}"
    gone = int(syncs.gone()[thread // syncs.block_threads * -(-syncs.block_threads // WARP) + tid // WARP])
    one = len(lanes) == 1
    return f"{'has' if one else 'have'} exited" if missing & ~gone == 0 else f"never come{'s' * one} to it"


def stuck_in_loops(pollers: Pollers, mbarriers: Mbarriers, looks: LastLooks, barriers: Barriers) -> Iterator[Stuck]:
    """Who waits in a loop, for an mbarrier or for another value in memory."""
    for p in pollers.waiting:
        if p.blind:
            yield Stuck(p.group.threads, p.pc, "a loop that loads nothing", lambda _: "what it decides by changes no more")
            continue
        awaited = mbarriers.awaited(p.group.threads) if p.on_mbarrier else []
        for objects, threads in awaited:
            for phase in np.unique(objects.phase[threads // mbarriers.block_threads]).tolist():
                some = threads[objects.phase[threads // mbarriers.block_threads] == phase]
                at = f"the mbarrier at shared+0x{objects.address:x}, phase {phase}"
                yield Stuck(some, p.pc, at, _missing_arrivals(objects, barriers))
        for place, threads in looks.places(p.group.threads) if not awaited else ():
            yield Stuck(threads, p.pc, f"a loop that polls {place}", lambda _: "a value that no thread stores")


def _missing_arrivals(objects: Objects, barriers: Barriers) -> Callable[[int], str]:
    block_threads = barriers.block_threads

    def text(slot: int) -> str:
        pending, expected, left = (int(c[slot]) for c in (objects.pending, objects.expected, objects.transactions))
        missing = f"{pending} of {expected} arrivals never come" if pending else ""
        if left:
            missing += f"{' and ' * bool(missing)}{left} bytes of transactions are never completed"
        own = objects.arrived[slot * block_threads : (slot + 1) * block_threads]
        absent = np.flatnonzero(own != objects.phase[slot])
        if pending and 0 < len(absent) < block_threads:
            missing += f": {thread_names(absent)} of the CTA {'has' if len(absent) == 1 else 'have'} not arrived in this phase"
            gone = absent[barriers.exited_of(slot)[absent]]
            missing += f" ({thread_names(gone)} {'has' if len(gone) == 1 else 'have'} exited)" if len(gone) else ""
        return missing

    return text
