"""Laws over the reals: terms that agree at a few points are compared by proof; what is proved agrees at 20 points and more, and
has a value wherever the reference has one, unless the ledger says otherwise.

Random terms that agree by chance at three points are the near misses that a wrong rule would take for equal.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from gmpy2 import mpfr, mpq
from hypothesis import given, settings
from hypothesis import strategies as st
from normal_judge import OutOfDomain, Refused, evaluate
from normal_random import INPUTS, Terms

from ptx_engine.decide.templates import ClassResult, Outcome, ProofBudget, prove_columns

seeds = st.integers(0, 2**32)
Point = dict[int, mpfr]


def _point(rng: random.Random, n: int) -> Point:
    """Small integers, where ties and zeros are met, and rationals of both signs, near zero and far from it."""
    makers = (
        lambda: mpq(rng.randint(-2, 2)), lambda: mpq(rng.randint(-40, 40), rng.randint(7, 19)), lambda: mpq(rng.randint(1, 9), 4),
        lambda: mpq(rng.randint(-200, 200), 8), lambda: mpq(rng.choice((-1, 0, 1)), rng.randint(1, 1000)),
    )  # fmt: skip
    return {i: mpfr(makers[n % 5](), 200) for i in INPUTS}


def _value(terms: Terms, ident: int, point: Point) -> mpfr | None:
    """The value, None where there is none. Raises Refused where rounding cannot tell."""
    try:
        return evaluate(terms.arena, ident, point)
    except Refused:
        raise
    except OutOfDomain:
        return None


def _refused(terms: Terms, ident: int, points: list[Point]) -> list[mpfr | str | None]:
    values: list[mpfr | str | None] = []
    for point in points:
        try:
            values.append(_value(terms, ident, point))
        except Refused:
            values.append("refused")
    return values


def _alike(terms: Terms, depth: int, count: int, rng: random.Random) -> list[tuple[int, int]]:
    sample = [_point(rng, n) for n in (0, 1, 3)]
    groups: dict[tuple[str, ...], list[int]] = {}
    for _ in range(count):
        ident = terms.term(depth)
        values = _refused(terms, ident, sample)
        groups.setdefault(tuple(v if isinstance(v, str) else f"{v:.9e}" if v is not None else "" for v in values), []).append(ident)
    return [(g[i], g[i + 1]) for g in groups.values() for i in range(len(g) - 1) if g[i] != g[i + 1]]


def _proofs(terms: Terms, pairs: list[tuple[int, int]]) -> list[tuple[int, int, ClassResult]]:
    sides = (np.array([pair[i] for pair in pairs], np.int32) for i in (0, 1))
    results = prove_columns(terms.arena, *sides, ProofBudget(60, 300_000))
    return [(*pairs[int(m)], r) for r in results if r.outcome is Outcome.EQUAL for m in r.members]


def check(seed: int, depth: int, count: int) -> None:
    """Every proof among random terms that are alike, judged at random points."""
    terms, rng = Terms(seed), random.Random(seed)
    pairs = _alike(terms, depth, count, rng)
    points = [_point(rng, n) for n in range(25)]
    for reference, candidate, result in _proofs(terms, pairs) if pairs else ():
        stated = bool(result.narrower) or any("reference)" not in line for line in result.assumptions)
        for point, x, y in zip(points, _refused(terms, reference, points), _refused(terms, candidate, points)):
            if x is None or isinstance(x, str) or isinstance(y, str) or (y is None and stated):
                continue
            words = f"seed {seed}: {terms.text(reference)} against {terms.text(candidate)} at {point}"
            assert y is not None, f"{words}: undefined"
            assert abs(x - y) <= 1e-25 * max(1, abs(x)), words


@given(seed=seeds)
@settings(max_examples=40, deadline=None)
def test_what_is_proved_agrees_and_is_defined(seed: int) -> None:
    check(seed, 2, 60)


@pytest.mark.slow
@given(seed=seeds, depth=st.integers(1, 4))
@settings(max_examples=3000, deadline=None)
def test_what_is_proved_agrees_and_is_defined_at_length(seed: int, depth: int) -> None:
    check(seed, depth, 200)
