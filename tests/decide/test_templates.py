"""Classes of outputs: one template for many, splits, records, budgets, explanations, side conditions."""

from __future__ import annotations

import numpy as np
import pytest
from gmpy2 import mpq
from normal_terms import Builder, prove

from ptx_engine.decide.budget import Meter
from ptx_engine.decide.columns import Columns
from ptx_engine.decide.dot_lists import DotLists
from ptx_engine.decide.templates import ClassResult, Outcome, ProofBudget, prove_apart, prove_columns
from ptx_engine.decide.walk import Walker
from ptx_engine.terms import NAN, NEG_INF, UNDEF, Arena, Const, Op


def _matmul(m: int, n: int, k: int, skip: tuple[int, int] | None = None) -> tuple[Arena, np.ndarray, np.ndarray]:
    """Naive multiply-add chains against chained dots of 4 products; ``skip`` leaves one product of one output out."""
    arena = Arena()
    a, b = arena.add_input("A", m * k, "f16"), arena.add_input("B", k * n, "f16")
    rows, cols = np.arange(m)[:, None], np.arange(n)[None, :]
    acc = np.zeros((m, n), np.int32)
    for i in range(k):
        acc = arena.fma(np.broadcast_to(a.ids(rows * k + i), (m, n)), np.broadcast_to(b.ids(i * n + cols), (m, n)), acc)
    other = np.zeros((1, m, n), np.int32)
    for i in range(0, k, 4):
        step = np.arange(i, i + 4)
        left = a.ids(rows * k + step)[None].copy()
        if skip and i <= skip[1] < i + 4:
            left[0, skip[0], skip[1] - i] = 0
        other = arena.dot(left, np.ascontiguousarray(b.ids(step[None, :] * n + cols.T))[None], other)
    return arena, acc, other[0]


def _decide(arena: Arena, reference: np.ndarray, candidate: np.ndarray, **budget: float) -> list[ClassResult]:
    return prove_columns(arena, np.ravel(reference), np.ravel(candidate), ProofBudget(**budget))  # type: ignore[arg-type]


def test_matmul_is_one_class() -> None:
    (result,) = _decide(*_matmul(24, 20, 32))
    assert result.outcome is Outcome.EQUAL
    assert result.members.tolist() == list(range(480))
    assert result.assumptions == ()


def test_missing_product_in_one_row_is_named() -> None:
    arena, reference, candidate = _matmul(6, 5, 8, skip=(3, 6))
    results = _decide(arena, reference, candidate)
    wrong = [r for r in results if r.outcome is not Outcome.EQUAL]
    assert sorted(int(m) for r in results for m in r.members) == list(range(30))
    assert [r.outcome for r in wrong] == [Outcome.DIFFERENT]
    assert wrong[0].members.tolist() == [15, 16, 17, 18, 19]
    difference = wrong[0].difference
    assert difference is not None and not difference.extra and not difference.changed and difference.decidable
    assert [m.text(2) for m in difference.missing] == ["A[30]*B[32]"]
    a, b = arena.inputs
    assert set(difference.missing[0].inputs(2)) == {a.ids(30), b.ids(32)}
    assert (difference.reference_terms, difference.candidate_terms) == (8, 7)


def test_causal_rows_are_classes_of_their_own() -> None:
    """Row i sums i + 1 values: every row is a class, each proved for all its columns."""
    arena = Arena()
    x = arena.add_input("x", 36, "f32")
    rows = [[int(x.ids(6 * i + j)) for j in range(6)] for i in range(6)]
    b = Builder()
    b.arena = arena
    reference = np.array([[b.total([rows[j][c] for j in range(i + 1)]) for c in range(6)] for i in range(6)])
    candidate = np.array([[b.tree([rows[j][c] for j in range(i, -1, -1)]) for c in range(6)] for i in range(6)])
    results = _decide(arena, reference, candidate)
    assert all(r.outcome is Outcome.EQUAL for r in results)
    assert sorted(int(m) for r in results for m in r.members) == list(range(36))
    assert len(results) == 6


