"""The bits of a float as an integer, and an integer as a float, where no exact idiom says what they are: functions of their argument.

Equal floats have equal bits, so that equal arguments give equal results; nothing else is known of them, and the verdict names them.
Library code takes floats apart like this (``log`` adds to the exponent). An undefined value stays undefined. Only where the arena
allows it (``words_of_floats``): elsewhere the instruction is refused by name, which says more than an unproved function.
"""

from __future__ import annotations

import numpy as np

from ptx_engine.isa.values import Fmt, Sym, Value, int_fmt
from ptx_engine.terms import Arena, Ids
from ptx_engine.terms.arena import UNDEF


def _function(arena: Arena, name: str, ids: Ids) -> Ids:
    if isinstance(ids, int):
        return UNDEF if ids == UNDEF else arena.opaque(name, ids)
    return np.where(ids == UNDEF, np.int32(UNDEF), arena.opaque(name, ids))


def word_of(arena: Arena, value: Value, bits: int) -> Value:
    """A register that holds one float of the width as an unsigned integer; any other as it is."""
    if not arena.words_of_floats or not isinstance(value, Sym) or len(value.parts) != 1:
        return value
    fmt, ids = value.parts[0]
    if fmt.kind != "float" or fmt.bits != bits:
        return value
    return Sym(((int_fmt(bits, 0, (1 << bits) - 1), _function(arena, f"bits of {fmt.name}", ids)),))


def float_of(arena: Arena, value: Value, fmt: Fmt) -> Ids | None:
    """A register that holds one integer of the width read as a float; None for any other."""
    from ptx_engine.isa.reinterpret import integer_of

    if (
        not arena.words_of_floats
        or not isinstance(value, Sym)
        or len(value.parts) != 1
        or value.parts[0][0].kind != "int"
        or value.parts[0][0].bits != fmt.bits
    ):
        return None
    number = integer_of(arena, value, fmt.bits, False)
    return None if number is None else _function(arena, f"integer bits as {fmt.name}", number[0])
