"""Small concurrent programs for judging the order checker, and a hypothesis strategy that makes them.

A program is built item by item; each item appends operations to one or more threads, so that running the items in the order they were
made completes (no deadlock in at least that schedule). An item's operations share one instruction number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import assume
from hypothesis import strategies as st

SYNC_ATOMICS = ("set", "await", "add", "await_count")
#: arrivals on an mbarrier: by a thread; by its copies (.noinc); by its copies, which the phase also waits for
ARRIVALS = ("mb_arrive", "copy_arrive", "copy_count")


@dataclass(frozen=True)
class Op:
    """One operation of one thread. ``address``/``nbytes`` in bytes; ``id`` is a barrier, flag, counter or mbarrier number; ``count`` of an
    arrival on an mbarrier is what the mbarrier is initialised with, of a wait for it the phase."""

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
    given: int = -1  # executed only if the thread's operation of this number, a test of an mbarrier, has succeeded
    unless: int = -1  # ... has failed
    other: int = 0  # of a loop that is left by either of two mbarriers, the second one


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


#: CTAs, threads of each, warp size
SHAPES = [(1, 2, 2), (1, 2, 1), (1, 3, 2), (1, 3, 3), (1, 4, 2), (1, 4, 4), (2, 1, 1), (2, 2, 2), (3, 1, 1)]


def written(threads: list[str], threads_per_cta: int = 0, warp_size: int = 2) -> Program:
    """A program from text, one string per thread: "st s0=1; bar 0 2; ld s0; copy s0 g0; commit; wait 0; set.strong 1; await 1".

    Places are a space and a byte address (``s8:8`` is 8 bytes wide); operation n of thread t has instruction number 100 t + n.
    """
    ops = [tuple(_parse(text.split(), 100 * t + n) for n, text in enumerate(line.split(";"))) for t, line in enumerate(threads)]
    return Program(threads_per_cta or len(threads), warp_size, tuple(ops))


def _parse(words: list[str], instruction: int) -> Op:
    if words[-1].startswith(("given=", "unless=")):
        condition, _, test = words[-1].partition("=")
        return replace(_parse(words[:-1], instruction), **{condition: int(test)})
    name, _, suffix = words[0].partition(".")
    kind = {"st": "store", "ld": "load"}.get(name, name)
    strong, beyond = suffix == "strong", suffix != "cta"
    if kind in ("store", "load", "rmw", "copy"):
        place, _, value = words[1].partition("=")
        address, _, nbytes = place[1:].partition(":")
        source = int(words[2][1:]) if kind == "copy" else 0
        return Op(kind, instruction, place[0], int(address), int(nbytes or 4), int(value or 0), source, beyond_cta=beyond)
    if kind == "warp":
        return Op(kind, instruction, lanes=tuple(int(w) for w in words[1:]))
    if kind == "wait":
        return Op(kind, instruction, count=int(words[1]))
    if kind == "mb_either":
        return Op(kind, instruction, id=int(words[1]), other=int(words[2]))
    numbers = [int(w) for w in words[1:]] + [0, 0]
    return Op(kind, instruction, "g", id=numbers[0], count=numbers[1], strong=strong)


class _Builder:
    def __init__(self, draw: st.DrawFn, shapes: list[tuple[int, int, int]]) -> None:
        self.draw = draw
        ctas, self.per_cta, self.warp_size = draw(st.sampled_from(shapes))
        self.count = ctas * self.per_cta
        self.ops: list[list[Op]] = [[] for _ in range(self.count)]
        self.instruction = 0
        self.flags = 0
        #: mbarriers: number, CTA's first thread, expected count, phases so far
        self.mbarriers: list[list[int]] = []
        self.pending = [0] * self.count  # copies not yet waited for

    def add(self, thread: int, kind: str, **fields: object) -> None:
        self.ops[thread].append(Op(kind, self.instruction, **fields))  # type: ignore[arg-type]

    def subset(self, among: list[int], least: int) -> list[int]:
        return sorted(self.draw(st.lists(st.sampled_from(among), min_size=least, max_size=len(among), unique=True)))

    def any_thread(self) -> int:
        return self.draw(st.integers(0, self.count - 1))

    def peers(self, thread: int) -> list[int]:
        """The threads of a thread's CTA."""
        first = thread // self.per_cta * self.per_cta
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

    def group(self, among: list[int], wanted: list[int], least: int = 1) -> list[int]:
        """A subset that mostly includes the wanted threads."""
        chosen = set(self.subset(among, least))
        if self.draw(st.integers(0, 7)):
            chosen |= set(wanted) & set(among)
        return sorted(chosen)

    def barrier(self, a: int, b: int) -> None:
        members = self.peers(a)
        everyone = self.draw(st.booleans()) or len(members) < 2
        members = members if everyone else self.group(members, [a, b], 2)
        number = 0 if everyone else self.draw(st.integers(1, 2))
        for thread in members:
            self.add(thread, "bar", id=number, count=len(members))

    def producer_consumer(self, a: int, b: int) -> None:
        peers = self.peers(a)
        waiting = self.group([t for t in peers if t != a], [b]) if len(peers) > 1 else []
        arriving = self.group([t for t in peers if t not in waiting], [a])
        number = self.draw(st.integers(3, 4))
        for thread in arriving:
            self.add(thread, "arrive", id=number, count=len(arriving) + len(waiting))
        self.instruction += 1
        for thread in waiting:
            self.add(thread, "bar", id=number, count=len(arriving) + len(waiting))

    def warp(self, a: int, b: int) -> None:
        peers = self.peers(a)
        first = peers[0] + (a - peers[0]) // self.warp_size * self.warp_size
        lanes = self.group([t for t in peers if first <= t < first + self.warp_size], [a, b])
        for thread in lanes:
            self.add(thread, "warp", lanes=tuple(lanes))

    def copy(self, thread: int, place: dict[str, object]) -> None:
        self.add(thread, "copy", nbytes=place["nbytes"], address=place["address"], source=self.draw(st.sampled_from([0, 8])))
        self.pending[thread] += 1
        if self.draw(st.integers(0, 3)):
            self.add(thread, "commit")

    def wait(self, thread: int) -> None:
        if self.pending[thread]:
            self.add(thread, "wait", count=self.draw(st.sampled_from([-1, 0, 0, 1])))

    def flag(self, a: int, b: int) -> None:
        if a == b:
            return
        self.flags += 1
        strong_set, strong_await = self.draw(st.booleans()), self.draw(st.booleans())
        if not strong_set and self.draw(st.integers(0, 3)):
            self.add(a, "fence")
            self.instruction += 1
        self.add(a, "set", space="g", id=self.flags, strong=strong_set)
        self.instruction += 1
        self.add(b, "await", space="g", id=self.flags, strong=strong_await)
        if not strong_await and self.draw(st.integers(0, 3)):
            self.instruction += 1
            self.add(b, "fence")

    def counter(self, a: int, b: int) -> None:
        self.flags += 1
        adding = self.group(list(range(self.count)), [a])
        for thread in adding:
            self.add(thread, "add", space="g", id=self.flags, strong=self.draw(st.integers(0, 3)) > 0)
        self.instruction += 1
        self.add(b, "await_count", space="g", id=self.flags, count=len(adding), strong=self.draw(st.integers(0, 3)) > 0)

    def phase(self, a: int, b: int) -> None:
        """One phase of an mbarrier: threads arrive, or their copies do; others wait for all of that. The next phase of one that there is,
        or the first of a new one."""
        peers = self.peers(a)
        known = [m for m in self.mbarriers if m[1] == peers[0] and m[2] <= len(peers)]
        if known and self.draw(st.integers(0, 3)):
            mbarrier = self.draw(st.sampled_from(known))
            arriving = sorted(self.draw(st.permutations(peers))[: mbarrier[2]])
        else:
            self.flags += 1
            arriving = self.group(peers, [a])
            mbarrier = [self.flags, peers[0], len(arriving), 0]
            self.mbarriers.append(mbarrier)
        number, _, count, phase = mbarrier
        for thread in arriving:
            copies = self.pending[thread] and self.draw(st.integers(0, 3))
            if copies and self.draw(st.integers(0, 2)) == 0:
                self.add(thread, "copy_count", id=number, count=count)
                copies = 0
            self.add(thread, "copy_arrive" if copies else "mb_arrive", id=number, count=count)
        self.instruction += 1
        for thread in self.group(peers, [b]):
            self.add(thread, "mb_wait", id=number, count=phase)
        mbarrier[3] += 1

    def synchronise(self, a: int, b: int) -> None:
        """Some synchronisation that may order a's past before b's future."""
        near, far = [self.barrier, self.producer_consumer, self.warp, self.phase], [self.flag, self.flag, self.counter]
        self.instruction += 1
        self.draw(st.sampled_from(near * 2 + far if a // self.per_cta == b // self.per_cta else far))(a, b)

    def meeting(self) -> None:
        """Two threads touch the same bytes, with one or two synchronisations between them."""
        a, b, via = self.any_thread(), self.any_thread(), self.any_thread()
        place = self.place()
        self.touch(a, place)
        if self.draw(st.booleans()):
            self.instruction += 1
            self.wait(a)
        if self.draw(st.integers(0, 3)) == 0:
            self.synchronise(a, via)
            self.synchronise(via, b)
        else:
            self.synchronise(a, b)
        self.instruction += 1
        self.touch(b, place)

    def touch(self, thread: int, place: dict[str, object]) -> None:
        kind = self.draw(st.sampled_from(["load", "store", "store", "copy", "copy"]))
        if kind == "copy":
            self.copy(thread, {**place, "space": "s"})
        else:
            self.add(thread, kind, value=self.draw(st.integers(0, 1)) if kind == "store" else 0, **place)

    def item(self) -> None:
        self.instruction += 1
        choice = self.draw(st.integers(0, 9))
        if choice < 3:
            self.access()
        elif choice < 7:
            self.meeting()
        elif choice == 7:
            self.wait(self.any_thread())
        elif choice == 8:
            self.copy(self.any_thread(), self.place())
        else:
            self.synchronise(self.any_thread(), self.any_thread())


@st.composite
def programs(draw: st.DrawFn, items: int = 4, shapes: list[tuple[int, int, int]] = SHAPES) -> Program:
    """Programs of 2 to 4 threads in 1 to 2 warps or 1 to 3 CTAs."""
    builder = _Builder(draw, shapes)
    for _ in range(draw(st.integers(1, items))):
        builder.item()
    return Program(builder.per_cta, builder.warp_size, tuple(map(tuple, builder.ops)))


#: every thread is a warp of its own
APART = [(1, 2, 1), (2, 1, 1), (3, 1, 1), (1, 3, 1), (2, 2, 1), (1, 4, 1)]


@st.composite
def single_tests(draw: st.DrawFn, tests: int = 1) -> Program:
    """Programs of warps, some of whose waits for a first phase have become single tests; accesses that follow are given by their success."""
    builder = _Builder(draw, [shape for shape in APART if shape[1] > 1])
    for _ in range(draw(st.integers(0, 2))):
        builder.item()
    a = builder.any_thread()
    b, place = draw(st.sampled_from([t for t in builder.peers(a) if t != a])), builder.place()
    for step in (lambda: builder.touch(a, place), lambda: builder.phase(a, b), lambda: builder.touch(b, place)):
        builder.instruction += 1
        step()
    for _ in range(draw(st.integers(0, 1))):
        builder.item()
    program = Program(builder.per_cta, builder.warp_size, tuple(map(tuple, builder.ops)))
    waits = [(t, j) for t, ops in enumerate(program.threads) for j, op in enumerate(ops) if op.kind == "mb_wait"]
    assume(waits and all(program.threads[t][j].count == 0 for t, j in waits))
    threads = [list(ops) for ops in program.threads]
    for t, j in draw(st.lists(st.sampled_from(waits), min_size=1, max_size=tests, unique=True)):
        threads[t][j] = replace(threads[t][j], kind="mb_test")
        for i in range(j + 1, len(threads[t])):
            if threads[t][i].kind in ("load", "store", "rmw") and draw(st.integers(0, 4)):
                threads[t][i] = replace(threads[t][i], given=j)
    return replace(program, threads=tuple(map(tuple, threads)))


#: what a wait becomes where single tests and loops are mixed: tests, waits, and waits that follow an outcome of the test before
MIXTURES = (
    ("wait",), ("test",), ("test", "wait"), ("test", "access", "wait"), ("wait", "test"), ("test", "wait unless"), ("test", "wait given"),
    ("test", "access", "wait unless"), ("test", "access", "wait given"), ("test", "wait unless", "access", "wait"), ("wait", "wait"),
)  # fmt: skip


@st.composite
def mixed_tests(draw: st.DrawFn, tests: int = 1) -> Program:
    """Programs of warps that test mbarriers once and wait for the same ones in loops, before, after, or only after one outcome; accesses
    that follow are given by a success, or by a failure, or are not."""
    builder = _Builder(draw, [shape for shape in APART if shape[1] > 1])
    for _ in range(draw(st.integers(0, 1))):
        builder.item()
    a = builder.any_thread()
    b, place = draw(st.sampled_from([t for t in builder.peers(a) if t != a])), builder.place()
    steps = [lambda: builder.touch(a, place), lambda: builder.phase(a, b), lambda: builder.touch(b, place)]
    steps += [lambda: builder.barrier(a, b), lambda: builder.touch(builder.any_thread(), place)] if draw(st.booleans()) else []
    for step in steps:
        builder.instruction += 1
        step()
    program = Program(builder.per_cta, builder.warp_size, tuple(map(tuple, builder.ops)))
    assume(all(op.count == 0 for ops in program.threads for op in ops if op.kind == "mb_wait"))
    left, threads = tests, []
    for ops in program.threads:
        mixed: list[Op] = []
        tested: list[int] = []
        for op in ops:
            if op.kind != "mb_wait":
                condition = draw(st.sampled_from(["given", "unless", "", ""])) if tested and op.kind in ("load", "store", "rmw") else ""
                mixed.append(replace(op, **{condition: draw(st.sampled_from(tested))}) if condition else op)
                continue
            for part in draw(st.sampled_from(MIXTURES if left else MIXTURES[:1])):
                kind, _, condition = part.partition(" ")
                if kind == "test":
                    left -= 1
                    tested.append(len(mixed))
                    mixed.append(replace(op, kind="mb_test", instruction=op.instruction + 50))
                elif kind == "wait":
                    at = {condition: tested[-1]} if condition else {}
                    mixed.append(replace(op, instruction=op.instruction + 100, **at))
                else:
                    mixed.append(Op(draw(st.sampled_from(["load", "store"])), op.instruction + 150, **place))  # type: ignore[arg-type]
        threads.append(tuple(mixed))
    assume(left < tests)
    return replace(program, threads=tuple(threads))


@st.composite
def either_waits(draw: st.DrawFn) -> Program:
    """Programs of warps in which a loop is left by the success of either of two mbarriers, each of which may order what follows, or not."""
    builder = _Builder(draw, [shape for shape in APART if shape[1] > 1])
    for _ in range(draw(st.integers(0, 1))):
        builder.item()
    a = builder.any_thread()
    b, place = draw(st.sampled_from([t for t in builder.peers(a) if t != a])), builder.place()
    builder.flags += 2
    pair = builder.flags - 1, builder.flags
    others = [t for t in builder.peers(a) if t != b]
    arrivals = [(draw(st.sampled_from([a, a, *others])), number) for number in pair for _ in range(draw(st.sampled_from([1, 1, 2])))]
    counts = {number: sum(n == number for _, n in arrivals) for number in pair}
    accessed = draw(st.integers(0, len(arrivals)))
    for i, (thread, number) in enumerate([*draw(st.permutations(arrivals)), (a, 0)]):
        builder.instruction += 1
        if i == accessed:
            builder.touch(a, place)
            builder.instruction += 1
        if number:
            builder.add(thread, "mb_arrive", id=number, count=counts[number])
    builder.instruction += 1
    builder.add(b, "mb_either", id=pair[0], other=pair[1])
    for step in (lambda: builder.touch(b, place), lambda: builder.barrier(a, b), lambda: builder.touch(builder.any_thread(), place)):
        builder.instruction += 1
        step()
        if not draw(st.integers(0, 2)):
            break
    program = Program(builder.per_cta, builder.warp_size, tuple(map(tuple, builder.ops)))
    assume(all(op.count == 0 for ops in program.threads for op in ops if op.kind == "mb_wait"))
    return program
