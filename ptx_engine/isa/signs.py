"""The sign of one float put onto another: ``or`` of a whole float with another's sign bit, as approximations of odd functions end."""

from __future__ import annotations

from ptx_engine.isa.fields import Plain, Slice, fields_of, merged
from ptx_engine.isa.values import Sym, Value
from ptx_engine.terms import Arena, Ids, Op


def with_sign_bit(arena: Arena, a: Value, b: Value, bits: int) -> Value | None:
    """a | b where one is a whole float and the other holds nothing but the sign bit of a float: -|y| where that is negative,
    else y. None for anything else."""
    if not isinstance(a, Sym) or not isinstance(b, Sym):
        return None
    for number, sign in ((a, b), (b, a)):
        if len(number.parts) != 1 or number.parts[0][0].kind != "float" or number.parts[0][0].bits != bits:
            continue
        source = _sign_alone(arena, sign, bits)
        if source is None:
            continue
        fmt, value = number.parts[0]
        arena.assumptions.setdefault("a zero whose sign is copied counts as positive")
        return Sym(((fmt, arena.select(arena.compare(Op.LT, source, 0), arena.neg(arena.abs(value)), value)),))
    return None


def _sign_alone(arena: Arena, value: Value, bits: int) -> Ids | None:
    """The float whose sign bit is all that a register holds."""
    fields = merged(arena, fields_of(value, bits))
    if len(fields) != 2:
        return None
    zeros, top = fields
    if not isinstance(zeros, Plain) or not isinstance(zeros.bits, int) or zeros.bits or not isinstance(top, Slice):
        return None
    fmt, ids = top.part
    return ids if top.width == 1 and not top.inverted and fmt.kind == "float" and top.lo == fmt.bits - 1 else None
