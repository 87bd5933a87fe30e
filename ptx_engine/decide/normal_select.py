"""Selections in normal form: c ? a : b is b + c * (a - b), unless the sign of one value chooses.

Where a condition is the sign of p and the values differ by a multiple of p, the selection is a maximum or a minimum. Where it
compares two extremes and chooses what came with the larger one, the smaller of two numbers at a tie, it is the position of the
extreme over both sets (``Kind.FUNCTION`` atoms "argmax" over pairs), whatever the shape of the reduction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from gmpy2 import mpq

from ptx_engine.decide.budget import BudgetSpent
from ptx_engine.decide.normal_forms import Forms
from ptx_engine.decide.normal_lattice import Lattice
from ptx_engine.decide.normal_order import positive
from ptx_engine.decide.normal_ring import ONE_TERM, Atom, Coef, Kind, Poly, PolyKey, Sign, add_into, small
from ptx_engine.decide.normal_sign import term_sign

#: two values that a condition compares
Compared = tuple[Poly, Poly]
#: a value of a set of candidates (the number of the argument) and what is chosen with it
Entry = tuple[int, PolyKey]
_TRUE: Poly = {ONE_TERM: 1}
#: conditions of more terms are not taken apart, and larger sets of positions are not joined
_TERMS, _ENTRIES = 16, 1 << 14
#: selections of one form that are remembered
_CHOICES = 4
#: term operations that recognising one selection may cost
_WORK = 50_000


@dataclass(frozen=True, slots=True)
class Signs:
    """A condition's value where a polynomial p is positive, zero and negative; over no sign of p any more."""

    p: Poly
    above: Poly
    at: Poly
    below: Poly


