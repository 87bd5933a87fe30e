"""Float literals as operands: their bits.

Source: PTX ISA 9.1, "Constants".
"""

from __future__ import annotations

import numpy as np

from ptx_engine.errors import UnsupportedError
from ptx_engine.syntax.ast import FloatLit, Instruction


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
