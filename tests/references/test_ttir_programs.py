"""Small Triton kernels as TTIR terms against NumPy: control flow by program, memory, reductions, scans, shapes; refusals."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("triton")

import small_kernels as k
from reference_cases import out, run, tensor
from triton_ttir import ttir_of

from ptx_engine.errors import BudgetError, NotStructuredError, UnsupportedError
from ptx_engine.findings import Severity
from ptx_engine.launch import Role, ScalarArg
from ptx_engine.terms.arena import UNDEF
from ptx_engine.terms.ops import Op
from volta_pass.references.ttir import Budget

RNG = np.random.default_rng(11)
X_O = {"x_ptr": "*fp32", "o_ptr": "*fp32"}


def number(name, value, dtype="s32"):
    return ScalarArg(name, dtype, value)


def test_loop_bounds_that_differ_by_program():
    x = RNG.normal(size=(5, 16))
    text = ttir_of(k.program_dependent_loop, {**X_O, "stride": "i32"}, {"BLOCK": 16})
    args = [tensor("x", "f32", x.shape), out("o", "f32", (5, 16)), number("s", 16)]
    result = run(text, args, {"x": x}, (5, 1, 1))
    expected = np.array([x[:pid].sum(0) for pid in range(5)])
    np.testing.assert_allclose(result.numbers["o"].reshape(5, 16), expected, atol=1e-12)


def test_branches_that_differ_by_program():
    x = RNG.normal(size=(6, 16))
    text = ttir_of(k.program_dependent_branch, X_O, {"BLOCK": 16})
    result = run(text, [tensor("x", "f32", x.shape), out("o", "f32", x.shape)], {"x": x}, (6, 1, 1))
    expected = np.where(np.arange(6)[:, None] % 2 == 0, x * 2, x + 1)
    expected[3] **= 2
    np.testing.assert_allclose(result.numbers["o"].reshape(6, 16), expected)


def test_early_return():
    x = RNG.normal(size=(4, 16))
    text = ttir_of(k.early_return, {**X_O, "n": "i32"}, {"BLOCK": 16})
    result = run(text, [tensor("x", "f32", x.shape), out("o", "f32", x.shape), number("n", 3)], {"x": x}, (4, 1, 1))
    assert "cf.cond_br" in text or "scf.if" in text
    np.testing.assert_array_equal(result.footprints["o"].index, np.arange(48))
    np.testing.assert_allclose(result.numbers["o"][:48], x[:3].ravel())


def test_while_loops_of_different_length():
    text = ttir_of(k.collatz_steps, {"o_ptr": "*i32"}, {"BLOCK": 1})
    result = run(text, [out("o", "s32", (12,))], {}, (12, 1, 1))
    np.testing.assert_array_equal(result.numbers["o"], [0, 1, 7, 2, 5, 8, 16, 3, 19, 6, 14, 9])


def test_a_branch_on_data_is_not_structured():
    text = ttir_of(k.data_dependent_branch, X_O, {})
    with pytest.raises(NotStructuredError, match=r"a branch depends on symbolic data \(x\)") as caught:
        run(text, [tensor("x", "f32", (1,)), out("o", "f32", (1,))], {"x": np.ones(1)})
    assert "small_kernels.py" in caught.value.user_loc


def test_a_mask_from_data_is_not_structured_unless_its_contents_are_given():
    text = ttir_of(k.unknown_mask, {**X_O, "m_ptr": "*i32"}, {"N": 4})
    x = np.arange(4.0)
    with pytest.raises(NotStructuredError, match=r"a mask depends on symbolic data \(m\[0\]\)"):
        run(text, [tensor("x", "f32", (4,)), tensor("m", "s32", (4,)), out("o", "f32", (4,))], {"x": x, "m": x})
    given = tensor("m", "s32", (4,), contents=np.array([0, 1, 0, 5]))
    result = run(text, [tensor("x", "f32", (4,)), given, out("o", "f32", (4,))], {"x": x})
    np.testing.assert_array_equal(result.footprints["o"].index, [1, 3])


def test_prefix_sums():
    x = RNG.normal(size=16)
    text = ttir_of(k.prefix, {**X_O, "p_ptr": "*fp32"}, {"BLOCK": 16})
    result = run(text, [tensor("x", "f32", (16,)), out("o", "f32", (16,)), out("p", "f32", (16,))], {"x": x})
    np.testing.assert_allclose(result.numbers["o"], np.cumsum(x), atol=1e-12)
    np.testing.assert_allclose(result.numbers["p"], np.cumsum(x[::-1])[::-1], atol=1e-12)


def test_associative_scan_of_two_operands():
    a, b = RNG.normal(size=(2, 16))
    text = ttir_of(k.linear_recurrence, {"a_ptr": "*fp32", "b_ptr": "*fp32", "o_ptr": "*fp32"}, {"BLOCK": 16})
    result = run(text, [tensor("a", "f32", (16,)), tensor("b", "f32", (16,)), out("o", "f32", (16,))], {"a": a, "b": b})
    state, expected = 0.0, []
    for x, y in zip(a, b):
        state = x * state + y
        expected.append(state)
    np.testing.assert_allclose(result.numbers["o"], expected, atol=1e-12)


def test_reductions():
    x = RNG.normal(size=(4, 8))
    x[2] = x[2, 0]  # ties: the first index wins
    text = ttir_of(k.reductions, {**X_O, "i_ptr": "*i32"}, {"M": 4, "N": 8})
    result = run(text, [tensor("x", "f32", (4, 8)), out("o", "f32", (13,)), out("i", "s32", (4,))], {"x": x})
    expected = np.concatenate([x.sum(1), x.max(1), x.min(1), [x.sum()]])
    np.testing.assert_allclose(result.numbers["o"], expected, atol=1e-12)
    np.testing.assert_array_equal(result.numbers["i"], x.argmax(1))
    assert result.arena.node(int(result.footprints["o"].ids[0]))[0] is Op.NSUM


@pytest.mark.parametrize("concrete", [True, False])
def test_integer_reductions(concrete):
    x = RNG.integers(-100, 100, 16).astype(np.int32)
    text = ttir_of(k.integer_reductions, {"x_ptr": "*i32", "o_ptr": "*i32"}, {"N": 16})
    given = tensor("x", "s32", (16,), contents=x if concrete else "symbolic")
    result = run(text, [given, out("o", "s32", (3,))], {"x": x})
    np.testing.assert_array_equal(result.numbers["o"], [x.sum(), x.max(), np.bitwise_xor.reduce(x)])


def test_atomic_add_sums_over_lanes_and_programs():
    x, start = RNG.normal(size=(3, 16)), RNG.normal(size=4)
    text = ttir_of(k.split_sum, X_O, {"BLOCK": 16})
    result = run(text, [tensor("x", "f32", (48,)), tensor("o", "f32", (4,), Role.INOUT)], {"x": x, "o": start}, (3, 1, 1))
    np.testing.assert_allclose(result.numbers["o"], start + x.reshape(12, 4).sum(0), atol=1e-12)
    assert not result.findings


@pytest.mark.parametrize(("clear", "kinds"), [(False, []), (True, ["race between programs"])])
def test_clearing_what_other_programs_add_to_is_a_race(clear, kinds):
    text = ttir_of(k.first_program_clears, X_O, {"CLEAR": clear})
    args = [tensor("x", "f32", (4,)), tensor("o", "f32", (1,), Role.INOUT)]
    result = run(text, args, {"x": np.arange(4.0), "o": np.array([5.0])}, (4, 1, 1))
    assert [f.kind for f in result.findings] == kinds
    assert clear or result.numbers["o"][0] == 11


def test_atomic_extremes_of_integers():
    x = RNG.integers(-50, 50, 32).astype(np.int32)
    text = ttir_of(k.integer_extremes, {"x_ptr": "*i32", "o_ptr": "*i32"}, {"BLOCK": 8})
    args = [tensor("x", "s32", (32,)), tensor("o", "s32", (2,), Role.INOUT)]
    result = run(text, args, {"x": x, "o": np.array([3, 4])}, (4, 1, 1))
    np.testing.assert_array_equal(result.numbers["o"], [max(x.max(), 3), min(x.min(), 4)])


def test_the_old_value_of_an_atomic_depends_on_the_order_of_programs():
    text = ttir_of(k.atomic_counter_used, {"c_ptr": "*i32", "o_ptr": "*fp32"}, {})
    args = [tensor("c", "s32", (1,), Role.INOUT, contents=np.array([2])), out("o", "f32", (4,))]
    with pytest.raises(UnsupportedError, match="depends on the order of programs"):
        run(text, args, {}, (2, 1, 1))
    result = run(text, args, {}, (1, 1, 1))
    np.testing.assert_array_equal(result.footprints["o"].index, [2])
    assert result.numbers["c"][0] == 3


@pytest.mark.parametrize(("scale", "kind", "severity"), [(1, "write conflict between programs", Severity.ERROR), (0, "", None)])
def test_programs_that_write_one_element(scale, kind, severity):
    text = ttir_of(k.same_element, {**X_O, "scale": "i32"}, {})
    result = run(text, [tensor("x", "f32", (4,)), out("o", "f32", (1,)), number("s", scale)], {"x": np.zeros(4)}, (4, 1, 1))
    assert [(f.kind, f.severity) for f in result.findings] == ([(kind, severity)] if kind else [])


def test_reading_what_another_program_writes_is_a_race():
    text = ttir_of(k.reads_the_neighbour, {"x_ptr": "*fp32"}, {})
    result = run(text, [tensor("x", "f32", (4,), Role.INOUT)], {"x": np.ones(4)}, (4, 1, 1))
    assert {f.kind for f in result.findings} == {"race between programs"}
    assert "small_kernels.py" in result.findings[0].sites[0].user_loc
    assert (result.footprints["x"].ids == UNDEF).all()


def test_a_program_sees_its_own_stores():
    x = RNG.normal(size=4)
    text = ttir_of(k.stores_then_loads, X_O, {"BLOCK": 4})
    result = run(text, [tensor("x", "f32", (4,), Role.INOUT), out("o", "f32", (4,))], {"x": x})
    np.testing.assert_allclose(result.numbers["o"], np.where(np.arange(4) < 2, 3 * x, x))
    np.testing.assert_array_equal(result.footprints["x"].index, [0, 1])


def test_writing_a_read_only_argument_is_a_finding():
    text = ttir_of(k.stores_then_loads, X_O, {"BLOCK": 4})
    result = run(text, [tensor("x", "f32", (4,), Role.IN), out("o", "f32", (4,))], {"x": np.ones(4)})
    assert [f.kind for f in result.findings] == ["write to a read-only argument"]


def test_masked_lanes_without_other_are_undefined():
    text = ttir_of(k.unmasked_undefined, {**X_O, "n": "i32"}, {"N": 4})
    result = run(text, [tensor("x", "f32", (4,)), out("o", "f32", (4,)), number("n", 3)], {"x": np.ones(4)})
    np.testing.assert_array_equal(result.footprints["o"].ids == UNDEF, [False, False, False, True])


def test_shapes():
    x, y = RNG.normal(size=(2, 8))
    text = ttir_of(k.shapes, {**X_O, "y_ptr": "*fp32"}, {"N": 8})
    result = run(text, [tensor("x", "f32", (8,)), tensor("y", "f32", (8,)), out("o", "f32", (32,))], {"x": x, "y": y})
    expected = np.concatenate([np.stack([x, y], -1).ravel(), x - y, x.reshape(2, 4).T.ravel()])
    np.testing.assert_allclose(result.numbers["o"], expected)


def test_gather_with_concrete_indices():
    x, i = RNG.normal(size=8), np.array([3, 3, 0, 7, 1, 2, 6, 5], np.int32)
    text = ttir_of(k.gathered, {**X_O, "i_ptr": "*i32"}, {"N": 8})
    result = run(text, [tensor("x", "f32", (8,)), tensor("i", "s32", (8,), contents=i), out("o", "f32", (8,))], {"x": x})
    np.testing.assert_allclose(result.numbers["o"], x[i])
    with pytest.raises(NotStructuredError, match="a gather index depends on symbolic data"):
        run(text, [tensor("x", "f32", (8,)), tensor("i", "s32", (8,)), out("o", "f32", (8,))], {"x": x, "i": i})


def test_batched_dot():
    a, b = RNG.normal(size=(2, 2, 16, 16))
    text = ttir_of(k.batched_dot, {"a_ptr": "*fp32", "b_ptr": "*fp32", "o_ptr": "*fp32"}, {"B": 2, "N": 16})
    result = run(text, [tensor("a", "f32", a.shape), tensor("b", "f32", b.shape), out("o", "f32", a.shape)], {"a": a, "b": b})
    np.testing.assert_allclose(result.numbers["o"].reshape(a.shape), a @ b, atol=1e-12)


def test_int8_dot_is_an_exact_sum_without_a_wrap():
    a, b = RNG.integers(-128, 128, (2, 32, 32)).astype(np.int8)
    text = ttir_of(k.int8_dot, {"a_ptr": "*i8", "b_ptr": "*i8", "o_ptr": "*i32"}, {"N": 32})
    result = run(text, [tensor("a", "s8", a.shape), tensor("b", "s8", b.shape), out("o", "s32", a.shape)], {"a": a, "b": b})
    np.testing.assert_array_equal(result.numbers["o"].reshape(a.shape), a.astype(int) @ b.astype(int))
    assert result.arena.node(int(result.footprints["o"].ids[0]))[0] is Op.DOT


def test_call_of_a_private_function():
    x = RNG.normal(size=8)
    text = ttir_of(k.calls, X_O, {"N": 8})
    assert '"tt.call"' in text
    result = run(text, [tensor("x", "f32", (8,)), out("o", "f32", (8,))], {"x": x})
    np.testing.assert_allclose(result.numbers["o"], 2 * x)


@pytest.mark.parametrize(("n", "kinds"), [(7, []), (8, ["assertion"])])
def test_device_assert(n, kinds):
    text = ttir_of(k.asserts, {**X_O, "n": "i32"}, {"N": 4}, debug=True)
    assert '"tt.assert"' in text
    result = run(text, [tensor("x", "f32", (4,)), out("o", "f32", (4,)), number("n", n)], {"x": np.ones(4)})
    assert [f.kind for f in result.findings] == kinds


def test_sort():
    x = RNG.normal(size=16)
    text = ttir_of(k.sorted_rows, X_O, {"N": 16})
    result = run(text, [tensor("x", "f32", (16,)), out("o", "f32", (16,))], {"x": x})
    np.testing.assert_allclose(result.numbers["o"], np.sort(x))


@pytest.mark.parametrize(
    ("fn", "signature", "constexprs", "feature"),
    [
        (k.histogram, {"x_ptr": "*i32", "o_ptr": "*i32"}, {"N": 16}, "tt.histogram"),
        (k.compare_and_swap, {"x_ptr": "*i32"}, {}, "tt.atomic_cas"),
    ],
)
def test_refused_by_name_at_the_user_line(fn, signature, constexprs, feature):
    text = ttir_of(fn, signature, constexprs)
    with pytest.raises(UnsupportedError, match=feature) as caught:
        run(text, [], {})
    assert caught.value.feature == feature
    assert "small_kernels.py" in caught.value.user_loc


def test_program_ids_in_three_axes():
    text = ttir_of(k.pid_axes, {"o_ptr": "*i32"}, {})
    result = run(text, [out("o", "s32", (12,))], {}, (2, 3, 2))
    expected = [x + 10 * y + 100 * z for z in range(2) for y in range(3) for x in range(2)]
    np.testing.assert_array_equal(result.numbers["o"], expected)


def test_budgets_are_kept():
    text = ttir_of(k.early_return, {**X_O, "n": "i32"}, {"BLOCK": 16})
    args = [tensor("x", "f32", (64,)), out("o", "f32", (64,)), number("n", 4)]
    with pytest.raises(BudgetError, match="took more than"):
        run(text, args, {"x": np.ones(64)}, (4, 1, 1), budget=Budget(seconds=0.0))
    with pytest.raises(BudgetError, match="needs more than 10 terms"):
        run(text, args, {"x": np.ones(64)}, (4, 1, 1), budget=Budget(terms=10))


def test_one_batch_of_programs_or_many_give_the_same_terms(monkeypatch):
    from volta_pass.references import ttir

    x = RNG.normal(size=(6, 16))
    text = ttir_of(k.program_dependent_branch, X_O, {"BLOCK": 16})
    args = [tensor("x", "f32", x.shape), out("o", "f32", x.shape)]
    whole = run(text, args, {"x": x}, (6, 1, 1)).numbers["o"]
    monkeypatch.setattr(ttir, "BATCH_LANES", 32)
    np.testing.assert_array_equal(run(text, args, {"x": x}, (6, 1, 1)).numbers["o"], whole)
