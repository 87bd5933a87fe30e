"""In-place kernels with more threads than elements: what the surplus threads read harms nobody, unless it can leave them.

64 threads double 16 elements in place; thread t works on element t % 16, and a thread stores only where the case says so.
"""

from __future__ import annotations

import numpy as np
import pytest
from machine_kernels import module, run

from ptx_engine.findings import Severity
from ptx_engine.launch import Role, TensorArg
from ptx_engine.machine import Execution

ELEMENTS, THREADS = 16, 64

HEAD = (
    "ld.param.u64 %d0, [x];\nmov.u32 %r0, %tid.x;\nand.b32 %r1, %r0, 15;\nmad.wide.u32 %d1, %r1, 4, %d0;\n"
    "setp.lt.u32 %p0, %r0, 16;\nsetp.lt.u32 %p1, %r0, 32;\n"
)
LOAD = "ld.global.b32 %r2, [%d1];\n"
DOUBLE = "add.f32 %r3, %r2, %r2;\n"
STORE = "@%p0 st.global.b32 [%d1], %r3;\n"
#: lane by lane from another lane of the warp
MOVE = "shfl.sync.bfly.b32 %r3, %r3, {lanes}, 31, 0xffffffff;\n"
OTHER = "ld.param.u64 %d4, [y];\nmad.wide.u32 %d5, %r0, 4, %d4;\n"
LOCAL = ".local .align 4 .b8 depot[16];"
SHARED = ".shared .align 4 .b8 s[256];"


def execute(body: str, contents: "np.ndarray | None" = None, shared: str = "") -> Execution:
    dtype = "f32" if contents is None else "s32"
    args = (
        TensorArg("x", dtype, (ELEMENTS,), Role.INOUT, contents="symbolic" if contents is None else contents),
        TensorArg("y", dtype, (THREADS,), Role.INOUT),
    )
    return run(module(HEAD + body, ("u64 x", "u64 y"), shared=shared), args, block=THREADS)[0]


def outcome(execution: Execution) -> dict[str, Severity]:
    return {f.kind: f.severity for f in execution.findings if f.space == "global"}


UNUSED = {"unused read": Severity.NOTE}
RACE = {"data race": Severity.ERROR}
BOTH = {**UNUSED, **RACE}


def test_surplus_threads_read_what_others_overwrite() -> None:
    execution = execute(LOAD + DOUBLE + STORE)
    assert outcome(execution) == UNUSED
    (note,) = execution.findings
    assert note.count == ELEMENTS * (THREADS // ELEMENTS - 1)
    assert (note.tensor, note.details["conflict"]) == ("x", "R/W")
    assert sorted(site.role for site in note.sites) == ["load", "store"]
    assert len(execution.footprints["x"].index) == ELEMENTS


@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        ("a thread that stores nothing before or after", LOAD + DOUBLE + STORE, UNUSED),
        ("a surplus thread that stores what it read", LOAD + DOUBLE + OTHER + STORE + "st.global.b32 [%d5], %r3;", RACE),
        ("one warp's surplus threads store", LOAD + DOUBLE + OTHER + STORE + "@%p1 st.global.b32 [%d5], %r3;", BOTH),
        ("a surplus thread that adds what it read", LOAD + DOUBLE + STORE + OTHER + "@%p1 red.global.add.f32 [%d5], %r3;", BOTH),
        ("lanes of storing warps exchange values", LOAD + DOUBLE + MOVE.format(lanes=16) + STORE, BOTH),
        ("lanes of one half exchange values", LOAD + DOUBLE + MOVE.format(lanes=8) + MOVE.format(lanes=4) + STORE, UNUSED),
        ("lanes of one half, then the halves", LOAD + DOUBLE + MOVE.format(lanes=8) + MOVE.format(lanes=16) + STORE, BOTH),
        ("all lanes read a storing lane", LOAD + DOUBLE + "shfl.sync.idx.b32 %r3, %r3, 5, 31, 0xffffffff;\n" + STORE, UNUSED),
        ("all lanes read another lane", LOAD + DOUBLE + "shfl.sync.idx.b32 %r3, %r3, 20, 31, 0xffffffff;\n" + STORE, BOTH),
        ("lane by lane, sources that differ",
         LOAD + DOUBLE + "xor.b32 %r9, %r0, 16;\nshfl.sync.idx.b32 %r3, %r3, %r9, 31, 0xffffffff;\n" + STORE, BOTH),
        ("lane by lane, sources that stay in the half",
         LOAD + DOUBLE + "xor.b32 %r9, %r0, 1;\nshfl.sync.idx.b32 %r3, %r3, %r9, 31, 0xffffffff;\n" + STORE, UNUSED),
        ("lanes exchange something else", LOAD + DOUBLE + "shfl.sync.bfly.b32 %r9, %r0, 16, 31, 0xffffffff;\n" + STORE, UNUSED),
        ("a surplus thread keeps it in local memory", LOAD + DOUBLE + STORE + "mov.u32 %r5, depot;\nst.local.b32 [%r5], %r3;", UNUSED),
        ("a barrier that asks nothing", LOAD + DOUBLE + STORE + "bar.sync 0;", UNUSED),
    ],
    ids=lambda value: value if isinstance(value, str) and ";" not in value else "",
)  # fmt: skip
def test_what_a_thread_reads_matters_where_it_can_leave(name: str, body: str, expected: dict[str, Severity]) -> None:
    assert outcome(execute(LOCAL + body)) == expected


