"""Loops that wait for memory, run so that they look as early as they can: after every store, before anybody else goes on.
Single tests of mbarriers and single looks at flags, run before and after what they ask for.

In the machine's own schedule such a loop looks when all others are stuck or done, and sees more releases than it may have waited for. So a
launch with such loops is run twice more, one warp (or CTA) after another, up and down, each loop looking at once, and between the lanes of
one atomic, too: races that show then are findings. Where a loop ends, while a store that is still to come could have been one of those that
it has counted, what it has seen is up to chance, and nothing is proved. The same runs show what a thread does whose single test of an
mbarrier fails, or succeeds: all tests are held back in one run, all arrivals (and stores to flags) in others; and some schedules are drawn
by chance. Not every choice of those that do is tried, so that what comes of it stays unknown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ptx_engine.errors import PtxError
from ptx_engine.findings import Finding, Severity
from ptx_engine.isa.group import WARP, Group
from ptx_engine.isa.values import Sym
from ptx_engine.machine.drawn import Drawn
from ptx_engine.machine.execution import Execution
from ptx_engine.machine.influence import is_strong_store
from ptx_engine.machine.schedule import PATIENCE, Schedule, in_units
from ptx_engine.order import OrderChecker

if TYPE_CHECKING:
    from ptx_engine.machine.executor import Machine
    from ptx_engine.machine.program import Program

#: groups that run one after another at most; what larger launches do is unknown
MOST = 512
#: schedules that are drawn by chance at most, and instructions of groups that all further ones may take together
DRAWN, FURTHER_STEPS = 16, 150_000
#: why a schedule that was tried leaves something open
GIVES_UP = "a test of an mbarrier or a flag leads to a trap in a schedule that was tried: what else happens in that one is not known"
#: warps that run one after another at most; where there are more, CTAs do
MOST_WARPS = 128

#: kind and instructions (``Finding.pair``)
Pair = tuple[str, tuple[int, ...]]


class Again(Protocol):
    """A machine for one more run: seconds it may take, and its schedule."""

    def __call__(self, seconds: float, schedule: Callable[[], Schedule]) -> Machine: ...


class OneByOne:
    """One group of threads runs until it is blocked, then the next; who can run again goes first. Groups at instructions that come ``late``
    are held back while anybody else can go on, and has not gone on for long; then the one goes on that has waited longest, or, where one is
    to be ``ahead`` of all others, shortest."""

    def __init__(self, unit: int, *, down: bool = False, late: Container[int] = (), ahead: bool = False) -> None:
        self._unit, self._down, self._late, self._ahead = unit, down, late, ahead
        self._groups: list[Group] = []
        self._held: list[Group] = []
        self._taken = 0
        #: whether nothing has come since it was said that none but those held back are left
        self._said = False

    def begin(self, threads: int, block_threads: int) -> list[np.ndarray]:
        """See ``Schedule``: the warps, or the CTAs, the first to run last."""
        groups = in_units(threads, block_threads, self._unit)
        return groups if self._down else groups[::-1]

    def put(self, g: Group) -> None:
        """See ``Schedule``."""
        self._said = False
        (self._held if g.pc in self._late else self._groups).append(g)

    def take(self) -> list[Group]:
        """See ``Schedule``; nothing at first where only those are left that are held back: barriers may let others go on."""
        if self._groups or (self._held and self._said):
            self._taken += 1
            now = self._taken % PATIENCE == 0
            if self._held and (now or not self._groups):
                return [self._held.pop(-1 if self._ahead and not now else 0)]
            return [self._groups.pop(0 if now else -1)]
        self._said = True
        return []


def lanes_apart(g: Group, pc: int, program: Program) -> list[np.ndarray]:
    """The lanes of a group that are to execute an instruction one by one, as loops may look between them, and all others together, the
    first to run last; none where it is no strong store of several lanes."""
    instruction = program.flat.instructions[pc]
    if g.n == 1 or not is_strong_store(instruction):
        return []
    guard = True if instruction.predicate is None else g.R[program.register(instruction.predicate.name)]
    if isinstance(guard, Sym):
        return []
    active = np.broadcast_to(np.asarray(guard, bool) != instruction.negated, (g.n,))
    lanes, rest = np.flatnonzero(active), np.flatnonzero(~active)
    return [] if len(lanes) < 2 else [*lanes[::-1, None], *([rest] if len(rest) else [])]


def with_early_looks(
    machine: Machine, done: Execution, numbers: np.ndarray, seconds: float, again: Again, sought: frozenset[Pair] = frozenset()
) -> Execution:  # fmt: skip
    """The execution with what shows where loops that wait for memory look early. ``seconds``: what may be spent; ``sought``: the findings
    until which schedules are tried, instead of any."""
    launch, start = machine.bound.launch, time.perf_counter()
    waits = {pc for pc in machine.program.polling if machine.program.flat.instructions[pc].opcode in ("ld", "atom")}
    warps = len(numbers) * -(-launch.threads // WARP)
    unit = WARP if warps <= MOST_WARPS else 0
    if not isinstance(machine.order, OrderChecker):
        return done
    tests = {pc for pc in machine.log.harmful() if _looks_once(machine, pc)} if done.schedule_dependent else set()
    tests |= machine.trusted
    if not tests and (_wrong(done) or not waits or not machine.order.assumptions):
        return done
    groups = len(numbers) if unit == 0 else warps
    if groups > MOST:
        return _untried(done, f"{groups} groups of threads, at most {MOST}")
    traps = {*machine.program.analysis.traps, *machine.program.analysis.traps_of(tests)}
    told = _told_by(machine, tests)
    left, most = FURTHER_STEPS, 0
    for further, schedule in _schedules(machine, tests, told, unit):
        if further and (left < most or (sought <= {f.pair for f in done.findings} if sought else _wrong(done))):
            break
        other = again(seconds - (time.perf_counter() - start), schedule)
        assert isinstance(other.order, OrderChecker)
        other.failed_look, other.pauses = other.order.look_failed, machine.program.analysis.single_tests | told | tests
        ended = ""
        try:
            found = other.run_numbers(numbers).findings
        except PtxError as error:  # no time is left, or somebody waits for a CTA that does not run together with it
            found, ended = list(error.findings), error.message
        left, most = left - other.steps * further, max(most, other.steps)
        gives_up = [f for f in found if _gives_up(f, traps)]
        if machine.program.analysis.traps_are_silent or not gives_up:
            done = replace(done, findings=[*done.findings, *_new([*done.findings, *gives_up], found)])
        if ended:
            done = _untried(done, ended)
            break
        if gives_up:
            done = replace(done, schedule_dependent=list(dict.fromkeys([*done.schedule_dependent, GIVES_UP])))
            continue
        early = sorted(waits & other.order.looks.early)
        if early:
            said = f"a loop may end by other stores than those that it has seen (PTX line {machine.origins[early[0]].ptx_line})"
            done = replace(done, schedule_dependent=[*done.schedule_dependent, said])
            break
    spent = {"execute": done.seconds["execute"] + time.perf_counter() - start}
    return replace(done, seconds={**done.seconds, **spent})


def _wrong(done: Execution) -> bool:
    """Whether an error has been found."""
    return any(f.severity is Severity.ERROR for f in done.findings)


def _schedules(machine: Machine, tests: set[int], told: frozenset[int], unit: int) -> Iterator[tuple[bool, Callable[[], Schedule]]]:
    """The schedules to be tried, each made anew for every batch, and whether it is a further one: those, which come last, are tried
    only as long as what is looked for has not been found, and there is room for as long a run as any before. ``told``: what makes tests
    succeed."""
    yield False, partial(OneByOne, unit)
    yield False, partial(OneByOne, unit, down=True)
    if not tests:
        return
    yield False, partial(OneByOne, unit, late=tests)
    yield False, partial(OneByOne, unit, late=told)
    yield True, partial(OneByOne, unit, late=told, ahead=True)
    yield True, partial(OneByOne, unit, late=told, ahead=True, down=True)
    for seed in range(DRAWN):
        yield True, partial(Drawn, seed, unit, told | tests)


def _told_by(machine: Machine, tests: set[int]) -> frozenset[int]:
    """Instructions of others that make tests succeed: arrivals, and strong stores where flags are tested."""
    instructions = machine.program.flat.instructions
    flags = any(instructions[pc].opcode == "ld" for pc in tests)
    stores = frozenset(pc for pc, i in enumerate(instructions) if flags and is_strong_store(i))
    return machine.program.analysis.arrivals | stores


def _looks_once(machine: Machine, pc: int) -> bool:
    """Whether an instruction is a single test of an mbarrier, or a load of a flag (whoever writes .volatile may mean something else)."""
    instruction = machine.program.flat.instructions[pc]
    flag = instruction.opcode == "ld" and not {"acquire", "relaxed"}.isdisjoint(instruction.modifiers)
    return pc in machine.program.analysis.single_tests or flag


def _untried(done: Execution, reason: str) -> Execution:
    """The execution, of which it is not known what loops that wait see in other schedules."""
    said = f"loops that wait for memory were not tried in other schedules: {reason}"
    return replace(done, schedule_dependent=[*done.schedule_dependent, said])


def _gives_up(found: Finding, traps: Container[int]) -> bool:
    """Whether somebody gave up by one of the traps that tests lead to, as arrivals were held back for longer than that wait
    takes: that is no fault of the program. What is found in such a run is one, as whoever gives up might as well have waited on; unless
    it does something on its way to the trap."""
    return found.kind == "trap" and all(s.instruction in traps for s in found.sites)


def _new(known: list[Finding], found: list[Finding]) -> list[Finding]:
    pairs = {f.pair for f in known}
    return [f for f in found if f.pair not in pairs]
