"""Turns of a loop taken at once against their nodes one by one: hashes, counts of uses and templates are the same, whatever the loop
does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ptx_engine.decide import cuts, defined
from ptx_engine.decide.budget import Meter, ProofBudget
from ptx_engine.decide.columns import Columns
from ptx_engine.decide.defined import first_infinite
from ptx_engine.decide.dot_lists import DotLists
from ptx_engine.decide.shape_hash import ShapeHash
from ptx_engine.decide.turn_tables import Kind, TurnTable
from ptx_engine.decide.walk import CONSTANTS, INPUT, SplitClass, Template, Walker, postorder
from ptx_engine.terms import Arena, Op
from ptx_engine.terms.arena import CONST_CAP, NEG_INF, POS_INF
from ptx_engine.terms.ops import TABLE
from ptx_engine.terms.turns import TurnOperand, TurnPlaces

#: where an operand of a place comes from: this turn, the turn before, an input that steps, a node or a constant from before the loop
SOURCES = ("same", "before", "input", "node", "const", "stepping node", "infinite")
OPERAND = st.tuples(st.sampled_from(SOURCES), st.integers(0, 30), st.integers(0, 3))
PLACES = st.lists(
    st.tuples(st.sampled_from([Op.ADD, Op.SUB, Op.MUL, Op.FMA, Op.FMA, Op.EXP2, Op.DIV, Op.MAX, Op.NEG]), st.tuples(OPERAND, OPERAND, OPERAND)),
    min_size=1,
    max_size=9,
)  # fmt: skip


def arena_of(places: list[Any], turns: int, threads: int) -> Arena:
    """A loop between single terms. Places are columns of ``threads`` nodes."""
    arena = Arena()
    x = arena.add_input("x", 4096, "f32")
    made = [arena.emit_scalar(Op.MUL, int(x.ids(i)), int(x.ids(i + 1)), 0) for i in range(8)]
    made += [arena.emit_scalar(Op.FMA, made[i % 8], made[0], made[(3 * i) % 8]) for i in range(60)]
    ops = np.repeat(np.array([op for op, _ in places], np.uint8), threads)
    width, numbers = len(ops), np.arange(threads)
    first, moving = len(arena), []
    for slot in range(3):
        start, steps, other = np.zeros(width, np.int64), np.zeros(width, np.int32), []
        for here, (op, operands) in enumerate(places):
            if slot >= TABLE[op].arity:
                continue
            source, number, step = operands[slot]
            span = slice(here * threads, (here + 1) * threads)
            if source == "same" and here:
                start[span], steps[span] = first + number % here * threads + numbers, width
            elif source == "before":
                start[span], steps[span] = first - width + number % len(places) * threads + numbers, width
                other.append((span, made[number % len(made)] if step else NEG_INF))
            elif source == "stepping node":
                start[span], steps[span] = made[8 + number % 8], step
            elif source == "node":
                start[span] = made[number % len(made)]
            elif source == "const":
                start[span] = arena.rational(number % 5)
            elif source == "infinite":
                start[span] = (POS_INF, NEG_INF)[number % 2]
            else:
                start[span], steps[span] = x.ids(number + 7 * numbers), -step
        moving.append(TurnOperand(start, steps, other))
    arena.emit_turns(turns, ops, [threads] * len(places), [None] * len(places), moving)
    end = len(arena) - 1
    made += [arena.emit_scalar(Op.FMA, end - i, end, made[i]) for i in range(12)]
    arena.flush()
    return arena


def uses_one_by_one(arena: Arena, outputs: np.ndarray) -> list[int]:
    op, *columns = arena.columns()
    uses = [0] * len(arena)
    for ident in range(CONST_CAP, len(arena)):
        for column in columns[: TABLE[Op(int(op[ident]))].arity]:
            uses[int(column[ident])] += int(column[ident]) >= CONST_CAP
    for ident in outputs.tolist():
        uses[ident] += 1
    return uses


@settings(max_examples=60, deadline=None)
@given(PLACES, st.integers(3, 7), st.sampled_from([1, 3]), st.floats(0, 1))
def test_the_first_that_takes_an_infinity(places: list[Any], turns: int, threads: int, share: float) -> None:
    arena = arena_of(places, turns, threads)
    op, *columns = arena.columns()
    last = CONST_CAP + int(share * (len(arena) - CONST_CAP))
    takes = [
        ident
        for ident in range(CONST_CAP, last)
        if Op(int(op[ident])) not in (Op.MAX, Op.MIN)
        and any(int(column[ident]) in (POS_INF, NEG_INF) for column in columns[: TABLE[Op(int(op[ident]))].arity])
    ]
    assert first_infinite(arena, last) == min(takes, default=last)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(defined, "_PIECE", 4)
        assert first_infinite(arena, last) == min(takes, default=last)


SUBTRACTED = [(Op.SUB, (("before", 0, 0), ("input", 3, 1), ("const", 0, 0))), (Op.SUB, (("same", 0, 0), ("before", 0, 0), ("const", 0, 0)))]


@example(SUBTRACTED, 4, 1)
@settings(max_examples=80, deadline=None)
@given(PLACES, st.integers(3, 7), st.sampled_from([1, 3]))
def test_turns_are_hashed_and_counted_as_their_nodes_are(places: list[Any], turns: int, threads: int) -> None:
    arena = arena_of(places, turns, threads)
    outputs = np.array([len(arena) - 1, CONST_CAP + 3])
    seen, used = ShapeHash(arena), np.zeros(len(arena), np.int32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuts, "_pass_down", lambda *args: None)
        used = cuts._uses(arena, outputs)
    assert used[CONST_CAP:].tolist() == uses_one_by_one(arena, outputs)[CONST_CAP:]
    (kept,) = arena.turns
    columns = arena.columns()[1:]
    assert cuts._used_in_turns(kept, columns) == sum(int((kept.table(column) >= CONST_CAP).sum()) for column in columns)
    arena.turns.clear()
    expected = ShapeHash(arena)
    assert seen.values.tolist() == expected.values.tolist() and seen.top.tolist() == expected.top.tolist()
    table = TurnTable(kept, *arena.columns())
    assert [run.start for run in table.runs()][1:] == [run.stop for run in table.runs()][:-1]


def one(source: str, number: int = 0, step: int = 0) -> tuple[str, int, int]:
    return source, number, step


def test_sums_along_and_across_turns_are_runs() -> None:
    """One thread's attention: a score, its exponential, and sums over all turns."""
    pair = one("input", 0, 1), one("input", 64, 1)
    score = [(Op.MUL, (*pair, one("const")))] + [(Op.FMA, (*pair, one("same", i))) for i in range(4)]
    power = [(Op.EXP2, (one("same", 4), one("const"), one("const")))]
    sums = [(Op.FMA, (one("same", 5), one("input", i, 1), one("before", 6 + i))) for i in range(3)]
    rescaled = [(Op.FMA, (one("before", 9), one("same", 5), one("before", 9)))]
    table = TurnTable(*loop(score + power + sums))
    assert [(run.start, run.stop, run.kind) for run in table.runs()] == [
        (0, 1, Kind.APART), (1, 5, Kind.ALONG), (5, 6, Kind.APART), (6, 9, Kind.ACROSS),
    ]  # fmt: skip
    assert [run.stop for run in TurnTable(*loop(score + power + sums + rescaled)).runs()][-1] == 9  # no further: it needs itself twice


