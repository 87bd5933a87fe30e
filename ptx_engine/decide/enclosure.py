"""Terms evaluated with bounds: every value is an exact rational or lies between two MPFR numbers, rounded down and rounded up.

What two evaluations at rising precision agree about may still be wrong: 1 + 2^-900 is 1 at 128 bits and at 256, and the logarithm of it 0.
Bounds know: it is at most 1 + 2^-127. A value is undefined (NaN) only where it certainly is none, and ``None`` where these bits
do not tell: which branch is taken, whether a denominator is zero, which way is rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import gmpy2
from gmpy2 import mpfr, mpq

from ptx_engine.decide import precise
from ptx_engine.decide.precise import Cone, Scaled, is_nan
from ptx_engine.terms.constants import Const
from ptx_engine.terms.ops import TABLE, Op

_MPQ = type(mpq(1))
_NONE = type(None)
_ZERO, _ONE = mpq(0), mpq(1)
#: a bound: an exact rational or an MPFR number
Bound = Any


@dataclass(frozen=True, slots=True, eq=False)
class Between:
    """A value that is no less than ``low`` and no more than ``high``."""

    low: Bound
    high: Bound


#: an exact rational, a value between bounds, NaN (certainly no real number) or None (not known at these bits)
Enclosed = Union[Between, Any, None]
_Parts = tuple[Bound, Bound]
#: larger values have too many digits to be rounded to integers
_LARGE = mpq(2) ** (1 << 16)
_KNOWN = {Between, _MPQ, _NONE}  # (all others are NaN)


class Enclosure:
    """The values of all nodes of a cone at one point, at a precision of ``bits``."""

    def __init__(self, cone: Cone, inputs: Mapping[int, "mpq | int"], bits: int, constants: "Mapping[int, Const] | None" = None) -> None:
        self.bits = bits
        every = {"emax": gmpy2.get_emax_max(), "emin": gmpy2.get_emin_min(), "precision": bits}
        self.down, self.up = (gmpy2.context(round=mode, **every) for mode in (gmpy2.RoundDown, gmpy2.RoundUp))
        arena = cone.arena
        given = {ident: mpq(value) for ident, value in inputs.items() if value and ident < 0}
        self.values: dict[int, Enclosed] = dict.fromkeys(cone.inputs, _ZERO)
        self.values.update((ident, value) for ident, value in given.items() if ident in self.values)
        self._whole = Scaled(cone.inputs, {ident: value for ident, value in given.items() if ident in self.values})
        self._arena = arena
        with gmpy2.context(self.down):  # (a number's negative is rounded to the precision at hand)
            for ident in cone.constants:
                own = arena.consts[ident]
                self.values[ident] = self._constant(own if constants is None else constants.get(ident, own))
            for ident, op, a, b, c in cone.rows():
                self.values[ident] = self._node(ident, Op(op), (a, b, c))

    def __getitem__(self, ident: int) -> Enclosed:
        return self.values[ident]

    def _node(self, ident: int, op: Op, slots: tuple[int, int, int]) -> Enclosed:
        if op is Op.CONST:
            return self._constant(self._arena.consts[slots[0]])
        if op is Op.DOT:
            return self._dot(ident)
        if TABLE[op].record:
            return self._record(op, [self.values[x] for x in self._arena.nary_operands(ident).tolist()])
        if op is Op.ITE:
            return self._select(*(self.values[x] for x in slots))
        row = TABLE[op]
        operands = [self.values[x] for x in slots[: row.arity]]
        plain = [slots[i] for i, name in enumerate("abc") if name in row.plain]
        return self._apply(op, operands, plain)

    def _apply(self, op: Op, x: list[Enclosed], plain: Sequence[int] = ()) -> Enclosed:
        kinds = {v.__class__ for v in x}
        if not kinds <= _KNOWN or op is Op.OPAQUE:
            return gmpy2.nan()
        if _NONE in kinds:
            return None
        if Between not in kinds and op not in _INEXACT:
            return precise.EVALUATORS[op](*x, *plain)
        found = _EVALUATORS.get(op)
        return found(self, *x) if found is not None else None

    def _constant(self, const: Const) -> Enclosed:
        if const.is_rational:
            return const.coef
        value = const.value(self.bits + 32)  # (correctly rounded in all but its last few bits)
        if not gmpy2.is_finite(value):
            return value if is_nan(value) else Between(value, value)
        size = gmpy2.context(self.up, precision=self.bits + 32).mul(abs(value), mpfr(2) ** -(self.bits + 16))
        return Between(self.down.sub(value, size), self.up.add(value, size))

    # --- sums of many ---------------------------------------------------------------------------

    def _dot(self, ident: int) -> Enclosed:
        rows, cols, total = self._arena.dot_operands(ident)
        if rows.max() < 0 and cols.max() < 0:
            return self._apply(Op.ADD, [self.values[total], self._whole.product(rows.tolist(), cols.tolist())])
        products = [self._apply(Op.MUL, [self.values[x], self.values[y]]) for x, y in zip(rows.tolist(), cols.tolist())]
        return self._record(Op.NSUM, [self.values[total], *products])

    def _record(self, op: Op, x: list[Enclosed]) -> Enclosed:
        pair = {Op.NSUM: Op.ADD, Op.NMAX: Op.MAX, Op.NMIN: Op.MIN}[op]
        total = x[0]
        for value in x[1:]:
            total = self._apply(pair, [total, value])
        return total

    def _select(self, condition: Enclosed, x: Enclosed, y: Enclosed) -> Enclosed:
        if condition is None:
            return x if x is y else None
        if condition.__class__ is Between:
            zero = _within(condition, _ZERO)
            return None if zero else x
        return condition if is_nan(condition) else (x if condition != 0 else y)

    # --- bounds ---------------------------------------------------------------------------------

    def between(self, low: Bound, high: Bound) -> Enclosed:
        """A value between bounds; undefined where a bound is no number (infinity less infinity)."""
        if is_nan(low) or is_nan(high):
            return gmpy2.nan() if is_nan(low) and is_nan(high) else None
        return Between(low, high)

    def bounds(self, x: Enclosed) -> _Parts:
        """MPFR numbers that bound a value. (Contexts round rationals to the nearest number first, whatever their mode is.)"""
        low, high = bounds(x)
        if low.__class__ is not _MPQ:
            return low, high
        near = mpfr(low, self.bits)
        if near == low:
            return near, near
        return self.down.next_below(self.down.next_below(near)), self.up.next_above(self.up.next_above(near))

    def rising(self, name: str, x: Enclosed) -> Enclosed:
        """A non-decreasing function of MPFR."""
        low, high = self.bounds(x)
        return self.between(getattr(self.down, name)(low), getattr(self.up, name)(high))

    def corners(self, name: str, x: Enclosed, y: Enclosed) -> Enclosed:
        """What is monotone in either operand: between the least and the greatest of its values at the bounds."""
        pairs = [(a, b) for a in dict.fromkeys(self.bounds(x)) for b in dict.fromkeys(self.bounds(y))]
        lows, highs = ([getattr(context, name)(a, b) for a, b in pairs] for context in (self.down, self.up))
        if any(map(is_nan, lows)) or any(map(is_nan, highs)):
            return gmpy2.nan() if len(pairs) == 1 else None
        return Between(min(lows), max(highs))

    def widened(self, name: str, x: Enclosed) -> Enclosed:
        """A sine or cosine: no further from its values at the bounds than these are from each other."""
        low, high = self.bounds(x)
        if not (gmpy2.is_finite(low) and gmpy2.is_finite(high)):
            return gmpy2.nan()
        spread = self.up.sub(high, low)
        below = min(getattr(self.down, name)(v) for v in (low, high))
        above = max(getattr(self.up, name)(v) for v in (low, high))
        return Between(max(self.down.sub(below, spread), mpfr(-1)), min(self.up.add(above, spread), mpfr(1)))


def bounds(x: Enclosed) -> _Parts:
    """The bounds of a value that is known."""
    return (x.low, x.high) if isinstance(x, Between) else (x, x)


def _within(x: Enclosed, value: Bound) -> bool:
    low, high = bounds(x)
    return bool(low <= value <= high)


def _add(e: Enclosure, x: Enclosed, y: Enclosed) -> Enclosed:
    (a, b), (c, d) = e.bounds(x), e.bounds(y)
    return e.between(e.down.add(a, c), e.up.add(b, d))


def _sub(e: Enclosure, x: Enclosed, y: Enclosed) -> Enclosed:
    if x is y and gmpy2.is_finite(bounds(x)[0]) and gmpy2.is_finite(bounds(x)[1]):
        return _ZERO
    (a, b), (c, d) = e.bounds(x), e.bounds(y)
    return e.between(e.down.sub(a, d), e.up.sub(b, c))


def _neg(e: Enclosure, x: Enclosed) -> Enclosed:
    low, high = bounds(x)
    return Between(-high, -low)


def _mul(e: Enclosure, x: Enclosed, y: Enclosed) -> Enclosed:
    if x is y:
        return _square(e, x)
    return e.corners("mul", x, y)


def _square(e: Enclosure, x: Enclosed) -> Enclosed:
    low, high = bounds(_abs(e, x))
    return Between(e.down.mul(low, low), e.up.mul(high, high))


def _fma(e: Enclosure, x: Enclosed, y: Enclosed, z: Enclosed) -> Enclosed:
    return e._apply(Op.ADD, [e._apply(Op.MUL, [x, y]), z])


def _div(e: Enclosure, x: Enclosed, y: Enclosed) -> Enclosed:
    if _within(y, _ZERO):
        low, high = bounds(y)
        return gmpy2.nan() if low == high else None
    return e.corners("div", x, y)


def _extreme(pick: Callable[..., Bound]) -> Callable[..., Enclosed]:
    def apply(e: Enclosure, x: Enclosed, y: Enclosed) -> Enclosed:
        (a, b), (c, d) = bounds(x), bounds(y)
        if x is y or (b <= c and pick(0, 1) == 0) or (a >= d and pick(0, 1) == 1):
            return x
        if d <= a or b <= c:
            return y
        (a, b), (c, d) = e.bounds(x), e.bounds(y)
        return Between(pick(a, c), pick(b, d))

    return apply


def _abs(e: Enclosure, x: Enclosed) -> Enclosed:
    low, high = bounds(x)
    if low >= 0:
        return x
    return Between(-high, -low) if high <= 0 else Between(mpfr(0), max(-low, high))


def _log2(e: Enclosure, x: Enclosed) -> Enclosed:
    low, high = bounds(x)
    if high < 0:
        return gmpy2.nan()
    return e.rising("log2", x) if low >= 0 else None


def _sqrt(e: Enclosure, x: Enclosed) -> Enclosed:
    low, high = bounds(x)
    if low.__class__ is _MPQ and x.__class__ is _MPQ:
        root = precise.EVALUATORS[Op.SQRT](x)
        if root.__class__ is _MPQ or is_nan(root):
            return root
    if high < 0:
        return gmpy2.nan()
    return e.rising("sqrt", x) if low >= 0 else None


def _exp2(e: Enclosure, x: Enclosed) -> Enclosed:
    if x.__class__ is _MPQ:
        power = precise.EVALUATORS[Op.EXP2](x)
        if power.__class__ is _MPQ:
            return power
    return e.rising("exp2", x)


def _pow(e: Enclosure, x: Enclosed, y: Enclosed) -> Enclosed:
    (low, high), (least, most) = bounds(x), bounds(y)
    if least.__class__ is _MPQ and least == most and least.denominator == 1 and abs(least) <= 1 << 12:
        return precise.EVALUATORS[Op.POW](x, y) if low.__class__ is _MPQ and low == high else _whole_power(e, x, int(least))
    if high < 0 or (low == high == 0 and most < 0):
        return gmpy2.nan()
    if low < 0 or (low == 0 and least <= 0):
        return None
    return e.corners("pow", x, y)


def _whole_power(e: Enclosure, x: Enclosed, n: int) -> Enclosed:
    if n < 0:
        below = _whole_power(e, x, -n)
        return e._apply(Op.DIV, [_ONE, below])
    result: Enclosed = _ONE
    base = _abs(e, x) if n % 2 == 0 else x
    while n:
        if n & 1:
            result = e._apply(Op.MUL, [result, base])
        base, n = e._apply(Op.MUL, [base, base]), n >> 1
    return result


def _rounded(op: Op) -> Callable[..., Enclosed]:
    """A rounding function: known where both bounds are rounded alike."""

    def apply(e: Enclosure, x: Enclosed) -> Enclosed:
        low, high = bounds(x)
        if not (gmpy2.is_finite(low) and gmpy2.is_finite(high)):
            return x if low == high else None
        if max(abs(low), abs(high)) > _LARGE:
            return None
        ends = [precise.EVALUATORS[op](mpq(v)) for v in (low, high)]
        return ends[0] if ends[0] == ends[1] else None

    return apply


def _compared(holds: Callable[[Bound, Bound], bool]) -> Callable[..., Enclosed]:
    """A comparison: known where bounds do not overlap, or for one and the same value."""

    def apply(e: Enclosure, x: Enclosed, y: Enclosed) -> Enclosed:
        (a, b), (c, d) = bounds(x), bounds(y)
        if x is y or (a == b == c == d):
            return _ONE if holds(0, 0) else _ZERO
        if b < c:
            return _ONE if holds(0, 1) else _ZERO
        if d < a:
            return _ONE if holds(1, 0) else _ZERO
        found = {holds(0, 1), holds(1, 0), holds(0, 0)} if b > c and d > a else {holds(0, 0), holds(0, 1) if b == c else holds(1, 0)}
        return (_ONE if found.pop() else _ZERO) if len(found) == 1 else None

    return apply


def _joined(op: Op) -> Callable[..., Enclosed]:
    return lambda e, x, y: e._apply(op, [x, y])


_EVALUATORS: dict[Op, Callable[..., Enclosed]] = {
    Op.ADD: _add, Op.SUB: _sub, Op.MUL: _mul, Op.DIV: _div, Op.NEG: _neg, Op.FMA: _fma, Op.MAX: _extreme(max), Op.MIN: _extreme(min),
    Op.ABS: _abs, Op.EXP2: _exp2, Op.LOG2: _log2, Op.SQRT: _sqrt, Op.POW: _pow, Op.TANH: lambda e, x: e.rising("tanh", x),
    Op.ERF: lambda e, x: e.rising("erf", x), Op.SIN: lambda e, x: e.widened("sin", x), Op.COS: lambda e, x: e.widened("cos", x),
    **{op: _rounded(op) for op in (Op.FLOOR, Op.CEIL, Op.TRUNC, Op.ROUND_EVEN)},
    Op.LT: _compared(lambda x, y: x < y), Op.LE: _compared(lambda x, y: x <= y),
    Op.EQ: _compared(lambda x, y: x == y), Op.NE: _compared(lambda x, y: x != y),
    Op.AND: _joined(Op.MIN), Op.OR: _joined(Op.MAX), Op.NOT: lambda e, x: e._apply(Op.SUB, [_ONE, x]),
}  # fmt: skip
#: operators whose value at rationals is rounded
_INEXACT = frozenset({Op.EXP2, Op.LOG2, Op.SQRT, Op.POW, Op.TANH, Op.ERF, Op.SIN, Op.COS})
#: integer operators, which are known of exact integers only
WHOLE = frozenset({Op.WRAP, Op.FIELD, Op.FLOORDIV, Op.TRUNCDIV, Op.TRUNCREM, Op.BITAND, Op.BITOR, Op.BITXOR, Op.SHL, Op.SHR})
#: operators that ``Enclosure`` takes itself
STRUCTURAL = frozenset({Op.CONST, Op.DOT, Op.NSUM, Op.NMAX, Op.NMIN, Op.ITE, Op.OPAQUE})

assert set(_EVALUATORS) | WHOLE | STRUCTURAL == set(Op), "every operator has an evaluator"


def middle(x: Enclosed) -> Bound:
    """A number for a value between bounds that are close: zero if that is among them."""
    low, high = bounds(x)
    if x.__class__ is not Between or low == high:
        return low
    if low <= 0 <= high:
        return _ZERO
    with gmpy2.context(precision=4096, emax=gmpy2.get_emax_max(), emin=gmpy2.get_emin_min()):
        return (low + high) / 2
