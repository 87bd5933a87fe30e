"""Small concurrent programs for judging the order checker, and a hypothesis strategy that makes them.

A program is built item by item; each item appends operations to one or more threads, so that running the items in the order they were
made completes (no deadlock in at least that schedule). An item's operations share one instruction number.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

SYNC_ATOMICS = ("set", "await", "add", "await_count")


@dataclass(frozen=True)
class Op:
    """One operation of one thread. ``address``/``nbytes`` in bytes; ``id`` is a barrier, flag, counter or mbarrier number."""

    kind: str
    instruction: int
    space: str = "s"
    address: int = 0
    nbytes: int = 4
    value: int = 0
    source: int = 0  # of a copy, in global memory
    strong: bool = False  # release on set/add, acquire on await
    id: int = 0
    count: int = 0
    lanes: tuple[int, ...] = ()
    beyond_cta: bool = True


@dataclass(frozen=True)
class Program:
    """``threads[t]`` runs in CTA t // threads_per_cta."""

    threads_per_cta: int
    warp_size: int
    threads: tuple[tuple[Op, ...], ...]

    def cta(self, thread: int) -> int:
        return thread // self.threads_per_cta

    @property
    def ctas(self) -> int:
        return len(self.threads) // self.threads_per_cta


SHAPES = [(1, 2, 2), (1, 2, 1), (1, 3, 2), (1, 4, 2), (2, 1, 1), (2, 2, 2), (3, 1, 1), (2, 2, 1)]


class _Builder:
    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        ctas, self.per_cta, self.warp_size = draw(st.sampled_from(SHAPES))
        self.count = ctas * self.per_cta
        self.ops: list[list[Op]] = [[] for _ in range(self.count)]
        self.instruction = 0
        self.flags = 0
        self.pending = [0] * self.count  # copies not yet waited for

    def add(self, thread: int, kind: str, **fields: object) -> None:
        self.ops[thread].append(Op(kind, self.instruction, **fields))  # type: ignore[arg-type]

    def subset(self, among: list[int], least: int) -> list[int]:
        return sorted(self.draw(st.lists(st.sampled_from(among), min_size=least, max_size=len(among), unique=True)))

    def any_thread(self) -> int:
        return self.draw(st.integers(0, self.count - 1))

    def peers(self) -> list[int]:
        """The threads of some CTA."""
        first = self.any_thread() // self.per_cta * self.per_cta
        return list(range(first, first + self.per_cta))

    def place(self) -> dict[str, object]:
        space = self.draw(st.sampled_from("sssg"))
        nbytes = self.draw(st.sampled_from([4, 4, 4, 8]))
        return {"space": space, "nbytes": nbytes, "address": self.draw(st.sampled_from([0, 8] if nbytes == 8 else [0, 4, 8]))}

    def access(self) -> None:
        kind = self.draw(st.sampled_from(["load", "store", "store", "rmw"]))
        beyond = self.draw(st.integers(0, 4)) > 0
        place = self.place()
        per_thread = self.draw(st.booleans())
        for i, thread in enumerate(self.subset(list(range(self.count)), 1)):
            here = {**place, "address": (int(str(place["address"])) + 8 * i) % 16} if per_thread else place
            value = self.draw(st.integers(0, 1)) if kind == "store" else 0
            self.add(thread, kind, value=value, beyond_cta=beyond, **here)

    def barrier(self) -> None:
        members = self.peers()
        everyone = self.draw(st.booleans()) or len(members) < 2
        members = members if everyone else self.subset(members, 2)
        number = 0 if everyone else self.draw(st.integers(1, 2))
        for thread in members:
            self.add(thread, "bar", id=number, count=len(members))

    def producer_consumer(self) -> None:
        peers = self.peers()
        if len(peers) < 2:
            return
        waiting = self.subset(peers, 1)
        arriving = [t for t in peers if t not in waiting]
        if not arriving:
            return
        number = self.draw(st.integers(3, 4))
        for thread in arriving:
            self.add(thread, "arrive", id=number, count=len(peers))
        self.instruction += 1
        for thread in waiting:
            self.add(thread, "bar", id=number, count=len(peers))

    def warp(self) -> None:
        peers = self.peers()
        first = self.draw(st.sampled_from(peers[:: self.warp_size]))
        lanes = self.subset([t for t in peers if first <= t < first + self.warp_size], 1)
        for thread in lanes:
            self.add(thread, "warp", lanes=tuple(lanes))

    def copy(self) -> None:
        thread = self.any_thread()
        place = self.place()
        self.add(thread, "copy", nbytes=place["nbytes"], address=place["address"], source=self.draw(st.sampled_from([0, 8])))
        self.pending[thread] += 1
        if self.draw(st.integers(0, 3)):
            self.add(thread, "commit")

    def wait(self) -> None:
        copying = [t for t in range(self.count) if self.pending[t]]
        if copying:
            thread = self.draw(st.sampled_from(copying))
            self.add(thread, "wait", count=self.draw(st.sampled_from([-1, 0, 0, 1])))

    def flag(self) -> None:
        if self.count < 2:
            return
        here, there = self.draw(st.permutations(range(self.count)))[:2]
        self.flags += 1
        fenced_set, fenced_await = self.draw(st.booleans()), self.draw(st.booleans())
        if fenced_set:
            self.add(here, "fence")
            self.instruction += 1
        self.add(here, "set", space="g", id=self.flags, strong=self.draw(st.booleans()))
        self.instruction += 1
        self.add(there, "await", space="g", id=self.flags, strong=self.draw(st.booleans()))
        if fenced_await:
            self.instruction += 1
            self.add(there, "fence")

    def counter(self) -> None:
        if self.count < 2:
            return
        self.flags += 1
        adding = self.subset(list(range(self.count)), 1)
        for thread in adding:
            self.add(thread, "add", space="g", id=self.flags, strong=self.draw(st.integers(0, 3)) > 0)
        self.instruction += 1
        self.add(self.any_thread(), "await_count", space="g", id=self.flags, count=len(adding), strong=self.draw(st.integers(0, 3)) > 0)

    def phase(self) -> None:
        """One phase of an mbarrier: threads arrive, or their copies do; others wait for all of that."""
        peers = self.peers()
        self.flags += 1
        arriving = self.subset(peers, 1)
        for thread in arriving:
            self.add(thread, "copy_arrive" if self.pending[thread] and self.draw(st.booleans()) else "mb_arrive", id=self.flags)
        self.instruction += 1
        for thread in self.subset(peers, 1):
            self.add(thread, "mb_wait", id=self.flags, count=len(arriving))

    def item(self) -> None:
        accesses = [self.access] * 7
        syncs = [self.barrier, self.barrier, self.producer_consumer, self.warp, self.copy, self.copy, self.wait, self.wait]
        chosen = self.draw(st.sampled_from([*accesses, *syncs, self.flag, self.flag, self.counter, self.phase]))
        self.instruction += 1
        chosen()


@st.composite
def programs(draw: st.DrawFn, items: int = 7) -> Program:
    """Programs of 2 to 4 threads in 1 to 2 warps or 1 to 3 CTAs."""
    builder = _Builder(draw)
    for _ in range(draw(st.integers(2, items))):
        builder.item()
    return Program(builder.per_cta, builder.warp_size, tuple(map(tuple, builder.ops)))
