"""Formulas to ask the decider about: everything of ``expr``, and conditions, integers, clamps, scans and positions of maxima.

``from ptx_engine.terms.formulas import *`` gives a small language in which ``max`` and ``min`` are those of terms:
``decide(softmax(x), softmax(x - max(x)))``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptx_engine.terms.expr import (
    Expr,
    Operand,
    Value,
    Vector,
    _mapped,
    cos,
    dot,
    erf,
    exp,
    exp2,
    floor,
    log,
    log2,
    logsumexp,
    maximum,
    mean,
    minimum,
    relu,
    rsqrt,
    sigmoid,
    silu,
    sin,
    softmax,
    sqrt,
    symbols,
    tanh,
    total,
    where,
)  # fmt: skip
from ptx_engine.terms.ops import Op

max, min = maximum, minimum

__all__ = [
    "Expr", "Vector", "argmax", "both", "ceil", "clamp", "cos", "dot", "either", "equal", "erf", "exp", "exp2", "field", "floor", "log",
    "log2", "logsumexp", "max", "maximum", "mean", "min", "minimum", "negation", "quotient", "relu", "remainder", "round_even", "rsqrt",
    "running", "saturate", "shift_right", "sigmoid", "silu", "sin", "softmax", "sqrt", "symbols", "tanh", "total", "trunc", "where", "wrap",
]  # fmt: skip

ceil = _mapped(lambda x: x.arena.unary(Op.CEIL, x.id))
trunc = _mapped(lambda x: x.arena.unary(Op.TRUNC, x.id))
round_even = _mapped(lambda x: x.arena.unary(Op.ROUND_EVEN, x.id))


def _node(x: Expr, ids: object) -> Expr:
    return Expr(x.arena, int(np.asarray(ids)))


# --- conditions ---------------------------------------------------------------------------------


def equal(x: Expr, y: Operand) -> Expr:
    """Whether two values are equal, as a condition for ``where``."""
    return _node(x, x.arena.compare(Op.EQ, x.id, x._with(y)))


def both(p: Expr, q: Expr) -> Expr:
    """Whether both conditions hold."""
    return _node(p, p.arena.logic(Op.AND, p.id, p._with(q)))


def either(p: Expr, q: Expr) -> Expr:
    """Whether one condition holds at least."""
    return _node(p, p.arena.logic(Op.OR, p.id, p._with(q)))


def negation(p: Expr) -> Expr:
    """Whether a condition does not hold."""
    return _node(p, p.arena.logic(Op.NOT, p.id))


# --- integers -----------------------------------------------------------------------------------


def wrap(x: Expr, bits: int, *, signed: bool = True) -> Expr:
    """An integer modulo 2^bits, in the range of a signed or unsigned word."""
    if not 0 < bits <= 64:
        raise ValueError(f"a word of {bits} bits")
    return _node(x, x.arena.emit(Op.WRAP, x.id, -bits if signed else bits))


def field(x: Expr, low: int, width: int) -> Expr:
    """Bits [low, low + width) of an integer as an unsigned number."""
    if low < 0 or not 0 < width <= 64:
        raise ValueError(f"a field of {width} bits from bit {low}")
    return _node(x, x.arena.emit(Op.FIELD, x.id, low, width))


def quotient(x: Expr, y: Operand) -> Expr:
    """x / y of integers towards zero, as in C."""
    return _node(x, x.arena.emit(Op.TRUNCDIV, x.id, x._with(y)))


def remainder(x: Expr, y: Operand) -> Expr:
    """What ``quotient`` leaves, of the sign of x."""
    return _node(x, x.arena.emit(Op.TRUNCREM, x.id, x._with(y)))


def shift_right(x: Expr, count: int) -> Expr:
    """floor(x / 2^count) of an integer."""
    return _node(x, x.arena.emit(Op.SHR, x.id, x._with(count)))


# --- clamps, scans, positions -------------------------------------------------------------------


def clamp(x: Value, low: Operand, high: Operand) -> Value:
    """min(max(x, low), high), elementwise over a vector."""
    if isinstance(x, Vector):
        return Vector(minimum(maximum(item, low), high) for item in x)
    return minimum(maximum(x, low), high)


def saturate(x: Expr, bits: int, *, signed: bool = True) -> Expr:
    """A real as the nearest integer of a word, as ``cvt.rni.sat`` has it: rounded to even, clamped to the word's range."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return minimum(maximum(round_even(x), low), high)


def running(x: Vector, combine: Callable[[Expr, Expr], Expr]) -> Vector:
    """Inclusive scan from the left: x0, combine(x0, x1), ..."""
    result = [x[0]]
    for item in x[1:]:
        result.append(combine(result[-1], item))
    return Vector(result)


def argmax(x: Vector) -> Expr:
    """The position of the largest element, the first of several."""
    best, position = x[0], x[0] * 0
    for i, item in enumerate(x[1:], 1):
        greater = item > best
        best, position = where(greater, item, best), where(greater, i, position)
    return position
