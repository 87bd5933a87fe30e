"""A decoded function: basic blocks of closures, terminators, and which registers are live where.

Decoding happens once per launch. A block ends at a branch, an exit, a barrier, or before a label.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ptx_engine.errors import ParseError, PtxError, Span, UnsupportedError
from ptx_engine.isa.control import control_modifiers
from ptx_engine.isa.decode import Step
from ptx_engine.isa.registry import find
from ptx_engine.isa.simple import Simple
from ptx_engine.isa.targets import check_target
from ptx_engine.machine.analysis import Analysis, clock_of
from ptx_engine.machine.clock import clock_step
from ptx_engine.machine.control_flow import ENDS
from ptx_engine.machine.environment import MachineEnvironment
from ptx_engine.machine.loops import mark_loop_registers
from ptx_engine.machine.polling import Flow, Poll, control_slots, flow_of, is_strong_load, mark_polling
from ptx_engine.machine.predication import guarded
from ptx_engine.machine.recording import RecordingDecode, Uses
from ptx_engine.syntax.ast import FlatFunction, Instruction, Name
from ptx_engine.terms import Arena

BRANCHES = {"bra", "brx"}
BARRIERS = {"bar", "barrier"}


@dataclass(frozen=True)
class PtxOrigin:
    """Who emitted a term: an instruction of a side's PTX."""

    instruction: int
    ptx_line: int
    ptx_text: str
    user_loc: str


@dataclass
class Terminator:
    """How a block ends. ``kind``: "fall", "branch", "exit", "barrier", "table". ``predicate`` is a register-file index or None."""

    kind: str
    pc: int = 0
    predicate: int | None = None
    negated: bool = False
    targets: tuple[int, ...] = ()
    index: int | None = None  # brx.idx: the register of the table index
    barrier: "BarrierOp | None" = None
    poll: Poll = Poll.NO
    #: of a loop that polls: the registers that it carries from turn to turn, whether it waits for an mbarrier, and whether it loads nothing
    carried: tuple[int, ...] = ()
    waits: bool = False
    blind: bool = False


@dataclass
class BarrierOp:
    """A bar/barrier instruction: ``number`` and ``count`` are register-file indices (count None: all threads)."""

    kind: str  # "sync", "arrive", "red"
    number: int
    count: int | None
    reduce: str = ""  # "popc", "and", "or"
    destination: int | None = None
    operand: int | None = None
    operand_negated: bool = False
    aligned: bool = True


@dataclass
class Block:
    """Straight-line code from ``start`` up to its terminator; ``size`` counts instructions with the terminator."""

    start: int
    steps: list[tuple[object, Step]] = field(default_factory=list)
    #: what each step does, where that is simple
    forms: list[Simple | None] = field(default_factory=list)
    end: Terminator = field(default_factory=lambda: Terminator("fall"))
    size: int = 0
    uses: set[int] = field(default_factory=set)
    defines: set[int] = field(default_factory=set)
    #: registers that predicated instructions may write
    guarded: set[int] = field(default_factory=set)
    live: tuple[int, ...] = ()
    #: slot and name of the registers that the loops around carry from turn to turn
    carried: tuple[tuple[int, str], ...] = ()

    @property
    def loops(self) -> bool:
        """Whether the block may be followed by itself."""
        return self.end.kind == "branch" and self.end.poll is Poll.NO and self.end.targets[0] == self.start


