"""Means and variances over running sums: every way to compute them is one polynomial, and nothing else is."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from gmpy2 import mpq

from ptx_engine.decide import moments as moments_module
from ptx_engine.decide.budget import Meter, ProofBudget
from ptx_engine.decide.columns import Columns
from ptx_engine.decide.dot_lists import DotLists
from ptx_engine.decide.moments import equal_quadratics
from ptx_engine.decide.templates import Outcome, prove_cheaply
from ptx_engine.decide.walk import Template, Walker
from ptx_engine.terms import Arena, Op
from ptx_engine.terms.ops import TABLE
from volta_pass.cli.bench_decide_norm import Moments, chan, layer_norm_problem, moments, two_passes, welford


def _template(arena: Arena, roots: list[int]) -> Template:
    """The template of single outputs: inputs are the variables."""
    meter = Meter(ProofBudget(), float("inf"))
    walker = Walker(arena, Columns(1), meter, True, lambda: DotLists(arena.dots, lambda ids: ids))
    return walker.run(np.array(roots, np.int32)[:, None])


def _spent(arena: Arena, roots: list[int]) -> int:
    template, meter = _template(arena, roots), Meter(ProofBudget(terms=10**9), float("inf"))
    assert len(set(equal_quadratics(arena, template, meter).values())) == 1
    return meter.spent


@pytest.mark.parametrize("method", [moments, welford, chan])
def test_layer_norm_is_proved_whatever_its_moments(method: Moments) -> None:
    p = layer_norm_problem(method, 128)
    results = prove_cheaply(p.arena, p.reference["out"].ids, p.candidate["out"].ids, ProofBudget(60, terms=100_000))
    assert {r.outcome for r in results} == {Outcome.EQUAL} and sum(len(r.members) for r in results) == 128


@pytest.mark.parametrize("method", [moments, welford, chan])
def test_work_grows_with_the_row_and_not_with_its_square(method: Moments) -> None:
    work = []
    for length in (256, 1024):
        arena = Arena()
        x = np.asarray(arena.add_input("x", length, "f32").ids(np.arange(length)))
        work.append(_spent(arena, [arena.sqrt(m(arena, x)[1]) for m in (two_passes, method)]))
    assert work[1] < 6 * work[0]


def _one_less(arena: Arena, x: np.ndarray) -> tuple[int, int]:
    """The unbiased variance."""
    mean, variance = moments(arena, x)
    return mean, int(np.asarray(arena.mul(variance, arena.rational(mpq(len(x), len(x) - 1)))))


def _forgets_one(arena: Arena, x: np.ndarray) -> tuple[int, int]:
    return chan(arena, np.concatenate([x[:-1], x[-2:-1]]))


def _wrong_weight(arena: Arena, x: np.ndarray) -> tuple[int, int]:
    """Welford's recurrence with a wrong weight in one step."""
    mean, total = int(x[0]), 0
    for n, value in enumerate(x[1:].tolist(), 2):
        before = arena.sub(value, mean)
        mean = arena.fma(before, arena.rational(mpq(1, n if n != 50 else 49)), mean)
        total = arena.fma(before, arena.sub(value, mean), total)
    return int(mean), int(np.asarray(arena.mul(total, arena.rational(mpq(1, len(x))))))


def _a_product_too_much(arena: Arena, x: np.ndarray) -> tuple[int, int]:
    mean, variance = moments(arena, x)
    return mean, int(np.asarray(arena.fma(arena.mul(int(x[3]), int(x[4])), arena.rational(mpq(1, 10**9)), variance)))


@pytest.mark.parametrize("method", [_one_less, _forgets_one, _wrong_weight, _a_product_too_much])
def test_wrong_moments_are_not_proved(method: Moments) -> None:
    p = layer_norm_problem(method, 64)
    assert prove_cheaply(p.arena, p.reference["out"].ids, p.candidate["out"].ids, ProofBudget(60)) == []
    arena = Arena()
    x = np.asarray(arena.add_input("x", 64, "f32").ids(np.arange(64)))
    roots = [arena.sqrt(m(arena, x)[1]) for m in (two_passes, method)]
    assert equal_quadratics(arena, _template(arena, roots), Meter(ProofBudget(), float("inf"))) == {}


