"""How far the value of a load can go: whether a thread that stores nothing could have kept it to itself.

A walk over all instructions, blind to their order: what reads a tainted register taints what it writes. The answer is THREAD or
WARP only if the value decides no branch, no guard of anything but arithmetic, no address and no member mask; an instruction that is
not known to be arithmetic ends the walk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ptx_engine.isa.calls import EXTERN_CALL
from ptx_engine.machine.recording import Uses
from ptx_engine.order.records import Reach
from ptx_engine.syntax.ast import Instruction, Reg

STORES = frozenset({"st", "red", "atom", "cp"})
LOADS = frozenset({"ld"})
#: instructions that hand values from lane to lane of a warp
EXCHANGES = frozenset({"shfl", "vote", "match", "redux", "elect", "mma", "ldmatrix", "movmatrix"})
#: of those, the ones whose last operand is the member mask
MASKED = frozenset({"shfl", "vote", "match", "redux", "elect"})
ARITHMETIC = frozenset({
    "abs", "add", "addc", "and", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot", "copysign", "cos", "cvt", "cvta", "div",
    "dp2a", "dp4a", "ex2", "fma", "fns", "isspacep", "lg2", "lop3", "mad", "mad24", "madc", "max", "min", "mov", "mul", "mul24",
    "neg", "not", "or", "popc", "prmt", "rcp", "rem", "rsqrt", "sad", "selp", "set", "setp", "shf", "shl", "shr", "sin", "slct",
    "sqrt", "sub", "subc", "szext", "tanh", "testp", "xor", EXTERN_CALL,
})  # fmt: skip
#: state spaces that other threads see, or that nothing is stored to; local memory and parameters of calls are a thread's own
OPEN_SPACES = frozenset({"global", "shared", "const"})


class DataFlow:
    """Answers for the instructions of one function."""

    def __init__(self, instructions: Sequence[Instruction], uses: Mapping[int, Uses], register: Callable[[str], int]) -> None:
        self._instructions = instructions
        self._uses = uses
        self._register = register
        self._known: dict[int, Reach] = {}

    def reach(self, load: int) -> Reach:
        """How far what instruction ``load`` reads can go without a store."""
        if load not in self._known:
            self._known[load] = _Walk(self._uses[load].writes).run(self._instructions, self._uses, self._register)
        return self._known[load]


def own_space(instruction: Instruction) -> str:
    """Which part of a thread's own memory an instruction accesses: "local", "param", or "" for none."""
    spaces = {m.split("::")[0] for m in instruction.modifiers}
    return "param" if "param" in spaces else "local" if OPEN_SPACES.isdisjoint(spaces) else ""


class _Walk:
    """One walk: the tainted registers, and the tainted parts of a thread's own memory ("local", also where the space is generic, and
    "param")."""

    def __init__(self, start: frozenset[int]) -> None:
        self.tainted = set(start)
        self.memory: set[str] = set()
        self.reach = Reach.THREAD

    def run(self, instructions: Sequence[Instruction], uses: Mapping[int, Uses], register: Callable[[str], int]) -> Reach:
        while self.reach is not Reach.ANYWHERE:
            before = len(self.tainted), len(self.memory)
            for pc, row in uses.items():
                self._pass(instructions[pc], row, register)
            if before == (len(self.tainted), len(self.memory)):
                break
        return self.reach

    def _pass(self, instruction: Instruction, row: Uses, register: Callable[[str], int]) -> None:
        opcode = instruction.opcode
        guarded = row.predicate in self.tainted
        own_memory = opcode in LOADS and own_space(instruction) in self.memory
        if not (guarded or own_memory) and self.tainted.isdisjoint(row.reads):
            return
        if opcode in ARITHMETIC:
            self.tainted |= row.writes
        elif guarded or not self.tainted.isdisjoint(row.addresses) or self._by_mask(instruction, register):
            self.reach = Reach.ANYWHERE
        elif opcode in STORES:
            self.tainted |= row.writes
            self.memory |= {own_space(instruction)} - {""}
        elif opcode in EXCHANGES:
            self.tainted |= row.writes
            self.reach = self.reach if self.reach is Reach.ANYWHERE else Reach.WARP
        elif own_memory:
            self.tainted |= row.writes
        else:
            self.reach = Reach.ANYWHERE

    def _by_mask(self, instruction: Instruction, register: Callable[[str], int]) -> bool:
        mask = instruction.operands[-1] if instruction.opcode in MASKED else None
        return isinstance(mask, Reg) and register(mask.name) in self.tainted
