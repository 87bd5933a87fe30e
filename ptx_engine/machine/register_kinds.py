"""What kind of number a register holds, by the instructions that read it: untyped moves say nothing of the bits they move."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ptx_engine.machine.program import Program

#: instructions that pass bits on without reading them as a number
_MOVES = frozenset({"mov", "selp", "slct", "shfl"})
_FLOATS = frozenset({"f16", "bf16", "f32", "f64"})
_INTEGERS = frozenset({"s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"})


class RegisterKinds:
    """Kinds of a program's registers; each is worked out when it is asked for."""

    def __init__(self, program: "Program") -> None:
        self._program = program
        self._names = list(program.flat.registers)
        self._types = list(program.flat.registers.values())

    def name(self, slot: int) -> str:
        """A register's name in the PTX."""
        return self._names[slot] if slot < len(self._names) else "?"

    def of(self, slot: int) -> str | None:
        """The one type (such as "f32" or "u32") that all readers of a register take it as; None where they do not agree or say nothing."""
        if slot < len(self._types) and self._types[slot] in _FLOATS:
            return self._types[slot]
        kinds: set[str] = set()
        seen, todo = {slot}, [slot]
        while todo:
            r = todo.pop()
            for pc, row in self._program.uses.items():
                if r not in row.reads:
                    continue
                kind = self._read_as(pc, r)
                if kind is not None:
                    kinds.add(kind)
                elif self._program.flat.instructions[pc].opcode in _MOVES:
                    new = set(row.writes) - seen
                    seen |= new
                    todo += new
        return kinds.pop() if len(kinds) == 1 else None

    def _read_as(self, pc: int, slot: int) -> str | None:
        """The kind that one instruction reads a register as; None where it only moves bits."""
        instruction = self._program.flat.instructions[pc]
        if slot in self._program.uses[pc].addresses:
            return "u64"
        types = [m for m in instruction.modifiers if m in _FLOATS or m in _INTEGERS]
        if not types:
            return None
        kind = types[-1]
        if kind in _FLOATS:
            return kind
        return f"u{kind[1:]}"
