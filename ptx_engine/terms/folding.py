"""Arithmetic with folding: constants with constants exactly, neutral and absorbing elements.

Infinities fold as far as the result is determined (``0 * x = 0``: data are finite reals). What vanishes so is kept in
``Storage.dropped``: it may be undefined somewhere, which the decider states. A ``fold`` function takes ids (an int may be a
constant; an array never is) and returns the folded id(s), or None for "emit the operation".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from gmpy2 import mpq

from ptx_engine.terms import constants as k
from ptx_engine.terms.constants import Const
from ptx_engine.terms.ops import Op
from ptx_engine.terms.storage import CONST_CAP, NAN, NEG_INF, ONE, POS_INF, UNDEF, ZERO, Ids, Storage, has_const

Fold = Callable[..., "Ids | None"]

#: ledger lines of constants that are no real numbers: what is made of them is IEEE 754's, not mathematics'
OF_NAN = "the maximum or minimum of a NaN constant and a value is the value, and comparing with it is false"
BEYOND_FLOATS = (
    "no float is beyond the largest one: the maximum of -FLT_MAX and a value is the value, and a value is greater (FLT_MAX alike)"
)
BY_ZERO = "a constant divided by zero is infinite, of the constant's sign: zeros have no sign"


#: in which the rest of a constant vanishes or keeps its sign
_PRODUCTS = frozenset({Op.MUL, Op.FMA, Op.NEG})

#: the largest number of f32
LARGEST_FLOAT = (2 - mpq(1, 1 << 23)) * (1 << 127)


class Folding(Storage):
    """The ring operations, quotients, extrema and absolute values over ids and columns of ids."""

    def folded(self, op: Op, scalar: Fold, operands: tuple[Ids, ...]) -> Ids:
        """Emit ``op`` over operands, folding lane by lane where an operand is an interned constant."""
        if self.rests and op not in _PRODUCTS:
            operands = tuple(map(self._without_rests, operands))
        constant = False
        for x in operands:
            if x.__class__ is not int:
                break
            constant = constant or 0 <= x < CONST_CAP
        else:
            folded = scalar(*operands) if constant else None
            return folded if folded is not None else self.emit_scalar(op, *operands, *(0,) * (3 - len(operands)))  # type: ignore[arg-type]
        if any(x.__class__ is not int and has_const(x) for x in operands):
            return self._fold_columns(op, scalar, operands)
        if any(x.__class__ is int and 0 <= x < CONST_CAP for x in operands):
            outcome = scalar(*operands)
            if outcome is not None:
                shape = np.broadcast_shapes(*(np.shape(x) for x in operands))
                same = isinstance(outcome, np.ndarray) and outcome.shape == shape
                return outcome if same else np.full(shape, outcome, np.int32)
        return self.emit(op, *operands)

    def _without_rests(self, ids: Ids) -> Ids:
        """A rest is one in products alone: elsewhere it is the number that its literal is."""
        if isinstance(ids, int):
            return self.rests.get(ids, ids)
        for rest, number in self.rests.items():
            found = ids == rest
            if found.any():
                ids = np.where(found, np.int32(number), ids)
        return ids

    def _fold_columns(self, op: Op, scalar: Fold, operands: tuple[Ids, ...]) -> Ids:
        """The slow path: lanes with constants are grouped by which ones they hold; each group folds or emits at once.

        A constant lane is described by its id, any other by -1; groups are few, since constants are few.
        """
        shape = np.broadcast_shapes(*(np.shape(x) for x in operands))
        flat = [np.broadcast_to(np.asarray(x, np.int32), shape).ravel() for x in operands]
        constant = [column.view(np.uint32) < CONST_CAP for column in flat]
        lanes = np.flatnonzero(np.logical_or.reduce(constant))
        key = np.zeros(len(lanes), np.int64)
        for column, fixed in zip(flat, constant):
            key = key * (CONST_CAP + 1) + np.where(fixed[lanes], column[lanes] + 1, 0)
        result = np.empty(flat[0].size, np.int32)
        plain = np.ones(flat[0].size, bool)
        for value in np.unique(key):
            chosen = lanes[key == value]
            first = [int(column[chosen[0]]) for column in flat]
            is_const = [0 <= x < CONST_CAP for x in first]
            if all(is_const):
                folded = scalar(*first)
                if folded is None:
                    continue
                result[chosen] = folded
            else:
                columns = [x if fixed else column[chosen] for x, fixed, column in zip(first, is_const, flat)]
                outcome = scalar(*columns)
                if outcome is None:
                    continue
                result[chosen] = outcome
            plain[chosen] = False
        if plain.all():
            result = np.asarray(self.emit(op, *(column for column in flat)))
        elif plain.any():
            rest = np.flatnonzero(plain)
            result[rest] = self.emit(op, *(column[rest] for column in flat))
        return result.reshape(shape)

    def finite(self, ident: Ids) -> Const | None:
        """The finite constant behind an interned id, else None."""
        if isinstance(ident, int) and 0 <= ident < CONST_CAP:
            const = self.consts[ident]
            return const if const.special is None else None
        return None

    def end_of_floats(self, ident: Ids, other: Ids) -> int:
        """-1 or 1 where a constant is the least or the largest f32, with which reductions begin, and the other is no constant; else 0.

        Whatever f32 holds lies between the two. Not where there are values beyond (``beyond_floats``).
        """
        known = self.finite(ident)
        if known is None or abs(known.coef) != LARGEST_FLOAT or not known.is_rational or self.beyond_floats:
            return 0
        if isinstance(other, int) and 0 <= other < CONST_CAP:
            return 0
        self.assumptions.setdefault(BEYOND_FLOATS)
        return 1 if known.coef > 0 else -1

    def _fold_add(self, a: Ids, b: Ids) -> Ids | None:
        for x, y in ((a, b), (b, a)):
            if isinstance(x, int):
                if x == ZERO:
                    return y
                if x in (NAN, UNDEF):
                    return x
                if x in (POS_INF, NEG_INF):
                    self.drop(y)
                    opposite = NEG_INF if x == POS_INF else POS_INF
                    return NAN if isinstance(y, int) and y in (opposite, NAN) else (UNDEF if isinstance(y, int) and y == UNDEF else x)
        p, q = self.finite(a), self.finite(b)
        if p is not None and q is not None and replace(p, coef=q.coef) == q:
            total = p.coef + q.coef
            return self.const(replace(p, coef=total) if total else k.ZERO)
        return None

    def _fold_mul(self, a: Ids, b: Ids) -> Ids | None:
        for x, y in ((a, b), (b, a)):
            if isinstance(x, int):
                if x == ONE:
                    return y
                if x in (NAN, UNDEF):
                    return x
        for x, y in ((a, b), (b, a)):
            if isinstance(x, int):
                if x == ZERO:
                    self.drop(y)
                    return NAN if isinstance(y, int) and y in (POS_INF, NEG_INF) else ZERO
                if x in (POS_INF, NEG_INF):
                    if isinstance(y, int) and y in (POS_INF, NEG_INF):
                        return POS_INF if x == y else NEG_INF
                    other = self.finite(y)
                    if other is not None:
                        return x if other.coef > 0 or k.sign_of_rest(other) > 0 else (POS_INF if x == NEG_INF else NEG_INF)
                    return NAN if isinstance(y, int) and y == NAN else None
        p, q = self.finite(a), self.finite(b)
        for known, beside in ((p, b), (q, a)):
            if known is not None and k.sign_of_rest(known):
                self.drop(beside)
                return ZERO
        return self.const(k.multiply(p, q)) if p is not None and q is not None else None

    def _fold_neg(self, a: Ids) -> Ids | None:
        if isinstance(a, int):
            if a in (POS_INF, NEG_INF):
                return NEG_INF if a == POS_INF else POS_INF
            if a in (NAN, UNDEF):
                return a
            x = self.finite(a)
            if x is not None:
                return self.const(k.negative_rest(x) if k.sign_of_rest(x) else k.multiply(x, Const(mpq(-1))))
        return None

    def _fold_sub(self, a: Ids, b: Ids) -> Ids | None:
        if isinstance(b, int) and 0 <= b < CONST_CAP:
            if b == ZERO:
                return a
            negated = self._fold_neg(b)
            if isinstance(negated, int):
                return self._fold_add(a, negated)
        if isinstance(a, int):
            if a == ZERO:
                return self.neg(b)
            if a in (POS_INF, NEG_INF, NAN, UNDEF):
                return a
        return None

    def _fold_div(self, a: Ids, b: Ids) -> Ids | None:
        if isinstance(b, int):
            if b == ONE or b in (NAN, UNDEF):
                return a if b == ONE else b
            if b in (POS_INF, NEG_INF):
                return NAN if isinstance(a, int) and a in (POS_INF, NEG_INF, NAN) else ZERO
            if b == ZERO:
                if isinstance(a, int) and a in (ZERO, NAN):
                    return NAN
                x = self.finite(a)
                if x is not None:
                    self.assumptions.setdefault(BY_ZERO)
                return None if x is None else (POS_INF if x.coef > 0 else NEG_INF)
            y = self.finite(b)
            if y is not None and y.coef:
                return self.mul(a, self.const(k.reciprocal(y)))
        if isinstance(a, int):
            if a == ZERO:
                self.drop(b, denominator=True)
                return ZERO
            if a in (NAN, UNDEF):
                return a
        return None

    def _fold_extreme(self, a: Ids, b: Ids, top: int, bottom: int, pick: Callable[[mpq, mpq], mpq]) -> Ids | None:
        for x, y in ((a, b), (b, a)):
            if isinstance(x, int):
                if x == bottom:
                    return y
                if x == NAN:
                    self.assumptions.setdefault(OF_NAN)
                    return y
                if x == UNDEF:
                    return UNDEF
                if x == top:
                    self.drop(y)
                    return top
        p, q = self.finite(a), self.finite(b)
        if p is not None and q is not None and p.is_rational and q.is_rational:
            return self.const(Const(pick(p.coef, q.coef)))
        for x, y in ((a, b), (b, a)):
            end = self.end_of_floats(x, y)
            if end:
                return y if (end < 0) == (bottom == NEG_INF) else None
        if isinstance(a, int) and isinstance(b, int) and a == b:
            return a
        return None

    def add(self, a: Ids, b: Ids) -> Ids:
        return self.folded(Op.ADD, self._fold_add, (a, b))

    def sub(self, a: Ids, b: Ids) -> Ids:
        return self.folded(Op.SUB, self._fold_sub, (a, b))

    def mul(self, a: Ids, b: Ids) -> Ids:
        return self.folded(Op.MUL, self._fold_mul, (a, b))

    def div(self, a: Ids, b: Ids) -> Ids:
        """a / b over the reals; the domain assumption b != 0 is stated by the decider."""
        return self.folded(Op.DIV, self._fold_div, (a, b))

    def neg(self, a: Ids) -> Ids:
        return self.folded(Op.NEG, self._fold_neg, (a,))

    def fma(self, a: Ids, b: Ids, c: Ids) -> Ids:
        addend = self._without_rests(c) if self.rests else c
        return self.folded(Op.FMA, self._fold_fma, (a, b, addend))

    def _fold_fma(self, a: Ids, b: Ids, c: Ids) -> Ids | None:
        product = self._fold_mul(a, b)
        if product is not None:
            return self.add(product, c)
        if isinstance(c, int) and 0 <= c < CONST_CAP:
            if c == ZERO:
                return self.mul(a, b)
            if c in (POS_INF, NEG_INF, NAN, UNDEF):
                return c
        return None

    def maximum(self, a: Ids, b: Ids) -> Ids:
        return self.folded(Op.MAX, lambda x, y: self._fold_extreme(x, y, POS_INF, NEG_INF, max), (a, b))

    def minimum(self, a: Ids, b: Ids) -> Ids:
        return self.folded(Op.MIN, lambda x, y: self._fold_extreme(x, y, NEG_INF, POS_INF, min), (a, b))

    def abs(self, a: Ids) -> Ids:
        return self.folded(Op.ABS, self._fold_abs, (a,))

    def _fold_abs(self, a: Ids) -> Ids | None:
        if isinstance(a, int):
            if a in (POS_INF, NEG_INF):
                return POS_INF
            if a in (NAN, UNDEF):
                return a
            x = self.finite(a)
            if x is not None:
                return a if x.coef >= 0 else self._fold_neg(a)
        return None
