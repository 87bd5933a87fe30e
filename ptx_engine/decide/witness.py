"""From suspicion to witness: real inputs at which two terms differ, confirmed exactly or in MPFR, and made small.

A pair is screened in float64 at many points. A point at which both sides are real numbers and differ is confirmed at two
precisions: the difference must stand far above what the evaluation can err. Then inputs are set to zero and to one as long
as the sides still differ. A point where a side is no real number (0/0, log of a negative number) is no witness.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import gmpy2
import numpy as np
from gmpy2 import mpq

from ptx_engine.decide.budget import clock
from ptx_engine.decide.enclosure import Between, Enclosure, bounds, middle
from ptx_engine.decide.levels import Plan
from ptx_engine.decide.oracle import STYLES, InputValues, Reals, integer_range, random_inputs
from ptx_engine.decide.precise import Cone, Value, is_nan
from ptx_engine.terms.arena import NAN, NEG_INF, POS_INF, UNDEF, Arena
from ptx_engine.terms.constants import Const
from ptx_engine.terms.ops import Op

#: constants whose neighbourhood is looked at, that many below and beyond a size, as far as halves are exact; mixed points; and terms
#: beyond which that is too much
_THRESHOLDS, _LARGEST, _WHOLE, _MIXED, _LARGE_CONE = 6, 1e6, 2.0**51, 8, 100_000
#: inputs each of which alone is put there, if there are no more
_FEW_INPUTS = 4
#: points of small integers that terms of few nodes are tried at, and how small
_SMALL_POINTS, _NEAR_ZERO = 256, 64
#: relative difference of a witness, at 128 bits and more
LEAST_DIFFERENCE = 1e-15
#: relative difference that f32 hardly resolves (2 units in the last place of 24 bits), and how often it is looked for
APPROXIMATE = 2.0**-21
_APPROXIMATE_SEEDS = 8
_FUNCTIONS = {int(op) for op in (Op.TANH, Op.SIN, Op.COS, Op.ERF, Op.LOG2, Op.EXP2, Op.POW)}
_FLOAT_DIFFERENCE = 1e-9
_DIGITS = 25
_INFINITE = (POS_INF, NEG_INF)
_EXACT = type(mpq(0))
#: bits at which values are bounded, the last of them in small terms only; of a witness 20 digits are known at least
_PRECISIONS, LEAST_SHOWN = (128, 256, 512, 4096), 1e-20
#: points at which terms of so many nodes at most are compared exactly although float64 sees no difference
_POINTS_BEYOND, _SMALL_CONE = 8, 2000


@dataclass(frozen=True)
class Screen:
    """Both sides of many pairs in float64: per pair the largest relative difference over the points where both are real
    (NaN if there is none), and at how many points both, or exactly one, are real."""

    difference: np.ndarray
    both: np.ndarray
    one_sided: np.ndarray


def screen(arena: Arena, reference: np.ndarray, candidate: np.ndarray, *, seed: int = 0, order: Plan | None = None) -> Screen:
    """Evaluate pairs of ids at random points of every style; ``order`` is a plan that covers them, if there is one."""
    reals = Reals(arena, np.concatenate((reference, candidate)), random_inputs(arena, seed), order=order)
    x, y = reals.of(reference), reals.of(candidate)
    fine_x, fine_y = np.isfinite(x), np.isfinite(y)
    both = fine_x & fine_y
    difference = np.where(both, relative_difference(np.where(both, x, 0.0), np.where(both, y, 0.0)), -1.0).max(axis=1, initial=-1.0)
    return Screen(np.where(difference < 0, np.nan, difference), both.sum(axis=1), (fine_x ^ fine_y).sum(axis=1))


def relative_difference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """|x - y| relative to the larger of the two, with a floor far below the typical magnitude of the point (noise about 0)."""
    size = np.maximum(np.abs(x), np.abs(y))
    floor = 1e-6 * np.median(size, axis=0) + 1e-300 if size.size else 1e-300
    return np.asarray(np.abs(x - y) / np.maximum(size, floor))


@dataclass(frozen=True)
class Confirmed:
    """Values of both sides at exact inputs (missing ids are 0), far enough apart."""

    inputs: dict[int, mpq]
    reference: Value
    candidate: Value
    relative: float


class Pair:
    """One reference and one candidate term, with what both need to be evaluated."""

    def __init__(self, arena: Arena, reference: int, candidate: int) -> None:
        self.arena, self.reference, self.candidate = arena, reference, candidate
        self.cone = Cone(arena, [reference, candidate])
        self.inputs = np.array(self.cone.inputs, np.int32)
        (first, mine_constants), (second, their_constants) = (self.cone.below(ident) for ident in (reference, candidate))
        #: constants of each side, and inputs that only one side depends on (as terms)
        self.constants = (mine_constants, their_constants)
        mine, theirs = set(first), set(second)
        self.one_sided = (sorted(mine - theirs, reverse=True), sorted(theirs - mine, reverse=True))

    def difference(self, points: np.ndarray) -> np.ndarray:
        """Float64 relative differences at points (inputs, n); NaN where a side is no real number."""
        reals = Reals(self.arena, np.zeros(0, np.int32), _table(points), order=self.cone.plan)
        x, y = reals.of(np.array([self.reference])), reals.of(np.array([self.candidate]))
        fine = np.isfinite(x) & np.isfinite(y)
        size = np.maximum(np.maximum(np.abs(x), np.abs(y)), 1e-300)
        with np.errstate(all="ignore"):
            return np.asarray(np.where(fine, np.abs(x - y) / size, np.nan)[0])

    def confirm(self, inputs: dict[int, mpq], constants: dict[int, Const] | None = None) -> Confirmed | None:
        """The two values, if their difference is far above the evaluation error."""
        relative, x, y = self.compare(inputs, constants)
        return Confirmed(inputs, x, y, relative) if relative is not None and relative > 0 else None

    def compare(self, inputs: dict[int, mpq], constants: dict[int, Const] | None = None) -> tuple[float | None, Value, Value]:
        """The relative difference (0.0: the sides agree; None: undefined, or not settled) and both values.

        Precision rises until the bounds of both values show that the difference is below ``LEAST_DIFFERENCE``, or how large it is.
        """
        for bits in _PRECISIONS[: len(_PRECISIONS) if len(self.cone.nodes) <= _SMALL_CONE else -1]:
            values = Enclosure(self.cone, inputs, bits, constants)
            x, y = values[self.reference], values[self.candidate]
            if x is None or y is None:
                continue
            if isinstance(x, _EXACT) and isinstance(y, _EXACT):
                return _exact_distance(x, y), x, y
            if not all(isinstance(value, (Between, _EXACT)) for value in (x, y)):
                break
            relative = _apart(bounds(x), bounds(y))
            if relative is not None:
                return relative, middle(x), middle(y)
        return None, gmpy2.nan(), gmpy2.nan()

    def valueless(self) -> Confirmed | None:
        """A point at which one side is a real number, if the other side is one at no point: it is the constant +-infinity, or
        (the candidate) NaN, or divides by zero at every point tried. Memory without contents could hold anything, and so could what
        comes of an operation without a meaning: None."""
        if UNDEF in (*self.constants[0], *self.constants[1]) or (self.cone.plan.codes == int(Op.OPAQUE)).any():
            return None
        drawn = random_inputs(self.arena, 4)(self.inputs)
        reals = Reals(self.arena, np.zeros(0, np.int32), _table(drawn), order=self.cone.plan)
        x, y = (np.isfinite(reals.of(np.array([ident])))[0] for ident in (self.reference, self.candidate))
        if not (x.any() and not y.any()) and not (y.any() and self.reference in _INFINITE):
            return None
        inputs = exact_point(self, drawn[:, int(np.argmax(x | y))])
        values = Enclosure(self.cone, inputs, 256)
        mine, theirs = values[self.reference], values[self.candidate]
        if mine is None or theirs is None:
            return None
        mine, theirs = middle(mine), middle(theirs)
        no_number = self.reference in _INFINITE, self.candidate in _INFINITE or is_nan(theirs)
        if is_nan(mine) or no_number[0] == no_number[1]:
            return None
        return Confirmed(inputs, mine, theirs, math.inf)

    def undefined_share(self) -> tuple[float, float]:
        """At which share of random points reference and candidate are no real number."""
        drawn = random_inputs(self.arena, 4)(self.inputs)
        reals = Reals(self.arena, np.zeros(0, np.int32), _table(drawn), order=self.cone.plan)
        mine, theirs = (np.isnan(reals.of(np.array([ident]))).mean() for ident in (self.reference, self.candidate))
        return float(mine), float(theirs)


def _table(points: np.ndarray) -> InputValues:
    return lambda ids: points


def _exact_distance(x: mpq, y: mpq) -> float:
    """The relative difference of two exact values, however small; 0.0 only if they are equal."""
    return max(float(abs(x - y) / max(abs(x), abs(y))), sys.float_info.min) if x != y else 0.0


def _apart(x: tuple[Value, Value], y: tuple[Value, Value]) -> float | None:
    """The relative difference of values between bounds if the bounds show it, 0.0 if they show that the values agree, None if more
    bits are needed."""
    (a, b), (c, d) = x, y
    with gmpy2.context(precision=1024, emax=gmpy2.get_emax_max(), emin=gmpy2.get_emin_min()):
        if any(map(gmpy2.is_infinite, (a, b, c, d))):
            return 0.0 if a == b == c == d else None
        size = max(map(abs, (a, b, c, d)))
        if max(d - a, b - c) <= LEAST_DIFFERENCE * size:
            return 0.0
        distance, error = max(c - b, a - d), (b - a) + (d - c)
        return float(distance / size) if distance > 10**6 * error and error <= LEAST_SHOWN * size else None


def search(pair: Pair, hints: Sequence[dict[int, mpq]] = (), *, seconds: float = 2.0) -> Confirmed | None:
    """A confirmed, small witness for a pair, or None. ``hints`` are points to try first."""
    deadline = clock() + seconds
    for hint in hints:
        found = pair.confirm(hint)
        if found is not None:
            return found
    points = _candidates(pair)
    differences = pair.difference(points)
    good = np.flatnonzero(np.nan_to_num(differences) > _FLOAT_DIFFERENCE)
    for point in good[:8]:
        found = pair.confirm(exact_point(pair, points[:, point]))
        if found is not None:
            return _smaller(pair, points[:, point], found, deadline)
        if clock() > deadline:
            break
    order = np.argsort(-np.nan_to_num(differences), kind="stable")
    return _beyond_floats(pair, points[:, order[len(good[:8]) :]], deadline)


def _beyond_floats(pair: Pair, points: np.ndarray, deadline: float) -> Confirmed | None:
    """A witness among points at which float64 sees little difference: it has 53 bits and an exponent of 11."""
    if len(pair.cone.nodes) > _SMALL_CONE:
        return None
    for point in range(min(points.shape[1], _POINTS_BEYOND)):
        found = pair.confirm(exact_point(pair, points[:, point])) if clock() < deadline else None
        if found is not None:
            return found
    return None


def differs(pair: Pair) -> bool:
    """Whether the sides differ in float64 at one of the points that a search would try: more of them, and more ties, than a
    screen has."""
    return bool((np.nan_to_num(pair.difference(_candidates(pair))) > _FLOAT_DIFFERENCE).any())


def _candidates(pair: Pair) -> np.ndarray:
    """Points (inputs, n): what stands on one side alone, all ones, small integers, then random values."""
    ids = pair.inputs
    one_sided = np.isin(ids, np.array(pair.one_sided[0] + pair.one_sided[1], np.int32))
    ones = np.ones(len(ids))
    columns = [ones]
    if one_sided.any():
        columns = [one_sided.astype(np.float64), ones, np.where(one_sided, 2.0, 1.0)]
    allowed = _allowed(pair)
    top = np.minimum(1.0, allowed.high)
    structured = np.stack(columns, axis=1) * top[:, None] if len(ids) else np.zeros((0, len(columns)))
    styles = STYLES + ((-4.0, 4.0, 1.0), (1.0, 4.0, 1.0))
    drawn = [random_inputs(pair.arena, seed, styles)(ids) for seed in (1, 2)]
    return np.concatenate((structured, *drawn, _thresholds(pair, allowed)), axis=1)


@dataclass(frozen=True)
class _Allowed:
    """The least and the greatest value of each input of a pair, infinite for floats; whether any is an integer."""

    low: np.ndarray
    high: np.ndarray
    integers: bool


def _allowed(pair: Pair) -> _Allowed:
    entries = pair.arena.inputs
    bounds = np.array([_float_range(entry.fmt) for entry in entries], np.float64).reshape(-1, 2)
    flat = -1 - pair.inputs.astype(np.int64)
    owner = np.searchsorted(np.array([entry.base for entry in entries], np.int64), flat, side="right") - 1
    low, high = bounds[owner].T
    return _Allowed(low, high, bool(np.isfinite(high).any()))


def _float_range(fmt: str) -> tuple[float, float]:
    """The least and the greatest float64 that an input may be: the greatest s64 is none, and would be rounded to one beyond it."""
    low, high = integer_range(fmt) or (-math.inf, math.inf)
    top = float(high)
    return float(low), top if top <= high else math.nextafter(top, 0.0)


def _thresholds(pair: Pair, allowed: _Allowed) -> np.ndarray:
    """Points at and beside the constants of the terms, where comparisons and clamps turn, and at the bounds of integers: all
    inputs at one, then mixed."""
    constants = {pair.arena.consts[i] for side in pair.constants for i in side}
    sizes = sorted({float(c.coef) for c in constants if c.is_rational and abs(c.coef) < _WHOLE} | {0.0}, key=abs)
    values = [v for v in sizes if abs(v) < _LARGEST][:_THRESHOLDS] + [v for v in sizes if abs(v) >= _LARGEST][:_THRESHOLDS]
    if len(pair.cone.nodes) > _LARGE_CONE or not len(pair.inputs):
        return np.zeros((len(pair.inputs), 0))
    near = np.unique([value + step for value in values for step in (-1.0, -0.5, 0.0, 0.5, 1.0)])
    whole = np.repeat(near[None, :], len(pair.inputs), axis=0)
    mixed = np.random.default_rng(11).choice(near, (len(pair.inputs), _MIXED))
    points = np.concatenate((whole, mixed, _one_by_one(near, len(pair.inputs))), axis=1)
    if not allowed.integers:
        return points
    rows = np.isfinite(allowed.high)
    points[rows] = np.clip(np.round(points[rows]), allowed.low[rows, None], allowed.high[rows, None])
    small = [_small_integers(allowed)] if len(pair.cone.nodes) <= _SMALL_CONE else []
    return np.concatenate((points, _borders(allowed), *small), axis=1)


def _one_by_one(near: np.ndarray, count: int) -> np.ndarray:
    """Points at which one of a few inputs is at a value where something may turn, and the others are at none."""
    if count > _FEW_INPUTS:
        return np.zeros((count, 0))
    points = np.repeat((0.6875 + 0.3125 * np.arange(count))[:, None], count * len(near), axis=1)
    points[np.repeat(np.arange(count), len(near)), np.arange(count * len(near))] = np.tile(near, count)
    return points


def _borders(allowed: _Allowed) -> np.ndarray:
    """Points at which integers are the least or the greatest of their formats, all of them or mixed with small ones."""
    count = len(allowed.low)
    draw = np.random.default_rng(12)
    kinds = np.concatenate((np.repeat([[0, 1]], count, axis=0), draw.integers(0, 4, (count, _MIXED))), axis=1)
    small = draw.integers(-2, 3, kinds.shape).astype(np.float64)
    low, high = (np.where(np.isfinite(ends), ends, 1.0)[:, None] for ends in (allowed.low, allowed.high))
    return np.select([kinds == 0, kinds == 1], [low, high], np.clip(small, np.minimum(low, high), np.maximum(low, high)))


def _small_integers(allowed: _Allowed) -> np.ndarray:
    """Points at which integers are small: of roundings of quotients, one remainder out of many may tell the sides apart."""
    drawn = np.random.default_rng(13).integers(-_NEAR_ZERO, _NEAR_ZERO + 1, (len(allowed.low), _SMALL_POINTS)).astype(np.float64)
    return np.asarray(np.clip(drawn, allowed.low[:, None], allowed.high[:, None]))


def exact_point(pair: Pair, point: np.ndarray) -> dict[int, mpq]:
    return {int(i): mpq(*float(x).as_integer_ratio()) for i, x in zip(pair.inputs, point) if x != 0}


def _smaller(pair: Pair, point: np.ndarray, found: Confirmed, deadline: float) -> Confirmed:
    """Zero inputs in ever smaller groups, then try one for each of the rest, as long as the sides differ clearly."""
    least = min(1e-3, found.relative / 16)
    current = point.copy()
    parts = 2
    while clock() < deadline:
        live = np.flatnonzero(current)
        if len(live) <= 1:
            break
        groups = np.array_split(live, min(parts, len(live)))[:64]
        trials = np.repeat(current[:, None], len(groups), axis=1)
        for column, group in enumerate(groups):
            trials[group, column] = 0.0
        passing = np.flatnonzero(np.nan_to_num(pair.difference(trials)) > least)
        if len(passing):
            current = _joint(pair, current, trials, passing, least)
            parts = max(2, parts - 1)
        elif parts >= len(live):
            break
        else:
            parts = min(2 * parts, len(live))
    current = _ones(pair, current, least)
    smaller = pair.confirm(exact_point(pair, current))
    return smaller if smaller is not None else found


def _joint(pair: Pair, current: np.ndarray, trials: np.ndarray, passing: np.ndarray, least: float) -> np.ndarray:
    """All passing reductions at once where that still differs, else the first."""
    together = np.where((trials[:, passing] == 0).any(axis=1), 0.0, current)
    if len(passing) > 1 and np.nan_to_num(pair.difference(together[:, None]))[0] > least:
        return together
    return np.asarray(trials[:, passing[0]])


def _ones(pair: Pair, current: np.ndarray, least: float) -> np.ndarray:
    """Ones for all that is not zero, else one by one for the first few; integers stay within their formats."""
    allowed_values = _allowed(pair)
    low, high = allowed_values.low, allowed_values.high
    simple = np.clip((current != 0).astype(np.float64), low, high)
    if np.nan_to_num(pair.difference(simple[:, None]))[0] > least:
        return np.asarray(simple)
    for position in np.flatnonzero(current)[:16]:
        for value in (1.0, -1.0, 2.0, float(np.round(current[position]))):
            trial = current.copy()
            trial[position] = value
            allowed = value and low[position] <= value <= high[position]
            if allowed and np.nan_to_num(pair.difference(trial[:, None]))[0] > least:
                current = trial
                break
    return current


def approximated(pair: Pair, found: Confirmed) -> float | None:
    """How far apart the sides are at most, relatively, where one of them computes a function of the other by an approximation
    that f32 does not tell from it: at the witness and at random points of many magnitudes. ``None`` where they are further apart.
    """
    codes = [set(Cone(pair.arena, [ident]).plan.codes.tolist()) & _FUNCTIONS for ident in (pair.reference, pair.candidate)]
    if codes[0] == codes[1] or found.relative > APPROXIMATE:
        return None
    worst = found.relative
    for seed in range(5, 5 + _APPROXIMATE_SEEDS):
        drawn = random_inputs(pair.arena, seed)(pair.inputs)
        for scale in (1.0, 2.0**-4, 2.0**-10):
            differences = pair.difference(drawn * scale)
            worst = max(worst, float(np.max(differences, initial=0.0, where=~np.isnan(differences))))
    return worst if worst <= APPROXIMATE else None


def is_undefined(ids: np.ndarray) -> np.ndarray:
    """Which ids are the constant NaN or undefined."""
    return np.asarray((ids == NAN) | (ids == UNDEF))


def digits(value: Value, inexact_digits: int = _DIGITS) -> str:
    """A value as a decimal string: exact if it is a short one, else 25 significant digits."""
    if is_nan(value):
        return "undefined"
    if isinstance(value, type(mpq(1))):
        text = rational_text(value)
        if "/" not in text and len(text) <= 2 * inexact_digits:
            return text
    with gmpy2.context(precision=max(256, 4 * inexact_digits), emax=gmpy2.get_emax_max(), emin=gmpy2.get_emin_min()):
        return f"{gmpy2.mpfr(value):.{inexact_digits}g}"


def rational_text(value: mpq) -> str:
    """An exact decimal where the denominator divides a power of ten, else a fraction."""
    top, bottom = int(value.numerator), int(value.denominator)
    twos = fives = 0
    rest = bottom
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest != 1:
        return f"{top}/{bottom}"
    places = max(twos, fives)
    if places == 0:
        return str(top)
    scaled = str(abs(top) * 10**places // bottom).rjust(places + 1, "0")
    return ("-" if top < 0 else "") + scaled[:-places] + "." + scaled[-places:].rstrip("0")
