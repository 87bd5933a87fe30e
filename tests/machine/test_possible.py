"""Loads and stores under conditions on symbolic data: what they leave is a selection, what is found about them hangs on the data."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_kernels import OWN, kinds, module, out, run

from ptx_engine.decide.oracle import Reals
from ptx_engine.errors import NotStructuredError, PtxError
from ptx_engine.findings import Severity
from ptx_engine.launch import Role, TensorArg
from ptx_engine.machine import Execution
from ptx_engine.machine.emulate import emulate
from ptx_engine.terms import Arena

SHARED = ".shared .align 16 .b8 s[512];"
PARAMS = ("u64 out", "u64 x")
#: %f0: the thread's own number, less than zero for %p1; %d5 its address; %r12: s, %r11: the thread's own two words of it
START = OWN + (
    "ld.param.u64 %d5, [x];\nmad.wide.u32 %d5, %r0, 4, %d5;\nld.global.f32 %f0, [%d5];\nsetp.lt.f32 %p1, %f0, 0f00000000;\n"
    "mov.u32 %r12, s;\nmad.lo.u32 %r11, %r0, 8, %r12;\nst.shared.f32 [%r11], %f0;\nst.shared.f32 [%r11+4], 0f3F800000;\nmov.f32 %f9, %f0;\n"
)
N = 32
END = "st.global.f32 [%d1], %f9;\n"


def ran(body: str, block: int = N, role: Role = Role.IN) -> tuple[Execution, Arena]:
    args = [out(block, "f32"), TensorArg("x", "f32", (block,), role)]
    return run(module(START + body + END, shared=SHARED, params=PARAMS), args, block=block)


def computed(execution: Execution, arena: Arena, numbers: np.ndarray, name: str = "out") -> np.ndarray:
    """An output where x holds some numbers."""
    ids = execution.footprints[name].ids
    x = next(each for each in arena.inputs if each.name == "x")
    given_ = np.zeros((arena.inputs[-1].base + arena.inputs[-1].count, 1))
    given_[x.base : x.base + len(numbers), 0] = numbers
    return np.asarray(Reals(arena, ids, lambda where: given_[-1 - where]).of(ids)[:, 0], np.float64)


def emulated(body: str, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The output, and x afterwards, of one run on these numbers."""
    result, x = np.zeros(len(numbers), np.float32), np.array(numbers, np.float32)
    text = module(START + body + END, shared=SHARED, params=PARAMS)
    assert emulate(text, None, 1, len(numbers), [result, x]).findings == []
    return result, x


