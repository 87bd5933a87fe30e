"""How far the value of a load can go: whether a thread that stores nothing could have kept it to itself.

A walk over all instructions, blind to their order: what reads a tainted register taints what it writes. The value is mere
data only if it decides no branch, no guard of anything but arithmetic, no address, no member mask and no source lane; an instruction
that is not known to be arithmetic ends the walk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ptx_engine.isa.calls import EXTERN_CALL
from ptx_engine.isa.group import WARP
from ptx_engine.machine.recording import Uses
from ptx_engine.order.records import ANYWHERE, Reach
from ptx_engine.syntax.ast import Instruction, Reg

STORES = frozenset({"st", "red", "atom", "cp"})
LOADS = frozenset({"ld"})
#: instructions that hand values from lane to lane of a warp
EXCHANGES = frozenset({"shfl", "vote", "match", "redux", "elect", "mma", "ldmatrix", "movmatrix"})
#: of those, from which operand on they say which lanes take part and read from which
LANE_OPERANDS = {"shfl": 2, "vote": -1, "match": -1, "redux": -1, "elect": -1}
ARITHMETIC = frozenset({
    "abs", "add", "addc", "and", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot", "copysign", "cos", "cvt", "cvta", "div",
    "dp2a", "dp4a", "ex2", "fma", "fns", "isspacep", "lg2", "lop3", "mad", "mad24", "madc", "max", "min", "mov", "mul", "mul24",
    "neg", "not", "or", "popc", "prmt", "rcp", "rem", "rsqrt", "sad", "selp", "set", "setp", "shf", "shl", "shr", "sin", "slct",
    "sqrt", "sub", "subc", "szext", "tanh", "testp", "xor", EXTERN_CALL,
})  # fmt: skip
#: state spaces that other threads see, or that nothing is stored to; local memory and parameters of calls are a thread's own
OPEN_SPACES = frozenset({"global", "shared", "const"})


class DataFlow:
    """Answers for the instructions of one function. ``sources`` is filled while the machine runs: for an instruction, which lanes of a
    warp have read (second index) from which (first index)."""

    def __init__(self, instructions: Sequence[Instruction], uses: Mapping[int, Uses], register: Callable[[str], int]) -> None:
        self._instructions = instructions
        self._uses = uses
        self._register = register
        self._known: dict[int, frozenset[int] | None] = {}
        self.sources: dict[int, np.ndarray] = {}

    def exchanged(self, instruction: int, source: np.ndarray, lane: np.ndarray) -> None:
        """Lanes have read from source lanes."""
        self.sources.setdefault(instruction, np.zeros((WARP, WARP), bool))[source, lane] = True

    def reach(self, load: int) -> Reach:
        """How far what instruction ``load`` reads can go without a store."""
        if load not in self._known:
            self._known[load] = _Walk(self._uses[load].writes).run(self._instructions, self._uses, self._register)
        exchanges = self._known[load]
        if exchanges is None:
            return ANYWHERE
        lanes = np.eye(WARP, dtype=bool)
        for pc in exchanges:  # an exchange that has not said otherwise is one of all lanes
            lanes |= self.sources.get(pc, np.ones((WARP, WARP), bool))
        for _ in range(WARP.bit_length() - 1):
            lanes = lanes @ lanes
        return Reach(lanes)


def own_space(instruction: Instruction) -> str:
    """Which part of a thread's own memory an instruction accesses: "local", "param", or "" for none."""
    spaces = {m.split("::")[0] for m in instruction.modifiers}
    return "param" if "param" in spaces else "local" if OPEN_SPACES.isdisjoint(spaces) else ""


class _Walk:
    """One walk: the tainted registers, the tainted parts of a thread's own memory ("local", also where the space is generic, and
    "param"), the exchanges on the way; and whether it has come to more than data."""

    def __init__(self, start: frozenset[int]) -> None:
        self.tainted = set(start)
        self.memory: set[str] = set()
        self.exchanges: set[int] = set()
        self.decides = False

    def run(self, instructions: Sequence[Instruction], uses: Mapping[int, Uses], register: Callable[[str], int]) -> frozenset[int] | None:
        """The exchanges through which the value passes; None if it decides more than data."""
        before = (-1, -1)
        while not self.decides and before != (len(self.tainted), len(self.memory)):
            before = len(self.tainted), len(self.memory)
            for pc, row in uses.items():
                self._pass(instructions[pc], pc, row, register)
        return None if self.decides else frozenset(self.exchanges)

    def _pass(self, instruction: Instruction, pc: int, row: Uses, register: Callable[[str], int]) -> None:
        opcode = instruction.opcode
        guarded = row.predicate in self.tainted
        own_memory = opcode in LOADS and own_space(instruction) in self.memory
        if not (guarded or own_memory) and self.tainted.isdisjoint(row.reads):
            return
        if opcode in ARITHMETIC:
            self.tainted |= row.writes
        elif guarded or not self.tainted.isdisjoint(row.addresses) or self._chooses_lanes(instruction, register):
            self.decides = True
        elif opcode in STORES:
            self.tainted |= row.writes
            self.memory |= {own_space(instruction)} - {""}
        elif opcode in EXCHANGES:
            self.tainted |= row.writes
            self.exchanges.add(pc)
        elif own_memory:
            self.tainted |= row.writes
        else:
            self.decides = True

    def _chooses_lanes(self, instruction: Instruction, register: Callable[[str], int]) -> bool:
        """Whether the value is in the member mask, or says from which lane to read."""
        first = LANE_OPERANDS.get(instruction.opcode)
        chosen = instruction.operands[first:] if first is not None else ()
        return any(register(o.name) in self.tainted for o in chosen if isinstance(o, Reg))
