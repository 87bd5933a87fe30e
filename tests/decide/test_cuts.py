"""Cut points, twins and canonical forms: what they prove, and what they must not."""

from __future__ import annotations

import numpy as np
import pytest

from ptx_engine.decide import cuts
from ptx_engine.decide.budget import ProofBudget
from ptx_engine.decide.cuts import find_cuts
from ptx_engine.decide.shape_hash import ShapeHash
from ptx_engine.decide.templates import Outcome, prove_cheaply, prove_columns
from ptx_engine.decide.twins import find_twins
from ptx_engine.terms import NEG_INF, Arena, Op
from volta_pass.cli.bench_decide_attention import Shape, flash1_problem

ROWS, KEYS, DIM = 8, 64, 16


def scores(arena: Arena, q: np.ndarray, k: np.ndarray, acc: int = 0) -> np.ndarray:
    """ids (ROWS, KEYS) of q @ k.T"""
    zero = np.full((1, ROWS, KEYS), acc, np.int32)
    return arena.dot(q[None], k[None], zero)[0]


def attention(arena: Arena, block: int, *, rescale: bool = True, order: int = 1) -> np.ndarray:
    """Online softmax attention over blocks of keys; ids (ROWS, DIM). ``order`` reverses sums and maxima."""
    inputs = {entry.name: entry for entry in arena.inputs}
    if not inputs:
        for name, rows in (("q", ROWS), ("k", KEYS), ("v", KEYS)):
            inputs[name] = arena.add_input(name, rows * DIM, "f16")
    q, k, v = (np.asarray(inputs[n].ids(np.arange(inputs[n].count))).reshape(-1, DIM) for n in "qkv")
    s = scores(arena, q, k)
    m = np.full(ROWS, NEG_INF, np.int32)
    total = np.zeros(ROWS, np.int32)
    out = np.zeros((ROWS, DIM), np.int32)
    for start in range(0, KEYS, block):
        part = s[:, start : start + block][:, ::order]
        best = part[:, 0]
        for i in range(1, block):
            best = arena.maximum(best, part[:, i]) if order > 0 else arena.maximum(part[:, i], best)
        new = arena.maximum(m, best)
        p = arena.exp2(arena.sub(part, np.broadcast_to(new[:, None], part.shape)))
        alpha = arena.exp2(arena.sub(m, new)) if rescale else np.ones(ROWS, np.int32)
        added = arena.nary(Op.NSUM, p) if order > 0 else fold(arena, p)
        total = arena.fma(total, alpha, added) if order > 0 else arena.add(arena.mul(total, alpha), added)
        values = v[start : start + block][::order]
        scaled = arena.mul(out, np.broadcast_to(alpha[:, None], out.shape))
        out = arena.dot(p[None], np.ascontiguousarray(values.T)[None], np.asarray(scaled)[None])[0]
        m = new
    return np.asarray(arena.div(out, np.broadcast_to(np.asarray(total)[:, None], out.shape)))


def fold(arena: Arena, p: np.ndarray) -> np.ndarray:
    """A sum over the last axis as a tree."""
    while p.shape[1] > 1:
        half = p.shape[1] // 2
        p = np.asarray(arena.add(np.ascontiguousarray(p[:, :half]), np.ascontiguousarray(p[:, half:])))
    return p[:, 0]


def outcomes(results: list) -> set[Outcome]:
    return {r.outcome for r in results}


def covered(results: list) -> int:
    return sum(len(r.members) for r in results)


def test_attention_in_another_order_is_proved_through_cuts() -> None:
    arena = Arena()
    reference, candidate = attention(arena, 16), attention(arena, 16, order=-1)
    cuts = find_cuts(arena, reference.ravel(), candidate.ravel())
    assert cuts is not None and len(cuts.representative) > ROWS * KEYS
    results = prove_cheaply(arena, reference, candidate, ProofBudget(20))
    assert outcomes(results) == {Outcome.EQUAL} and covered(results) == ROWS * DIM


