"""Module level: header, variables with initialisers, parameters, functions, directives."""

from __future__ import annotations

import pytest
from syntax_cases import HEADER, parse_error, variable

from ptx_engine.syntax import parse
from ptx_engine.syntax.ast import AddressOf, Directive, FloatLit, Function, Name, NameOffset, Param, Variable


def function(text: str) -> Function:
    return parse(HEADER + text).functions[-1]


def test_header() -> None:
    module = parse(".version 9.1\n.target sm_90a, debug\n", "a.ptx")
    assert (module.version, module.target, module.address_size, module.name) == ((9, 1), ("sm_90a", "debug"), 32, "a.ptx")
    assert parse(HEADER).address_size == 64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".global .u32 a;", Variable("global", "u32", "a", 4, 4)),
        (".extern .shared .align 16 .b8 s[];", Variable("shared", "b8", "s", 0, 16, "extern", (0,))),
        (".visible .const .align 8 .f64 c[2][3];", Variable("const", "f64", "c", 48, 8, "visible", (2, 3))),
        (".weak .global .v4 .f32 v[2];", Variable("global", "f32", "v", 32, 16, "weak", (2,), vector=4)),
        (".common .global .b8 x[3*4];", Variable("global", "b8", "x", 12, 1, "common", (12,))),
        (".shared::cta .b64 m;", Variable("shared", "b64", "m", 8, 8)),
        (
            ".global .attribute(.managed, .unified(0x10, 2)) .b8 x;",
            Variable("global", "b8", "x", 1, 1, attributes=(".managed", ".unified(16,2)")),
        ),
        (".global .texref t;", Variable("global", "texref", "t", 8, 8)),
    ],
)
def test_variable(text: str, expected: Variable) -> None:
    assert variable(text) == expected


@pytest.mark.parametrize(
    ("text", "shape", "values"),
    [
        (".global .u32 a = 7;", (), (7,)),
        (".global .u32 a[4] = {1, 2};", (4,), (1, 2)),
        (".global .u32 a[] = {1, 2, 3};", (3,), (1, 2, 3)),
        (".global .u32 a[2][2] = {{1, 2}, {3, 4}};", (2, 2), (1, 2, 3, 4)),
        (".global .u32 a[2][2] = {{1, 2}, {3}};", (2, 2), (1, 2, 3)),
        (".global .u32 a[2][2][1] = {{{1}, {2}}, {{3}, {4}}};", (2, 2, 1), (1, 2, 3, 4)),
        (".global .v2 .u32 a[2] = {{1, 2}, {3, 4}};", (2,), (1, 2, 3, 4)),
        (".global .f32 a[2] = {0.1, 0f00000001};", (2,), (FloatLit(0x3DCCCCCD, 32), FloatLit(1, 32))),
        (".global .f32 a = 1e300;", (), (FloatLit(0x7F800000, 32),)),
        (".global .f64 a = 0.1;", (), (FloatLit(0x3FB999999999999A, 64),)),
        (".global .u64 a = other;", (), (Name("other"),)),
        (".global .u64 a = other+8;", (), (NameOffset("other", 8),)),
        (".global .u64 a[2] = {generic(o), generic(o)+4};", (2,), (AddressOf("o", 0, True), AddressOf("o", 4, True))),
        (".global .u8 a[2] = {0xff(o), 0xff00(o+4)};", (2,), (AddressOf("o", 0, False, 0xFF), AddressOf("o", 4, False, 0xFF00))),
        (".global .u8 a[1] = {0xff(generic(o)+4)};", (1,), (AddressOf("o", 4, True, 0xFF),)),
        (".global .samplerref a = {addr_mode_0 = wrap, force_unnormalized_coords = 1};", (),
         (Name("addr_mode_0=wrap"), Name("force_unnormalized_coords=1"))),
    ],
)  # fmt: skip
def test_initialiser(text: str, shape: tuple[int, ...], values: tuple[object, ...]) -> None:
    found = variable(text)
    assert (found.shape, found.initializer) == (shape, values)


def test_several_names_in_a_declaration() -> None:
    found = parse(HEADER + ".global .align 8 .u32 a, b = 2, c[2];").variables
    assert [(v.name, v.size, v.align, v.initializer) for v in found] == [("a", 4, 8, ()), ("b", 4, 8, (2,)), ("c", 8, 8, ())]


