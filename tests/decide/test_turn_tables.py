"""Turns of a loop taken at once against their nodes one by one: hashes and counts of uses are the same, whatever the loop does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ptx_engine.decide import cuts
from ptx_engine.decide.shape_hash import ShapeHash
from ptx_engine.decide.turn_tables import Kind, TurnTable
from ptx_engine.terms import Arena, Op
from ptx_engine.terms.arena import CONST_CAP
from ptx_engine.terms.ops import TABLE

#: where an operand of a place comes from: this turn, the turn before, an input that steps, a node or a constant from before the loop
SOURCES = ("same", "before", "input", "node", "const", "stepping node")
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
    first, tables = arena.emit_turns(turns, ops, [threads] * len(places), [None] * len(places))
    for here, (op, operands) in enumerate(places):
        for slot in range(TABLE[op].arity):
            source, number, step = operands[slot]
            table = tables[slot][:, here * threads : (here + 1) * threads]
            turn = np.arange(turns)[:, None]
            if source == "same" and here:
                table[:] = first + turn * width + number % here * threads + numbers
            elif source == "before":
                table[:] = first + (turn - 1) * width + number % len(places) * threads + numbers
                table[0] = made[number % len(made)]
            elif source == "stepping node":
                table[:] = made[8 + number % 8] + turn * step
            elif source == "node":
                table[:] = made[number % len(made)]
            elif source == "const":
                table[:] = arena.rational(number % 5)
            else:
                table[:] = x.ids((number + 7 * numbers + step * turn).astype(np.int64))
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
