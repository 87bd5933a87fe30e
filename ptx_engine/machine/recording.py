"""Decoding that notes which slots of the register file an instruction reads and writes: for predication, liveness and data flow."""

from __future__ import annotations

from dataclasses import dataclass

from ptx_engine.isa.decode import Address, Decode, Environment
from ptx_engine.syntax.ast import Instruction, Mem, Operand, Reg


@dataclass(frozen=True, slots=True)
class Uses:
    """Slots that an instruction reads and writes; ``addresses`` are the reads that memory addresses are made of. The guard
    ``predicate`` is no member of ``reads``."""

    reads: frozenset[int]
    writes: frozenset[int]
    addresses: frozenset[int]
    predicate: int | None


class RecordingDecode(Decode):
    """Decoding that notes which register-file slots the instruction reads and writes (for predication and liveness)."""

    def __init__(self, env: Environment, instruction: Instruction, pc: int, mods: dict[str, str]) -> None:
        super().__init__(env, instruction, pc, mods)
        self.reads: set[int] = set()
        self.writes: set[int] = set()
        self.addresses: set[int] = set()

    def dst_of(self, operand: Operand) -> int:
        slot = super().dst_of(operand)
        self.writes.add(slot)
        return slot

    def src_of(self, operand: Operand, bits: int) -> int:
        slot = super().src_of(operand, bits)
        self.reads.add(slot)
        return slot

    def carry_in(self) -> int:
        slot = super().carry_in()
        self.reads.add(slot)
        return slot

    def carry_out(self) -> int:
        slot = super().carry_out()
        self.writes.add(slot)
        return slot

    def address(self, i: int, space: str = "") -> Address:
        operand = self.operand(i)
        if isinstance(operand, Mem) and isinstance(operand.base, Reg):
            self.addresses.add(self.env.register(operand.base.name))
            self.reads |= self.addresses
        return super().address(i, space)

    def uses(self, predicate: int | None) -> Uses:
        """What has been recorded so far."""
        return Uses(frozenset(self.reads), frozenset(self.writes), frozenset(self.addresses), predicate)
