"""Rounding in normal form: floors with their integer parts taken out, quotients of integers by constants in lowest terms.

Every rounding function is non-decreasing, so it goes into maxima and minima. floor(a*P) of an integer P of known range is
floor(b*P) for the simplest fraction b that rounds alike throughout: a multiplication by a rounded-up reciprocal is a division
(Granlund and Montgomery 1994). A quotient of integers towards zero is the floor plus a correction where it is negative.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm

from gmpy2 import mpq

from ptx_engine.decide.normal_content import rational_content
from ptx_engine.decide.normal_forms import Forms
from ptx_engine.decide.normal_lattice import Lattice
from ptx_engine.decide.normal_order import positive, signwise
from ptx_engine.decide.normal_ring import ONE_TERM, Coef, Poly, Sign, add_into, small
from ptx_engine.decide.normal_sign import integral, poly_range, poly_sign

Range = tuple[Coef | None, Coef | None]


def is_constant(poly: Poly) -> bool:
    """Whether a canonical form is rational."""
    return not poly or (len(poly) == 1 and ONE_TERM in poly)


class Rounding:
    """Applies rounding functions to normal forms of one ``Forms``."""

    def __init__(self, forms: Forms, lattice: Lattice) -> None:
        self.forms, self.ring, self.lattice = forms, forms.ring, lattice
        #: atoms that are wraps -> (argument, width, negative if signed)
        self.wraps: dict[int, tuple[Poly, int]] = {}

    # --- floors ---------------------------------------------------------------------------------

    def floor(self, p: Poly) -> Poly:
        """floor p: integer terms come out."""
        p = self.forms.argument(p)
        whole = {t: c for t, c in p.items() if integral(self.ring, {t: c})}
        rest = {t: c for t, c in p.items() if t not in whole}
        constant = rest.pop(ONE_TERM, 0)
        if constant:
            below = floor_of(constant)
            add_into(whole, self.forms.rational(below))
            add_into(rest, self.forms.rational(small(mpq(constant) - below)))
        if not is_constant(rest):
            add_into(whole, self._fraction(rest))
        return whole

    def _fraction(self, p: Poly) -> Poly:
        """The floor of what has no integer terms."""
        found = signwise(self.forms, p, floor_of)
        for rule in (self._of_extremes, self._of_wraps, self._of_inner_floor, self._of_integers):
            found = rule(p) if found is None else found
        if found is not None:
            return found
        low, high = poly_range(self.ring, p)
        sign = Sign.NONNEGATIVE if poly_sign(self.ring, p) is not Sign.UNKNOWN else Sign.UNKNOWN
        ends = (None if end is None else floor_of(end) for end in (low, high))
        atom = self.forms.application("floor", (p,), sign, integer=True, **dict(zip(("low", "high"), ends)))
        return {self.ring.atom_term(atom): 1}

    def _of_extremes(self, p: Poly) -> Poly | None:
        """Of a max-min expression: the floor of its arguments."""
        return self.lattice.image(p, self.floor)

    def _of_wraps(self, p: Poly) -> Poly | None:
        """floor((n * wrap(y, b) + ...) / 2^b): y less 2^b floor(y / 2^b), of which the second part is whole."""
        ring = self.ring
        for t, c in p.items():
            powers = ring.powers[t]
            known = self.wraps.get(powers[0][0]) if len(powers) == 1 and powers[0][1] == 1 and not ring.exponent[t] else None
            if known is None or known[1] < 0 or mpq(c).denominator != 1 << known[1]:
                continue
            y, bits = known
            rest = {s: d for s, d in p.items() if s != t}
            add_into(rest, y, c)
            result = self.floor(rest)
            add_into(result, self.floor({s: small(mpq(d, 1 << bits)) for s, d in y.items()}), small(-c * (1 << bits)))
            return result
        return None

    def inner_floor(self, term: int) -> Poly | None:
        """The argument of a term that is a floor."""
        powers = self.ring.powers[term]
        if self.ring.exponent[term] or len(powers) != 1 or powers[0][1] != 1 or self.ring.atoms[powers[0][0]].name != "floor":
            return None
        return self.ring.atoms[powers[0][0]].args[0]

    def _of_inner_floor(self, p: Poly) -> Poly | None:
        """floor((n + floor y) / k) = floor((n + y) / k) for integers n and k > 0."""
        k = self._denominator(p)
        for t in sorted(p, reverse=True):
            inner = self.inner_floor(t) if p[t] * k in (1, -1) else None
            if inner is None:
                continue
            others = {s: small(mpq(c) * k) for s, c in p.items() if s != t}
            if not integral(self.ring, others):
                continue
            if p[t] < 0 and k == 2 and any(s != ONE_TERM for s in others):
                continue  # stays in sight: ((x - t) / 2 + t) / n, where t is a floor itself, is how compilers divide by some constants
            if p[t] > 0:
                add_into(others, inner)
            else:  # -floor(n / d) = floor((d - 1 - n) / d)
                d = self._denominator(inner)
                if not integral(self.ring, {s: small(mpq(c) * d) for s, c in inner.items()}):
                    continue
                add_into(others, inner, -1)
                add_into(others, {ONE_TERM: 1 - mpq(1, d)})
            return self.floor({s: small(mpq(c) / k) for s, c in others.items()})
        return None

    def _denominator(self, p: Poly) -> int:
        """The least common denominator of all coefficients."""
        return lcm(*(int(mpq(c).denominator) for c in p.values()))

    # --- quotients of integers --------------------------------------------------------------------

    def _of_integers(self, p: Poly) -> Poly | None:
        """floor(a * P) for an integer P: oriented, and by a simpler fraction than a that rounds alike over P's range."""
        a = mpq(rational_content(p))
        value = {t: small(mpq(c) / a) for t, c in p.items()}
        if not integral(self.ring, value):
            return None
        if value[min(t for t in value if t != ONE_TERM)] < 0:  # floor(n / d) = -floor((d - 1 - n) / d)
            turned = negated(p)
            add_into(turned, {ONE_TERM: 1 - mpq(1, a.denominator)})
            return negated(self.floor(turned))
        low, high = self._known_range(value)
        if low is None or high is None:
            return None
        if floor_of(a * low) == floor_of(a * high):
            return self.forms.rational(floor_of(a * low))
        if low >= -1 and high <= 0 and a <= 1:
            return value
        return self._by_division(value, a, low, high)

    def _known_range(self, value: Poly) -> Range:
        """The range of an integer, by what is assumed in the case at hand too."""
        ranges = [poly_range(self.ring, value), self.forms.assumed_range(value)]
        if self.forms.sign(value) is not Sign.UNKNOWN:
            ranges.append((0, None))
        if self.forms.sign(negated(value)) is not Sign.UNKNOWN:
            ranges.append((None, 0))
        lows, highs = ([end for r in ranges if (end := r[side]) is not None] for side in (0, 1))
        return max(lows, default=None), min(highs, default=None)

    def _by_division(self, value: Poly, a: mpq, low: Coef, high: Coef) -> Poly | None:
        """floor(a * P) as a division, where a is a rounded-up reciprocal (or multiple of one)."""
        for b in _from_below(a):
            if (a - b) * max(high, 0) < mpq(1, b.denominator) and (a - b) * -min(low, 0) <= mpq(1, b.denominator):
                break
        if b == a or b.denominator**2 > a.denominator:
            return None
        quotient = {t: small(c * b) for t, c in value.items() if c * b}
        if low >= 0:
            return self.floor(quotient)
        if high <= 0:  # just below the quotient
            return self.forms.add(self.ceil(quotient), self._negative(value), -1)
        if not b:
            return negated(self._negative(value))
        above = _just_above(b, low, high)
        return None if a == above else self.floor({t: small(c * above) for t, c in value.items()})

    def _negative(self, value: Poly) -> Poly:
        return positive(self.forms, negated(value))

    def _towards_zero(self, value: Poly, b: mpq) -> Poly:
        """trunc(b * P) of an integer P of unknown sign, b = n/d > 0: floor(b' * P) + [P < 0] with b' just above b; where the range
        of P is not known, floor((n * P + (d - 1) * [P < 0]) / d)."""
        low, high = poly_range(self.ring, value)
        if low is not None and high is not None:
            above = _just_above(b, low, high)
            return self.forms.add(self.floor({t: small(c * above) for t, c in value.items()}), self._negative(value))
        scaled: Poly = {t: small(c * b) for t, c in value.items()}
        add_into(scaled, self._negative(value), small(1 - mpq(1, b.denominator)))
        return self.floor(scaled)

    def ceil(self, p: Poly) -> Poly:
        """ceil p = -floor(-p)."""
        return negated(self.floor(negated(p)))

    # --- towards zero, to even ----------------------------------------------------------------------

    def rounded(self, name: str, p: Poly) -> Poly:
        """trunc or round to even: the identity on integers, odd, non-decreasing."""
        p = self.forms.argument(p)
        if integral(self.ring, p):
            return p
        if name == "trunc" and self.forms.sign(p) is not Sign.UNKNOWN:
            return self.floor(p)
        if name == "trunc" and self.forms.sign(negated(p)) is not Sign.UNKNOWN:
            return self.ceil(p)
        if name != "trunc" and (even := self._even_part(p)):
            return self.forms.add(even, self.rounded(name, self.forms.add(p, even, -1)))
        at = trunc_of if name == "trunc" else to_even
        for found in (signwise(self.forms, p, at), self.lattice.image(p, lambda q: self.rounded(name, q))):
            if found is not None:
                return found
        if name == "trunc" and (quotient := self._quotient(p)) is not None:
            return quotient
        turned = p[max(p)] < 0
        p = negated(p) if turned else p
        low, high = (None if end is None else at(mpq(end)) for end in poly_range(self.ring, p))
        sign = Sign.NONNEGATIVE if poly_sign(self.ring, p) is not Sign.UNKNOWN else Sign.UNKNOWN
        atom = self.forms.application(name, (p,), sign, integer=True, low=low, high=high)
        return {self.ring.atom_term(atom): -1 if turned else 1}

    def _even_part(self, p: Poly) -> Poly:
        """The even integers that a value is a sum with: they come out of rounding to even, odd ones do not."""
        even: Poly = {}
        for t, c in p.items():
            if t == ONE_TERM:
                add_into(even, self.forms.rational(2 * floor_of(mpq(c) / 2)))
            elif c % 2 == 0 and integral(self.ring, {t: c}):
                even[t] = c
        return even

    def _quotient(self, p: Poly) -> Poly | None:
        """trunc of an integer by a constant."""
        b = mpq(rational_content(p))
        value = {t: small(mpq(c) / b) for t, c in p.items()}
        if not integral(self.ring, value):
            return None
        return self._towards_zero(value, b)

    # --- ranges -------------------------------------------------------------------------------------

    def range_of(self, p: Poly) -> Range:
        """An interval of an integer: with floors near their arguments (u - floor(u/3) is not negative), and through maxima."""
        slack_low, slack_high = mpq(0), mpq(0)
        near: Poly = {}
        for t, c in p.items():
            inner = self.inner_floor(t)
            if inner is None:
                add_into(near, {t: c})
                continue
            add_into(near, inner, c)
            slack_low, slack_high = (slack_low - c, slack_high) if c > 0 else (slack_low, slack_high - c)
        low, high = self._known_range(near)
        return (
            None if low is None else -floor_of(-(low + slack_low)) if slack_low == 0 else floor_of(low + slack_low) + 1,
            None if high is None else floor_of(high + slack_high) if slack_high == 0 else -floor_of(-(high + slack_high)) - 1,
        )


