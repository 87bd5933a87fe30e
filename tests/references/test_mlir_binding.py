"""Locations, diagnostics and parse errors through the MLIR binding; generic printing inside libtriton."""

from __future__ import annotations

import importlib

import pytest
from reference_cases import module

from ptx_engine.errors import ParseError, UnsupportedError
from volta_pass.references import generic, mlir_binding
from volta_pass.references.mlir_binding import diagnose, name_of, parse_module, source_lines, user_line
from volta_pass.references.ttir import load_ttir

NESTED = """
#kernel = loc("kernel.py":20:7)
#named = loc("acc"(#kernel))
#inner = loc("/site-packages/triton/language/standard.py":155:12)
"builtin.module"() ({
  "test.a"() : () -> () loc(callsite(#inner at #named))
  "test.b"() : () -> () loc(fused["first.py":1:2, "second.py":3:4])
  "test.c"() : () -> () loc(unknown)
  "test.d"() : () -> () loc(#named)
}) : () -> ()
"""


def operations(text):
    return list(parse_module(text).body.operations)


def test_source_lines_of_nested_locations():
    call, fused, unknown, named = (op.operation.location for op in operations(NESTED))
    assert [(r.role, r.line, r.column) for r in source_lines(call)] == [("at", 155, 12), ("called from", 20, 7)]
    assert [str(r) for r in source_lines(fused)] == ["first.py:1:2", "second.py:3:4"]
    assert source_lines(unknown) == [] and user_line(unknown) is None
    assert [(r.role, str(r)) for r in source_lines(named)] == [("defining 'acc'", "kernel.py:20:7")]
    assert name_of(named) == "acc" and name_of(fused) == ""


def test_the_user_line_is_outside_of_the_compilers_library():
    call, fused, *_ = (op.operation.location for op in operations(NESTED))
    assert str(user_line(call)) == "kernel.py:20:7"
    assert str(user_line(fused)) == "first.py:1:2"


def test_diagnose_shows_place_and_source(tmp_path):
    source = tmp_path / "k.py"
    source.write_text("first\n    y = load(x)\n")
    op = operations(f'"builtin.module"() ({{ "test.a"() : () -> () loc("{source}":2:9) }}) : () -> ()')[0]
    text = diagnose(op, "value differs")
    assert text.splitlines() == ["error: value differs", f"  --> {source}:2:9 (at)", "          y = load(x)"]


def test_a_program_diagnoses_at_a_place():
    body = '    %c = "arith.constant"() <{value = 1 : i32}> : () -> i32 loc("k.py":7:5)'
    program = load_ttir(module("", body))
    assert "k.py:7:5" in program.diagnose("k.py:7:5", "wrong")
    assert "k.py" not in program.diagnose("k.py:8:5", "wrong")


@pytest.mark.parametrize("text", ["module {", '"builtin.module"() ({ "test.a"( }) : () -> ()', "not mlir"])
def test_bad_text_is_a_parse_error(text):
    with pytest.raises(ParseError):
        load_ttir(text)


def test_a_parse_error_has_its_place():
    with pytest.raises(ParseError) as caught:
        load_ttir('"builtin.module"() ({\n  "test.a"( : () -> ()\n}) : () -> ()')
    assert caught.value.span is not None and caught.value.span.line == 2
    assert '"test.a"(' in caught.value.render()


def test_custom_form_gets_a_hint():
    with pytest.raises(ParseError) as caught:
        load_ttir("module {\n  tt.func public @k() {\n    tt.return\n  }\n}\n")
    assert "generic form" in caught.value.render()


def test_without_a_binding_the_error_says_what_to_install(monkeypatch):
    def absent(name):
        raise ImportError(name)

    mlir_binding.mlir_ir.cache_clear()
    monkeypatch.setattr(importlib, "import_module", absent)
    try:
        with pytest.raises(UnsupportedError) as caught:
            mlir_binding.mlir_ir()
    finally:
        mlir_binding.mlir_ir.cache_clear()
    assert "pip install iree-base-compiler" in caught.value.render()


def test_an_unknown_operation_is_named_with_its_line():
    body = '    %c = "mystery.op"() : () -> i32 loc("k.py":7:5)'
    with pytest.raises(UnsupportedError, match=r"mystery\.op") as caught:
        load_ttir(module("", body))
    assert caught.value.user_loc == "k.py:7:5" and caught.value.feature == "mystery.op"


def test_an_unknown_type_is_named_with_its_line():
    body = '    %c = "arith.constant"() <{value = 1 : i3}> : () -> i3 loc("k.py":7:5)'
    with pytest.raises(UnsupportedError, match="type i3") as caught:
        load_ttir(module("", body))
    assert caught.value.user_loc == "k.py:7:5"


TTIR = """
module {
  tt.func public @k(%x: !tt.ptr<f32> loc("k.py":1:1)) attributes {noinline = false} {
    %c = arith.constant 1.44269502 : f32 loc("k.py":2:3)
    tt.store %x, %c : !tt.ptr<f32> loc("k.py":3:3)
    tt.return loc("k.py":4:3)
  } loc("k.py":1:1)
} loc("k.py":1:1)
"""


def test_generic_text_and_back_to_custom_printing():
    pytest.importorskip("triton")
    assert generic.available()
    text = generic.generic_of_text(TTIR)
    assert generic.is_generic(text) and not generic.is_generic(TTIR)
    program = load_ttir(text)
    assert [step.origin.user_loc for step in program.function.body.block.steps] == ["k.py:2:3", "k.py:3:3"]
    assert generic.generic_of_text(TTIR) == text


def test_printing_is_custom_again_afterwards():
    pytest.importorskip("triton")
    from triton._C.libtriton import ir

    context = ir.context()
    ir.load_dialects(context)
    module_object = ir.builder(context).create_module()
    before = module_object.str()
    during = generic.generic_of_module(module_object)
    assert '"builtin.module"' in during and module_object.str() == before


def test_text_that_triton_does_not_parse():
    pytest.importorskip("triton")
    with pytest.raises(ParseError, match="Triton does not parse"):
        generic.generic_of_text("module { nonsense }")
