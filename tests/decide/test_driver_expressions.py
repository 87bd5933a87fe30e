"""Formulas asked of the decider alone: identities that hold on the reals, each with a twin that does not."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from ptx_engine.decide import decide
from ptx_engine.decide.oracle import Reals
from ptx_engine.terms import Arena, Expr, Vector, symbols
from ptx_engine.terms.expr import (
    cos,
    dot,
    erf,
    exp,
    exp2,
    floor,
    log,
    log2,
    logsumexp,
    maximum,
    mean,
    minimum,
    relu,
    rsqrt,
    sigmoid,
    silu,
    sin,
    softmax,
    sqrt,
    tanh,
    total,
    where,
)  # fmt: skip
from ptx_engine.verdict import Status


def pair(names: str = "x:8 y:8") -> tuple[Vector, Vector]:
    x, y = symbols(names)  # type: ignore[misc]
    assert isinstance(x, Vector) and isinstance(y, Vector)
    return x, y


def online_softmax(x: Vector, block: int, rescale: bool = True) -> Vector:
    peak: Expr | None = None
    running: Expr | None = None
    for start in range(0, len(x), block):
        part = x[start : start + block]
        new = maximum(part) if peak is None else maximum(peak, part)
        added = total(exp(part - new))
        if peak is not None and running is not None:
            added = (running * exp(peak - new) if rescale else running) + added
        peak, running = new, added
    assert peak is not None and running is not None
    return exp(x - peak) / running


Case = Callable[[Vector, Vector], "tuple[Expr | Vector, Expr | Vector]"]
IDENTITIES: list[tuple[str, Case, Case]] = [
    ("softmax, max subtracted", lambda x, y: (softmax(x), softmax(x - maximum(x))), lambda x, y: (softmax(x), softmax(x * 2))),
    ("softmax, online", lambda x, y: (softmax(x), online_softmax(x, 4)), lambda x, y: (softmax(x), online_softmax(x, 4, rescale=False))),
    ("square", lambda x, y: ((x + y) ** 2, x * x + 2 * x * y + y * y), lambda x, y: ((x + y) ** 2, x * x + y * y)),
    ("variance", lambda x, y: (mean((x - mean(x)) ** 2), mean(x * x) - mean(x) ** 2), lambda x, y: (mean((x - mean(x)) ** 2), mean(x * x) - mean(x))),
    ("sigmoid by tanh", lambda x, y: (sigmoid(x), (Vector(tanh(v / 2) for v in x) + 1) / 2), lambda x, y: (sigmoid(x), (tanh(x) + 1) / 2)),
    ("silu", lambda x, y: (silu(x), x / (1 + exp(-x))), lambda x, y: (silu(x), x / (1 + exp(x)))),
    ("exp of a sum", lambda x, y: (exp(x + y), exp(x) * exp(y)), lambda x, y: (exp(x + y), exp(x) + exp(y))),
    ("rsqrt", lambda x, y: (rsqrt(x * x + 1), 1 / sqrt(x * x + 1)), lambda x, y: (rsqrt(x * x + 1), 1 / sqrt(x * x + 2))),
    ("relu", lambda x, y: (relu(x), Vector(where(v > 0, v, 0) for v in x)), lambda x, y: (relu(x), Vector(where(v > 0, v, 1) for v in x))),
    ("dot", lambda x, y: (dot(x, y), sum(a * b for a, b in zip(x, y))), lambda x, y: (dot(x, y), sum(a * b for a, b in zip(x[1:], y)))),  # type: ignore[arg-type,return-value]
]  # fmt: skip


@pytest.mark.parametrize(("equal", "different"), [row[1:] for row in IDENTITIES], ids=[row[0] for row in IDENTITIES])
def test_identity_and_its_twin(equal: Case, different: Case) -> None:
    assert decide(*equal(*pair())).status is Status.PROVED
    verdict = decide(*different(*pair()))
    assert verdict.status is Status.REFUTED and verdict.outputs[0].witness is not None


def test_logsumexp_is_stable() -> None:
    x, _ = pair()
    peak = maximum(x)
    assert decide(logsumexp(x), peak + log(total(exp(x - peak)))).status is Status.PROVED
    assert decide(logsumexp(x), log(total(exp(x - peak)))).status is Status.REFUTED


def test_functions_mean_what_python_means() -> None:
    x = symbols("x")
    assert isinstance(x, Expr)
    terms = {
        exp(x): math.exp(0.75), exp2(x): 2**0.75, log(x): math.log(0.75), log2(x): math.log2(0.75), sqrt(x): math.sqrt(0.75),
        tanh(x): math.tanh(0.75), sin(x): math.sin(0.75), cos(x): math.cos(0.75), erf(x): math.erf(0.75), floor(x): 0.0,
        x**-2: 0.75**-2, x**0.5: math.sqrt(0.75), x**2.5: 0.75**2.5, abs(-x): 0.75, 3 - x: 2.25, 3 / x: 4.0, minimum(x, 0.5): 0.5,
        where(x < 1, x, 0): 0.75, where(x >= 1, x, 0): 0.0, where(x <= 0.5, 1, 2): 2.0,
    }  # fmt: skip
    ids = np.array([term.id for term in terms])
    values = Reals(x.arena, ids, lambda ids: np.full((len(ids), 1), 0.75)).of(ids)[:, 0]
    assert values.tolist() == pytest.approx(list(terms.values()), rel=1e-14)


def test_misuse_is_refused() -> None:
    x, y = pair()
    with pytest.raises(TypeError, match="no truth value"):
        max(x)  # type: ignore[type-var]
    other = symbols("z")
    assert isinstance(other, Expr)
    with pytest.raises(ValueError, match="two arenas"):
        x[0] + other
    with pytest.raises(ValueError, match="different arenas"):
        decide([x[0]], [other])
    with pytest.raises(ValueError, match="8 and 7 terms"):
        decide(x, y[:7])
    with pytest.raises(ValueError, match="8 and 7"):
        x + y[:7]
    with pytest.raises(TypeError, match="exact number"):
        x[0] + True
    for names in ("", "1x", "x:a"):
        with pytest.raises(ValueError):
            symbols(names)


def test_symbols_share_a_given_arena() -> None:
    arena = Arena()
    x, s = symbols("x:3 s", arena)  # type: ignore[misc]
    assert isinstance(x, Vector) and isinstance(s, Expr) and len(x) == 3
    assert x.items[0].arena is arena and s.arena is arena and [e.name for e in arena.inputs] == ["x", "s"]


@pytest.mark.parametrize(
    ("sides", "options", "error", "said"),
    [
        (lambda x: (x,), {}, TypeError, "1 sides"),
        (lambda x: (x, 3), {}, TypeError, "3 is no term"),
        (lambda x: ([x, 1.5], [x, x]), {}, TypeError, "no term"),
        (lambda x: ([x], [x, x]), {}, ValueError, "1 and 2 terms"),
        (lambda x: (x, x), {"assumptions": {"constants-within-2-ulp"}}, ValueError, "no assumption is named 'constants-within-2-ulp'"),
        (lambda x: (x, x), {"budget": 5}, TypeError, "a budget is a ptx_engine.decide.Budget"),
    ],
)
def test_what_is_asked_wrongly_is_said(
    sides: Callable[[Expr], tuple[object, ...]], options: dict[str, object], error: type[Exception], said: str
) -> None:
    x = symbols("x")
    assert isinstance(x, Expr)
    with pytest.raises(error, match=said):
        decide(*sides(x), **options)  # type: ignore[call-overload]


def test_an_assumption_may_be_named_alone() -> None:
    x = symbols("x")
    assert isinstance(x, Expr)
    assert decide(x * 2, x + x, assumptions="constants-within-1-ulp").status is Status.PROVED
