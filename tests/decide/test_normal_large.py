"""Sizes at which multiplying out is no option: variances of long rows, and twins of them that are wrong in one summand."""

from __future__ import annotations

import pytest
from gmpy2 import mpq
from normal_terms import Builder, prove, proved

from ptx_engine.decide.templates import Outcome


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
