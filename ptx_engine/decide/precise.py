"""Single terms evaluated exactly where their operators are rational, and in MPFR at a chosen precision elsewhere.

Inputs are exact rationals. A sum of products of them stays an exact rational; the first exponential or root makes the
value a floating-point number of ``bits`` bits, with an exponent range that nothing here overflows. NaN means undefined.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpfr, mpq

from ptx_engine.decide.levels import Mode, Plan, plan
from ptx_engine.terms.arena import Arena
from ptx_engine.terms.constants import Const
from ptx_engine.terms.ops import TABLE, Op

#: an exact rational or an MPFR number
Value = Any
_MPQ = type(mpq(1))
_ZERO = mpq(0)
#: operators by code, and the slots that they use: which, and whether it holds a term (else a plain number)
_OPS = {int(op): op for op in Op}
_SLOTS = {
    op: [(slot, name not in row.plain) for slot, name in enumerate("abc") if slot < row.arity or name in row.plain]
    for op, row in TABLE.items()
}


class Cone:
    """The terms below a few outputs, ready to be evaluated at many points."""

    def __init__(self, arena: Arena, outputs: "list[int] | np.ndarray") -> None:
        self.arena = arena
        self.plan: Plan = plan(arena, np.asarray(outputs, np.int32), Mode.CONE)
        self.nodes: list[int] = self.plan.node_ids().tolist()
        self.inputs: list[int] = self.plan.input_ids().tolist()
        self.constants: list[int] = self.plan.constant_ids().tolist()
        self._read: list[tuple[int, int, int, int, int]] | None = None

    def below(self, root: int) -> tuple[list[int], list[int]]:
        """The inputs and the interned constants that one of the outputs depends on, in the order of ``inputs`` and ``constants``."""
        order = self.plan
        reached = np.zeros(order.count, bool)
        reached[order.at(np.array([root]))] = True
        for step in reversed(order.steps):
            wanted = reached[step.ids]
            if not wanted.any():
                continue
            if step.rows is not None and step.cols is not None and step.c is not None:  # products of both sides may be one tile
                reached[step.rows[wanted.any(axis=2)]] = True
                reached[step.cols[wanted.any(axis=1)]] = True
                reached[step.c[wanted]] = True
                continue
            for operands in step.operand_ids():
                reached[operands[wanted]] = True
        inputs, constants = np.array(self.inputs, np.int32), np.array(self.constants, np.int32)
        return inputs[reached[order.at(inputs)]].tolist(), constants[reached[order.at(constants)]].tolist()

    def evaluate(self, inputs: Mapping[int, "mpq | int"], bits: int, constants: "Mapping[int, Const] | None" = None) -> dict[int, Value]:
        """Values of all nodes. ``inputs`` maps input ids to rationals (0 where missing); ``constants`` replace the arena's."""
        with gmpy2.context(precision=bits, emax=gmpy2.get_emax_max(), emin=gmpy2.get_emin_min()):
            values: dict[int, Value] = dict.fromkeys(self.inputs, _ZERO)
            given = {ident: mpq(value) for ident, value in inputs.items() if value and ident in values}
            values.update(given)
            whole = Scaled(self.inputs, given)
            for ident in self.constants:
                own = self.arena.consts[ident]
                values[ident] = _constant(own if constants is None else constants.get(ident, own), bits)
            for ident, op, a, b, c in self.rows():
                values[ident] = self._node(ident, op, (a, b, c), values, whole, bits)
        return values

    def rows(self) -> "list[tuple[int, int, int, int, int]]":
        """The nodes in order, with operators and operands."""
        if self._read is None:
            columns = (column[self.nodes].tolist() for column in self.arena.columns())
            self._read = list(zip(self.nodes, *columns))
        return self._read

    def _node(self, ident: int, code: int, slots: tuple[int, int, int], values: dict[int, Value], whole: Scaled, bits: int) -> Value:
        op, a = _OPS[code], slots[0]
        if op is Op.CONST:
            return _constant(self.arena.consts[a], bits)
        if op is Op.DOT:
            rows, cols, total = self.arena.dot_operands(ident)
            if rows.max() < 0 and cols.max() < 0:
                return values[total] + whole.product(rows.tolist(), cols.tolist())
            result = values[total]
            for x, y in zip(rows.tolist(), cols.tolist()):
                result = result + values[x] * values[y]
            return result
        if TABLE[op].record:
            return _REDUCTIONS[op]([values[x] for x in self.arena.nary_operands(ident).tolist()])
        return EVALUATORS[op](*[values[slots[slot]] if is_id else slots[slot] for slot, is_id in _SLOTS[op]])


