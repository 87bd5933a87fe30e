"""Sizes at which multiplying out is no option: variances of long rows, and twins of them that are wrong in one summand."""

from __future__ import annotations

import numpy as np
import pytest
from gmpy2 import mpq
from normal_terms import Builder, prove, proved

from ptx_engine.decide import decide
from ptx_engine.decide.budget import Meter
from ptx_engine.decide.templates import Outcome, ProofBudget, prove_normal_forms
from ptx_engine.terms import symbols
from ptx_engine.terms.expr import Expr, maximum, minimum
from ptx_engine.verdict import Status


@pytest.mark.parametrize("method", ["moments", "chan"])
def test_variance_of_a_long_row(method: str) -> None:
    """512 values: 131 328 products if it were multiplied out; the budget allows for fewer."""
    b = Builder()
    x, eps = b.inputs(512), b.c(mpq(1, 1000))
    mean, variance = b.chan(x, 32) if method == "chan" else (b.mean(x), b.variance_by_moments(x))
    reference = b.normalised(x[0], b.mean(x), b.variance(x), eps)
    assert proved(b, [reference], [b.normalised(x[0], mean, variance, eps)], terms=100_000)


@pytest.mark.parametrize("wrong", ["a product too much", "another block size", "one value twice"])
def test_wrong_variance_of_a_long_row_is_not_proved(wrong: str) -> None:
    b = Builder()
    x, eps, a = b.inputs(128), b.c(mpq(1, 1000)), b.arena
    reference = b.normalised(x[0], b.mean(x), b.variance(x), eps)
    mean, variance = b.chan(x, 16)
    if wrong == "a product too much":
        variance = a.fma(x[3], a.mul(x[4], b.c(mpq(1, 10**6))), variance)
    elif wrong == "another block size":
        variance = a.mul(b.chan(x, 16)[1], b.c(mpq(128, 127)))
    else:
        mean, variance = b.chan([*x[:127], x[126]], 16)
    assert not proved(b, [reference], [b.normalised(x[0], mean, variance, eps)])


def test_attention_over_many_keys_is_linear() -> None:
    """Online against naive softmax with 128 keys: every key costs the same, whatever the block."""
    b = Builder()
    depth, keys = 4, 128
    q, k, v = b.inputs(depth), b.inputs(keys * depth), b.inputs(keys)
    s = [b.dot(q, k[j * depth : (j + 1) * depth]) for j in range(keys)]
    reference = b.attention(s, v)
    for block in (1, 16, 64):
        out, _, _ = b.online(s, v, block)
        (result,) = prove(b, [reference], [out])
        assert result.outcome is Outcome.EQUAL and result.assumptions == ()
    wrong, _, _ = b.online([*s[:-1], s[0]], v, 16)
    (result,) = prove(b, [reference], [wrong])
    assert result.outcome is Outcome.DIFFERENT


def _minimum(items: list[Expr], shift: Expr) -> tuple[Expr, Expr]:
    """The least of some values and their greatest size, shifted inside, and outside in another order."""
    inside = minimum(*[item + shift for item in items]) * maximum(*map(abs, items))
    mirrored = items[::-1]
    return inside, (-maximum(*[-item for item in mirrored]) + shift) * maximum(maximum(*mirrored), -minimum(*mirrored))


def _spent(monkeypatch: pytest.MonkeyPatch, reference: Expr, candidate: Expr) -> tuple[Outcome, int]:
    """What the full normal form says, and the term operations it took."""
    meters: list[Meter] = []
    init = Meter.__init__

    def kept(self: Meter, *arguments: object) -> None:
        init(self, *arguments)  # type: ignore[arg-type]
        meters.append(self)

    monkeypatch.setattr(Meter, "__init__", kept)
    sides = (np.array([side.id], np.int32) for side in (reference, candidate))
    (result,) = prove_normal_forms(reference.arena, *sides, ProofBudget())
    monkeypatch.undo()
    return result.outcome, sum(meter.spent for meter in meters)


def test_a_minimum_costs_what_a_maximum_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linear in the number of values: four times as many may not cost sixteen times as much."""
    costs = []
    for count in (64, 256):
        x, shift = symbols(f"x:{count} c")
        outcome, spent = _spent(monkeypatch, *_minimum(list(x), shift))
        assert outcome is Outcome.EQUAL
        costs.append(spent)
    assert costs[1] < 6 * costs[0]


@pytest.mark.parametrize("count", [2, 3, 16, 20])
def test_minima_of_other_values_are_not_proved(count: int) -> None:
    x, shift = symbols(f"x:{count} c")
    items = list(x)
    reference, candidate = _minimum(items, shift)
    assert decide(reference, candidate).status is Status.PROVED
    for wrong in (
        _minimum(items[:-1], shift)[1],
        _minimum([*items[:-1], items[-1] + 1], shift)[1],
        _minimum(items, shift + shift)[1],
        _minimum([*items, -items[0]], shift)[1],
        _minimum([item * 2 for item in items], shift)[1] / 4,
    ):
        assert decide(reference, wrong).status is Status.REFUTED


@pytest.mark.parametrize("count", [16, 17, 33])
@pytest.mark.parametrize("offset", [-2, 0, 1, 3])
def test_maxima_are_the_same_whatever_is_added_to_all_values(count: int, offset: int) -> None:
    """Values with one constant in most, another in some, none in the rest: shifted inside against outside."""
    x, c = symbols(f"x:{count} c")
    items = [item + (c if n % 3 else 2 * c) - (n == 1) * 5 for n, item in enumerate(x)]
    reference = maximum(*[item + offset * c for item in items])
    assert decide(reference, maximum(*items) + offset * c).status is Status.PROVED
    assert decide(reference, maximum(*items) + (offset + 1) * c).status is Status.REFUTED
