"""Content and primitive part of sums: what is pulled out in front, so that equal sums up to a unit become one atom."""

from __future__ import annotations

from math import gcd

from gmpy2 import mpq

from ptx_engine.decide.normal_ring import NO_EXP, ONE_TERM, Coef, Poly, Ring, Sign, small

_LARGE = 1 << 64


def rational_content(poly: Poly) -> Coef:
    """The positive rational c such that poly / c has coprime integer coefficients."""
    numerator, denominator = 0, 1
    for c in poly.values():
        if isinstance(c, int):
            numerator = gcd(numerator, c)
            if numerator == 1 and denominator == 1:
                if all(isinstance(x, int) for x in poly.values()):
                    return 1
        else:
            n, d = int(c.numerator), int(c.denominator)
            numerator = gcd(numerator, n)
            denominator = denominator // gcd(denominator, d) * d
    return numerator if denominator == 1 else small(mpq(numerator, denominator))


def monomial_content(ring: Ring, poly: Poly) -> tuple[tuple[int, int], ...]:
    """The largest common monomial: per atom the least power over all terms (which may be negative)."""
    terms = iter(poly)
    common = dict(ring.powers[next(terms)])
    negative: dict[int, int] = {a: k for a, k in common.items() if k < 0}
    common = {a: k for a, k in common.items() if k > 0}
    for t in terms:
        powers = ring.powers[t]
        if common:
            here = dict(powers)
            common = {a: min(k, here[a]) for a, k in common.items() if here.get(a, 0) > 0}
        for a, k in powers:
            if k < 0 and k < negative.get(a, 0):
                negative[a] = k
    return tuple(sorted({**common, **negative}.items()))


def split_unit(ring: Ring, poly: Poly) -> tuple[Coef, int, Poly]:
    """``poly = coef * unit * primitive``: the primitive part has coprime integer coefficients (the last one 1, if they would
    be large), no common monomial, no negative powers, leading exponent 0 and a positive coefficient at its last term.
    A polynomial of one term has the primitive part 1."""
    if len(poly) == 1:
        ((term, coef),) = poly.items()
        return coef, term, {ONE_TERM: 1}
    unit = ring.term(monomial_content(ring, poly), ring.leading_exp(poly))
    primitive = ring.times_term(poly, ring.power(unit, -1)) if unit != ONE_TERM else poly
    coef = rational_content(primitive)
    if primitive[max(primitive)] < 0:
        coef = -coef
    if coef != 1:
        inverse = mpq(1) / coef
        primitive = {t: small(c * inverse) for t, c in primitive.items()}
    if max(abs(c) for c in primitive.values()) > _LARGE:  # running means: fractions are much shorter
        last = primitive[max(primitive)]
        coef = small(mpq(coef) * last)
        primitive = {t: small(mpq(c, last)) for t, c in primitive.items()}
    return coef, unit, primitive


def positive_content(ring: Ring, poly: Poly, strictly: bool = True) -> tuple[Coef, int]:
    """(c, unit), both positive, with poly / (c * unit) of coprime integer coefficients and without positive common factors.

    Without ``strictly`` the unit may also hold factors that can be zero: max(s*a, s*b) = s*max(a, b) for s >= 0.
    """
    terms = iter(poly)
    common = dict(ring.powers[next(terms)])
    for t in terms:
        if not common:
            break
        here = dict(ring.powers[t])
        common = {a: k for a, k in common.items() if here.get(a) == k}
    powers = tuple(sorted((a, k) for a, k in common.items() if _pulled(ring.atoms[a].sign, k, strictly)))
    exps = {ring.exponent[t] for t in poly}
    return rational_content(poly), ring.term(powers, exps.pop() if len(exps) == 1 else NO_EXP)


def divided(ring: Ring, poly: Poly, coef: Coef, unit: int) -> Poly:
    """poly / (coef * unit)."""
    if coef == 1 and unit == ONE_TERM:
        return poly
    scaled = ring.times_term(poly, ring.power(unit, -1))
    inverse = 1 / mpq(coef)
    return {t: small(c * inverse) for t, c in scaled.items()}


def _pulled(sign: Sign, power: int, strictly: bool) -> bool:
    if sign is Sign.POSITIVE or (power < 0 and power % 2 == 0):
        return True
    return not strictly and (sign is Sign.NONNEGATIVE or power % 2 == 0)
