"""Bounds of what instructions leave in registers hold of what the machine computes, and are no looser than they need be where it matters."""

from __future__ import annotations

import random

import pytest
from machine_kernels import column, ints, module, out, run

from ptx_engine.machine.bounds import Bounds, between, evaluate, exactly, forget, hull
from ptx_engine.syntax import parse
from ptx_engine.syntax.ast import Instruction

SLOTS = {name: i for i, name in enumerate(("%r1", "%r2", "%r3", "%p1", "%p2", "%p3", "%p4"))}
TOP = (1 << 32) - 1


def instruction(text: str) -> Instruction:
    (entry,) = parse(module(text)).functions
    return next(i for i in entry.body or () if isinstance(i, Instruction))


def bounded(text: str, **known: Bounds) -> Bounds | None:
    """What is known of %r3 or of %p3."""
    found = evaluate(instruction(text), {SLOTS["%" + name]: value for name, value in known.items()}, lambda name: SLOTS[name])
    return found.get(SLOTS["%r3"], found.get(SLOTS["%p3"]))


OPERATIONS = [
    *(f"{op}.b32 %r3, %r1, %r2;" for op in ("and", "or", "xor")), *(f"{op}.s32 %r3, %r1, %r2;" for op in ("add", "sub")),
    *(f"{op}.{kind} %r3, %r1, %r2;" for op in ("min", "max") for kind in ("u32", "s32")), *(f"shl.b32 %r3, %r1, {by};" for by in (0, 1, 31, 32)),
    *(f"shr.{kind} %r3, %r1, {by};" for by in (1, 31, 32) for kind in ("u32", "s32", "b32")), "shl.b32 %r3, %r1, %r2;",
    "add.sat.s32 %r3, %r1, %r2;", "not.b32 %r3, %r1;", "popc.b32 %r3, %r1;", "mov.u32 %r3, %r1;", "selp.b32 %r3, %r1, %r2, %p1;",
    "cvt.u32.u8 %r3, %r1;", "cvt.s32.s8 %r3, %r1;", "cvt.s16.s32 %r3, %r1;", "cvt.sat.u8.s32 %r3, %r1;",
    *(f"setp.{how}.{kind} %p3, %r1, %r2;" for how in ("eq", "ne", "lt", "le", "gt", "ge") for kind in ("u32", "s32")),
    *(f"setp.{how}.u32 %p3, %r1, %r2;" for how in ("lo", "ls", "hi", "hs")),
    *(f"setp.lt.{join}.s32 %p3|%p4, %r1, %r2, {negated}%p1;" for join in ("and", "or", "xor") for negated in ("", "!")),
    *(f"setp.lt.{join}.s32 %p4|%p3, %r1, %r2, %p1;" for join in ("and", "or", "xor")),
    *(f"{op}.pred %p3, %p1, %p2;" for op in ("and", "or", "xor")), "not.pred %p3, %p1;",
    *(f"vote.sync.{how}.pred %p3, {negated}%p1, -1;" for how in ("all", "any", "uni") for negated in ("", "!")),
    "vote.sync.ballot.b32 %r3, %p1, -1;", *(f"redux.sync.{op}.b32 %r3, %r1, -1;" for op in ("and", "or", "xor")),
    *(f"redux.sync.{op}.{kind} %r3, %r1, -1;" for op in ("min", "max", "add") for kind in ("u32", "s32")),
    *(f"bar.red.{op}.pred %p3, 0, {negated}%p1;" for op in ("and", "or") for negated in ("", "!")), "bar.red.popc.u32 %r3, 0, %p1;",
]  # fmt: skip