class Selections:
    """Selects over the normal forms of one ``Forms``."""

    def __init__(self, forms: Forms, lattice: Lattice) -> None:
        self.forms, self.lattice = forms, lattice
        #: atoms that are positions of a maximum -> the sets they are over
        self._positions: dict[int, tuple[frozenset[Entry], ...]] = {}
        #: forms, less their constants, that are positions of a maximum of two -> the sets they are over
        self._pairs: dict[PolyKey, tuple[frozenset[Entry], ...]] = {}
        #: forms of selections -> the condition, both values, and what the condition compares; of several selections that have one form
        self._choices: dict[PolyKey, list[tuple[Poly, Poly, Poly, tuple[Compared, ...]]]] = {}

    def select(self, condition: Poly, a: Poly, b: Poly, compared: Iterable[Compared] = ()) -> Poly:
        """condition ? a : b; ``compared`` are the values that the condition compares, where they are known."""
        forms = self.forms
        difference = forms.add(a, b, -1)
        if not difference or not condition:
            return b
        if condition == _TRUE:
            return a
        result = self._recognised(condition, a, b, difference, compared)
        if result is None:
            result = dict(b)
            add_into(result, forms.product(condition, difference))
        if len(result) <= _TERMS:
            known = self._choices.setdefault(forms.key(result), [])
            if len(known) < _CHOICES:
                known.append((condition, a, b, tuple(compared)))
        return result

    def _recognised(self, condition: Poly, a: Poly, b: Poly, difference: Poly, compared: Iterable[Compared]) -> Poly | None:
        """The selection as an extreme or as a position, if it is one that is found with little work."""
        try:
            with self.forms.meter.at_most(_WORK):
                signs = [s for p in self._subjects(condition) if (s := self._by_sign(condition, p)) is not None]
                extremes = (self._extreme(s, a, b, difference) for s in signs)
                positions = (self._position(s, a, b, compared) for s in signs)
                ties = (self._tie(p, condition, a, b, compared) for p in self._subjects(condition))
                return next((found for found in chain(extremes, positions, ties) if found is not None), None)
        except BudgetSpent:
            self.forms.meter.resume()
            return None

    # --- conditions by the sign of a value --------------------------------------------------------

    def _subjects(self, condition: Poly) -> list[Poly]:
        """The polynomials whose signs a condition is made of; none if it is anything else or long."""
        ring = self.forms.ring
        found: dict[PolyKey, Poly] = {}
        if len(condition) > _TERMS:
            return []
        for t in condition:
            for a, k in ring.powers[t]:
                p = ring.atoms[a].definition
                if ring.atoms[a].kind is not Kind.INDICATOR or k != 1 or p is None or ring.exponent[t]:
                    return []
                found[self.forms.key(p)] = p
        return list(found.values())

    def _by_sign(self, condition: Poly, p: Poly) -> Signs | None:
        """The condition in the three cases; None unless it is decided, true and false in one way or the other, off p = 0."""
        above, at, below = (self._in_case(condition, p, holds) for holds in ("positive", "zero", ""))
        decided = (above, below) in ((_TRUE, {}), ({}, _TRUE))
        return Signs(p, above, at, below) if decided else None

    def _in_case(self, condition: Poly, p: Poly, holds: str) -> Poly:
        """The condition where p is positive, zero or ("") negative."""
        ring, key = self.forms.ring, self.forms.key(p)
        names = {ring.find((name, key)): name for name in ("positive", "zero")}
        total: Poly = {}
        for t, c in condition.items():
            powers = ring.powers[t]
            if all(names[a] == holds for a, _ in powers if a in names):
                rest = ring.term(tuple((a, k) for a, k in powers if a not in names))
                add_into(total, {rest: c})
        return total

    # --- maxima and minima ----------------------------------------------------------------------

    def _extreme(self, case: Signs, a: Poly, b: Poly, difference: Poly) -> Poly | None:
        """The selection where the values differ by a multiple of p: what is chosen at p = 0 is then immaterial."""
        forms = self.forms
        factor = quotient(forms, forms.argument(difference), case.p)
        if factor is None:
            return None
        inside, outside = case.above.get(ONE_TERM, 0), case.below.get(ONE_TERM, 0)
        ((term, coef),) = factor.items()
        if term_sign(forms.ring, term) is not Sign.UNKNOWN:
            parts = [self.lattice.argument(forms.argument(v)) for v in (a, b)]
            return self.lattice.value(self.lattice.join("max" if coef * (inside - outside) > 0 else "min", parts))
        relu = self.lattice.value(self.lattice.join("max", [self.lattice.argument(case.p), self.lattice.argument({})]))
        result = dict(b)
        add_into(result, forms.product(factor, relu), inside - outside)
        add_into(result, forms.product(factor, case.p), outside)
        return result

    # --- positions of maxima ----------------------------------------------------------------------

    def _tie(self, p: Poly, condition: Poly, a: Poly, b: Poly, compared: Iterable[Compared]) -> Poly | None:
        """The position where selections in selections settle it: p > 0 ? i : p = 0 ? min(i, j) : j, in any order, as compilers write
        p > 0 or p = 0 and i < j ? i : j."""
        seen = list(compared)
        above, at, below = (self._under(p, holds, condition, a, b, seen) for holds in ("positive", "zero", ""))
        if above is None or at is None or below is None or above == below:
            return None
        return self._position(Signs(p, _TRUE, {}, {}), above, below, seen, at)

    def _under(self, p: Poly, holds: str, condition: Poly, a: Poly, b: Poly, compared: list[Compared]) -> Poly | None:
        """What is chosen where p is positive, zero or ("") negative, through selections by p in selections; adds what these compare. A
        value may be one of its own choices: relu(x) is x > 0 ? relu(x) : 0, too."""
        passed: set[PolyKey] = set()
        while True:
            case = self._in_case(condition, p, holds)
            if case not in (_TRUE, {}):
                return None
            value = a if case else b
            key = self.forms.key(value)
            known = [] if key in passed else self._choices.get(key, [])
            passed.add(key)
            inner = next((choice for choice in known if p in self._subjects(choice[0])), None)
            if inner is None:
                return value
            condition, a, b, more = inner
            compared += more

    def _position(self, case: Signs, a: Poly, b: Poly, compared: Iterable[Compared], tie: Poly | None = None) -> Poly | None:
        """The position of the maximum over the union of two sets, if the condition compares their maxima and settles ties; ``tie`` is
        chosen there in the place of what the condition says."""
        for first, second in compared:
            for x, y, sign in ((first, second, 1), (second, first, -1), (second, first, 1), (first, second, -1)):
                # a is chosen where sign * (x - y) > 0
                if not self._orders(case, x, y, sign):
                    continue
                left, right = self._set(x, a, sign), self._set(y, b, sign)
                if left is None or right is None or len(left) + len(right) > _ENTRIES:
                    continue
                least = self._first_at_ties(case.at, a, b, left, right) if tie is None else self._least(tie, a, b, left, right)
                if least:
                    return self._joined(left | right)
        return None

    def _orders(self, case: Signs, x: Poly, y: Poly, sign: int) -> bool:
        """Whether the condition holds where sign * (x - y) is positive and fails where it is negative."""
        forms = self.forms
        difference = forms.argument(forms.add(x, y, -1))
        if not difference:
            return False
        scaled = forms.scaled(difference)
        same = scaled == case.p
        if not same and {t: -c for t, c in scaled.items()} != case.p:
            return False
        return (case.above == _TRUE) == (same == (sign > 0))

    def _set(self, value: Poly, chosen: Poly, sign: int) -> frozenset[Entry] | None:
        """The set that ``chosen`` is a position in and ``value`` the maximum (minimum) of."""
        formula = self.lattice.argument(self.forms.argument(value))
        members = self.lattice.members(formula, "max" if sign > 0 else "min")
        if members is None:
            return None
        if sign < 0:
            members = frozenset(self.lattice.maxima.negative(m) for m in members)
        known = self._known(chosen)
        if known:
            return next((entries for entries in known if {m for m, _ in entries} == members), None)
        return frozenset({(next(iter(members)), self.forms.key(chosen))}) if len(members) == 1 else None

    def _known(self, chosen: Poly) -> tuple[frozenset[Entry], ...]:
        """The sets that a value is a position over: an atom, and a constant added to all positions."""
        ring, shift = self.forms.ring, chosen.get(ONE_TERM, 0)
        terms = [t for t in chosen if t != ONE_TERM]
        pair = self._pairs.get(self.forms.key({t: chosen[t] for t in terms})) if terms else None
        if pair is not None:
            return tuple(self._shifted(entries, shift) for entries in pair)
        if len(terms) != 1 or chosen[terms[0]] != 1:
            return ()
        powers = ring.powers[terms[0]]
        known = self._positions.get(powers[0][0], ()) if len(powers) == 1 and powers[0][1] == 1 else ()
        return tuple(self._shifted(entries, shift) for entries in known)

    def _shifted(self, entries: frozenset[Entry], shift: Coef) -> frozenset[Entry]:
        if not shift:
            return entries
        return frozenset((m, self.forms.key(self.forms.add(dict(key), {ONE_TERM: shift}))) for m, key in entries)

    def _first_at_ties(self, tie: Poly, a: Poly, b: Poly, left: frozenset[Entry], right: frozenset[Entry]) -> bool:
        """Whether the smaller position is taken at a tie: by comparing them, or since one set precedes the other."""
        if tie in (_TRUE, {}):
            first, second = (left, right) if tie else (right, left)
            ends = [_constants(entries) for entries in (first, second)]
            return ends[0] is not None and ends[1] is not None and max(ends[0]) <= min(ends[1])
        less = positive(self.forms, self.forms.add(b, a, -1))
        more = self.forms.add(_TRUE, positive(self.forms, self.forms.add(a, b, -1)), -1)
        return tie in (less, more)

    def _least(self, tie: Poly, a: Poly, b: Poly, left: frozenset[Entry], right: frozenset[Entry]) -> bool:
        """Whether a value is the smaller one of two positions: one of them, if its set precedes the other, or their minimum."""
        if tie in (a, b):
            return self._first_at_ties(_TRUE if tie == a else {}, a, b, left, right)
        parts = [self.lattice.argument(self.forms.argument(v)) for v in (a, b)]
        return tie == self.lattice.value(self.lattice.join("min", parts))

    def _joined(self, entries: frozenset[Entry]) -> Poly:
        """The position of the maximum over a set of pairs, the least one at ties. Of two values it is also that of the minimum
        with the values exchanged: which of the two is meant shows only when it is joined to others."""
        first = min(_constants(entries) or [0])
        entries = self._shifted(entries, -first)
        spellings = [entries]
        if len(entries) == 2:
            (x, a), (y, b) = entries
            spellings.append(frozenset({(self.lattice.maxima.negative(y), a), (self.lattice.maxima.negative(x), b)}))
            spellings.sort(key=lambda both: sorted(m for m, _ in both))
            entries = spellings[0]
        ends = _constants(entries)
        if ends is not None and len(entries) == 2:
            return self._pair(entries, tuple(spellings), first)
        args = tuple(v for m, key in sorted(entries, key=str) for v in (self.lattice.maxima.value(m), dict(key)))
        integer = ends is not None and all(c == int(c) for c in ends)
        low, high = (min(ends), max(ends)) if ends else (None, None)
        sign = Sign.NONNEGATIVE if low is not None and low >= 0 else Sign.UNKNOWN
        make = Atom(Kind.FUNCTION, sign, name="argmax", args=args, integer=integer, low=low, high=high)
        atom = self.forms.ring.atom(("argmax", entries), make)
        self._positions[atom] = tuple(spellings)
        return self.forms.add({self.forms.ring.atom_term(atom): 1}, self.forms.rational(first))

    def _pair(self, entries: frozenset[Entry], spellings: tuple[frozenset[Entry], ...], first: Coef) -> Poly:
        """One of two constant positions, the first of them zero: a multiple of a condition, as any selection of two constants,
        which the normal form is to know as such; what it may be joined with is kept by its form."""
        (_, x), (last, y) = sorted(((dict(key).get(ONE_TERM, 0), m) for m, key in entries))
        value = self.lattice.maxima.value
        result: Poly = {}
        add_into(result, positive(self.forms, self.forms.add(value(y), value(x), -1)), last)
        shift = result.get(ONE_TERM, 0)
        key = self.forms.key({t: c for t, c in result.items() if t != ONE_TERM})
        self._pairs[key] = tuple(self._shifted(both, -shift) for both in spellings)
        return self.forms.add(result, self.forms.rational(first))


