"""Fused blocks against the closures that they stand for: the same terms in the same order, findings, counts and errors."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from fused_programs import BLOCKS, HEAD, TAIL, arguments, program, programs
from hypothesis import HealthCheck, given, settings
from machine_kernels import column, module, out, run

from ptx_engine import emulate
from ptx_engine.errors import BudgetError, PtxError
from ptx_engine.isa.group import Group
from ptx_engine.isa.simple import Integers
from ptx_engine.launch import Launch, bind
from ptx_engine.machine import Budget, execute, fused_accesses
from ptx_engine.machine import fusion as fusion_module
from ptx_engine.machine.fused_integers import Operand, expression
from ptx_engine.machine.fused_kinds import COLUMNS, INT
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena
from ptx_engine.terms.arena import CONST_CAP

NEVER, AT_ONCE, SOON = None, -1000, 0
EXAMPLES = 15
BUDGET = Budget(seconds=60.0)


def outcome(text: str, block: int, fuse_after: int | None) -> object:
    """Everything that an execution gives: terms, who emitted them, what was written, findings, counts; or the error and what was found.

    How often something was found before an error depends on how far the other groups had come: on the schedule that was run."""
    arena = Arena()
    bound = bind(Launch((2, 1, 1) if block > 1 else (1, 1, 1), (block, 1, 1), arguments()), arena)
    try:
        done = execute(parse(text), None, bound, source=text, budget=replace(BUDGET, fuse_after=fuse_after))
    except PtxError as error:
        return type(error), error.render(), [replace(finding, count=0) for finding in error.findings]
    columns = [column.tolist() for column in arena.columns()]
    origins = [getattr(arena.origin_of(ident), "instruction", None) for ident in range(CONST_CAP, len(arena))]
    written = {name: (f.index.tolist(), f.ids.tolist()) for name, f in done.footprints.items()}
    return columns, origins, arena.emissions, written, done.findings, done.instructions, list(arena.assumptions), done.schedule_dependent


@pytest.mark.parametrize("block", BLOCKS)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=programs())
def test_fused_and_not_is_the_same(block: int, text: str) -> None:
    expected = outcome(text, block, NEVER)
    assert outcome(text, block, AT_ONCE) == expected
    assert outcome(text, block, SOON) == expected


def test_the_order_checker_hears_of_a_load_once() -> None:
    """Loads around one register, of which a load through another gives way to closures: these repeat those that come after it."""
    text = program(random.Random(8358166), 8)
    assert outcome(text, 64, AT_ONCE) == outcome(text, 64, NEVER)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1500))
def test_fused_and_not_is_the_same_for_long_programs(seed: int) -> None:
    text = program(random.Random(seed), 14)
    block = BLOCKS[seed % len(BLOCKS)]
    assert outcome(text, block, AT_ONCE) == outcome(text, block, NEVER)


#: twin of the property: code that is wrong in one place differs in an outcome that it looks at
LOOP = "mov.u32 %r1, 0;\nL:\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 100;\n@%p1 bra L;\nld.param.u64 %d1, [out];\nst.global.u32 [%d1], %r1;\n"


def test_a_wrong_template_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def off_by_one(form: Integers, operands: list[Operand]) -> object:
        found = expression(form, operands)
        return (f"({found[0]}) + 1", found[1]) if found is not None and form.name == "mul" else found

    text = module(LOOP.replace("add.u32 %r1", "mul.lo.u32 %r2, %r1, %r1;\nadd.u32 %r1").replace("], %r1", "], %r2"))
    for fuse_after in (NEVER, AT_ONCE):
        assert column(*run(text, [out(4)], block=1, budget=Budget(fuse_after=fuse_after))) == [99 * 99]
    monkeypatch.setattr("ptx_engine.machine.fused_code.expression", off_by_one)
    assert column(*run(text, [out(4)], block=1, budget=Budget(fuse_after=AT_ONCE))) == [99 * 99 + 1]


def test_a_hot_loop_is_fused_and_a_cold_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    real = fusion_module.fused
    monkeypatch.setattr(fusion_module, "fused", lambda block, *rest: made.append(block.start) or real(block, *rest))
    text = module(LOOP.replace("add.u32 %r1", "xor.b32 %r2, %r1, 1;\nadd.u32 %r1"))
    run(text, [out(4)], block=1)
    assert made == [1]
    made.clear()
    run(text.replace("100", "3"), [out(4)], block=1)
    assert made == []


@pytest.mark.parametrize("limit", [8, 100, 301, 302, 303])
def test_the_budget_ends_a_fused_loop_at_the_same_instruction(limit: int) -> None:
    text = module(LOOP)
    results = []
    for fuse_after in (NEVER, AT_ONCE):
        try:
            results.append(run(text, [out(4)], block=1, budget=Budget(thread_instructions=limit, fuse_after=fuse_after))[0].instructions)
        except BudgetError as error:
            results.append(error.message)
    assert results[0] == results[1]


def test_an_endless_loop_runs_out_of_budget() -> None:
    text = module("mov.u32 %r1, 0;\nL:\nadd.u32 %r1, %r1, 1;\nbra L;\n")
    with pytest.raises(BudgetError, match="thread-instructions"):
        run(text, [out(4)], block=1, budget=Budget(thread_instructions=100_000))
    with pytest.raises(BudgetError, match="took more"):
        run(text, [out(4)], block=1, budget=Budget(seconds=0.2))


def test_terms_run_out_in_a_fused_loop() -> None:
    body = (
        "ld.param.u64 %d1, [x];\nld.global.f32 %f1, [%d1];\nmov.u32 %r1, 0;\nL:\nmul.f32 %f1, %f1, %f1;\nadd.u32 %r1, %r1, 1;\n"
        "setp.lt.u32 %p1, %r1, 300000;\n@%p1 bra L;\n"
    )
    text = module(body, ("u64 x",))
    arena = Arena(max_terms=1 << 17)
    bound = bind(Launch((1, 1, 1), (1, 1, 1), arguments()[:1]), arena)
    with pytest.raises(BudgetError, match="terms"):
        execute(parse(text), None, bound)


def test_the_concrete_mode_fuses_integers() -> None:
    """A linear congruential generator against Python's own integers."""
    body = (
        "ld.param.u64 %d1, [out];\nmov.u32 %r2, 12345;\nmov.u32 %r1, 0;\nL:\nmad.lo.u32 %r2, %r2, 1664525, 1013904223;\n"
        "shr.s32 %r3, %r2, 7;\nxor.b32 %r2, %r2, %r3;\nadd.u32 %r1, %r1, 1;\nsetp.lt.s32 %p1, %r1, 1000;\n@%p1 bra L;\n"
        "st.global.u32 [%d1], %r2;\n"
    )
    got = np.zeros(1, np.uint32)
    emulate(module(body), None, 1, 1, [got])
    value = 12345
    for _ in range(1000):
        value = (value * 1664525 + 1013904223) & 0xFFFFFFFF
        value ^= (value - (1 << 32) if value >> 31 else value) >> 7 & 0xFFFFFFFF
    assert int(got[0]) == value