def test_columns_of_constants_become_variables_or_split() -> None:
    """Distinct constants down a column: proved at once where their values do not matter, by value where they do."""
    arena = Arena()
    x = arena.add_input("x", 8, "f32").ids(np.arange(8))
    c = np.array([arena.rational(mpq(i + 2, 17)) for i in range(8)], np.int32)
    two = arena.rational(2)
    double = np.array([arena.rational(mpq(2 * (i + 2), 17)) for i in range(8)], np.int32)
    y = arena.add_input("y", 8, "f32").ids(np.arange(8))
    (result,) = _decide(arena, arena.mul(arena.add(x, c), y), arena.add(arena.mul(x, y), arena.mul(c, y)))
    assert result.outcome is Outcome.EQUAL
    split = _decide(arena, arena.mul(c, arena.mul(x, two)), arena.mul(double, x))
    assert len(split) == 8 and all(r.outcome is Outcome.EQUAL for r in split)
    wrong = _decide(arena, arena.mul(c, arena.mul(x, two)), arena.mul(c, x))
    assert all(r.outcome is Outcome.DIFFERENT for r in wrong)


def test_same_input_in_another_place_is_another_variable() -> None:
    """x[i] + x[j] against x[i] + x[i]: the columns differ although every operator agrees."""
    arena = Arena()
    x = arena.add_input("x", 64, "f32").ids(np.arange(64))
    shifted = np.roll(x, 1)
    (good,) = _decide(arena, arena.add(x, shifted), arena.add(shifted, x))
    (bad,) = _decide(arena, arena.add(x, shifted), arena.add(x, x))
    assert good.outcome is Outcome.EQUAL and bad.outcome is Outcome.DIFFERENT


def test_records_of_several_lengths_in_one_column() -> None:
    """One column holds dots of 4 products and dots of 2, the rest padded with zero products."""
    arena = Arena()
    a, b = arena.add_input("a", 8, "f32"), arena.add_input("b", 8, "f32")
    rows = a.ids(np.arange(8)).reshape(1, 2, 4).copy()
    cols = b.ids(np.arange(4)).reshape(1, 1, 4).copy()
    rows[0, 1, 2:] = 0
    long = arena.dot(rows, cols, np.zeros((1, 2, 1), np.int32))
    short = arena.dot(rows[:, 1:, :2].copy(), cols[:, :, :2].copy(), np.zeros((1, 1, 1), np.int32))
    reference = np.array([long[0, 1, 0], long[0, 1, 0]])
    candidate = np.array([short[0, 0, 0], long[0, 1, 0]])
    assert all(r.outcome is Outcome.EQUAL for r in _decide(arena, reference, candidate))
    assert all(r.outcome is Outcome.DIFFERENT for r in _decide(arena, long.ravel(), np.array([short[0, 0, 0]] * 2))[:1])


def test_wide_reductions_as_records() -> None:
    arena = Arena()
    x = arena.add_input("x", 60, "f32").ids(np.arange(60)).reshape(6, 10)
    sums, tops, lows = (arena.nary(op, x) for op in (Op.NSUM, Op.NMAX, Op.NMIN))
    chain_sum, chain_max, chain_min = x[:, 0], x[:, 0], x[:, 0]
    for j in range(1, 10):
        column = np.ascontiguousarray(x[:, j])
        chain_sum, chain_max, chain_min = arena.add(column, chain_sum), arena.maximum(chain_max, column), arena.minimum(column, chain_min)
    for reference, candidate in ((sums, chain_sum), (tops, chain_max), (lows, chain_min)):
        (result,) = _decide(arena, reference, candidate)
        assert result.outcome is Outcome.EQUAL
    (result,) = _decide(arena, tops, chain_min)
    assert result.outcome is not Outcome.EQUAL


