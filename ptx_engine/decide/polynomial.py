"""Two terms as polynomials over inputs and opaque sub-terms, to say by which products they differ.

Sub-terms that are no sum or product (exponentials, quotients, maxima) are atoms, one per fingerprint: equal sub-terms of
the two sides are the same atom. This explains a difference that a witness has established; it proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gmpy2 import mpq

from ptx_engine.terms.arena import Arena
from ptx_engine.terms.constants import Const
from ptx_engine.terms.ops import Op

#: factors: sorted atom keys with repetition (inputs are negative ids, other atoms their representative's id)
Monomial = tuple[int, ...]
Polynomial = dict[Monomial, mpq]

#: operators that an expansion goes through
LINEAR = frozenset((Op.ADD, Op.SUB, Op.NEG, Op.FMA, Op.MUL, Op.DOT, Op.NSUM, Op.DIV))


#: terms of which a common factor is guessed
_GUESSES = 256


class TooLarge(Exception):
    """The expansion is beyond its budget."""


@dataclass
class Expansion:
    """Expands terms to polynomials; ``atom`` maps an id to the representative of its fingerprint class."""

    arena: Arena
    atom: Callable[[int], int]
    limit: int = 200_000

    def expand(self, root: int) -> Polynomial:
        """The polynomial of a term. Raises TooLarge."""
        done: dict[int, Polynomial] = {}
        stack = [root]
        while stack:
            ident = stack[-1]
            if ident in done:
                stack.pop()
                continue
            missing = [x for x in self._operands(ident) if x not in done]
            if missing:
                stack.extend(missing)
                continue
            done[ident] = self._combine(ident, done)
            self.limit -= len(done[ident]) + 1
            if self.limit < 0:
                raise TooLarge
            stack.pop()
        return done[root]

    def _operands(self, ident: int) -> list[int]:
        if ident < 0:
            return []
        op, a, b, c = self.arena.node(ident)
        if op not in LINEAR:
            return []
        if op is Op.DOT:
            rows, cols, acc = self.arena.dot_operands(ident)
            return [*rows.tolist(), *cols.tolist(), acc]
        if op is Op.NSUM:
            return list(self.arena.nary_operands(ident).tolist())
        if op is Op.DIV:
            return [a, b] if self._constant(b) is not None else []
        if op is Op.FMA:
            products, rest = self._chain(ident)
            return [x for product in products for x in product] + [rest]
        return [a, b, c][: 1 if op is Op.NEG else 2]

    def _chain(self, ident: int) -> tuple[list[tuple[int, int]], int]:
        """The products of a chain of multiply-adds, in the order of the sum, and what they are added to. (One by one, n links cost n^2.)"""
        products: list[tuple[int, int]] = []
        while ident >= 0:
            op, a, b, c = self.arena.node(ident)
            if op is not Op.FMA:
                break
            products.append((a, b))
            ident = c
        return products[::-1], ident

    def _constant(self, ident: int) -> Const | None:
        if ident < 0:
            return None
        op, a, _, _ = self.arena.node(ident)
        if op is not Op.CONST or self.arena.consts[a].special is not None:
            return None
        const = self.arena.consts[a]
        return const if const.is_rational and const.coef != 0 else None

    def _combine(self, ident: int, done: dict[int, Polynomial]) -> Polynomial:
        if ident < 0:
            return {(ident,): mpq(1)}
        op, a, _, _ = self.arena.node(ident)
        if op is Op.CONST and self.arena.consts[a].is_rational:
            return {(): self.arena.consts[a].coef} if self.arena.consts[a].coef else {}
        operands = self._operands(ident)
        if not operands:
            return {(self.atom(ident),): mpq(1)}
        if op is Op.DOT:
            rows, cols, acc = self.arena.dot_operands(ident)
            total = dict(done[acc])
            for x, y in zip(rows.tolist(), cols.tolist()):
                self._add_product(total, done[x], done[y], mpq(1))
            return total
        if op is Op.FMA:
            products, rest = self._chain(ident)
            total = dict(done[rest])
            for x, y in products:
                self._add_product(total, done[x], done[y], mpq(1))
            return total
        if op is Op.NSUM:
            total = {}
            for x in operands:
                _add(total, done[x], mpq(1))
            return total
        return self._arithmetic(op, [done[x] for x in operands])

    def _arithmetic(self, op: Op, operands: list[Polynomial]) -> Polynomial:
        if op is Op.NEG:
            return {monomial: -coef for monomial, coef in operands[0].items()}
        if op is Op.DIV:
            scale = 1 / operands[1][()]
            return {monomial: coef * scale for monomial, coef in operands[0].items()}
        total: Polynomial = {}
        if op is Op.MUL:
            self._add_product(total, operands[0], operands[1], mpq(1))
            return total
        total = dict(operands[0])
        _add(total, operands[1], mpq(1 if op is Op.ADD else -1))
        return total

    def _add_product(self, total: Polynomial, x: Polynomial, y: Polynomial, scale: mpq) -> None:
        self.limit -= len(x) * len(y)
        if self.limit < 0:
            raise TooLarge
        for mx, cx in x.items():
            for my, cy in y.items():
                _bump(total, tuple(sorted(mx + my)), cx * cy * scale)


def _bump(total: Polynomial, monomial: Monomial, coef: mpq) -> None:
    value = total.get(monomial, 0) + coef
    if value:
        total[monomial] = value
    else:
        total.pop(monomial, None)


def _add(total: Polynomial, other: Polynomial, scale: mpq) -> None:
    for monomial, coef in other.items():
        _bump(total, monomial, coef * scale)


@dataclass(frozen=True)
class Difference:
    """Terms that only the reference has, that only the candidate has, and with another coefficient (reference, candidate)."""

    missing: list[tuple[Monomial, mpq]]
    extra: list[tuple[Monomial, mpq]]
    changed: list[tuple[Monomial, mpq, mpq]]
    reference_terms: int
    candidate_terms: int


def difference(reference: Polynomial, candidate: Polynomial) -> Difference:
    """Compare term by term, in the order of the sides' own terms."""
    missing = [(m, coef) for m, coef in reference.items() if m not in candidate]
    extra = [(m, coef) for m, coef in candidate.items() if m not in reference]
    changed = [(m, coef, candidate[m]) for m, coef in reference.items() if m in candidate and candidate[m] != coef]
    return Difference(missing, extra, changed, len(reference), len(candidate))


def lost_factor(whole: list[tuple[Monomial, mpq]], rest: list[tuple[Monomial, mpq]]) -> Monomial:
    """The factors F with which every term of ``rest`` is a term of ``whole``; empty if there are none, or too many guesses."""
    if not whole or len(whole) != len(rest):
        return ()
    wanted = dict(whole)
    first, coef = whole[0]
    for monomial, other in rest[:_GUESSES]:
        factor = _without(first, monomial)
        if factor and coef == other and all(wanted.get(tuple(sorted(m + factor))) == c for m, c in rest):
            return factor
    return ()


def _without(monomial: Monomial, part: Monomial) -> Monomial:
    """The factors that are left of a product; empty if ``part`` does not divide it."""
    left = list(monomial)
    for factor in part:
        if factor not in left:
            return ()
        left.remove(factor)
    return tuple(left)
