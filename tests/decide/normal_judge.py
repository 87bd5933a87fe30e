"""An independent evaluator of arena terms, scalar and in MPFR, for tests of the exact decider: plain textbook semantics."""

from __future__ import annotations

from collections.abc import Callable

import gmpy2
from gmpy2 import mpfr

from ptx_engine.terms import Arena, Op

PRECISION = 200


class OutOfDomain(Exception):
    """The term has no value at the point: division by zero, root or logarithm of a negative number, infinity."""


class Refused(OutOfDomain):
    """The value is too close to a jump, or too large, to be told by rounded arithmetic."""


def _need(condition: bool, why: type[OutOfDomain] = OutOfDomain) -> None:
    if not condition:
        raise why


def _wrap(x: mpfr, width: int) -> mpfr:
    bits = abs(width)
    value = int(x) % (1 << bits)
    return mpfr(value - (1 << bits) if width < 0 and value >= 1 << (bits - 1) else value)


def _divide(x: mpfr, y: mpfr) -> mpfr:
    _need(y == 0 or abs(y) > 1e-40, Refused)
    _need(y != 0)
    return x / y


def _log2(x: mpfr) -> mpfr:
    _need(abs(x) > 1e-40 or x == 0, Refused)
    _need(x > 0)
    return gmpy2.log2(x)


def _sqrt(x: mpfr) -> mpfr:
    if abs(x) < 1e-50:
        return mpfr(0)
    _need(x > 0)
    return gmpy2.sqrt(x)


def _pow(x: mpfr, y: mpfr) -> mpfr:
    _need(x > 0 or (x == 0 and y >= 0) or (x < 0 and y == int(y)))
    return x**y if y != 0 else mpfr(1)  # 0^0 is 1, as IEEE's pow has it


def _exp2(x: mpfr) -> mpfr:
    _need(abs(x) < 4000, Refused)
    return gmpy2.exp2(x)


def _compared(test: Callable[[mpfr, mpfr], bool]) -> Callable[[mpfr, mpfr], mpfr]:
    """A comparison that refuses near ties: rounding could turn an exact tie either way."""

    def run(x: mpfr, y: mpfr) -> mpfr:
        _need(x == y or abs(x - y) > 1e-30 * max(1, abs(x)), Refused)
        return mpfr(test(x, y))

    return run


def _rounded(function: Callable[[mpfr], mpfr]) -> Callable[[mpfr], mpfr]:
    """A rounding function that refuses arguments next to one of its jumps."""

    def run(x: mpfr) -> mpfr:
        nearest = gmpy2.rint(2 * x)
        _need(nearest == 2 * x or abs(2 * x - nearest) > 1e-30 * max(1, abs(x)), Refused)
        return function(x)

    return run


_UNARY = {
    Op.NEG: lambda x: -x, Op.ABS: abs, Op.EXP2: _exp2, Op.LOG2: _log2, Op.SQRT: _sqrt, Op.TANH: gmpy2.tanh, Op.SIN: gmpy2.sin,
    Op.COS: gmpy2.cos, Op.ERF: gmpy2.erf, Op.FLOOR: _rounded(gmpy2.floor), Op.CEIL: _rounded(gmpy2.ceil),
    Op.TRUNC: _rounded(gmpy2.trunc),
    Op.ROUND_EVEN: _rounded(gmpy2.rint), Op.NOT: lambda x: mpfr(1) - x,
}  # fmt: skip
_BINARY = {
    Op.ADD: lambda x, y: x + y, Op.SUB: lambda x, y: x - y, Op.MUL: lambda x, y: x * y, Op.DIV: _divide, Op.POW: _pow,
    Op.MAX: max, Op.MIN: min, Op.LT: _compared(lambda x, y: x < y), Op.LE: _compared(lambda x, y: x <= y),
    Op.EQ: _compared(lambda x, y: x == y),
    Op.NE: _compared(lambda x, y: x != y), Op.AND: lambda x, y: mpfr(bool(x) and bool(y)), Op.OR: lambda x, y: mpfr(bool(x) or bool(y)),
    Op.FLOORDIV: lambda x, y: _rounded(gmpy2.floor)(_divide(x, y)), Op.TRUNCDIV: lambda x, y: _rounded(gmpy2.trunc)(_divide(x, y)),
    Op.TRUNCREM: lambda x, y: x - y * gmpy2.trunc(_divide(x, y)), Op.SHL: lambda x, y: x * mpfr(2) ** y,
    Op.SHR: lambda x, y: gmpy2.floor(x / mpfr(2) ** y),
    Op.BITAND: lambda x, y: mpfr(int(x) & int(y)), Op.BITOR: lambda x, y: mpfr(int(x) | int(y)),
    Op.BITXOR: lambda x, y: mpfr(int(x) ^ int(y)),
}  # fmt: skip


def evaluate(arena: Arena, root: int, inputs: dict[int, mpfr]) -> mpfr:
    """The value of a term at a point; raises ``OutOfDomain``. A selection evaluates only the branch it takes."""
    with gmpy2.context(gmpy2.get_context(), precision=PRECISION):
        memo: dict[int, mpfr] = {}
        stack = [root]
        while stack:
            ident = stack[-1]
            if ident not in memo:
                missing = [i for i in _wanted(arena, ident, memo) if i not in memo]
                if missing:
                    stack.extend(missing)
                    continue
                memo[ident] = _value(arena, ident, inputs, memo)
            stack.pop()
        return memo[root]


def _wanted(arena: Arena, ident: int, memo: dict[int, mpfr]) -> list[int]:
    if ident < 0:
        return []
    op, a, b, c = arena.node(ident)
    if op is Op.CONST:
        return []
    if op is Op.ITE:
        return [a] if a not in memo else [a, b if memo[a] else c]
    if op is Op.DOT:
        rows, cols, acc = arena.dot_operands(ident)
        return [*map(int, rows), *map(int, cols), acc]
    if op in (Op.NSUM, Op.NMAX, Op.NMIN):
        return [int(i) for i in arena.nary_operands(ident)]
    if op in (Op.WRAP, Op.FIELD):
        return [a]
    if op is Op.FMA:
        return [a, b, c]
    return [a, b] if op in _BINARY else [a]


def _value(arena: Arena, ident: int, inputs: dict[int, mpfr], memo: dict[int, mpfr]) -> mpfr:
    if ident < 0:
        return inputs[ident]
    op, a, b, c = arena.node(ident)
    if op is Op.CONST:
        value = arena.consts[a].value(PRECISION)
        _need(gmpy2.is_finite(value))
        return value
    if op is Op.ITE:
        return memo[b if memo[a] else c]
    if op is Op.DOT:
        rows, cols, acc = arena.dot_operands(ident)
        return sum((memo[int(x)] * memo[int(y)] for x, y in zip(rows, cols)), memo[acc])
    if op in (Op.NSUM, Op.NMAX, Op.NMIN):
        values = [memo[int(i)] for i in arena.nary_operands(ident)]
        return {Op.NSUM: sum, Op.NMAX: max, Op.NMIN: min}[op](values)
    if op is Op.WRAP:
        return _wrap(memo[a], b)
    if op is Op.FIELD:
        return mpfr(int(memo[a]) >> b & ((1 << c) - 1))
    if op is Op.FMA:
        return memo[a] * memo[b] + memo[c]
    return _BINARY[op](memo[a], memo[b]) if op in _BINARY else _UNARY[op](memo[a])
