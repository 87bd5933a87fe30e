"""What an uninitialised module variable holds: its declared type, or, for untyped bytes, the type its loads and stores say.

Compilers declare arrays as ``.b8``. The registers that hold an address within the variable are followed through moves and
additions; the typed accesses through them, or for untyped ones the uses of what they load, give the element type.
"""

from __future__ import annotations

from ptx_engine.errors import UnsupportedError
from ptx_engine.isa.decode import TYPE_BITS
from ptx_engine.machine.operand_names import names_of, registers_of
from ptx_engine.syntax.ast import FlatFunction, Instruction, Mem, Variable

FLOAT_TYPES = {"f16": "f16", "f16x2": "f16", "bf16": "bf16", "bf16x2": "bf16", "f32": "f32", "f64": "f64"}
_ADDRESS_OPCODES = frozenset(("mov", "add", "sub", "mad", "cvta", "selp", "or"))
_ACCESSES = frozenset(("ld", "st", "ldu", "atom", "red"))


def element_dtype(variable: Variable, flat: FlatFunction) -> str:
    """The launch dtype of a variable's elements. Raises UnsupportedError where accesses disagree."""
    if variable.type[0] in "su" or variable.type in ("f16", "bf16", "f32", "f64"):
        return variable.type
    accesses = _accesses(variable.name, flat)
    found = sorted({_accessed(access, flat) for access in accesses})
    if len(found) == 1:
        return found[0]
    if not found:
        return f"u{variable.type[1:]}" if variable.type in ("b8", "b16", "b32", "b64") else "u8"
    raise UnsupportedError(
        f"variable {variable.name} has no contents and is accessed as {' and '.join(found)}", feature="variable read as two types",
        span=variable.span, hint="give its contents in [globals]",
    )  # fmt: skip


def _accesses(name: str, flat: FlatFunction) -> list[Instruction]:
    """Loads and stores whose address comes from the variable."""
    holders: set[str] = set()
    while True:
        before = len(holders)
        for instruction in flat.instructions:
            if instruction.opcode in _ADDRESS_OPCODES and any(_mentions(op, name, holders) for op in instruction.operands[1:]):
                holders.update(registers_of(instruction.operands[0]))
        if len(holders) == before:
            break
    return [
        i for i in flat.instructions
        if i.opcode in _ACCESSES and any(isinstance(op, Mem) and _mentions(op, name, holders) for op in i.operands)
    ]  # fmt: skip


def _mentions(operand: object, name: str, holders: set[str]) -> bool:
    return name in names_of(operand) or not holders.isdisjoint(registers_of(operand))  # type: ignore[arg-type]


def _accessed(access: Instruction, flat: FlatFunction) -> str:
    """The dtype of one access; an untyped one is what the uses (or the origin) of its registers say."""
    kind = next(m for m in reversed(access.modifiers) if m in TYPE_BITS)  # .v2.f32.add has the operation last
    if kind in FLOAT_TYPES:
        return FLOAT_TYPES[kind]
    if kind[0] != "b":
        return f"{kind[0]}{kind[1:].partition('x')[0]}"
    width = int(kind[1:])
    data = {r for op in access.operands if not isinstance(op, Mem) for r in registers_of(op)}
    floats = {
        FLOAT_TYPES[m]
        for i in flat.instructions
        if i.opcode not in _ACCESSES and any(not data.isdisjoint(registers_of(op)) for op in i.operands)
        for m in i.modifiers[-1:]
        if m in FLOAT_TYPES
    }
    if len(floats) == 1:
        return floats.pop()
    return f"u{min(width, 64)}"
