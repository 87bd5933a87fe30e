"""Columns that a loop leaves at equal distances: the template is the one that is found column by column."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ptx_engine.decide.budget import Meter, ProofBudget
from ptx_engine.decide.columns import Columns, HashCollision
from ptx_engine.decide.templates import Outcome, prove_columns
from ptx_engine.decide.walk import INPUT, SplitClass, Template, Walker, equidistant
from ptx_engine.terms import Arena, Op

OUTPUTS = 4
PLAIN, SWAPPED, BESIDE, OTHER = range(4)
TURNS = st.lists(
    st.tuples(st.sampled_from([Op.FMA, Op.FMA, Op.ADD, Op.ADD, Op.SUB, Op.MAX]), st.sampled_from([PLAIN] * 6 + [SWAPPED, BESIDE, OTHER])),
    max_size=24,
)


def run(arena: Arena, turns: list[tuple[Op, int]], runs: int) -> np.ndarray:
    """Sums over turns that are kept at every ``runs``-th one: root columns. A turn may take its sums from two lanes swapped, emit
    something beside them, or take another operator in its last lane."""
    x, y = arena.add_input("x", 64, "f32"), arena.add_input("y", 64 * OUTPUTS, "f32")
    sums = np.array(y.ids(np.arange(OUTPUTS)), np.int32)
    kept = []
    for number, (op, what) in enumerate(turns * runs):
        factor, other = np.full(OUTPUTS, x.ids(number % 64), np.int32), y.ids(np.arange(OUTPUTS) + OUTPUTS * (number % 64))
        if what == BESIDE:
            arena.emit_column(Op.MUL, 3, factor[:3], factor[:3])
        if what == SWAPPED:
            sums = sums[[1, 0, *range(2, OUTPUTS)]]
        lanes = OUTPUTS - (what == OTHER)
        parts = [
            arena.emit_column(
                op, lanes, *((factor[:lanes], other[:lanes], sums[:lanes]) if op is Op.FMA else (sums[:lanes], other[:lanes]))
            )
        ]
        if what == OTHER:
            parts.append(arena.emit_column(Op.MIN, 1, sums[-1:], other[-1:]))
        sums = np.concatenate(parts)
        kept.append(sums)
    return np.stack([kept[-1], kept[len(kept) // 2]])


def walked(arena: Arena, roots: np.ndarray) -> "list[object] | list[int]":
    """The template as nested tuples below each root, shared parts by number; or the labels of the split."""
    columns = Columns(OUTPUTS)
    meter = Meter(ProofBudget(10, 10_000_000, 0), float("inf"))
    try:
        template: Template = Walker(arena, columns, meter, True, lambda: None).run(roots)  # type: ignore[arg-type,return-value]
    except SplitClass as split:
        return split.labels.tolist()
    number: dict[int, int] = {}
    told: list[object] = []
    stack = list(reversed(template.roots))
    while stack:
        node = stack.pop()
        if node in number:
            continue
        number[node] = len(number)
        leaf = [columns.id_at(node, i) for i in range(OUTPUTS)] if template.ops[node] == INPUT else None
        told.append((template.ops[node], leaf, [(number.get(child), child in number) for child in template.args[node]]))
        stack.extend(reversed(template.args[node]))
    return told


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns=TURNS.filter(bool), runs=st.integers(1, 4))
def test_loops_are_walked_as_their_columns_are(monkeypatch: pytest.MonkeyPatch, turns: list[tuple[Op, int]], runs: int) -> None:
    arena = Arena()
    roots = run(arena, turns, runs)
    found = walked(arena, roots)
    with monkeypatch.context() as patch:
        patch.setattr(Walker, "_loop", lambda *_: False)
        assert walked(arena, roots) == found


def test_a_loop_is_taken_as_a_whole_up_to_the_first_turn_that_differs() -> None:
    arena = Arena()
    roots = run(arena, [(Op.FMA, PLAIN)] * 9 + [(Op.FMA, SWAPPED)] + [(Op.FMA, PLAIN)] * 20, 1)
    op, _, _, c = arena.columns()
    found = equidistant(op, c, Op.FMA, roots[0], 64)
    assert found is not None
    assert len(found) == 21  # the swapped turn itself, whose sums are another column's
    assert found[-1].tolist() == (roots[0] - 20 * OUTPUTS).tolist()


@pytest.mark.parametrize("lane", range(OUTPUTS))
@pytest.mark.parametrize("turn", [0, 1, 7, 30, 39])
def test_one_lane_of_one_turn_decides(lane: int, turn: int) -> None:
    """A lane that takes another's factor, or skips a turn, in the midst of a loop is not proved."""
    for change in ("factor", "skip", None):
        arena = Arena()
        x, y = arena.add_input("x", 64, "f32"), arena.add_input("y", 64 * OUTPUTS, "f32")
        sides = []
        for changed in (False, True):
            sums = np.zeros(OUTPUTS, np.int32)
            for k in range(40):
                factor, other = np.full(OUTPUTS, x.ids(k), np.int32), np.array(y.ids(np.arange(OUTPUTS) + OUTPUTS * k), np.int32)
                before = sums
                if changed and k == turn and change == "factor":
                    factor[lane] = int(x.ids(k + 1))
                made = arena.emit_column(Op.FMA, OUTPUTS, factor, other, sums)
                if changed and k == turn and change == "skip":
                    made = made.copy()
                    made[lane] = before[lane]
                sums = made
            sides.append(sums)
        outcomes = {
            member: result.outcome for result in prove_columns(arena, *sides, ProofBudget(10, 1_000_000, 0)) for member in result.members
        }
        assert [outcomes[i] is Outcome.EQUAL for i in range(OUTPUTS)] == [change is None or i != lane for i in range(OUTPUTS)]


def test_shifted_columns_are_known_by_their_content() -> None:
    columns = Columns(3)
    base = np.array([100, 90, 95], np.int32)
    (known,) = columns.resolve(1, (base - 20)[None]).tolist()
    nodes = columns.shifted(1, base, 10, 4).tolist()
    assert nodes[2] == known
    assert [columns.blocks(node).tolist() for node in nodes] == [(base - 10 * k).tolist() for k in range(4)]
    assert [columns.id_at(node, 1) for node in nodes] == [90, 80, 70, 60]
    assert [bound.tolist() for bound in columns.bounds(nodes)] == [[90, 80, 70, 60], [100, 90, 80, 70]]
    assert columns.resolve(1, (base - 30)[None]).tolist() == [nodes[3]]
    (key,) = (key for key, node in columns._by_hash.items() if node == nodes[3])
    columns._by_hash[key] = nodes[0]
    for again in (lambda: columns.shifted(1, base, 10, 4), lambda: columns.resolve(1, (base - 30)[None])):
        with pytest.raises(HashCollision):
            again()