class Program:
    """All blocks by start pc. Raises PtxError with the instruction's place for anything that cannot be decoded."""

    def __init__(self, env: MachineEnvironment, flat: FlatFunction, origins: list[PtxOrigin], widths: list[int]) -> None:
        self.flat = flat
        self.origins = origins
        self.blocks: dict[int, Block] = {}
        self.uses: dict[int, Uses] = {}
        #: strong loads of loops that wait for memory
        self.polling: set[int] = set()
        self.arena: Arena = env.arena
        self._env = env
        self._widths = widths
        self._flows: list[Flow] = []
        self._guards: set[int] = set()
        leaders = self._leaders()
        for start, stop in zip(leaders, [*leaders[1:], len(flat.instructions)]):
            self.blocks[start] = self._block(start, stop)
        self._liveness()
        self.analysis = Analysis(self.blocks, flat.instructions, self.uses, self.register)
        mark_loop_registers(self.blocks, flat.registers)
        looks = any(is_strong_load(i) for i in flat.instructions)
        if looks:
            env.control_slots.update(control_slots(self._roots(), self._flows))
        env.memory.polled = mark_polling(self, looks)

    def register(self, name: str) -> int:
        """The slot of a register."""
        return self._env.register(name)

    def _roots(self) -> set[int]:
        """Slots that decide which instructions run."""
        ends = [b.end for b in self.blocks.values()]
        barriers = [end.barrier for end in ends if end.barrier is not None]
        slots = {s for end in ends for s in (end.predicate, end.index) if s is not None} | self._guards
        return slots | {s for op in barriers for s in (op.number, op.count, op.operand) if s is not None}

    def enter(self, pc: int) -> tuple[int, ...]:
        """What is live at an instruction, which becomes the start of a block of its own if it is not one yet."""
        if pc >= len(self.flat.instructions):
            return ()
        if pc not in self.blocks:
            self.blocks[pc] = self._rest(self.blocks[max(start for start in self.blocks if start < pc)], pc)
        return self.blocks[pc].live

    def _rest(self, block: Block, pc: int) -> Block:
        """A block from ``pc`` on, which lies in it; its steps are one per instruction."""
        done = pc - block.start
        rest = Block(pc, block.steps[done:], block.forms[done:], block.end, block.size - done, carried=block.carried)
        for at in range(pc, block.start + block.size):
            row = self.uses[at]
            guard = set() if row.predicate is None else {row.predicate, *row.writes}
            rest.uses |= (row.reads | guard) - rest.defines
            rest.defines |= row.writes if row.predicate is None else set()
        out = {r for target in block.end.targets if target in self.blocks for r in self.blocks[target].live}
        rest.live = tuple(sorted(rest.uses | (out - rest.defines)))
        return rest

    def _target(self, instruction: Instruction, name: str) -> int:
        try:
            return self.flat.labels[name]
        except KeyError:
            raise ParseError(f"branch to unknown label {name}", span=instruction.span) from None

    def _leaders(self) -> list[int]:
        leaders = {0, *self.flat.labels.values()}
        for pc, instruction in enumerate(self.flat.instructions):
            if instruction.opcode in BRANCHES or instruction.opcode in ENDS or _is_cta_barrier(instruction):
                leaders.add(pc + 1)
        return sorted(pc for pc in leaders if pc < len(self.flat.instructions))

    def _block(self, start: int, stop: int) -> Block:
        block = Block(start, size=stop - start)
        for pc in range(start, stop):
            instruction = self.flat.instructions[pc]
            try:
                if instruction.opcode in BRANCHES or instruction.opcode in ENDS or _is_cta_barrier(instruction):
                    block.end = self._terminator(instruction, pc, block)
                else:
                    self._step(block, instruction, pc)
                check_target(instruction, self._env.module)
            except PtxError as error:
                raise located(error, instruction, self.origins[pc]) from None
        if block.end.kind == "fall":
            block.end.targets = (stop,)
        return block

    def _step(self, block: Block, instruction: Instruction, pc: int) -> None:
        form, mods = find(instruction)
        d = RecordingDecode(self._env, instruction, pc, mods)
        for slot in form.slots:
            if slot.ignored and slot.name in mods and slot.name not in _SILENT:
                self.arena.assumptions.setdefault(f"modifier without meaning over the reals: .{slot.name}")
        step = clock_step(d, clock_of(instruction)) if clock_of(instruction) else form.spec(d)
        reads, writes = d.reads, d.writes
        p = None if instruction.predicate is None else self._env.register(instruction.predicate.name)
        self.uses[pc] = d.uses(p)
        self._env.read_slots.update(reads)
        self._flows.append(flow_of(instruction, reads, writes))
        block.uses |= reads - block.defines
        if p is not None:
            self._env.read_slots.add(p)
            self._guards.add(p)
            block.guarded |= writes
            block.uses |= ({p} | writes) - block.defines
            step = guarded(self.arena, step, p, instruction.negated, sorted(reads), sorted(writes), self._widths)
        else:
            block.defines |= writes
        block.steps.append((self.origins[pc], step))
        block.forms.append(d.simple if p is None else None)

    def _terminator(self, instruction: Instruction, pc: int, block: Block) -> Terminator:
        end = Terminator("exit", pc)
        if instruction.predicate is not None:
            end.predicate, end.negated = self._env.register(instruction.predicate.name), instruction.negated
            self._env.read_slots.add(end.predicate)
            block.uses |= {end.predicate} - block.defines
        mods = control_modifiers(instruction)
        self.uses[pc] = RecordingDecode(self._env, instruction, pc, mods).uses(end.predicate)
        after = (pc + 1,)
        if instruction.opcode == "bra":
            operand = instruction.operands[0]
            if not isinstance(operand, Name):
                raise UnsupportedError("bra through a register", feature="indirect branch")
            end.kind, end.targets = "branch", (self._target(instruction, operand.name), *after)
        elif instruction.opcode == "brx":
            self._table_branch(instruction, end, block)
        elif instruction.opcode == "trap":
            end.kind = "trap"
        elif instruction.opcode not in ENDS:
            end.kind, end.targets = "barrier", after
            end.barrier = self._barrier(instruction, mods, end, block)
        if end.kind in ("exit", "trap"):
            end.targets = after if end.predicate is not None else ()
        return end

    def _table_branch(self, instruction: Instruction, end: Terminator, block: Block) -> None:
        index, table = instruction.operands[0], instruction.operands[1]
        if not isinstance(table, Name) or table.name not in self.flat.branch_targets:
            raise UnsupportedError("brx.idx without a .branchtargets table", feature="brx.idx")
        d = RecordingDecode(self._env, instruction, end.pc, {"type": "u32"})
        end.kind, end.index = "table", d.src_of(index, 32)
        self.uses[end.pc] = d.uses(end.predicate)
        block.uses |= d.reads - block.defines
        self._env.read_slots.update(d.reads)
        end.targets = tuple(self._target(instruction, name) for name in self.flat.branch_targets[table.name])
        if end.predicate is not None:
            raise UnsupportedError("brx.idx under a predicate", feature="brx.idx")

    def _barrier(self, instruction: Instruction, mods: dict[str, str], end: Terminator, block: Block) -> BarrierOp:
        d = RecordingDecode(self._env, instruction, end.pc, {"type": "u32", **mods})
        if mods["op"] == "red":
            op = self._reduction(d, mods["reduce"])
        else:
            op = BarrierOp(mods["op"], d.src(0, 32), d.src(1, 32) if d.count == 2 else None)
        op.aligned = "aligned" in mods or instruction.opcode == "bar"
        self.uses[end.pc] = d.uses(end.predicate)
        self._env.read_slots.update(d.reads)
        block.uses |= d.reads - block.defines
        block.defines |= d.writes if instruction.predicate is None else set()
        return op

    def _reduction(self, d: "RecordingDecode", reduce: str) -> BarrierOp:
        """bar.red.popc.u32 d, a [, b], {!}c and bar.red.and/or.pred p, a [, b], {!}c."""
        operand, negated = d.predicate(d.count - 1)
        count = d.src(2, 32) if d.count == 4 else None
        return BarrierOp("red", d.src(1, 32), count, reduce, d.dst(0), operand, negated)

    def _liveness(self) -> None:
        """Backward data flow over blocks: what each block's start needs."""
        order = sorted(self.blocks, reverse=True)
        live: dict[int, set[int]] = {start: set() for start in order}
        changed = True
        while changed:
            changed = False
            for start in order:
                block = self.blocks[start]
                out: set[int] = set()
                for target in block.end.targets:
                    out |= live.get(target, set())
                new = block.uses | (out - block.defines)
                if new != live[start]:
                    live[start] = new
                    changed = True
        for start in order:
            self.blocks[start].live = tuple(sorted(live[start]))


#: ignored slots that change no value at all (hints), so that no assumption is made
_SILENT = {"cop", "evict", "l2evict", "prefetch", "level", "weak", "mode", "primary", "secondary", "rnd", "ftz", "approx"}


def _is_cta_barrier(instruction: Instruction) -> bool:
    return instruction.opcode in BARRIERS and instruction.modifiers[:1] != ("warp",)


def located(error: PtxError, instruction: Instruction, origin: PtxOrigin) -> PtxError:
    """The error with the place of an instruction, unless it already has one."""
    if error.span is None or error.span.line == 0:
        error.span = Span(instruction.span.line, instruction.span.col, instruction.span.end_col)
        error.source_line = origin.ptx_text
        error.user_loc = error.user_loc or origin.user_loc
    return error