@pytest.mark.parametrize("text", OPERATIONS)
def test_what_the_machine_computes_is_within_bounds(text: str) -> None:
    chance = random.Random(text)
    for _ in range(6):
        top = chance.choice([1, 3, 31, 255, TOP])
        edges = [
            sorted(chance.choice([0, 1, 2, top - 1, top, chance.randint(0, top), 0x7FFFFFFF, 0x80000000]) for _ in range(2))
            for _ in range(2)
        ]
        columns = [[chance.randint(*edge) for _ in range(32)] for edge in edges]
        votes = [[chance.randint(*sorted((chance.randint(0, 1), chance.randint(0, 1)))) for _ in range(32)] for _ in range(2)]
        result = "selp.u32 %r3, 1, 0, %p3;\n" if "%p3" in text else ""
        load = "".join(f"ld.global.u32 %r{i + 10}, [%d1+{128 * i}];\n" for i in range(4))
        body = (
            "ld.param.u64 %d0, [out]; ld.param.u64 %d1, [in]; mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 4; add.u64 %d0, %d0, %d2;\n"
            "add.u64 %d1, %d1, %d2;\n" + load + "mov.u32 %r1, %r10; mov.u32 %r2, %r11; setp.ne.u32 %p1, %r12, 0; setp.ne.u32 %p2, %r13, 0;\n"
            + text + "\n" + result + "st.global.u32 [%d0], %r3;"
        )  # fmt: skip
        inputs = [v - (1 << 32) if v >> 31 else v for c in columns + votes for v in c]
        execution, arena = run(module(body, ("u64 out", "u64 in")), [out(32), ints("in", inputs)])
        for lane, value in enumerate(column(execution, arena)):
            known = {f"r{i + 1}": between(*edges[i]) for i in range(2)}
            if chance.random() < 0.5:
                known |= {f"p{i + 1}": exactly(votes[i][lane]) for i in range(2)}
            found = bounded(text, **known)
            if found is not None and "%r3" in text:  # as its 32 bits are read
                found = bounded("mov.b32 %r3, %r1;", r1=found)
            bits = value & TOP
            assert found is None or (found.low <= bits <= found.high and bits & ~found.may == 0), (known, found, bits)


@pytest.mark.parametrize(
    ("text", "known", "value"),
    [
        ("and.b32 %r3, %r1, 3;", {}, between(0, 3)), ("or.b32 %r3, %r1, 4;", {"r1": between(0, 1)}, Bounds(4, 5, 5)),
        ("add.u32 %r3, %r1, %r2;", {"r1": exactly(0), "r2": between(0, 1)}, between(0, 1)), ("add.u32 %r3, %r1, -1;", {"r1": between(1, 2)}, between(0, 1)),
        ("shl.b32 %r3, %r1, 4;", {"r1": between(0, 1)}, Bounds(0, 16, 16)), ("shr.u32 %r3, %r1, 4;", {"r1": Bounds(0, 16, 16)}, Bounds(0, 1, 1)),
        ("min.s32 %r3, %r1, %r2;", {"r1": exactly(0), "r2": between(0, 1)}, exactly(0)), ("min.s32 %r3, %r1, %r2;", {"r1": exactly(0)}, None),
        ("selp.b32 %r3, 2, 0, %p1;", {}, Bounds(0, 2, 2)), ("popc.b32 %r3, %r1;", {"r1": between(0, TOP - 1)}, between(0, 31)),
        ("popc.b32 %r3, %r1;", {"r1": between(0, 4)}, between(0, 2)),
        ("setp.eq.u32 %p3, %r1, 2;", {"r1": between(0, 1)}, exactly(0)), ("setp.lt.s32 %p3, %r1, 1;", {"r1": exactly(TOP)}, exactly(1)),
        ("setp.lt.u32 %p3, %r1, 1;", {"r1": exactly(TOP)}, exactly(0)), ("setp.lt.s32 %p3, %r1, 1;", {"r1": between(0, TOP)}, None),
        ("setp.eq.u32 %p3, %r1, 4;", {"r1": Bounds(0, 9, 9)}, exactly(0)), ("vote.sync.all.pred %p3, %p1, -1;", {"p1": exactly(1)}, None),
        ("vote.sync.ballot.b32 %r3, %p1, 0xff;", {"p1": exactly(0)}, Bounds(0, 0xFE, 0xFF)), ("mov.b32 %r3, %r1;", {}, None),
    ],
)  # fmt: skip
def test_bounds_that_waits_need(text: str, known: dict[str, Bounds], value: Bounds | None) -> None:
    assert bounded(text, **known) == value


def test_a_ballot_is_unlike_its_mask_until_that_is_written() -> None:
    ballot = bounded("vote.sync.ballot.b32 %r3, %p1, %r2;", p1=exactly(0))
    assert ballot is not None and ballot.unlike == SLOTS["%r2"]
    assert bounded("setp.eq.b32 %p3, %r1, %r2;", r1=ballot) == exactly(0) and bounded("setp.ne.b32 %p3, %r2, %r1;", r1=ballot) == exactly(1)
    known = {SLOTS["%r1"]: ballot, SLOTS["%p1"]: exactly(1)}
    forget(known, {SLOTS["%r2"]})
    assert known == {SLOTS["%p1"]: exactly(1)}
    assert bounded("vote.sync.ballot.b32 %r3, %p1, %r2;", p1=exactly(1)) == Bounds(1, TOP, TOP)


def test_what_holds_of_two_bounds() -> None:
    assert hull(exactly(4), exactly(1)) == Bounds(1, 4, 5) and hull(Bounds(0, 1, 1, 7), exactly(1)).unlike == -1
