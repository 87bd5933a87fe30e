"""Calls: parameters and results in every space, nesting, divergence, what is refused, functions without a body."""

from __future__ import annotations

import numpy as np
import pytest
from machine_kernels import OWN, column, kinds, out, run

from ptx_engine import emulate
from ptx_engine.errors import UnsupportedError
from ptx_engine.launch import Launch, Role, TensorArg, bind
from ptx_engine.machine import execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena, Op

HEAD = ".version 8.4\n.target sm_80\n.address_size 64\n"
REGISTERS = ".reg .pred %p<9>; .reg .b32 %r<60>; .reg .f32 %f<9>; .reg .b64 %d<9>;\n"


def program(functions: str, body: str) -> str:
    return HEAD + functions + ".visible .entry k(.param .u64 out)\n{\n" + REGISTERS + OWN + body + "\nst.global.b32 [%d1], %r1;\nret;\n}\n"


def call(name: str, args: list[str], result: str = "%r1", kind: str = "b32") -> str:
    """A call as compilers write it, through .param variables."""
    lines = ["{"]
    for i, arg in enumerate(args):
        lines.append(f".param .{kind} param{i}; st.param.{kind} [param{i}+0], {arg};")
    names = ", ".join(f"param{i}" for i in range(len(args)))
    return "\n".join(
        [*lines, f".param .{kind} retval0; call.uni (retval0), {name}, ({names}); ld.param.{kind} {result}, [retval0+0];", "}"]
    )


TWICE = (
    ".func (.param .b32 r0) twice(.param .b32 p0)\n{\n"
    ".reg .b32 %r<3>; ld.param.b32 %r1, [p0]; add.s32 %r2, %r1, %r1; st.param.b32 [r0+0], %r2; ret;\n}\n"
)
NESTED = (
    ".func (.param .b32 r0) fourfold(.param .b32 p0)\n{\n.reg .b32 %r<9>; ld.param.b32 %r1, [p0];\n"
    + call("twice", ["%r1"], "%r2") + call("twice", ["%r2"], "%r3") + "st.param.b32 [r0], %r3; ret;\n}\n"
)  # fmt: skip


def test_a_call_and_a_nested_call() -> None:
    run_, arena = run(program(TWICE, call("twice", ["%r0"])), [out(4)], block=4)
    assert kinds(run_) == [] and column(run_, arena) == [0, 2, 4, 6]
    run_, arena = run(program(TWICE + NESTED, call("fourfold", ["%r0"])), [out(4)], block=4)
    assert kinds(run_) == [] and column(run_, arena) == [0, 4, 8, 12]
    bits = np.zeros(4, np.int32)
    emulate(program(TWICE + NESTED, call("fourfold", ["%r0"])), None, 1, 4, [bits])
    assert bits.tolist() == [0, 4, 8, 12]


def test_functions_may_be_defined_after_their_use() -> None:
    declared = ".func (.param .b32 r0) twice(.param .b32 p0);\n"
    text = program(declared, call("twice", ["%r0"])) + TWICE
    run_, arena = run(text, [out(2)], block=2)
    assert column(run_, arena) == [0, 2]


def test_an_argument_of_another_size_is_refused() -> None:
    wide = ".param .b64 p; cvt.u64.u32 %d3, %r0; st.param.b64 [p], %d3; .param .b32 q; call.uni (q), twice, (p); ld.param.b32 %r1, [q];"
    narrow = wide.replace(".param .b64 p; cvt.u64.u32 %d3, %r0; st.param.b64 [p], %d3", ".param .b32 p; st.param.b32 [p], %r0")
    with pytest.raises(UnsupportedError, match="p has 8 bytes, parameter p0 of twice has 4"):
        run(program(TWICE, "{ " + wide + " }"), [out(4)], block=4)
    run_, arena = run(program(TWICE, "{ " + narrow + " }"), [out(4)], block=4)
    assert column(run_, arena) == [0, 2, 4, 6]


def test_register_parameters_and_immediates() -> None:
    functions = ".func (.reg .u32 rv) sum(.reg .u32 a, .reg .u32 b) { add.u32 rv, a, b; ret; }\n"
    run_, arena = run(program(functions, "call (%r1), sum, (%r0, 5);"), [out(3)], block=3)
    assert column(run_, arena) == [5, 6, 7]


def test_divergent_returns_meet_again() -> None:
    functions = (
        ".func (.param .b32 r0) pick(.param .b32 p0)\n{\n"
        ".reg .b32 %r<3>; .reg .pred %p<2>; ld.param.b32 %r1, [p0]; setp.gt.s32 %p1, %r1, 2; @%p1 bra L;\n"
        "st.param.b32 [r0], 100; ret;\nL: st.param.b32 [r0], 200; ret;\n}\n"
    )
    run_, arena = run(program(functions, call("pick", ["%r0"]) + "bar.sync 0;"), [out(32)], block=32)
    assert kinds(run_) == [] and column(run_, arena) == [100] * 3 + [200] * 29


