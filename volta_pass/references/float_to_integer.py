"""Floats as integers, towards zero. What does not fit has no value in MLIR, C or NumPy: it is taken as the target computes it."""

from __future__ import annotations

import numpy as np

from ptx_engine.terms.arena import NAN, Arena
from ptx_engine.terms.ops import Op
from volta_pass.references.freedoms import NARROW_BITS
from volta_pass.references.ttir_values import Sym, emitted, id_operand, type_range


def held_integers(
    arena: Arena, ids: np.ndarray, width: int, signed: bool, source_bits: int, least_bits: int = NARROW_BITS
) -> tuple[np.ndarray, Sym]:
    """Ids of the truncated numbers, and of what the target's conversion gives: clamped to the type, of fewer than ``least_bits`` to
    that many (LLVM has conversions to 16 bits and more, NVCC for float and double to 32 and more).

    NaN is 0, or the top bit where 64 bits are involved (PTX ISA 9.1, cvt: integer notes)."""
    low, high = type_range(max(width, least_bits), signed)
    not_a_number = 0 if source_bits < 64 and width < 64 else (low if signed else high - high // 2)
    whole = emitted(arena.unary(Op.TRUNC, id_operand(ids)), ids.ndim - 1)
    held = emitted(arena.minimum(arena.maximum(id_operand(whole), arena.rational(low)), arena.rational(high)), ids.ndim - 1)
    return whole, Sym(np.where(ids == NAN, np.int32(arena.rational(not_a_number)), held), low, high)
