"""Malformed text: message, place and hint; each case with a twin that parses."""

from __future__ import annotations

import pytest
from syntax_cases import HEADER, parse_error

from ptx_engine.syntax import parse

ENTRY = HEADER + ".entry k()\n{\n"


@pytest.mark.parametrize(
    ("wrong", "right", "message", "at"),
    [
        ("add.s32 a, b\n ret;", "add.s32 a, b;\n ret;", "expected ';' or ','", (6, 13)),
        ("add.s32 a, b ret;", "add.s32 a, b; ret;", "expected ';' or ','", (6, 14)),
        ("add.s32 a,, b;", "add.s32 a, b;", "expected an operand, found ','", (6, 11)),
        ("add.s32 a, b,;", "add.s32 a, b;", "expected an operand, found ';'", (6, 14)),
        ("add.s32 , b;", "add.s32 a, b;", "expected an operand, found ','", (6, 9)),
        ("ld.b32 a, [b;", "ld.b32 a, [b];", "expected ']'", (6, 13)),
        ("ld.b32 a, [b+c];", "ld.b32 a, [b+4];", "expected an operand, found 'c'", (6, 14)),
        ("ld.b32 {a, b, [c];", "ld.b32 {a, b}, [c];", "expected ',' or '}'", (6, 18)),
        ("mov.b32 %r1, %r2+4;", "mov.b32 %r1, r2+4;", "only inside [ ]", (6, 17)),
        ("setp a|3, b;", "setp a|b, b;", "only registers can be paired", (6, 6)),
        ("mov.b32 a, 0xZZ;", "mov.b32 a, 0xAB;", "malformed number", (6, 12)),
        ("mov.b32 a, #1;", "mov.b32 a, 1;", "unexpected character '#'", (6, 12)),
        ("@ add;", "@p add;", "expected a statement, found ';'", (6, 6)),
        ("@3 add;", "@p add;", "expected a predicate register", (6, 2)),
        (".rag .b32 a;", ".reg .b32 a;", "unknown directive '.rag'", (6, 1)),
        (".reg .b33 a;", ".reg .b32 a;", "expected a type, found '.b33'", (6, 6)),
        (".reg .b32 %r<x>;", ".reg .b32 %r<4>;", "expected the number of registers", (6, 14)),
        (".reg .b32 %r<4;", ".reg .b32 %r<4>;", "expected '>'", (6, 15)),
        (".reg .b32 a", ".reg .b32 a;", "expected ';'", (6, 12)),
        (".loc 1 2;", ".loc 1 2 0", "expected a column number", (6, 9)),
        (".loc 1 2 3, inlined_by 1 2 3", ".loc 1 2 3, inlined_at 1 2 3", "expected 'function_name' or 'inlined_at'", (6, 13)),
        (".branchtargets A;", "t: .branchtargets A;", "needs a label before it", (6, 1)),
        (".pragma nounroll;", '.pragma "nounroll";', "expected a string", (6, 9)),
        ("/* no end", "/* end */", "this comment has no end", (6, 1)),
        ('.pragma "no end;', '.pragma "end";', "this string has no end", (6, 9)),
        ("{ ret;", "{ ret; }", "never closed", (5, 1)),
        (".shared b32 a;", ".shared .b32 a;", "expected a type", (6, 9)),
    ],
)
def test_in_a_body(wrong: str, right: str, message: str, at: tuple[int, int]) -> None:
    parse(f"{ENTRY}{right}\n}}\n")
    error = parse_error(f"{ENTRY}{wrong}\n}}\n")
    assert message in error.message
    assert error.span is not None
    assert (error.span.line, error.span.col) in (at, (at[0] + 1, 1))


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        (".target sm_80\n", ".version 8.0\n.target sm_80\n", "begins with .version"),
        (".version 8.0\n", ".version 8.0\n.target sm_80\n", "no .target"),
        (".version 8\n.target sm_80\n", ".version 8.0\n.target sm_80\n", "expected a version"),
        (HEADER + ".address_size 16\n", HEADER + ".address_size 32\n", "expected 32 or 64"),
        (HEADER + "ret;", HEADER, "expected a directive"),
        (HEADER + ".entri k() {}", HEADER + ".entry k() {}", "unknown directive '.entri'"),
        (HEADER + ".entry k() .reqntidd 3 {}", HEADER + ".entry k() .reqntid 3 {}", "unknown directive '.reqntidd'"),
        (HEADER + ".entry k() .reqntid {}", HEADER + ".entry k() .reqntid 1, 2 {}", "needs a number"),
        (HEADER + ".entry k() {", HEADER + ".entry k() {}", "never closed"),
        (HEADER + ".entry k()", HEADER + ".entry k();", "expected ';'"),
        (HEADER + ".entry k(.param .u64 a .param .u64 b) {}", HEADER + ".entry k(.param .u64 a, .param .u64 b) {}", "expected ','"),
        (HEADER + ".entry k(.u64 a) {}", HEADER + ".entry k(.param .u64 a) {}", "expected '.param'"),
        (HEADER + ".entry (a) k() {}", HEADER + ".entry k() {}", "expected a function name"),
        (HEADER + ".section x {", HEADER + ".section x {}", "no { } or no end"),
        (HEADER + ".file 1 name", HEADER + '.file 1 "name"', "expected a file name"),
        (HEADER + "}", HEADER, "expected a directive"),
    ],
)
def test_at_module_level(wrong: str, right: str, message: str) -> None:
    parse(right)
    assert message in parse_error(wrong).message


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("module {\n}", "MLIR"),
        ("module attributes {a = 1} {\n}", "MLIR"),
        ('"builtin.module"() ({', "MLIR"),
        ("#loc = loc(unknown)\nmodule {", "MLIR"),
        ("; ModuleID = 'x'\n", "LLVM IR"),
        ("#include <x>\n", "CUDA C"),
        ('extern "C"\n__global__ void k() {}', "CUDA C"),
        ("\x7fELF\x02", "cubin"),
    ],
)
def test_other_languages_are_named(text: str, hint: str) -> None:
    assert hint in parse_error(text).hint


def test_hints_name_the_nearest_directive() -> None:
    assert parse_error(ENTRY + ".rag .b32 a;\n}").hint == "did you mean '.reg'?"
    assert parse_error(HEADER + ".entri k() {}").hint == "did you mean '.entry'?"
    assert "has a type" not in parse_error(HEADER + ".zzzzz k() {}").hint


def test_a_missing_semicolon_points_behind_the_statement() -> None:
    error = parse_error(ENTRY + "\tadd.s32 \t%r1, %r2, %r3\n\tret;\n}\n")
    assert error.render().split("\n")[:-1] == [
        "parse error: expected ';' or ',', found 'ret'",
        "  --> <ptx>:6:24",
        "    |",
        "  6 |  add.s32  %r1, %r2, %r3",
        "    |                        ^",
    ]


def test_line_ends_and_trailing_zero_bytes() -> None:
    text = HEADER + ".entry k() {\n ret;\n}\n"
    assert parse(text.replace("\n", "\r\n")) == parse(text) == parse(text + "\0\0")
    assert parse_error(text.replace("\n", "\r\n") + "x").source_line == "x"


def test_the_name_stands_in_the_span() -> None:
    try:
        parse("", "kernel.ptx")
    except Exception as error:
        assert "kernel.ptx:1:1" in error.render()  # type: ignore[attr-defined]
