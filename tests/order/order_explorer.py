"""The judge: enumerates all schedules of a small program and says which pairs of instructions can race.

Two accesses race if some reachable state lets both execute next. Asynchronous copies are agents of their own, that run at any time
after the issue. Relaxed flags are modelled operationally: such an operation may be executed before or after its neighbours in program
order unless a fence stands between, an acquire before, or a release after. Knows nothing of clocks.

Arrivals of copies on an mbarrier are explored twice. First as they are executed, in program order, which says in which phase each arrival
counts and whether the mbarrier is misused; then as what they release, which is the thread's copies and nothing after them: they may then
be executed as early as the copies allow, though not in another phase. What then runs ahead still arrives at barriers of threads in the
uses that the first exploration found, and completes no other one of the same id.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

from order_programs import ARRIVALS, SYNC_ATOMICS, Op, Program


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
    ``varies``: barriers are completed by different operations in different schedules; ``misused``: in some schedule an arrival on an
    mbarrier comes before any wait for the phase before it has succeeded, or a phase ends before a wait for the phase before it.
    ``broken``: any of these, so that a program that has one schedule that completes misuses its barriers."""

    pairs: frozenset[tuple[int, int, bool]]
    blocked: bool
    varies: bool
    misused: bool = False

    @property
    def broken(self) -> bool:
        return self.blocked or self.varies or self.misused


#: behind the bits of executed operations, those of tests that have succeeded
PASSED = 64


class TooBig(Exception):
    """More states than the test wants to look at."""


