"""Evaluators of every operator in a field of the chain: what the laws of a fingerprint are.

Each takes a level (one field of the chain, with the values so far) and a step, and returns field elements (n, points).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ptx_engine.decide.field import key, mix
from ptx_engine.decide.levels import Step
from ptx_engine.terms.arena import NEG_INF, POS_INF
from ptx_engine.terms.constants import ONE, Const
from ptx_engine.terms.ops import Op

if TYPE_CHECKING:
    from ptx_engine.decide.fingerprint import Level


Evaluator = Callable[["Level", Step], np.ndarray]
EVALUATORS: dict[Op, Evaluator] = {}


def _evaluates(*ops: Op) -> Callable[[Evaluator], Evaluator]:
    def register(function: Evaluator) -> Evaluator:
        for op in ops:
            if op in EVALUATORS:
                raise KeyError(f"two evaluators for {op.name}")
            EVALUATORS[op] = function
        return function

    return register


def _get(level: Level, ids: "np.ndarray | None") -> np.ndarray:
    assert ids is not None
    return level.get(ids)


@_evaluates(Op.CONST)
def _const(level: Level, step: Step) -> np.ndarray:
    assert step.a is not None
    return np.array([level.constant(level.arena.consts[int(i)]) for i in step.a], np.uint64)


@_evaluates(Op.ADD)
def _add(level: Level, step: Step) -> np.ndarray:
    return level.field.add(_get(level, step.a), _get(level, step.b))


@_evaluates(Op.SUB)
def _sub(level: Level, step: Step) -> np.ndarray:
    return level.field.sub(_get(level, step.a), _get(level, step.b))


@_evaluates(Op.MUL)
def _mul(level: Level, step: Step) -> np.ndarray:
    return level.field.mul(_get(level, step.a), _get(level, step.b))


@_evaluates(Op.NEG)
def _neg(level: Level, step: Step) -> np.ndarray:
    return level.field.neg(_get(level, step.a))


@_evaluates(Op.FMA)
def _fma(level: Level, step: Step) -> np.ndarray:
    return level.field.fma(_get(level, step.a), _get(level, step.b), _get(level, step.c))


def _quotient(level: Level, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x / y; where y is 0 the quotient is a random function of x, like any undefined value."""
    result = level.field.mul(x, level.field.inverse(y))
    zero = y == 0
    if zero.any():
        result[zero] = level.hashed("x/0", x)[zero]
    return result


@_evaluates(Op.DIV)
def _div(level: Level, step: Step) -> np.ndarray:
    return _quotient(level, _get(level, step.a), _get(level, step.b))


@_evaluates(Op.EXP2)
def _exp2(level: Level, step: Step) -> np.ndarray:
    assert step.a is not None
    exponent = level.raised(step.a)
    return level.hashed("exp2", level.get(step.a)) if exponent is None else level.field.exp2(exponent)


@_evaluates(Op.TANH)
def _tanh(level: Level, step: Step) -> np.ndarray:
    """(e^2x - 1) / (e^2x + 1)."""
    assert step.a is not None
    exponent, above = level.raised(step.a), level.owner.above(level.level)
    if exponent is None or above is None:
        return level.hashed("tanh", level.get(step.a))
    scale = np.array(above.constant(Const(2 * ONE.coef, log2e=1)), np.uint64)
    power = level.field.exp2(above.field.mul(exponent, scale))
    return _quotient(level, level.field.sub(power, np.full_like(power, 1)), level.field.add(power, np.full_like(power, 1)))


def _pair_set(level: Level, step: Step, ops: tuple[Op, Op], negated: bool) -> np.ndarray:
    """MAX as a hash of the set of arguments; min(S) = -max(-S). max(x, x) = x, whatever x is made of."""
    assert step.a is not None and step.b is not None
    x, y = level.get(step.a), level.get(step.b)
    if negated:
        x, y = level.field.neg(x), level.field.neg(y)
    mixed, other = level.members(step.a, x, ops), level.members(step.b, y, ops)
    same = mixed == other
    total = mixed + np.where(same, np.uint64(0), other)
    level.keep_set(step.ids, total)
    result = np.where(same, x, level.set_value(total))
    return level.field.neg(result) if negated else result


