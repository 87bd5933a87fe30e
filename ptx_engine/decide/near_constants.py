"""Near misses by constants: sides that are equal once constants that differ by a rounding are taken to be the same.

Either side's constants may be near ones of the other, or near a product of two of them. Or a literal is the rounding of a value that the
other side computes (log10(2), sqrt(2/pi), a product of three factors folded at compile time): then it is looked for what the literal
would have to be, by Newton's method at a few points, and whether the sides agree with that everywhere else. This says why a difference
is no mistake; it proves nothing. Constants of integers are exact and never rounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpq

from ptx_engine.decide.budget import clock
from ptx_engine.decide.enclosure import Enclosure, bounds
from ptx_engine.decide.oracle import random_inputs
from ptx_engine.decide.whole_numbers import whole_constants
from ptx_engine.decide.witness import LEAST_DIFFERENCE, Confirmed, Pair, exact_point
from ptx_engine.terms.arena import ONE, Arena
from ptx_engine.terms.constants import Const, is_short, multiply, ulp_of

#: relative difference below which two constants are taken for two roundings of one: literals of seven digits (5e-7) in f32 (6e-8); one
#: that is wrong in the sixth digit is off by 1e-6 at least
NEAR = 6e-7
#: constants of a side whose products are compared with folded ones
_FOLDED = 16
#: literals of a side of which it is looked for what they round, points that settle it, and how many of them are needed beside those that
#: the values are read off; seconds that this may take, and terms beyond which it would take longer
_LITERALS, _POINTS, _LEAST_POINTS, _SECONDS, _TERMS = 8, 24, 4, 1.0, 20_000
#: bits of values and what they may err by, the step of a derivative, and how often literals are corrected
_BITS, _ERROR, _STEP, _TURNS = 512, mpq(1, 1 << 300), mpq(1, 1 << 100), 8
#: relative difference of a rounded literal, at least (f64 has 16 digits)
_ROUNDED = 1e-20
#: singular values below this part of the largest are zero: of two factors, only the product matters
_SINGULAR = 1e-9


@dataclass(frozen=True)
class NearMiss:
    """The sides agree once the constants of each row (the reference's, the candidate's, relative difference) are one; ``literal`` says
    whose literal would have to be the other value, where that is no constant of the other side."""

    rows: tuple[tuple[Const, Const, float], ...]
    literal: str = ""

    @property
    def within_ulp(self) -> bool:
        """Whether ``constants-within-1-ulp`` would unify them."""
        return not self.literal and all(within_ulp(a, b) for a, b, _ in self.rows)


def near_miss(pair: Pair, found: Confirmed) -> NearMiss | None:
    """How the sides agree but for roundings of constants: checked at the witness and at random points. ``None`` if they do not."""
    points = [found.inputs, *_points(pair)]
    return _of_both_sides(pair, points) or _of_a_literal(pair, points)


def _points(pair: Pair) -> Iterator[dict[int, mpq]]:
    for seed in (3, *range(30, 38)):
        drawn = random_inputs(pair.arena, seed)(pair.inputs)
        yield from (exact_point(pair, column) for column in drawn.T)


# --- constants of both sides ----------------------------------------------------------------------


def _of_both_sides(pair: Pair, points: list[dict[int, mpq]]) -> NearMiss | None:
    """Constants of one side that are near those of the other, or products of two of them."""
    arena = pair.arena
    close = close_constants(arena, *pair.constants)
    folded = [folded_constants(arena, *sides) for sides in (pair.constants, pair.constants[::-1])]
    if close or any(folded):  # of integers nothing is rounded: another constant is a wrong one
        whole = whole_constants(pair.cone.plan).certain
        close = [row for row in close if not {row[0], row[1]} <= whole]
        folded = [[row for row in rows if row[1] not in whole] for rows in folded]
    consts = arena.consts
    unified = {theirs: consts[mine] for mine, theirs, _ in (*close, *folded[0], *folded[1])}
    close += [*folded[0], *((constant, product, distance) for product, constant, distance in folded[1])]
    if not close or not _agree(pair, points[:5], unified, 0):
        return None
    return NearMiss(tuple((consts[mine], consts[theirs], distance) for mine, theirs, distance in close))


def _agree(pair: Pair, points: Sequence[dict[int, mpq]], constants: dict[int, Const], least: int) -> bool:
    """Whether the sides agree at the first point and wherever else both have a value, at so many points at least."""
    settled = 0
    for number, point in enumerate(points):
        distance = pair.compare(point, constants)[0]
        if distance is None:
            if number == 0:
                return False
            continue
        if distance > LEAST_DIFFERENCE:
            return False
        settled += 1
    return settled > least


def close_constants(arena: Arena, reference: Sequence[int], candidate: Sequence[int]) -> list[tuple[int, int, float]]:
    """Pairs (reference constant, candidate constant, relative difference) of different constants within ``NEAR``."""
    finite = [i for i in reference if arena.consts[i].special is None and arena.consts[i].coef != 0]
    pairs = []
    for ident in candidate:
        const = arena.consts[ident]
        if const.special is not None or const.coef == 0 or ident in reference:
            continue
        value = const.value(128)
        best = min(finite, key=lambda i: abs(arena.consts[i].value(128) - value), default=None)
        if best is None:
            continue
        distance = float(abs(arena.consts[best].value(128) - value) / abs(value))
        if 0 < distance < NEAR:
            pairs.append((best, ident, distance))
    return pairs


def folded_constants(arena: Arena, apart: Sequence[int], folded: Sequence[int]) -> list[tuple[int, int, float]]:
    """Constants of the second side that are, but for rounding, the product of two of the first, which multiplies by one after
    the other (scale * log2 e, folded at compile time): (the exact product, the constant, relative difference)."""
    finite = [i for i in apart if arena.consts[i].special is None and arena.consts[i].coef != 0 and i != ONE][:_FOLDED]
    products = {multiply(arena.consts[a], arena.consts[b]) for i, a in enumerate(finite) for b in finite[i:]}
    known = [(product.value(128), product) for product in sorted(products, key=str)]
    pairs = []
    for ident in folded:
        const = arena.consts[ident]
        if const.special is not None or const.coef == 0 or ident in apart or not known:
            continue
        value = const.value(128)
        nearest, product = min(known, key=lambda row: abs(row[0] - value))
        distance = float(abs(nearest - value) / abs(value))
        if 0 < distance < NEAR and all(abs(arena.consts[i].value(128) - value) > NEAR * abs(value) for i in finite):
            pairs.append((arena.const(product), ident, distance))
    return pairs


def within_ulp(x: Const, y: Const) -> bool:
    """Whether two constants differ by one unit in the last place of f32 at most."""
    a, b = x.value(80), y.value(80)
    return bool(abs(a - b) <= max(ulp_of(float(v), "f32") for v in (a, b)))


# --- literals of one side -------------------------------------------------------------------------


def _of_a_literal(pair: Pair, points: list[dict[int, mpq]]) -> NearMiss | None:
    """Literals of one side that round what the other side computes: one of them, or several together."""
    if len(pair.cone.nodes) > _TERMS:
        return None
    sides = [("candidate", _literals(pair, 1)), ("reference", _literals(pair, 0))]
    trials = [(side, [ident]) for side, idents in sides for ident in idents]
    trials += [(side, idents) for side, idents in sides if len(idents) > 1]
    fit = _Fit(pair, points, clock() + _SECONDS)
    for side, idents in trials:
        values = fit.of(idents)
        if values is not None and _agree(pair, fit.first(_POINTS), values, 2 * len(idents) + _LEAST_POINTS):
            own = pair.arena.consts
            rows = [(value, own[i], float(abs(value.coef / own[i].coef - 1))) for i, value in values.items()]
            rows = [row for row in rows if row[2] > _ROUNDED]
            return NearMiss(tuple((a, b, d) if side == "candidate" else (b, a, d) for a, b, d in rows), side) if rows else None
    return None


def _literals(pair: Pair, side: int) -> list[int]:
    """The rounded literals that only one side has (products and quotients with them, too); none where they are many."""
    others = set(pair.constants[1 - side])
    found = [i for i in pair.constants[side] if i not in others and _is_rounded(pair.arena.consts[i])]
    if found:
        whole = whole_constants(pair.cone.plan).certain
        found = [i for i in found if i not in whole]
    return found if len(found) <= _LITERALS else []


def _is_rounded(const: Const) -> bool:
    """Whether a constant may be what a rounding has left: neither 1/8 nor 3/5 is."""
    return const.special is None and not (is_short(const.coef.numerator) and is_short(const.coef.denominator))


class _Fit:
    """What literals would have to be for the sides to agree at a few points."""

    def __init__(self, pair: Pair, points: list[dict[int, mpq]], deadline: float) -> None:
        self.pair, self.deadline, self._all = pair, deadline, points
        self._real = (point for point in points if clock() < deadline and self._difference(point, {}) is not None)
        self._points: list[dict[int, mpq]] = []
        self._sizes: dict[int, Any] = {}  # by the identity of a point, all of which are kept

    def first(self, count: int) -> list[dict[int, mpq]]:
        """So many points at which both sides have a value, or fewer."""
        self._points += islice(self._real, max(0, count - len(self._points)))
        return self._points[:count]

    def _difference(self, point: dict[int, mpq], values: dict[int, Const]) -> mpq | None:
        """(reference - candidate) over the size of the larger as it was at first; None where it is not known to that many digits."""
        pair = self.pair
        found = Enclosure(pair.cone, point, _BITS, values)
        ends = [bounds(value) for value in (found[pair.reference], found[pair.candidate]) if value is not None]
        if len(ends) < 2 or not all(gmpy2.is_finite(end) for value in ends for end in value):
            return None
        with gmpy2.context(precision=_BITS, emax=gmpy2.get_emax_max(), emin=gmpy2.get_emin_min()):
            (a, b), (c, d) = ends
            # (over the size at hand, the difference would not be linear in a literal where the value is nearly zero)
            size = self._sizes.setdefault(id(point), max(map(abs, (a, b, c, d))))
            if not size:
                return mpq(0) if a == b == c == d else None
            return mpq((a + b - c - d) / (2 * size)) if (b - a) + (d - c) <= _ERROR * size else None

    def of(self, idents: list[int]) -> dict[int, Const] | None:
        """What the literals would have to be, within ``NEAR``, for the difference to vanish at the first points (twice as many as there
        are literals, of several), by Newton's method; None where nothing is found."""
        consts = self.pair.arena.consts
        points = self.first(1 if len(idents) == 1 else 2 * len(idents))
        values = {i: consts[i] for i in idents}
        slopes: np.ndarray | None = None
        for _ in range(_TURNS):
            rest = self._differences(points, values)
            if not rest or clock() > self.deadline:
                return None
            scale = max(map(abs, rest))
            if scale < LEAST_DIFFERENCE**2:
                return values
            slopes = self._slopes(points, values, rest) if slopes is None else slopes
            if slopes is None or not slopes.any():
                return None
            moves = np.linalg.lstsq(slopes, np.array([-float(r / scale) for r in rest]), rcond=_SINGULAR)[0]
            values = {i: _scaled(v, 1 + mpq(float(move)) * scale) for (i, v), move in zip(values.items(), moves)}
            if any(abs(v.coef / consts[i].coef - 1) >= NEAR for i, v in values.items()):
                return None
        return None

    def _differences(self, points: list[dict[int, mpq]], values: dict[int, Const]) -> list[mpq]:
        """The differences at all points; empty where one is not known."""
        found = [self._difference(point, values) for point in points]
        known = [difference for difference in found if difference is not None]
        return known if len(known) == len(found) else []

    def _slopes(self, points: list[dict[int, mpq]], values: dict[int, Const], rest: list[mpq]) -> np.ndarray | None:
        """Derivatives of the differences (points, literals) by the relative size of each literal."""
        moved = [self._differences(points, {**values, i: _scaled(v, 1 + _STEP)}) for i, v in values.items()]
        if not all(moved):
            return None
        return np.array([[float((m - r) / _STEP) for m, r in zip(column, rest)] for column in moved]).T


def _scaled(const: Const, factor: mpq) -> Const:
    return replace(const, coef=const.coef * factor)