def loop(places: list[Any]) -> tuple[Any, ...]:
    arena = arena_of(places, 5, 1)
    return (arena.turns[0], *arena.columns())


def worth_sorting(keys: list[int], low: list[bool], uses: list[int]) -> list[int]:
    sides = [[key for key, mine in zip(keys, low) if mine is side] for side in (True, False)]
    return [
        i
        for i, key in enumerate(keys)
        if key in sides[0] and key in sides[1]
        and (any(u > 1 for k, u in zip(keys, uses) if k == key) or sides[0].count(key) > 1 or sides[1].count(key) > 1)
    ]  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 2)), min_size=1, max_size=40))
def test_keys_worth_sorting_are_on_both_sides_and_stand_or_are_used_twice(rows: list[tuple[int, bool, int]]) -> None:
    keys, low, uses = (list(column) for column in zip(*rows))
    wide = np.array(keys, np.uint64) << np.uint64(62)  # (told apart by their first bits)
    found = cuts._worth_sorting(wide, np.array(low), np.array(uses, np.int32))
    assert sorted(found.tolist()) == worth_sorting([int(k) for k in wide], low, uses)


# --- templates ------------------------------------------------------------------------------------


def template_of(arena: Arena, roots: np.ndarray) -> tuple[Template, int]:
    meter = Meter(ProofBudget(), float("inf"))
    walker = Walker(arena, Columns(roots.shape[1]), meter, False, lambda: DotLists(arena.dots, lambda ids: ids))
    return walker.run(roots), meter.spent


