"""The arena of symbolic values: reference and candidate of a comparison emit into one arena with the same inputs.

Every builder takes ids as Python ints (uniform) or int32 arrays of one common shape (a column, or a whole
tensor) and returns the same. Ids are laid out in ``storage``, arithmetic folds in ``folding``; here are the
functions, comparisons and selections.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from gmpy2 import mpq

from ptx_engine.terms.constants import Const
from ptx_engine.terms.folding import LARGEST_FLOAT, OF_NAN, Folding
from ptx_engine.terms.ops import Op
from ptx_engine.terms.range_reduction import recombined
from ptx_engine.terms.storage import (
    CONST_CAP,
    FALSE,
    MAX_ID,
    NAN,
    NEG_INF,
    ONE,
    POS_INF,
    TRUE,
    UNDEF,
    ZERO,
    DotRecord,
    Ids,
    Input,
    NaryRecord,
)

__all__ = [
    "CONST_CAP", "FALSE", "MAX_ID", "NAN", "NEG_INF", "ONE", "POS_INF", "TRUE", "UNDEF", "ZERO",
    "Arena", "DotRecord", "Ids", "Input", "NaryRecord",
]  # fmt: skip


class Arena(Folding):
    """Terms of one comparison: reference and candidate emit into the same arena with the same inputs."""

    def mul(self, a: Ids, b: Ids) -> Ids:
        found = recombined(self, a, b) if self.powers else None
        return super().mul(a, b) if found is None else found

    def fma(self, a: Ids, b: Ids, c: Ids) -> Ids:
        found = recombined(self, a, b) if self.powers else None
        return super().fma(a, b, c) if found is None else self.add(found, c)

    def exp2(self, a: Ids) -> Ids:
        return self.folded(Op.EXP2, self._fold_exp2, (a,))

    def _fold_exp2(self, a: Ids) -> Ids | None:
        if isinstance(a, int):
            if a == NEG_INF:
                return ZERO
            if a in (POS_INF, NAN, UNDEF):
                return a
            x = self.finite(a)
            if x is not None and x.is_rational and x.coef.denominator == 1 and abs(x.coef) <= 4096:
                return self.rational(mpq(2) ** int(x.coef))
        return None

    def exp(self, a: Ids) -> Ids:
        """e^a = 2^(a * log2e)."""
        return self.exp2(self.mul(a, self.const(Const(mpq(1), log2e=1))))

    def log2(self, a: Ids) -> Ids:
        return self.folded(Op.LOG2, self._fold_log2, (a,))

    def _fold_log2(self, a: Ids) -> Ids | None:
        if isinstance(a, int):
            if a == ZERO:
                return NEG_INF
            if a in (POS_INF, NAN, UNDEF):
                return a
            if a == NEG_INF:
                return NAN
            x = self.finite(a)
            if x is not None:
                if x.coef < 0:
                    return NAN
                if x.is_rational:
                    if x.coef in (10, mpq(1, 10)):
                        return self.const(Const(mpq(1 if x.coef == 10 else -1), log2ten=1))
                    for numerator, denominator, sign in (
                        (x.coef.numerator, x.coef.denominator, 1),
                        (x.coef.denominator, x.coef.numerator, -1),
                    ):
                        if denominator == 1 and numerator & (numerator - 1) == 0:
                            return self.rational(sign * (int(numerator).bit_length() - 1))
        return None

    def log(self, a: Ids) -> Ids:
        """ln a = log2(a) / log2e."""
        return self.mul(self.log2(a), self.const(Const(mpq(1), log2e=-1)))

    def sqrt(self, a: Ids) -> Ids:
        return self.folded(Op.SQRT, self._fold_sqrt, (a,))

    def _fold_sqrt(self, a: Ids) -> Ids | None:
        if isinstance(a, int):
            if a in (ZERO, ONE, POS_INF, NAN, UNDEF):
                return a
            if a == NEG_INF:
                return NAN
            x = self.finite(a)
            if x is not None and x.coef < 0:
                return NAN
            if x is not None and x.is_rational:
                numerator, denominator = (mpz_root(x.coef.numerator), mpz_root(x.coef.denominator))
                if numerator is not None and denominator is not None:
                    return self.rational(mpq(numerator, denominator))
        return None

    def unary(self, op: Op, a: Ids) -> Ids:
        """Any other unary operator (TANH, SIN, COS, ERF, FLOOR, ...): only NaN and undefined fold; TANH and ERF also 0."""

        def fold(x: Ids) -> Ids | None:
            if isinstance(x, int):
                if x in (NAN, UNDEF):
                    return x
                if x == ZERO and op in (Op.TANH, Op.SIN, Op.ERF, Op.FLOOR, Op.CEIL, Op.TRUNC, Op.ROUND_EVEN):
                    return ZERO
                if x == ZERO and op is Op.COS:
                    return ONE
                if op in (Op.TANH, Op.ERF) and x in (POS_INF, NEG_INF):
                    return ONE if x == POS_INF else self.rational(-1)
                const = self.finite(x)
                if const is not None and const.is_rational and op in _ROUNDINGS:
                    return self.rational(_ROUNDINGS[op](const.coef))
            return None

        return self.folded(op, fold, (a,))

    def compare(self, op: Op, a: Ids, b: Ids) -> Ids:
        """LT, LE, EQ or NE as a 0/1 term. A comparison with NaN is false (NE: true), as ordered IEEE comparison."""

        def fold(x: Ids, y: Ids) -> Ids | None:
            for z in (x, y):
                if isinstance(z, int) and z == NAN:
                    self.assumptions.setdefault(OF_NAN)
                    return TRUE if op is Op.NE else FALSE
                if isinstance(z, int) and z == UNDEF:
                    return UNDEF
            p, q = self._order_key(x), self._order_key(y)
            if p is not None and q is not None:
                return TRUE if {Op.LT: p < q, Op.LE: p <= q, Op.EQ: p == q, Op.NE: p != q}[op] else FALSE
            if (p is None and q is not None and abs(q[0]) == 1) or (q is None and p is not None and abs(p[0]) == 1):
                # a finite real against an infinity
                self.drop(x if p is None else y)
                below = (q is not None and q[0] == 1) or (p is not None and p[0] == -1)
                return {Op.LT: TRUE if below else FALSE, Op.LE: TRUE if below else FALSE, Op.EQ: FALSE, Op.NE: TRUE}[op]
            if op in (Op.EQ, Op.NE):
                return None
            end = -self.end_of_floats(x, y) or self.end_of_floats(y, x)  # of the right side, or what the left one makes of it
            return None if not end else TRUE if end > 0 else FALSE

        return self.folded(op, fold, (a, b))

    def _order_key(self, ident: Ids) -> "tuple[int, mpq] | None":
        """(-1, 0) for -inf, (0, q) for a rational, (1, 0) for inf; None where the order is not known."""
        if not isinstance(ident, int) or not 0 <= ident < CONST_CAP:
            return None
        if ident in (POS_INF, NEG_INF):
            return (1 if ident == POS_INF else -1, mpq(0))
        const = self.consts[ident]
        return (0, const.coef) if const.is_rational else None

    def select(self, condition: Ids, a: Ids, b: Ids) -> Ids:
        """condition ? a : b for a symbolic 0/1 condition."""

        def fold(p: Ids, x: Ids, y: Ids) -> Ids | None:
            if isinstance(p, int) and p in (TRUE, FALSE):
                return x if p == TRUE else y
            if isinstance(p, int) and p == UNDEF:
                return UNDEF
            return None

        chosen = self.folded(Op.ITE, fold, (condition, a, b))
        if not self.beyond_floats and not (isinstance(condition, int) and condition in (TRUE, FALSE)):
            self.beyond_floats = any(self._has_end(x) for x in (a, b))
        if self.patterns and (_is_infinity(a) or _is_infinity(b)):
            for pattern in self.patterns:
                chosen = pattern.replaced(self, chosen)
        return chosen

    def _has_end(self, ids: Ids) -> bool:
        """Whether among ids is an infinity, or an end of f32."""
        column = np.asarray(ids)
        constants = np.unique(column[(column >= 0) & (column < CONST_CAP)]).tolist()
        known = [self.consts[i] for i in constants if i not in (NEG_INF, POS_INF)]
        return len(known) < len(constants) or any(c.special is None and abs(c.coef) == LARGEST_FLOAT for c in known)

    def logic(self, op: Op, a: Ids, b: Ids = ZERO) -> Ids:
        """AND, OR, NOT over 0/1 terms."""

        def fold(x: Ids, y: Ids) -> Ids | None:
            neutral, absorbing = (TRUE, FALSE) if op is Op.AND else (FALSE, TRUE)
            for p, q in ((x, y), (y, x)):
                if isinstance(p, int):
                    if p == neutral:
                        return q
                    if p == absorbing:
                        self.drop(q)
                        return absorbing
                    if p == UNDEF:
                        return UNDEF
            return None

        def fold_not(x: Ids) -> Ids | None:
            if isinstance(x, int) and x in (TRUE, FALSE, UNDEF):
                return {TRUE: FALSE, FALSE: TRUE, UNDEF: UNDEF}[x]
            return None

        return self.folded(op, fold_not, (a,)) if op is Op.NOT else self.folded(op, fold, (a, b))

    def opaque(self, name: str, a: Ids, b: Ids = ZERO) -> Ids:
        """An operation without a meaning over the reals; ``name`` enters the verdict's reason."""
        if name not in self.opaque_names:
            self.opaque_names.append(name)
        return self.emit(Op.OPAQUE, a, b, self.opaque_names.index(name))


def _is_infinity(ids: Ids) -> bool:
    return any(ids == each if isinstance(ids, int) else bool(ids.size) and bool((ids == each).all()) for each in (NEG_INF, POS_INF))


def mpz_root(value: "object") -> "int | None":
    """The integer square root of a perfect square, else None."""
    n = int(value)  # type: ignore[call-overload]
    root = math.isqrt(n)
    return root if root * root == n else None


def _floor(q: mpq) -> int:
    return int(q.numerator // q.denominator)


def _round_even(q: mpq) -> int:
    low = _floor(q)
    rest = q - low
    if rest * 2 == 1:
        return low + (low & 1)
    return low + (1 if rest * 2 > 1 else 0)


_ROUNDINGS: dict[Op, Callable[[mpq], int]] = {
    Op.FLOOR: _floor,
    Op.CEIL: lambda q: -_floor(-q),
    Op.TRUNC: lambda q: _floor(q) if q >= 0 else -_floor(-q),
    Op.ROUND_EVEN: _round_even,
}
