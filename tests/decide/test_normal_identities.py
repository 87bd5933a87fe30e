"""Identities that the exact decider has to prove, each with twins that are wrong in one detail and must not be proved.

Expected answers come from mathematics; every twin is checked to be really different by an independent evaluation.
"""

from __future__ import annotations

import random

import identities_activations  # noqa: F401
import identities_algebra  # noqa: F401  (registers its cases)
import identities_attention  # noqa: F401
import identities_integers  # noqa: F401
import identities_networks  # noqa: F401
import identities_norms  # noqa: F401
import identities_order  # noqa: F401
import identities_products  # noqa: F401
import identities_softmax  # noqa: F401
import identity_faults  # noqa: F401
import pytest
from gmpy2 import mpfr, mpq
from identity_register import EQUAL, TWINS, WRONG
from normal_judge import OutOfDomain, evaluate
from normal_terms import Builder, Ids, proved


@pytest.mark.parametrize("name", EQUAL)
def test_identity_is_proved(name: str) -> None:
    b = Builder()
    reference, candidate = EQUAL[name](b)
    assert proved(b, reference, candidate)


#: refuted at once by numbers, but long looked into by the prover alone
DEAR = {f"{which} of 64: the position of the other half" for which in ("argmax", "argmin")}
DEAR |= {"selections over 10 conditions of which one is not asked"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in DEAR)) for name in WRONG])
def test_near_identity_is_not_proved(name: str) -> None:
    b = Builder()
    reference, candidate = WRONG[name](b)
    assert not proved(b, reference, candidate)
    assert differ_somewhere(b, reference, candidate), "the twin is an identity after all"


def _point(b: Builder, rng: random.Random, n: int) -> dict[int, mpfr]:
    """Small rationals, powers of two and their neighbours, zeros; integers within their formats."""
    point = {}
    for entry in b.arena.inputs:
        bits = int(entry.fmt[1:]) if entry.fmt[0] in "su" else 0
        low, high = (0, (1 << bits) - 1) if entry.fmt[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1) if bits else (0, 0)
        for i in range(entry.count):
            value = mpq(rng.randint(-30, 30), rng.randint(1, 1 + n)) if n % 3 else mpq(rng.choice((-1, 0, 1)) * 2 ** rng.randint(0, 8))
            if bits:
                value = mpq(rng.choice((low, high, rng.randint(low, high), max(low, min(high, int(value))))))
            point[-1 - entry.base - i] = mpfr(value, 200)
    return point


def differ_somewhere(b: Builder, reference: Ids, candidate: Ids) -> bool:
    rng = random.Random(7)
    for n in range(60):
        point = _point(b, rng, n)
        for r, c in zip(reference, candidate):
            try:
                x, y = evaluate(b.arena, r, point), evaluate(b.arena, c, point)
            except OutOfDomain:
                continue
            if abs(x - y) > 1e-20 * max(1, abs(x)):
                return True
    return False


def test_every_identity_names_its_twin() -> None:
    assert TWINS.keys() == EQUAL.keys() and set(TWINS.values()) <= WRONG.keys()


def test_there_are_enough_cases() -> None:
    assert len(EQUAL) >= 120 and len(WRONG) >= 80
