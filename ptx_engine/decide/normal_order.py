"""Maxima, comparisons and selections in normal form.

A maximum is a set: nested maxima are flattened, equal and dominated arguments dropped, a common shift and a common
positive scale pulled out (max(s*a + c, s*b + c) = s*max(a, b) + c), so that min(a, b) = -max(-a, -b) = a + b - max(a, b)
and |x| = 2*max(x, 0) - x come out by themselves. Expressions that mix max and min over at most 16 values are decided by
their truth table (a lattice identity holds over a chain if it holds over {0, 1}). A condition is a 0/1 atom over the sign
of one polynomial, and a selection c ? a : b is b + c*(a - b).
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from gmpy2 import mpq

from ptx_engine.decide.normal_content import divided, positive_content
from ptx_engine.decide.normal_forms import Forms
from ptx_engine.decide.normal_ring import ONE_TERM, Atom, Coef, Kind, Poly, Sign, add_into, small
from ptx_engine.decide.normal_sign import integral, poly_range, poly_sign

_LEAST_LIMIT = 8  # of more arguments the usual coefficients are pulled out, not the least ones (a shorter form)
_DOMINATION_LIMIT = 12  # maxima of at most so many arguments are searched for dominated ones


def is_nonnegative(forms: Forms, poly: Poly) -> bool:
    """Whether a value is shown to be >= 0."""
    return forms.sign(poly) is not Sign.UNKNOWN or _is_range(forms, poly)


def _is_range(forms: Forms, poly: Poly) -> bool:
    """Whether a value is a maximum less a minimum that have an argument in common: max(S) + max(-T)."""
    ring = forms.ring
    if len(poly) != 2 or any(ring.exponent[t] or len(ring.powers[t]) != 1 or ring.powers[t][0][1] != 1 for t in poly):
        return False
    (first, c), (second, d) = ((ring.atoms[ring.powers[t][0][0]], c) for t, c in poly.items())
    if c != d or c < 0 or not first.kind is second.kind is Kind.MAXIMUM:
        return False
    values = {forms.key(value) for value in first.args}
    return any(forms.key({t: -c for t, c in value.items()}) in values for value in second.args)


class Maxima:
    """Maxima over interned arguments."""

    def __init__(self, forms: Forms) -> None:
        self.forms = forms
        # numbers stand in the keys of atoms, which outlive this table: they are the ring's
        self._values, self._ids = forms.arguments.values, forms.arguments.ids
        self._negative, self._scales, self._primitive = forms.arguments.negative, forms.arguments.scales, forms.arguments.primitive
        self._memo: dict[frozenset[int], Poly] = {}

    def intern(self, poly: Poly) -> int:
        """The number of a canonical argument."""
        key = self.forms.key(poly)
        found = self._ids.get(key)
        if found is None:
            found = self._ids[key] = len(self._values)
            self._values.append(poly)
            scale = positive_content(self.forms.ring, poly, strictly=False) if poly else (1, ONE_TERM)
            self._scales.append(scale)
            self._primitive.append(-1)
            if any(c < 0 for c in poly.values()):
                self._negative.add(found)
        return found

    def value(self, number: int) -> Poly:
        """The polynomial of an argument."""
        return self._values[number]

    def negative(self, number: int) -> int:
        """The number of an argument's negative."""
        return self.intern({t: -c for t, c in self._values[number].items()})

    def of(self, members: frozenset[int]) -> Poly:
        """The normal form of the maximum of a set of arguments."""
        found = self._memo.get(members)
        if found is None:
            self.forms.meter.spend(len(members))
            found = self._memo[members] = self._build(members)
        return found

    def _build(self, members: frozenset[int]) -> Poly:
        if len(members) <= _DOMINATION_LIMIT:
            members = self._undominated(members)
        if len(members) == 1:
            return self._values[next(iter(members))]
        ordered, shift, coef, unit = self.normalised(sorted(members))
        atom = self._atom(frozenset(ordered))
        result = dict(shift)
        add_into(result, {self.forms.ring.mul(unit, self.forms.ring.atom_term(atom)): coef})
        return result

    def normalised(self, ordered: list[int]) -> tuple[list[int], Poly, Coef, int]:
        """Arguments without their common shift and positive scale: argument[i] = shift + coef * unit * result[i]."""
        shifted, shift = self._shift(ordered)
        scaled, coef, unit = self._scale(shifted)
        return scaled, shift, coef, unit

    def _undominated(self, members: frozenset[int]) -> frozenset[int]:
        kept = sorted(members)
        for m in sorted(members):
            for other in kept:
                if other != m and is_nonnegative(self.forms, self.forms.add(self._values[other], self._values[m], -1)):
                    kept.remove(m)
                    break
        return frozenset(kept)

    def _shift(self, ordered: list[int]) -> tuple[list[int], Poly]:
        """Arguments less their termwise minimum, or of many less what most have: the same whatever is added to all of them."""
        least = self._least(ordered) if len(ordered) <= _LEAST_LIMIT else self._usual(ordered)
        if not least:
            return ordered, {}
        add = self.forms.add
        self.forms.meter.spend(sum(len(self._values[m]) for m in ordered))
        return [self.intern(add(self._values[m], least, -1)) for m in ordered], least

    def _usual(self, ordered: list[int]) -> Poly:
        """Per term the coefficient that most arguments have (0 where they lack it; the least of those that stand equally often),
        without zeros. It moves with any shift of all arguments, as the least one does, but where each argument has a term of its
        own (a minimum is the maximum of negatives) it leaves them short."""
        counts: dict[int, dict[Coef, int]] = {}
        for m in ordered:
            for t, c in self._values[m].items():
                found = counts.setdefault(t, {})
                found[c] = found.get(c, 0) + 1
        usual: Poly = {}
        for t, found in counts.items():
            absent = len(ordered) - sum(found.values())
            if absent:
                found[0] = absent
            most = max(found.values())
            coef = min(c for c, count in found.items() if count == most)
            if coef:
                usual[t] = coef
        return usual

    def _least(self, ordered: list[int]) -> Poly:
        """Per term the least coefficient over all arguments (0 where an argument lacks the term), without zeros."""
        values = self._values
        common = set(values[ordered[0]])
        for m in ordered[1:]:
            common.intersection_update(values[m])
            if not common:
                break
        least: Poly = {}
        for t in common:
            coef = min(values[m][t] for m in ordered)
            if coef:
                least[t] = coef
        if not self._negative.isdisjoint(ordered):
            for m in ordered:
                if m in self._negative:
                    for t, c in values[m].items():
                        if c < 0 and c < least.get(t, 0):
                            least[t] = c
        return least

    def _scale(self, members: list[int]) -> tuple[list[int], Coef, int]:
        """Arguments without their common positive factor, and the factor."""
        nonzero = [m for m in members if self._values[m]]
        first_unit = self._scales[nonzero[0]][1]
        unit = first_unit if all(self._scales[m][1] == first_unit for m in nonzero) else ONE_TERM
        contents = {self._scales[m][0] for m in nonzero}
        coef = contents.pop() if len(contents) == 1 else _common(contents)
        if unit == ONE_TERM and coef == 1:
            return members, 1, ONE_TERM
        return [self._divided(m, coef, unit) for m in members], coef, unit

    def _divided(self, m: int, coef: Coef, unit: int) -> int:
        if not self._values[m]:
            return m
        whole = self._scales[m] == (coef, unit)
        if whole and self._primitive[m] >= 0:
            return self._primitive[m]
        number = self.intern(divided(self.forms.ring, self._values[m], coef, unit))
        if whole:
            self._primitive[m] = number
        return number

    def _atom(self, members: frozenset[int]) -> int:
        key = ("max", members)
        found = self.forms.ring.find(key)
        if found is not None:
            return found
        values = tuple(self._values[m] for m in sorted(members))
        sign, low, high = self._bounds(values)
        integer = len(values) <= _DOMINATION_LIMIT and all(integral(self.forms.ring, v) for v in values)
        make = Atom(Kind.MAXIMUM, sign, args=values, integer=integer, low=low, high=high)
        return self.forms.ring.atom(key, make)

    def _bounds(self, values: tuple[Poly, ...]) -> tuple[Sign, Coef | None, Coef | None]:
        ring = self.forms.ring
        if len(values) > _DOMINATION_LIMIT:
            return (Sign.NONNEGATIVE if {} in values else Sign.UNKNOWN), None, None
        signs = {poly_sign(ring, v) for v in values}  # not what is assumed: atoms outlive a case
        sign = next((s for s in (Sign.POSITIVE, Sign.NONNEGATIVE) if s in signs), Sign.UNKNOWN)
        ranges = [poly_range(ring, v) for v in values]
        lows = [low for low, _ in ranges if low is not None]
        highs = [high for _, high in ranges]
        return sign, max(lows) if lows else None, None if None in highs else max(h for h in highs if h is not None)


