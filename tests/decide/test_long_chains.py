"""Long chains of multiply-adds as polynomials: what they are made of is told in as many steps as they have links."""

from __future__ import annotations

import pytest

from ptx_engine.decide.polynomial import Expansion, TooLarge
from ptx_engine.terms import Arena


def chain(length: int) -> tuple[Arena, int, int]:
    """x[0] + sum of x[i] * y[i], whose last product stands twice; the arena, the sum, and the base of y."""
    arena = Arena()
    x, y = arena.add_input("x", length, "f32"), arena.add_input("y", length, "f32")
    total = int(x.ids(0))
    for i in [*range(length), length - 1]:
        total = int(arena.fma(x.ids(i), y.ids(i), total))
    return arena, total, y.base


def test_a_long_chain_is_one_polynomial() -> None:
    length = 5000
    arena, total, base = chain(length)
    found = Expansion(arena, lambda ident: ident).expand(total)
    expected = {tuple(sorted((-1 - i, -1 - base - i))): 1 + (i == length - 1) for i in range(length)} | {(-1,): 1}
    assert {tuple(sorted(monomial)): int(coef) for monomial, coef in found.items()} == expected
    with pytest.raises(TooLarge):
        Expansion(arena, lambda ident: ident, limit=length).expand(total)
