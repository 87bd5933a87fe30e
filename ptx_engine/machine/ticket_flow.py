"""Where the value goes that an atomic on a counter returns: the comparisons that look at it, the way to them, or elsewhere.

A walk over all instructions, blind to their order, from the result of one atomic through copies, sums with a literal, shuffles and words of
shared memory. What a comparison for equality says is no ticket any more: whoever decides by it decides by "this is the one", nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ptx_engine.machine.control_flow import EXIT, Graph
from ptx_engine.machine.recording import Uses
from ptx_engine.syntax.ast import Instruction, IntLit, Mem, Operand, Reg

#: instructions that read shared memory in other ways than a plain load does
OTHER_READERS = frozenset({"ldmatrix", "atom", "red", "wmma", "cp", "mbarrier", "movmatrix", "tensormap"})
#: of whole registers, whose result is the number itself
COPIES = frozenset({("mov", "u32"), ("mov", "s32"), ("mov", "b32"), ("mov", "u64"), ("mov", "b64"), ("mov", "s64"), ("cvt", "u64", "u32")})
SUM_TYPES = frozenset({"u32", "s32"})

#: (instruction that stores a ticket, load of shared memory after it) -> whether the load may see what was stored
Sees = Callable[[int, int], bool]


@dataclass
class Flow:
    """``compares``: for each comparison, what was added to the ticket before, and which operand (1 or 2) is the other number.
    ``stores``, ``loads``: those of shared memory on the way. ``strays``: whether it goes anywhere else."""

    compares: dict[int, tuple[int, int]] = field(default_factory=dict)
    stores: set[int] = field(default_factory=set)
    loads: set[int] = field(default_factory=set)
    strays: bool = False


class TicketFlow:
    """Answers for the atomics of one function. ``ends`` gives the last instruction of each block of the graph."""

    def __init__(
        self, instructions: Sequence[Instruction], uses: Mapping[int, Uses], graph: Graph, ends: Mapping[int, int],
        register: Callable[[str], int],
    ) -> None:  # fmt: skip
        self._instructions, self._uses, self._register = instructions, uses, register
        self._graph, self._ends = graph, ends

    def of(self, atomic: int, sees: Sees = lambda store, load: True) -> Flow:
        """Where the result of an atomic goes; ``sees`` says which loads of shared memory meet which stores (by default: all)."""
        walk = _Walk(self._instructions, self._register)
        for slot in self._uses[atomic].writes:
            walk.taint(slot, 0)
        before = -1
        while before != walk.size:
            before = walk.size
            for pc, row in self._uses.items():
                if pc != atomic:
                    walk.step(pc, row)
            for store in sorted(walk.flow.stores):
                self._through_shared(store, walk, sees)
        return walk.flow

    def _through_shared(self, store: int, walk: _Walk, sees: Sees) -> None:
        offset = walk.offset(self._instructions[store].operands[1])
        for pc in self._after(store):
            instruction = self._instructions[pc]
            spaces = {m.split("::")[0] for m in instruction.modifiers}
            if instruction.opcode in OTHER_READERS and ("shared" in spaces or spaces.isdisjoint({"global", "async"})):
                walk.flow.strays = True
            if instruction.opcode == "ld" and spaces.isdisjoint({"global", "local", "param", "const"}):
                walk.flow.loads.add(pc)
                if sees(store, pc):
                    for slot in self._uses[pc].writes:
                        walk.taint(slot, offset or 0)

    def _after(self, pc: int) -> list[int]:
        """The instructions that may run after one."""
        block = max((b for b in self._graph.successors if b <= pc), default=EXIT)
        if block == EXIT:
            return []
        later = self._graph.reached(self._graph.successors[block])
        rest = range(pc + 1, self._ends[block] + 1)
        return [*rest, *(at for b in sorted(later) for at in range(b, self._ends[b] + 1))]


class _Walk:
    """One walk: registers that hold the ticket, each with what was added to it."""

    def __init__(self, instructions: Sequence[Instruction], register: Callable[[str], int]) -> None:
        self._instructions, self._register = instructions, register
        self._added: dict[int, int] = {}
        self.flow = Flow()

    @property
    def size(self) -> int:
        return len(self._added) + len(self.flow.stores) + len(self.flow.compares)

    def taint(self, slot: int, offset: int) -> None:
        """A register holds the ticket plus a number: always the same one."""
        if self._added.setdefault(slot, offset) != offset:
            self.flow.strays = True

    def offset(self, operand: Operand) -> int | None:
        """What was added to the ticket in an operand; None for an operand that is none."""
        return self._added.get(self._register(operand.name)) if isinstance(operand, Reg) else None

    def step(self, pc: int, row: Uses) -> None:
        """Pass the ticket on through an instruction that reads it; no predicate ever holds one."""
        if row.reads.isdisjoint(self._added):
            return
        instruction = self._instructions[pc]
        if not (self._copies(instruction, row) or self._compares(instruction, pc) or self._stores(instruction, pc, row)):
            self.flow.strays = True

    def _copies(self, instruction: Instruction, row: Uses) -> bool:
        operands, name = instruction.operands, (instruction.opcode, *instruction.modifiers)
        offset = self.offset(operands[1]) if len(operands) > 1 else None
        if len(row.writes) != 1 or offset is None:
            return False
        (target,) = row.writes
        if name in COPIES and (name[0] == "mov" or offset == 0):
            self.taint(target, offset)
            return True
        if instruction.opcode == "shfl" and all(self.offset(o) is None for o in operands[2:]):
            self.taint(target, offset)
            return True
        literal = operands[2] if len(operands) == 3 else None
        if instruction.opcode in ("add", "sub") and instruction.modifiers[-1] in SUM_TYPES and isinstance(literal, IntLit):
            if len(instruction.modifiers) == 1:
                self.taint(target, offset + (literal.value if instruction.opcode == "add" else -literal.value))
                return True
        return False

    def _compares(self, instruction: Instruction, pc: int) -> bool:
        if instruction.opcode != "setp" or instruction.predicate is not None or len(instruction.operands) != 3:
            return False
        if len(instruction.modifiers) != 2 or instruction.modifiers[0] not in ("eq", "ne"):
            return False
        offsets = [self.offset(o) for o in instruction.operands[1:]]
        if offsets[0] is not None and offsets[1] is None:
            self.flow.compares[pc] = (offsets[0], 2)
        elif offsets[1] is not None and offsets[0] is None:
            self.flow.compares[pc] = (offsets[1], 1)
        else:
            self.flow.compares.setdefault(pc, (0, 2))
            return False
        return True

    def _stores(self, instruction: Instruction, pc: int, row: Uses) -> bool:
        operands = instruction.operands
        shared = not {"shared", "shared::cta"}.isdisjoint(instruction.modifiers)
        if instruction.opcode != "st" or not shared or not isinstance(operands[0], Mem) or not isinstance(operands[1], Reg):
            return False
        if not row.addresses.isdisjoint(self._added):
            return False
        self.flow.stores.add(pc)
        return True