def _common(contents: set[Coef]) -> Coef:
    """The greatest rational that divides all into integers."""
    numerator, denominator = 0, 1
    for c in contents:
        q = mpq(c)
        numerator = gcd(numerator, int(q.numerator))
        denominator = denominator * int(q.denominator) // gcd(denominator, int(q.denominator))
    return small(mpq(numerator, denominator))


# --- conditions ---------------------------------------------------------------------------------


def positive(forms: Forms, poly: Poly) -> Poly:
    """The 0/1 value of poly > 0."""
    poly = forms.argument(forms.of_one_sign(forms.argument(poly)))
    sign, negated = forms.sign(poly), forms.sign({t: -c for t, c in poly.items()})
    if sign is Sign.POSITIVE:
        return {ONE_TERM: 1}
    if negated is not Sign.UNKNOWN:
        return {}
    oriented, flipped = _oriented(forms, poly)
    if not flipped:
        return _indicator(forms, "positive", oriented)
    # -p > 0 is neither p > 0 nor p = 0
    result: Poly = {ONE_TERM: 1}
    add_into(result, _indicator(forms, "positive", oriented), -1)
    add_into(result, zero(forms, oriented), -1)
    return result


def zero(forms: Forms, poly: Poly) -> Poly:
    """The 0/1 value of poly == 0."""
    poly = forms.argument(forms.of_one_sign(forms.argument(poly)))
    if not poly:
        return {ONE_TERM: 1}
    signs = forms.sign(poly), forms.sign({t: -c for t, c in poly.items()})
    if Sign.POSITIVE in signs:
        return {}
    if Sign.UNKNOWN not in signs:
        return {ONE_TERM: 1}
    oriented, _ = _oriented(forms, poly)
    return _indicator(forms, "zero", oriented)


