"""Branches on symbolic data: every arm runs for all lanes, and where the arms meet registers become selections.

Only arms that compute, load and store (``possible``): an atomic, a strong access, a barrier, exchange between lanes, exit or loop in an arm
leaves the branch refused. The approximations that compilers inline (erf, sin) branch like that on the size of their argument.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ptx_engine.errors import NotStructuredError, PtxError
from ptx_engine.isa.bits import pred_ids
from ptx_engine.isa.compare import select, typed
from ptx_engine.isa.group import Group
from ptx_engine.isa.values import PRED, Sym, Value, choose, is_partial
from ptx_engine.machine.data_flow import ARITHMETIC
from ptx_engine.machine.elements import spread
from ptx_engine.machine.operand_names import names_of
from ptx_engine.machine.polling import Poll
from ptx_engine.machine.possible import NEVER, PossibleAccesses, is_access
from ptx_engine.machine.program import Block, Program, Terminator, located
from ptx_engine.machine.register_kinds import RegisterKinds
from ptx_engine.syntax.ast import Mem, Name
from ptx_engine.terms import Ids, Op

#: instructions that read and write registers only
COMPUTING = ARITHMETIC - {"isspacep"}


@dataclass
class Way:
    """Lanes that come to an instruction: the condition (0/1 ids) under which they do, and the registers as they would be."""

    condition: Ids
    values: list[Value]


@dataclass(frozen=True)
class _Region:
    """Where the arms of a branch meet, and by pc the order in which the blocks up to there are run."""

    join: int
    rank: dict[int, int]


#: blocks that are looked at for the place where arms meet
_MOST_BLOCKS = 1024


def _passed(onward: dict[int, tuple[int, ...]]) -> dict[int, frozenset[int]]:
    """The blocks that every way from a block comes to, itself among them; a way ends where nothing is onward."""
    everything = frozenset(onward)
    passed = {pc: everything if following else frozenset((pc,)) for pc, following in onward.items()}
    changed = True
    while changed:
        changed = False
        for pc in sorted(onward, reverse=True):
            if onward[pc]:
                now = frozenset.intersection(*(passed[after] for after in onward[pc])) | {pc}
                changed |= now != passed[pc]
                passed[pc] = now
    return passed


def _in_order(targets: set[int], onward: dict[int, tuple[int, ...]], join: int) -> list[int] | None:
    """The blocks between some targets and where they meet, each after all that lead to it; None where a way leads in a circle."""
    order: list[int] = []
    entered, left = {join}, {join}
    stack = [(pc, False) for pc in sorted(targets)]
    while stack:
        pc, done = stack.pop()
        if done:
            left.add(pc)
            order.append(pc)
        elif pc not in entered:
            entered.add(pc)
            stack.append((pc, True))
            stack.extend((after, False) for after in onward[pc])
        elif pc not in left:
            return None
    return order[::-1]


class Arms:
    """Runs the arms of one program's branches on symbolic data."""

    def __init__(
        self, program: Program, widths: list[int], charge: Callable[[Block, Group], None], possible: PossibleAccesses
    ) -> None:  # fmt: skip
        """``charge`` is told of every block that is run."""
        self._program, self._possible = program, possible
        self._widths = widths
        self._charge = charge
        self._kinds = RegisterKinds(program)
        self._regions: dict[int, _Region | None] = {}
        #: by block, what its lanes access: looked for among all instructions, once
        self._accessing: dict[int, list[int]] = {}

    def run(self, g: Group, end: Terminator) -> int | None:
        """Run both arms of a branch whose predicate is symbolic, up to where they meet; returns that pc, with the group's
        registers set, or None where an arm does more than compute."""
        if end.pc not in self._regions:
            self._regions[end.pc] = self._region(end)
        region = self._regions[end.pc]
        if region is None:
            return None
        join = region.join
        ways: dict[int, list[Way]] = {}
        self._part(ways, end, Way(1, g.R), g)
        while (pc := min(ways, key=region.rank.__getitem__)) != join:
            way = self._met(ways.pop(pc), pc)
            block = self._program.blocks[pc]
            self._charge(block, g)
            at = Group(list(way.values), g.threads, g.block_threads, pc)
            self._run(at, block, way.condition)
            self._part(ways, block.end, Way(way.condition, at.R), g)
        g.R = self._met(ways[join], join).values
        return join

    def _run(self, g: Group, block: Block, condition: Ids) -> None:
        """Run a block for the lanes that may come to it, where it does more than compute: others access nothing."""
        accesses = self._accesses(block)
        if not accesses:
            self._steps(g, block)
            return
        ids = np.broadcast_to(np.asarray(condition), (g.n,))
        where = np.flatnonzero(ids != NEVER)
        if len(where) == g.n:
            self._possible.under(condition, g, accesses, lambda: self._steps(g, block))
            return
        some = g.subset(where, [r for r, value in enumerate(g.R) if value is not None])
        self._possible.under(ids[where], some, accesses, lambda: self._steps(some, block))
        active = ids != NEVER
        for r in block.defines | block.guarded:
            value, before = spread(some.R[r], where, g.n), g.R[r]
            # (of a register that nobody has written others hold anything: their condition is NEVER, and it is not asked for)
            g.R[r] = value if before is None else choose(self._program.arena, active, value, before, self._widths[r])

    def _accesses(self, block: Block) -> list[int]:
        """The instructions of a block that access memory which others see."""
        if block.start not in self._accessing:
            last = block.start + block.size - (block.end.kind != "fall")
            pcs = [pc for pc in range(block.start, last) if self._program.flat.instructions[pc].opcode not in COMPUTING]
            self._accessing[block.start] = [] if pcs and self._passing(block.start, last) else pcs
        return self._accessing[block.start]

    def _steps(self, g: Group, block: Block) -> None:
        arena = self._program.arena
        try:
            for origin, step in block.steps:
                arena.origin = origin
                step(g)
        except PtxError as error:
            where = arena.origin
            raise located(error, self._program.flat.instructions[where.instruction], where) from None  # type: ignore[attr-defined, arg-type]

    def _part(self, ways: dict[int, list[Way]], end: Terminator, way: Way, g: Group) -> None:
        """Send a way on to the targets of its block's end."""
        if end.kind == "fall" or end.predicate is None:
            ways.setdefault(end.targets[0], []).append(way)
            return
        arena = self._program.arena
        taken = pred_ids(way.values[end.predicate])
        if end.negated:
            taken = arena.logic(Op.NOT, taken)
        for target, way_on in ((end.targets[0], taken), (end.pc + 1, arena.logic(Op.NOT, taken))):
            condition = arena.logic(Op.AND, way.condition, way_on)
            if not bool(np.all(np.asarray(condition) == NEVER)):
                ways.setdefault(target, []).append(Way(condition, list(way.values)))

    def _met(self, ways: list[Way], pc: int) -> Way:
        """One way from those that meet at an instruction; what is live there is selected by their conditions."""
        first = ways[0]
        blocks = self._program.blocks
        for other in ways[1:]:
            for r in blocks[pc].live if pc in blocks else ():
                first.values[r] = self._selected(first.condition, first.values[r], other.values[r], r)
            first = Way(self._program.arena.logic(Op.OR, first.condition, other.condition), first.values)
        return first

    def _selected(self, condition: Ids, a: Value, b: Value, slot: int) -> Value:
        if a is b:
            return a
        width, arena = self._widths[slot], self._program.arena
        if width == 1 and a is not None and b is not None:
            x, y = pred_ids(a), pred_ids(b)
            there = arena.logic(Op.AND, condition, x)
            return Sym(((PRED, arena.logic(Op.OR, there, arena.logic(Op.AND, arena.logic(Op.NOT, condition), y))),))
        if a is None or b is None or is_partial(a) or is_partial(b):
            raise NotStructuredError(
                f"register {self._kinds.name(slot)} is written on one way only of a branch on symbolic data", feature="symbolic branch"
            )
        p = Sym(((PRED, condition),))
        if not isinstance(a, Sym) and not isinstance(b, Sym) and not (isinstance(a, int) and isinstance(b, int) and a == b):
            kind = self._kinds.of(slot)
            if kind is None:
                raise NotStructuredError(
                    f"a branch on symbolic data chooses the bits of {self._kinds.name(slot)}, whose type is not known",
                    feature="symbolic branch",
                )
            a = typed(arena, p, a, b, kind, width)
        return select(arena, p, a, b, width, "a branch on symbolic data")

    def _region(self, end: Terminator) -> _Region | None:
        """Where the arms meet, the first block that all ways come to, and the order of the blocks before it, of which none is come to
        twice; compilers lay an arm out behind the loop that it is in, so that it jumps back to where it meets the other. None where an
        arm does more than compute, or never ends."""
        onward: dict[int, tuple[int, ...]] = {}
        stack = [*self._onward(end)]
        while stack and len(onward) < _MOST_BLOCKS:
            pc = stack.pop()
            if pc not in onward:
                block = self._program.blocks.get(pc)
                onward[pc] = tuple(sorted(self._onward(block.end))) if block is not None and self._computes(block) else ()
                stack.extend(onward[pc])
        if stack:
            return None
        targets = self._onward(end)
        passed = _passed(onward)
        common = frozenset.intersection(*(passed[pc] for pc in targets)) if targets else frozenset()
        join = next((pc for pc in common if passed[pc] == common), None)
        if join is None:
            return None
        order = _in_order(targets, onward, join)
        return None if order is None else _Region(join, {pc: rank for rank, pc in enumerate((*order, join))})

    def _onward(self, end: Terminator) -> set[int]:
        """Where a block's end leads, nothing if it does more than choose."""
        if end.kind == "fall":
            return set(end.targets)
        if end.kind != "branch" or end.poll is not Poll.NO:
            return set()
        return {end.targets[0]} if end.predicate is None else {end.targets[0], end.pc + 1}

    def _computes(self, block: Block) -> bool:
        """Whether all of a block but its end only computes, loads and stores."""
        last = block.start + block.size - (block.end.kind != "fall")
        instructions = self._program.flat.instructions[block.start : last]
        return all(i.opcode in COMPUTING or is_access(i) for i in instructions)

    def _passing(self, start: int, last: int) -> bool:
        """Whether the local memory that a block touches only passes values on within it, as calls pass their arguments: each variable is
        named by loads and stores of this block alone, and what is loaded of it was stored before in the same place and size. Then
        nobody sees that lanes which do not come here have stored, too."""
        instructions = self._program.flat.instructions
        moves = [pc for pc in range(start, last) if instructions[pc].opcode not in COMPUTING]
        stored = set()
        for instruction in (instructions[pc] for pc in moves):
            memory = instruction.operands[instruction.opcode == "ld"]
            if instruction.modifiers[:1] != ("local",) or not isinstance(memory, Mem) or not isinstance(memory.base, Name) or memory.extra:
                return False
            place = (memory.base.name, memory.offset, instruction.modifiers)
            if instruction.opcode == "st":
                stored.add(place)
            elif place not in stored:
                return False
        names, own = {name for name, _, _ in stored}, set(moves)
        others = (instruction for pc, instruction in enumerate(instructions) if pc not in own)
        return not any(names.intersection(names_of(operand)) for instruction in others for operand in instruction.operands)
