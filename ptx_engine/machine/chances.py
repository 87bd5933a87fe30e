"""Which results that another schedule may change matter: of atomics, clocks, strong loads and waits that may fail.

A strong load is no matter of chance where all stores to what it reads are ordered with it; a volatile load that looks at another lane's
store in a loop only waits for it.
"""

from __future__ import annotations

from collections.abc import Callable

from ptx_engine.findings import Finding
from ptx_engine.machine.order_port import OrderPort
from ptx_engine.machine.program import Program
from ptx_engine.order.report import LOCKSTEP


class Chances:
    """Answers for one run, when it has ended."""

    def __init__(self, program: Program, order: OrderPort) -> None:
        self._program, self._order = program, order

    def harmless(self, instruction: int, reaches_global: Callable[[int], bool]) -> bool:
        """Whether nothing that is computed depends on a chance result of an instruction. ``reaches_global``: of an atomic, whether it may
        be one of global memory."""
        if self._program.analysis.harmless(instruction, reaches_global):
            return True
        return self._program.flat.instructions[instruction].opcode == "ld" and self._order.determined(instruction)

    def waits(self, finding: Finding) -> bool:
        """Whether a finding is one of a volatile load that only waits, or has no effect."""
        loads = {s.instruction for s in finding.sites if s.role == "atomic load"} if finding.kind == LOCKSTEP else set()
        return any(pc in self._program.polling or self._program.analysis.harmless(pc, lambda _: True) for pc in loads)