def test_storing_to_shared_memory_is_an_effect() -> None:
    own = "mov.u32 %r5, s;\nmad.lo.u32 %r5, %r0, 4, %r5;\n"
    assert outcome(execute(LOAD + DOUBLE + STORE + own + "st.shared.b32 [%r5], %r3;", shared=SHARED)) == RACE
    assert outcome(execute(LOAD + DOUBLE + STORE + own + "@%p1 st.shared.b32 [%r5], %r3;", shared=SHARED)) == BOTH


def test_a_copy_to_shared_memory_is_an_effect() -> None:
    copy = "mov.u32 %r5, s;\nmad.lo.u32 %r5, %r0, 4, %r5;\ncp.async.ca.shared.global [%r5], [%d1], 4;\ncp.async.wait_all;"
    assert outcome(execute("mov.f32 %r3, 0f40000000;\n" + STORE + copy, shared=SHARED)) == RACE


CONTENTS = np.arange(ELEMENTS, dtype=np.int32)
KEEP = "add.u32 %r3, %r2, %r2;\n"
ASK = "setp.gt.s32 %p5, %r2, 100;\n"


@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        ("concrete contents that stay data", LOAD + KEEP + STORE, UNUSED),
        ("a branch", LOAD + KEEP + STORE + ASK + "@%p5 bra L;\nmov.u32 %r9, 0;\nL:\n", RACE),
        ("a branch through arithmetic",
         LOAD + KEEP + STORE + "mul.lo.u32 %r4, %r3, 3;\nsetp.gt.s32 %p5, %r4, 900;\n@%p5 bra L;\nL:\n", RACE),
        ("the guard of a store", LOAD + KEEP + STORE + ASK + OTHER + "@%p5 st.global.b32 [%d5], %r3;", RACE),
        ("the guard of an exit", LOAD + KEEP + STORE + ASK + "@%p5 exit;", RACE),
        ("the guard of arithmetic", LOAD + KEEP + STORE + ASK + "@%p5 add.u32 %r6, %r2, 1;", UNUSED),
        ("an address", LOAD + KEEP + STORE + OTHER + "mad.wide.u32 %d6, %r2, 4, %d0;\nld.global.b32 %r7, [%d6];", BOTH),
        ("a member mask", LOAD + KEEP + STORE + "or.b32 %r4, %r2, 0xffffffff;\nvote.sync.any.pred %p6, %p0, %r4;", RACE),
        ("a source lane",
         LOAD + KEEP + STORE + "shfl.sync.idx.b32 %r8, %r0, %r2, 31, 0xffffffff;\nst.global.b32 [%d1], %r8;".replace("st.", "@%p0 st."), RACE),
        ("a vote of other lanes decides a branch",
         LOAD + KEEP + STORE + ASK + "vote.sync.any.pred %p6, %p5, 0xffffffff;\n@%p6 bra L;\nL:\n", RACE),
        ("a vote that decides nothing", LOAD + KEEP + STORE + ASK + "vote.sync.any.pred %p6, %p5, 0xffffffff;", BOTH),
        ("a barrier that asks for it", LOAD + KEEP + STORE + ASK + "barrier.red.or.pred %p6, 0, %p5;", RACE),
        ("a branch on what local memory kept",
         LOAD + KEEP + STORE + "mov.u32 %r5, depot;\nst.local.b32 [%r5], %r2;\nld.local.b32 %r6, [%r5];\n"
         "setp.gt.s32 %p5, %r6, 100;\n@%p5 bra L;\nL:\n", RACE),
        ("a branch on what local memory held before",
         LOAD + KEEP + STORE + "mov.u32 %r5, depot;\nst.local.b32 [%r5], %r0;\nld.local.b32 %r6, [%r5];\n"
         "setp.gt.s32 %p5, %r6, 100;\n@%p5 bra L;\nL:\n", UNUSED),
    ],
    ids=lambda value: value if isinstance(value, str) and ";" not in value else "",
)  # fmt: skip
def test_a_value_that_decides_anything_is_no_unused_read(name: str, body: str, expected: dict[str, Severity]) -> None:
    assert outcome(execute(LOCAL + body, CONTENTS)) == expected


def test_the_same_kernel_without_surplus_threads_is_clean() -> None:
    body = HEAD.replace("and.b32 %r1, %r0, 15", "mov.u32 %r1, %r0") + LOAD + DOUBLE + "st.global.b32 [%d1], %r3;"
    args = (TensorArg("x", "f32", (THREADS,), Role.INOUT), TensorArg("y", "f32", (THREADS,), Role.OUT))
    assert run(module(body, ("u64 x", "u64 y")), args, block=THREADS)[0].findings == []


def test_batches_and_a_thin_memory_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from ptx_engine.machine import Budget
    from ptx_engine.order import globals as global_log

    monkeypatch.setattr(global_log, "LIMIT", 8)
    args = (TensorArg("x", "f32", (ELEMENTS,), Role.INOUT), TensorArg("y", "f32", (THREADS,), Role.OUT))
    body = HEAD + "mov.u32 %r8, %ctaid.x;\nsetp.eq.and.u32 %p0, %r8, 1, %p0;\n" + LOAD + DOUBLE + STORE
    for batch in (THREADS, 3 * THREADS):
        execution, _ = run(module(body, ("u64 x", "u64 y")), args, block=THREADS, grid=3, budget=Budget(batch_threads=batch))
        assert outcome(execution) == UNUSED
        assert sum(f.count for f in execution.findings) == ELEMENTS * (3 * THREADS // ELEMENTS - 1)
