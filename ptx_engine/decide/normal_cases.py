"""Proof by cases over the signs of the polynomials that conditions and maxima compare, at most ten deep.

Every case is a set of signs assumed for polynomials; the template is evaluated again under them, and the difference of
the two sides has to vanish in every case. Where only maxima depend on the sign of p, the cases are p >= 0 and p <= 0; a
condition on p has p > 0, p < 0 and p = 0, and in the last p is substituted away.
"""

from __future__ import annotations

from collections.abc import Callable

from gmpy2 import mpq

from ptx_engine.decide.budget import BudgetSpent, Undecided
from ptx_engine.decide.normal_difference import reachable
from ptx_engine.decide.normal_forms import Forms
from ptx_engine.decide.normal_ring import Kind, Poly, PolyKey, Sign, small

_DEPTH = 10
_CASES = 600
_WORK = 2_000_000
_ARGUMENTS = 8  # larger maxima are not split
_NODES = 4000  # nor is a larger template evaluated again and again

Facts = dict[PolyKey, Sign]


def equal_by_cases(forms: Forms, remainder: Poly, remainder_in_case: Callable[[], Poly], nodes: int) -> bool:
    """Whether the difference vanishes in every case. ``remainder_in_case`` evaluates it under ``forms.facts``."""
    if nodes > _NODES:
        return False
    waiting: list[tuple[Facts, int, Poly]] = [({}, 0, remainder)]
    cases = 0
    try:
        with forms.meter.at_most(_WORK):
            while waiting:
                facts, depth, rest = waiting.pop()
                subject = _subject(forms, rest) if depth < _DEPTH else None
                if subject is None:
                    return False
                for assumed, vanishing in _cases(forms, *subject):
                    cases += 1
                    forms.facts = {**facts, **assumed}
                    forms.meter.spend(nodes)
                    rest = remainder_in_case()
                    if rest and not (vanishing and _vanishes_with(forms, rest, subject[0])):
                        waiting.append((forms.facts, depth + 1, rest))
                    if cases > _CASES:
                        return False
        return True
    except BudgetSpent:
        forms.meter.spend(0)
        return False
    except Undecided:
        return False
    finally:
        forms.facts = {}


def _subject(forms: Forms, poly: Poly) -> tuple[Poly, bool] | None:
    """A polynomial whose sign matters, and whether its being zero does; the innermost first."""
    ring = forms.ring
    atoms = reachable(ring, poly)
    conditions = {forms.key(ring.atoms[a].definition or {}) for a in atoms if ring.atoms[a].kind is Kind.INDICATOR}
    for a in sorted(atoms):
        atom = ring.atoms[a]
        if atom.kind is Kind.INDICATOR and atom.definition:
            return atom.definition, True
        if atom.kind in (Kind.MAXIMUM, Kind.LATTICE) and len(atom.args) <= _ARGUMENTS:
            for i, p in enumerate(atom.args):
                for q in atom.args[i + 1 :]:
                    difference = forms.scaled(forms.argument(forms.add(p, q, -1)))
                    negated = {t: -c for t, c in difference.items()}
                    if not any(forms.key(v) in forms.facts for v in (difference, negated)):
                        strict = any(forms.key(v) in conditions for v in (difference, negated))
                        return difference, strict
    return None


def _cases(forms: Forms, p: Poly, strict: bool) -> list[tuple[Facts, bool]]:
    up, down = forms.key(p), forms.key({t: -c for t, c in p.items()})
    if not strict:
        return [({up: Sign.NONNEGATIVE}, False), ({down: Sign.NONNEGATIVE}, False)]
    return [
        ({up: Sign.POSITIVE}, False),
        ({down: Sign.POSITIVE}, False),
        ({up: Sign.NONNEGATIVE, down: Sign.NONNEGATIVE}, True),
    ]


def _vanishes_with(forms: Forms, poly: Poly, p: Poly) -> bool:
    """Whether a polynomial is zero where p is: by solving p = 0 for a variable that occurs once in it."""
    ring, expander = forms.ring, forms.expander
    for t, c in p.items():
        powers = ring.powers[t]
        if len(powers) != 1 or powers[0][1] != 1 or ring.exponent[t]:
            continue
        atom = powers[0][0]
        others = {s: small(-mpq(d) / c) for s, d in p.items() if s != t}
        if atom in reachable(ring, others) or _occurs_inside(forms, poly, atom):
            continue
        groups = expander.by_power(atom, poly)
        if min(groups) >= 0 and expander.is_zero(expander.horner(groups, others)):
            return True
    return False


def _occurs_inside(forms: Forms, poly: Poly, atom: int) -> bool:
    """Whether an atom occurs in an exponent or in the arguments of another atom."""
    ring = forms.ring
    inner: Poly = {}
    for t in poly:
        inner.update(ring.exps[ring.exponent[t]])
        for a, _ in ring.powers[t]:
            if a != atom:
                for part in (ring.atoms[a].definition or {}, *ring.atoms[a].args):
                    inner.update(part)
    return atom in reachable(ring, inner)
