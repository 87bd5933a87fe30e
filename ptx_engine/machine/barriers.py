"""CTA barriers: who waits at which of the 16 barriers of each CTA, and when one completes.

``bar.sync a`` without a count waits for all threads of the CTA that have not exited. With a count it waits for so many threads in whole
warps: a warp has arrived when all of its threads have come that have not exited ("wait for all non-exited threads from its warp and marks
warps' arrival"); a warp of which nobody comes is missing, exited or not ("exit" lets only barriers "waiting on all threads" go).
Source: PTX ISA 9.1, "Parallel Synchronization and Communication Instructions: bar, barrier"; "Control Flow Instructions: exit".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ptx_engine.isa.group import WARP, Group
from ptx_engine.isa.values import Value
from ptx_engine.isa.warp import lane_bits
from ptx_engine.machine.predication import concrete_predicate
from ptx_engine.machine.program import BarrierOp


@dataclass
class Waiting:
    """A group that stands at a barrier (``sync``, ``red``) or has passed it by ``arrive`` (then only its threads count)."""

    group: Group
    op: BarrierOp
    pc: int
    number: int
    count: int | None


@dataclass
class Completed:
    """A barrier that completed: all participating threads, those that only arrived, the groups that go on, and all that came."""

    pc: int
    number: int
    count: int | None
    synced: np.ndarray
    arrived: np.ndarray
    resumed: list[Waiting]
    taken: list[Waiting]


class Barriers:
    """The barriers of a batch of CTAs."""

    def __init__(self, slots: int, block_threads: int) -> None:
        self.block_threads = block_threads
        self.live = np.full(slots, block_threads, np.int64)  # threads per CTA that have not exited
        self._gone = np.zeros(slots * block_threads, np.bool_)
        #: threads of each warp that have not exited, a row per CTA
        self._alive = np.bincount(self._warp(np.arange(slots * block_threads))).reshape(slots, -1)
        self.waiting: list[Waiting] = []

    def _warp(self, threads: np.ndarray) -> np.ndarray:
        """A number unique to each warp of the batch."""
        slot, tid = threads // self.block_threads, threads % self.block_threads
        warp: np.ndarray = slot * -(-self.block_threads // WARP) + tid // WARP
        return warp

    def exited(self, threads: np.ndarray) -> None:
        """Threads have exited: their CTAs and warps wait for fewer."""
        self.live -= np.bincount(threads // self.block_threads, minlength=len(self.live))
        self._gone[threads] = True
        self._alive -= np.bincount(self._warp(threads), minlength=self._alive.size).reshape(self._alive.shape)

    def arrivals(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """For each warp (a row per CTA) how often it has come to a barrier, and how many of its threads must come yet."""
        threads = np.concatenate([np.zeros(0, np.int64), *(w.group.threads for w in self.waiting if w.number == number)])
        times, there = np.zeros(self._alive.size, np.int64), np.zeros(self._alive.size, np.int64)
        np.maximum.at(times, self._warp(threads), np.bincount(threads, minlength=len(self._gone))[threads])
        np.add.at(there, self._warp(threads[~self._gone[threads]]), 1)  # a thread may exit after bar.arrive
        shape = self._alive.shape
        return times.reshape(shape), np.maximum(self._alive * times.reshape(shape) - there.reshape(shape), 0)

    def exited_of(self, slot: int) -> np.ndarray:
        """Which threads of a CTA have exited."""
        return self._gone[slot * self.block_threads : (slot + 1) * self.block_threads]

    def whereabouts(self, number: int, slot: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the threads of one CTA (numbers in it): those that have come to a barrier, those that have not, and those that have exited
        and do not count with their warp."""
        first = slot * self.block_threads
        here = np.zeros(self.block_threads, np.bool_)
        for w in self.waiting:
            tids = w.group.threads[w.group.threads // self.block_threads == slot] - first if w.number == number else []
            here[tids] = True
        gone = self.exited_of(slot)
        warps = np.arange(self.block_threads) // WARP
        with_warp = np.isin(warps, warps[here]) if any(w.count is not None for w in self.waiting if w.number == number) else False
        return np.flatnonzero(here), np.flatnonzero(~here & ~gone), np.flatnonzero(~here & gone & ~with_warp)

    def come(self, new: Waiting) -> tuple[str, np.ndarray] | None:
        """A group comes to a barrier; what is wrong with that, and for which of its lanes, if others stand there with another count or
        another kind of barrier, or the same threads have arrived there before."""
        found: tuple[str, np.ndarray] | None = None
        for w in self.waiting:
            if w.number != new.number or found is not None:
                continue
            said = clash(w, new)
            if said:
                meets = np.isin(new.group.threads // self.block_threads, w.group.threads // self.block_threads)
                found = (said, np.flatnonzero(meets)) if meets.any() else None
            elif w.op.kind == "arrive":
                again = np.isin(new.group.threads, w.group.threads)
                found = (f"threads come to barrier {w.number} again before it is complete", np.flatnonzero(again)) if again.any() else None
        self.waiting.append(new)
        return found or self._crowded(new)

    def _crowded(self, new: Waiting) -> tuple[str, np.ndarray] | None:
        """More threads at a barrier than it counts."""
        if new.count is None:
            return None
        slot = new.group.threads // self.block_threads
        there = WARP * self.arrivals(new.number)[0].sum(axis=1)
        over = there[slot] > new.count
        if not over.any():
            return None
        most = int(there[slot].max())
        said = f"two barriers of id {new.number} are in flight: {most} threads have come to one that counts {new.count}"
        return said, np.flatnonzero(over)

    def spent(self, number: int) -> bool:
        """Whether nobody waits at a barrier to which threads have come: then it may be complete before any of them comes there again."""
        return all(w.op.kind == "arrive" for w in self.waiting if w.number == number)

    def complete(self) -> list[Completed]:
        """Barriers that now have all their threads; their groups are taken out of ``waiting`` (split by CTA if need be)."""
        done: list[Completed] = []
        for number in sorted({w.number for w in self.waiting}):
            entries = [w for w in self.waiting if w.number == number]
            done.extend(self._complete_one(number, entries))
        return done

    def _complete_one(self, number: int, entries: list[Waiting]) -> list[Completed]:
        if len(entries) == 1 and entries[0].count is None and entries[0].group.n == int(self.live.sum()):
            self.waiting.remove(entries[0])  # all threads that run have come together
            return [self._completed(number, entries)]
        counts = np.zeros(len(self.live), np.int64)
        for w in entries:
            counts += np.bincount(w.group.threads // self.block_threads, minlength=len(self.live))
        expected = np.full(len(self.live), -1, np.int64)
        for w in entries:
            slots = np.unique(w.group.threads // self.block_threads)
            expected[slots] = w.count if w.count is not None else self.live[slots]
        if any(w.count is not None for w in entries):
            times, missing = self.arrivals(number)
            numbered = np.unique(np.concatenate([w.group.threads // self.block_threads for w in entries if w.count is not None]))
            counts[numbered] = np.where(missing.any(axis=1), 0, WARP * times.sum(axis=1))[numbered]
        full = (counts == expected) & (counts > 0)
        if not full.any():
            return []
        taken: list[Waiting] = []
        for w in entries:
            chosen = full[w.group.threads // self.block_threads]
            if not chosen.any():
                continue
            self.waiting.remove(w)
            if chosen.all():
                taken.append(w)
                continue
            registers = range(len(w.group.R))
            taken.append(Waiting(w.group.subset(np.flatnonzero(chosen), registers), w.op, w.pc, number, w.count))
            self.waiting.append(Waiting(w.group.subset(np.flatnonzero(~chosen), registers), w.op, w.pc, number, w.count))
        return [self._completed(number, taken)]

    def _completed(self, number: int, taken: list[Waiting]) -> Completed:
        synced = [w.group.threads for w in taken if w.op.kind != "arrive"]
        arrived = [w.group.threads for w in taken if w.op.kind == "arrive"]
        empty = np.zeros(0, np.int32)
        return Completed(
            taken[0].pc, number, taken[0].count,
            np.sort(np.concatenate(synced)) if synced else empty, np.sort(np.concatenate(arrived)) if arrived else empty,
            [w for w in taken if w.op.kind != "arrive"], taken,
        )  # fmt: skip


def divided(came: Sequence[Waiting], excused: np.ndarray) -> Iterator[tuple[Waiting, np.ndarray, np.ndarray]]:
    """Of those that came to aligned barriers, the lanes (positions in their groups) whose warp has not come to the same instruction as a
    whole, but for lanes that need not come (``excused``: a mask for each warp); and who is missing, as a mask for each of these lanes.
    Asked for when no lane can come any more: one may come late, from a way of its own."""
    for pc in sorted({w.pc for w in came if w.op.aligned and not w.group.whole_warps}):
        here = [w for w in came if w.pc == pc]
        missing = ~excused
        for w in here:
            lane, warp = w.group.lane_and_warp()
            np.bitwise_and.at(missing, warp, ~lane_bits(lane))
        for w in here:
            of_lane = missing[w.group.lane_and_warp()[1]]
            lanes = np.flatnonzero(of_lane)
            if len(lanes):
                yield w, lanes, of_lane[lanes]


def wrong_count(count: int, block_threads: int) -> str:
    """Why a barrier cannot count so many threads; empty if it can."""
    if count % WARP or count <= 0:
        return f"thread count {count} is not a positive multiple of the warp size"
    warps = -(-block_threads // WARP)
    return f"thread count {count} is more than the {block_threads} threads of the CTA" if count > WARP * warps else ""


def clash(a: Waiting, b: Waiting) -> str:
    """Why two arrivals at one barrier cannot be of one use of it; empty if they can."""
    if a.count != b.count:
        counts = " and ".join("all threads" if w.count is None else str(w.count) for w in (a, b))
        return f"two barriers of id {a.number} are in flight: thread counts {counts}"
    if (a.op.kind == "red") != (b.op.kind == "red"):
        return f"two barriers of id {a.number} are in flight: .red and .{(a if b.op.kind == 'red' else b).op.kind}"
    return ""


def reduce(waiting: Waiting, completed: Completed, slots: int, block_threads: int) -> None:
    """Give a group the result of ``bar.red`` over all participating threads of each of ``slots`` CTAs."""
    op = waiting.op
    if op.kind != "red":
        return
    assert op.destination is not None and op.operand is not None
    total, members = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
    for w in completed.resumed:
        if w.op.operand is None:  # a plain wait among them: misuse, which is reported
            continue
        p = concrete_predicate(w.group.R[w.op.operand], "bar.red")
        column = np.broadcast_to(np.asarray(p), (w.group.n,)) ^ w.op.operand_negated
        slot = w.group.threads // block_threads
        total += np.bincount(slot, column.astype(np.int64), slots).astype(np.int64)
        members += np.bincount(slot, minlength=slots)
    result = {"popc": total.astype(np.uint32), "and": total == members, "or": total > 0}[op.reduce]
    column = result[waiting.group.threads // block_threads]
    first = column[0]
    same = bool((column == first).all())
    waiting.group.R[op.destination] = (bool(first) if op.reduce != "popc" else int(first)) if same else column


def by_barrier(named: Sequence[Value], n: int) -> list[np.ndarray]:
    """The positions of lanes that come to one barrier each: lanes whose numbers and counts are the same."""
    columns = [np.broadcast_to(value, (n,)) for value in named if isinstance(value, np.ndarray)]
    if not columns:
        return [np.arange(n)]
    which = np.unique(np.stack(columns), axis=1, return_inverse=True)[1].reshape(-1)
    return [np.flatnonzero(which == number) for number in range(int(which.max()) + 1)]
