"""Source locations: the current row of each instruction, call-site chains, inline-asm fences, the frame to show."""

from __future__ import annotations

import pytest
from syntax_cases import DATA, HEADER

from ptx_engine.syntax import frames, parse, print_module, user_loc
from ptx_engine.syntax.ast import Instruction, Loc, Module
from ptx_engine.syntax.source_map import is_library

FILES = '.file 1 "/home/user/k.py"\n.file 2 "/usr/lib/python3/site-packages/triton/language/standard.py"\n'


def located(body: str) -> tuple[Module, list[Loc | None]]:
    module = parse(f"{HEADER}.entry k() {{\n{body}\n}}\n{FILES}")
    return module, [s.loc for s in module.functions[0].body or () if isinstance(s, Instruction)]


def test_rows_hold_until_the_next() -> None:
    _, locs = located("exit;\n.loc 1 2 3 // k.py:2:3\nexit;\nexit;\n.loc 1 4 0\nexit;")
    assert locs == [None, Loc(1, 2, 3), Loc(1, 2, 3), Loc(1, 4, 0)]


def test_a_row_does_not_outlive_its_function() -> None:
    module = parse(HEADER + ".func f() { .loc 1 2 3\n ret; } .func g() { ret; }")
    (statement,) = module.functions[1].body or ()
    assert isinstance(statement, Instruction)
    assert statement.loc is None


def test_call_sites_are_chained() -> None:
    module, locs = located(
        ".loc 1 20 7\n.loc 2 87 13, function_name $L__info_string0, inlined_at 1 20 7\n"
        ".loc 2 216 16, function_name $L__info_string0+4, inlined_at 2 87 13\nexit;"
    )
    standard = "/usr/lib/python3/site-packages/triton/language/standard.py"
    assert frames(module, locs[0]) == [(standard, 216, 16), (standard, 87, 13), ("/home/user/k.py", 20, 7)]
    assert user_loc(module, locs[0]) == "/home/user/k.py:20:7"
    assert locs[0] is not None
    assert locs[0].function == "$L__info_string0+4"


def test_an_unprinted_call_site_ends_the_chain() -> None:
    module, locs = located(".loc 2 216 16, function_name a, inlined_at 1 9 2\nexit;")
    assert user_loc(module, locs[0]) == "/home/user/k.py:9:2"


def test_user_loc_prefers_the_innermost_user_frame() -> None:
    module, locs = located(".loc 1 20 7\n.loc 1 5 3, function_name a, inlined_at 1 20 7\nexit;\n.loc 2 7 7\nexit;\n.loc 9 1 1\nexit;")
    assert user_loc(module, locs[0]) == "/home/user/k.py:5:3"
    assert user_loc(module, locs[1]).endswith("standard.py:7:7")
    assert user_loc(module, locs[2]) == ""
    assert user_loc(module, None) == ""
    assert frames(module, None) == []


@pytest.mark.parametrize(
    ("asm", "line"),
    [
        (".loc 1 9 2\nmov.b32 a, b;\n.loc 1 10 2\nadd.s32 a, b, c;\n", 9),
        ("\n{\n.loc 1 11 2\nmov.b32 a, b;\n.loc 1 12 2\nadd.s32 a, b, c;\n}", 9),
        ("mov.b32 a, b;\nadd.s32 a, b, c;\n", 9),
    ],
)
def test_rows_in_a_fence_carry_the_asm_line(asm: str, line: int) -> None:
    _, locs = located(f".loc 1 9 2\n// begin inline asm\n{asm}\n// end inline asm\nexit;")
    assert locs[-1] == Loc(1, line, 2)
    module, _ = located(f".loc 1 9 2\n// begin inline asm\n{asm}\n// end inline asm\nexit;")
    assert {i.loc for i in instructions(module)} == {Loc(1, line, 2)}


def test_without_a_fence_the_same_rows_are_taken_as_they_stand() -> None:
    _, locs = located(".loc 1 9 2\nmov.b32 a, b;\n.loc 1 10 2\nadd.s32 a, b, c;\nexit;")
    assert locs == [Loc(1, 9, 2), Loc(1, 10, 2), Loc(1, 10, 2)]


def test_triton_inline_asm_is_at_its_python_line() -> None:
    source = (DATA / "triton_sample.py").read_text().split("\n")
    call = next(i for i, line in enumerate(source, 1) if "inline_asm_elementwise" in line)
    use = next(i for i, line in enumerate(source, 1) if "z = doubled" in line)
    module = parse((DATA / "triton_sm80.ptx").read_text())
    asm = [i for i in instructions(module) if i.mnemonic == "mul.f32" and i.operands[1] == i.operands[2]]
    assert len(asm) == 8  # 16 x 16 elements over 32 lanes
    assert {tuple(line for _, line, _ in frames(module, i.loc)) for i in asm} == {(call, use)}
    loads = [i for i in instructions(module) if i.opcode == "ld" and "global" in i.modifiers]
    masked = next(i for i, line in enumerate(source, 1) if "mask=" in line)
    assert {line for i in loads for _, line, _ in frames(module, i.loc)} == {masked, masked + 1}


def test_printing_keeps_the_rows_of_instructions() -> None:
    for path in ("triton_sm80.ptx", "nvcc_sm80.ptx"):
        module = parse((DATA / path).read_text())
        assert [i.loc for i in instructions(parse(print_module(module)))] == [i.loc for i in instructions(module)]


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("/home/user/kernel.py", False),
        ("/venv/lib/python3.11/site-packages/vllm/attention.py", False),
        ("/venv/lib/python3.11/site-packages/triton/language/standard.py", True),
        ("/usr/local/cuda-13.0/bin/../targets/x86_64-linux/include/cuda_fp16.hpp", True),
        ("/home/user/.cache/volta-pass/cuda-headers-13.5/crt/mma.hpp", True),  # unpacked by NVRTC
        ("/home/user/cuda-headers/kernel.cu", False),
        ("/home/triton/kernels.py", False),
        ("/home/user/include/kernel.cuh", False),
    ],
)
def test_library_files(file: str, expected: bool) -> None:
    assert is_library(file) is expected


def instructions(module: Module) -> list[Instruction]:
    """All instructions of a module, scopes included."""
    found: list[Instruction] = []
    todo = [list(f.body) for f in module.functions if f.body is not None]
    while todo:
        for statement in todo.pop():
            if isinstance(statement, Instruction):
                found.append(statement)
            elif hasattr(statement, "body"):
                todo.append(list(statement.body))
    return found
