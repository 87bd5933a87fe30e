"""Identities that the exact decider has to prove, each with twins that are wrong in one detail and must not be proved.

Expected answers come from mathematics; every twin is checked to be really different by an independent evaluation.
"""

from __future__ import annotations

import random

import identities_algebra  # noqa: F401  (registers its cases)
import identities_networks  # noqa: F401
import pytest
from gmpy2 import mpfr, mpq
from identity_register import EQUAL, WRONG
from normal_judge import OutOfDomain, evaluate
from normal_terms import Builder, Ids, proved


@pytest.mark.parametrize("name", EQUAL)
def test_identity_is_proved(name: str) -> None:
    b = Builder()
    reference, candidate = EQUAL[name](b)
    assert proved(b, reference, candidate)


@pytest.mark.parametrize("name", WRONG)
def test_near_identity_is_not_proved(name: str) -> None:
    b = Builder()
    reference, candidate = WRONG[name](b)
    assert not proved(b, reference, candidate)
    assert _differ_somewhere(b, reference, candidate), "the twin is an identity after all"


def _differ_somewhere(b: Builder, reference: Ids, candidate: Ids) -> bool:
    rng = random.Random(7)
    ids = [-1 - i for i in range(sum(entry.count for entry in b.arena.inputs))]
    for n in range(40):
        point = {i: mpfr(mpq(rng.randint(-30, 30), rng.randint(1, 1 + n)), 200) for i in ids}
        for r, c in zip(reference, candidate):
            try:
                x, y = evaluate(b.arena, r, point), evaluate(b.arena, c, point)
            except OutOfDomain:
                continue
            if abs(x - y) > 1e-20 * max(1, abs(x)):
                return True
    return False


def test_there_are_enough_cases() -> None:
    assert len(EQUAL) + len(WRONG) >= 80
