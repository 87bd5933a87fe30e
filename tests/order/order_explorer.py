"""The judge: enumerates all schedules of a small program and says which pairs of instructions can race.

Two accesses race if some reachable state lets both execute next. Asynchronous copies are agents of their own, that run at any time
after the issue. Relaxed flags are modelled operationally: such an operation may be executed before or after its neighbours in program
order unless a fence stands between, an acquire before, or a release after. Knows nothing of clocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from order_programs import SYNC_ATOMICS, Op, Program


@dataclass(frozen=True)
class Access:
    """Bytes [low, high) of a space: (space, CTA or -1)."""

    space: tuple[str, int]
    low: int
    high: int
    write: bool
    atomic: bool
    beyond_cta: bool
    value: int
    instruction: int
    thread: int
    cta: int


@dataclass(frozen=True)
class Answer:
    """``pairs``: (lower instruction, higher one, same value) that can race; ``blocked``: some schedule does not complete;
    ``varies``: barriers are completed by different operations in different schedules."""

    pairs: frozenset[tuple[int, int, bool]]
    blocked: bool
    varies: bool


class TooBig(Exception):
    """More states than the test wants to look at."""


def must_precede(a: Op, b: Op) -> bool:
    """Whether a, before b in program order, is executed before b by every schedule."""
    if a.kind == "fence" or b.kind == "fence":
        return True
    if b.kind == "copy_arrive":  # an agent's doing: it follows the thread's copies only
        return a.kind in ("copy", "copy_arrive")
    if a.kind in SYNC_ATOMICS or b.kind in SYNC_ATOMICS:
        reads, writes = a.kind in ("await", "await_count"), b.kind in ("set", "add")
        # what a relaxed load saw is not passed on by a later release, nor what was acquired by a relaxed store
        releases = writes and b.strong and not (reads and not a.strong)
        acquires = reads and a.strong and not (writes and not b.strong)
        same = a.kind in SYNC_ATOMICS and b.kind in SYNC_ATOMICS and a.id == b.id
        return acquires or releases or same
    return True


def accesses(program: Program, thread: int, op: Op) -> list[Access]:
    """What an operation touches when it is executed (for a copy: when its agent runs)."""
    cta = program.cta(thread)

    def one(space: str, address: int, *, write: bool, atomic: bool = False) -> Access:
        where = (space, cta if space == "s" else -1)
        return Access(where, address, address + op.nbytes, write, atomic, op.beyond_cta, op.value, op.instruction, thread, cta)

    if op.kind == "load":
        return [one(op.space, op.address, write=False)]
    if op.kind == "store":
        return [one(op.space, op.address, write=True)]
    if op.kind == "rmw":
        return [one(op.space, op.address, write=True, atomic=True)]
    if op.kind == "copy":
        return [one("s", op.address, write=True), one("g", op.source, write=False)]
    return []


def conflict(a: Access, b: Access) -> bool:
    """Overlap with a write, unless both are atomics that exclude each other."""
    if a.space != b.space or a.high <= b.low or b.high <= a.low or not (a.write or b.write):
        return False
    exclusive = (a.low, a.high) == (b.low, b.high) and (a.cta == b.cta or (a.beyond_cta and b.beyond_cta))
    return not (a.atomic and b.atomic and exclusive)


class _Explorer:
    """State: per thread the set of executed operations (bits) and of operations waiting at a barrier; agents that still have to
    run; barrier arrivals."""

    def __init__(self, program: Program, limit: int) -> None:
        self.p = program
        self.limit = limit
        self.before = [[sum(1 << i for i in range(j) if must_precede(ops[i], ops[j])) for j in range(len(ops))] for ops in program.threads]
        self.covers = [[self._covered(ops, j) for j in range(len(ops))] for ops in program.threads]
        self.pairs: set[tuple[int, int, bool]] = set()
        self.completions: set[frozenset[tuple[int, int]]] = set()
        self.blocked = False

    @staticmethod
    def _covered(ops: tuple[Op, ...], j: int) -> list[int]:
        """The copies that a wait, or the arrival of copies, at j is for."""
        if ops[j].kind == "copy_arrive" or (ops[j].kind == "wait" and ops[j].count < 0):
            return [i for i in range(j) if ops[i].kind == "copy"]
        if ops[j].kind != "wait":
            return []
        closed = [i for i in range(j) if ops[i].kind == "commit" or (ops[i].kind == "wait" and ops[i].count < 0)]
        if len(closed) <= ops[j].count:
            return []
        return [i for i in range(closed[len(closed) - ops[j].count - 1]) if ops[i].kind == "copy"]

    def run(self) -> Answer:
        threads = len(self.p.threads)
        start = ((0,) * threads, (0,) * threads, frozenset(), frozenset())
        seen = {start}
        stack = [start]
        while stack:
            state = stack.pop()
            following = self._steps(state)
            if not following and any(state[0][t] != (1 << len(ops)) - 1 for t, ops in enumerate(self.p.threads)):
                self.blocked = True
            for new in following:
                if new not in seen:
                    seen.add(new)
                    stack.append(new)
            if len(seen) > self.limit:
                raise TooBig
        varies = any(a != b and a & b for a, b in combinations(self.completions, 2))
        return Answer(frozenset(self.pairs), self.blocked, varies)

    def _steps(self, state: tuple) -> list[tuple]:
        executed, waiting, agents, _ = state
        able: list[tuple[int, int, bool]] = []  # thread, operation, by its agent
        for t, ops in enumerate(self.p.threads):
            for j, op in enumerate(ops):
                bit = 1 << j
                if not (executed[t] | waiting[t]) & bit and self.before[t][j] & ~executed[t] == 0 and self._ready(state, t, j, op):
                    able.append((t, j, False))
        for t, j in agents:
            if all((t, i) not in agents for i in self.covers[t][j]):
                able.append((t, j, True))
        self._look_for_races(able)
        return [self._step(state, *choice) for choice in able]

    def _ready(self, state: tuple, t: int, j: int, op: Op) -> bool:
        executed, _, agents, _ = state
        if op.kind == "wait":
            return all((t, i) not in agents for i in self.covers[t][j])
        if op.kind in ("await", "await_count", "mb_wait"):
            made = sum(
                1
                for u, ops in enumerate(self.p.threads)
                for i, other in enumerate(ops)
                if other.id == op.id and other.kind in ("set", "add", "mb_arrive", "copy_arrive")
                if executed[u] >> i & 1 and (u, i) not in agents
            )
            return made >= max(op.count, 1)
        return True

    def _look_for_races(self, able: list[tuple[int, int, bool]]) -> None:
        actors = []
        for t, j, by_agent in able:
            op = self.p.threads[t][j]
            if by_agent or op.kind != "copy":
                actors.append(((t, j) if by_agent else t, accesses(self.p, t, op)))
        for (one, first), (two, second) in combinations(actors, 2):
            if one == two:
                continue
            for a in first:
                for b in second:
                    if conflict(a, b):
                        plain = not (a.atomic or b.atomic or isinstance(one, tuple) or isinstance(two, tuple))
                        same = plain and a.write and b.write and a.value == b.value
                        low, high = sorted((a.instruction, b.instruction))
                        self.pairs.add((low, high, same))

    def _step(self, state: tuple, t: int, j: int, by_agent: bool) -> tuple:
        executed, waiting, agents, arrived = state
        op = self.p.threads[t][j]
        if by_agent:
            return executed, waiting, agents - {(t, j)}, arrived
        if op.kind in ("bar", "arrive", "warp"):
            return self._arrive(state, t, j, op)
        if op.kind in ("copy", "copy_arrive"):
            agents = agents | {(t, j)}
        return _with(executed, t, j), waiting, agents, arrived

    def _arrive(self, state: tuple, t: int, j: int, op: Op) -> tuple:
        executed, waiting, agents, arrived = state
        key = ("warp", op.lanes) if op.kind == "warp" else (self.p.cta(t), op.id)
        needed = len(op.lanes) if op.kind == "warp" else op.count
        if op.kind == "arrive":
            executed = _with(executed, t, j)
        else:
            waiting = _with(waiting, t, j)
        arrived = arrived | {(key, t, j)}
        here = [(u, i) for k, u, i in arrived if k == key]
        if len(here) == needed:
            self.completions.add(frozenset(here))
            arrived = frozenset(a for a in arrived if a[0] != key)
            for u, i in here:
                executed = _with(executed, u, i)
                waiting = tuple(w & ~(1 << i) if v == u else w for v, w in enumerate(waiting))
        return executed, waiting, agents, arrived


def _with(masks: tuple[int, ...], t: int, j: int) -> tuple[int, ...]:
    return tuple(m | (1 << j) if u == t else m for u, m in enumerate(masks))


def explore(program: Program, limit: int = 20_000) -> Answer:
    """All schedules of the program. Raises TooBig above ``limit`` states."""
    return _Explorer(program, limit).run()
