"""Module-scope, constant and local variables: contents, addresses, bounds; symbolic where the launch says nothing."""

from __future__ import annotations

import numpy as np
import pytest
from machine_kernels import OWN, column, ints, kinds, module, out, run

from ptx_engine import emulate
from ptx_engine.errors import LaunchError, UnsupportedError
from ptx_engine.launch import Role, TensorArg
from ptx_engine.terms import Op

STORE = OWN + "st.global.b32 [%d1], %r1;\n"


def test_an_initialised_table_is_read_in_every_space() -> None:
    for space in ("global", "const"):
        declared = f".{space} .align 4 .b8 table[16] = {{1, 0, 0, 0, 0xFE, 255, 255, 255, 3}};"
        body = "mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 4; mov.u64 %d3, table; add.s64 %d3, %d3, %d2;\n"
        text = module(body + f"ld.{space}.b32 %r1, [%d3];\n" + STORE, shared=declared)
        run_, arena = run(text, [out(4)], block=4)
        assert kinds(run_) == []
        assert column(run_, arena) == [1, -2, 3, 0]
        assert "variable table holds its initialiser at the launch" in arena.assumptions
        bits = np.zeros(4, np.int32)
        emulate(text, None, 1, 4, [bits])
        assert bits.tolist() == [1, -2, 3, 0]


def test_initialisers_hold_addresses() -> None:
    declared = (
        ".global .align 4 .u32 cells[4] = {10, 20, 30, 40};\n"
        ".global .align 8 .u64 ends[2] = {cells, generic(cells)+12};\n"
        ".global .align 1 .b8 low[2] = {0xFF(cells), 0xFF00(cells)};"
    )
    body = "mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 8; mov.u64 %d3, ends; add.s64 %d3, %d3, %d2; ld.global.u64 %d4, [%d3]; ld.u32 %r1, [%d4];\n"
    run_, arena = run(module(body + STORE, shared=declared), [out(2)], block=2)
    assert column(run_, arena) == [10, 40]
    body = "mov.u64 %d3, cells; and.b64 %d3, %d3, 0xFFFF; ld.global.u16 %h1, [low]; cvt.u64.u16 %d4, %h1; sub.s64 %d4, %d4, %d3; cvt.u32.u64 %r1, %d4;\n"
    run_, arena = run(module(body + STORE, shared=declared), [out(1)], block=1)
    assert column(run_, arena) == [0]


@pytest.mark.parametrize(
    ("kind", "load", "dtype"), [("b8", "ld.const.f32 %r1", "f32"), ("f32", "ld.const.b32 %r1", "f32"), ("u32", "ld.const.b32 %r1", "u32")]
)
def test_contents_that_nobody_gives_are_symbolic(kind: str, load: str, dtype: str) -> None:
    declared = f".const .align 4 .{kind} weights[{8 if kind == 'b8' else 2}];"
    body = OWN + "and.b32 %r5, %r0, 1; mul.wide.u32 %d2, %r5, 4; mov.u64 %d3, weights; add.s64 %d3, %d3, %d2;\n" + load + ", [%d3];\n"
    run_, arena = run(module(body + "st.global.b32 [%d1], %r1;", shared=declared), [out(4, "f32" if dtype == "f32" else "u32")], block=4)
    entry = arena.inputs[-1]
    assert (entry.name, entry.count, entry.fmt) == ("variable weights", 2, dtype)
    assert run_.footprints["out"].ids.tolist() == [int(entry.ids(i)) for i in (0, 1, 0, 1)]


def test_untyped_contents_are_what_their_uses_say() -> None:
    body = OWN + "ld.const.b32 %f1, [weights+4]; add.f32 %f2, %f1, %f1; st.global.f32 [%d1], %f2;\n"
    _, arena = run(module(body, shared=".const .align 4 .b8 weights[8];"), [out(1, "f32")], block=1)
    assert arena.inputs[-1].fmt == "f32"