def written_out(template: Template, outputs: int) -> tuple[list[int], list[str]]:
    """Roots as numbers of distinct formulas over the columns of inputs and constants, whatever nodes are numbered."""
    known: dict[object, int] = {}
    found: dict[int, int] = {}

    def formula(node: int) -> int:
        op, args = template.ops[node], template.args[node]
        leaf = op in (INPUT, CONSTANTS)
        key = (
            (op, tuple(template.columns.id_at(node, i) for i in range(outputs)))
            if leaf
            else (op, args if op == Op.CONST else tuple(found[n] for n in args))
        )
        return known.setdefault(key, len(known))

    for node in postorder(len(template.ops), template.roots, lambda n: () if template.ops[n] == Op.CONST else template.args[n]):
        found[node] = formula(node)
    return [found[root] for root in template.roots], [str(key) for key in known]


def products(
    arena: Arena, turns: int, threads: int, unrolled: int, rows: int, *, stride: int = 1, left_out: int = 0, wrong: int = -1
) -> np.ndarray:
    """Products of a matrix by a loop: ``rows`` sums in each thread, turns unrolled; in two parts, as a machine stops to look at its
    clock. ``stride`` between elements of a row; ``left_out`` of them between the two parts; ``wrong``: this output adds an operand of
    another column in the second turn from the end. Ids (rows * threads,)."""
    depth = stride * (turns * unrolled + 2 + left_out)
    a, b = arena.add_input("a", rows * depth, "f32"), arena.add_input("b", depth * threads, "f32")
    lane = np.arange(threads)

    def operands(row: int, k: int) -> tuple[int, np.ndarray]:
        return int(a.ids(row * depth + stride * k)), np.asarray(b.ids(k * threads + lane))

    sums = [np.asarray(arena.mul(*operands(row, 0))) for row in range(rows)]
    sums = [np.asarray(arena.fma(*operands(row, 1), sums[row])) for row in range(rows)]
    done = 0
    for part in (turns // 2, turns - turns // 2):
        width, first = rows * unrolled * threads, len(arena)
        moving = []
        for slot in range(3):
            start, step, other = np.zeros(width, np.int64), np.zeros(width, np.int32), []
            for place, (k, row) in enumerate((k, row) for k in range(unrolled) for row in range(rows)):
                span = slice(place * threads, (place + 1) * threads)
                x, y = operands(row, 2 + done * unrolled + k + (left_out if done else 0))
                if slot < 2:
                    start[span], step[span] = (x, -unrolled * stride) if slot == 0 else (y, -unrolled * threads)
                else:
                    start[span], step[span] = first + (place - rows) * threads + lane, width
                    if k == 0:
                        other.append((span, sums[row]))
            moving.append(TurnOperand(start, step, other))
        arena.emit_turns(part, np.full(width, Op.FMA, np.uint8), [threads] * (rows * unrolled), [None] * (rows * unrolled), moving)
        done += part
        end = len(arena) - rows * threads
        sums = [end + row * threads + lane for row in range(rows)]
    result = np.concatenate(sums).astype(np.int32)
    if wrong >= 0:
        arena._b[result[wrong] - width] -= 1
    return result


def same_with_and_without_turns(arena: Arena, roots: np.ndarray) -> None:
    seen, spent = template_of(arena, roots)
    arena.turns.clear()
    expected, most = template_of(arena, roots)
    assert written_out(seen, roots.shape[1]) == written_out(expected, roots.shape[1])
    assert len(seen.ops) == len(expected.ops) and spent <= most


@pytest.mark.parametrize("turns, threads, unrolled, rows", [(9, 4, 1, 1), (12, 8, 4, 1), (13, 4, 2, 3), (3, 4, 1, 2), (40, 3, 1, 2)])
@pytest.mark.parametrize("back", [0, 1, 3])
def test_templates_of_turns_are_those_of_their_nodes(turns: int, threads: int, unrolled: int, rows: int, back: int) -> None:
    arena = Arena()
    outputs = products(arena, turns, threads, unrolled, rows) - np.int32(back * rows * threads)  # (the sums as they were before)
    assert len(arena.turns) == 1  # (two parts that follow each other are one)
    same_with_and_without_turns(arena, np.stack([outputs, outputs[::-1]]))


def test_parts_that_do_not_follow_each_other_are_two() -> None:
    arena = Arena()
    outputs = products(arena, 12, 6, 2, 1, left_out=1)
    assert len(arena.turns) == 2
    same_with_and_without_turns(arena, outputs[None])


def test_a_cut_ends_a_chain_in_the_middle_of_its_turns() -> None:
    """Operands of a view are mapped, and do not move by steps where one is a cut."""
    arena, threads, above = Arena(), 4, 5
    outputs = products(arena, 12, threads, 1, 1)
    image = np.arange(len(arena), dtype=np.int32)
    image[outputs - above * threads] = cuts.end_of_inputs(arena) - np.arange(threads, dtype=np.int32)
    view = cuts.CutView(arena, image, False)
    walker = Walker(view, Columns(threads), Meter(ProofBudget(), float("inf")), False, view.dot_lists)
    assert walker.run(outputs[None]).ops.count(Op.FMA) == above
    assert template_of(arena, outputs[None])[0].ops.count(Op.FMA) == 13


@pytest.mark.parametrize("stride", [1, 2])
def test_turns_of_several_loops_make_one_template(stride: int) -> None:
    arena = Arena()
    outputs = np.concatenate([products(arena, 12, 6, 2, 1), products(arena, 12, 6, 2, 1, stride=stride)])
    assert len(arena.turns) == 2
    same_with_and_without_turns(arena, outputs[None])


def test_turns_of_loops_that_add_at_different_paces() -> None:
    """Turns of both have twelve nodes: two links of one sum in the first loop, one link of each of two sums in the second."""
    arena = Arena()
    outputs = np.concatenate([products(arena, 12, 6, 2, 1), products(arena, 24, 6, 1, 2)[:6]])
    assert [loop.width for loop in arena.turns] == [12, 12]
    same_with_and_without_turns(arena, outputs[None])


def scaled_sums(turns: int, threads: int, *, factor_is_node: bool) -> tuple[Arena, np.ndarray]:
    """Sums of elements of a row, each times the thread's own element of another, which is the same in all turns; or times its square."""
    arena, lane = Arena(), np.arange(threads)
    x, y = arena.add_input("x", threads, "f32"), arena.add_input("y", 4 + turns, "f32")
    mine = np.asarray(x.ids(lane))
    factor = np.asarray(arena.mul(mine, mine)) if factor_is_node else mine
    before = np.asarray(arena.mul(factor, int(y.ids(0))))
    first = len(arena)
    moving = [
        TurnOperand(factor.astype(np.int64), np.zeros(threads, np.int32)),
        TurnOperand(np.full(threads, y.ids(1), np.int64), np.full(threads, -1, np.int32)),
        TurnOperand(first - threads + lane, np.full(threads, threads, np.int32), [(slice(0, threads), before)]),
    ]
    arena.emit_turns(turns, np.full(threads, Op.FMA, np.uint8), [threads], [None], moving)
    return arena, (len(arena) - threads + lane).astype(np.int32)


@pytest.mark.parametrize("factor_is_node", [False, True])
def test_a_factor_that_turns_do_not_change_is_one_variable(factor_is_node: bool) -> None:
    """As many as there are turns, what a sum's terms have in common could not be pulled out."""
    arena, outputs = scaled_sums(20, 4, factor_is_node=factor_is_node)
    template, _ = template_of(arena, outputs[None])
    assert template.ops.count(INPUT) == 1 + 21
    same_with_and_without_turns(arena, outputs[None])


#: sums over turns that go through another operator, or add what is made in their turn: no chain of inputs
MOVING = ("input", 0, 1)
THROUGH = [(Op.FMA, (("before", 1, 0), MOVING, MOVING)), (Op.ADD, (("same", 0, 0), MOVING, MOVING))]
OF_NODES = [(Op.MUL, (MOVING, MOVING, MOVING)), (Op.FMA, (("same", 0, 0), MOVING, ("before", 1, 0)))]
SUMS = st.lists(
    st.tuples(st.sampled_from([Op.ADD, Op.FMA, Op.FMA, Op.MUL]), st.tuples(OPERAND, OPERAND, st.sampled_from([("before", i, 0) for i in range(3)] + [("same", 0, 0)]))),
    min_size=1,
    max_size=3,
)  # fmt: skip


@example(THROUGH, 9)
@example(OF_NODES, 9)
@settings(max_examples=100, deadline=None)
@given(SUMS, st.integers(6, 11))
def test_templates_of_any_turns_are_those_of_their_nodes(places: list[Any], turns: int) -> None:
    threads = 3
    places = [
        (op, (operands[2], *operands[1:])) if op is Op.ADD and operands[0][0] == "input" else (op, operands) for op, operands in places
    ]
    for place in range(len(places)):
        arena = arena_of(places, turns, threads)
        (loop,) = arena.turns
        outputs = np.arange(threads, dtype=np.int32) + np.int32(loop.stop - loop.width + place * threads)
        try:
            same_with_and_without_turns(arena, outputs[None])
        except SplitClass:  # (an operand is not of one form in all threads; without turns it must not be, either)
            arena.turns.clear()
            with pytest.raises(SplitClass):
                template_of(arena, outputs[None])


def test_a_chain_that_goes_back_two_turns_in_each() -> None:
    """Only in the last turn does a sum add to that of the turn before."""
    arena = Arena()
    x = arena.add_input("x", 4096, "f32")
    older = arena.emit_column(Op.FMA, 600, *(np.asarray(x.ids(np.arange(600) + i)) for i in range(3)))
    turns, width, first, lane = 12, 4, len(arena), np.arange(4)
    moving = [TurnOperand(np.asarray(x.ids(lane + i), np.int64), np.full(width, -1, np.int32)) for i in range(2)]
    last = first + (turns - 2) * width + lane
    moving.append(TurnOperand(last - (turns - 1) * 2 * width, np.full(width, 2 * width, np.int32)))
    arena.emit_turns(turns, np.full(width, Op.FMA, np.uint8), [width], [None], moving)
    assert older[-1] == first - 1
    same_with_and_without_turns(arena, (first + (turns - 1) * width + lane).astype(np.int32)[None])


def test_turns_are_what_is_looked_at() -> None:
    """Twin of the two above: they would hold, too, if turns were never used; and of what lies in turns only some is looked at."""
    arena = Arena()
    outputs = products(arena, 40, 8, 1, 1, wrong=3)
    seen, _ = template_of(arena, outputs[None])  # (what the arena has says otherwise: by construction it never does)
    arena.turns.clear()
    assert written_out(seen, len(outputs)) != written_out(template_of(arena, outputs[None])[0], len(outputs))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans(), st.integers(0, 2)), min_size=1, max_size=40))
