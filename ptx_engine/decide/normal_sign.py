"""What is known of the sign and range of normal forms: positive where exponentials, squares and constants are."""

from __future__ import annotations

from ptx_engine.decide.normal_ring import Coef, Poly, Ring, Sign


def term_sign(ring: Ring, term: int) -> Sign:
    """The sign of a term: even powers are non-negative, exponentials positive."""
    result = Sign.POSITIVE
    for a, k in ring.powers[term]:
        sign = ring.atoms[a].sign
        if sign is Sign.POSITIVE:
            continue
        if sign is Sign.UNKNOWN and k % 2:
            return Sign.UNKNOWN
        if k > 0:  # a negative power is not zero, on its domain
            result = Sign.NONNEGATIVE
    return result


def poly_sign(ring: Ring, poly: Poly) -> Sign:
    """POSITIVE or NONNEGATIVE where every term shows it, else UNKNOWN."""
    if not poly:
        return Sign.NONNEGATIVE
    result = Sign.NONNEGATIVE
    for t, c in poly.items():
        sign = term_sign(ring, t)
        if c < 0 or sign is Sign.UNKNOWN:
            return Sign.UNKNOWN if len(poly) > 64 else _sign_by_range(ring, poly)
        if sign is Sign.POSITIVE:
            result = Sign.POSITIVE
    return result


def _sign_by_range(ring: Ring, poly: Poly) -> Sign:
    low, _ = poly_range(ring, poly)
    if low is None or low < 0:
        return Sign.UNKNOWN
    return Sign.POSITIVE if low > 0 else Sign.NONNEGATIVE


def poly_range(ring: Ring, poly: Poly) -> tuple[Coef | None, Coef | None]:
    """An interval that holds the value; None where it is unbounded."""
    low: Coef | None = 0
    high: Coef | None = 0
    for t, c in poly.items():
        below, above = term_range(ring, t)
        if c < 0:
            below, above = above, below
        low = None if low is None or below is None else low + c * below
        high = None if high is None or above is None else high + c * above
    return low, high


def term_range(ring: Ring, term: int) -> tuple[Coef | None, Coef | None]:
    """An interval of one term."""
    if ring.exponent[term]:
        return (0 if term_sign(ring, term) is not Sign.UNKNOWN else None), None
    low: Coef = 1
    high: Coef = 1
    for a, k in ring.powers[term]:
        below, above = _atom_range(ring, a)
        if k < 0 or below is None or above is None:
            return (0 if term_sign(ring, term) is not Sign.UNKNOWN else None), None
        ends = (below**k, above**k)
        least = 0 if k % 2 == 0 and below < 0 < above else min(ends)
        corners = (low * least, low * max(ends), high * least, high * max(ends))
        low, high = min(corners), max(corners)
    return low, high


def _atom_range(ring: Ring, a: int) -> tuple[Coef | None, Coef | None]:
    atom = ring.atoms[a]
    low = atom.low
    if low is None and atom.sign is not Sign.UNKNOWN:
        low = 0
    return low, atom.high


def integral(ring: Ring, poly: Poly) -> bool:
    """Whether the value is an integer: integer coefficients over integer atoms."""
    return all(
        c == int(c) and not ring.exponent[t] and all(k > 0 and ring.atoms[a].integer for a, k in ring.powers[t]) for t, c in poly.items()
    )
