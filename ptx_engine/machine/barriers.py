"""CTA barriers: who waits at which of the 16 barriers of each CTA, and when one completes.

``bar.sync a`` without a count waits for all threads of the CTA that have not exited; with a count for that many.
Source: PTX ISA 9.1, "Parallel Synchronization and Communication Instructions: bar, barrier".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptx_engine.isa.group import Group
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
    """A barrier that completed: all participating threads, those that only arrived, and the groups that go on."""

    pc: int
    number: int
    count: int | None
    synced: np.ndarray
    arrived: np.ndarray
    resumed: list[Waiting]


class Barriers:
    """The barriers of a batch of CTAs."""

    def __init__(self, slots: int, block_threads: int) -> None:
        self.block_threads = block_threads
        self.live = np.full(slots, block_threads, np.int64)  # threads per CTA that have not exited
        self.waiting: list[Waiting] = []

    def exited(self, threads: np.ndarray) -> None:
        """Threads have exited: barriers without a count wait for fewer."""
        self.live -= np.bincount(threads // self.block_threads, minlength=len(self.live))

    def complete(self) -> list[Completed]:
        """Barriers that now have all their threads; their groups are taken out of ``waiting`` (split by CTA if need be)."""
        done: list[Completed] = []
        for number in sorted({w.number for w in self.waiting}):
            entries = [w for w in self.waiting if w.number == number]
            done.extend(self._complete_one(number, entries))
        return done

    def _complete_one(self, number: int, entries: list[Waiting]) -> list[Completed]:
        counts = np.zeros(len(self.live), np.int64)
        for w in entries:
            counts += np.bincount(w.group.threads // self.block_threads, minlength=len(self.live))
        expected = np.full(len(self.live), -1, np.int64)
        for w in entries:
            slots = np.unique(w.group.threads // self.block_threads)
            expected[slots] = w.count if w.count is not None else self.live[slots]
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
            [w for w in taken if w.op.kind != "arrive"],
        )  # fmt: skip


def reduce(waiting: Waiting, completed: Completed, slots: int, block_threads: int) -> None:
    """Give a group the result of ``bar.red`` over all participating threads of each of ``slots`` CTAs."""
    op = waiting.op
    if op.kind != "red":
        return
    assert op.destination is not None and op.operand is not None
    total, members = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
    for w in completed.resumed:
        assert w.op.operand is not None
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
