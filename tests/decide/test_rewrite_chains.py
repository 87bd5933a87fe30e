"""Chains of rewrites: a random term, rewritten again and again by rules that hold, stays equal to itself; one change that does not
hold, anywhere in the chain, is never proved. Over + - * / exp every chain is proved: there the decider is complete.
"""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from normal_random import Terms

from ptx_engine.decide import Budget, decide
from ptx_engine.launch import Footprint
from ptx_engine.terms.arena import CONST_CAP, NEG_INF, POS_INF
from ptx_engine.verdict import Status, Verdict

seeds = st.integers(0, 2**32)
#: a term whose chain has grown beyond this is not rewritten further
_LARGE = 4000


def _smooth(terms: Terms, depth: int) -> int:
    """A random term of the operators for which the normal form is complete; denominators and exponents stay small."""
    a, rng = terms.arena, terms.rng
    if depth == 0 or rng.random() < 0.1:
        return terms.leaf()
    x, y = _smooth(terms, depth - 1), _smooth(terms, depth - 1)
    kind = rng.choice(("add", "sub", "mul", "mul", "div", "exp"))
    return int(a.exp(x) if kind == "exp" else getattr(a, kind)(x, y))  # type: ignore[call-overload]


def _chain(terms: Terms, term: int, steps: int) -> int:
    for _ in range(steps):
        if len(terms.arena) - CONST_CAP < _LARGE:
            term = terms.rewritten(term, 0.25)
    return term


def _changed(terms: Terms, term: int) -> int:
    """Another value, wherever the term has one."""
    a, rng = terms.arena, terms.rng
    return int(rng.choice((lambda: a.add(term, 1), lambda: a.sub(term, a.exp(term)), lambda: a.add(term, a.exp(terms.leaf()))))())  # type: ignore[call-overload]


def _verdict(terms: Terms, reference: int, candidate: int) -> Verdict:
    sides = [{"out": Footprint(np.zeros(1, np.int64), np.array([ident], np.int32))} for ident in (reference, candidate)]
    return decide(terms.arena, *sides, budget=Budget(seconds=10, terms=1_000_000, witness_seconds=0.3))


def _status(terms: Terms, reference: int, candidate: int) -> Status:
    return _verdict(terms, reference, candidate).status


@given(seed=seeds, steps=st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_every_chain_over_the_complete_operators_is_proved(seed: int, steps: int) -> None:
    terms = Terms(seed)
    reference = _smooth(terms, 3)
    candidate = _chain(terms, reference, steps)
    verdict = _verdict(terms, reference, candidate)
    without_values = any(words in verdict.reason for words in ("division by zero", "NaN or undefined", "reaches an output", "inf - inf"))
    assert verdict.status is Status.PROVED or (verdict.status is Status.UNKNOWN and without_values), verdict.reason


@given(seed=seeds, before=st.integers(0, 3), after=st.integers(0, 3), smooth=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_change_anywhere_in_a_chain_is_never_proved(seed: int, before: int, after: int, smooth: bool) -> None:
    terms = Terms(seed)
    reference = _smooth(terms, 3) if smooth else terms.term(3)
    assume(reference not in (POS_INF, NEG_INF))  # 1 / 0, say: an infinity and one more is the same infinity
    candidate = _chain(terms, _changed(terms, _chain(terms, reference, before)), after)
    assert _status(terms, reference, candidate) is not Status.PROVED


@given(seed=seeds, steps=st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_no_chain_of_any_operators_is_refuted(seed: int, steps: int) -> None:
    terms = Terms(seed)
    reference = terms.term(3)
    assert _status(terms, reference, _chain(terms, reference, steps)) is not Status.REFUTED
