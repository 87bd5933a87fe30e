"""Expansion of normal forms: abbreviated sums are multiplied out from the last-made to the first, roots squared away.

Abbreviations only mention earlier atoms, so one pass from the highest atom down meets each of them once, with everything
that multiplies it already collected: a chain of rescaled partial sums (an online softmax) costs one step a link.
A sum in a denominator is expanded first and replaced by its unit times its primitive part.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from gmpy2 import mpq

from ptx_engine.decide.budget import Meter, Undecided
from ptx_engine.decide.normal_content import split_unit
from ptx_engine.decide.normal_difference import keeps_roots
from ptx_engine.decide.normal_ring import NO_EXP, ONE_TERM, Atom, Coef, Kind, Poly, Ring, Sign, add_into, small

PowerGroups = dict[int, Poly]
#: polynomials of at most so many terms are looked at first: there may be nothing to expand
_FEW_TERMS = 4
#: terms multiplied between two looks at the budget
_PIECE = 1 << 13


@dataclass(frozen=True, slots=True)
class Canonical:
    """``coef * unit * atom`` (``atom`` None: 1)."""

    coef: Coef
    unit: int
    atom: int | None


class Expander:
    """Expands polynomials of one ring under a meter."""

    def __init__(self, ring: Ring, meter: Meter) -> None:
        self.ring = ring
        self.meter = meter
        self._canonical: dict[int, Canonical] = {}
        self._tops: list[int] = []
        self._carried: dict[int, tuple[int, Coef]] = {}

    # --- reduction to base atoms ----------------------------------------------------------------

    def top(self, term: int) -> int:
        """The highest atom of a term that has to be replaced, or -1."""
        tops = self._tops
        while len(tops) <= term:
            tops.append(self._find_top(len(tops)))
        return tops[term]

    def _find_top(self, term: int) -> int:
        atoms = self.ring.atoms
        for a, k in reversed(self.ring.powers[term]):
            atom = atoms[a]
            if (atom.kind is Kind.SUM and not atom.frozen) or (atom.kind is Kind.ROOT and k not in (0, 1)):
                return a
            if atom.square is not None and k > 1:
                return a
        return -1

    def expand(self, poly: Poly) -> Poly:
        """The polynomial over base atoms and primitive denominators."""
        if len(poly) <= _FEW_TERMS and self._is_expanded(poly):
            return dict(poly)
        done: Poly = {}
        waiting: dict[int, Poly] = {}
        heap: list[int] = []
        self._sort_in(poly, done, waiting, heap)
        while heap:
            a = -heapq.heappop(heap)
            group = waiting.pop(a, None)
            if group:
                self.meter.spend(len(group))
                self._sort_in(self._replace(a, group), done, waiting, heap)
        return done

    def _is_expanded(self, poly: Poly) -> bool:
        carrying, exponent = self.ring.carrying, self.ring.exponent
        return all(self.top(t) < 0 and not (carrying and exponent[t] in carrying) for t in poly)

    def _sort_in(self, poly: Poly, done: Poly, waiting: dict[int, Poly], heap: list[int]) -> None:
        ring = self.ring
        carrying = ring.carrying
        for t, c in poly.items():
            if carrying and ring.exponent[t] in carrying:
                t, factor = self._carry(t)
                c = c * factor
            a = self.top(t)
            if a < 0:
                target = done
            else:
                found = waiting.get(a)
                if found is None:
                    found = waiting[a] = {}
                    heapq.heappush(heap, -a)
                target = found
            total = target.get(t, 0) + c
            if total:
                target[t] = total
            else:
                target.pop(t, None)

    def _carry(self, t: int) -> tuple[int, Coef]:
        """A term with the integer part of its exponent's constant taken out as a power of two."""
        found = self._carried.get(t)
        if found is None:
            ring = self.ring
            poly = dict(ring.exps[ring.exponent[t]])
            constant = mpq(poly.pop(ONE_TERM))
            whole = int(constant.numerator // constant.denominator)
            if abs(whole) > 1 << 16:
                raise Undecided("a power of two of more than 65536 bits")
            if constant != whole:
                poly[ONE_TERM] = constant - whole
            factor = small(mpq(2) ** whole)
            found = self._carried[t] = ring.term(ring.powers[t], ring.exp(poly) if poly else NO_EXP), factor
        return found

    def _replace(self, a: int, group: Poly) -> Poly:
        by_power = self.by_power(a, group)
        atom = self.ring.atoms[a]
        if atom.kind is Kind.ROOT:
            return self._square_away(a, by_power)
        if atom.square is not None:
            return self._by_square(a, by_power, atom.square)
        return self.replace(a, by_power)

    def replace(self, a: int, by_power: PowerGroups) -> Poly:
        """The sum of ``group[k] * a^k`` with the SUM atom a replaced."""
        definition = self.ring.atoms[a].definition
        if min(by_power) < 0 or definition is None:
            return self._replace_canonical(a, by_power)
        return self.horner(by_power, definition)

    def by_power(self, a: int, group: Poly) -> PowerGroups:
        """Group terms by their power of an atom, with the atom divided out."""
        ring = self.ring
        groups: PowerGroups = {}
        for t, c in group.items():
            powers = ring.powers[t]
            k = next((n for b, n in powers if b == a), 0)
            rest = ring.term(tuple(p for p in powers if p[0] != a), ring.exponent[t]) if k else t
            groups.setdefault(k, {})[rest] = c
        return groups

    def horner(self, by_power: PowerGroups, definition: Poly) -> Poly:
        """The sum of ``group[k] * definition^k`` (k >= 0), from the highest power down so that cancellation comes early."""
        total: Poly = {}
        for k in range(max(by_power), -1, -1):
            if total:
                total = self._times(total, definition)
            add_into(total, by_power.get(k, {}))
        return total

    def _times(self, p: Poly, q: Poly) -> Poly:
        """The product; refused at once where it exceeds the budget, and charged as it goes, so that the clock is seen."""
        self.meter.need(len(p) * len(q))
        if len(p) > len(q):
            p, q = q, p
        result: Poly = {}
        items = list(q.items()) if len(q) > _PIECE else []
        pieces = [dict(items[i : i + _PIECE]) for i in range(0, len(items), _PIECE)] or [q]
        for t, c in p.items():
            for piece in pieces:
                self.meter.spend(len(piece))
                add_into(result, self.ring.times_term(piece, t, c))
        return result

    def _square_away(self, a: int, by_power: PowerGroups) -> Poly:
        """r^k = r^(k mod 2) * radicand^(k // 2), for the radicand's abbreviation."""
        ring = self.ring
        definition = ring.atoms[a].definition
        assert definition is not None
        ((radicand, _),) = definition.items()  # a radicand is a single term: its abbreviation or an atom
        result: Poly = {}
        for k, group in by_power.items():
            factor = ring.mul(ring.atom_term(a, k % 2), ring.power(radicand, k // 2))
            add_into(result, ring.times_term(group, factor))
        return result

    def _by_square(self, a: int, by_power: PowerGroups, square: Poly) -> Poly:
        """c^k = c^(k mod 2) * square^(k // 2) for k > 1; other powers stay."""
        result: Poly = {}
        for odd in (0, 1):
            halves = {k // 2: group for k, group in by_power.items() if k % 2 == odd and k > 1}
            if halves:
                add_into(result, self.ring.times_term(self.horner(halves, square), self.ring.atom_term(a, odd)))
        for k, group in by_power.items():
            if k <= 1:
                add_into(result, self.ring.times_term(group, self.ring.atom_term(a, k)))
        return result

    # --- denominators ---------------------------------------------------------------------------

    def _replace_canonical(self, a: int, by_power: PowerGroups) -> Poly:
        form = self.canonical(a)
        ring = self.ring
        base = form.unit if form.atom is None else ring.mul(form.unit, ring.atom_term(form.atom))
        result: Poly = {}
        for k, group in by_power.items():
            coef = small(mpq(form.coef) ** k)
            add_into(result, ring.times_term(group, ring.power(base, k), coef))
        return result

    def canonical(self, a: int) -> Canonical:
        """A SUM atom as unit times primitive part over base atoms."""
        found = self._canonical.get(a)
        if found is None:
            definition = self.ring.atoms[a].definition
            assert definition is not None
            expanded = self.expand(definition)
            sign = self.ring.atoms[a].sign if keeps_roots(self.ring, definition, expanded) else Sign.UNKNOWN
            found = self._canonical[a] = self.canonical_of(expanded, sign)
        return found

    def canonical_of(self, poly: Poly, sign: Sign = Sign.UNKNOWN) -> Canonical:
        """An expanded sum as unit times primitive part, nested denominators cleared."""
        poly, unit = self.clear(poly)
        if not poly:
            raise Undecided("a denominator or argument is identically zero")
        coef, inner, primitive = split_unit(self.ring, poly)
        self.meter.spend(2 * len(poly))
        unit = self.ring.mul(unit, inner)
        if len(primitive) == 1:
            return Canonical(coef, unit, None)
        key = ("canon", frozenset(primitive.items()))
        atom = self.ring.atom(key, Atom(Kind.CANON, Sign.UNKNOWN, primitive))
        if sign is Sign.POSITIVE and coef > 0 and not self.ring.powers[unit]:
            self.ring.atoms[atom].sign = Sign.POSITIVE
        return Canonical(coef, unit, atom)

    def clear(self, poly: Poly) -> tuple[Poly, int]:
        """(numerator, unit) with poly = unit * numerator, the numerator free of primitive denominators: cross-multiplied."""
        unit = ONE_TERM
        while True:
            a = self._highest_canon(poly)
            if a < 0:
                return poly, unit
            by_power = self.by_power(a, poly)
            least = min(by_power)
            unit = self.ring.mul(unit, self.ring.atom_term(a, least))
            definition = self.ring.atoms[a].definition
            assert definition is not None
            poly = self.expand(self.horner({k - least: g for k, g in by_power.items()}, definition))

    def _highest_canon(self, poly: Poly) -> int:
        ring = self.ring
        best = -1
        for t in poly:
            for a, _ in ring.powers[t]:
                if a > best and ring.atoms[a].kind is Kind.CANON:
                    best = a
        return best

    # --- zero -----------------------------------------------------------------------------------

    def is_zero(self, poly: Poly) -> bool:
        """Whether a polynomial vanishes identically (False: not shown)."""
        return not poly or not self.remainder(poly)

    def remainder(self, poly: Poly) -> Poly:
        """The expanded numerator of a polynomial: empty if it vanishes identically."""
        expanded = self.expand(self._without_root_denominators(poly))
        return self.clear(expanded)[0] if expanded else expanded

    def _without_root_denominators(self, poly: Poly) -> Poly:
        """A multiple of the polynomial by roots it divides by (which are not zero): their radicands need not be expanded."""
        ring = self.ring
        least: dict[int, int] = {}
        for t in poly:
            for a, k in ring.powers[t]:
                if k < least.get(a, 0) and ring.atoms[a].kind is Kind.ROOT:
                    least[a] = k
        if not least:
            return poly
        return ring.times_term(poly, ring.term(tuple(sorted((a, -k) for a, k in least.items()))))
