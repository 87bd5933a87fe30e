"""Many turns of a loop at once against the same loop turn by turn: the same terms in the same order, findings, counts and errors."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from fused_programs import BLOCKS, arguments
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from machine_kernels import column, module, out, run
from test_fusion import AT_ONCE, BUDGET, NEVER, outcome

from ptx_engine.errors import PtxError
from ptx_engine.isa.simple import Integers
from ptx_engine.launch import Launch, bind
from ptx_engine.machine import Budget, execute, fused_turns, fusion
from ptx_engine.machine.turn_values import Comparison, Irregular, Linear, added, scaled, turns_taken, turns_within, widened
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena

EXAMPLES = 12

HEAD = """
.version 8.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u64 out, .param .u32 n, .param .u64 z)
{
.reg .pred %p<4>; .reg .b32 %r<12>; .reg .f32 %f<10>; .reg .b64 %d<12>;
ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; ld.param.u64 %d7, [out]; ld.param.u32 %r9, [n]; mov.u32 %r0, %tid.x;
mul.wide.u32 %d3, %r0, 4; add.s64 %d0, %d1, %d3; add.s64 %d7, %d7, %d3; mul.wide.u32 %d8, %r0, 8; add.s64 %d8, %d1, %d8;
add.s64 %d9, %d1, 1020; mov.u64 %d4, 4; mov.u64 %d5, 7; ld.global.f32 %f0, [%d0]; ld.global.f32 %f1, [%d2]; mov.f32 %f2, 0f00000000;
mul.f32 %f3, %f0, %f1; mov.f32 %f4, %f1; mov.f32 %f5, %f0; mov.f32 %f6, %f3; mov.f32 %f7, %f0;
"""
TAIL = """
st.global.f32 [%d7], %f0; st.global.f32 [%d7+512], %f4; add.f32 %f5, %f5, %f2; st.global.f32 [%d7+1024], %f5;
add.f32 %f6, %f6, %f7; st.global.f32 [%d7+1536], %f6; cvt.rn.f32.u32 %f8, %r3; st.global.f32 [%d7+2048], %f8; cvt.u32.u64 %r4, %d5;
add.u32 %r4, %r4, %r1; cvt.rn.f32.u32 %f8, %r4; st.global.f32 [%d7+2560], %f8; ret;
}
"""
_F = [f"%f{i}" for i in range(8)]
_CONSTANTS = ["0f40000000", "0f3F800000", "0f00000000", "0fFF800000"]


def _statement(r: random.Random) -> str:
    """Something that may stand in a loop of this kind, or nearly."""
    f, g, h = r.choice(_F), r.choice(_F), r.choice(_F + _CONSTANTS)
    dst, offset = r.choice(_F), 4 * r.randint(-1, 3)
    rows = [
        (5, f"fma.rn.f32 {dst}, {f}, {g}, {h};"), (3, f"{r.choice(('add', 'mul', 'max', 'sub'))}.f32 {dst}, {f}, {h};"),
        (1, f"{r.choice(('ex2.approx', 'neg', 'sqrt.rn'))}.f32 {dst}, {f};"), (1, f"mov.f32 {dst}, {g};"),
        (4, f"ld.global.f32 {dst}, [%d0+{offset}];"), (3, f"ld.global.f32 {dst}, [%d2+{offset}];"),
        (2, f"ld.global.f32 {dst}, [%d9+{-abs(offset)}];"), (1, f"ld.global.v2.f32 {{{r.choice(_F[:4])}, {r.choice(_F[4:])}}}, [%d8];"),
        (2, f"add.s64 %d0, %d0, {r.choice((4, 8, '%d4', 2))};"), (2, "add.s64 %d2, %d2, 4;"), (1, f"add.s64 %d8, %d8, {r.choice((8, 16, 4))};"),
        (1, "sub.s64 %d9, %d9, 4;"), (1, f"add.u32 %r3, %r3, {r.choice((1, 3, '%r9', '0xFFFFFFFF', '%r0'))};"),
        (1, f"mul.lo.u32 %r5, %r3, {r.choice((4, 12))};"), (1, f"mad.lo.u32 %r5, %r3, 4, {r.choice(('%r0', '%r3'))};"),
        (1, f"shl.b32 %r6, {r.choice(('%r3', '%r1'))}, 2;"), (1, "cvt.u64.u32 %d5, %r3;"), (1, "cvt.s64.s32 %d5, %r3;"),
        (2, f"mul.wide.{r.choice('us')}32 %d5, {r.choice(('%r3', '%r1'))}, 4;\\nadd.s64 %d6, %d1, %d5;\\nld.global.f32 {dst}, [%d6];"),
        (1, f"mad.wide.s32 %d6, %r1, 4, %d1;\\nld.global.f32 {dst}, [%d6+{offset}];"), (1, "and.b32 %r5, %r3, 7;"),
    ]  # fmt: skip
    return r.choices([text for _, text in rows], [weight for weight, _ in rows])[0]


def regular(r: random.Random, length: int) -> str:
    """A kernel of one or two loops that mostly are regular."""
    lines: list[str] = []
    for number in range(r.randint(1, 2)):
        body = [_statement(r) for _ in range(r.randint(1, length))]
        step, first, last = r.choice(((1, 0, 9), (1, 0, 30), (3, 1, 31), (-2, 40, 0), (1, 0xFFFFFFF0, 5)))
        compare = {1: "ne.u32", 3: "lt.s32", -2: "gt.s32"}[step]
        branch = f"@%p1 bra LOOP{number};" if r.random() < 0.7 else f"not.pred %p1, %p1;\n@!%p1 bra LOOP{number};"
        if "not" in branch and r.random() < 0.8:
            compare, branch = {"ne.u32": "eq.u32", "lt.s32": "ge.s32", "gt.s32": "le.s32"}[compare], f"@!%p1 bra LOOP{number};"
        scratch = r.choice((0, 0, 0, 3, 0xFFFFFFFA, 0x7FFFFFF9))
        lines += [f"mov.u32 %r1, {first};", f"mov.u32 %r3, {scratch};", f"LOOP{number}:", *body, f"add.s32 %r1, %r1, {step};"]
        lines += [f"setp.{compare} %p1, %r1, {last if step != 3 else first + 3 * r.randint(1, 12)};", branch]
    return HEAD + "\n".join(lines).replace("\\n", "\n") + TAIL


@pytest.mark.parametrize("block", BLOCKS)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_turns_at_once_and_one_by_one_are_the_same(block: int, seed: int) -> None:
    text = regular(random.Random(seed), 6)
    assert outcome(text, block, AT_ONCE) == outcome(text, block, NEVER)


def test_the_programs_have_turns_that_run_at_once() -> None:
    """Twin of the property: it would hold for loops that nothing runs at once, too."""
    ran = [0]
    real = fused_turns.run_turns

    def counted(*args: object) -> int:
        turns = real(*args)  # type: ignore[arg-type]
        ran[0] += turns > 0
        return turns

    with mock.patch.object(fusion, "run_turns", counted):
        for seed in range(30):
            outcome(regular(random.Random(seed), 6), BLOCKS[seed % 3], AT_ONCE)
    assert ran[0] > 8


def test_operands_move_by_a_step_from_the_second_turn_on() -> None:
    found = 0
    for seed in range(30):
        arena, text = Arena(), regular(random.Random(seed), 6)
        bound = bind(Launch((1, 1, 1), (BLOCKS[seed % 3], 1, 1), arguments()), arena)
        with contextlib.suppress(PtxError):
            execute(parse(text), None, bound, source=text, budget=replace(BUDGET, fuse_after=AT_ONCE))
        for turns in arena.turns:
            found += 1
            for operands, step in zip(arena.columns()[1:], turns.steps):
                assert (np.diff(turns.table(operands)[1:].astype(np.int64), axis=0) == step).all()
    assert found > 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1500))
def test_turns_at_once_and_one_by_one_are_the_same_for_long_loops(seed: int) -> None:
    text = regular(random.Random(seed), 12)
    assert outcome(text, BLOCKS[seed % 3], AT_ONCE) == outcome(text, BLOCKS[seed % 3], NEVER)


def loop(body: str, turns: int = 20) -> str:
    """A loop of the random programs' frame."""
    return (
        HEAD
        + f"mov.u32 %r1, 0;\nmov.u32 %r3, 0;\nLOOP:\n{body}\nadd.s32 %r1, %r1, 1;\nsetp.lt.s32 %p1, %r1, {turns};\n@%p1 bra LOOP;"
        + TAIL
    )