def test_keys_that_share_bits_are_told_apart_or_looked_at(rows: list[tuple[int, int, bool, int]]) -> None:
    keys = [(bits << 62) + rest for bits, rest, _, _ in rows]
    low, uses = [row[2] for row in rows], [row[3] for row in rows]
    found = set(cuts._worth_sorting(np.array(keys, np.uint64), np.array(low), np.array(uses, np.int32)).tolist())
    assert found >= set(worth_sorting(keys, low, uses))
    alone = len(set(zip(keys, low))) == len(keys) and max(uses) < 2
    assert not (alone and found)


# --- loops in parts -------------------------------------------------------------------------------

#: what may tell a loop's second part from the turns that would follow its first; nothing does in the first row
PARTS: dict[str, tuple[dict[str, Any], int]] = {
    "nothing": ({}, 1),
    "a node between them": ({"between": True}, 2),
    "another operator": ({"op": Op.ADD}, 2),
    "another step": ({"step": -2}, 2),
    "another element": ({"skipped": 1}, 2),
    "other emissions": ({"widths": [1, 3]}, 2),
    "another origin": ({"origin": "line 2"}, 2),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_are_one_where_the_second_goes_on_as_the_first(name: str) -> None:
    changed, expected = dict(PARTS[name][0]), PARTS[name][1]
    arena, lane, turns = Arena(), np.arange(4), 5
    x = arena.add_input("x", 4096, "f32")

    def emit(begin: int, op: Op = Op.MUL, step: int = -1, widths: tuple[int, ...] = (2, 2), origin: str = "line 1") -> None:
        moving = [TurnOperand(np.asarray(x.ids(lane + 100 * i + begin), np.int64), np.full(4, step, np.int32)) for i in range(2)]
        moving.append(TurnOperand(np.zeros(4, np.int64), np.zeros(4, np.int32)))
        arena.emit_turns(turns, np.full(4, op, np.uint8), list(widths), [origin] * 2, moving)

    emit(0)
    if changed.pop("between", False):
        arena.emit_scalar(Op.MUL, int(x.ids(0)), int(x.ids(1)), 0)
    begin = turns + changed.pop("skipped", 0)
    emit(begin, **changed)
    assert len(arena.turns) == expected
    columns = arena.columns()
    for loop in arena.turns:
        assert all((loop.table(columns[0]) == columns[0][loop.first]).all(axis=1))
        for column, step in zip(columns[1:], loop.steps):
            assert (np.diff(loop.table(column)[1:].astype(np.int64), axis=0) == step).all()
    assert arena.origin_of(arena.turns[-1].stop - 1) == changed.get("origin", "line 1")


def test_places_are_known_of_late_turns_of_one_width() -> None:
    arena = Arena()
    first, second = products(arena, 12, 6, 2, 1), products(arena, 12, 6, 1, 1)
    assert [loop.width for loop in arena.turns] == [12, 6]
    of = TurnPlaces.of
    where = of(arena.turns, first)
    assert where is not None and (where.width, where.turn) == (12, 11)
    assert of(arena.turns, second) is not None and of(arena.turns, np.concatenate([first, second])) is None
    early = np.int32(12 * 8)
    assert of(arena.turns, first - early) is None and of(arena.turns, np.concatenate([first, first - early])) is None
    between = np.arange(arena.turns[0].stop, arena.turns[1].first, dtype=np.int32)
    assert len(between) and of(arena.turns, between) is None and of(arena.turns, between[:1] * 0 + 5) is None and of([], first) is None
