"""A ``call`` instruction taken apart."""

from __future__ import annotations

from dataclasses import dataclass

from ptx_engine.errors import ParseError, UnsupportedError
from ptx_engine.syntax.ast import Args, Instruction, Name, Operand


@dataclass(frozen=True)
class CallSite:
    """Target name, arguments and where results go."""

    instruction: Instruction
    target: str
    args: tuple[Operand, ...]
    returns: tuple[Operand, ...]


def call_site(instruction: Instruction) -> CallSite:
    """``call{.uni} (results), f, (arguments)``. Raises UnsupportedError for an indirect call, ParseError for anything else."""
    rest = list(instruction.operands)
    returns = rest.pop(0) if rest and isinstance(rest[0], Args) else None
    target = rest.pop(0) if rest else None
    args = rest.pop(0) if rest and isinstance(rest[0], Args) else None
    if instruction.modifiers not in ((), ("uni",)):
        raise UnsupportedError(f"instruction {instruction.mnemonic} is not modelled", feature=instruction.mnemonic, span=instruction.span)
    if rest or (target is not None and not isinstance(target, Name)):
        raise UnsupportedError("an indirect call", feature="indirect call", span=instruction.span, hint="call the function by its name")
    if target is None:
        raise ParseError("call needs a function", span=instruction.span)
    return CallSite(instruction, target.name, args.elements if args else (), returns.elements if returns else ())  # type: ignore[union-attr]