def test_a_side_between_the_two_is_in_no_cut() -> None:
    """A kernel that was compared with its own source is compared with an older kernel after that, in one arena."""
    plain, arena = Arena(), Arena()
    alone = find_cuts(plain, attention(plain, 16).ravel(), attention(plain, 16, order=-1).ravel())
    reference = attention(arena, 16)
    ends = int(reference.max())
    arena.begin_side()
    attention(arena, 32)  # its scores are the others' too, its maxima the reference's every other time
    begins = len(arena)
    arena.begin_side()
    candidate = attention(arena, 16, order=-1)
    found = find_cuts(arena, reference.ravel(), candidate.ravel())
    assert alone is not None and found is not None
    assert not ((found.members > ends) & (found.members < begins)).any()
    assert (found.representative == alone.representative).all() and len(found.members) == len(alone.members)
    assert (found.twin[ends + 1 : begins] == np.arange(ends + 1, begins)).all() and (found.twin[begins:] >= begins).all()
    results = prove_cheaply(arena, reference, candidate, ProofBudget(20))
    assert outcomes(results) == {Outcome.EQUAL} and covered(results) == ROWS * DIM


def test_a_missing_rescale_is_not_proved() -> None:
    arena = Arena()
    reference, candidate = attention(arena, 16), attention(arena, 16, order=-1, rescale=False)
    assert prove_cheaply(arena, reference, candidate, ProofBudget(20)) == []


def test_other_block_sizes_need_the_normal_form_and_get_it() -> None:
    arena = Arena()
    reference, candidate = attention(arena, 16)[:1, :2], attention(arena, 32)[:1, :2]
    results = prove_columns(arena, reference, candidate, ProofBudget(60))
    assert outcomes(results) == {Outcome.EQUAL}


def test_a_failing_obligation_takes_its_cut_away_and_the_outputs_are_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash that calls unequal terms equal must not lead to a proof: nothing rests on it."""
    arena = Arena()
    reference, candidate = attention(arena, 16), attention(arena, 16, order=-1, rescale=False)
    init = ShapeHash.__init__

    def constant(self: ShapeHash, of: Arena) -> None:
        init(self, of)
        self.values[:] = np.asarray(self.op, np.uint64) + np.uint64(1)

    monkeypatch.setattr(ShapeHash, "__init__", constant)
    assert Outcome.EQUAL not in outcomes(prove_cheaply(arena, reference, candidate, ProofBudget(20)))


def test_twins_are_found_through_levels_and_only_where_operands_agree() -> None:
    arena = Arena()
    x = np.asarray(arena.add_input("x", 8, "f32").ids(np.arange(8)))
    lanes = np.arange(8)
    first = np.asarray(arena.add(x, x[lanes ^ 1]))
    second = np.asarray(arena.add(first, first[lanes ^ 2]))
    third = np.asarray(arena.sub(second, second[lanes ^ 4]))
    twin = find_twins(arena, ShapeHash(arena).values)
    assert (twin[first] == first[[0, 0, 2, 2, 4, 4, 6, 6]]).all()
    assert (twin[second] == second[[0, 0, 0, 0, 4, 4, 4, 4]]).all()
    # a - b and b - a are no twins
    assert twin[third[0]] != twin[third[4]]


def test_twins_survive_a_hash_that_says_yes_to_everything() -> None:
    arena = Arena()
    x = np.asarray(arena.add_input("x", 8, "f32").ids(np.arange(8)))
    y = np.asarray(arena.add(x, x[::-1].copy()))
    z = np.asarray(arena.mul(y, x))
    twin = find_twins(arena, np.zeros(len(arena), np.uint64))
    assert (twin[y[:4]] == y[:4]).sum() >= 1
    assert len(set(twin[y].tolist())) >= 4 and (twin[z] == z).sum() >= 7


def test_shape_hash_sees_through_order_and_not_through_content() -> None:
    arena = Arena()
    x = np.asarray(arena.add_input("x", 8, "f32").ids(np.arange(8)))
    one = arena.nary(Op.NSUM, x[None])[0]
    two = arena.add(arena.add(arena.add(int(x[3]), int(x[1])), arena.add(int(x[2]), int(x[0]))), arena.nary(Op.NSUM, x[None, 4:])[0].item())
    three = arena.nary(Op.NSUM, x[None, :7])[0]
    big = arena.nary(Op.NMAX, x[None])[0]
    other = arena.maximum(arena.nary(Op.NMAX, x[None, 5:])[0].item(), arena.nary(Op.NMAX, x[None, :5])[0].item())
    less = arena.nary(Op.NMAX, x[None, :7])[0]
    values = ShapeHash(arena).values
    assert values[one] == values[two] != values[three]
    assert values[big] == values[other] != values[less]


def _roots_and_sums(arena: Arena, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns s = sqrt(y) + 1 and x, with enough around them to be cut."""
    x, y = (np.asarray(arena.add_input(name, rows, "f32").ids(np.arange(rows))) for name in "xy")
    return x, np.asarray(arena.add(arena.sqrt(y), arena.rational(1)))


