"""Sums that agree up to a common factor: how the two sides of a normalised quotient are compared term by term.

A softmax with and without the maximum subtracted has no term in common with the other, but all its terms differ by one
factor. The factor is guessed from a pair of terms by their fingerprints and judged by how many other terms it matches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from gmpy2 import mpq

from ptx_engine.decide.polynomial import Monomial, Polynomial

#: a value at every point
Values = tuple[int, ...]
#: guesses: so many terms of one side against so many of the other
_GUESSES = 4


class Scale:
    """Fingerprints of terms in the field of order ``p``; ``atom_values`` gives an atom's value at every point."""

    def __init__(self, p: int, points: int, atom_values: Callable[[int], Values]) -> None:
        self.p, self.points, self.atom_values = p, points, atom_values
        self._known: dict[int, Values] = {}

    def of(self, terms: Polynomial) -> dict[Monomial, Values]:
        """The value of every term (coefficient included)."""
        return {monomial: self._term(monomial, coef) for monomial, coef in terms.items()}

    def _term(self, monomial: Monomial, coef: mpq) -> Values:
        p = self.p
        head = int(coef.numerator) * pow(int(coef.denominator), -1, p) % p
        result: Values | None = None
        for atom in monomial:
            if atom not in self._known:
                self._known[atom] = self.atom_values(atom)
            values = self._known[atom]
            result = values if result is None else tuple(x * y % p for x, y in zip(result, values))
        if result is None:
            result = (1,) * self.points
        return result if head == 1 else tuple(head * x % p for x in result)

    def factor(self, reference: list[Values], candidate: list[Values]) -> Values | None:
        """The factor from candidate to reference terms that matches most of them; None if it does not match half of the shorter
        side."""
        known = Counter(reference)
        best: Values | None = None
        most = 0
        for x in reference[:_GUESSES] + reference[-1:]:
            for y in candidate[:_GUESSES] + candidate[-1:]:
                if 0 in y:
                    continue
                guess = tuple(a * pow(b, -1, self.p) % self.p for a, b in zip(x, y))
                count = (known & Counter(self.scaled(value, guess) for value in candidate)).total()
                if count > most:
                    best, most = guess, count
        return best if 2 * most > min(len(reference), len(candidate)) else None

    def scaled(self, value: Values, factor: Values) -> Values:
        return tuple(x * y % self.p for x, y in zip(value, factor))


def unmatched(reference: dict[Monomial, Values], candidate: dict[Monomial, Values]) -> tuple[list[Monomial], list[Monomial]]:
    """Terms of each side without a partner of the same value on the other."""
    left, right = Counter(reference.values()), Counter(candidate.values())
    missing, extra = left - right, right - left
    result: tuple[list[Monomial], list[Monomial]] = ([], [])
    for terms, rest, found in ((reference, missing, result[0]), (candidate, extra, result[1])):
        for monomial, value in terms.items():
            if rest[value] > 0:
                rest[value] -= 1
                found.append(monomial)
    return result
