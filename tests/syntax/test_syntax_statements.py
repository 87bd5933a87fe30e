"""Statements and operands: each form against the tree that the ISA's grammar gives it."""

from __future__ import annotations

import pytest
from syntax_cases import body_of, instruction, module_of, operand

from ptx_engine.errors import Span
from ptx_engine.syntax.ast import (
    Args,
    Block,
    Directive,
    FloatLit,
    Instruction,
    IntLit,
    Label,
    Mem,
    Name,
    NameOffset,
    Not,
    Pair,
    Reg,
    RegDecl,
    Subscript,
    Vec,
)

R1, R2 = Reg("%r1"), Reg("%r2")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%r1", R1),
        ("%tid.x", Name("%tid.x")),
        ("%laneid", Name("%laneid")),
        ("%laneids", Reg("%laneids")),
        ("%envreg31", Name("%envreg31")),
        ("%envreg32", Reg("%envreg32")),
        ("_", Name("_")),
        ("$L__BB0_4", Name("$L__BB0_4")),
        ("WARP_SZ", IntLit(32)),
        ("-1", IntLit(-1)),
        ("0x10", IntLit(16)),
        ("0f3F800000", FloatLit(0x3F800000, 32)),
        ("0dBFF0000000000000", FloatLit(0xBFF0000000000000, 64)),
        ("1.5", FloatLit(0x3FF8000000000000, 64)),
        ("{%r1, %r2}", Vec((R1, R2))),
        ("{ %r1, _, 3 }", Vec((R1, Name("_"), IntLit(3)))),
        ("[%r1]", Mem(R1)),
        ("[%r1+8]", Mem(R1, 8)),
        ("[%r1+-8]", Mem(R1, -8)),
        ("[%r1-8]", Mem(R1, -8)),
        ("[ %r1 + 0 ]", Mem(R1)),
        ("[%r1+0x10]", Mem(R1, 16)),
        ("[%r1 + 4*3 - 2]", Mem(R1, 10)),
        ("[param_0]", Mem(Name("param_0"))),
        ("[table+4]", Mem(Name("table"), 4)),
        ("[16]", Mem(IntLit(16))),
        ("[%r1, {%r2, %r2}]", Mem(R1, extra=(Vec((R2, R2)),))),
        ("%p1|%p2", Pair(Reg("%p1"), Reg("%p2"))),
        ("_|%p2", Pair(Name("_"), Reg("%p2"))),
        ("!%p1", Not(Reg("%p1"))),
        ("!0", IntLit(1)),
        ("table+16", NameOffset("table", 16)),
        ("table+-4", NameOffset("table", -4)),
        ("table[3]", Subscript("table", None, 3)),
        ("table[%r1+2]", Subscript("table", R1, 2)),
    ],
)
def test_operand(text: str, expected: object) -> None:
    assert operand(text) == expected


@pytest.mark.parametrize("blank", ["", " ", "\t", "\n", " /* note */ ", " // note\n"])
def test_blanks_and_comments_change_nothing(blank: str) -> None:
    tokens = ["mma", ".sync.m16n8k16", "{", "%r1", ",", "%r2", "}", ",", "[", "%r1", "+", "4", "]", ";"]
    text = "mma.sync.m16n8k16" + blank + blank.join(tokens[2:])
    assert instruction(text) == instruction("mma.sync.m16n8k16 {%r1, %r2}, [%r1+4];")


def test_mnemonics_keep_qualifiers_in_one_piece() -> None:
    found = instruction("ld.global.nc.L1::no_allocate.L2::128B.v4.f32 {%r1, %r1, %r1, %r1}, [%r2];")
    assert (found.opcode, found.modifiers) == ("ld", ("global", "nc", "L1::no_allocate", "L2::128B", "v4", "f32"))
    assert found.mnemonic == "ld.global.nc.L1::no_allocate.L2::128B.v4.f32"
    assert instruction("tcgen05.wait::ld.sync.aligned;").modifiers == ("wait::ld", "sync", "aligned")
    assert instruction("tcgen05.ld.sync.aligned.32x32b.x1.b32{%r1}, [%r2];").operands == (Vec((R1,)), Mem(R2))
    assert instruction("add .s32 %r1, %r2, 1;") == instruction("add.s32 %r1, %r2, 1;")


def test_guards() -> None:
    assert instruction("@%p1 bra L;") == Instruction("bra", (), (Name("L"),), Reg("%p1"), False)
    assert instruction("@!%p1 bra L;") == Instruction("bra", (), (Name("L"),), Reg("%p1"), True)
    assert instruction("@ ! done bra L;") == Instruction("bra", (), (Name("L"),), Reg("done"), True)


def test_calls() -> None:
    found = instruction("call.uni (retval0),\n\tvprintf,\n\t(\n\tparam0,\n\tparam1\n\t);")
    assert found.operands == (Args((Name("retval0"),)), Name("vprintf"), Args((Name("param0"), Name("param1"))))
    assert instruction("call f;").operands == (Name("f"),)
    assert instruction("call (%r1), %rd1, (), proto;").operands == (Args((R1,)), Reg("%rd1"), Args(()), Name("proto"))


def test_parentheses_are_arguments_in_calls_only() -> None:
    assert instruction("mov.u32 %r1, (3 + 4) * 2;").operands == (R1, IntLit(14))


def test_several_statements_on_a_line() -> None:
    found = body_of("a: b: .reg .b32 x; mov.b32 x, 1; { ret; } ret;")
    assert [type(s) for s in found] == [Label, Label, RegDecl, Instruction, Block, Instruction]


def test_register_declarations() -> None:
    found = body_of(".reg .b32 %r<5>, %q<3>, a, b; .reg .pred p; .reg .v4 .f32 v;")
    assert found == (
        RegDecl("b32", ("%r",), 5),
        RegDecl("b32", ("%q",), 3),
        RegDecl("b32", ("a", "b")),
        RegDecl("pred", ("p",)),
        RegDecl("f32", ("v",), vector=4),
    )


def test_nested_scopes_stay_nested() -> None:
    (outer,) = body_of("{ ret; { { exit; } } }")
    inner = Block((Block((Instruction("exit", (), ()),)),))
    assert outer == Block((Instruction("ret", (), ()), inner))


def test_named_directives() -> None:
    found = body_of("t: .branchtargets A, B; c: .calltargets f; q: .callprototype (.param .b32 _) _ (.param .b64 _);")
    assert [(d.name, d.arguments) for d in found if isinstance(d, Directive)] == [
        ("branchtargets", ("t", "A", "B")),
        ("calltargets", ("c", "f")),
        ("callprototype", ("q", "( .param .b32 _ ) _ ( .param .b64 _ )")),
    ]
    assert body_of('.pragma "nounroll", "x";') == (Directive("pragma", ("nounroll", "x")),)


def test_spans_count_from_one() -> None:
    text = "@%p1 add.s32 %r1, %r2, 1;"
    module = module_of(f"\t{text}   ret;\n\r\n exit;")
    line = next(i for i, shown in enumerate(module.source.split("\n"), 1) if text in shown)
    first, second, third = (s.span for s in module.functions[0].body or ())
    assert first == Span(line, 2, 2 + len(text), "<ptx>")
    assert second == Span(line, 5 + len(text), 9 + len(text), "<ptx>")
    assert third == Span(line + 2, 2, 7, "<ptx>")


def test_equal_operands_are_one_object() -> None:
    first, second = body_of("mov.b32 %r1, %r2; mov.b32 %r2,%r1;")
    assert isinstance(first, Instruction)
    assert isinstance(second, Instruction)
    assert first.operands[0] is second.operands[1]