SIGNED = {"shr.s", "min", "max", "setp.lt", "setp.ge", "mul.wide", "mad.wide"}
#: name -> what the ISA says, on Python integers; ``s`` reads two's complement
MEANING = {
    "add": lambda a, b, s: a + b, "sub": lambda a, b, s: a - b, "mul": lambda a, b, s: a * b, "and": lambda a, b, s: a & b,
    "or": lambda a, b, s: a | b, "xor": lambda a, b, s: a ^ b, "shl": lambda a, b, s: a << b if b < 32 else 0,
    "shr": lambda a, b, s: a >> b, "shr.s": lambda a, b, s: s(a) >> min(b, 32), "min": lambda a, b, s: min(s(a), s(b)),
    "max": lambda a, b, s: max(s(a), s(b)), "setp.lt": lambda a, b, s: s(a) < s(b), "setp.ge": lambda a, b, s: s(a) >= s(b),
    "setp.eq": lambda a, b, s: a == b, "mul.wide": lambda a, b, s: s(a) * s(b), "div": lambda a, b, s: a // b, "rem": lambda a, b, s: a % b,
}  # fmt: skip
EDGES = [0, 1, 2, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF]


@pytest.mark.parametrize("literal", [False, True])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("name", MEANING)
def test_expressions_compute_what_the_isa_says(name: str, signed: bool, literal: bool) -> None:
    signed = signed or name == "shr.s"
    if signed and name not in SIGNED:
        return
    read = (lambda v: v - (1 << 32) if v >> 31 else v) if signed else (lambda v: v)
    wide = (1 << 64) - 1 if name == "mul.wide" else (1 << 32) - 1
    for b in EDGES:
        form = Integers(name, 0, (1, 2), 32, signed)
        right = Operand(str(b), INT, b) if literal else Operand("b", INT)
        found = expression(form, [Operand("a", INT), right])
        if found is None:
            assert name in ("div", "rem") and (b == 0 or not literal)
            continue
        code = _function(found[0])
        for a in EDGES:
            expected = MEANING[name](a, b, read)
            got = code(a, b)
            assert got == (expected if isinstance(expected, bool) else expected & wide), (name, a, b)
        columns = expression(form, [Operand("a", COLUMNS[32]), right])
        if columns is not None:
            code = _function(columns[0])
            got = code(np.array(EDGES, np.uint32), b)
            expected = [MEANING[name](a, b, read) for a in EDGES]
            assert got.tolist() == [e if isinstance(e, bool) else e & wide for e in expected], (name, b)


