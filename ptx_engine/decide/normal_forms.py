"""Operations on normal forms: sums that grow are abbreviated, products of small sums multiplied out, the rest kept factored."""

from __future__ import annotations

import math
import random

from gmpy2 import mpq

from ptx_engine.decide.budget import BudgetSpent, Meter, Undecided
from ptx_engine.decide.normal_content import divided, positive_content, rational_content, split_unit
from ptx_engine.decide.normal_expand import Expander
from ptx_engine.decide.normal_fold import needs_folding, vanishes_folded
from ptx_engine.decide.normal_ring import NO_EXP, ONE_TERM, Atom, Coef, Kind, Poly, PolyKey, Ring, Sign, add_into, small
from ptx_engine.decide.normal_sign import poly_sign
from ptx_engine.terms.constants import Const

#: sums of at most this many terms are merged into other sums and multiplied out
SMALL_SUM = 8
_SMALL_PRODUCT = 64
#: term operations that making one argument canonical may cost before it is compared by proof instead
_ARGUMENT_WORK = 200_000
_COMPARE_WORK = 4_000_000


class Arguments:
    """The arguments of maxima of one ring by number, with their positive contents and, where known, the number of their
    primitive part; ``negative`` are those with a negative coefficient."""

    def __init__(self) -> None:
        self.values: list[Poly] = []
        self.ids: dict[PolyKey, int] = {}
        self.negative: set[int] = set()
        self.scales: list[tuple[Coef, int]] = []
        self.primitive: list[int] = []