def _constants(entries: frozenset[Entry]) -> list[Coef] | None:
    """The positions of a set, if they are constants."""
    if all(len(key) <= 1 and all(t == ONE_TERM for t, _ in key) for _, key in entries):
        return [dict(key).get(ONE_TERM, 0) for _, key in entries]
    return None


def quotient(forms: Forms, poly: Poly, p: Poly) -> Poly | None:
    """q with poly = q * p for a single term q, or None."""
    ring = forms.ring
    if len(poly) != len(p):
        return None
    if len(p) == 1:
        ((s, c),), ((t, d),) = poly.items(), p.items()
        q = ring.mul(s, ring.power(t, -1))
        return {q: small(mpq(c) / d)} if _divides(forms, q, p) else None
    top, leading = max(poly), max(p)
    for t in (leading, *p):
        coef = small(mpq(poly[top]) / p[t])
        q = ring.mul(top, ring.power(t, -1))
        if _divides(forms, q, p) and ring.times_term(p, q, coef) == poly:
            return {q: coef}
    return None


def _divides(forms: Forms, q: int, p: Poly) -> bool:
    """Whether q divides by nothing that is zero with p: q * p at p = 0 is then zero, not undefined."""
    ring = forms.ring
    below = {a for a, k in ring.powers[q] if k < 0}
    return not below or not any(a in below and k > 0 for t in p for a, k in ring.powers[t])