def _row_set(level: Level, step: Step, ops: tuple[Op, Op], negated: bool) -> np.ndarray:
    """NMAX likewise; an id that stands twice in a row counts once, minus infinity (masked elements) not at all."""
    assert step.operands is not None
    operands = np.sort(step.operands, axis=1)
    values = level.get(operands)
    if negated:
        values = level.field.neg(values)
    mixed = level.members(operands, values, ops)
    gone = operands == (POS_INF if negated else NEG_INF)  # a constant's position is its id
    rows, first = np.arange(len(operands)), gone.argmin(axis=1)
    same = ((mixed == mixed[rows, first][:, None]) | gone[..., None]).all(axis=1)
    mixed[gone] = 0
    mixed[:, 1:][operands[:, 1:] == operands[:, :-1]] = 0
    total = np.where(same, mixed[rows, first], mixed.sum(axis=1, dtype=np.uint64))
    level.keep_set(step.ids, total)
    result = np.where(same, values[rows, first], level.set_value(total))
    return level.field.neg(result) if negated else result


@_evaluates(Op.MAX, Op.NMAX)
def _max(level: Level, step: Step) -> np.ndarray:
    make = _pair_set if step.op is Op.MAX else _row_set
    return make(level, step, (Op.MAX, Op.NMAX), False)


@_evaluates(Op.MIN, Op.NMIN)
def _min(level: Level, step: Step) -> np.ndarray:
    make = _pair_set if step.op is Op.MIN else _row_set
    return make(level, step, (Op.MIN, Op.NMIN), True)


@_evaluates(Op.ABS)
def _abs(level: Level, step: Step) -> np.ndarray:
    """max(x, -x), as the set hash has it."""
    x = _get(level, step.a)
    seed = level.owner.seed
    member = np.uint64(key(seed, "member", level.level))
    total = mix(x + member) + mix(level.field.neg(x) + member)
    return np.where(x == 0, x, level.set_value(total))


@_evaluates(Op.SIN, Op.ERF)
def _odd(level: Level, step: Step) -> np.ndarray:
    x = _get(level, step.a)
    return level.field.mul(x, level.hashed(step.op.name, level.field.mul(x, x)))


@_evaluates(Op.COS)
def _even(level: Level, step: Step) -> np.ndarray:
    x = _get(level, step.a)
    return level.hashed(step.op.name, level.field.mul(x, x))


@_evaluates(Op.LOG2, Op.SQRT, Op.FLOOR, Op.CEIL, Op.ROUND_EVEN, Op.TRUNC)
def _unary(level: Level, step: Step) -> np.ndarray:
    return level.hashed(step.op.name, _get(level, step.a))


@_evaluates(Op.POW)
def _pow(level: Level, step: Step) -> np.ndarray:
    """Powers with a small constant whole exponent are products; any other is a hash."""
    assert step.b is not None
    base = _get(level, step.a)
    result = level.hashed("pow", base, level.get(step.b))
    for exponent in np.unique(step.b[step.b < level.plan.constants]):
        const = level.arena.consts[int(exponent)]
        if const.is_rational and const.coef.denominator == 1 and abs(const.coef) <= 64:
            chosen = step.b == exponent
            power = level.field.power(base[chosen], abs(int(const.coef)))
            result[chosen] = power if const.coef >= 0 else _quotient(level, np.ones_like(power), power)
    return result


@_evaluates(Op.DOT)
def _dot(level: Level, step: Step) -> np.ndarray:
    assert step.rows is not None and step.cols is not None and step.c is not None
    # point by point from here on, and in the values' own 32 bits as long as they are only moved
    rows, cols = (np.ascontiguousarray(np.moveaxis(level.values.take(x, axis=0), -1, 0)) for x in (step.rows, step.cols))
    product = np.moveaxis(level.field.matmul(rows, cols.swapaxes(-1, -2)), 0, -1)
    return level.field.add(product, level.get(step.c))


@_evaluates(Op.NSUM)
def _nsum(level: Level, step: Step) -> np.ndarray:
    return level.field.total(_get(level, step.operands), axis=1)


# Predicates are elements of the field, 1 and 0 where they are known; not, and, or are 1 - a, a*b, a + b - a*b, and a
# comparison depends on the difference of its sides only.


