"""Literals as operands: which kind an instruction takes, and the bits of a float literal.

Source: PTX ISA 9.1, "Constants": integer literals are for operands of integer and untyped types, float literals for those of float types.
"""

from __future__ import annotations

import numpy as np

from ptx_engine.errors import ParseError, UnsupportedError
from ptx_engine.syntax.ast import FloatLit, Instruction, IntLit, Vec

#: instructions all of whose literals are numbers of their ``type`` slot
_ARITHMETIC = frozenset({
    "add", "sub", "mul", "mad", "mul24", "mad24", "fma", "div", "rem", "abs", "neg", "min", "max", "sad", "rcp", "sqrt", "rsqrt",
    "sin", "cos", "lg2", "ex2", "tanh", "copysign", "testp", "setp", "selp", "mov", "cvt", "st",
})  # fmt: skip


def check_literals(instruction: Instruction, type_: str) -> None:
    """Raise ParseError for an integer literal as a float or a float literal as an integer: nothing says whether bits are meant."""
    if instruction.opcode not in _ARITHMETIC or type_[:1] not in ("u", "s", "f") or "x2" in type_:
        return
    wrong: type = IntLit if type_[0] == "f" else FloatLit
    for operand in instruction.operands[1:]:
        for element in operand.elements if isinstance(operand, Vec) else (operand,):
            if isinstance(element, wrong):
                what = "an integer" if wrong is IntLit else "a floating-point"
                raise ParseError(f"{instruction.mnemonic}: {what} literal for a value of type .{type_}", span=instruction.span)


def float_literal(literal: FloatLit, bits: int, instruction: Instruction) -> int:
    """The bits of a float literal in an operand of a width: a double literal in a 32-bit operand is converted exactly or refused."""
    if literal.width == bits:
        return literal.bits
    if literal.width == 64 and bits == 32:
        value = np.array(literal.bits, np.uint64).view(np.float64)
        single = value.astype(np.float32)
        if single == value or value != value:
            return int(single.view(np.uint32))
    if literal.width == 32 and bits == 64:
        return int(np.array(literal.bits, np.uint32).view(np.float32).astype(np.float64).view(np.uint64))
    raise UnsupportedError(
        f"{instruction.mnemonic}: a {literal.width}-bit float literal for a {bits}-bit operand", feature=instruction.mnemonic
    )
