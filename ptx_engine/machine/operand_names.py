"""Names inside operands: which symbols and registers an operand mentions, and operands with their names replaced."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from ptx_engine.syntax.ast import Args, Mem, Name, NameOffset, Not, Operand, Pair, Reg, Subscript, Vec

#: a variable of a function in C++: its name, with the length before it
_OF_FUNCTION = re.compile(r"_ZZ.+E([1-9][0-9]*)([A-Za-z_]\w*?)(?:_[0-9]*)?")
#: what a register or a symbol becomes
Renaming = Callable[[str], str]


def source_name(symbol: str) -> str:
    """The name of a variable in its source: ``_ZZ6kernelE4tile`` is ``tile``. Source: Itanium C++ ABI, "Scope Encoding"."""
    found = _OF_FUNCTION.fullmatch(symbol)
    return found[2] if found is not None and len(found[2]) == int(found[1]) else symbol


def _inner(operand: Operand) -> tuple[Operand, ...]:
    """The operands directly inside another."""
    if isinstance(operand, (Vec, Args)):
        return operand.elements
    if isinstance(operand, Mem):
        return (operand.base, *operand.extra)
    if isinstance(operand, Pair):
        return (operand.first, operand.second)
    if isinstance(operand, Not):
        return (operand.operand,)
    if isinstance(operand, Subscript) and operand.index is not None:
        return (operand.index,)
    return ()


def _walk(operand: Operand) -> Iterator[Operand]:
    todo = [operand]
    while todo:
        at = todo.pop()
        yield at
        todo.extend(reversed(_inner(at)))


def names_of(operand: Operand) -> list[str]:
    """Symbols that an operand mentions."""
    return [part.name for part in _walk(operand) if isinstance(part, (Name, NameOffset, Subscript))]


def registers_of(operand: Operand) -> list[str]:
    """Registers that an operand mentions."""
    return [part.name for part in _walk(operand) if isinstance(part, Reg)]


def renamed(operand: Operand, register: Renaming, symbol: Renaming) -> Operand:
    """The operand with its registers and symbols renamed; nesting is bounded by the parser."""
    if isinstance(operand, Reg):
        return Reg(register(operand.name), operand.span)
    if isinstance(operand, (Name, NameOffset)):
        return replace(operand, name=symbol(operand.name))
    if isinstance(operand, Subscript):
        index = None if operand.index is None else renamed(operand.index, register, symbol)
        return replace(operand, name=symbol(operand.name), index=index)
    if isinstance(operand, (Vec, Args)):
        return replace(operand, elements=tuple(renamed(e, register, symbol) for e in operand.elements))
    if isinstance(operand, Mem):
        extra = tuple(renamed(e, register, symbol) for e in operand.extra)
        return replace(operand, base=renamed(operand.base, register, symbol), extra=extra)
    if isinstance(operand, Pair):
        return replace(operand, first=renamed(operand.first, register, symbol), second=renamed(operand.second, register, symbol))
    if isinstance(operand, Not):
        return replace(operand, operand=renamed(operand.operand, register, symbol))
    return operand
