"""The driver: what is proved, refuted and unknown, with which evidence. Witnesses are checked by exact arithmetic here."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from ptx_engine.decide import CONSTANTS_WITHIN_1_ULP, Budget, Mode, decide, driver
from ptx_engine.decide.api import decide as decide_terms
from ptx_engine.decide.budget import ProofBudget
from ptx_engine.decide.fingerprint import Fingerprints
from ptx_engine.decide.templates import ClassResult, Outcome
from ptx_engine.launch import BoundLaunch, Footprint, Launch, Role, TensorArg, bind
from ptx_engine.terms import NAN, NEG_INF, ONE, UNDEF, Arena, Ids, Op
from ptx_engine.terms.expr import symbols, where
from ptx_engine.terms.formulas import wrap
from ptx_engine.verdict import Method, Status, Verdict


def written(ids: Ids) -> Footprint:
    flat = np.asarray(ids, np.int32).ravel()
    return Footprint(np.arange(len(flat), dtype=np.int64), flat)


def compare(arena: Arena, reference: Ids, candidate: Ids, **options: object) -> Verdict:
    return decide(arena, {"Y": written(reference)}, {"Y": written(candidate)}, **options)  # type: ignore[arg-type]


def vector(count: int = 16, fmt: str = "f32") -> tuple[Arena, np.ndarray]:
    arena = Arena()
    return arena, np.asarray(arena.add_input("x", count, fmt).ids(np.arange(count)))


def matmul(m: int, n: int, k: int) -> tuple[Arena, BoundLaunch, np.ndarray, np.ndarray]:
    arena = Arena()
    args = (TensorArg("A", "f16", (m, k), Role.IN), TensorArg("B", "f16", (k, n), Role.IN), TensorArg("C", "f32", (m, n), Role.OUT))
    bound = bind(Launch((1, 1, 1), (32, 1, 1), args), arena)
    entries = [bound.by_name[name].input for name in "AB"]
    assert entries[0] is not None and entries[1] is not None
    a = np.asarray(entries[0].ids(np.arange(m * k))).reshape(1, m, k)
    b = np.ascontiguousarray(np.asarray(entries[1].ids(np.arange(k * n))).reshape(k, n).T)[None]
    return arena, bound, a, b


def product(arena: Arena, a: np.ndarray, b: np.ndarray, step: int) -> np.ndarray:
    acc = np.zeros((1, a.shape[1], b.shape[1]), np.int32)
    for start in range(0, a.shape[2], step):
        acc = arena.dot(a[..., start : start + step], b[..., start : start + step], acc)
    return acc


def only(verdict: Verdict):  # type: ignore[no-untyped-def]
    (output,) = verdict.outputs
    return output


# --- proofs --------------------------------------------------------------------------------------


def test_equal_sums_are_proved_and_their_twin_refuted() -> None:
    arena, x = vector()
    y = np.asarray(arena.add_input("y", 16, "f32").ids(np.arange(16)))
    verdict = compare(arena, arena.add(x, y), arena.add(y, x))
    assert verdict.status is Status.PROVED and verdict.method is Method.EXACT
    assert only(verdict).elements == 16 and only(verdict).classes == 1 and not len(only(verdict).failing)
    assert verdict.assumptions[0] == "real arithmetic"
    assert compare(arena, arena.add(x, y), arena.sub(y, x)).status is Status.REFUTED


def test_one_id_on_both_sides_needs_no_fingerprint() -> None:
    arena, x = vector()
    node = arena.exp(x)
    verdict = compare(arena, node, node)
    assert verdict.status is Status.PROVED and verdict.fingerprint_points == 0


def test_matmul_in_two_k_steps() -> None:
    arena, bound, a, b = matmul(8, 8, 32)
    whole, steps = product(arena, a, b, 32), product(arena, a, b, 8)
    verdict = decide(arena, {"C": written(whole)}, {"C": written(steps)}, launch=bound)
    assert verdict.status is Status.PROVED and verdict.fingerprint_points == 0  # canonical forms need no numbers


def test_fingerprint_mode_states_its_bound() -> None:
    arena, _, a, b = matmul(8, 8, 32)
    whole, steps = product(arena, a, b, 32), product(arena, a, b, 8)
    verdict = compare(arena, whole, steps, mode=Mode.FINGERPRINT)
    assert verdict.status is Status.PROVED and verdict.method is Method.FINGERPRINT
    assert any("fingerprints agree at 4 points" in line and "probability" in line for line in verdict.assumptions)
    assert compare(arena, whole, product(arena, a[..., :31], b[..., :31], 31), mode=Mode.FINGERPRINT).status is Status.REFUTED


def _gives_up(arena: Arena, reference: np.ndarray, candidate: np.ndarray, budget: ProofBudget) -> list[ClassResult]:
    return [ClassResult(np.arange(len(reference)), Outcome.UNKNOWN, "exact budget ran out (time)")]


def test_fingerprint_mode_gives_the_map_over_all_outputs() -> None:
    arena, _, a, b = matmul(16, 16, 32)
    whole, steps = product(arena, a, b, 32), product(arena, a, b, 8).copy()
    steps[0, :, 5] = product(arena, a, b[:, 5:6], 16)[0, :, 0]  # equal all the same
    steps[0, 3, :] = product(arena, a[:, 3:4, :31], b[..., :31], 31)[0, 0]
    verdict = compare(arena, whole, steps, mode=Mode.FINGERPRINT)
    assert verdict.status is Status.REFUTED and only(verdict).failing.tolist() == list(range(48, 64))


@pytest.mark.parametrize("wrong", [slice(0, 256), slice(112, 144)])
def test_fingerprints_that_deceive_are_found_out_with_the_map(wrong: slice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fingerprints that agree everywhere: numbers say which outputs differ, the others are taken as they are."""
    monkeypatch.setattr(Fingerprints, "of", lambda self, ids, level=0: np.zeros((len(ids), 4), np.uint32))
    arena, _, a, b = matmul(16, 16, 32)
    whole, steps = product(arena, a, b, 32).ravel(), product(arena, a, b, 8).ravel()
    short = product(arena, a[..., :31], b[..., :31], 31).ravel()
    steps[wrong] = short[wrong]
    verdict = compare(arena, whole, steps, mode=Mode.FINGERPRINT)
    assert verdict.status is Status.REFUTED and only(verdict).failing.tolist() == list(range(wrong.start, wrong.stop))
    assert only(verdict).witness is not None