class _Program:
    """A random program of sums and products, beside its polynomial's values at a few points (exact rationals)."""

    def __init__(self, rng: random.Random, arena: Arena, inputs: list[int], points: list[list[mpq]]) -> None:
        self.rng, self.arena = rng, arena
        self.linear = [(ident, [p[i] for p in points]) for i, ident in enumerate(inputs)]

    def grow(self, count: int) -> None:
        for _ in range(count):
            (a, u), (b, v) = self.rng.choice(self.linear[-12:]), self.rng.choice(self.linear)
            c = mpq(self.rng.randint(-3, 3) or 1, self.rng.randint(1, 3))
            made: list[tuple[Callable[[], int], list[mpq]]] = [
                (lambda a=a, b=b: self.arena.add(a, b), [x + y for x, y in zip(u, v)]),
                (lambda a=a, b=b: self.arena.sub(a, b), [x - y for x, y in zip(u, v)]),
                (lambda a=a, b=b, c=c: self.arena.fma(a, self.arena.rational(c), b), [x * c + y for x, y in zip(u, v)]),
            ]
            build, values = self.rng.choice(made)
            if any(values):
                self.linear.append((int(np.asarray(build())), values))

    def quadratic(self, terms: int) -> tuple[int, list[mpq]]:
        total, values = self.linear[-1]
        for _ in range(terms):
            (a, u), (b, v) = self.rng.choice(self.linear), self.rng.choice(self.linear)
            total = int(np.asarray(self.arena.fma(a, b, total)))
            values = [w + x * y for w, x, y in zip(values, u, v)]
        return total, values


@pytest.mark.parametrize("seed", range(12))
def test_random_polynomials_are_merged_exactly_if_they_are_equal(seed: int) -> None:
    """Polynomials of degree 2 that agree at 40 random points of a large range are equal, and the other way round."""
    rng = random.Random(seed)
    arena = Arena()
    inputs = np.asarray(arena.add_input("x", 10, "f32").ids(np.arange(10))).tolist()
    points = [[mpq(rng.randint(-(10**6), 10**6)) for _ in inputs] for _ in range(40)]
    program = _Program(rng, arena, inputs, points)
    program.grow(60)
    found = [program.quadratic(rng.randint(1, 5)) for _ in range(6)]
    # the same polynomials, summed in another way: (q + l) - l for some linear l, and 2 q / 2
    for ident, values in found[:4]:
        extra, _ = rng.choice(program.linear)
        found.append((int(np.asarray(arena.sub(arena.add(extra, ident), extra))), values))
        found.append((int(np.asarray(arena.mul(arena.mul(ident, arena.rational(2)), arena.rational(mpq(1, 2))))), values))
    template = _template(arena, [int(np.asarray(arena.exp2(ident))) for ident, _ in found])
    classes = equal_quadratics(arena, template, Meter(ProofBudget(), float("inf")))
    nodes = [template.args[root][0] for root in template.roots]
    for i, (_, u) in enumerate(found):
        for j, (_, v) in enumerate(found[:i]):
            merged = nodes[i] == nodes[j] or (nodes[i] in classes and classes[nodes[i]] == classes.get(nodes[j]))
            assert merged == (u == v), (i, j)


def test_what_is_no_polynomial_of_degree_two_is_left_alone() -> None:
    arena = Arena()
    x = np.asarray(arena.add_input("x", 64, "f32").ids(np.arange(64)))
    mean, variance = two_passes(arena, x)
    cubic = arena.mul(variance, mean)
    other = arena.mul(arena.exp2(mean), variance)
    template = _template(arena, [int(np.asarray(cubic)), int(np.asarray(other)), int(np.asarray(arena.nary(Op.NMAX, x[None]))[0])])
    assert equal_quadratics(arena, template, Meter(ProofBudget(), float("inf"))) == {}


def _random_template(rng: random.Random) -> tuple[Arena, Template]:
    """A program of a few nodes, with the last ones once more in another form."""
    arena = Arena()
    made = np.asarray(arena.add_input("x", 6, "f32").ids(np.arange(6))).tolist() + [arena.rational(3), arena.rational(mpq(1, 2))]
    for _ in range(rng.randint(4, 24)):
        op = rng.choice([Op.ADD, Op.ADD, Op.SUB, Op.MUL, Op.MUL, Op.FMA, Op.EXP2, Op.NEG])
        args = [rng.choice(made[-9:]) if rng.random() < 0.8 else rng.choice(made[:8]) for _ in range(TABLE[op].arity)]
        made.append(arena.emit_scalar(op, *args, *[0] * (3 - len(args))))
    arena.flush()
    again = [arena.emit_scalar(Op.SUB, arena.emit_scalar(Op.ADD, ident, made[0], 0), made[0], 0) for ident in made[-3:]]
    return arena, _template(arena, [*made[-3:], *again])


def test_what_a_look_at_operators_leaves_out_is_no_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of programs with few linear nodes, some are left out and some are not; none that would have had classes."""
    monkeypatch.setattr(moments_module, "_FEW_SUMS", 4)
    found: dict[bool, list[bool]] = {True: [], False: []}
    for seed in range(120):
        arena, template = _random_template(random.Random(seed))
        may_be = moments_module._may_be_case(template)
        with monkeypatch.context() as patch:
            patch.setattr(moments_module, "_may_be_case", lambda template: True)
            found[may_be].append(bool(equal_quadratics(arena, template, Meter(ProofBudget(), float("inf")))))
    assert not any(found[False])
    assert len(found[False]) > 20 and sum(found[True]) > 20