def test_a_cut_that_hides_a_root_does_not_hide_where_it_is_undefined() -> None:
    """x + s - s is x only where s = sqrt(y) + 1 is a number: both sides compute s, but in another output."""
    arena = Arena()
    rows = 2048
    x, s = _roots_and_sums(arena, rows)
    shared = np.asarray(arena.mul(arena.add(s, s), s))
    reference = np.concatenate([np.asarray(arena.exp2(x)), shared])
    t = np.asarray(arena.add(arena.rational(1), arena.sqrt(np.asarray(arena.inputs[1].ids(np.arange(rows))))))
    product = np.asarray(arena.mul(t, arena.add(t, t)))
    exponent = np.asarray(arena.sub(arena.add(x, t), t))
    candidate = np.concatenate([np.asarray(arena.exp2(exponent)), product])
    cuts = find_cuts(arena, reference, candidate)
    assert cuts is not None
    proved = np.concatenate([r.members for r in prove_cheaply(arena, reference, candidate, ProofBudget(20))] or [np.zeros(0, np.int64)])
    assert not (proved < rows).any()
    rest = prove_columns(arena, reference, candidate, ProofBudget(20))
    assert all(r.narrower for r in rest if r.outcome is Outcome.EQUAL and (r.members < rows).any())


@pytest.mark.parametrize("wrong", [False, True])
def test_flash_attention_1_over_many_blocks_takes_bounded_work(wrong: bool) -> None:
    """Each step divides by the running sum and multiplies by it in the next: the quotients cancel, and do not pile up."""
    shape = Shape(rows=16, keys=128, depth=16, block=8)
    p = flash1_problem(shape)
    reference, candidate = p.reference["out"].ids, p.candidate["out"].ids
    if wrong:
        candidate = np.roll(candidate, 1)
    results = prove_cheaply(p.arena, reference, candidate, ProofBudget(60, terms=60_000))
    assert sum(len(r.members) for r in results) == (0 if wrong else 256)


def test_chains_of_products_are_told_from_shared_sums_without_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sums of products, element by element, have no cuts; with one sum used by all elements the uses are counted."""
    arena = Arena()
    x = arena.add_input("x", 4096, "f32")
    sides: list[np.ndarray] = []
    for order in (1, -1):
        total = arena.mul(x.ids(np.arange(64)), x.ids(np.arange(64, 128)))
        for step in range(1, 40)[::order]:
            total = arena.fma(x.ids(step * 64 + np.arange(64)), x.ids(np.arange(64) + step), total)
        sides.append(np.asarray(total))
    monkeypatch.setattr(cuts, "_uses", None)
    assert find_cuts(arena, *sides) is None
    shared = [arena.add(side, int(side[0])) for side in sides[::-1]]
    with pytest.raises(TypeError):
        find_cuts(arena, *[arena.mul(side, int(side[1])) for side in shared])


def test_products_of_inputs_are_told_from_products_of_what_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensor-core fragments over loaded values share nothing; products of products do, and are counted."""
    counted: list[bool] = []
    original = cuts._uses
    monkeypatch.setattr(cuts, "_uses", lambda *args: (counted.append(True), original(*args))[1])
    for nested in (False, True):
        arena = Arena()
        a, b = (np.asarray(arena.add_input(name, 64 * 64, "f16").ids(np.arange(64 * 64))).reshape(64, 64) for name in "ab")
        sides = []
        for half in (16, 32):
            total = np.zeros((1, 64, 64), np.int32)
            for k in range(0, 64, half):
                total = arena.dot(a[None, :, k : k + half], b[None, :, k : k + half], total)
            sides.append(arena.dot(total, b[None], np.zeros((1, 64, 64), np.int32)).ravel() if nested else total.ravel())
        counted.clear()
        found = find_cuts(arena, *sides)
        assert bool(counted) == nested == (found is not None)