@pytest.mark.parametrize(
    "text",
    [
        ".global .u32 a[2] = {1, 2, 3};", ".global .u32 a = {{1}};", ".global .u32 a[2][2] = {{1, 2, 3}, {4}};",
        ".global .u32 a[2][2] = {{1}, {3, 4}};", ".global .u32 a[1] = {1,};", ".global .u32 a[1] = {1;", ".global .u32 a[-1];",
        ".global .u32 a[2][];", ".global .align 3 .u32 a;", ".global .u33 a;", ".global .pred a;", ".global a;", ".global .u32;",
        ".shared .u32 a = 1;", ".local .u32 a = 1;", ".extern .global .u32 a = 1;", ".global .f16 a = 1.0;", ".global .u32 a = 1.5;",
        ".global .s8 a[2] = {1, 1.5};", ".global .f32 a = 1;", ".global .f64 a[2] = {1.5, 2};", ".global .u32 b; .global .f32 a = b;",
        ".global .v8 .b32 a;", ".global .u32 a; .global .u32 a;", ".func a() { ret; } .global .u32 a;", ".func a() { ret; } .func a() { ret; }",
        ".global .u32 a", ".nowhere .u32 a;", ".extern .weak .visible .global .u32 a;", ".global .u32 a = b c;",
    ],
)  # fmt: skip
def test_malformed_variable(text: str) -> None:
    error = parse_error(HEADER + text)
    assert error.span is not None
    assert error.span.line >= 4


def test_a_short_inner_row_is_refused_with_the_reason() -> None:
    error = parse_error(HEADER + ".global .u32 a[2][2] = {{1}, {3, 4}};")
    assert "disagree" in error.hint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".param .u64 .ptr .global .align 16 x", Param("u64", "x", 8, 8, True, (), "global", 16)),
        (".param .u64 .ptr .align 1 x", Param("u64", "x", 8, 8, True, (), "", 1)),
        (".param .u64 .ptr x", Param("u64", "x", 8, 8, True)),
        (".param .align 8 .b8 x[24]", Param("b8", "x", 24, 8, shape=(24,))),
        (".param .f32 x", Param("f32", "x", 4, 4)),
        (".reg .pred x", Param("pred", "x", 0, 0, space="reg")),
    ],
)
def test_parameter(text: str, expected: Param) -> None:
    assert function(f".func f({text});").params == (expected,)


@pytest.mark.parametrize(
    "text", [".func f(.param .b32 n, .param .align 8 .b8 rest[]);", ".func f(.param .b32 n, ...);", ".entry f(.param .b8 x[]) {}"]
)
def test_functions_of_any_number_of_arguments(text: str) -> None:
    """The ISA has taken them out: a parameter that is an array has a size."""
    assert parse_error(HEADER + text).span is not None
    assert function(".func f(.param .b32 n, .param .align 8 .b8 rest[16]);").params[1].size == 16


def test_a_declaration_may_come_before_its_definition_and_again() -> None:
    found = parse(HEADER + ".func f(); .func f() { ret; } .func f(); .extern .shared .b8 s[]; .extern .shared .b8 s[];")
    assert len(found.functions) == 3 and len(found.variables) == 2


def test_functions() -> None:
    found = function(".visible .func (.param .b32 r) f (.param .b64 a, .param .b64 b) .noreturn { ret; }")
    assert (found.name, found.is_entry, found.linkage) == ("f", False, "visible")
    assert [p.name for p in found.returns] == ["r"]
    assert [p.name for p in found.params] == ["a", "b"]
    assert found.directives == (("noreturn", ()),)
    assert found.body is not None
    assert function(".extern .func f;").body is None
    assert function(".func f { }").body == ()
    assert function(".entry k { }").is_entry


def test_performance_directives() -> None:
    text = '.entry k() .maxntid 128, 1, 1 .reqntid 64 .minnctapersm 2 .maxnreg 32 .explicitcluster .reqnctapercluster 2, 1 .pragma "x"; {}'
    assert function(text).directives == (
        ("maxntid", ("128", "1", "1")),
        ("reqntid", ("64",)),
        ("minnctapersm", ("2",)),
        ("maxnreg", ("32",)),
        ("explicitcluster", ()),
        ("reqnctapercluster", ("2", "1")),
        ("pragma", ("x",)),
    )


def test_module_directives_and_files() -> None:
    text = (
        '.pragma "a"; .func f(){} .weak .func g(); .alias g, f; .file 1 "/a/b.py" .file 2 "d" "c.py", 1, 2 .section .debug_x {.b8 1 // }\n}'
    )
    module = parse(HEADER + text)
    assert module.directives == (Directive("pragma", ("a",)), Directive("alias", ("g", "f")))
    assert module.files == ((1, "/a/b.py"), (2, "d/c.py"))


def test_entries_are_defined_kernels() -> None:
    module = parse(HEADER + ".entry a(); .func b() {} .entry c() {} .entry d() {}")
    assert [f.name for f in module.entries()] == ["c", "d"]