class Forms:
    """Builds normal forms in one ring. With ``freeze``, abbreviations of large polynomials are not expanded: a first,
    cheap attempt in which both sides' equal inner products are single atoms."""

    def __init__(self, meter: Meter, freeze: bool) -> None:
        self.ring = Ring()
        self.meter = meter
        self.expander = Expander(self.ring, meter)
        self.freeze = freeze
        self.has_frozen = False
        self.log2e = self.ring.atom("log2e", Atom(Kind.CONSTANT, Sign.POSITIVE, name="log2e"))
        self.pi = self.ring.atom("pi", Atom(Kind.CONSTANT, Sign.POSITIVE, name="pi"))
        self.log2ten = self.ring.atom("log2ten", Atom(Kind.CONSTANT, Sign.POSITIVE, name="log2(10)", low=3, high=4))
        self.arguments = Arguments()
        self.facts = {}
        self._products: dict[tuple[int, int], int] = {}
        #: long sums by identity (and what they were), with their abbreviations: a row's sum divides every element of the row
        self._abbreviations: dict[int, tuple[Poly, Poly, int, Coef]] = {}
        #: atoms of functions by name: with arguments too large to be made canonical, and all others
        self._uncompared: dict[str, list[int]] = {}
        self._compared_by_key: dict[str, list[int]] = {}
        self._samples: list[float] = []
        self._random = random.Random(20)

    @property
    def facts(self) -> dict[PolyKey, Sign]:
        """Signs assumed in a case split, by the key of the primitive polynomial."""
        return self._facts

    @facts.setter
    def facts(self, facts: dict[PolyKey, Sign]) -> None:
        self._facts = facts
        self._thresholds: dict[PolyKey, tuple[Coef, bool]] = {}
        for key, sign in facts.items():
            direction, constant = _direction(dict(key))
            if direction:
                known = self._thresholds.get(direction)
                found = constant, sign is not Sign.POSITIVE
                self._thresholds[direction] = found if known is None else min(known, found)

    # --- constants and variables ----------------------------------------------------------------

    def constant(self, const: Const) -> Poly:
        """A finite constant."""
        if const.special is not None:
            raise Undecided(f"the constant {const} reaches an output")
        if not const.coef:
            return {}
        powers = tuple((a, k) for a, k in ((self.log2e, const.log2e), (self.pi, const.pi), (self.log2ten, const.log2ten)) if k)
        exp = self.ring.exp({ONE_TERM: mpq(1, 2)}) if const.sqrt2 else NO_EXP
        return {self.ring.term(powers, exp): small(const.coef)}

    def rational(self, value: Coef) -> Poly:
        """A rational constant."""
        return {ONE_TERM: small(value)} if value else {}

    def variable(self, node: int, sign: Sign, integer: bool, low: Coef | None, high: Coef | None) -> Poly:
        """The template variable of a node."""
        atom = self.ring.atom(("var", node), Atom(Kind.VAR, sign, node=node, integer=integer, low=low, high=high))
        return {self.ring.atom_term(atom): 1}

    def placeholder(self, number: int) -> Poly:
        """A variable for a sum that is not looked into in this attempt."""
        self.has_frozen = True
        atom = self.ring.atom(("placeholder", number), Atom(Kind.SUM, Sign.UNKNOWN, frozen=True))
        return {self.ring.atom_term(atom): 1}

    # --- sums and products ----------------------------------------------------------------------

    def abbreviate(self, poly: Poly) -> tuple[int, Coef]:
        """A sum as (term, coefficient): its unit times one atom that stands for its primitive part."""
        known = self._abbreviations.get(id(poly))
        if known is not None and known[1] == poly:
            return known[2:]
        term, coef = self._abbreviate(poly)
        if len(poly) > SMALL_SUM:
            self._abbreviations[id(poly)] = poly, dict(poly), term, coef
        return term, coef

    def _abbreviate(self, poly: Poly) -> tuple[int, Coef]:
        coef, unit, primitive = split_unit(self.ring, poly)
        self.meter.spend(len(poly))
        if len(primitive) == 1:
            return unit, coef
        key = ("sum", frozenset(primitive.items()))
        atom = self.ring.find(key)
        if atom is None:
            frozen = self.freeze and len(primitive) > SMALL_SUM and all(self.ring.exponent[t] == NO_EXP for t in primitive)
            self.has_frozen = self.has_frozen or frozen
            atom = self.ring.atom(key, Atom(Kind.SUM, poly_sign(self.ring, primitive), primitive, frozen=frozen))
        return self.ring.mul(unit, self.ring.atom_term(atom)), coef

    def abbreviated(self, poly: Poly) -> Poly:
        """The sum itself if it is small, else its abbreviation."""
        if len(poly) <= SMALL_SUM:
            return poly
        term, coef = self.abbreviate(poly)
        return {term: coef}

    def product(self, p: Poly, q: Poly) -> Poly:
        """p * q; squares of sums stay squares, so that their sign shows."""
        if not p or not q:
            return {}
        if len(p) == 1 and len(q) == 1:
            ((s, c),) = p.items()
            ((t, d),) = q.items()
            return {self.ring.mul(s, t): c * d}
        if len(p) > 1 and p == q:
            term, coef = self.abbreviate(p)
            return {self.ring.power(term, 2): coef * coef}
        p, q = self.abbreviated(p), self.abbreviated(q)
        p, q = self._met(p, q), self._met(q, p)
        if len(p) * len(q) > _SMALL_PRODUCT:
            term, coef = self.abbreviate(q)
            q = {term: coef}
        self.meter.spend(len(p) * len(q))
        return self.ring.times(p, q)

    def _met(self, p: Poly, q: Poly) -> Poly:
        """A small sum abbreviated where the other factor divides by it: l * (a / l) = a at once (flash attention 1 divides by
        its running sum in every step, and multiplies by it in the next)."""
        if len(p) == 1:
            return p
        below = {a for t in q for a, k in self.ring.powers[t] if k < 0 and self.ring.atoms[a].kind is Kind.SUM}
        if not below:
            return p
        term, coef = self.abbreviate(p)
        return {term: coef} if any(a in below for a, _ in self.ring.powers[term]) else p

    def pair(self, s: int, t: int) -> int:
        """The product of two terms, remembered: inner products of inputs come up again on the other side."""
        key = (s, t) if s < t else (t, s)
        found = self._products.get(key)
        if found is None:
            found = self._products[key] = self.ring.mul(s, t)
        return found

    def reciprocal(self, p: Poly) -> Poly:
        """1 / p; the caller records the domain."""
        if not p:
            raise Undecided("division by zero")
        if len(p) == 1:
            ((term, coef),) = p.items()
        else:
            term, coef = self.abbreviate(p)
        return {self.ring.power(term, -1): small(1 / mpq(coef))}

    def add(self, p: Poly, q: Poly, factor: Coef = 1) -> Poly:
        """p + factor * q."""
        total = dict(p)
        add_into(total, q, factor)
        return total

    def sign(self, poly: Poly) -> Sign:
        """The sign shown by the polynomial itself or assumed in the case at hand."""
        poly = self.of_one_sign(poly)
        shown = poly_sign(self.ring, poly)
        if shown is Sign.POSITIVE or not self.facts or not poly:
            return shown
        found = self.facts.get(self.key(self.scaled(poly)))
        return found or (shown if shown is not Sign.UNKNOWN else self._beyond(poly) or self._assumed(poly))

    def of_one_sign(self, poly: Poly) -> Poly:
        """A polynomial of the sign of a given one: the difference of two exponentials has that of the difference of their exponents."""
        if len(poly) != 2:
            return poly
        (s, c), (t, d) = poly.items()
        ring = self.ring
        if c * d > 0 or ring.exponent[s] == ring.exponent[t]:
            return poly
        if ring.powers[s] != ring.powers[t]:
            return poly
        if any(ring.atoms[a].sign is not Sign.POSITIVE for a, _ in ring.powers[s]):
            return poly
        ratio = -mpq(c) / d
        twos = int(ratio.numerator).bit_length() - int(ratio.denominator).bit_length()
        if ratio != mpq(2) ** twos:
            return poly
        result = dict(ring.exps[ring.exponent[s]])
        add_into(result, ring.exps[ring.exponent[t]], -1)
        add_into(result, self.rational(twos))
        return result if c > 0 else {t: -c for t, c in result.items()}

    def assumed_range(self, value: Poly) -> tuple[int | None, int | None]:
        """What is assumed of the range of an integer."""
        low, high = self._at_least(value), self._at_least({t: -c for t, c in value.items()})
        return low, None if high is None else -high

    def _at_least(self, value: Poly) -> int | None:
        """The least integer that a value is assumed not to be below."""
        direction, constant = _direction(value)
        known = self._thresholds.get(direction) if direction else None
        if known is None:
            return None
        (term, coef), *_ = direction
        above = mpq(value[term]) / coef * (constant - known[0])  # value >= this, or > unless the flag is set
        return int(-(-above.numerator // above.denominator)) if known[1] else int(above.numerator // above.denominator) + 1

    def _beyond(self, poly: Poly) -> Sign | None:
        """The sign of what is a constant above a polynomial that is assumed to have one."""
        direction, constant = _direction(poly)
        known = self._thresholds.get(direction) if direction else None
        if known is None or constant < known[0]:
            return None
        return Sign.NONNEGATIVE if constant == known[0] and known[1] else Sign.POSITIVE

    def _assumed(self, poly: Poly) -> Sign:
        """The sign of a sum all of whose terms are shown non-negative by the signs assumed for single atoms."""
        result = Sign.NONNEGATIVE
        for t, c in poly.items():
            negative, strict = c < 0, True
            for a, k in self.ring.powers[t]:
                known = self.ring.atoms[a].sign
                if known is Sign.UNKNOWN and k % 2:
                    known = self.facts.get(frozenset({(self.ring.atom_term(a), 1)}), Sign.UNKNOWN)
                    if known is Sign.UNKNOWN:
                        known = self.facts.get(frozenset({(self.ring.atom_term(a), -1)}), Sign.UNKNOWN)
                        negative = not negative
                    if known is Sign.UNKNOWN:
                        return known
                strict = strict and (known is Sign.POSITIVE or k < 0)
            if negative:
                return Sign.UNKNOWN
            if strict:
                result = Sign.POSITIVE
        return result

    def scaled(self, poly: Poly) -> Poly:
        """A non-zero polynomial without its positive content: of coprime integers and without common positive factors."""
        coef, unit = positive_content(self.ring, poly)
        return divided(self.ring, poly, coef, unit)

    # --- arguments of functions -----------------------------------------------------------------

    def argument(self, poly: Poly) -> Poly:
        """The canonical form of an argument: expanded, over a common denominator. Raises ``BudgetSpent`` if too large."""
        expander = self.expander
        expanded = expander.expand(poly)
        if not expanded:
            return expanded
        numerator, unit = expander.clear(expanded)
        return self.ring.times_term(numerator, unit) if unit != ONE_TERM and numerator else numerator

    def try_argument(self, poly: Poly) -> tuple[Poly, bool]:
        """The canonical form and True, or the form as it is and False where canonicalising costs too much."""
        if needs_folding(self.ring, poly):
            return poly, False
        try:
            with self.meter.at_most(_ARGUMENT_WORK):
                return self.argument(poly), True
        except BudgetSpent:
            self.meter.resume()
            return poly, False

    def key(self, poly: Poly) -> PolyKey:
        """The content of a polynomial, to intern by."""
        return frozenset(poly.items())

    def application(
        self,
        name: str,
        args: tuple[Poly, ...],
        sign: Sign = Sign.UNKNOWN,
        *,
        integer: bool = False,
        low: Coef | None = None,
        high: Coef | None = None,
    ) -> int:
        """The atom of a function applied to normal forms: equal arguments give the same atom.

        Arguments that are too large to be made canonical are compared, by proof, with those that agree at a sample point.
        """
        make = Atom(Kind.FUNCTION, sign, name=name, args=args, integer=integer, low=low, high=high)
        return self.congruent(name, args, make)

    def congruent(self, name: str, args: tuple[Poly, ...], make: Atom) -> int:
        """The atom of ``(name, canonical arguments)``."""
        tried = [self.try_argument(p) for p in args]
        if not all(succeeded for _, succeeded in tried):
            return self._compared(name, args, make)
        canonical = tuple(p for p, _ in tried)
        key = (name, *(self.key(p) for p in canonical))
        found = self.ring.find(key)
        if found is not None:
            return found
        make.args = canonical
        equal = self._equal_among(self._uncompared.get(name, []), args) if name in self._uncompared else None
        if equal is not None:
            self.ring.alias(key, equal)
            return equal
        atom = self.ring.atom(key, make)
        self._compared_by_key.setdefault(name, []).append(atom)
        return atom

    def _compared(self, name: str, args: tuple[Poly, ...], make: Atom) -> int:
        key = ("raw", name, *(self.key(p) for p in args))
        found = self.ring.find(key)
        if found is not None:
            return found
        known = self._uncompared.setdefault(name, [])
        equal = self._equal_among(known + self._compared_by_key.get(name, []), args)
        if equal is not None:
            self.ring.alias(key, equal)
            return equal
        make.args = args
        atom = self.ring.atom(key, make)
        known.append(atom)
        return atom

    def _equal_among(self, atoms: list[int], args: tuple[Poly, ...]) -> int | None:
        """The atom whose arguments are shown to be these, among those that agree with them at the sample point."""
        for atom in atoms:
            others = self.ring.atoms[atom].args
            if len(others) != len(args) or not all(self._agree(p, q) for p, q in zip(args, others)):
                continue
            try:
                with self.meter.at_most(_COMPARE_WORK):
                    if all(self._vanishes(self.add(p, q, -1)) for p, q in zip(args, others)):
                        return atom
            except BudgetSpent:
                self.meter.resume()
        return None

    def _vanishes(self, poly: Poly) -> bool:
        return vanishes_folded(self.ring, self.meter, poly) or self.expander.is_zero(poly)

    # --- a sample point, to tell which arguments are worth comparing -----------------------------

    def _agree(self, p: Poly, q: Poly) -> bool:
        x, y = self._sample(p), self._sample(q)
        return not (abs(x - y) > 1e-6 * max(abs(x), abs(y)))

    def _sample(self, poly: Poly) -> float:
        for a in range(len(self._samples), len(self.ring.atoms)):
            self._samples.append(self._sample_atom(a))
        return self._sample_sum(poly)

    def _sample_sum(self, poly: Poly) -> float:
        try:
            return math.fsum(float(c) * self._sample_term(t) for t, c in poly.items())
        except (OverflowError, ZeroDivisionError, ValueError):
            return math.nan

    def _sample_atom(self, a: int) -> float:
        """Equal atoms have equal samples, since they are one atom; opaque ones are as good as free variables."""
        atom = self.ring.atoms[a]
        if atom.kind in (Kind.SUM, Kind.CANON) and atom.definition is not None:
            return self._sample_sum(atom.definition)
        if atom.kind is Kind.ROOT and atom.definition is not None:
            ((term, _),) = atom.definition.items()
            return math.sqrt(abs(self._sample_sum({term: 1})))
        return self._random.uniform(0.5, 1.5)

    def _sample_term(self, term: int) -> float:
        value = 1.0
        for a, k in self.ring.powers[term]:
            value *= self._samples[a] ** k
        h = self.ring.exps[self.ring.exponent[term]]
        if h:
            value *= 2.0 ** min(500.0, math.fsum(float(c) * self._sample_term(t) for t, c in h.items()))
        return value


def _direction(poly: Poly) -> tuple[PolyKey, Coef]:
    """A polynomial as a positive multiple of (a primitive one without constant term, a constant); an empty one if it is constant."""
    rest = {t: c for t, c in poly.items() if t != ONE_TERM}
    if not rest:
        return frozenset(), 0
    content = rational_content(rest)
    if content != 1:
        rest = {t: small(mpq(c) / content) for t, c in rest.items()}
    return frozenset(rest.items()), small(mpq(poly.get(ONE_TERM, 0)) / content)