def test_a_predicated_call_runs_for_its_lanes() -> None:
    functions = ".func (.reg .u32 rv) next(.reg .u32 a) { add.u32 rv, a, 1; ret; }\n"
    run_, arena = run(program(functions, "mov.u32 %r1, 50; setp.lt.u32 %p1, %r0, 2; @%p1 call (%r1), next, (%r0);"), [out(4)], block=4)
    assert column(run_, arena) == [1, 2, 50, 50]


@pytest.mark.parametrize("leave", ["@%p1 ret;", "@%p1 bra L;"])
@pytest.mark.parametrize("guard", ["", "@%p2 "])
@pytest.mark.parametrize("space", ["reg", "param"])
def test_results_of_threads_that_return_early(leave: str, guard: str, space: str) -> None:
    """A result in a register comes to the caller from every return; a call that a predicate skips brings none."""
    store = "" if space == "reg" else "st.param.u32 [rv], %r1;"
    functions = (
        f".func (.{space} .u32 rv) pick(.reg .u32 a)\n{{\n.reg .b32 %r<3>; .reg .pred %p<2>; setp.gt.s32 %p1, a, 2; mov.u32 %r1, 100; STORE\n"
        f"{leave} mov.u32 %r1, 200; STORE L: ret;\n}}\n"
    ).replace("STORE", store or "mov.u32 rv, %r1;")
    body = f"mov.u32 %r1, 50; setp.ne.u32 %p2, %r0, 0; {guard}call (%r1), pick, (%r0);"
    run_, arena = run(program(functions, body), [out(5)], block=5)
    assert kinds(run_) == [] and column(run_, arena) == [50 if guard else 200, 200, 200, 100, 100]
    bits = np.zeros(5, np.int32)
    emulate(program(functions, body), None, 1, 5, [bits])
    assert bits.tolist() == [50 if guard else 200, 200, 200, 100, 100]


def test_structures_by_value_and_static_shared_memory() -> None:
    functions = (
        ".func (.param .align 8 .b8 r0[16]) swap(.param .align 8 .b8 p0[16])\n{\n.reg .b64 %d<3>; .shared .align 4 .b8 seen[4];\n"
        "ld.param.v2.b64 {%d1, %d2}, [p0]; st.param.b64 [r0], %d2; st.param.b64 [r0+8], %d1; ret;\n}\n"
    )
    body = (
        "cvt.u64.u32 %d3, %r0; mov.u64 %d4, 77;\n{\n"
        ".param .align 8 .b8 a[16]; st.param.b64 [a], %d3; st.param.b64 [a+8], %d4; .param .align 8 .b8 b[16];\n"
        "call.uni (b), swap, (a); ld.param.b32 %r2, [b]; ld.param.b32 %r3, [b+8];\n}\nadd.s32 %r1, %r2, %r3;"
    )
    run_, arena = run(program(functions, body), [out(3)], block=3)
    assert kinds(run_) == [] and column(run_, arena) == [77, 78, 79]


def test_loops_inside_callees() -> None:
    functions = (
        ".func (.reg .u32 rv) triangle(.reg .u32 n)\n{\n.reg .pred %p<2>; .reg .b32 %i; mov.u32 rv, 0; mov.u32 %i, 0;\n"
        "L: add.u32 rv, rv, %i; add.u32 %i, %i, 1; setp.le.u32 %p1, %i, n; @%p1 bra L;\nret;\n}\n"
    )
    run_, arena = run(program(functions, "call (%r1), triangle, (%r0);"), [out(5)], block=5)
    assert column(run_, arena) == [0, 1, 3, 6, 10]


def test_recursion_and_indirect_calls_are_refused() -> None:
    loop = TWICE.replace("add.s32 %r2, %r1, %r1;", call("fourfold", ["%r1"], "%r2"))
    with pytest.raises(UnsupportedError, match=r"recursion: .*twice -> fourfold -> twice|fourfold -> twice -> fourfold"):
        run(program(loop + NESTED, call("fourfold", ["%r0"])), [out(1)], block=1)
    indirect = "{ .param .b32 a; .param .b32 b; proto: .callprototype (.param .b32 _) _ (.param .b32 _); call (b), %d3, (a), proto; }"
    with pytest.raises(UnsupportedError, match="indirect call"):
        run(program("", indirect), [out(1)], block=1)
    with pytest.raises(UnsupportedError, match="2 and 1"):
        run(program(TWICE, call("twice", ["%r0", "%r0"])), [out(1)], block=1)