@pytest.mark.parametrize("rows", [range(8), range(3, 4)])
def test_cheap_proofs_stop_where_numbers_differ_and_go_on_for_the_rest(rows: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """Softmax rows, some of them without their maximum in the sum's exponents: the others are proved all the same."""
    monkeypatch.setattr(driver, "_DEAR_TERMS", 0)
    arena, x = vector(8 * 16)
    scores = x.reshape(8, 16)
    top = np.asarray(arena.nary(Op.NMAX, scores))[:, None]
    plain, shifted = np.asarray(arena.exp(scores)), np.asarray(arena.exp(arena.sub(scores, top)))
    wrong = shifted.copy()
    wrong[list(rows)] = plain[list(rows)]
    reference = arena.div(plain, np.asarray(arena.nary(Op.NSUM, plain))[:, None])
    candidate = arena.div(shifted, np.asarray(arena.nary(Op.NSUM, wrong))[:, None])
    verdict = compare(arena, reference, candidate)
    assert verdict.status is Status.REFUTED
    assert only(verdict).failing.tolist() == [16 * row + column for row in rows for column in range(16)]
    assert compare(arena, reference, arena.div(shifted, np.asarray(arena.nary(Op.NSUM, shifted))[:, None])).status is Status.PROVED


def test_a_budget_that_runs_out_is_unknown_with_what_is_known() -> None:
    arena, x = vector()
    verdict = compare(arena, arena.add(arena.mul(x, x), x), arena.mul(x, arena.add(x, ONE)), prover=_gives_up)
    output = only(verdict)
    assert verdict.status is Status.UNKNOWN
    assert "exact budget ran out" in output.reason and "fingerprints agree at 4 points" in output.reason
    assert output.numeric_difference is not None and output.numeric_difference < 1e-12
    assert len(output.failing) == 16


def test_no_time_at_all_is_unknown() -> None:
    arena, x = vector()
    verdict = compare(arena, arena.add(arena.mul(x, x), x), arena.mul(x, arena.add(x, ONE)), budget=Budget(seconds=0.0))
    assert verdict.status is Status.UNKNOWN and "budget" in verdict.reason


def _says_equal(arena: Arena, reference: np.ndarray, candidate: np.ndarray, budget: ProofBudget) -> list[ClassResult]:
    return [ClassResult(np.arange(len(reference)), Outcome.EQUAL)]


def test_a_wrong_prover_cannot_override_a_witness() -> None:
    arena, x = vector()
    assert compare(arena, arena.add(x, ONE), arena.add(x, arena.rational(2)), prover=_says_equal).status is Status.REFUTED


# --- witnesses -----------------------------------------------------------------------------------


def test_missing_product_has_a_zero_one_witness() -> None:
    arena, bound, a, b = matmul(4, 4, 16)
    full, short = product(arena, a, b, 16), product(arena, a[..., :15], b[..., :15], 15)
    verdict = decide(arena, {"C": written(full)}, {"C": written(short)}, launch=bound)
    output = only(verdict)
    assert verdict.status is Status.REFUTED and len(output.failing) == 16
    assert output.witness is not None and output.explanation is not None
    assert output.witness.inputs == {"A[15]": "1", "B[60]": "1"}
    assert (output.witness.reference_value, output.witness.candidate_value) == ("1", "0")
    assert output.explanation.kind == "missing" and output.explanation.text.startswith("C[0, 0]: ")
    assert "missing A[0, 15]*B[15, 0] (1 of 16 products)" in output.explanation.text
    assert "all 16 elements" in output.reason


def test_only_the_wrong_column_fails() -> None:
    arena, bound, a, b = matmul(8, 8, 8)
    good, short = product(arena, a, b, 8), product(arena, a[..., :7], b[..., :7], 7)
    bad = product(arena, a, b, 4)
    bad[..., 5] = short[..., 5]
    output = only(decide(arena, {"C": written(good)}, {"C": written(bad)}, launch=bound))
    assert output.status is Status.REFUTED
    assert output.failing.tolist() == list(range(5, 64, 8))
    assert "column 5 of every row" in output.reason


def _value(text: str) -> Fraction:
    return Fraction(text)


def test_a_witness_holds_under_exact_arithmetic() -> None:
    """x0^2 - 2*x1 against x0^2 - 3*x1: recompute both values from the printed inputs."""
    arena, x = vector(2)
    square = arena.mul(int(x[0]), int(x[0]))
    reference, candidate = (arena.sub(square, arena.mul(arena.rational(k), int(x[1]))) for k in (2, 3))
    witness = only(compare(arena, reference, candidate)).witness
    assert witness is not None
    a, b = (_value(witness.inputs.get(f"x[{i}]", "0")) for i in (0, 1))
    assert _value(witness.reference_value) == a * a - 2 * b
    assert _value(witness.candidate_value) == a * a - 3 * b
    assert _value(witness.reference_value) != _value(witness.candidate_value)


def test_a_transcendental_witness_has_twenty_digits_and_is_right() -> None:
    arena, x = vector(1)
    witness = only(compare(arena, arena.exp(x), arena.exp2(x))).witness
    assert witness is not None
    at = float(_value(witness.inputs["x"]))  # one element: the bare name
    assert float(witness.reference_value) == pytest.approx(math.exp(at), rel=1e-15)
    assert float(witness.candidate_value) == pytest.approx(2**at, rel=1e-15)
    assert max(len(re.sub(r"\D", "", v)) for v in (witness.reference_value, witness.candidate_value)) >= 20


def test_a_witness_lists_only_inputs_that_matter() -> None:
    arena, x = vector(64)
    y = np.asarray(arena.add_input("y", 64, "f32").ids(np.arange(64)))
    total = arena.nary(Op.NSUM, arena.exp(x)[None])
    wrong = arena.nary(Op.NSUM, arena.exp(x)[None, :63])
    arena.add(y, y)
    witness = only(compare(arena, arena.div(x[:1], total), arena.div(x[:1], wrong))).witness
    assert witness is not None
    assert all(name.startswith("x[") for name in witness.inputs) and len(witness.inputs) <= 3


def test_integer_inputs_stay_integers() -> None:
    arena, x = vector(4, "s8")
    wide, wrapped = arena.mul(x, x), arena.emit(Op.WRAP, arena.mul(x, x), -8)
    witness = only(compare(arena, wide, wrapped)).witness
    assert witness is not None
    value = int(witness.inputs["x[0]"])
    assert -128 <= value <= 127 and int(witness.reference_value) == value * value
    assert int(witness.candidate_value) == (value * value + 128) % 256 - 128


def test_a_small_witness_stays_within_its_integer_format() -> None:
    """Of an unsigned value -1 would be a short witness, but it is none of its values."""
    u = symbols("u", fmt="u8")
    low = wrap(u, 4)
    inner = abs(where(low >= 0, u + 3, low))
    for reference, candidate in ((where(u < inner, u, inner), abs(low)), (u, wrap(u + 3, 8, signed=False)), (u, -low)):
        found = only(decide_terms(reference, candidate)).witness
        assert found is not None and all(0 <= int(value) <= 255 for value in found.inputs.values())


@pytest.mark.parametrize("strict", [False, True])
def test_a_difference_at_ties_only_is_found(strict: bool) -> None:
    """x < y against x <= y selects differently only where x = y."""
    arena, x = vector(2)
    a, b = (int(i) for i in x)
    one, two = arena.rational(1), arena.rational(2)
    reference = arena.select(arena.compare(Op.LT, a, b), one, two)
    candidate = arena.select(arena.compare(Op.LT if strict else Op.LE, a, b), one, two)
    assert compare(arena, reference, candidate).status is (Status.PROVED if strict else Status.REFUTED)


# --- never proved --------------------------------------------------------------------------------


def test_sqrt_of_a_square_is_not_its_argument_but_its_size() -> None:
    arena, x = vector()
    root = arena.sqrt(arena.mul(x, x))
    verdict = compare(arena, root, x)
    assert verdict.status is Status.REFUTED
    assert compare(arena, root, arena.abs(x)).status is Status.PROVED


def test_log_of_a_product_is_not_proved() -> None:
    arena, x = vector(16)
    y = x[::-1].copy()
    verdict = compare(arena, arena.log(arena.mul(x, y)), arena.add(arena.log(x), arena.log(y)))
    assert verdict.status is Status.UNKNOWN
    assert "undefined" in verdict.reason


@pytest.mark.parametrize("constant", [NAN, UNDEF])
def test_an_undefined_output_is_never_proved(constant: int) -> None:
    arena, x = vector(2)
    ids = np.array([x[0], constant], np.int32)
    output = only(compare(arena, ids, ids))
    assert output.status is Status.UNKNOWN and "undefined value" in output.reason and output.failing.tolist() == [1]


def test_infinities_compare_as_themselves() -> None:
    arena, x = vector(2)
    ids = np.array([x[0], NEG_INF], np.int32)
    assert compare(arena, ids, ids).status is Status.PROVED
    assert compare(arena, ids, np.array([x[0], x[1]], np.int32)).status is not Status.PROVED


def test_division_by_zero_everywhere_is_no_witness() -> None:
    arena, x = vector(1)
    nothing = arena.emit(Op.SUB, x, x)
    verdict = compare(arena, arena.emit(Op.DIV, x, nothing), arena.emit(Op.DIV, arena.mul(x, x), nothing))
    assert verdict.status is not Status.REFUTED


def test_an_operation_without_a_meaning_is_no_witness() -> None:
    """Its value is not known, which is not to say that it is no number."""
    arena, x = vector(1)
    verdict = compare(arena, arena.exp2(x), arena.opaque("xor of floats", x))
    assert verdict.status is Status.UNKNOWN


def test_opaque_operations_are_in_the_ledger() -> None:
    arena, x = vector()
    verdict = compare(arena, arena.opaque("xor of floats", x), arena.opaque("xor of floats", x))
    assert verdict.status is not Status.REFUTED
    assert any("xor of floats" in line for line in verdict.assumptions)


# --- near misses ---------------------------------------------------------------------------------


def _tenths(arena: Arena) -> tuple[int, int]:
    """0.1 in f32 and its upper neighbour."""
    return arena.float_bits(0x3DCCCCCD, "f32"), arena.float_bits(0x3DCCCCCE, "f32")


def test_constants_that_differ_in_the_last_place_are_a_near_miss() -> None:
    arena, x = vector()
    low, high = _tenths(arena)
    reference, candidate = (arena.exp(arena.mul(x, constant)) for constant in (low, high))
    verdict = compare(arena, reference, candidate)
    assert verdict.status is Status.UNKNOWN
    assert "equal except for constants that differ by 7.5e-08 relative" in verdict.reason
    unified = compare(arena, reference, candidate, assumptions=frozenset({CONSTANTS_WITHIN_1_ULP}))
    assert unified.status is Status.PROVED
    (line,) = [line for line in unified.assumptions if line.startswith(CONSTANTS_WITHIN_1_ULP)]
    assert "0.1000000015" in line and "0.1000000089" in line


def test_a_near_constant_excuses_no_other_difference() -> None:
    arena, x = vector()
    low, high = _tenths(arena)
    reference, candidate = arena.mul(x, low), arena.mul(arena.mul(x, x), high)
    assert compare(arena, reference, candidate).status is Status.REFUTED
    assert compare(arena, reference, candidate, assumptions=frozenset({CONSTANTS_WITHIN_1_ULP})).status is Status.REFUTED


def test_a_clearly_different_constant_is_refuted_even_under_the_assumption() -> None:
    arena, x = vector()
    reference, candidate = (arena.add(x, arena.rational(n)) for n in (10**5, 10**5 + 1))
    assert compare(arena, reference, candidate, assumptions=frozenset({CONSTANTS_WITHIN_1_ULP})).status is Status.REFUTED


def test_unification_goes_through_products_and_reductions() -> None:
    arena, bound, a, b = matmul(4, 4, 8)
    low, high = _tenths(arena)

    def scaled(constant: int) -> np.ndarray:
        inner = arena.mul(a, np.full(a.shape, constant, np.int32))
        return arena.nary(Op.NMAX, product(arena, np.asarray(inner), b, 4)[0])

    reference, candidate = scaled(low), scaled(high)
    assert compare(arena, reference, candidate).status is Status.UNKNOWN
    assert compare(arena, reference, candidate, assumptions=frozenset({CONSTANTS_WITHIN_1_ULP})).status is Status.PROVED
    assert bound.by_name


# --- footprints ----------------------------------------------------------------------------------


def test_an_element_that_is_not_written_refutes() -> None:
    arena, bound, a, b = matmul(8, 8, 8)
    ids = product(arena, a, b, 8).ravel()
    verdict = decide(arena, {"C": written(ids)}, {"C": Footprint(np.arange(56), ids[:56])}, launch=bound)
    output = only(verdict)
    assert verdict.status is Status.REFUTED and output.explanation is not None and output.explanation.kind == "footprint"
    assert output.failing.tolist() == list(range(56, 64)) and output.witness is None
    assert "8 elements that the reference writes and the candidate does not" in output.explanation.text
    assert "row 7" in output.explanation.text and output.explanation.missing[0] == "C[7, 0]"
    extra = only(decide(arena, {"C": Footprint(np.arange(56), ids[:56])}, {"C": written(ids)}, launch=bound))
    assert extra.status is Status.REFUTED and extra.explanation is not None and extra.explanation.extra_total == 8


def test_outputs_and_auxiliary_tensors() -> None:
    arena, x = vector()
    good, bad = written(arena.exp(x)), written(arena.exp2(x))
    sides = {"Y": good, "tmp": good}, {"Y": good, "tmp": bad, "scratch": bad}
    assert decide(arena, *sides).status is Status.REFUTED
    assert decide(arena, *sides, outputs=["Y"]).status is Status.PROVED
    verdict = decide(arena, *sides, auxiliary=["tmp", "scratch"])
    assert verdict.status is Status.PROVED and [o.tensor for o in verdict.outputs] == ["Y"]
    assert decide(arena, *sides, outputs=["Y", "Z"]).status is Status.UNKNOWN


def test_nothing_to_compare_is_not_proved() -> None:
    arena, _ = vector()
    assert decide(arena, {}, {}).status is Status.UNKNOWN


def test_seed_and_order_change_nothing() -> None:
    arena, bound, a, b = matmul(8, 8, 16)
    whole, short = product(arena, a, b, 4), product(arena, a[..., :15], b[..., :15], 5)
    for seed in range(3):
        first = decide(arena, {"C": written(whole)}, {"C": written(short)}, launch=bound, budget=Budget(seed=seed))
        swapped = decide(arena, {"C": written(short)}, {"C": written(whole)}, launch=bound, budget=Budget(seed=seed))
        assert first.status is swapped.status is Status.REFUTED
        (one,), (two,) = first.outputs, swapped.outputs
        assert np.array_equal(one.failing, two.failing)
        assert one.explanation is not None and two.explanation is not None and one.explanation.missing == two.explanation.extra


# --- domains -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [0, 1])
def test_a_candidate_that_is_undefined_where_the_reference_is_not_is_not_proved(shift: int) -> None:
    """sqrt(x)^2 has no value at x < 0; sqrt(x^2 + 1)^2 has one everywhere."""
    arena, x = vector()
    inside = arena.add(arena.mul(x, x), ONE) if shift else x
    root = arena.sqrt(inside)
    verdict = compare(arena, inside, arena.mul(root, root))
    assert verdict.status is (Status.PROVED if shift else Status.UNKNOWN)
    if not shift:
        assert "root or logarithm of a negative number" in verdict.reason and re.search(r"\(x\[\d+\]=-.*: reference -", verdict.reason)
        assert compare(arena, arena.mul(root, root), inside).status is Status.PROVED  # the other way round, as far as it is defined


def test_a_vacuous_proof_is_not_one() -> None:
    arena, x = vector()
    negative = arena.log(arena.sub(arena.rational(-1), arena.mul(x, x)))
    twin = arena.log(arena.sub(arena.rational(-1), arena.mul(x, x)))
    assert compare(arena, x, arena.add(x, arena.sub(negative, twin))).status is Status.UNKNOWN


@pytest.mark.parametrize("count", [1, 16])
@pytest.mark.parametrize(("outer", "inner"), [(Op.MAX, Op.MIN), (Op.MIN, Op.MAX)])
def test_a_minimum_is_not_taken_for_the_maximum_of_the_same_operands(count: int, outer: Op, inner: Op) -> None:
    """max(min(a, b), c) beside max(a, b): a median of three written with the wrong half is no median."""
    arena = Arena()
    a, b, c = (np.asarray(arena.add_input(name, count, "f32").ids(np.arange(count))) for name in "abc")
    same, other = arena.emit(outer, a, b), arena.emit(inner, a, b)
    median = arena.emit(outer, other, arena.emit(inner, same, c))
    wrong = arena.emit(outer, same, arena.emit(inner, same, c))
    assert compare(arena, median, wrong).status is Status.REFUTED
    beside, instead = (arena.add(same, arena.emit(outer, half, c)) for half in (other, same))
    assert compare(arena, beside, instead).status is Status.REFUTED
    flat = arena.emit(outer, a, arena.emit(outer, c, b))
    assert compare(arena, arena.emit(outer, same, c), flat).status is Status.PROVED
