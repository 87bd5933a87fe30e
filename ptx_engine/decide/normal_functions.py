"""Functions in normal form: exponential, logarithm, roots, powers, tanh and trigonometric functions.

Rules hold over the reals at every point where both sides are defined; what they need for that (an argument that is
positive, a denominator that is not zero) is either shown or noted through ``note`` and becomes part of the claim.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import gcd, isqrt, prod

from gmpy2 import mpq

from ptx_engine.decide.budget import Undecided
from ptx_engine.decide.normal_content import split_unit
from ptx_engine.decide.normal_difference import keeps_roots, reachable, vanishes_on_points_only
from ptx_engine.decide.normal_forms import Forms
from ptx_engine.decide.normal_lattice import Lattice
from ptx_engine.decide.normal_ring import ONE_TERM, Atom, Coef, Kind, Poly, Sign, add_into, small
from ptx_engine.decide.normal_rounding import is_constant
from ptx_engine.decide.normal_sign import poly_sign, term_sign

DENOMINATOR, RADICAND, LOGARITHM = "denominators are not zero", "square roots of non-negative values", "logarithms of positive values"
POWER = "powers with a positive base"
#: told of a condition: what, of which value (equal keys are conditions that are equivalent), and whether it is shown to hold
Note = Callable[[str, Hashable, bool], None]

_LARGE_RADICAND = 500  # terms from which a radicand is left as it is
_SMALL_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31)


def _negate(poly: Poly) -> Poly:
    return {t: -c for t, c in poly.items()}


class Functions:
    """Applies operators to normal forms of one ``Forms``."""

    def __init__(self, forms: Forms, lattice: Lattice) -> None:
        self.forms = forms
        self.ring = forms.ring
        self.lattice = lattice
        self.note: Note = lambda what, key, shown: None
        #: what came out of the root at hand and may be zero
        self._taken_out: set[int] = set()

    # --- division -------------------------------------------------------------------------------

    def divide(self, p: Poly, q: Poly) -> Poly:
        """p / q; a denominator not shown to differ from zero is noted."""
        inverse = self.forms.reciprocal(q)
        ((term, _),) = inverse.items()
        for a in self._bases(term):  # (its sign does not tell: a negative power counts as defined)
            self.note(DENOMINATOR, a, False)
        return self.forms.product(p, inverse)

    def _bases(self, term: int) -> set[int]:
        """The atoms that a term is zero with, those under roots instead of the roots."""
        found: set[int] = set()
        stack = [term]
        while stack:
            for a, _ in self.ring.powers[stack.pop()]:
                atom = self.ring.atoms[a]
                if atom.kind is Kind.ROOT and atom.definition is not None:
                    stack.extend(atom.definition)
                elif atom.sign is not Sign.POSITIVE:
                    found.add(a)
        return found

    # --- exponentials ---------------------------------------------------------------------------

    def exp2(self, p: Poly) -> Poly:
        """2^p: logarithms in the exponent come down as powers, the rest becomes an exponent."""
        p = self.forms.expander.expand(p)  # not over a common denominator: exponents are added termwise
        exponent: Poly = {}
        result: Poly = {ONE_TERM: 1}
        for t, c in p.items():
            factor = self._power_of_logarithm(t, c)
            if factor is None:
                exponent[t] = c
            else:
                result = self.forms.product(result, factor)
        if not exponent:
            return result
        value = {self.ring.term((), self.ring.exp(exponent)): 1}
        return self.forms.product(result, self.forms.expander.expand(value))

    def _power_of_logarithm(self, term: int, coef: Coef) -> Poly | None:
        """2^(n * log2 x) = x^n for an integer n; also for half an integer, by a root."""
        powers = self.ring.powers[term]
        if len(powers) != 1 or powers[0][1] != 1 or self.ring.exponent[term]:
            return None
        atom = self.ring.atoms[powers[0][0]]
        twice = 2 * coef
        if twice != int(twice) or abs(twice) > 64:
            return None
        if powers[0][0] == self.forms.log2ten:  # 10^n = 2^n 5^n
            return self.forms.product({self.ring.term((), self.ring.exp({ONE_TERM: coef})): 1}, self._power_of({ONE_TERM: 5}, int(twice)))
        if atom.kind is not Kind.FUNCTION or atom.name != "log2":
            return None
        return self._power_of(atom.args[0], int(twice))

    def _power_of(self, base: Poly, twice: int) -> Poly:
        """base^(twice / 2)."""
        if twice % 2:
            return self.power(self.sqrt(base), twice)
        return self.power(base, twice // 2)

    def power(self, p: Poly, n: int) -> Poly:
        """p^n for a small integer n."""
        if n < 0:
            return self.power(self.divide({ONE_TERM: 1}, p), -n)
        if len(p) == 1:
            ((t, c),) = p.items()
            return {self.ring.power(t, n): c**n}
        if n == 0 or not p:
            return {ONE_TERM: 1} if n == 0 else {}
        term, coef = self.forms.abbreviate(p)
        return {self.ring.power(term, n): coef**n} if n > 1 else p

    # --- logarithms -----------------------------------------------------------------------------

    def log2(self, p: Poly) -> Poly:
        """log2 p: the exponential unit, constants and factors shown to be positive come out."""
        argument, sign = p, self.forms.sign(p)
        p = self.forms.argument(p)
        if not p:
            raise Undecided("logarithm of zero")
        numerator, unit = self.forms.expander.clear(p)
        coef, inner, primitive = split_unit(self.ring, numerator)
        unit = self.ring.mul(unit, inner)
        shown = Sign.POSITIVE in (sign, self.forms.sign(p))
        result: Poly = dict(self.ring.exps[self.ring.exponent[unit]])
        rest: list[tuple[int, int]] = []
        for a, k in self.ring.powers[unit]:
            if self.ring.atoms[a].sign is not Sign.UNKNOWN:  # (what is not negative is not zero where the logarithm is defined)
                add_into(result, self._log2_atom(a), k)
            elif k % 2 == 0:
                add_into(result, self.log2(self.absolute({self.ring.atom_term(a): 1})), k)
            else:
                rest.append((a, k))
        # an odd power is positive where its base is: log x^3 = 3 log x, and 1/x = x^-1
        root = gcd(*(k for _, k in rest)) * (1 if rest[0][1] > 0 else -1) if rest and primitive == {ONE_TERM: 1} else 1
        core = self.ring.times_term(primitive, self.ring.term(tuple((a, k // root) for a, k in rest)))
        if coef < 0:
            coef, core = -coef, _negate(core)
        add_into(result, self._log2_rational(coef))
        if core != {ONE_TERM: 1}:
            logarithm = self._log2_core(core)
            if not shown or (self._without_poles(unit) and keeps_roots(self.ring, argument, core)):
                self.note(LOGARITHM, self.forms.key(logarithm), shown)
            add_into(result, logarithm, root)
        return result

    def _without_poles(self, term: int) -> bool:
        """Whether a term divides by nothing that may be zero: else a value with it may be positive wherever it has one, and what is left
        of it without the term zero somewhere (1 + x/y and y + x)."""
        return all(k > 0 or self.ring.atoms[a].sign is Sign.POSITIVE for a, k in self.ring.powers[term])

    def _log2_atom(self, a: int) -> Poly:
        atom = self.ring.atoms[a]
        if atom.kind is Kind.CANON and atom.definition is not None:
            return self._log2_core(atom.definition)
        if atom.kind is Kind.ROOT and atom.definition is not None:
            half = self.log2(atom.definition)
            return {t: small(mpq(c) / 2) for t, c in half.items()}
        result = self._log2_core({self.ring.atom_term(a): 1})
        if atom.sign is not Sign.POSITIVE:  # it may be zero on an interval, as max(x, 0) is
            self.note(LOGARITHM, self.forms.key(result), False)
        return result

    def _log2_core(self, core: Poly) -> Poly:
        return {self.ring.atom_term(self.forms.application("log2", (core,))): 1}

    def _log2_rational(self, value: Coef) -> Poly:
        """log2 of a positive rational, as a sum over its small prime factors."""
        q = mpq(value)
        result: Poly = {}
        numerator, denominator = int(q.numerator), int(q.denominator)
        for prime in _SMALL_PRIMES:
            count = 0
            while numerator % prime == 0:
                numerator, count = numerator // prime, count + 1
            while denominator % prime == 0:
                denominator, count = denominator // prime, count - 1
            if count:
                add_into(result, self._log2_prime(prime), count)
        if numerator != denominator:
            add_into(result, self._log2_core({ONE_TERM: small(mpq(numerator, denominator))}))
        return result

    def _log2_prime(self, prime: int) -> Poly:
        """log2 of a prime; log2(5) is log2(10) - 1, which is a symbolic constant since constants of base ten are recognised."""
        if prime == 2:
            return {ONE_TERM: 1}
        return {self.ring.atom_term(self.forms.log2ten): 1, ONE_TERM: -1} if prime == 5 else self._log2_core({ONE_TERM: prime})

    # --- roots and powers -----------------------------------------------------------------------

    def sqrt(self, p: Poly) -> Poly:
        """The square root: squares of what is shown to be non-negative, exponentials and square constants come out."""
        if not p:
            return {}
        shown = self.forms.sign(p) is not Sign.UNKNOWN
        self._taken_out = set()
        result = self._root(p)
        roots = {a for t in result for a, _ in self.ring.powers[t] if self.ring.atoms[a].kind is Kind.ROOT}
        if shown and self.ring.partial:  # sqrt(sqrt(x)^2) is sqrt(x): that x is not negative is what the inner root needs
            roots -= reachable(self.ring, p)
            if not roots or not keeps_roots(self.ring, p, {self.ring.atom_term(a): 1 for a in roots}):
                return result
        if roots and not shown:  # sqrt(x r^2) has a value where r is zero, whatever x is; r sqrt(x) has none
            roots |= {a for a in self._taken_out if not vanishes_on_points_only(self.ring, a)}
        self.note(RADICAND, frozenset(roots), shown)
        return result

    def _root(self, p: Poly) -> Poly:
        outside: Poly = {ONE_TERM: 1}
        if len(p) == 1:  # squares of sums are still visible before the radicand is multiplied out
            ((term, coef),) = p.items()
            outside = self._outer_root(term)
            p = {self.ring.term(tuple(self._odd_powers(term)), self.ring.exponent[term]): coef}
        sign = poly_sign(self.ring, p)
        expanded, canonical = self.forms.try_argument(p)
        if canonical and sign is not Sign.UNKNOWN and not keeps_roots(self.ring, p, expanded):
            sign = Sign.UNKNOWN
        if not canonical or len(expanded) > _LARGE_RADICAND:
            # no factor may be taken out: the other side's spelling may be too large to show it
            return self.forms.product(outside, self._root_atom({self._single(p): 1}, sign))
        return self.forms.product(outside, self._canonical_root(expanded, sign)) if expanded else {}

    def _canonical_root(self, p: Poly, sign: Sign) -> Poly:
        term, coef = self.forms.abbreviate(p)
        if coef < 0 and not self.ring.powers[term]:
            raise Undecided("square root of a negative constant")
        if sign is Sign.POSITIVE and not self._without_poles(term):
            sign = Sign.NONNEGATIVE
        outer, square_free = _square_part(abs(coef))
        half = self.ring.exp_scale(self.ring.exponent[term], mpq(1, 2))
        result = self.forms.expander.expand({self.ring.term((), half): outer})
        result = self.forms.product(result, self._outer_root(term))
        radicands: list[Poly] = [{ONE_TERM: factor} for factor in _prime_factors(square_free)]
        radicands += [{t: 1} for t in self._rest(term)] if coef > 0 else [{self._rest_of_negative(term): -1}]
        for radicand in radicands:
            if radicand != {ONE_TERM: 1}:
                result = self.forms.product(result, self._root_atom(radicand, sign))
        return result

    def _outer_root(self, term: int) -> Poly:
        """What comes out of the root: sqrt(a^2k) = |a|^k, which is a^k where a is shown non-negative."""
        result: Poly = {ONE_TERM: 1}
        unsigned: list[tuple[int, int]] = []
        for a, k in self.ring.powers[term]:
            count = abs(k) // 2 if k > 0 else -(abs(k) // 2)
            if not count or self.ring.atoms[a].kind is Kind.INDICATOR:
                continue
            if self.ring.atoms[a].sign is not Sign.POSITIVE:
                self._taken_out.add(a)
            if self.ring.atoms[a].sign is Sign.UNKNOWN:
                unsigned.append((a, count))
            else:
                result = self.forms.product(result, self._atom_power(a, count))
        if unsigned:
            result = self.forms.product(result, self.absolute({self.ring.term(tuple(unsigned)): 1}))
        return result

    def _atom_power(self, a: int, count: int) -> Poly:
        return {self.ring.atom_term(a, count): 1}

    def _odd_powers(self, term: int) -> list[tuple[int, int]]:
        atoms = self.ring.atoms
        return [(a, k if atoms[a].kind is Kind.INDICATOR else (1 if k > 0 else -1)) for a, k in self.ring.powers[term] if k % 2]

    def _rest(self, term: int) -> list[int]:
        """The odd part of a term, as factors whose roots may be multiplied: positive atoms each alone, all others together."""
        odd = self._odd_powers(term)
        alone = [pair for pair in odd if self.ring.atoms[pair[0]].sign is Sign.POSITIVE]
        together = tuple(pair for pair in odd if pair not in alone)
        return [self.ring.term((pair,)) for pair in alone] + [self.ring.term(together)]

    def _rest_of_negative(self, term: int) -> int:
        return self.ring.term(tuple(self._odd_powers(term)))

    def _root_atom(self, radicand: Poly, whole: Sign) -> Poly:
        """The root of a single term without square factors, a factor of a radicand of sign ``whole``."""
        ((term, coef),) = radicand.items()
        powers = self.ring.powers[term]
        if term == ONE_TERM and coef == 2:
            return {self.ring.term((), self.ring.exp({ONE_TERM: mpq(1, 2)})): 1}
        if coef == 1 and len(powers) == 1 and powers[0][1] < 0:
            inverse = self._root_atom({self.ring.power(term, -1): 1}, whole)  # sqrt(1/x) = 1/sqrt(x)
            ((t, c),) = inverse.items()
            return {self.ring.power(t, -1): c}
        if coef == 1 and len(powers) == 1 and self.ring.atoms[powers[0][0]].kind is Kind.CANON:  # as the root of the sum itself
            denominator = self.ring.atoms[powers[0][0]]
            inner, factor = self.forms.abbreviate(denominator.definition or {})
            return self._root_atom({inner: factor}, denominator.sign if whole is Sign.UNKNOWN else whole)
        shown = whole is Sign.POSITIVE or (coef > 0 and term_sign(self.ring, term) is Sign.POSITIVE)
        sign = Sign.POSITIVE if shown else Sign.NONNEGATIVE
        definition = radicand if coef == 1 else {self._single(radicand): 1}
        known = len(self.ring.atoms)
        atom = self.forms.congruent("sqrt", (radicand,), Atom(Kind.ROOT, sign, definition))
        if shown:
            self.ring.atoms[atom].sign = Sign.POSITIVE
            for a, _ in powers if coef == 1 and len(powers) == 1 else ():
                self.note(DENOMINATOR, a, True)
        if whole is not Sign.UNKNOWN or poly_sign(self.ring, radicand) is not Sign.UNKNOWN:
            self.ring.partial.discard(atom)
        elif atom >= known:
            self.ring.partial.add(atom)
        return {self.ring.atom_term(atom): 1}

    def _single(self, radicand: Poly) -> int:
        """A term that stands for a radicand as it is."""
        key = ("sum", self.forms.key(radicand))
        return self.ring.atom_term(self.ring.atom(key, Atom(Kind.SUM, poly_sign(self.ring, radicand), radicand)))

    def absolute(self, p: Poly) -> Poly:
        """|p| = max(p, -p)."""
        p = self.forms.argument(p)
        return self.lattice.value(self.lattice.join("max", [self.lattice.argument(p), self.lattice.argument(_negate(p))]))

    def pow(self, p: Poly, q: Poly) -> Poly:
        """p^q: integer and half-integer powers; otherwise 2^(q log2 p) where p is shown positive, else opaque."""
        q = self.forms.argument(q)
        if is_constant(q):
            twice = 2 * q.get(ONE_TERM, 0)
            if twice == int(twice) and abs(twice) <= 64:
                return self.power(p, int(twice) // 2) if twice % 2 == 0 else self.power(self.sqrt(p), int(twice))
        if self.forms.sign(p) is Sign.POSITIVE:
            return self.exp2(self.forms.product(q, self.log2(p)))
        result = self.opaque("pow", (p, q))
        self.note(POWER, self.forms.key(result), False)
        return result

    # --- other functions ------------------------------------------------------------------------

    def tanh(self, p: Poly) -> Poly:
        """tanh p = 1 - 2 / (e^(2p) + 1)."""
        exponent = self.forms.product(p, {self.ring.atom_term(self.forms.log2e): 2})
        denominator = self.forms.add(self.exp2(exponent), {ONE_TERM: 1})
        result: Poly = {ONE_TERM: 1}
        add_into(result, self.forms.reciprocal(denominator), -2)
        return result

    def circular(self, p: Poly, quarters: int) -> Poly:
        """sin(p + quarters * pi / 2); turns in p by quarters come out."""
        p, turn = self.forms.argument(p), self.ring.atom_term(self.forms.pi)
        if (more := mpq(2 * p.get(turn, 0))).denominator == 1:
            p = {t: c for t, c in p.items() if t != turn}
            quarters += int(more)
        value = self.cos(p) if quarters % 2 else self.odd("sin", p)
        return _negate(value) if quarters % 4 > 1 else value

    def odd(self, name: str, p: Poly) -> Poly:
        """f(-p) = -f(p)."""
        p, turned = self._oriented(p)
        return {self.ring.atom_term(self._bounded(name, p)): -1 if turned else 1} if p else {}

    def cos(self, p: Poly) -> Poly:
        """cos(-p) = cos p, and its square is that of the sine taken from 1."""
        p, _ = self._oriented(p)
        if not p:
            return {ONE_TERM: 1}
        atom = self.ring.atoms[number := self._bounded("cos", p)]
        if atom.square is None:
            atom.square = {ONE_TERM: 1, self.ring.atom_term(self._bounded("sin", p), 2): -1}
        return {self.ring.atom_term(number): 1}

    def _oriented(self, p: Poly) -> tuple[Poly, bool]:
        p = self.forms.argument(p)
        turned = bool(p) and p[max(p)] < 0
        return (_negate(p), True) if turned else (p, False)

    def _bounded(self, name: str, p: Poly) -> int:
        return self.forms.application(name, (p,), low=-1, high=1)

    def opaque(self, name: str, args: tuple[Poly, ...], integer: bool = False) -> Poly:
        """A function known only to be equal on equal arguments."""
        return {self.ring.atom_term(self.forms.application(name, args, integer=integer)): 1}


def _prime_factors(value: int) -> list[int]:
    """The small primes in an integer without small square factors, and what is left of it."""
    small_ones = [prime for prime in _SMALL_PRIMES if value % prime == 0]
    return [*small_ones, value // prod(small_ones)]


def _square_part(value: Coef) -> tuple[Coef, int]:
    """(r, f) with value = r^2 * f, f an integer without small square factors."""
    q = mpq(value)
    outer, product = mpq(1, q.denominator), int(q.numerator) * int(q.denominator)
    square_free = 1
    for prime in _SMALL_PRIMES:
        count = 0
        while product % prime == 0:
            product, count = product // prime, count + 1
        outer *= prime ** (count // 2)
        if count % 2:
            square_free *= prime
    root = isqrt(product)
    if root * root == product:
        return small(outer * root), square_free
    return small(outer), square_free * product