SUM = "ld.global.f32 %f2, [%d0];\nfma.rn.f32 %f5, %f2, %f1, %f5;\nadd.s64 %d0, %d0, 4;"
#: runs out of the input in turn 250, 243 or 187, which is a finding there
BEYOND = "ld.global.f32 %f2, [%d0];\nadd.f32 %f5, %f2, %f5;\nadd.s64 %d0, %d0, 4;"
#: the offset wraps as a signed 32-bit number in turn 8
WRAPS = "mad.wide.s32 %d6, %r3, 4, %d1;\nld.global.f32 %f2, [%d6];\nadd.f32 %f5, %f2, %f5;\nadd.u32 %r3, %r3, 0x10000001;"

#: as CUDA's expf makes a power of two: a sum with so large a literal that it is rounded to an integer, and its low bits as an exponent
POWER = (
    "cvt.sat.f32.f32 %f2, %f1;\nfma.rm.f32 %f3, %f2, 0f437C0000, 0f4B400001;\nmov.b32 %r4, %f3;\nshl.b32 %r4, %r4, 23;\nmov.b32 %f3, %r4;\n"
    "fma.rn.f32 %f5, %f3, %f1, %f5;"
)
#: rounded to an even integer
ROUNDED = "cvt.sat.f32.f32 %f2, %f1;\nadd.rn.f32 %f3, %f2, 0f4B400000;\nfma.rn.f32 %f5, %f3, %f1, %f5;"


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("body, turns", [(SUM, 20), (BEYOND, 260), (WRAPS, 12), (POWER, 40), (ROUNDED, 40)])
def test_what_ends_a_regular_stretch_ends_it_there(block: int, body: str, turns: int) -> None:
    assert outcome(loop(body, turns), block, AT_ONCE) == outcome(loop(body, turns), block, NEVER)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(
    "broken, body, turns", [("turns_within", BEYOND, 260), ("added", SUM, 20), ("added", BEYOND, 260), ("turns_taken", SUM, 20)]
)
def test_a_wrong_rule_would_be_seen(block: int, broken: str, body: str, turns: int) -> None:
    """One turn too many, or a step that is one too long."""
    wrong = {
        "turns_within": lambda *args: 1 << 62,
        "added": lambda a, b, sign=1: Linear(added(a, b, sign).start, a.step + sign * b.step + (4 if a.bits == 64 else 0), a.bits),
        "turns_taken": lambda condition, negated, most: min(most, turns_taken(condition, negated, most) + 1),
    }
    with mock.patch.object(fused_turns, broken, wrong[broken]):
        assert outcome(loop(body, turns), block, AT_ONCE) != outcome(loop(body, turns), block, NEVER)


