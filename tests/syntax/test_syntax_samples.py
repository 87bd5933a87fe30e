"""Whole modules: the all-syntax text and compiler outputs, counted by other means and printed back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from syntax_cases import DATA, SAMPLES

from ptx_engine.syntax import flatten, parse, print_module, user_loc
from ptx_engine.syntax.ast import Function, Module


def sample(name: str) -> Module:
    return parse((DATA / name).read_text(), name)


def function(module: Module, part: str) -> Function:
    return next(f for f in module.functions if part in f.name and f.body is not None)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_printed_text_reads_back(path: Path) -> None:
    module = parse(path.read_text(), path.name)
    printed = print_module(module)
    assert parse(printed) == module
    assert print_module(parse(printed)) == printed


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_statement_count(path: Path) -> None:
    """Instructions counted in the text: what ends with a semicolon inside a function and begins with no dot."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    text = re.sub(r"\.section[^{]*\{[^}]*\}", "", text)
    bodies = re.sub(r"\n\.(?:global|const|shared|visible \.global|weak \.global|common|extern|pragma)[^;]*;", "", text)
    statements = [re.sub(r"^[\s{}]*(?:[\w$]+\s*:\s*|\.loc[^\n]*|[{}]|\s)*", "", s, flags=re.DOTALL) for s in bodies.split(";")]
    expected = sum(1 for s in statements if re.match(r"(?:@!?%?\w+\s+)?[a-z]", s) and "callprototype" not in s)
    # the first statement of a function stands behind its header
    headers = sum(1 for s in statements if re.search(r"\{\s*(?:@!?%?\w+\s+)?(?!\.)[a-z]\w*[^{}]*$", s) and re.match(r"\.", s))
    module = parse(path.read_text())
    found = sum(len(flatten(f, module).instructions) for f in module.functions if f.body is not None)
    assert found == expected + headers


def test_all_syntax_values() -> None:
    """Initial values as ptxas lays them out for the same text."""
    values = {v.name: v for v in sample("all_syntax.ptx").variables}
    assert values["forms"].initializer == (10, 15, 31, 5, 3, 16, 17)
    assert values["negative"].initializer[:2] == (-1, -2)
    assert int(str(values["negative"].initializer[2])) % 2**32 == 2**32 - 1
    assert [getattr(v, "bits", None) for v in values["floats"].initializer] == [0x3FC00000, 0x3F800000, 0xC0000000, 0x447A0000]
    assert values["managed_word"].attributes == (".managed",)
    assert (values["dynamic"].size, values["dynamic"].align, values["dynamic"].linkage) == (0, 16, "extern")


def test_all_syntax_kernel() -> None:
    module = sample("all_syntax.ptx")
    (entry,) = module.entries()
    assert [(p.name, p.size, p.align, p.pointer, p.pointer_align) for p in entry.params] == [
        ("input", 8, 8, True, 16),
        ("output", 8, 8, True, 0),
        ("structure", 24, 8, False, 0),
        ("alpha", 4, 4, False, 0),
        ("pair", 8, 8, False, 0),
    ]
    found = flatten(entry, module)
    assert found.branch_targets == {"targets": ("one", "two")}
    call = next(i for i in found.instructions if i.opcode == "call")
    assert user_loc(module, call.loc) == "/home/user/kernel.py:10:5"


@pytest.mark.parametrize("name", ["nvcc_sm80.ptx", "nvcc_sm100.ptx", "nvcc_debug_sm90.ptx"])
def test_nvcc_output(name: str) -> None:
    """Both front ends and a debug build of nvcc_sample.cu."""
    module = sample(name)
    assert len(module.entries()) == 4
    assert [f.name for f in module.functions if f.linkage == "extern"] == ["vprintf"]
    source = (DATA / "nvcc_sample.cu").read_text().split("\n")
    barrier = next(i for i in flatten(function(module, "sum"), module).instructions if i.opcode in ("bar", "barrier"))
    file, line, _ = user_loc(module, barrier.loc).rsplit(":", 2)
    assert file == "/home/user/kernels/sample.cu"
    assert "__syncthreads" in source[int(line) - 1]
    waits = flatten(function(module, "waits"), module)
    assert len([label for label in waits.labels if label.startswith("WAIT")]) == len(
        [label for label in waits.labels if label.startswith("DONE")]
    )


@pytest.mark.parametrize("name", ["nvcc_sm80.ptx", "nvcc_sm100.ptx"])
def test_inlined_device_functions_lead_to_the_call_site(name: str) -> None:
    module = sample(name)
    source = (DATA / "nvcc_sample.cu").read_text().split("\n")
    shuffles = [i for i in flatten(function(module, "sum"), module).instructions if i.opcode == "shfl"]
    assert len(shuffles) == 5
    for shuffle in shuffles:
        assert "__shfl_xor_sync" in source[int(user_loc(module, shuffle.loc).split(":")[1]) - 1]


def test_triton_output() -> None:
    module = sample("triton_sm80.ptx")
    (entry,) = module.entries()
    assert entry.directives == (("reqntid", ("32",)),)
    found = flatten(entry, module)
    assert sum(i.opcode == "mma" for i in found.instructions) == 2  # 16 x 16 x 16 in m16n8k16
    assert {"t", "t@2"} <= set(found.registers)