def test_a_maximum_over_masked_values_only_is_unknown() -> None:
    arena = Arena()
    x = int(arena.add_input("x", 1, "f32").ids(0))
    rows = np.array([[x, NEG_INF], [NEG_INF, NEG_INF]], np.int32)
    tops = arena.nary(Op.NMAX, rows)
    (first,), (second,) = _decide(arena, tops[:1], np.array([x])), _decide(arena, tops[1:], np.array([x]))
    assert first.outcome is Outcome.EQUAL and second.outcome is Outcome.UNKNOWN


def test_tile_columns_are_stored_once_per_row_and_column() -> None:
    """A 64x64 tile: the operands that depend on the row only are columns of 64, not of 4096."""
    arena, reference, candidate = _matmul(64, 64, 8)
    columns = Columns(64 * 64)
    walker = Walker(arena, columns, Meter(ProofBudget(), 1e18), False, lambda: DotLists(arena.dots, lambda ids: ids))
    template = walker.run(np.stack([reference.ravel(), candidate.ravel()]))
    sizes = sorted({p.size for p in columns.partitions})
    assert sizes == [1, 64, 4096]
    assert len(template.ops) == 8 + 2 + 16 + 1  # the chain, two dots, the inputs, zero


@pytest.mark.parametrize("value", [NAN, UNDEF])
def test_an_undefined_output_is_unknown(value: int) -> None:
    arena = Arena()
    x = int(arena.add_input("x", 1, "f32").ids(0))
    (result,) = _decide(arena, np.array([value]), np.array([value]))
    assert result.outcome is Outcome.UNKNOWN and "undefined" in result.reason
    (result,) = _decide(arena, np.array([x]), np.array([value]))
    assert result.outcome is Outcome.UNKNOWN


def test_an_infinity_inside_a_selection_is_unknown_unless_identical() -> None:
    arena = Arena()
    x, y = (int(i) for i in arena.add_input("x", 2, "f32").ids(np.arange(2)))
    masked = int(arena.select(arena.compare(Op.LT, x, y), x, NEG_INF))
    other = int(arena.select(arena.compare(Op.LT, x, y), x, y))
    assert _decide(arena, np.array([masked]), np.array([masked]))[0].outcome is Outcome.EQUAL
    assert _decide(arena, np.array([masked]), np.array([other]))[0].outcome is not Outcome.EQUAL


def test_division_states_its_domain() -> None:
    b = Builder()
    (x, y), a = b.inputs(2), b.arena
    (result,) = prove(b, [int(a.div(x, x))], [1])
    assert result.outcome is Outcome.EQUAL and result.assumptions == ("denominators are not zero (only in the reference)",)
    (result,) = prove(b, [int(a.div(x, y))], [int(a.mul(x, a.div(1, y)))])
    assert result.assumptions == ()  # both sides divide by y
    positive = a.add(a.exp(y), 1)
    (result,) = prove(b, [int(a.div(a.mul(x, positive), positive))], [x])
    assert result.outcome is Outcome.EQUAL and result.assumptions == ()
    (result,) = prove(b, [int(a.mul(a.sqrt(x), a.sqrt(x)))], [x])
    assert result.assumptions == ("square roots of non-negative values (only in the reference)",)
    (result,) = prove(b, [int(a.exp(a.log(x)))], [x])
    assert result.assumptions == ("logarithms of positive values (only in the reference)",)


def test_opaque_operations_are_functions_and_are_named() -> None:
    b = Builder()
    (x, y), a = b.inputs(2), b.arena
    (same,) = prove(b, [int(a.opaque("prmt", a.add(x, y)))], [int(a.opaque("prmt", a.add(y, x)))])
    assert same.outcome is Outcome.EQUAL and any("prmt" in note for note in same.assumptions)
    (other,) = prove(b, [int(a.opaque("prmt", x))], [int(a.opaque("lop3", x))])
    assert other.outcome is Outcome.UNKNOWN


