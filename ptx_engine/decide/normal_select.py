"""Selections in normal form: c ? a : b is b + c * (a - b), and a maximum where the sign of p chooses between values that
differ by a multiple of p."""

from __future__ import annotations

from gmpy2 import mpq

from ptx_engine.decide.normal_forms import Forms
from ptx_engine.decide.normal_lattice import Lattice
from ptx_engine.decide.normal_ring import NO_EXP, ONE_TERM, Kind, Poly, add_into, small


def select(forms: Forms, lattice: Lattice, condition: Poly, a: Poly, b: Poly) -> Poly:
    """condition ? a : b. A selection by the sign of p between values that differ by a multiple of p is a maximum."""
    difference = forms.add(a, b, -1)
    if not difference or not condition:
        return b
    if condition == {ONE_TERM: 1}:
        return a
    as_maximum = _maximum_of(forms, lattice, condition, difference)
    result = dict(b)
    add_into(result, as_maximum if as_maximum is not None else forms.product(condition, difference))
    return result


def _maximum_of(forms: Forms, lattice: Lattice, condition: Poly, difference: Poly) -> Poly | None:
    """``condition * difference`` as a multiple of max(p, 0) or max(-p, 0), where the condition is the sign of p."""
    ring = forms.ring
    plain = [t for t in condition if len(ring.powers[t]) == 1 and ring.exponent[t] == NO_EXP]
    indicators = [ring.atoms[ring.powers[t][0][0]] for t in plain]
    if not indicators or len(indicators) + (ONE_TERM in condition) != len(condition):
        return None
    signs = [a for a in indicators if a.kind is Kind.INDICATOR and a.name == "positive"]
    if len(signs) != 1 or any(a.kind is not Kind.INDICATOR or a.definition != signs[0].definition for a in indicators):
        return None
    p = signs[0].definition
    assert p is not None
    factor = quotient(forms, forms.argument(difference), p)
    if factor is None:
        return None
    # at p = 0 the product vanishes, so the coefficient of p == 0 is immaterial
    relu = lattice.value(lattice.join("max", [lattice.argument(p), lattice.argument({})]))
    outside = condition.get(ONE_TERM, 0)  # the condition's value where p < 0
    inside = outside + condition[ring.atom_term(ring.find(("positive", forms.key(p))) or 0)]
    result: Poly = {}
    add_into(result, forms.product(factor, relu), inside - outside)
    add_into(result, forms.product(factor, p), outside)
    return result


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