def test_the_type_of_an_atomic_stands_before_its_operation() -> None:
    """.v2.f32.add has the operation last."""
    declared = ".global .align 8 .b8 sums[8];"
    body = (
        OWN + "mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000; red.global.v2.f32.add [sums], {%f1, %f2}; ld.global.f32 %f3, [sums+4];\n"
    )
    text = module(body + "st.global.f32 [%d1], %f3;\n", shared=declared)
    sums = np.zeros(1, np.float32)
    assert not emulate(text, None, 1, 1, [sums]).findings and sums.tolist() == [2.0]


def test_contents_used_as_two_types_are_refused() -> None:
    body = OWN + "ld.const.f32 %f1, [w]; ld.const.s16 %h1, [w+4]; st.global.f32 [%d1], %f1;\n"
    with pytest.raises(UnsupportedError, match="accessed as f32 and s16"):
        run(module(body, shared=".const .align 4 .b8 w[8];"), [out(1, "f32")], block=1)


def test_a_global_variable_is_written_and_read_by_later_ctas() -> None:
    body = "mov.u64 %d3, counter; atom.global.add.u32 %r1, [%d3], 1;\n" + STORE
    run_, arena = run(module(body, shared=".global .align 4 .u32 counter = 5;"), [out(3)], block=1, grid=3)
    assert sorted(column(run_, arena)) == [5, 6, 7]
    assert list(run_.footprints) == ["out"]
    assert "what is stored to variable counter is no output" in arena.assumptions


@pytest.mark.parametrize(("offset", "kind", "message"), [
    (16, "out of bounds", "4 bytes past its end"), (-4, "out of bounds", "4 bytes before the start of table"), (2, "misaligned", "byte 2 of table"),
])  # fmt: skip
def test_faults_name_the_variable(offset: int, kind: str, message: str) -> None:
    body = f"mov.u64 %d3, table; ld.global.u32 %r1, [%d3+{offset}];\n" + STORE
    run_, _ = run(module(body, shared=".global .align 4 .u32 table[4] = {1, 2, 3, 4};"), [out(1)], block=1)
    assert kinds(run_) == [kind]
    assert message in run_.findings[0].message and run_.findings[0].tensor == "table"


def test_writes_to_constant_memory_are_found() -> None:
    body = "mov.u64 %d3, table; st.global.u32 [%d3], 1;\n"
    run_, _ = run(module(body, shared=".const .align 4 .u32 table[4] = {1};"), [out(1)], block=1)
    assert kinds(run_) == ["write to a read-only argument"]


def test_local_arrays_belong_to_their_thread() -> None:
    body = (
        ".local .align 8 .b8 __local_depot0[32];\n.reg .b64 %SP, %SPL;\nmov.u64 %SPL, __local_depot0; cvta.local.u64 %SP, %SPL;\n"
        "mov.u32 %r0, %tid.x; and.b32 %r2, %r0, 3; mul.wide.u32 %d2, %r2, 4; add.s64 %d3, %SP, %d2; st.u32 [%d3+8], %r0;\n"
        "add.s64 %d4, %SPL, %d2; ld.local.u32 %r1, [%d4+8];\n"
    )
    run_, arena = run(module(body + STORE), [out(8)], block=8)
    assert kinds(run_) == [] and column(run_, arena) == list(range(8))
    run_, _ = run(module(body.replace("[%d4+8]", "[%d4+32]") + STORE), [out(8)], block=8)
    assert kinds(run_) == ["out of bounds"]
    assert "4 bytes past the end of __local_depot0" in run_.findings[0].message


