"""The machine: runs a function over a launch, batch of CTAs by batch, and returns what it wrote and what it found.

Groups run as their schedule says and merge when they meet; a group blocks at a barrier. By the confluence theorem any schedule
gives the same terms, or the order checker reports a race.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

import ptx_engine.isa  # noqa: F401  (registers the instruction specs)
from ptx_engine.errors import BudgetError, LaunchError, NotStructuredError, ParseError, PtxError
from ptx_engine.findings import Finding
from ptx_engine.isa.algebra import Algebra
from ptx_engine.isa.algebra_symbolic import SymbolicAlgebra
from ptx_engine.isa.group import Group
from ptx_engine.isa.shuffle import uniform
from ptx_engine.isa.values import Sym, Value, join
from ptx_engine.isa.warp import LanesMissing, lane_names
from ptx_engine.launch import BoundLaunch, Role
from ptx_engine.machine.arms import Arms
from ptx_engine.machine.barriers import Barriers, Completed, Waiting, by_barrier, divided, reduce, wrong_count
from ptx_engine.machine.chances import Chances
from ptx_engine.machine.data_flow import DataFlow
from ptx_engine.machine.deadlocks import Deadlocks, divided_warps, stuck_at_barriers, stuck_at_warp_syncs, stuck_in_loops
from ptx_engine.machine.early_looks import lanes_apart
from ptx_engine.machine.environment import MachineEnvironment, local_layout, shared_layout
from ptx_engine.machine.execution import Budget, Execution, placed, untrapped
from ptx_engine.machine.findings_log import FindingLog
from ptx_engine.machine.fusion import Fusion
from ptx_engine.machine.loops import turn
from ptx_engine.machine.mbarriers import Mbarriers
from ptx_engine.machine.memory import Memory
from ptx_engine.machine.order_port import NoOrder, OrderPort
from ptx_engine.machine.parted_exchanges import exchange_parted
from ptx_engine.machine.polling import Poll, Pollers, Polling
from ptx_engine.machine.possible import PossibleAccesses
from ptx_engine.machine.predication import concrete_predicate, table_index
from ptx_engine.machine.preparation import check_block, granule_of, linear_ctas, make_origins
from ptx_engine.machine.program import BarrierOp, Block, Program, PtxOrigin, Terminator, located
from ptx_engine.machine.recorded import Target
from ptx_engine.machine.same_value import numeric_keys, proved_equal, same_value_keys
from ptx_engine.machine.schedule import LowestFirst, Schedule
from ptx_engine.machine.undefined import UndefinedRegisters
from ptx_engine.machine.variables import with_variables
from ptx_engine.machine.warp_syncs import Standing, WarpSyncs
from ptx_engine.order.checker import OrderChecker
from ptx_engine.order.equal_writes import ValueKeys
from ptx_engine.syntax.ast import FlatFunction, Module
from ptx_engine.watching import Step, tell

NO_EXTERNS: Mapping[str, str] = {}
NOBODY = np.zeros(0, np.int64)
#: part of the budget of seconds that may be spent when it has run out
GRACE = 0.25


class Machine:
    """One launch of one function."""

    def __init__(
        self, module: Module, flat: FlatFunction, bound: BoundLaunch, budget: Budget, order: bool, source: str,
        schedule: Callable[[], Schedule] = LowestFirst,
    ) -> None:  # fmt: skip
        check_block(flat.function, bound)
        launch = bound.launch
        if launch.threads < 1 or launch.threads > 1024 or launch.cta_count < 1:
            raise LaunchError(f"a block of {launch.block} and a grid of {launch.grid}: 1 to 1024 threads and at least one CTA are needed")
        bound, variables = with_variables(module, flat, bound)
        self.bound, self.budget, self.new_schedule = bound, budget, schedule
        self.block_threads = launch.threads
        shared_bytes = shared_layout(module, flat, launch.dynamic_shared_bytes)[1]
        self.deadline = time.perf_counter() + budget.seconds
        self.log = FindingLog(launch)
        self.agreement = numeric_keys(bound.arena), numeric_keys(bound.arena, rounded=True)
        self.order: OrderPort = self._checker(shared_bytes) if order else NoOrder()
        self.memory = self._memory(granule_of(flat, bound), shared_bytes, local_layout(flat)[1])
        self.env = MachineEnvironment(module, flat, bound, self.memory, self.order, self.log, self._algebra(), variables)
        self.origins = make_origins(module, flat, source)
        self.program = Program(self.env, flat, self.origins, self.env.widths)
        self.undefined = UndefinedRegisters(self.program, self.log)
        self.possible = PossibleAccesses(self.memory, self.log, flat.instructions)
        self.arms = Arms(self.program, self.env.widths, self._charge, self.possible)
        self.data_flow = DataFlow(flat.instructions, self.program.uses, self.env.register)
        self.env.exchanged = self.data_flow.exchanged
        self.chances = Chances(self.program, self.order)
        self.log.harmless = self.chances.harmless
        self.env.order.exchanging = self.program.analysis.has_mbarriers
        #: instructions by thread, and by group
        self.executed = self.steps = 0
        #: told of looks in vain, where loops that wait for memory are to look again after every store
        self.failed_look: Callable[[np.ndarray], None] | None = None
        #: instructions before which others may go on then, too
        self.pauses: frozenset[int] = frozenset()
        #: single tests of mbarriers that are taken for waits (see ``trusting``)
        self.trusted: frozenset[int] = frozenset()
        #: CTAs that have ended, and all that are to run, for whoever watches
        self.ended = self.total = 0
        self.fusion = Fusion(self.program, self._target(), None if self.program.analysis.has_mbarriers else budget.fuse_after)
        self.deadlocks = Deadlocks(launch)

    def _target(self) -> Target:
        """What fused code works on; only terms over the reals are emitted there."""
        symbolic = isinstance(self.env.algebra, SymbolicAlgebra)
        return Target(self.env.arena, self.memory, self.log, self.order, self, self.env.template, self.env.widths, symbolic)

    def _algebra(self) -> Algebra:
        """What float data are; ``machine.emulate`` has IEEE bits instead."""
        return SymbolicAlgebra(self.bound.arena)

    def _checker(self, shared_bytes: int) -> OrderChecker:
        """Who is told of accesses and synchronisation."""
        keys: ValueKeys = (*same_value_keys(self.bound.arena), *self.agreement)
        return OrderChecker(
            self.bound.launch, shared_bytes, self.bound.buffers, value_keys=keys, reach=lambda pc: self.data_flow.reach(pc),
            deadline_s=self.deadline,
        )  # fmt: skip

    def _memory(self, granule: int, shared_bytes: int, local_bytes: int) -> Memory:
        return Memory(self.bound, granule, shared_bytes, local_bytes, self.log, self.order)

    def batches(self, numbers: np.ndarray) -> list[np.ndarray]:
        """CTAs in batches whose columns and shared memory stay within the budget."""
        size = max(1, self.budget.batch_threads // self.block_threads)
        if self.memory.shared_bytes:
            size = min(size, max(1, self.budget.batch_shared_bytes // self.memory.shared_bytes))
        return [numbers[i : i + size] for i in range(0, len(numbers), size)]

    def run(self, ctas: Sequence[tuple[int, int, int]] | None = None) -> Execution:
        """Run the grid, or some of its CTAs."""
        return self.run_numbers(linear_ctas(self.bound, ctas))

    def run_numbers(self, numbers: np.ndarray, late: np.ndarray = NOBODY, start: float | None = None) -> Execution:
        """Run CTAs, those that are ``late`` when all others have ended; ``start`` is when decoding began (for the figures)."""
        decoded = time.perf_counter()
        try:
            self.ended, self.total = 0, len(numbers)
            for batch in (*self.batches(np.setdiff1d(numbers, late)), *self.batches(late)):
                self._look_at_the_clock()
                self.run_batch(batch)
                self.ended += len(batch)
            return self.finish(len(numbers), {"decode": decoded - (start if start is not None else decoded)}, decoded)
        except PtxError as error:
            error.findings = tuple(self._findings_so_far())
            raise

    def _findings_so_far(self) -> list[Finding]:
        """What was found until an error. To compare the accesses so far may take a part of the budget more."""
        if isinstance(self.order, OrderChecker):
            self.order.deadline_s = time.perf_counter() + GRACE * self.budget.seconds
        try:
            return self.findings()
        except BudgetError:
            return self.findings()

    # --- one batch ----------------------------------------------------------------------------

    def run_batch(self, ctas: np.ndarray) -> None:
        """Run a batch of CTAs to the end, or to a deadlock."""
        self.log.ctas = ctas
        self.memory.begin_batch(len(ctas))
        self.order.begin_batch(ctas)
        self.barriers = Barriers(len(ctas), self.block_threads)
        self.warp_syncs = self.env.warp_syncs = WarpSyncs(len(ctas), self.block_threads)
        self.schedule = self.new_schedule()
        self.polling = Pollers(self.failed_look)
        if self.program.analysis.has_mbarriers:
            self.memory.objects = self.env.mbarriers = Mbarriers(len(ctas), self.memory, self.program.analysis, self.trusted)
        self._turn = 0
        #: groups that the schedule holds
        self._ready = 0
        #: CTA slots in which a thread has executed trap
        self._trapped: set[int] = set()
        self._start(self.env.new_group(ctas))
        while True:
            while groups := self.schedule.take():
                self._ready -= len(groups)
                self._run(groups[0] if len(groups) == 1 else self._merge(groups, groups[0].pc))
                if self.failed_look is not None:
                    self._look(self.polling.due(self.memory.writes))
            if self._meet() or self._release() or self._look(self.polling.ready(self.memory.writes)):
                continue
            if not (self._ready or self._look(self.polling.awaited(self.warp_syncs))):
                break
        self._check_deadlock()
        self.order.end_batch()

    def _start(self, g: Group) -> None:
        """All threads of a batch, in the groups that the schedule wants."""
        for threads in self.schedule.begin(g.n, self.block_threads):
            self._push(g if len(threads) == g.n else self._subset(g, threads, set()), 0)

    def _push(self, g: Group, pc: int) -> None:
        if pc >= len(self.program.flat.instructions):
            self._exit(g, pc)
            return
        g.pc = pc
        self._ready += 1
        self.schedule.put(g)

    def _merge(self, groups: list[Group], pc: int) -> Group:
        """Groups that meet at a block's start become one; only live registers are carried."""
        threads = np.concatenate([g.threads for g in groups])
        order = None if bool((np.diff(threads) > 0).all()) else np.argsort(threads, kind="stable")
        sizes = [g.n for g in groups]
        values: list[Value] = list(self.env.template)
        for r in (*self.program.blocks[pc].live, *self.env.specials.values()):
            values[r] = join(self.env.arena, [g.R[r] for g in groups], sizes, order, self.env.widths[r])
        return Group(values, threads if order is None else threads[order], self.block_threads, pc)

    def _look_at_the_clock(self) -> None:
        """Now and then within a batch, and before each: of a large grid no batch may be long enough to be looked at. Raises BudgetError."""
        if (left := self.deadline - time.perf_counter()) < 0:
            raise BudgetError(f"execution took more than {self.budget.seconds} s")
        tell(Step("executing", self.ended, self.total, self.executed, left))

    def _run(self, g: Group) -> None:
        """Run one block and place the group (or its parts) where it goes next."""
        block = self.program.blocks[g.pc]
        self._charge(block, g)
        self._turn += 1
        if self._turn & 63 == 0:
            self._look_at_the_clock()
        arena = self.env.arena
        self.log.turn = self.order.turn = turn(block.carried, g.R) if block.carried else ()
        try:
            affordable = (self.budget.thread_instructions - self.executed) // (block.size * g.n)
            done = self.fusion.run(g, block, affordable, alone=not self._ready) if self.failed_look is None else 0
            if done < 0:
                self._push(g, block.start)
                return
            if self.failed_look is not None:
                if self._up_to_store(g, block):
                    return
            else:
                for origin, step in block.steps[done:] if done else block.steps:
                    arena.origin = origin
                    try:
                        step(g)
                    except NotStructuredError as error:
                        if not self.undefined.spread(error, g, origin.instruction):  # type: ignore[attr-defined]
                            raise
        except LanesMissing as missing:
            self._wait_for_lanes(g, block, arena.origin.instruction, missing)  # type: ignore[attr-defined]
            return
        except PtxError as error:
            where: PtxOrigin = arena.origin  # type: ignore[assignment]
            self.undefined.note(error, g, where.instruction)
            raise located(error, self.program.flat.instructions[where.instruction], where) from None
        except MemoryError as error:
            raise BudgetError(str(error)) from None
        end = block.end
        if end.kind == "fall":
            self._push(g, end.targets[0])
            return
        origin = self.origins[end.pc]
        arena.origin = origin
        try:
            self._terminate(g, end, block)
        except PtxError as error:
            self.undefined.note(error, g, end.pc)
            raise located(error, self.program.flat.instructions[end.pc], origin) from None

    def _up_to_store(self, g: Group, block: Block) -> bool:
        """Run a block up to a store that loops are to see at once, one that lanes make one by one, or a pause; False at its end."""
        writes = self.memory.writes
        for at, (origin, step) in enumerate(block.steps):
            apart = lanes_apart(g, block.start + at, self.program)
            if apart or self.memory.writes != writes or (at and block.start + at in self.pauses):
                self.executed -= (block.size - at) * g.n
                self.steps -= block.size - at
                live = set(self.program.enter(block.start + at))
                for part in [self._subset(g, lanes, live) for lanes in apart] or [g]:
                    self._push(part, block.start + at)
                return True
            self.env.arena.origin = origin
            step(g)
        return False

    def _charge(self, block: Block, g: Group) -> None:
        """Count a block that a group executes."""
        self.executed += block.size * g.n
        self.steps += block.size
        if self.executed > self.budget.thread_instructions:
            raise BudgetError(f"more than {self.budget.thread_instructions} thread-instructions")

    def _wait_for_lanes(self, g: Group, block: Block, pc: int, missing: LanesMissing) -> None:
        """Lanes that do not execute the instruction pass it, those whose masks are complete execute it, the others wait."""
        self.executed -= (block.size - (pc - block.start)) * g.n
        live = set(self.program.enter(pc))
        arrived = np.searchsorted(g.threads, missing.threads)
        passing = np.setdiff1d(np.arange(g.n), arrived)
        if len(passing):
            self._push(self._subset(g, passing, set(self.program.enter(pc + 1))), pc + 1)
        ready = missing.absent == 0
        if ready.any():
            self._push(self._subset(g, arrived[ready], live), pc)
        self.warp_syncs.waiting.append(
            Standing(self._subset(g, arrived[~ready], live), pc, missing.what, missing.members[~ready], missing.meeting)
        )

    # --- terminators ----------------------------------------------------------------------------

    def _terminate(self, g: Group, end: Terminator, block: Block) -> None:
        if end.kind == "table":
            self._table(g, end)
            return
        if end.predicate is None:
            self._take(g, end)
            return
        p = g.R[end.predicate]
        if p.__class__ is Sym and end.kind == "branch" and (meeting := self.arms.run(g, end)) is not None:
            self._push(g, meeting)
            return
        if p.__class__ is not bool:
            p = concrete_predicate(p, "a branch")
        if isinstance(p, np.ndarray):
            active = ~p if end.negated else p
            count = int(np.count_nonzero(active))
            if 0 < count < g.n:
                taken, rest = self._split(g, active, end)
                self._push(rest, end.pc + 1)
                self._take(taken, end)
                return
            taken_all = count == g.n
        else:
            taken_all = p is not end.negated
        if taken_all:
            self._take(g, end)
        else:
            self._push(g, end.pc + 1)

    def _split(self, g: Group, active: np.ndarray, end: Terminator) -> tuple[Group, Group]:
        """The lanes that take the terminator and those that do not, with what is live on either way."""
        live = self._live_after(end)
        self.warp_syncs.part(g.threads, end.pc, self.program.analysis.behind)
        return self._subset(g, np.flatnonzero(active), live), self._subset(g, np.flatnonzero(~active), live)

    def _live_after(self, end: Terminator) -> set[int]:
        """Registers that a terminator or what follows it reads."""
        live: set[int] = set()
        for target in (*end.targets, end.pc + 1):
            if target in self.program.blocks:
                live.update(self.program.blocks[target].live)
        if end.barrier is not None:
            live.update(r for r in (end.barrier.number, end.barrier.count, end.barrier.operand) if r is not None)
        return live

    def _subset(self, g: Group, where: np.ndarray, live: set[int]) -> Group:
        sub = g.subset(where, [*live, *self.env.specials.values()])
        for r, value in enumerate(self.env.template):
            if value is not None:
                sub.R[r] = value
        return sub

    def _take(self, g: Group, end: Terminator) -> None:
        if end.kind == "branch" and end.poll is Poll.NO:
            self._push(g, end.targets[0])
        elif end.kind == "branch":
            self.polling.add(g, end, self.memory.writes)
        elif end.kind == "exit":
            self._exit(g, end.pc)
        elif end.kind == "trap":  # the launch has failed: whoever waits for these threads goes on no more
            self.log.add("trap", "a thread executes trap", g, np.arange(g.n), end.pc)
            self._trapped.update((g.threads // self.block_threads).tolist())
        else:
            self._barrier(g, end)

    def _table(self, g: Group, end: Terminator) -> None:
        assert end.index is not None
        column = table_index(g.R[end.index], g.n, len(end.targets))
        for value in np.unique(column):
            target = end.targets[int(value)]
            live = set(self.program.blocks[target].live) if target in self.program.blocks else set()
            chosen = np.flatnonzero(column == value)
            self._push(g if len(chosen) == g.n else self._subset(g, chosen, live), target)

    def _exit(self, g: Group, pc: int) -> None:
        self.barriers.exited(g.threads)
        self.warp_syncs.exited(g.threads)
        self.order.exit(g.threads, pc)

    # --- barriers -------------------------------------------------------------------------------

    def _barrier(self, g: Group, end: Terminator) -> None:
        """Threads come to a barrier, to one of their own each where its number or count is a register that differs between them."""
        op = end.barrier
        assert op is not None
        parts = by_barrier([g.R[slot] for slot in (op.number, op.count) if slot is not None], g.n)
        for part in parts:
            self._come_to(g if len(parts) == 1 else self._subset(g, part, self._live_after(end)), op, end)

    def _come_to(self, g: Group, op: BarrierOp, end: Terminator) -> None:
        number = uniform(g.R[op.number], "the barrier number")
        count = uniform(g.R[op.count], "the barrier's thread count") if op.count is not None else None
        if number > 15:
            raise ParseError(f"barrier number {number}", hint="a CTA has barriers 0 to 15")
        if count is not None and (said := wrong_count(count, self.block_threads)):
            self.log.add("barrier misuse", said, g, np.arange(g.n), end.pc, role=f"bar.{op.kind}")
        wrong = self.barriers.come(Waiting(g, op, end.pc, number, count))
        if wrong is not None:
            self.log.add("barrier misuse", wrong[0], g, wrong[1], end.pc, role=f"bar.{op.kind}")
        self.order.settle(end.pc, g.threads)
        if op.kind == "arrive":
            self.order.cta_arrive(end.pc, g.threads, number, count)
            self._push(g.replica(), end.pc + 1)
            if self.barriers.spent(number):
                self._release()

    def _report_divided(self, came: Sequence[Waiting]) -> None:
        """Aligned barriers that only part of a warp has come to, where nobody else can come any more."""
        self.log.turn = ()
        for w, lanes, missing in divided(came, self.warp_syncs.excused(self.program.analysis.quiet_after)):
            some = ~np.isin(w.group.threads[lanes] // self.block_threads, list(self._trapped))
            if some.any():
                self.log.add(
                    "barrier misuse", "an aligned barrier is executed by part of a warp", w.group, lanes[some], w.pc,
                    role=f"bar.{w.op.kind}", missing=f"{lane_names(int(missing[some][0]))} of the warp at the same instruction",
                )  # fmt: skip

    def _meet(self) -> bool:
        """Let lanes go on that have met the others of their warp; False if none have."""
        met = self.warp_syncs.meet()
        for pc, threads in met.barriers:
            self.order.warp_barrier(pc, threads)
        for pc, groups in met.together().items():
            self.program.enter(pc)
            self._push(groups[0] if len(groups) == 1 else self._merge(groups, pc), pc)
        parted = [] if met.groups else exchange_parted(self.warp_syncs, self.env, self.program, self.origins)
        for group, pc in parted:
            self._push(group, pc)
        return bool(met.groups or parted)

    def _release(self) -> bool:
        """Let completed barriers go on; False if none completes."""
        done = self.barriers.complete()
        for completed in done:
            self._tell_order(completed)
            self._report_divided(completed.taken)
            for waiting in completed.resumed:
                reduce(waiting, completed, len(self.barriers.live), self.block_threads)
                self._push(waiting.group, waiting.pc + 1)
        return bool(done)

    def _look(self, ready: list[Polling]) -> bool:
        """Let loops that wait for memory look again; False where that would show them nothing new."""
        for p in ready:
            self._push(p.group, p.target)
        return bool(ready)

    def _tell_order(self, completed: Completed) -> None:
        start = time.perf_counter()
        if len(completed.synced):
            self.order.cta_barrier(completed.pc, completed.synced, completed.number, completed.count)
        else:
            self.order.cta_reset(completed.pc, np.unique(completed.arrived // self.block_threads), completed.number)
        self.memory.order_seconds += time.perf_counter() - start

    def _check_deadlock(self) -> None:
        """Groups still waiting when nothing can run: a deadlock, but where they may wait for threads that have executed trap. Raises
        BudgetError where others could come yet."""
        on_others = any(not (p.on_mbarrier or p.blind) for p in self.polling.waiting)
        if self._trapped and (on_others or len(self._trapped) == len(self.log.ctas)):
            return
        if on_others and len(self.log.ctas) < self.bound.launch.cta_count:
            raise BudgetError("a loop waits for a store of a CTA that does not run together with it", hint="launch fewer CTAs")
        self._report_divided(self.barriers.waiting)
        polls = stuck_in_loops(self.polling, self.env.mbarriers, self.memory.last_looks, self.barriers)
        stuck = [*stuck_at_barriers(self.barriers), *stuck_at_warp_syncs(self.warp_syncs), *polls]
        self.deadlocks.add(self.log.ctas, stuck, divided_warps(self.warp_syncs, self.log, stuck, self._trapped) | self._trapped)

    # --- the end --------------------------------------------------------------------------------

    def finish(self, ctas: int, seconds: dict[str, float], started: float) -> Execution:
        """Footprints and findings with the PTX and user lines filled in."""
        start = time.perf_counter()
        findings = self.findings()
        now = time.perf_counter()
        order_seconds = self.memory.order_seconds + now - start
        seconds = {**seconds, "execute": now - started - order_seconds, "order": order_seconds}
        footprints = {t.buffer.arg.name: t.footprint() for t in self.memory.tensors if t.buffer.arg.role is not Role.IN and t.cells is None}
        launch = self.bound.launch
        dependent = [
            f"{reason} ({self.origins[pc].user_loc or f'PTX line {self.origins[pc].ptx_line}'})" for reason, pc in self.log.dependent()
        ]
        agreed = [pair for keys in self.agreement for pair in keys.pairs]
        if agreed and not proved_equal(self.bound.arena, agreed):
            dependent.append("threads store values to one address that agree at random inputs and are not built alike: not proved equal")
        assumptions = [*self.order.assumptions, *untrapped(self.program.analysis.traps, self.origins)]
        return Execution(footprints, findings, ctas, launch.cta_count, self.executed, seconds, assumptions, self.origins, dependent)

    def findings(self) -> list[Finding]:
        """All findings so far, with the PTX and user lines filled in."""
        found = (*self.log.findings(), *self.deadlocks.findings(), *self.order.finish())
        return self.possible.judged([placed(f, self.origins) for f in found if not self.chances.waits(f)])
