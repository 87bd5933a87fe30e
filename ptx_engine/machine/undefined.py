"""Registers that no instruction writes: compilers print an undefined operand so, of which nothing need come.

PTX ISA, "Registers": what a register holds before it is first written is undefined. To read it is no fault by itself. LLVM hands
unwritten registers to inline assembly that works on vectors where fewer lanes are needed, and never uses what comes of them. What
is computed from such a register is undefined as well; where it reaches memory, an address, a branch or another thread, the read is
a fault.
"""

from __future__ import annotations

import numpy as np

from ptx_engine.errors import PtxError
from ptx_engine.isa.calls import EXTERN_CALL
from ptx_engine.isa.group import Group
from ptx_engine.isa.values import UNINITIALISED_REGISTER, unwritten_lanes
from ptx_engine.machine.data_flow import ARITHMETIC
from ptx_engine.machine.findings_log import FindingLog
from ptx_engine.machine.program import Program

#: there is no one result whatever an operand is
_STRICT = frozenset({"add", "sub", "xor", "not", "neg"})
#: the same, of floats
_STRICT_FLOATS = frozenset({"abs", "cos", "div", "ex2", "fma", "lg2", "mad", "max", "min", "mul", "rcp", "rsqrt", "sin", "sqrt", "tanh"})
#: registers in, registers out, where the result may be the same whatever an operand is; the others are taken to need theirs
_PURE = ARITHMETIC - {"addc", "bmsk", "cvta", "dp2a", "dp4a", "fns", "isspacep", "madc", "subc", "szext", EXTERN_CALL}


class UndefinedRegisters:
    """Which registers hold nothing because nothing writes them, or because they were computed from such."""

    def __init__(self, program: Program, log: FindingLog) -> None:
        self._program, self._log = program, log
        self._written = frozenset().union(*(use.writes for use in program.uses.values()))
        #: register that was computed from an undefined one -> the instruction that read that
        self._first_read: dict[int, int] = {}

    def _undefined(self, g: Group, instruction: int) -> list[int]:
        """What the instruction reads of such registers; nothing where it reads another one that was not written yet."""
        uses = self._program.uses.get(instruction)
        missing = [r for r in sorted(uses.reads) if g.R[r] is None] if uses is not None else []
        return missing if all(r in self._first_read or r not in self._written for r in missing) else []

    def spread(self, error: PtxError, g: Group, instruction: int) -> bool:
        """Make the result of an instruction undefined; False where an undefined operand is not what stopped it, or decides nothing."""
        uses = self._program.uses.get(instruction)
        if error.feature != UNINITIALISED_REGISTER or uses is None or uses.predicate is not None or len(uses.writes) != 1:
            return False
        missing = self._undefined(g, instruction)
        if not missing or not self._strict(instruction, len(uses.reads)):
            return False
        (result,) = uses.writes
        g.R[result] = None
        self._first_read.setdefault(result, self._first_read.get(missing[0], instruction))
        return True

    def _strict(self, instruction: int, reads: int) -> bool:
        made = self._program.flat.instructions[instruction]
        floats = made.modifiers[-1].startswith(("f", "bf")) if made.modifiers else False
        return made.opcode in _STRICT or (floats and made.opcode in _STRICT_FLOATS) or (made.opcode == "cvt" and reads == 1)

    def note(self, error: PtxError, g: Group, instruction: int) -> None:
        """A register that is read before it is written stops the run, and is a fault of the program all the same where anything is
        to come of it; at the instruction that read it first."""
        if error.feature != UNINITIALISED_REGISTER:
            return
        missing = self._undefined(g, instruction)
        if missing and self._program.flat.instructions[instruction].opcode in _PURE:
            return
        if self._by_fault(g, instruction):
            return
        at = self._first_read.get(missing[0], instruction) if missing else instruction
        self._log.add("uninitialised", error.message, g, self._lanes(g, instruction), at, role="read", space="register")

    def _by_fault(self, g: Group, instruction: int) -> bool:
        """Whether what an instruction lacks is what loads were to bring that have found no memory: these are findings themselves."""
        uses = self._program.uses.get(instruction)
        lacking = {r for r in uses.reads if g.R[r] is None or np.any(unwritten_lanes(g.R[r]))} if uses is not None else set()
        brought = frozenset().union(*(self._program.uses[pc].writes for pc in self._log.faulty() if pc in self._program.uses))
        return bool(lacking) and lacking <= brought

    def _lanes(self, g: Group, instruction: int) -> np.ndarray:
        """The lanes (positions in the group) that execute an instruction and read what they have not written."""
        uses = self._program.uses.get(instruction)
        if uses is None:
            return np.arange(g.n)
        guard = True if uses.predicate is None else g.R[uses.predicate]
        lacking = np.zeros(g.n, bool)
        for value in (g.R[r] for r in uses.reads):
            lacking |= True if value is None else unwritten_lanes(value)
        executed = np.ones(g.n, bool)
        if isinstance(guard, (bool, np.ndarray)):
            executed &= np.asarray(guard) != self._program.flat.instructions[instruction].negated
        found = np.flatnonzero(lacking & executed)
        return found if len(found) else np.arange(g.n)