NEXT = "bar.sync 0;\nxor.b32 %r13, %r0, 1;\nmad.lo.u32 %r13, %r13, 8, %r12;\n"
CASES = {
    "a load": "@%p1 bra J;\nld.shared.f32 %f9, [%r11+4];\nJ:\n",
    "a store": "@%p1 bra J;\nst.shared.f32 [%r11+4], %f0;\nJ:\nld.shared.f32 %f9, [%r11+4];\n",
    "a store in either arm": (
        "@%p1 bra A;\nst.shared.f32 [%r11+4], 0f40000000;\nbra J;\nA:\nst.shared.f32 [%r11+4], 0f40400000;\nJ:\nld.shared.f32 %f9, [%r11+4];\n"
    ),
    "a load behind a store of the same arm": (
        "@%p1 bra J;\nst.shared.f32 [%r11+4], %f0;\nld.shared.f32 %f1, [%r11+4];\nadd.f32 %f9, %f1, %f1;\nJ:\n"
    ),
    "an exchange of a pair": (
        NEXT + "and.b32 %r14, %r0, 1;\nsetp.ne.u32 %p2, %r14, 0;\n@%p2 bra K;\nld.shared.f32 %f1, [%r11];\nld.shared.f32 %f2, [%r13];\n"
        "setp.gt.f32 %p3, %f1, %f2;\n@!%p3 bra K;\nst.shared.f32 [%r11], %f2;\nst.shared.f32 [%r13], %f1;\nK:\nbar.sync 0;\nld.shared.f32 %f9, [%r11];\n"
    ),
    "a second condition inside": (
        "@%p1 bra J;\nsetp.gt.f32 %p2, %f0, 0f3F800000;\nst.shared.f32 [%r11+4], %f0;\n@%p2 bra J;\nst.shared.f32 [%r11+4], 0f40400000;\nJ:\n"
        "ld.shared.f32 %f9, [%r11+4];\n"
    ),
    "numbers of a pair, and where they were": (
        "st.shared.u32 [%r11+4], %r0;\n" + NEXT + "ld.shared.f32 %f1, [%r13];\nsetp.gt.f32 %p3, %f1, %f0;\nbar.sync 0;\n@!%p3 bra J;\n"
        "xor.b32 %r15, %r0, 1;\nst.shared.u32 [%r11+4], %r15;\nJ:\nld.shared.u32 %r16, [%r11+4];\ncvt.rn.f32.u32 %f9, %r16;\n"
    ),
    "two words at once": "@%p1 bra J;\nst.shared.v2.f32 [%r11], {0f40400000, %f0};\nJ:\nld.shared.v2.f32 {%f1, %f2}, [%r11];\nadd.f32 %f9, %f1, %f2;\n",
    "global memory": "@%p1 bra J;\nst.global.f32 [%d5], 0f40400000;\nJ:\nld.global.f32 %f9, [%d5];\n",
    "local memory": "{\n.local .b32 a;\nst.local.f32 [a], 0f3F800000;\n@%p1 bra J;\nst.local.f32 [a], %f0;\nJ:\nld.local.f32 %f9, [a];\n}\n",
    "lanes that never come there": (
        "setp.gt.u32 %p2, %r0, 15;\nselp.f32 %f3, 0fBF800000, %f0, %p2;\nsetp.lt.f32 %p3, %f3, 0f00000000;\nshr.u32 %r14, %r0, 4;\nmad.lo.u32 %r14, %r14, 4096, %r11;\n@%p3 bra J;\n"
        "ld.shared.f32 %f9, [%r14+0];\nst.shared.f32 [%r11+4], %f9;\nJ:\n"
    ),
    "a register that only lanes write which may come there": (
        "setp.gt.u32 %p2, %r0, 15;\nselp.f32 %f3, 0fBF800000, %f0, %p2;\nsetp.lt.f32 %p3, %f3, 0f00000000;\n@%p3 bra J;\n"
        "setp.eq.u32 %p4, %r0, 3;\nadd.u32 %r14, %r11, 4;\nld.shared.f32 %f9, [%r14];\n@%p4 bra J;\nst.shared.f32 [%r14], %f0;\nld.shared.f32 %f1, [%r14];\n"
        "add.f32 %f9, %f9, %f1;\nJ:\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CASES))
def test_what_is_left_is_what_a_run_on_numbers_leaves(name: str) -> None:
    body = CASES[name]
    execution, arena = ran(body, role=Role.INOUT if "global" in name else Role.IN)
    assert kinds(execution) == [] and execution.schedule_dependent == []
    for seed in range(4):
        numbers = np.random.default_rng(seed).integers(-3, 4, N).astype(np.float32)
        result, x = emulated(body, numbers)
        np.testing.assert_array_equal(computed(execution, arena, numbers), result)
        if "x" in execution.footprints:
            np.testing.assert_array_equal(computed(execution, arena, numbers, "x"), x)


def test_lanes_that_never_come_to_an_access_do_not_make_it() -> None:
    """Those beyond the fifteenth would access words beyond the end; without what keeps them away it hangs on the data."""
    body = CASES["lanes that never come there"]
    assert kinds(ran(body)[0]) == []
    execution, _ = ran(body.replace("selp.f32 %f3, 0fBF800000, %f0, %p2;", "mov.f32 %f3, %f0;"))
    (finding,) = execution.findings
    assert finding.kind == "out of bounds" and finding.severity is Severity.ERROR and finding.message.startswith("for some inputs: ")


def test_a_fault_under_conditions_that_contradict_is_a_note_and_nothing_is_proved() -> None:
    """No inputs are known at which it happens: a number that is below zero and above one."""
    body = "@!%p1 bra J;\nsetp.gt.f32 %p2, %f0, 0f3F800000;\n@!%p2 bra J;\nld.shared.f32 %f9, [%r11+4096];\nJ:\n"
    execution, _ = ran(body)
    (finding,) = execution.findings
    assert finding.severity is Severity.NOTE and finding.message.startswith("if the data choose so: ")
    (reason,) = execution.schedule_dependent
    assert reason.startswith("out of bounds: whether it happens hangs on data")
    (certain,) = ran(body.replace("@!%p1 bra J;\n", ""))[0].findings
    assert certain.severity is Severity.ERROR


def test_a_fault_of_threads_that_come_there_for_certain_is_one() -> None:
    """The second CTA goes round the test of the first one's threads, which load far beyond the end as well."""
    body = (
        "mov.u32 %r15, %ctaid.x;\nsetp.eq.u32 %p2, %r15, 0;\nselp.f32 %f3, %f0, 0fBF800000, %p2;\nsetp.lt.f32 %p3, %f3, 0f00000000;\n"
        "mul.lo.u32 %r15, %r15, 4096;\nadd.u32 %r15, %r15, %r11;\n@!%p3 bra J;\nld.shared.f32 %f9, [%r15];\nJ:\n"
    )
    args = [out(2 * N, "f32"), TensorArg("x", "f32", (2 * N,), Role.IN)]
    execution, _ = run(module(START + body + END, shared=SHARED, params=PARAMS), args, block=N, grid=2)
    (finding,) = execution.findings
    assert finding.severity is Severity.ERROR and "inputs" not in finding.message


@pytest.mark.parametrize(("barrier", "found"), [("bar.sync 0;\n", []), ("", ["data race"])])
def test_a_race_for_some_inputs(barrier: str, found: list[str]) -> None:
    body = NEXT + "@%p1 bra J;\nst.shared.f32 [%r11], 0f40000000;\nJ:\n" + barrier + "ld.shared.f32 %f9, [%r13];\n"
    execution, _ = ran(body)
    assert kinds(execution) == found and execution.schedule_dependent == []
    assert all(f.severity is Severity.ERROR and f.message.startswith("for some inputs: ") for f in execution.findings)


ANY = "bar.sync 0;\nsetp.eq.f32 %p4, %f0, 0f40000000;\n@!%p4 bra J;\nst.shared.f32 [%r12], 0f40400000;\nJ:\nbar.sync 0;\nld.shared.f32 %f9, [%r12];\n"


@pytest.mark.parametrize(("value", "found"), [("0f40400000", ["same-value write"]), ("%f1", ["data race"])])
def test_threads_that_store_one_value_for_some_inputs_leave_it_if_any_of_them_does(value: str, found: list[str]) -> None:
    """A flag that any thread may raise: who stores is not known, but what. Where each stores a value of its own it is a race."""
    body = ANY.replace("bar.sync 0;", "bar.sync 0;\ncvt.rn.f32.u32 %f1, %r0;", 1).replace("0f40400000", value)
    execution, arena = ran(body)
    assert kinds(execution) == found
    if value == "%f1":
        assert execution.findings[0].severity is Severity.ERROR
        return
    for numbers in (np.full(N, 1), np.arange(N), np.where(np.arange(N) == N - 1, 2, 0), np.full(N, 2)):
        result, again = np.zeros(N, np.float32), np.array(numbers, np.float32)
        emulate(module(START + body + END, shared=SHARED, params=PARAMS), None, 1, N, [result, again])
        np.testing.assert_array_equal(computed(execution, arena, numbers.astype(np.float32)), result)


@pytest.mark.parametrize(("second", "severity"), [("lt", Severity.NOTE), ("ge", Severity.ERROR)])
def test_of_two_threads_that_may_store_the_one_that_does_is_believed(second: str, severity: Severity) -> None:
    """The first number says which of two threads stores; what is left is what that one stores, though no order of them is known."""
    body = (
        "ld.param.u64 %d7, [x];\nld.global.f32 %f3, [%d7];\nsetp.ge.f32 %p3, %f3, 0f00000000;\nsetp."
        + second
        + ".f32 %p4, %f3, 0f00000000;\n"
        "setp.eq.u32 %p5, %r0, 1;\nand.pred %p4, %p4, %p5;\nsetp.eq.u32 %p5, %r0, 0;\nand.pred %p3, %p3, %p5;\nor.pred %p3, %p3, %p4;\n"
        "cvt.rn.f32.u32 %f1, %r0;\nbar.sync 0;\n@!%p3 bra J;\nst.shared.f32 [%r12], %f1;\nJ:\nbar.sync 0;\nld.shared.f32 %f9, [%r12];\n"
    )
    execution, arena = ran(body)
    assert [(f.kind, f.severity) for f in execution.findings] == [("data race", severity)]
    for first in (-1, 2) if severity is Severity.NOTE else ():
        numbers = np.full(N, first, np.float32)
        np.testing.assert_array_equal(computed(execution, arena, numbers), emulated(body, numbers)[0])


@pytest.mark.parametrize("grid", [1, 2])
def test_more_threads_than_can_store_one_after_another_are_refused(grid: int) -> None:
    """A flag in global memory that any thread of one CTA may raise, and of two."""
    body = OWN + (
        "ld.param.u64 %d5, [x];\nmad.wide.u32 %d5, %r52, 4, %d5;\nld.global.f32 %f0, [%d5];\nsetp.lt.f32 %p1, %f0, 0f00000000;\n"
        "@!%p1 bra J;\nst.global.f32 [%d0], 0f3F800000;\nJ:\n"
    )
    block = 256
    args = [TensorArg("out", "f32", (1,), Role.INOUT), TensorArg("x", "f32", (grid * block,), Role.IN)]
    if grid == 1:
        assert kinds(run(module(body, PARAMS), args, block=block, grid=grid)[0]) == ["same-value write"]
        return
    with pytest.raises(NotStructuredError, match="512 threads may make to one place"):
        run(module(body, PARAMS), args, block=block, grid=grid)


@pytest.mark.parametrize(("factor", "severity"), [("mov.u32 %r13, 1", Severity.NOTE), ("add.u32 %r13, %r0, 1", Severity.ERROR)])
def test_two_stores_under_conditions_race_if_they_differ_then(factor: str, severity: Severity) -> None:
    """Whose number is the first one's stores it, which is that number whoever does; or a multiple of it, each thread another one."""
    body = (
        "ld.param.u64 %d7, [x];\nld.global.f32 %f3, [%d7];\nsetp.eq.f32 %p3, %f0, %f3;\n" + factor + ";\ncvt.rn.f32.u32 %f1, %r13;\n"
        "mul.f32 %f1, %f1, %f0;\nbar.sync 0;\n@!%p3 bra J;\nst.shared.f32 [%r12], %f1;\nJ:\nbar.sync 0;\nld.shared.f32 %f9, [%r12];\n"
    )
    execution, _ = ran(body)
    (finding,) = execution.findings
    assert (finding.kind, finding.severity) == ("data race", severity)
    assert bool(execution.schedule_dependent) is (severity is Severity.NOTE)


@pytest.mark.parametrize(
    ("place", "kind"), [("[%r11+4096]", "out of bounds"), ("[%r11+2]", "misaligned"), ("[%r14+0]", "out of bounds"), ("[%r11+4]", "")]
)
def test_a_store_under_a_condition_that_faults_is_a_finding(place: str, kind: str) -> None:
    """In all threads, or in the upper half of them."""
    body = "shr.u32 %r14, %r0, 4;\nmad.lo.u32 %r14, %r14, 4096, %r11;\n@%p1 bra J;\nst.shared.f32 " + place + ", %f0;\nJ:\n"
    execution, _ = ran(body)
    assert kinds(execution) == ([kind] if kind else [])
    assert all(f.severity is Severity.ERROR and f.message.startswith("for some inputs: store of 4 bytes") for f in execution.findings)


@pytest.mark.parametrize(("other", "severity"), [("@!%p4 bra E;\n", Severity.NOTE), ("@!%p5 bra E;\n", Severity.ERROR)])
def test_a_race_needs_inputs_at_which_both_accesses_are_made(other: str, severity: Severity) -> None:
    """One thread stores if the first number is negative; another loads if it is not, or if its own is not."""
    body = (
        "ld.param.u64 %d7, [x];\nld.global.f32 %f3, [%d7];\nsetp.lt.f32 %p3, %f3, 0f00000000;\nsetp.ge.f32 %p4, %f3, 0f00000000;\n"
        "setp.ge.f32 %p5, %f0, 0f00000000;\nbar.sync 0;\nsetp.eq.u32 %p6, %r0, 0;\nsetp.eq.u32 %p7, %r0, 1;\n@%p6 bra A;\n@%p7 bra B;\nbra E;\n"
        "A:\n@!%p3 bra E;\nst.shared.f32 [%r12], 0f40000000;\nbra E;\nB:\n" + other + "ld.shared.f32 %f9, [%r12];\nE:\n"
    )
    execution, _ = ran(body)
    assert [(f.kind, f.severity) for f in execution.findings] == [("data race", severity)]
    assert bool(execution.schedule_dependent) is (severity is Severity.NOTE)


@pytest.mark.parametrize(
    "body",
    [
        "@%p1 bra J;\nst.global.f32 [%d1], %f0;\nJ:\n",  # what else is in the output was never written
        "@%p1 bra J;\nred.shared.add.f32 [%r11], %f0;\nJ:\n",
        "@%p1 bra J;\nst.volatile.shared.f32 [%r11], %f0;\nJ:\n",
        "cvt.rzi.u32.f32 %r15, %f0;\nmad.lo.u32 %r15, %r15, 4, %r12;\n@%p1 bra J;\nst.shared.f32 [%r15], %f0;\nJ:\n",
        "cvt.rzi.u32.f32 %r15, %f0;\nmad.wide.u32 %d7, %r15, 4, %d5;\n@%p1 bra J;\nld.global.nc.f32 %f9, [%d7];\nJ:\n",
    ],
)
def test_what_is_not_known_is_refused(body: str) -> None:
    with pytest.raises(PtxError) as caught:
        ran(body)
    assert isinstance(caught.value, NotStructuredError) and caught.value.span is not None


# --- random arms ----------------------------------------------------------------------------------

_WORDS = st.sampled_from(["[%r11]", "[%r11+4]"])
_REGISTERS = st.sampled_from(["%f1", "%f2", "%f3"])
_MOVES = st.one_of(
    st.builds("ld.shared.f32 {0}, {1};\n".format, _REGISTERS, _WORDS),
    st.builds("st.shared.f32 {1}, {0};\n".format, _REGISTERS, _WORDS),
    st.builds("add.f32 {0}, {1}, 0f3F800000;\n".format, _REGISTERS, _REGISTERS),
    st.builds("sub.f32 {0}, {1}, {2};\n".format, _REGISTERS, _REGISTERS, _REGISTERS),
)


#: moves, and (registers compared, what is done where the first is greater, what elsewhere)
Program = list["str | tuple[str, str, Program, Program]"]


def programs(depth: int) -> st.SearchStrategy[Program]:
    """Moves between two words and three registers, under comparisons of registers."""
    if not depth:
        return st.lists(_MOVES, max_size=3)
    inner = programs(depth - 1)
    return st.lists(st.one_of(_MOVES, st.tuples(_REGISTERS, _REGISTERS, inner, inner)), min_size=1, max_size=4)


def written(program: Program, labels: Iterator[int]) -> str:
    """The program's text."""
    text = ""
    for part in program:
        if isinstance(part, str):
            text += part
            continue
        first, second, way, other = part
        n = next(labels)
        text += f"setp.gt.f32 %p{n % 8 + 4}, {first}, {second};\n@%p{n % 8 + 4} bra A{n};\n"
        text += f"{written(other, labels)}bra J{n};\nA{n}:\n{written(way, labels)}J{n}:\n"
    return text


@settings(max_examples=60, deadline=None)
@given(programs(3), st.integers(0, 2**32 - 1))
def test_random_arms_compute_what_a_run_on_numbers_computes(program: Program, seed: int) -> None:
    body = "mov.f32 %f1, %f0;\nmov.f32 %f2, 0f40000000;\nneg.f32 %f3, %f0;\n" + written(program, itertools.count())
    body += "ld.shared.f32 %f4, [%r11];\nld.shared.f32 %f5, [%r11+4];\nfma.rn.f32 %f9, %f4, 0f42C80000, %f5;\nfma.rn.f32 %f9, %f1, 0f461C4000, %f9;\n"
    numbers = np.random.default_rng(seed).integers(-3, 4, N).astype(np.float32)
    result, _ = emulated(body, numbers)
    execution, arena = ran(body)
    assert kinds(execution) == []
    np.testing.assert_array_equal(computed(execution, arena, numbers), result.astype(np.float64))
