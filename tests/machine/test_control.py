"""Divergence, loops, predication, barriers: what threads compute when they part and meet again."""

from __future__ import annotations

import pytest
from machine_kernels import OWN, column, ints, kinds, module, out, run, scalar

from ptx_engine.errors import BudgetError, LaunchError, NotStructuredError, ParseError, UnsupportedError
from ptx_engine.launch import Role, ScalarArg, TensorArg
from ptx_engine.machine import Budget


def test_thread_dependent_loop_counts_differ_and_groups_merge() -> None:
    body = OWN + (
        "mov.u32 %r1, 0;\nmov.u32 %r2, 0;\n"
        "LOOP:\nsetp.ge.s32 %p1, %r2, %r0;\n@%p1 bra DONE;\nadd.s32 %r1, %r1, %r2;\nadd.s32 %r2, %r2, 1;\nbra LOOP;\n"
        "DONE:\nst.global.u32 [%d1], %r1;"
    )
    execution, arena = run(module(body), [out(64)], block=64)
    assert column(execution, arena) == [t * (t - 1) // 2 for t in range(64)]


def test_if_else_writes_either_value() -> None:
    body = OWN + (
        "and.b32 %r1, %r0, 1;\nsetp.eq.s32 %p1, %r1, 0;\n@%p1 bra EVEN;\nmov.u32 %r2, 7;\nbra JOIN;\n"
        "EVEN:\nmov.u32 %r2, 9;\nJOIN:\nst.global.u32 [%d1], %r2;"
    )
    execution, arena = run(module(body), [out(64)], block=64)
    assert column(execution, arena) == [9 if t % 2 == 0 else 7 for t in range(64)]


def test_predicated_instruction_keeps_the_old_value_elsewhere() -> None:
    body = OWN + "mov.u32 %r1, 5;\nsetp.lt.u32 %p1, %r0, 10;\n@%p1 mov.u32 %r1, %r0;\n@!%p1 add.s32 %r1, %r1, 1;\nst.global.u32 [%d1], %r1;"
    execution, arena = run(module(body), [out(32)])
    assert column(execution, arena) == [t if t < 10 else 6 for t in range(32)]


def test_early_exit_leaves_the_rest_running() -> None:
    body = OWN + "setp.gt.u32 %p1, %r0, 19;\n@%p1 exit;\nst.global.u32 [%d1], %r0;"
    execution, arena = run(module(body), [out(32)])
    assert column(execution, arena) == list(range(20))


def test_table_branch() -> None:
    body = OWN + (
        "and.b32 %r1, %r0, 3;\nts: .branchtargets A, B, C, B;\nbrx.idx %r1, ts;\n"
        "A:\nmov.u32 %r2, 100;\nbra E;\nB:\nmov.u32 %r2, 200;\nbra E;\nC:\nmov.u32 %r2, 300;\nE:\nst.global.u32 [%d1], %r2;"
    )
    execution, arena = run(module(body), [out(32)])
    assert column(execution, arena) == [[100, 200, 300, 200][t % 4] for t in range(32)]


def test_ctas_in_batches_give_the_same_as_together() -> None:
    body = OWN + "add.s32 %r3, %r52, 1000;\nst.global.u32 [%d1], %r3;"
    together, arena = run(module(body), [out(320)], block=32, grid=10)
    alone, other = run(module(body), [out(320)], block=32, grid=10, budget=Budget(batch_threads=32))
    assert column(together, arena) == column(alone, other) == list(range(1000, 1320))
    assert together.instructions == alone.instructions


def test_three_dimensional_thread_numbers() -> None:
    body = (
        "ld.param.u64 %d0, [out];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %tid.y;\nmov.u32 %r3, %tid.z;\n"
        "mov.u32 %r4, %ntid.x;\nmov.u32 %r5, %ntid.y;\n"
        "mad.lo.s32 %r6, %r3, %r5, %r2;\nmad.lo.s32 %r6, %r6, %r4, %r1;\nmad.wide.s32 %d1, %r6, 4, %d0;\n"
        "mov.u32 %r7, %laneid;\nst.global.u32 [%d1], %r7;"
    )
    execution, arena = run(module(body), [out(64)], block3=(4, 8, 2))
    assert column(execution, arena) == [t % 32 for t in range(64)]


EXCHANGE = OWN + (
    "mov.u32 %r1, buf;\nshl.b32 %r2, %r0, 2;\nadd.s32 %r3, %r1, %r2;\nst.shared.u32 [%r3], %r0;\n{barrier}\n"
    "sub.s32 %r4, 63, %r0;\nshl.b32 %r4, %r4, 2;\nadd.s32 %r4, %r1, %r4;\nld.shared.u32 %r5, [%r4];\nst.global.u32 [%d1], %r5;"
)
SHARED = ".shared .align 4 .b8 buf[256];"


def test_exchange_through_shared_memory_with_a_barrier() -> None:
    execution, arena = run(module(EXCHANGE.format(barrier="bar.sync 0;"), shared=SHARED), [out(64)], block=64)
    assert column(execution, arena) == [63 - t for t in range(64)]
    assert kinds(execution) == []


def test_exchange_without_the_barrier_is_a_race() -> None:
    execution, _ = run(module(EXCHANGE.format(barrier=""), shared=SHARED), [out(64)], block=64)
    assert kinds(execution) == ["data race"]


def test_barrier_that_half_the_warps_never_reach_is_a_deadlock() -> None:
    body = OWN + "setp.lt.u32 %p1, %r0, 32;\n@%p1 bra W;\nbra E;\nW:\nbar.sync 1, 64;\nE:\nst.global.u32 [%d1], %r0;"
    execution, _ = run(module(body), [out(64)], block=64)
    assert "deadlock" in kinds(execution)
    finding = next(f for f in execution.findings if f.kind == "deadlock")
    assert "32 of 64" in finding.message and finding.sites[0].warp == 0


def test_the_same_barrier_with_a_count_of_one_warp_completes() -> None:
    body = OWN + "setp.lt.u32 %p1, %r0, 32;\n@%p1 bra W;\nbra E;\nW:\nbar.sync 1, 32;\nE:\nst.global.u32 [%d1], %r0;"
    execution, arena = run(module(body), [out(64)], block=64)
    assert kinds(execution) == [] and column(execution, arena) == list(range(64))


def test_barrier_in_a_branch_of_single_lanes_is_misuse() -> None:
    body = OWN + "setp.lt.u32 %p1, %r0, 5;\n@%p1 bar.sync 0;\nst.global.u32 [%d1], %r0;"
    execution, _ = run(module(body), [out(32)])
    assert "barrier misuse" in kinds(execution)


@pytest.mark.parametrize(("reduce", "expected"), [("popc.u32", 20), ("and.pred", 0), ("or.pred", 1)])
def test_barrier_reduction(reduce: str, expected: int) -> None:
    target = "%r2" if reduce.startswith("popc") else "%p2"
    tail = "" if reduce.startswith("popc") else "selp.u32 %r2, 1, 0, %p2;\n"
    body = OWN + f"setp.lt.u32 %p1, %r0, 20;\nbar.red.{reduce} {target}, 0, %p1;\n{tail}st.global.u32 [%d1], %r2;"
    execution, arena = run(module(body), [out(64)], block=64)
    assert column(execution, arena) == [expected] * 64


@pytest.mark.parametrize(("arm", "named"), [("bar.sync 0;", "@%p1 bra E;"), ("st.global.u32 [%d1], %r0;", "st.global.u32")])
def test_branch_on_symbolic_data_is_refused_with_its_line(arm: str, named: str) -> None:
    """The branch where an arm does what cannot be done for some lanes only; the store that keeps what was never written."""
    body = OWN + "ld.param.u64 %d5, [x];\nld.global.f32 %f1, [%d5];\nsetp.gt.f32 %p1, %f1, 0f00000000;\n@%p1 bra E;\n" + arm + "\nE:"
    text = module(body, ("u64 out", "u64 x"))
    with pytest.raises(NotStructuredError) as caught:
        run(text, [out(32), TensorArg("x", "f32", (4,), Role.IN)])
    assert caught.value.span is not None
    assert text.splitlines()[caught.value.span.line - 1].startswith(named)


def test_index_from_a_symbolic_integer_is_refused_and_from_contents_is_not() -> None:
    body = (
        OWN + "ld.param.u64 %d5, [x];\nmad.wide.s32 %d6, %r0, 4, %d5;\nld.global.u32 %r1, [%d6];\n"
        "mad.wide.s32 %d7, %r1, 4, %d0;\nst.global.u32 [%d7], %r0;"
    )
    text = module(body, ("u64 out", "u64 x"))
    with pytest.raises(NotStructuredError):
        run(text, [out(32), TensorArg("x", "s32", (32,), Role.IN)])
    execution, arena = run(text, [out(32), ints("x", [31 - t for t in range(32)])])
    assert column(execution, arena) == [31 - t for t in range(32)]


def test_endless_loop_runs_out_of_budget() -> None:
    with pytest.raises(BudgetError):
        run(module("mov.u32 %r1, 0;\nL:\nadd.u32 %r1, %r1, 1;\nbra L;"), [out(1)], budget=Budget(thread_instructions=100_000))


def test_a_loop_that_nothing_can_end_is_a_deadlock() -> None:
    (finding,) = run(module("L:\nbra L;"), [out(1)])[0].findings
    assert finding.kind == "deadlock" and "a loop that loads nothing" in finding.message


def test_unknown_instruction_is_named_with_its_line() -> None:
    with pytest.raises(UnsupportedError) as caught:
        run(module("vadd2.s32.s32.s32 %r1, %r2, %r3, %r4;"), [out(1)])
    assert "vadd2" in caught.value.feature and caught.value.span is not None


@pytest.mark.parametrize(
    ("args", "word"),
    [
        ([], "takes 1 parameters"),
        ([out(1), scalar("n", 3)], "takes 1 parameters"),
        ([ScalarArg("out", "f64", 1.5)], ""),
    ],
)
def test_arguments_must_fit_the_parameters(args: list, word: str) -> None:
    if word:
        with pytest.raises(LaunchError, match=word):
            run(module(""), args)
    else:
        run(module(""), args)


def test_block_must_fit_reqntid() -> None:
    with pytest.raises(LaunchError, match="requires a block"):
        run(module("", directives=".reqntid 64"), [out(1)], block=32)
    run(module("", directives=".reqntid 32"), [out(1)], block=32)


@pytest.mark.parametrize(
    "before, right, directives, word",
    [
        (".shared .b8 q[];", ".extern .shared .b8 q[];", "", "no size"),
        (".global .b8 q[];", ".global .b8 q[] = {1, 2};", "", "no size"),
        (
            ".func f(.reg .b32 a);\n.func f(.reg .b64 a) { ret; }",
            ".func f(.reg .b32 a);\n.func f(.reg .u32 a) { ret; }",
            "",
            "other parameters",
        ),
        ("", "", ".maxntid 32 .reqntid 32", "do not stand together"),
    ],
)
def test_what_the_module_contradicts_is_named(before: str, right: str, directives: str, word: str) -> None:
    def text(head: str, directives: str = "") -> str:
        return module("", directives=directives).replace(".visible .entry", f"{head}\n.visible .entry")

    with pytest.raises(ParseError, match=word):
        run(text(before, directives), [out(1)], block=32)
    run(text(right), [out(1)], block=32)


def test_register_written_under_a_predicate_is_read_by_its_writers_only() -> None:
    body = OWN + "setp.lt.u32 %p1, %r0, 10;\n@%p1 add.s32 %r9, %r0, 7;\n{use} st.global.u32 [%d1], %r9;"
    execution, arena = run(module(body.format(use="@%p1")), [out(32)])
    assert column(execution, arena) == [t + 7 for t in range(10)]
    with pytest.raises(NotStructuredError, match="written"):
        run(module(body.format(use="")), [out(32)])


def test_register_written_on_one_path_is_unwritten_on_the_other() -> None:
    body = OWN + (
        "setp.lt.u32 %p1, %r0, 10;\n@!%p1 bra JOIN;\nadd.s32 %r9, %r0, 7;\nJOIN:\n{guard}\n"
        "add.s32 %r10, %r9, 1;\nst.global.u32 [%d1], %r10;"
    )
    execution, arena = run(module(body.format(guard="@!%p1 exit;")), [out(32)])
    assert column(execution, arena) == [t + 8 for t in range(10)]
    with pytest.raises(NotStructuredError, match="written"):
        run(module(body.format(guard="")), [out(32)])


def test_register_never_written_is_refused() -> None:
    with pytest.raises(NotStructuredError, match="read before it is written"):
        run(module(OWN + "add.s32 %r1, %r2, 1;\nst.global.u32 [%d1], %r1;"), [out(32)])