class Scaled:
    """Inputs over their common denominator: long products of inputs are sums of integers."""

    def __init__(self, inputs: Sequence[int], given: Mapping[int, mpq]) -> None:
        """``given`` are the values of those inputs that are not zero."""
        self.scale = math.lcm(1, *{int(value.denominator) for value in given.values()})
        self.integers = dict.fromkeys(inputs, 0)
        self.integers.update((ident, int(value.numerator) * (self.scale // int(value.denominator))) for ident, value in given.items())

    def product(self, rows: list[int], cols: list[int]) -> mpq:
        at = self.integers.__getitem__
        return mpq(sum(map(operator.mul, map(at, rows), map(at, cols))), self.scale**2)


def _constant(const: Const, bits: int) -> Value:
    return const.coef if const.is_rational else const.value(bits)


def is_nan(x: Value) -> bool:
    return bool(gmpy2.is_nan(x))


def _undefined(*xs: Value) -> bool:
    return any(gmpy2.is_nan(x) for x in xs)


def _divide(x: Value, y: Value) -> Value:
    return gmpy2.nan() if y == 0 or _undefined(x, y) else x / y


def _extreme(pick: Callable[..., Value]) -> Callable[[list[Value]], Value]:
    return lambda xs: gmpy2.nan() if _undefined(*xs) else pick(xs)


def _undecided(x: Value, y: Value) -> bool:
    """Whether two values, one of them rounded, differ by so little that a rounding may be all of it: which one is larger is not known.
    (Equal ones are taken to be equal.)"""
    if (isinstance(x, _MPQ) and isinstance(y, _MPQ)) or not (gmpy2.is_finite(x) and gmpy2.is_finite(y)) or x == y:
        return False
    return bool(abs(x - y) <= max(abs(x), abs(y)) * mpfr(2) ** -(gmpy2.get_context().precision // 2))


def _at_a_step(x: Value, scale: int = 1) -> bool:
    """Whether a rounded value is so near a multiple of 1/scale, without being one, that its roundings are not known."""
    return gmpy2.is_finite(x) and not isinstance(x, _MPQ) and _undecided(x * scale, mpq(gmpy2.mpz(gmpy2.rint(mpfr(x * scale)))))


def _rounded(to_integer: Callable[[Value], Value], scale: int = 1) -> Callable[[Value], Value]:
    """Rounding of finite values; undefined where it is not known which way."""
    return lambda x: (gmpy2.nan() if _at_a_step(x, scale) else mpq(to_integer(x))) if gmpy2.is_finite(x) else x


def _floor_q(x: Value) -> Value:
    return x.numerator // x.denominator if isinstance(x, _MPQ) else gmpy2.mpz(gmpy2.floor(x))


def _ceil_q(x: Value) -> Value:
    return -_floor_q(-x)


def _trunc_q(x: Value) -> Value:
    return _floor_q(x) if x >= 0 else _ceil_q(x)


def _round_even(x: Value) -> Value:
    low = _floor_q(x)
    rest = x - low
    half = mpq(1, 2)
    return low + (1 if rest > half or (rest == half and low % 2) else 0)


def _pow(x: Value, y: Value) -> Value:
    if _undefined(x, y) or (x == 0 and y < 0):
        return gmpy2.nan()
    if isinstance(y, _MPQ) and y.denominator == 1 and abs(y) <= 1 << 12:
        return x ** int(y)
    return gmpy2.nan() if x < 0 else mpfr(x) ** mpfr(y)


def _erf(x: Value) -> Value:
    return gmpy2.erf(mpfr(x))


def _sqrt(x: Value) -> Value:
    if isinstance(x, _MPQ) and x >= 0 and gmpy2.is_square(x.numerator) and gmpy2.is_square(x.denominator):
        return mpq(gmpy2.isqrt(x.numerator), gmpy2.isqrt(x.denominator))
    return gmpy2.sqrt(mpfr(x)) if not (x < 0) else gmpy2.nan()


def _exp2(x: Value) -> Value:
    if isinstance(x, _MPQ) and x.denominator == 1 and abs(x) <= 1 << 12:
        return mpq(2) ** int(x)
    return gmpy2.exp2(mpfr(x))


def _log2(x: Value) -> Value:
    return gmpy2.nan() if x < 0 else gmpy2.log2(mpfr(x))


def _compared(holds: Callable[[Value, Value], bool]) -> Callable[[Value, Value], Value]:
    return lambda x, y: gmpy2.nan() if _undefined(x, y) or _undecided(x, y) else mpq(1 if holds(x, y) else 0)


def _whole(operation: Callable[[int, int], int]) -> Callable[[Value, Value], Value]:
    """An operation on integers of any size; undefined on anything else."""

    def apply(x: Value, y: Value) -> Value:
        if not all(isinstance(v, _MPQ) and v.denominator == 1 for v in (x, y)):
            return gmpy2.nan()
        return mpq(operation(int(x), int(y)))

    return apply


def _quotient(to_integer: Callable[[Value], Value]) -> Callable[[Value, Value], Value]:
    return lambda x, y: gmpy2.nan() if _undefined(x, y) or y == 0 or _at_a_step(x / y) else mpq(to_integer(x / y))


def _truncrem(x: Value, y: Value) -> Value:
    return gmpy2.nan() if _undefined(x, y) or y == 0 or _at_a_step(x / y) else x - y * _trunc_q(x / y)


def _wrap(x: Value, width: int) -> Value:
    if not gmpy2.is_finite(x) or _at_a_step(x):
        return gmpy2.nan()
    size = mpq(1 << abs(width))
    low = x - size * _floor_q(x / size)
    return low - size if width < 0 and low * 2 >= size else low


def _field(x: Value, lo: int, width: int) -> Value:
    if not gmpy2.is_finite(x) or _at_a_step(x):
        return gmpy2.nan()
    return mpq(int(_floor_q(x / (1 << lo))) & ((1 << width) - 1))


_MAX, _MIN = _extreme(max), _extreme(min)
_REDUCTIONS: dict[Op, Callable[[list[Value]], Value]] = {Op.NSUM: lambda xs: sum(xs, mpq(0)), Op.NMAX: _MAX, Op.NMIN: _MIN}

EVALUATORS: dict[Op, Callable[..., Value]] = {
    Op.ADD: lambda x, y: x + y, Op.SUB: lambda x, y: x - y, Op.MUL: lambda x, y: x * y, Op.DIV: _divide, Op.NEG: lambda x: -x,
    Op.FMA: lambda x, y, z: x * y + z, Op.MAX: lambda x, y: _MAX([x, y]), Op.MIN: lambda x, y: _MIN([x, y]), Op.ABS: abs,
    Op.EXP2: _exp2, Op.LOG2: _log2, Op.SQRT: _sqrt, Op.TANH: lambda x: gmpy2.tanh(mpfr(x)), Op.SIN: lambda x: gmpy2.sin(mpfr(x)),
    Op.COS: lambda x: gmpy2.cos(mpfr(x)), Op.ERF: _erf, Op.FLOOR: _rounded(_floor_q), Op.CEIL: _rounded(_ceil_q),
    Op.ROUND_EVEN: _rounded(_round_even, 2), Op.TRUNC: _rounded(_trunc_q), Op.POW: _pow,
    Op.LT: _compared(lambda x, y: x < y), Op.LE: _compared(lambda x, y: x <= y),
    Op.EQ: _compared(lambda x, y: x == y), Op.NE: _compared(lambda x, y: x != y),
    Op.AND: lambda x, y: _MIN([x, y]), Op.OR: lambda x, y: _MAX([x, y]), Op.NOT: lambda x: 1 - x,
    Op.ITE: lambda c, x, y: c if is_nan(c) else (x if c != 0 else y),
    Op.WRAP: _wrap, Op.FIELD: _field,
    Op.FLOORDIV: _quotient(_floor_q), Op.TRUNCDIV: _quotient(_trunc_q), Op.TRUNCREM: _truncrem,
    Op.BITAND: _whole(lambda x, y: x & y), Op.BITOR: _whole(lambda x, y: x | y), Op.BITXOR: _whole(lambda x, y: x ^ y),
    Op.SHL: _whole(lambda x, y: x << y if y >= 0 else 0), Op.SHR: _whole(lambda x, y: x >> y if y >= 0 else 0),
    Op.OPAQUE: lambda x, y, name: gmpy2.nan(),
}  # fmt: skip

#: operators that the interpreter above takes itself: constants and records
STRUCTURAL = frozenset((Op.CONST, Op.DOT, *_REDUCTIONS))

assert set(EVALUATORS) | STRUCTURAL == set(Op), "every operator has an evaluator"