@given(start=st.integers(0, 2**16 - 1), step=st.integers(-(2**15), 2**15 - 1), signed=st.booleans())
def test_widening_is_exact_in_the_turns_that_it_says(start: int, step: int, signed: bool) -> None:
    for of in (start, np.array([start, start ^ 1], np.uint16)):
        value = Linear(of, step, 16)
        wide, turns = widened(value, signed)
        for turn in range(min(turns, 20)):
            low, high = (np.atleast_1d(x.at(turn)) for x in (value, wide))
            number = low.astype(np.int64) - ((low >> 15).astype(np.int64) << 16 if signed else 0)
            assert (high.astype(np.int64) == number % 2**32).all()


@given(low=st.integers(-5, 105), extent=st.integers(0, 20), step=st.integers(-9, 9))
def test_turns_within_are_all_there_are(low: int, extent: int, step: int) -> None:
    good = [low + t * step >= 0 and low + extent + t * step <= 100 for t in range(300)]
    try:
        turns = turns_within(low, low + extent, step, 100)
    except Irregular:
        assert not good[0]
        return
    assert all(good[: min(turns, 300)]) and (turns >= 300 or not good[turns])


@given(
    start=st.integers(0, 2**32 - 1), step=st.sampled_from((1, 2, -1, -3, 2**31 - 1, 2**30)), bound=st.integers(0, 2**32 - 1),
    name=st.sampled_from(("eq", "ne", "lt", "le", "gt", "ge")), signed=st.booleans(), negated=st.booleans(),
)  # fmt: skip
def test_a_branch_is_taken_in_as_many_turns_as_counting_says(
    start: int, step: int, bound: int, name: str, signed: bool, negated: bool
) -> None:
    def number(x: int) -> int:
        x %= 1 << 32
        return x - (1 << 32) if signed and x >> 31 else x

    holds = {"eq": int.__eq__, "ne": int.__ne__, "lt": int.__lt__, "le": int.__le__, "gt": int.__gt__, "ge": int.__ge__}[name]
    taken = 0
    while taken < 50 and holds(number(start + taken * step), number(bound)) is not negated:
        taken += 1
    condition = Comparison(Integers(f"setp.{name}", 0, (1, 2), 32, signed), Linear(start, step, 32), Linear(bound, 0, 32))
    assert turns_taken(condition, negated, 50) == taken


@given(
    a=st.integers(0, 2**32 - 1), b=st.integers(0, 2**32 - 1), step=st.integers(-(2**31), 2**31 - 1), other=st.integers(-(2**31), 2**31 - 1)
)
def test_sums_and_products_are_modular_in_all_turns(a: int, b: int, step: int, other: int) -> None:
    for of in (a, np.array([a, a ^ 3], np.uint32)):
        first = Linear(of, step, 32)
        for turn in range(4):
            plus, minus, times = added(first, Linear(b, other, 32)), added(first, Linear(b, other, 32), -1), scaled(first, Linear(b, 0, 32))
            at, beside = np.atleast_1d(first.at(turn)).astype(np.uint64), np.uint64((b + turn * other) % 2**32)
            assert (np.atleast_1d(plus.at(turn)) == (at + beside) % 2**32).all()
            assert (np.atleast_1d(minus.at(turn)) == (at + np.uint64(2**32) - beside) % 2**32).all()
            assert (np.atleast_1d(times.at(turn)) == at * np.uint64(b) % np.uint64(2**32)).all()


def test_a_long_loop_is_cut_where_the_machine_looks_at_its_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    text = module("mov.u32 %r1, 0;\nL:\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 1000;\n@%p1 bra L;\nld.param.u64 %d1, [out];\n"
                  "st.global.u32 [%d1], %r1;\n")  # fmt: skip
    monkeypatch.setattr(fused_turns, "MOST_TURNS", 100)
    done, arena = run(text, [out(4)], block=1, budget=Budget(fuse_after=AT_ONCE))
    assert column(done, arena) == [1000] and done.instructions == 1 + 3 * 1000 + 3