def _function(text: str) -> Callable[..., object]:
    """An expression as a function of its operands, as fused code has it."""
    names: dict[str, Callable[..., object]] = {}
    exec(f"def run(a, b):\n    return {text}", names)  # type: ignore[arg-type]
    return names["run"]


#: what is loaded around one register, as elements and as vectors, and columns that do not use each other
TOGETHER = """LOOP0:
ld.shared.v2.f32 {%f0, %f1}, [%r11]; ld.shared.f32 %f2, [%r11+4]; ld.global.v2.f32 {%f3, %f4}, [%d8]; ld.global.f32 %f5, [%d8+12];
fma.rn.f32 %f0, %f0, %f3, %f2; fma.rn.f32 %f2, %f1, %f4, %f2; fma.rn.f32 %f1, %f0, %f5, %f1; st.shared.f32 [%r11], %f1;
ld.shared.f32 %f4, [%r11]; ld.shared.f32 %f3, [%r11+4]; add.f32 %f0, %f0, %f4; add.f32 %f4, %f2, %f3;
add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 9; @%p1 bra LOOP0;
"""


class Turned(fused_accesses.SharedRows):
    """Registers get each other's elements."""

    def __call__(self, g: Group, base: np.ndarray) -> np.ndarray | None:
        found = super().__call__(g, base)
        return found if found is None else found[::-1]


@pytest.mark.parametrize("loader", ["SharedRows", "input_rows"])
def test_loads_around_one_register_go_together(monkeypatch: pytest.MonkeyPatch, loader: str) -> None:
    text, made = HEAD + "mov.u32 %r1, 0;\n" + TOGETHER + TAIL, []
    expected = outcome(text, 8, NEVER)
    real = getattr(fused_accesses, loader)

    class Watched(fused_accesses.SharedRows):
        def __init__(self, *args: object) -> None:
            made.append(args[-1])
            super().__init__(*args)  # type: ignore[arg-type]

    shared = loader == "SharedRows"
    watched = Watched if shared else lambda *args: made.append(args[-1]) or real(*args)  # type: ignore[func-returns-value]
    monkeypatch.setattr(fused_accesses, loader, watched)
    assert outcome(text, 8, AT_ONCE) == expected
    assert made and all(sum(access.count for access in batch) >= 2 for batch in made)
    monkeypatch.setattr(fused_accesses, loader, Turned if shared else lambda *args: lambda g, base: real(*args)(g, base)[::-1])
    assert outcome(text, 8, AT_ONCE) != expected  # twin: registers that get each other's elements are seen