@pytest.mark.parametrize(
    ("at", "said"), [(120, "4 bytes past the end of s"), (128, "12 bytes past the end of s"), (-8, "8 bytes before s"), (112, "")]
)
def test_how_far_an_access_reaches_beyond_shared_memory(at: int, said: str) -> None:
    """The first one begins within its window of 124 bytes."""
    text = module(f"mov.u32 %r1, s; st.shared.v2.u32 [%r1+{at}], {{%r1, %r1}};\n", shared=".shared .align 8 .b8 s[124];")
    found = run(text, [out(1)], block=1)[0].findings
    assert [f.message.endswith(f", but the window has 124 bytes: {said}") for f in found] == [True] * bool(said)


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZZ6kernelE4tile", "tile"), ("_ZZ6kernelE4tile_0", "tile"), ("_ZZ9transposeIfLi32EEvPT_S1_E4tile", "tile"), ("_ZZ1kE2s2", "s2"),
        ("tile", "tile"), ("_ZZ6kernelE5tile", "_ZZ6kernelE5tile"), ("_ZN2ns4tileE", "_ZN2ns4tileE"),
    ],
)  # fmt: skip
def test_a_variable_of_a_function_has_the_name_of_its_source(symbol: str, name: str) -> None:
    text = module(f"mov.u32 %r1, {symbol}; st.shared.u32 [%r1+8], %r1;\n", shared=f".shared .align 4 .b8 {symbol}[8];")
    (finding,) = run(text, [out(1)], block=1)[0].findings
    assert finding.message.endswith(f"4 bytes past the end of {name}")


def test_local_memory_that_no_gpu_has_is_refused() -> None:
    text = module(".local .align 4 .b8 big[99999999999]; st.local.u32 [big], 1;\n")
    with pytest.raises(LaunchError, match="local memory in a thread"):
        emulate(text, None, 1, 1, [np.zeros(4, np.uint32)])


def test_an_input_of_the_same_name_is_another_thing() -> None:
    body = "ld.param.u64 %d2, [table]; ld.global.u32 %r1, [%d2]; mov.u64 %d3, table2; ld.global.u32 %r2, [%d3]; add.s32 %r1, %r1, %r2;\n"
    text = module(body + STORE, ["u64 out", "u64 table"], shared=".global .align 4 .u32 table2 = 7;")
    run_, arena = run(text, [out(1), ints("table2", [1])], block=1)
    assert column(run_, arena) == [8]


def test_variables_of_unknown_size_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="no known size"):
        run(module("ld.global.u32 %r1, [elsewhere];\n" + STORE, shared=".extern .global .align 4 .u32 elsewhere[];"), [out(1)], block=1)


def test_a_variable_of_another_module_has_no_bits() -> None:
    """On bits it is refused where nothing defines it; over terms it is an input, as a variable without an initialiser is."""
    body, declared = "ld.global.u32 %r1, [elsewhere];\n" + STORE, ".extern .global .align 4 .u32 elsewhere;\n"
    with pytest.raises(UnsupportedError, match=r"elsewhere is \.extern") as caught:
        emulate(module(body, shared=declared), None, 1, 1, [np.zeros(1, np.int32)])
    assert caught.value.span is not None and caught.value.span.line == 4
    _, arena = run(module(body, shared=declared), [out(1)], block=1)
    assert [entry.name for entry in arena.inputs] == ["variable elsewhere"]
    defined = ".visible .global .align 4 .u32 elsewhere = 7;\n"
    for text in (declared + defined, defined + declared):
        bits = np.zeros(1, np.int32)
        emulate(module(body, shared=text), None, 1, 1, [bits])
        assert bits.tolist() == [7]


def test_both_sides_share_symbolic_contents() -> None:
    from ptx_engine.launch import Launch, bind
    from ptx_engine.machine import execute
    from ptx_engine.syntax import parse
    from ptx_engine.terms import Arena

    arena = Arena()
    text = module(OWN + "ld.const.f32 %f1, [w]; add.f32 %f1, %f1, %f1; st.global.f32 [%d1], %f1;", shared=".const .align 4 .f32 w;")
    launch = Launch((1, 1, 1), (1, 1, 1), (TensorArg("out", "f32", (1,), Role.OUT),))
    bound = bind(launch, arena)
    ids = [int(execute(parse(text), None, bound).footprints["out"].ids[0]) for _ in range(2)]
    assert [arena.node(i)[:3] for i in ids] == [(Op.ADD, -1, -1)] * 2