def negated(poly: Poly) -> Poly:
    """-p."""
    return {t: -c for t, c in poly.items()}


def floor_of(value: Coef) -> int:
    """The greatest integer that is no greater."""
    q = mpq(value)
    return int(q.numerator // q.denominator)


def trunc_of(value: Coef) -> int:
    """The nearest integer towards zero."""
    return floor_of(value) if value >= 0 else -floor_of(-value)


def to_even(value: Coef) -> int:
    """The nearest integer, the even one of two."""
    low = floor_of(value)
    rest = mpq(value) - low
    return low + (1 if 2 * rest > 1 or (2 * rest == 1 and low % 2) else 0)


def _just_above(b: mpq, low: Coef, high: Coef) -> mpq:
    """A fraction so little above b that multiples of it up to the bounds have the floor of those of b, less one below zero."""
    bits = int(max(abs(low), abs(high)) * b.denominator).bit_length() + 1
    return b + mpq(1, 1 << 2 * bits)


def _from_below(a: mpq) -> Iterator[mpq]:
    """The convergents of a positive rational that do not exceed it, ending with itself."""
    p, q, p1, q1 = 0, 1, 1, 0  # h(-2), k(-2), h(-1), k(-1)
    rest: mpq | None = a
    number = 0
    while rest is not None:
        whole = floor_of(rest)
        p, q, p1, q1 = p1, q1, whole * p1 + p, whole * q1 + q
        if number % 2 == 0 or p1 == a * q1:
            yield mpq(p1, q1)
        rest = 1 / (rest - whole) if rest != whole else None
        number += 1