def _less(level: Level, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return level.hashed("<", level.field.sub(y, x))


def _not_(level: Level, x: np.ndarray) -> np.ndarray:
    return level.field.sub(np.ones_like(x), x)


@_evaluates(Op.LT)
def _lt(level: Level, step: Step) -> np.ndarray:
    return _less(level, _get(level, step.a), _get(level, step.b))


@_evaluates(Op.LE)
def _le(level: Level, step: Step) -> np.ndarray:
    return _not_(level, _less(level, _get(level, step.b), _get(level, step.a)))


def _equal(level: Level, step: Step) -> np.ndarray:
    difference = level.field.sub(_get(level, step.a), _get(level, step.b))
    hashed = level.hashed("==", level.field.mul(difference, difference))
    return np.where(difference == 0, np.uint64(1), hashed)


@_evaluates(Op.EQ)
def _eq(level: Level, step: Step) -> np.ndarray:
    return _equal(level, step)


@_evaluates(Op.NE)
def _ne(level: Level, step: Step) -> np.ndarray:
    return _not_(level, _equal(level, step))


@_evaluates(Op.AND)
def _and(level: Level, step: Step) -> np.ndarray:
    x, y = _get(level, step.a), _get(level, step.b)
    return np.where(x == y, x, level.field.mul(x, y))


@_evaluates(Op.OR)
def _or(level: Level, step: Step) -> np.ndarray:
    x, y = _get(level, step.a), _get(level, step.b)
    return np.where(x == y, x, level.field.sub(level.field.add(x, y), level.field.mul(x, y)))


@_evaluates(Op.NOT)
def _not(level: Level, step: Step) -> np.ndarray:
    return _not_(level, _get(level, step.a))


@_evaluates(Op.ITE)
def _ite(level: Level, step: Step) -> np.ndarray:
    """b + condition * (a - b): linear in the condition, so that select(not c, a, b) = select(c, b, a)."""
    condition, yes, no = _get(level, step.a), _get(level, step.b), _get(level, step.c)
    return level.field.fma(condition, level.field.sub(yes, no), no)


@_evaluates(Op.WRAP)
def _wrap(level: Level, step: Step) -> np.ndarray:
    assert step.b is not None
    return level.hashed("WRAP", _get(level, step.a), _plain(step.b))


@_evaluates(Op.FIELD)
def _field(level: Level, step: Step) -> np.ndarray:
    """A wrap of the floor of a quotient by a power of two, as shifts and wraps have it."""
    assert step.b is not None and step.c is not None
    x = _get(level, step.a).copy()
    for low in np.unique(step.b[step.b > 0]):
        chosen = step.b == low
        part = x[chosen]
        x[chosen] = level.hashed("FLOORDIV", part, np.full_like(part, np.uint64(pow(2, int(low), level.field.p))))
    return level.hashed("WRAP", x, _plain(step.c))


def _plain(values: np.ndarray) -> np.ndarray:
    """Plain operands as a column beside field elements."""
    return values.astype(np.int64).astype(np.uint64)[:, None]


@_evaluates(Op.FLOORDIV, Op.TRUNCDIV, Op.TRUNCREM)
def _integer_division(level: Level, step: Step) -> np.ndarray:
    return level.hashed(step.op.name, _get(level, step.a), _get(level, step.b))


@_evaluates(Op.BITAND, Op.BITOR, Op.BITXOR)
def _bitwise(level: Level, step: Step) -> np.ndarray:
    """Symmetric; and, or are idempotent, xor with itself is 0."""
    x, y = _get(level, step.a), _get(level, step.b)
    hashed = level.hashed(step.op.name, level.field.add(x, y), level.field.mul(x, y))
    return np.where(x == y, np.zeros_like(x) if step.op is Op.BITXOR else x, hashed)


@_evaluates(Op.SHL, Op.SHR)
def _shift(level: Level, step: Step) -> np.ndarray:
    """By a constant: a product with, or a floor division by, a power of two."""
    assert step.b is not None
    x = _get(level, step.a)
    result = level.hashed(step.op.name, x, level.get(step.b))
    for amount in np.unique(step.b[step.b < level.plan.constants]):
        const = level.arena.consts[int(amount)]
        if const.is_rational and const.coef.denominator == 1 and 0 <= const.coef <= 64:
            chosen = step.b == amount
            power = np.uint64(pow(2, int(const.coef), level.field.p))
            part = x[chosen]
            result[chosen] = (
                level.field.mul(part, np.full_like(part, power))
                if step.op is Op.SHL
                else level.hashed("FLOORDIV", part, np.full_like(part, power))
            )
    return result


@_evaluates(Op.OPAQUE)
def _opaque(level: Level, step: Step) -> np.ndarray:
    assert step.c is not None
    names = [key(0, "opaque", name) for name in level.arena.opaque_names]
    return level.hashed("opaque", _get(level, step.a), _get(level, step.b), np.array(names, np.uint64)[step.c][:, None])
