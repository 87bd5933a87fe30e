"""Runs a small program in one random schedule and tells an ``OrderChecker`` of it, as the machine would."""

from __future__ import annotations

import random

import numpy as np
from order_programs import ARRIVALS, Op, Program

from ptx_engine.findings import Finding
from ptx_engine.launch import ADDRESS_BASE, Launch, Role, TensorArg, bind
from ptx_engine.order import AtomicKind, MemoryOrder, Observation, OrderChecker, Scope, Space
from ptx_engine.terms.arena import Arena

SPACE = {"s": Space.SHARED, "g": Space.GLOBAL}
FLAGS = ADDRESS_BASE + 1024


class Stuck(Exception):
    """The schedule cannot go on."""


class _Run:
    def __init__(self, program: Program, seed: int, checker: OrderChecker) -> None:
        self.p, self.checker = program, checker
        self.random = random.Random(seed)
        self.pc = [0] * len(program.threads)
        self.waiting: dict[tuple, list[int]] = {}
        self.arrived: dict[tuple, int] = {}
        self.blocked: set[int] = set()
        self.made: dict[int, int] = {}
        #: mbarrier -> phase, pending count
        self.phases: dict[int, list[int]] = {op.id: [0, op.count] for ops in program.threads for op in ops if op.kind in ARRIVALS}
        self.exited: set[int] = set()
        self.exits = self.random.random() < 0.5

    def run(self) -> None:
        self.checker.begin_batch(np.arange(self.p.ctas, dtype=np.int32))
        while True:
            able = [t for t in range(len(self.pc)) if self._able(t)]
            if not able:
                break
            self._step(self.random.choice(able), able)
        if any(pc < len(ops) for pc, ops in zip(self.pc, self.p.threads)):
            raise Stuck
        self.checker.end_batch()

    def _op(self, t: int) -> Op:
        return self.p.threads[t][self.pc[t]]

    def _able(self, t: int) -> bool:
        if t in self.blocked or self.pc[t] >= len(self.p.threads[t]):
            return False
        op = self._op(t)
        if op.kind == "mb_wait":
            return self.phases.get(op.id, [0])[0] == op.count + 1
        return op.kind not in ("await", "await_count") or self.made.get(op.id, 0) >= max(op.count, 1)

    def _step(self, t: int, able: list[int]) -> None:
        op = self._op(t)
        group = [t]
        if op.kind in ("load", "store", "rmw"):  # threads at the same instruction may go as one column
            group = sorted({t, *(u for u in able if self._op(u).instruction == op.instruction and self.random.random() < 0.6)})
        ops = [self._op(u) for u in group]
        threads = np.array(group, np.int32)
        done = self._execute(op, ops, threads)
        for u in group if done else []:
            self._advance(u)

    def _advance(self, t: int) -> None:
        self.pc[t] += 1
        if self.exits and self.pc[t] == len(self.p.threads[t]):
            self.checker.exit(np.array([t], np.int32))

    def _execute(self, op: Op, ops: list[Op], threads: np.ndarray) -> bool:
        c, i = self.checker, op.instruction
        addresses = np.array([o.address + (ADDRESS_BASE if o.space == "g" else 0) for o in ops], np.int64)
        if op.kind == "load":
            c.read(SPACE[op.space], i, threads, addresses, op.nbytes)
        elif op.kind == "store":
            parts = np.array([[o.value] * (op.nbytes // 4) for o in ops])
            c.write(SPACE[op.space], i, threads, addresses, op.nbytes, parts)
        elif op.kind == "rmw":
            scope = Scope.GPU if op.beyond_cta else Scope.CTA
            c.atomic(SPACE[op.space], i, threads, addresses, op.nbytes, scope, MemoryOrder.RELAXED, AtomicKind.RMW, Observation.IGNORED)
        elif op.kind == "copy":
            c.async_copy(i, threads, addresses, ADDRESS_BASE + op.source, op.nbytes)
        elif op.kind == "commit":
            c.commit_group(i, threads)
        elif op.kind == "wait":
            c.wait_group(i, threads, op.count)
        elif op.kind == "fence":
            c.fence(i, threads, Scope.GPU)
        else:
            return self._synchronise(op, threads)
        return True

    def _synchronise(self, op: Op, threads: np.ndarray) -> bool:
        t = int(threads[0])
        if op.kind in ("set", "add", "await", "await_count"):
            self._flag(op, threads)
        elif op.kind in ARRIVALS:
            self._arrive_on(op, threads)
        elif op.kind == "mb_wait":
            self.checker.mbarrier_wait(op.instruction, threads, op.id)
        else:
            return self._barrier(op, t)
        if op.kind in ("set", "add"):
            self.made[op.id] = self.made.get(op.id, 0) + 1
        return True

    def _arrive_on(self, op: Op, threads: np.ndarray) -> None:
        """A thread's arrival, or its copies', which come at once here; what is counted in and out again leaves the count as it is."""
        if op.kind == "mb_arrive":
            self.checker.mbarrier_arrive(op.instruction, threads, op.id)
        else:
            self.checker.mbarrier_copies_arrive(op.instruction, threads, op.id)
        if op.kind == "copy_count":
            return
        state = self.phases[op.id]
        state[1] -= 1
        if state[1] == 0:
            self.checker.mbarrier_complete(np.array([self.p.cta(int(threads[0]))], np.int32), op.id)
            state[:] = [state[0] + 1, op.count]

    def _flag(self, op: Op, threads: np.ndarray) -> None:
        waits = op.kind in ("await", "await_count")
        order = MemoryOrder.RELAXED if not op.strong else MemoryOrder.ACQUIRE if waits else MemoryOrder.RELEASE
        kind = AtomicKind.LOAD if waits else AtomicKind.STORE if op.kind == "set" else AtomicKind.REDUCE
        self.checker.atomic(Space.GLOBAL, op.instruction, threads, FLAGS + 4 * op.id, 4, Scope.GPU, order, kind)

    def _barrier(self, op: Op, t: int) -> bool:
        key = ("warp", op.lanes) if op.kind == "warp" else (self.p.cta(t), op.id)
        here = self.waiting.setdefault(key, [])
        if op.kind == "arrive":
            self.arrived[key] = self.arrived.get(key, 0) + 1
            self.checker.cta_arrive(op.instruction, np.array([t], np.int32), op.id, op.count)
        else:
            here.append(t)
            self.blocked.add(t)
        if len(here) + self.arrived.get(key, 0) == (len(op.lanes) if op.kind == "warp" else op.count):
            self._complete(op, key, sorted(here))
        return op.kind == "arrive"

    def _complete(self, op: Op, key: tuple, threads: list[int]) -> None:
        column = np.array(threads, np.int32)
        if op.kind == "warp":
            self.checker.warp_barrier(op.instruction, column)
        elif threads:
            self.checker.cta_barrier(op.instruction, column, op.id, op.count)
        else:
            self.checker.cta_reset(op.instruction, np.array([key[0]], np.int32), op.id)
        self.waiting.pop(key, None)
        self.arrived.pop(key, None)
        self.blocked -= set(threads)
        for t in threads:
            self._advance(t)


def check(program: Program, seed: int) -> list[Finding]:
    """The checker's findings for one random schedule. Raises Stuck if it does not complete."""
    launch = Launch((program.ctas, 1, 1), (program.threads_per_cta, 1, 1), (TensorArg("G", "s32", (16,), Role.INOUT),))
    checker = OrderChecker(launch, 64, bind(launch, Arena()).buffers, program.warp_size)
    _Run(program, seed, checker).run()
    return checker.finish()


def pairs(findings: list[Finding]) -> frozenset[tuple[int, int, bool]]:
    """(lower instruction, higher one, same value) of findings."""
    found = set()
    for finding in findings:
        if finding.kind.endswith("misuse"):
            continue
        low, high = sorted(site.instruction for site in finding.sites[:2])
        found.add((low, high, finding.kind == "same-value write"))
    return frozenset(found)


def misused(findings: list[Finding]) -> bool:
    """Whether a barrier or an mbarrier is misused."""
    return any(finding.kind.endswith("misuse") for finding in findings)
