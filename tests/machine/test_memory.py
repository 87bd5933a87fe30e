"""Memory: bounds, alignment, contents, formats, vectors, windows."""

from __future__ import annotations

import numpy as np
import pytest
from machine_kernels import OWN, column, ints, kinds, module, out, run

from ptx_engine.errors import NotStructuredError
from ptx_engine.launch import Role, ScalarArg, TensorArg
from ptx_engine.terms import Op

SHARED = ".extern .shared .align 16 .b8 dyn[];"


def one(execution, kind: str):
    return next(f for f in execution.findings if f.kind == kind)


@pytest.mark.parametrize(("count", "expected"), [(32, []), (31, ["out of bounds"]), (20, ["out of bounds"])])
def test_store_past_the_end_is_found_and_counted(count: int, expected: list[str]) -> None:
    execution, _ = run(module(OWN + "st.global.u32 [%d1], %r0;"), [out(count)])
    assert kinds(execution) == expected
    if expected:
        finding = one(execution, "out of bounds")
        assert finding.count == 32 - count and finding.tensor == "out" and finding.index == (count,)
        assert finding.sites[0].lane == count and "st.global" in finding.sites[0].ptx_text


def test_load_before_the_start_and_through_null() -> None:
    execution, _ = run(module(OWN + "ld.global.u32 %r1, [%d0+-4];\nst.global.u32 [%d1], %r0;"), [ints("out", range(32), Role.INOUT)])
    assert "before the start of out" in one(execution, "out of bounds").message
    execution, _ = run(module("mov.u64 %d2, 0;\nld.global.u32 %r1, [%d2];"), [out(1)])
    assert "null pointer" in one(execution, "out of bounds").message


def test_misaligned_access() -> None:
    body = OWN + "ld.global.v2.u32 {%r1, %r2}, [%d0+4];"
    execution, _ = run(module(body), [ints("out", range(32), Role.INOUT)])
    assert kinds(execution) == ["misaligned"]
    execution, _ = run(module(body.replace("+4", "+8")), [ints("out", range(32), Role.INOUT)])
    assert kinds(execution) == []


def test_write_to_an_input_is_a_finding() -> None:
    execution, _ = run(module(OWN + "st.global.u32 [%d1], %r0;"), [ints("out", range(32), Role.IN)])
    assert kinds(execution) == ["write to a read-only argument"]