def test_budgets_are_kept_and_reported() -> None:
    arena, reference, candidate = _matmul(8, 8, 64)
    (result,) = _decide(arena, reference, candidate, terms=20)
    assert result.outcome is Outcome.UNKNOWN and "budget" in result.reason
    (result,) = _decide(arena, reference, candidate, seconds=-1.0)
    assert result.outcome is Outcome.UNKNOWN and "budget" in result.reason


def test_expansion_that_explodes_ends_in_unknown() -> None:
    b = Builder()
    x = b.inputs(40)
    a = b.arena
    left, right = b.total(x), b.total(x[:-1])
    for _ in range(6):
        left, right = a.mul(left, left), a.mul(right, right)
    (result,) = prove(b, [int(left)], [int(a.add(right, x[0]))], terms=1_000_000)
    assert result.outcome is Outcome.UNKNOWN and "budget" in result.reason


def test_results_cover_all_positions_in_order() -> None:
    b = Builder()
    (x, y), a = b.inputs(2), b.arena
    reference = [int(i) for i in (a.add(x, y), x, a.mul(x, y), 1, a.exp(x))]
    candidate = [int(i) for i in (a.add(y, x), y, a.mul(y, x), 1, a.exp(y))]
    results = prove(b, reference, candidate)
    outcome = {int(m): r.outcome for r in results for m in r.members}
    assert [outcome[i] is Outcome.EQUAL for i in range(5)] == [True, False, True, True, False]


def test_inputs_far_beyond_the_number_of_terms_beside_terms() -> None:
    arena = Arena()
    x = arena.add_input("x", 1 << 22, "f32")
    last = np.arange((1 << 22) - 4, 1 << 22)
    products = arena.mul(x.ids(last[:2]), x.ids(last[2:]))
    mixed = np.array([products[0], x.ids(last[:1])[0], products[1], x.ids(last[1:2])[0]], np.int32)
    left, right = arena.add(mixed, x.ids(np.arange(4))), arena.add(x.ids(np.arange(4)), mixed)
    assert [(r.outcome, sorted(r.members.tolist())) for r in _decide(arena, left, right)] == [
        (Outcome.EQUAL, [0, 2]),
        (Outcome.EQUAL, [1, 3]),
    ]


@pytest.mark.parametrize("few", [3, 64])
@pytest.mark.parametrize("lane", [None, 0, 5])
def test_lanes_of_a_butterfly_are_proved_from_one_template(lane: int | None, few: int) -> None:
    """Weighted means of 8 lanes, merged by exchanges at distances 4, 2, 1, each lane beginning with its own: lane i against lane 0. One
    lane that takes another part of the last difference is told."""
    arena = Arena()
    mean, lanes = arena.add_input("x", 8, "f32").ids(np.arange(8)), np.arange(8)
    weights = [mpq(i % 3 + 1) for i in range(8)]
    for distance in (4, 2, 1):
        other = lanes ^ distance
        parts = [weights[j] / (weights[i] + weights[j]) for i, j in zip(lanes, other)]
        if distance == 1 and lane is not None:
            parts[lane] /= 2
        constants = np.array([arena.const(Const(part)) for part in parts], np.int32)
        mean = arena.fma(arena.sub(mean[other], mean), constants, mean)
        weights = [weights[i] + weights[j] for i, j in zip(lanes, other)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ptx_engine.decide.templates._FEW_APART", few)
        results = prove_apart(arena, np.repeat(np.ravel(mean)[:1], 8), np.ravel(mean), ProofBudget(60))
    outcomes = {int(m): r.outcome for r in results for m in r.members}
    wrong = set() if lane is None else set(range(1, 8)) if lane == 0 else {lane}
    assert {m for m, outcome in outcomes.items() if outcome is not Outcome.EQUAL} == wrong
    assert len(outcomes) == 8
