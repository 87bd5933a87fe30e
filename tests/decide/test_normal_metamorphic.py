"""Laws of the exact decider: what it proves is true at random points, rewrites are (nearly always) proved, changes never are."""

from __future__ import annotations

import random

import gmpy2
import numpy as np
import pytest
import sympy
from gmpy2 import mpfr, mpq
from hypothesis import given, settings
from hypothesis import strategies as st
from normal_judge import OutOfDomain, evaluate
from normal_random import INPUTS, Terms

from ptx_engine.decide.templates import ClassResult, Outcome, ProofBudget, prove_columns
from ptx_engine.terms import Arena, Op

seeds = st.integers(0, 2**32)


def _prove(terms: Terms, reference: int, candidate: int) -> ClassResult:
    (result,) = prove_columns(
        terms.arena, np.array([reference], np.int32), np.array([candidate], np.int32), ProofBudget(seconds=10, terms=300_000)
    )
    return result


def _points(seed: int, count: int) -> list[dict[int, mpfr]]:
    """Small integers (where ties and zeros happen), positive and mixed rationals."""
    rng = random.Random(seed)
    makers = [
        lambda: mpq(rng.randint(-2, 2)),
        lambda: mpq(rng.randint(1, 40), rng.randint(7, 19)),
        lambda: mpq(rng.randint(-40, 40), rng.randint(7, 19)),
    ]
    return [{i: mpfr(makers[n % 3](), 200) for i in INPUTS} for n in range(count)]


def _disagreement(terms: Terms, reference: int, candidate: int, seed: int) -> str:
    for point in _points(seed, 20):
        try:
            x, y = evaluate(terms.arena, reference, point), evaluate(terms.arena, candidate, point)
        except OutOfDomain:
            continue
        if gmpy2.is_finite(x) and gmpy2.is_finite(y) and abs(x - y) > 1e-25 * max(1, abs(x)):
            return f"{terms.text(reference)} is {x}, {terms.text(candidate)} is {y} at {point}"
    return ""


def _check_sound(seed: int, kind: str) -> None:
    terms = Terms(seed)
    reference = terms.term(3)
    candidate = terms.rewritten(reference, 0.4) if kind != "unrelated" else terms.term(3)
    if kind == "changed":
        candidate = int(terms.arena.add(candidate, terms.arena.mul(terms.leaf(), terms.leaf())))
    if _prove(terms, reference, candidate).outcome is Outcome.EQUAL:
        assert not _disagreement(terms, reference, candidate, seed)


@given(seed=seeds, kind=st.sampled_from(("rewritten", "changed", "unrelated")))
@settings(max_examples=120, deadline=None)
def test_proved_terms_agree_at_random_points(seed: int, kind: str) -> None:
    _check_sound(seed, kind)


@pytest.mark.slow
@given(seed=seeds, kind=st.sampled_from(("rewritten", "changed", "unrelated")))
@settings(max_examples=20_000, deadline=None)
def test_proved_terms_agree_at_random_points_at_length(seed: int, kind: str) -> None:
    _check_sound(seed, kind)


def test_most_rewrites_are_proved_and_none_is_called_different() -> None:
    """Among 200 rewritten terms at most a few (perfect squares under a root, undefined terms) stay unknown."""
    outcomes = []
    for seed in range(200):
        terms = Terms(seed)
        reference = terms.term(3)
        candidate = terms.rewritten(reference, 0.4)
        result = _prove(terms, reference, candidate)
        outcomes.append(result.outcome)
        if result.outcome is Outcome.DIFFERENT:
            assert "inf" in terms.text(candidate) + terms.text(reference), terms.text(reference)
    assert outcomes.count(Outcome.EQUAL) >= 190


@given(seed=seeds)
@settings(max_examples=30, deadline=None)
def test_order_of_sides_does_not_matter(seed: int) -> None:
    terms = Terms(seed)
    reference = terms.term(3)
    candidate = terms.rewritten(reference, 0.5)
    there, back = _prove(terms, reference, candidate).outcome, _prove(terms, candidate, reference).outcome
    assert {there, back} != {Outcome.EQUAL, Outcome.DIFFERENT}


# --- an independent system ----------------------------------------------------------------------

_SYMBOLS = sympy.symbols("x y z")


def _to_sympy(arena: Arena, ident: int) -> sympy.Expr:
    if ident < 0:
        return _SYMBOLS[-1 - ident]
    op, a, b, c = arena.node(ident)
    if op is Op.CONST:
        coef = arena.consts[a].coef
        return sympy.Rational(int(coef.numerator), int(coef.denominator))
    x = _to_sympy(arena, a)
    if op is Op.NEG:
        return -x
    if op is Op.EXP2:
        return sympy.Integer(2) ** x
    y = _to_sympy(arena, b)
    if op is Op.FMA:
        return x * y + _to_sympy(arena, c)
    return {Op.ADD: x + y, Op.SUB: x - y, Op.MUL: x * y}[op] if op is not Op.DIV else x / y


def _rational_term(terms: Terms, depth: int) -> int:
    a, rng = terms.arena, terms.rng
    if depth == 0:
        return terms.leaf()
    x, y = _rational_term(terms, depth - 1), _rational_term(terms, depth - 1)
    return int(rng.choice((a.add, a.sub, a.mul, a.mul, a.div))(x, y))  # type: ignore[arg-type]


def test_rational_terms_against_sympy() -> None:
    """For quotients of polynomials the decider is complete: it agrees with SymPy both ways."""
    checked = 0
    for seed in range(60):
        terms = Terms(seed)
        reference = _rational_term(terms, 3)
        candidate = terms.rewritten(reference, 0.5)
        if seed % 2:
            candidate = int(terms.arena.add(candidate, terms.arena.mul(terms.leaf(), terms.leaf())))
        left, right = _to_sympy(terms.arena, reference), _to_sympy(terms.arena, candidate)
        if left.has(sympy.zoo, sympy.nan) or right.has(sympy.zoo, sympy.nan):
            continue
        result = _prove(terms, reference, candidate)
        if result.outcome is Outcome.UNKNOWN:
            assert "zero" in result.reason or "reaches an output" in result.reason or "NaN" in result.reason, result.reason
            continue
        expected = sympy.cancel(sympy.together(left - right)) == 0
        assert (result.outcome is Outcome.EQUAL) == expected, terms.text(reference) + "  and  " + terms.text(candidate)
        checked += 1
    assert checked > 30