@pytest.mark.parametrize(
    ("body", "stale"),
    [
        ("st.global.u32 [%d1], %r0;\n{load} %r5, [%d1];", True),
        ("{load} %r5, [%d1];\nst.global.u32 [%d1], %r0;", False),  # in place
        ("red.global.add.u32 [%d1], 1;\nbar.sync 0;\nmembar.gl;\n{load} %r5, [%d1];", True),
        ("st.global.u32 [%d1], %r0;\nbar.sync 0;\n{load} %r5, [%d0];", True),  # another thread's, and one for all
        ("setp.ne.u32 %p1, %r0, 0;\n@%p1 st.global.u32 [%d1], %r0;\nbar.sync 0;\n{load} %r5, [%d0];", False),
        ("mul.wide.u32 %d3, %r0, 4;\nadd.u64 %d3, %d3, %d1;\n@%p1 st.global.u32 [%d1], %r0;\nbar.sync 0;\n{load} %r5, [%d0+252];", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("load", ["ld.global.nc.u32", "ldu.global.u32", "ld.global.u32"])
def test_a_load_around_the_coherent_caches(body: str, stale: bool, load: str) -> None:
    """PTX ISA 9.1, memory consistency model, "Scope and applicability": it is not about ld.global.nc, so nothing orders that after a store."""
    text = module(OWN + "setp.ge.u32 %p1, %r0, 0;\n" + body.format(load=load) + "\nst.global.u32 [%d1+256], %r5;\n")
    execution, _ = run(text, [ints("out", range(128), Role.INOUT)], block=64)
    assert kinds(execution) == (["stale read"] if stale and load != "ld.global.u32" else [])


@pytest.mark.parametrize(("offset", "stale"), [(0, True), (8, False)])
def test_a_wide_load_around_the_coherent_caches(offset: int, stale: bool) -> None:
    body = f"st.global.u32 [%d0+4], 7;\nld.global.nc.v2.u32 {{%r5, %r6}}, [%d0+{offset}];\nst.global.v2.u32 [%d0+16], {{%r5, %r6}};\n"
    execution, _ = run(module("ld.param.u64 %d0, [out];\n" + body), [ints("out", range(8), Role.INOUT)], block=1)
    assert kinds(execution) == (["stale read"] if stale else [])
    assert not stale or (execution.findings[0].index, execution.findings[0].tensor) == ((1,), "out")


def test_reading_an_output_that_has_no_contents() -> None:
    execution, _ = run(module(OWN + "ld.global.u32 %r1, [%d1];"), [out(32)])
    assert kinds(execution) == ["uninitialised"]


@pytest.mark.parametrize(("type_", "compare"), [("u32", "setp.eq.u32 %p5, %r5, 0;"), ("u64", "setp.eq.u64 %p5, %d5, 0;")])
def test_a_branch_by_one_word_that_nothing_was_stored_to(type_: str, compare: str) -> None:
    """As a flag in shared memory that was never set to 0."""
    register = "%r5" if type_ == "u32" else "%d5"
    body = f"{OWN}ld.shared.{type_} {register}, [s];\n{compare}\n@%p5 bra E;\nst.global.u32 [%d1], %r0;\nE:\n"
    execution, _ = run(module(body, shared=".shared .align 8 .b8 s[8];"), [out(64)], block=64)
    assert kinds(execution) == ["uninitialised"]


def test_uninitialised_shared_memory() -> None:
    body = (
        OWN
        + "mov.u32 %r1, dyn;\nshl.b32 %r2, %r0, 2;\nadd.s32 %r1, %r1, %r2;\n{store}\nld.shared.u32 %r3, [%r1];\nst.global.u32 [%d1], %r3;"
    )
    execution, _ = run(module(body.format(store=""), shared=SHARED), [out(32)], shared=128)
    assert kinds(execution) == ["uninitialised"]
    execution, arena = run(module(body.format(store="st.shared.u32 [%r1], %r0;"), shared=SHARED), [out(32)], shared=128)
    assert kinds(execution) == [] and column(execution, arena) == list(range(32))


def test_shared_window_is_checked() -> None:
    body = OWN + "mov.u32 %r1, dyn;\nshl.b32 %r2, %r0, 2;\nadd.s32 %r1, %r1, %r2;\nst.shared.u32 [%r1], %r0;"
    execution, _ = run(module(body, shared=SHARED), [out(32)], shared=64)
    assert kinds(execution) == ["out of bounds"] and one(execution, "out of bounds").count == 16


def test_halves_move_as_parts_of_words() -> None:
    body = (
        "ld.param.u64 %d0, [out];\nld.param.u64 %d2, [x];\nmov.u32 %r0, %tid.x;\n"
        "mad.wide.s32 %d3, %r0, 4, %d2;\nmad.wide.s32 %d1, %r0, 4, %d0;\n"
        "ld.global.b32 %r1, [%d3];\nmov.b32 {%h1, %h2}, %r1;\nmov.b32 %r2, {%h2, %h1};\nst.global.b32 [%d1], %r2;"
    )
    args = [TensorArg("out", "f16", (64,), Role.OUT), TensorArg("x", "f16", (64,), Role.IN)]
    execution, arena = run(module(body, ("u64 out", "u64 x")), args)
    ids = execution.footprints["out"].ids
    x = arena.inputs[0]
    assert x.name == "x"
    expected = [x.ids(i ^ 1) for i in range(64)]
    assert ids.tolist() == expected


def test_halves_of_a_float_meet_again_or_are_refused() -> None:
    body = (
        "ld.param.u64 %d1, [out];\nld.param.u64 %d2, [x];\nld.global.b16 %h1, [%d2];\nld.global.b16 %h2, [%d2+2];\n"
        "mov.b32 %r1, {FIRST, SECOND};\nst.global.b32 [%d1], %r1;"
    )
    args = [TensorArg("out", "f32", (1,), Role.OUT), TensorArg("x", "f32", (4,), Role.IN)]
    whole = body.replace("FIRST", "%h1").replace("SECOND", "%h2")
    execution, arena = run(module(whole, ("u64 out", "u64 x")), args)
    assert execution.footprints["out"].ids.tolist() == [arena.inputs[0].ids(0)]
    swapped = body.replace("FIRST", "%h2").replace("SECOND", "%h1")
    with pytest.raises(NotStructuredError, match="part of an element"):
        run(module(swapped, ("u64 out", "u64 x")), args)


def test_load_after_store_sees_the_stored_value() -> None:
    body = (
        OWN + "cvt.rn.f32.s32 %f1, %r0;\nst.global.f32 [%d1], %f1;\nld.global.f32 %f2, [%d1];\n"
        "add.f32 %f3, %f2, 0f3F800000;\nst.global.f32 [%d1], %f3;"
    )
    execution, arena = run(module(body), [out(32, "f32")])
    assert column(execution, arena) == [t + 1 for t in range(32)]


def test_two_ctas_writing_one_element_race() -> None:
    body = (
        "ld.param.u64 %d0, [out];\nmov.u32 %r0, %tid.x;\nmad.wide.s32 %d1, %r0, 4, %d0;\nmov.u32 %r1, %ctaid.x;\nst.global.u32 [%d1], %r1;"
    )
    execution, _ = run(module(body), [out(32)], grid=2)
    assert kinds(execution) == ["data race"]
    execution, _ = run(module(body.replace("%ctaid.x", "%nctaid.x")), [out(32)], grid=2)
    assert kinds(execution) == ["same-value write"]


ASYNC = (
    "ld.param.u64 %d0, [out];\nld.param.u64 %d2, [x];\nmov.u32 %r0, %tid.x;\nmad.wide.s32 %d3, %r0, 16, %d2;\n"
    "mad.wide.s32 %d1, %r0, 16, %d0;\n"
    "mov.u32 %r1, dyn;\nshl.b32 %r2, %r0, 4;\nadd.s32 %r1, %r1, %r2;\n"
    "setp.lt.u32 %p1, %r0, 20;\nselp.b32 %r3, 16, 0, %p1;\ncp.async.cg.shared.global [%r1], [%d3], 16, %r3;\n"
    "cp.async.commit_group;\n{wait}\n"
    "ld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [%r1];\nst.global.v4.b32 [%d1], {{%r4, %r5, %r6, %r7}};"
)


def test_asynchronous_copy_fills_with_zeros_and_does_not_read_what_it_skips() -> None:
    args = [TensorArg("out", "f16", (256,), Role.OUT), TensorArg("x", "f16", (160,), Role.IN)]
    execution, arena = run(module(ASYNC.format(wait="cp.async.wait_group 0;"), ("u64 out", "u64 x"), shared=SHARED), args, shared=512)
    assert kinds(execution) == []
    x = arena.inputs[0]
    assert execution.footprints["out"].ids.tolist() == [x.ids(i) if i < 160 else 0 for i in range(256)]


def test_a_source_of_more_bytes_than_the_copy_is_refused() -> None:
    text = ASYNC.replace("16, 0, %p1", "17, 0, %p1").format(wait="cp.async.wait_group 0;")
    assert text != ASYNC.format(wait="cp.async.wait_group 0;")
    args = [TensorArg("out", "f16", (256,), Role.OUT), TensorArg("x", "f16", (160,), Role.IN)]
    with pytest.raises(NotStructuredError, match="undefined"):
        run(module(text, ("u64 out", "u64 x"), shared=SHARED), args, shared=512)


@pytest.mark.parametrize("wait", ["", "cp.async.wait_group 1;"])
def test_asynchronous_copy_without_its_wait_is_a_race(wait: str) -> None:
    args = [TensorArg("out", "f16", (256,), Role.OUT), TensorArg("x", "f16", (160,), Role.IN)]
    execution, _ = run(module(ASYNC.format(wait=wait), ("u64 out", "u64 x"), shared=SHARED), args, shared=512)
    assert kinds(execution) == ["data race"]
    assert "wait_group" in execution.findings[0].missing


def test_symbolic_scalar_reaches_the_output() -> None:
    body = OWN + "ld.param.f32 %f1, [alpha];\nadd.f32 %f2, %f1, %f1;\nst.global.f32 [%d1], %f2;"
    execution, arena = run(module(body, ("u64 out", "f32 alpha")), [out(32, "f32"), ScalarArg("alpha", "f32")])
    alpha = arena.inputs[0].ids(0)
    op, a, b, _ = arena.node(int(execution.footprints["out"].ids[0]))
    assert (op, a, b) == (Op.ADD, alpha, alpha)


def test_contents_of_an_integer_tensor_are_exact() -> None:
    body = (
        OWN + "ld.param.u64 %d5, [x];\nmad.wide.s32 %d6, %r0, 4, %d5;\nld.global.u32 %r1, [%d6];\n"
        "mul.lo.s32 %r2, %r1, %r1;\nst.global.u32 [%d1], %r2;"
    )
    numbers = np.array([-5, 2**30, 7, 46341] * 8, np.int32)
    execution, arena = run(module(body, ("u64 out", "u64 x")), [out(32), ints("x", numbers)])
    with np.errstate(over="ignore"):
        assert column(execution, arena) == (numbers * numbers).tolist()


def test_a_uniform_address_beside_addresses_of_another_width() -> None:
    """Two-element loads by column and one store by a uniform address: they meet, whatever integer types the addresses have."""
    wide = OWN + "and.b32 %r1, %r0, 15;\nmad.wide.s32 %d2, %r1, 8, %d0;\nld.global.v2.u32 {%r2, %r3}, [%d2];\n{barrier}\n"
    store = "setp.eq.u32 %p1, %r0, 31;\n@%p1 st.global.u32 [%d0], %r0;\n"
    used = "ld.param.u64 %d3, [res];\nmad.wide.s32 %d4, %r0, 4, %d3;\nst.global.u32 [%d4], %r2;"
    for barrier, expected in (("", ["data race"]), ("bar.sync 0;", [])):
        text = module(wide.replace("{barrier}", barrier) + store + used, ("u64 out", "u64 res"))
        execution, _ = run(text, [ints("out", range(32), Role.INOUT), out(32, name="res")])
        assert kinds(execution) == expected


def test_bytes_beside_a_register_never_written_may_be_packed_and_dropped() -> None:
    """LLVM packs fp8 values beside undefined bytes and reads only the defined ones."""
    body = (
        OWN
        + "ld.global.u32 %r1, [%d1];\nprmt.b32 %r2, %r1, %r3, 0x3340;\nprmt.b32 %r4, %r5, %r6, 0x3340;\nprmt.b32 %r7, %r2, %r4, 0x5410;\n"
    )
    kept, lost = "and.b32 %r8, %r7, 255;\n", "mov.b32 %r8, %r4;\n"
    execution, arena = run(module(body + kept + "st.global.u32 [%d1], %r8;"), [ints("out", range(32), Role.INOUT)])
    assert kinds(execution) == [] and column(execution, arena) == list(range(32))
    with pytest.raises(NotStructuredError, match="before it is written"):
        run(module(body + lost + "st.global.u32 [%d1], %r8;"), [ints("out", range(32), Role.INOUT)])


@pytest.mark.parametrize("places", ["global.gpu.acq_rel", "acq_rel.gpu.global", "global.acq_rel.gpu", "gpu.global", "relaxed.global"])
def test_atomics_take_semantics_scope_and_space_in_any_order(places: str) -> None:
    """ptxas does, and Triton writes .global.gpu.acq_rel."""
    execution, arena = run(module(OWN + f"atom.{places}.add.u32 %r1, [%d0], 1;"), [ints("out", [5], Role.INOUT)])
    assert kinds(execution) == [] and column(execution, arena) == [37]
