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
from ptx_engine.decide.normal_sign import poly_sign

_DEPTH = 10
_CASES = 600
_WORK = 2_000_000
_FIRST_WORK = 50_000  # for a class that is proved again with its constants told apart
_ARGUMENTS = 8  # larger maxima are not split
_NODES = 4000  # nor is a larger template evaluated again and again
_FACTS = 200

Facts = dict[PolyKey, Sign]


def equal_by_cases(forms: Forms, remainder: Poly, remainder_in_case: Callable[[], Poly], nodes: int, last: bool = True) -> bool:
    """Whether the difference vanishes in every case. ``remainder_in_case`` evaluates it under ``forms.facts``. Not the ``last``
    attempt is a short one."""
    if nodes > _NODES:
        return False
    waiting: list[tuple[Facts, int, Poly]] = [({}, 0, remainder)]
    cases = 0
    try:
        with forms.meter.at_most(_WORK if last else _FIRST_WORK):
            while waiting:
                facts, depth, rest = waiting.pop()
                forms.facts = facts
                subject = _subject(forms, rest) if depth < _DEPTH else None
                if subject is None:
                    return False
                for assumed in _cases(forms, *subject):
                    cases += 1
                    closed = _closed(forms, {**facts, **assumed})
                    if closed is None:
                        continue  # no point is in this case
                    forms.facts = closed
                    forms.meter.spend(nodes)
                    rest = remainder_in_case()
                    if rest and not _vanishes(forms, rest):
                        waiting.append((forms.facts, depth + 1, rest))
                    if cases > _CASES:
                        return False
        return True
    except BudgetSpent:
        forms.meter.resume()
        return False
    except Undecided:
        return False
    finally:
        forms.facts = {}


def _closed(forms: Forms, facts: Facts) -> Facts | None:
    """The signs with those of pairwise sums that are no longer (so that differences chain); None if they contradict."""
    closed = dict(facts)
    waiting = list(facts)
    while waiting and len(closed) < _FACTS:
        key = waiting.pop()
        for other in list(closed):
            total = forms.add(dict(key), dict(other))
            sign = Sign.POSITIVE if Sign.POSITIVE in (closed[key], closed[other]) else Sign.NONNEGATIVE
            if not total:
                if sign is Sign.POSITIVE:
                    return None
                continue
            if len(total) >= len(dict(key).keys() | dict(other).keys()):
                continue  # nothing is eliminated
            short = forms.key(forms.scaled(total))
            if poly_sign(forms.ring, _negated(total)) is Sign.POSITIVE:
                return None
            if short not in closed or (sign is Sign.POSITIVE and closed[short] is not sign):
                closed[short] = sign
                waiting.append(short)
    return closed


def _subject(forms: Forms, poly: Poly) -> tuple[Poly, bool] | None:
    """A polynomial whose sign matters, and whether its being zero does; the innermost first."""
    ring = forms.ring
    atoms = reachable(ring, poly)
    conditions = {forms.key(ring.atoms[a].definition or {}) for a in atoms if ring.atoms[a].kind is Kind.INDICATOR}
    best: tuple[tuple[int, int, int], Poly, bool] | None = None
    for a in sorted(atoms):
        for p, strict in _compared(forms, a):
            strict = strict or bool({forms.key(p), forms.key(_negated(p))} & conditions)
            degree = max((sum(abs(k) for _, k in ring.powers[t]) for t in p), default=0)
            nested = sum(ring.atoms[b].kind in (Kind.MAXIMUM, Kind.LATTICE, Kind.INDICATOR) for b in reachable(ring, p))
            rank = nested, degree, len(p)
            if best is None or rank < best[0]:
                best = rank, p, strict
    return (best[1], best[2]) if best else None


def _compared(forms: Forms, a: int) -> list[tuple[Poly, bool]]:
    """The polynomials whose signs an atom depends on, as far as they are open; whether zero matters."""
    atom = forms.ring.atoms[a]
    if atom.kind is Kind.INDICATOR and atom.definition:
        return [(atom.definition, True)]
    if atom.kind not in (Kind.MAXIMUM, Kind.LATTICE) or len(atom.args) > _ARGUMENTS:
        return []
    pairs = []
    for i, p in enumerate(atom.args):
        for q in atom.args[i + 1 :]:
            difference = forms.argument(forms.of_one_sign(forms.argument(forms.add(p, q, -1))))
            difference = forms.scaled(difference) if difference else difference
            if difference and forms.sign(difference) is Sign.UNKNOWN and forms.sign(_negated(difference)) is Sign.UNKNOWN:
                pairs.append((difference, False))
    return pairs


def _negated(poly: Poly) -> Poly:
    return {t: -c for t, c in poly.items()}


def _cases(forms: Forms, p: Poly, strict: bool) -> list[Facts]:
    up, down = forms.key(p), forms.key(_negated(p))
    if not strict:
        return [{up: Sign.NONNEGATIVE}, {down: Sign.NONNEGATIVE}]
    return [{up: Sign.POSITIVE}, {down: Sign.POSITIVE}, {up: Sign.NONNEGATIVE, down: Sign.NONNEGATIVE}]


def _vanishes(forms: Forms, poly: Poly) -> bool:
    """Whether a polynomial is zero wherever all polynomials assumed to be zero are: variables are eliminated by them."""
    equations = [dict(key) for key in sorted(forms.facts, key=len) if forms.key(_negated(dict(key))) in forms.facts]
    while equations:
        p = equations.pop(0)
        solved = _solve(forms, p, poly) if p else None
        if solved is None:
            continue
        atom, value = solved
        poly = _substituted(forms, poly, atom, value)
        if not poly:
            return True
        equations = [_substituted(forms, q, atom, value) for q in equations if not _occurs_inside(forms, q, atom)]
    return False


def _substituted(forms: Forms, poly: Poly, atom: int, value: Poly) -> Poly:
    groups = forms.expander.by_power(atom, poly)
    least = min(groups, default=0)
    if least < 0:  # a multiple of the polynomial by a power of the atom vanishes with it where both are defined
        groups = {k - least: g for k, g in groups.items()}
    return forms.expander.remainder(forms.expander.horner(groups, value)) if groups else {}


def _solve(forms: Forms, p: Poly, poly: Poly) -> tuple[int, Poly] | None:
    """(atom, value) from p = 0 for a variable that occurs once in p, and in poly only as a factor."""
    ring = forms.ring
    for t, c in p.items():
        powers = ring.powers[t]
        if len(powers) != 1 or powers[0][1] != 1 or ring.exponent[t]:
            continue
        atom = powers[0][0]
        others = {s: small(-mpq(d) / c) for s, d in p.items() if s != t}
        if atom not in reachable(ring, others) and not _occurs_inside(forms, poly, atom):
            return atom, others
    return None


def _occurs_inside(forms: Forms, poly: Poly, atom: int) -> bool:
    """Whether an atom occurs in an exponent or in the arguments of another atom."""
    ring = forms.ring
    forms.meter.spend(4 * len(poly))
    inner: Poly = {}
    for t in poly:
        inner.update(ring.exps[ring.exponent[t]])
        for a, _ in ring.powers[t]:
            if a != atom:
                for part in (ring.atoms[a].definition or {}, *ring.atoms[a].args):
                    inner.update(part)
    return atom in reachable(ring, inner)