def _oriented(forms: Forms, poly: Poly) -> tuple[Poly, bool]:
    """The polynomial without its positive scale and with a positive last coefficient; whether the sign was turned."""
    poly = forms.scaled(poly)
    if poly[max(poly)] < 0:
        return {t: -c for t, c in poly.items()}, True
    return poly, False


def _indicator(forms: Forms, name: str, poly: Poly) -> Poly:
    make = Atom(Kind.INDICATOR, Sign.NONNEGATIVE, poly, name=name, integer=True, low=0, high=1)
    return {forms.ring.atom_term(forms.ring.atom((name, forms.key(poly)), make)): 1}


# --- values of conditions -----------------------------------------------------------------------


def signwise(forms: Forms, poly: Poly, function: Callable[[Coef], int]) -> Poly | None:
    """A function of a value that depends on the sign of one polynomial only: applied to its three values. None for any other."""
    ring, subjects = forms.ring, set()
    for t in poly:
        for a, k in ring.powers[t]:
            if ring.atoms[a].kind is not Kind.INDICATOR or k != 1 or ring.exponent[t]:
                return None
            subjects.add(forms.key(ring.atoms[a].definition or {}))
    if len(subjects) != 1:
        return None
    p = dict(subjects.pop())
    values = []
    for holds in ("positive", "zero", ""):
        total = sum(c for t, c in poly.items() if all(ring.atoms[a].name == holds for a, _ in ring.powers[t]))
        values.append(function(total))
    above, at, below = values
    result = forms.rational(below)
    add_into(result, _indicator(forms, "positive", p), above - below)
    add_into(result, _indicator(forms, "zero", p), at - below)
    return {t: c for t, c in result.items() if c}