def must_precede(a: Op, b: Op, *, in_order: bool) -> bool:
    """Whether a, before b in program order, is executed before b by every schedule. Not ``in_order``, arrivals of copies come early."""
    if b.kind in ("copy_arrive", "copy_count") and not in_order:  # an agent's doing: it follows the thread's copies only
        return a.kind in ("copy", "copy_arrive", "copy_count")
    if a.kind == "fence" or b.kind == "fence":
        return True
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

    def __init__(self, program: Program, limit: int, executed: _Explorer | None = None) -> None:
        self.p = program
        self.limit = limit
        #: the phase of each arrival on an mbarrier; None while that is being found out
        self.landing = landing = executed and executed.landed
        #: the arrivals that complete a barrier together with each one; as for the phases
        self.uses = executed and {arrival: use for use in executed.completions for arrival in use}
        self.landed: dict[tuple[int, int], int] = {}
        self.misused = False
        self.before = [
            [sum(1 << i for i in range(j) if must_precede(ops[i], ops[j], in_order=landing is None)) for j in range(len(ops))]
            for ops in program.threads
        ]
        self.covers = [[self._covered(ops, j) for j in range(len(ops))] for ops in program.threads]
        self.pairs: set[tuple[int, int, bool]] = set()
        self.completions: set[frozenset[tuple[int, int]]] = set()
        self.blocked = False

    @staticmethod
    def _covered(ops: tuple[Op, ...], j: int) -> list[int]:
        """The copies that a wait, or the arrival of copies, at j is for."""
        if ops[j].kind in ("copy_arrive", "copy_count") or (ops[j].kind == "wait" and ops[j].count < 0):
            return [i for i in range(j) if ops[i].kind == "copy"]
        if ops[j].kind != "wait":
            return []
        closed = [i for i in range(j) if ops[i].kind == "commit" or (ops[i].kind == "wait" and ops[i].count < 0)]
        if len(closed) <= ops[j].count:
            return []
        return [i for i in range(closed[len(closed) - ops[j].count - 1]) if ops[i].kind == "copy"]

    def run(self) -> Answer:
        threads = len(self.p.threads)
        expected = sorted({(op.id, op.count) for ops in self.p.threads for op in ops if op.kind in ARRIVALS})
        phases = tuple((number, 0, count, False) for number, count in expected)
        start = ((0,) * threads, (0,) * threads, frozenset(), frozenset(), phases)
        seen = {start}
        stack = [start]
        while stack:
            state = stack.pop()
            following = self._steps(state)
            if not following and any(~state[0][t] & (1 << len(ops)) - 1 for t, ops in enumerate(self.p.threads)):
                self.blocked = True
            for new in following:
                if new not in seen:
                    seen.add(new)
                    stack.append(new)
            if len(seen) > self.limit:
                raise TooBig
        varies = any(a != b and a & b for a, b in combinations(self.completions, 2))
        return Answer(frozenset(self.pairs), self.blocked, varies, self.misused)

    def _steps(self, state: tuple) -> list[tuple]:
        executed, waiting, agents, _, phases = state
        able: list[tuple[int, int, bool]] = []  # thread, operation, by its agent
        for t, ops in enumerate(self.p.threads):
            for j, op in enumerate(ops):
                bit = 1 << j
                if not (executed[t] | waiting[t]) & bit and self.before[t][j] & ~executed[t] == 0 and self._ready(state, t, j, op):
                    able.append((t, j, False))
        for t, j in agents:
            if all((t, i) not in agents for i in self.covers[t][j]) and self._in_phase(phases, t, j):
                able.append((t, j, True))
        self._look_for_races([(t, j, agent) for t, j, agent in able if self._runs(executed[t], self.p.threads[t][j])])
        return [self._step(state, *choice) for choice in able]

    @staticmethod
    def _runs(executed: int, op: Op) -> bool:
        """Whether an operation is executed at all: not where the test that it is given by has failed, or has not that must fail."""
        return (op.given < 0 or bool(executed >> PASSED + op.given & 1)) and (op.unless < 0 or not executed >> PASSED + op.unless & 1)

    def _ready(self, state: tuple, t: int, j: int, op: Op) -> bool:
        executed, _, agents, _, phases = state
        if not self._runs(executed[t], op):
            return True
        if op.kind == "wait":
            return all((t, i) not in agents for i in self.covers[t][j])
        if op.kind == "mb_wait":
            return _phase_of(phases, op.id)[1] == op.count + 1
        if op.kind == "mb_either":
            return any(_phase_of(phases, number)[1] == 1 for number in (op.id, op.other))
        if op.kind == "copy_count":
            return self._in_phase(phases, t, j)
        if op.kind in ("await", "await_count"):
            made = sum(
                1
                for u, ops in enumerate(self.p.threads)
                for i, other in enumerate(ops)
                if other.id == op.id and other.kind in ("set", "add") and executed[u] >> i & 1
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
        executed, waiting, agents, arrived, phases = state
        op = self.p.threads[t][j]
        if by_agent:
            agents = agents - {(t, j)}
            phases = self._signal(state, phases, t, j) if op.kind in ARRIVALS else phases
            return executed, waiting, agents, arrived, phases
        if not self._runs(executed[t], op):
            return _with(executed, t, j), waiting, agents, arrived, phases
        if op.kind in ("bar", "arrive", "warp"):
            return self._arrive(state, t, j, op)
        if op.kind in ("copy", "copy_arrive", "copy_count"):
            agents = agents | {(t, j)}
        if op.kind == "mb_test" and _phase_of(phases, op.id)[1] == op.count + 1:
            executed = _with(executed, t, PASSED + j)
        if op.kind == "mb_wait":
            number, phase, pending, _ = _phase_of(phases, op.id)
            phases = _replaced(phases, (number, phase, pending, True))
        if op.kind == "copy_count":
            number, phase, pending, waited = _phase_of(phases, op.id)
            self.misused |= phase > 0 and not waited
            phases = _replaced(phases, (number, phase, pending + 1, waited))
        if op.kind == "mb_arrive":
            phases = self._signal(state, phases, t, j)
        return _with(executed, t, j), waiting, agents, arrived, phases

    def _in_phase(self, phases: tuple, t: int, j: int) -> bool:
        """Whether an arrival may be executed now without counting in another phase than it must."""
        op = self.p.threads[t][j]
        if self.landing is None or op.kind not in ARRIVALS:
            return True
        return _phase_of(phases, op.id)[1] == self.landing[t, j]

    def _signal(self, state: tuple, phases: tuple, t: int, j: int) -> tuple:
        """An arrival, which may end the phase."""
        op = self.p.threads[t][j]
        number, phase, pending, waited = _phase_of(phases, op.id)
        self.misused |= (phase > 0 and not waited) or self.landed.setdefault((t, j), phase) != phase
        if pending > 1:
            return _replaced(phases, (number, phase, pending - 1, waited))
        for u, ops in enumerate(self.p.threads):
            for i, other in enumerate(ops):
                # one that only some schedules execute is blocked in those
                late = other.kind == "mb_wait" and (other.id, other.count) == (op.id, phase - 1) and other.given == other.unless == -1
                self.misused |= late and not state[0][u] >> i & 1
        return _replaced(phases, (number, phase + 1, op.count, False))

    def _use(self, t: int, j: int, op: Op) -> tuple[object, int]:
        """What tells the arrivals that count together from others, and how many complete the barrier."""
        if self.uses is not None:
            use = self.uses.get((t, j), frozenset())  # one that nothing completes counts with nobody
            return use, len(use)
        return (("warp", op.lanes), len(op.lanes)) if op.kind == "warp" else ((self.p.cta(t), op.id), op.count)

    def _arrive(self, state: tuple, t: int, j: int, op: Op) -> tuple:
        executed, waiting, agents, arrived, phases = state
        key, needed = self._use(t, j, op)
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
        return executed, waiting, agents, arrived, phases


def _phase_of(phases: tuple, number: int) -> tuple[int, int, int, bool]:
    """(number, phase, pending count, whether anyone has waited for the phase before it) of an mbarrier; one that nobody arrives on too."""
    return next((row for row in phases if row[0] == number), (number, 0, 1, False))


def _replaced(phases: tuple, row: tuple[int, int, int, bool]) -> tuple:
    return tuple(row if old[0] == row[0] else old for old in phases)


def _with(masks: tuple[int, ...], t: int, j: int) -> tuple[int, ...]:
    return tuple(m | (1 << j) if u == t else m for u, m in enumerate(masks))


def explore(program: Program, limit: int = 20_000) -> Answer:
    """All schedules of the program. Raises TooBig above ``limit`` states."""
    executing = _Explorer(program, limit)
    answer = executing.run()
    if answer.broken or not any(op.kind in ("copy_arrive", "copy_count") for ops in program.threads for op in ops):
        return answer
    return replace(answer, pairs=_Explorer(program, limit, executing).run().pairs)
