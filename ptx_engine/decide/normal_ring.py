"""The ring of normal forms: atoms, terms (monomial times power of two) and exponents, interned as ints.

A normal form is a polynomial ``{term id: coefficient}``; a term is a product of integer powers of atoms times 2^h, where
the exponent h is itself a polynomial. Negative powers stand for denominators, which so stay factored. Atoms are
variables, symbolic constants, abbreviations of sums (``SUM``, expanded only where needed), primitive denominators
(``CANON``), square roots, 0/1 indicators of conditions, and applications of functions to normal forms.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Union

from gmpy2 import mpq

Coef = Union[int, mpq]
Poly = dict[int, Coef]
PolyKey = frozenset[tuple[int, Coef]]

ONE_TERM = 0
NO_EXP = 0


class Sign(Enum):
    """What is known of a value everywhere on its domain."""

    POSITIVE = "positive"
    NONNEGATIVE = "nonnegative"
    UNKNOWN = "unknown"


class Kind(Enum):
    """VAR and CONSTANT are indeterminates; SUM and ROOT reduce to their definition; the others are opaque."""

    VAR = "variable"
    CONSTANT = "symbolic constant"
    SUM = "abbreviated sum"
    CANON = "primitive denominator"
    ROOT = "square root"
    INDICATOR = "condition"
    MAXIMUM = "maximum"
    LATTICE = "max-min expression"
    FUNCTION = "function"


#: atoms in whose presence unequal normal forms say nothing about inequality
UNDECIDED_KINDS = frozenset({Kind.ROOT, Kind.INDICATOR, Kind.MAXIMUM, Kind.LATTICE, Kind.FUNCTION})


@dataclass(slots=True)
class Atom:
    """``definition`` is the sum (SUM, CANON), the radicand (ROOT) or the condition's polynomial (INDICATOR); ``args`` are
    the operands of a function or a maximum; ``name`` says which function, constant or condition; ``node`` a template node."""

    kind: Kind
    sign: Sign
    definition: Poly | None = None
    name: str = ""
    args: tuple[Poly, ...] = ()
    node: int = -1
    integer: bool = False
    #: inclusive range where one is known
    low: Coef | None = None
    high: Coef | None = None
    frozen: bool = False
    table: int = 0
    #: what the square of the value is, where powers are written with it
    square: Poly | None = None


class Ring:
    """Interning tables of one proof; ids are meaningful only within it."""

    def __init__(self) -> None:
        self.atoms: list[Atom] = []
        self._keys: dict[object, int] = {}
        self.powers: list[tuple[tuple[int, int], ...]] = [()]
        self.exponent: list[int] = [NO_EXP]
        self._terms: dict[tuple[tuple[tuple[int, int], ...], int], int] = {((), NO_EXP): ONE_TERM}
        self.exps: list[Poly] = [{}]
        self.exp_keys: list[PolyKey] = [frozenset()]
        self._exp_ids: dict[PolyKey, int] = {frozenset(): NO_EXP}
        self._exp_sums: dict[tuple[int, int], int] = {}
        #: square roots of what may be negative: a value with one of them is none at some inputs
        self.partial: set[int] = set()
        #: exponents whose constant part is not in [0, 1)
        self.carrying: set[int] = set()

    # --- interning ------------------------------------------------------------------------------

    def atom(self, key: object, make: Atom) -> int:
        """The atom of a key; ``make`` is stored when the key is new."""
        found = self._keys.get(key)
        if found is None:
            found = self._keys[key] = len(self.atoms)
            self.atoms.append(make)
        return found

    def find(self, key: object) -> int | None:
        """The atom of a key, if there is one."""
        return self._keys.get(key)

    def alias(self, key: object, atom: int) -> None:
        """Let a further key mean an existing atom."""
        self._keys[key] = atom

    def term(self, powers: tuple[tuple[int, int], ...], exp: int = NO_EXP) -> int:
        """The term of sorted (atom, power) pairs and an exponent."""
        key = (powers, exp)
        found = self._terms.get(key)
        if found is None:
            found = self._terms[key] = len(self.powers)
            self.powers.append(powers)
            self.exponent.append(exp)
        return found

    def atom_term(self, atom: int, power: int = 1) -> int:
        """The term ``atom ** power``."""
        return self.term(((atom, power),)) if power else ONE_TERM

    def exp(self, poly: Poly) -> int:
        """The exponent id of a polynomial."""
        key = frozenset(poly.items())
        found = self._exp_ids.get(key)
        if found is None:
            found = self._exp_ids[key] = len(self.exps)
            self.exps.append(poly)
            self.exp_keys.append(key)
            constant = poly.get(ONE_TERM, 0)
            if not 0 <= constant < 1:
                self.carrying.add(found)
        return found

    # --- terms ----------------------------------------------------------------------------------

    def exp_sum(self, g: int, h: int) -> int:
        """The exponent g + h."""
        if not g or not h:
            return g or h
        key = (g, h) if g < h else (h, g)
        found = self._exp_sums.get(key)
        if found is None:
            small, large = (g, h) if len(self.exps[g]) < len(self.exps[h]) else (h, g)
            total = dict(self.exps[large])
            add_into(total, self.exps[small])
            found = self._exp_sums[key] = self.exp(total)
        return found

    def exp_scale(self, h: int, factor: Coef) -> int:
        """The exponent factor * h."""
        return self.exp({t: c * factor for t, c in self.exps[h].items()}) if h and factor != 1 else h

    def mul(self, s: int, t: int) -> int:
        """The product of two terms; powers of indicators stay 1."""
        if s == ONE_TERM:
            return t
        if t == ONE_TERM:
            return s
        p, q = self.powers[s], self.powers[t]
        return self.term(self._merge(p, q) if p and q else p or q, self.exp_sum(self.exponent[s], self.exponent[t]))

    def _merge(self, p: tuple[tuple[int, int], ...], q: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        if p[-1][0] < q[0][0]:
            return p + q
        if q[-1][0] < p[0][0]:
            return q + p
        total = dict(p)
        for atom, power in q:
            power += total.pop(atom, 0)
            if power > 1 and self.atoms[atom].kind is Kind.INDICATOR:
                power = 1
            if power:
                total[atom] = power
        return tuple(sorted(total.items()))

    def power(self, t: int, n: int) -> int:
        """``t ** n`` for any integer n."""
        if n == 1 or t == ONE_TERM:
            return t
        powers = tuple((a, k * n) for a, k in self.powers[t]) if n else ()
        if any(self.atoms[a].kind is Kind.INDICATOR and k > 1 for a, k in powers):
            powers = tuple((a, 1 if self.atoms[a].kind is Kind.INDICATOR and k > 1 else k) for a, k in powers)
        return self.term(powers, self.exp_scale(self.exponent[t], n) if n else NO_EXP)

    # --- polynomials ----------------------------------------------------------------------------

    def times_term(self, poly: Poly, term: int, coef: Coef = 1) -> Poly:
        """``coef * term * poly`` with coef != 0 (terms stay distinct unless indicators merge them)."""
        if term == ONE_TERM:
            return poly if coef == 1 else {t: c * coef for t, c in poly.items()}
        result: Poly = {}
        mul = self.mul
        for t, c in poly.items():
            product = mul(t, term)
            total = result.get(product, 0) + c * coef
            if total:
                result[product] = total
            else:
                del result[product]
        return result

    def times(self, p: Poly, q: Poly) -> Poly:
        """The product, fully multiplied out; the caller has checked the size."""
        if len(p) > len(q):
            p, q = q, p
        result: Poly = {}
        for t, c in p.items():
            add_into(result, self.times_term(q, t, c))
        return result

    def leading_exp(self, poly: Poly) -> int:
        """The largest exponent among the terms under an order that adding any exponent to all of them keeps."""
        best = -1
        for t in poly:
            h = self.exponent[t]
            if best < 0 or (h != best and self._exceeds(h, best)):
                best = h
        return max(best, NO_EXP)

    def _exceeds(self, g: int, h: int) -> bool:
        """By the term made first of those in which they differ: what leads a sum leads it when it grows (rows of a causal mask)."""
        first = min(self.exp_keys[g] ^ self.exp_keys[h])[0]
        return bool(self.exps[g].get(first, 0) > self.exps[h].get(first, 0))


def add_into(total: Poly, other: Poly, factor: Coef = 1) -> None:
    """``total += factor * other`` in place, dropping zeros."""
    get = total.get
    for t, c in other.items():
        value = get(t, 0) + (c if factor == 1 else c * factor)
        if value:
            total[t] = value
        else:
            total.pop(t, None)


def small(value: Coef) -> Coef:
    """An integer as a plain int: sums of ints are several times faster than sums of rationals."""
    if isinstance(value, int):
        return value
    return int(value) if value.denominator == 1 else value