@pytest.mark.parametrize("leaf", ["", "mov.u32 %r1, %tid.x;"])
@pytest.mark.timeout(30)
def test_calls_that_double_are_refused_before_they_are_built(leaf: str) -> None:
    functions = f".func f30()\n{{\n.reg .b32 %r<3>; {leaf} ret;\n}}\n"
    functions += "".join(f".func f{i}()\n{{\ncall f{i + 1}; call f{i + 1}; ret;\n}}\n" for i in range(29, -1, -1))
    with pytest.raises(UnsupportedError, match="after inlining"):
        run(program(functions, "call f0; mov.b32 %r1, 0;"), [out(1)], block=1)


EXTERN = ".extern .func (.param .b32 r0) my_expf(.param .b32 p0);\n"


def extern_body() -> str:
    return "cvt.rn.f32.u32 %f1, %r0;\n" + call("my_expf", ["%f1"], "%f2") + "\nst.global.f32 [%d1], %f2; ret;"


def test_extern_functions_are_operators_by_the_table() -> None:
    text = program(EXTERN, extern_body())
    arena = Arena()
    launch = Launch((1, 1, 1), (2, 1, 1), (TensorArg("out", "f32", (2,), Role.OUT),))
    run_ = execute(parse(text), None, bind(launch, arena), externs={"my_expf": "exp"})
    assert arena.node(int(run_.footprints["out"].ids[1]))[0] is Op.EXP2
    assert "my_expf is exp" in arena.assumptions
    bits = np.zeros(3, np.float32)
    emulate(text, None, 1, 3, [bits], externs={"my_expf": "exp"})
    np.testing.assert_allclose(bits, np.exp(np.arange(3)), rtol=1e-6)


@pytest.mark.parametrize(("dtype", "factors", "wanted"), [
    (np.float32, (97.0, 172961.0, 2.0**-40), 16777218.0), (np.float64, (1 + 2.0**-30, 1 - 2.0**-30, -1.0), -(2.0**-60)),
])  # fmt: skip
def test_a_fused_operator_rounds_once(dtype: type, factors: tuple[float, ...], wanted: float) -> None:
    """16777217 and a little lies above the middle of two floats; a product of 61 bits is not its first 53."""
    bits = 8 * np.dtype(dtype).itemsize
    arguments = "".join(
        f".param .b{bits} p{i}; ld.global.b{bits} %x{i}, [%d1+{bits * i // 8}]; st.param.b{bits} [p{i}], %x{i}; " for i in range(3)
    )
    names = ", ".join(f".param .b{bits} a{i}" for i in range(3))
    text = (
        f"{HEAD}.extern .func (.param .b{bits} r) f({names});\n.visible .entry k(.param .u64 out)\n{{\n.reg .b{bits} %x<4>; .reg .b64 %d<2>;\n"
        f"ld.param.u64 %d1, [out]; .param .b{bits} r; {arguments} call (r), f, (p0, p1, p2); ld.param.b{bits} %x3, [r]; st.global.b{bits} [%d1], %x3; ret;\n}}\n"
    )
    numbers = np.array(factors, dtype)
    emulate(text, None, 1, 1, [numbers], externs={"f": "fma"})
    assert numbers[0] == wanted


def test_extern_functions_that_nobody_knows_are_refused() -> None:
    text = program(EXTERN, extern_body())
    with pytest.raises(UnsupportedError, match="my_expf, which has no body") as error:
        emulate(text, None, 1, 1, [np.zeros(1, np.float32)])
    assert "[externs]" in error.value.hint
    with pytest.raises(UnsupportedError, match="no operator"):
        emulate(text, None, 1, 1, [np.zeros(1, np.float32)], externs={"my_expf": "explode"})
    with pytest.raises(UnsupportedError, match="no function of 2 numbers"):
        emulate(text, None, 1, 1, [np.zeros(1, np.float32)], externs={"my_expf": "pow"})


def test_printing_does_nothing_and_assertions_trap() -> None:
    functions = ".extern .func (.param .b32 r0) vprintf(.param .b64 f, .param .b64 a);\n.extern .func __assertfail(.param .b64 m);\n"
    printed = "mov.u32 %r1, 9;\n" + call("vprintf", ["%d3", "%d3"], "%r2", "b64").replace(
        ".param .b64 retval0", ".param .b32 retval0"
    ).replace("ld.param.b64", "ld.param.b32")
    text = program(functions, "mov.u64 %d3, 0;\n" + printed)
    run_, arena = run(text, [out(1)], block=1)
    assert kinds(run_) == [] and column(run_, arena) == [9]
    assert any("vprintf" in a for a in arena.assumptions)
    failing = "mov.u32 %r1, 9; setp.eq.u32 %p1, %r0, 1; mov.u64 %d3, 0; @!%p1 bra OK; { .param .b64 m; st.param.b64 [m], %d3; call.uni __assertfail, (m); } OK:"
    run_, arena = run(program(functions, failing), [out(2)], block=2)
    assert kinds(run_) == ["trap"] and column(run_, arena) == [9]
