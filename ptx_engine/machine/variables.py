"""Module variables: ``.global`` and ``.const`` variables of a launch get addresses of their own, after the arguments' buffers.

Contents come from the initialiser (addresses of other variables included). Without one they are symbolic, an input named
after the variable that both sides of a comparison share: the host may have written it. Only variables that the kernel
names, itself or through an initialiser, are laid out.
Source: PTX ISA 9.1, "State Spaces, Types, and Variables".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

import numpy as np

from ptx_engine.errors import UnsupportedError
from ptx_engine.isa.decode import TYPE_BITS
from ptx_engine.isa.move import CONST_WINDOW
from ptx_engine.isa.values import UINT
from ptx_engine.launch import GUARD_BYTES, BoundLaunch, Buffer, Role, TensorArg
from ptx_engine.machine.operand_names import names_of
from ptx_engine.machine.variable_types import element_dtype
from ptx_engine.syntax.ast import AddressOf, FlatFunction, FloatLit, Initial, IntLit, Module, Name, NameOffset, Reg, Variable
from ptx_engine.terms import Arena, Input

#: first addresses of module variables of .global (above every argument) and .const (in the window that isspacep knows)
BASES = {"global": 1 << 48, "const": CONST_WINDOW}
SPACES = ("global", "const")


@dataclass
class VariableBuffer(Buffer):
    """A module variable in place. ``initial`` holds its bytes, None where they are symbolic; ``elsewhere``: the variable where it is
    declared ``.extern`` and nothing in the module defines it."""

    initial: "np.ndarray | None" = None
    elsewhere: Variable | None = None


def with_variables(module: Module, flat: FlatFunction, bound: BoundLaunch) -> tuple[BoundLaunch, dict[str, int]]:
    """The launch with a buffer for every module variable that the function uses, and their addresses by name.

    Raises UnsupportedError for a variable whose size or element type is not known.
    """
    used = _used(module, flat)
    if not used:
        return bound, {}
    addresses: dict[str, int] = {}
    free = dict(BASES)
    for variable in used:
        addresses[variable.name] = free[variable.space]
        free[variable.space] += (variable.size + GUARD_BYTES + 0xFFFF) & ~0xFFFF
    buffers = list(bound.buffers)
    for variable in used:
        buffers.append(_buffer(variable, addresses, bound, len(buffers), flat))
    extended = replace(bound, buffers=buffers, _starts=[b.address for b in buffers])
    return extended, addresses


#: operands that mention no symbol: most of them
_NAMELESS = (Reg, IntLit, FloatLit)


def _used(module: Module, flat: FlatFunction) -> list[Variable]:
    """Variables that instructions name, and those that their initialisers point to, by address: in order of declaration."""
    declared = [v for v in (*module.variables, *flat.variables) if v.space in SPACES]
    known = {v.name: v for v in sorted(declared, key=lambda v: v.linkage != "extern")}  # a definition counts, wherever it stands
    if not known:
        return []
    named = (operand for i in flat.instructions for operand in i.operands if not isinstance(operand, _NAMELESS))
    todo = sorted(known.keys() & {name for operand in named for name in names_of(operand)})
    found: set[str] = set()
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        todo.extend(target for value in known[name].initializer if (target := _target(value)) in known)
    return sorted((v for v in known.values() if v.name in found), key=lambda v: SPACES.index(v.space))


def _target(value: Initial) -> str:
    return value.name if isinstance(value, (Name, NameOffset, AddressOf)) else ""


def _buffer(variable: Variable, addresses: dict[str, int], bound: BoundLaunch, number: int, flat: FlatFunction) -> VariableBuffer:
    if variable.size == 0:
        raise UnsupportedError(
            f"variable {variable.name} has no known size", feature=f".{variable.space} variable of unknown size", span=variable.span,
            hint="link the module that defines it",
        )  # fmt: skip
    given = bool(variable.initializer)
    dtype = _declared_dtype(variable) if given else element_dtype(variable, flat)
    name = variable.name if variable.name not in bound.by_name else f"{variable.name} (variable)"
    role = Role.IN if variable.space == "const" else Role.INOUT
    count = variable.size * 8 // TYPE_BITS[dtype]
    arg = TensorArg(name, dtype, (count,), role, contents=np.zeros(0, np.uint8) if given else "symbolic")
    if given:
        bound.arena.assumptions.setdefault(f"variable {variable.name} holds its initialiser at the launch")
        return VariableBuffer(arg, number, addresses[variable.name], None, initial_bytes(variable, addresses))
    elsewhere = variable if variable.linkage == "extern" else None
    return VariableBuffer(arg, number, addresses[variable.name], _input(bound.arena, variable, dtype, count), None, elsewhere)


def _declared_dtype(variable: Variable) -> str:
    """The launch dtype of a declared type: untyped bits count as unsigned integers."""
    kind = variable.type
    return kind if kind in ("f16", "bf16", "f32", "f64") or kind[0] in "su" else f"u{min(TYPE_BITS.get(kind, 8), 64)}"


def _input(arena: Arena, variable: Variable, dtype: str, count: int) -> Input:
    """The input of a symbolic variable, shared by both sides. Raises UnsupportedError where they disagree about it."""
    name = f"variable {variable.name}"
    for entry in arena.inputs:
        if entry.name == name:
            if (entry.count, entry.fmt) != (count, dtype):
                raise UnsupportedError(
                    f"{name} is {entry.count} x {entry.fmt} on one side and {count} x {dtype} on the other",
                    feature="variable read as two types", span=variable.span, hint="give its contents in [globals]",
                )  # fmt: skip
            return entry
    return arena.add_input(name, count, dtype)


def initial_bytes(variable: Variable, addresses: dict[str, int]) -> np.ndarray:
    """The bytes of an initialised variable; what the initialiser leaves out is zero. Raises UnsupportedError."""
    size = TYPE_BITS.get(variable.type, 0) // 8
    if size == 0:
        raise UnsupportedError(f"an initialiser of type .{variable.type}", feature=f"initialiser of .{variable.type}", span=variable.span)
    data = bytearray(variable.size)
    for i, value in enumerate(variable.initializer):
        data[i * size : (i + 1) * size] = (_bits(value, variable, addresses) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    return np.frombuffer(bytes(data), np.uint8)


def _bits(value: Initial, variable: Variable, addresses: dict[str, int]) -> int:
    if isinstance(value, int):
        if variable.type in ("f32", "f64"):
            return int.from_bytes(struct.pack("<f" if variable.type == "f32" else "<d", value), "little")
        return value
    if isinstance(value, FloatLit):
        return value.bits
    if value.name not in addresses:
        raise UnsupportedError(f"the initialiser of {variable.name} takes the address of {value.name}", feature="address in an initialiser",
                               span=variable.span)  # fmt: skip
    address = addresses[value.name] + (0 if isinstance(value, Name) else value.offset)
    mask = value.mask if isinstance(value, AddressOf) else None
    return address if mask is None else (address & mask) >> ((mask & -mask).bit_length() - 1)


def zero_bytes(buffer: VariableBuffer) -> np.ndarray:
    """A writable copy of the initial bytes, zeros where there are none (what the ISA gives a variable by default).

    Raises UnsupportedError for a variable of another module: it holds what that one says."""
    if buffer.elsewhere is not None:
        raise UnsupportedError(
            f"variable {buffer.elsewhere.name} is .extern, and nothing in the module defines it", feature="variable of another module",
            span=buffer.elsewhere.span, hint="link the module that defines it",
        )  # fmt: skip
    return np.zeros(buffer.bytes, UINT[8]) if buffer.initial is None else buffer.initial.copy()
