"""Strong loads and stores, and loops that wait for them: the schedule goes on, order is seen, a value that never comes is a deadlock."""

from __future__ import annotations

import numpy as np
import pytest
from machine_kernels import column, ints, kinds, module, out, run

from ptx_engine.errors import BudgetError
from ptx_engine.launch import Launch, Role, TensorArg, bind
from ptx_engine.machine import Budget, execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena

PARAMS = ("u64 data", "u64 flag", "u64 out")
HANDOVER = """
ld.param.u64 %d0, [data]; ld.param.u64 %d1, [flag]; ld.param.u64 %d2, [out]; mov.u32 %r0, %ctaid.x; mov.u32 %r9, %tid.x;
mul.wide.u32 %d4, %r9, 4; setp.ne.u32 %p1, %r0, CONSUMER; @%p1 bra PRODUCER;
LOOP: ld.LOAD.global.b32 %r1, [%d1]; setp.ne.s32 %p2, %r1, 1; @%p2 bra LOOP;
add.s64 %d3, %d0, %d4; ld.global.b32 %r2, [%d3]; add.s64 %d3, %d2, %d4; st.global.b32 [%d3], %r2; bra DONE;
PRODUCER: add.s64 %d3, %d0, %d4; st.global.b32 [%d3], %r9; bar.sync 0; setp.ne.u32 %p3, %r9, 0; @%p3 bra DONE;
st.STORE.global.b32 [%d1], VALUE;
DONE:
"""


def zeros(name: str, count: int) -> TensorArg:
    return TensorArg(name, "s32", (count,), Role.INOUT, contents=np.zeros(count, np.int32))


def handover(consumer: int, load: str = "acquire.gpu", store: str = "release.gpu", value: int = 1) -> str:
    body = HANDOVER.replace("CONSUMER", str(consumer)).replace("LOAD", load).replace("STORE", store).replace("VALUE", str(value))
    return module(body, PARAMS)


@pytest.mark.parametrize("consumer", [0, 1])
def test_a_flag_hands_data_over(consumer: int) -> None:
    run_, arena = run(handover(consumer), [zeros("data", 32), zeros("flag", 1), out(32)], block=32, grid=2)
    assert kinds(run_) == [] and run_.schedule_dependent == []
    assert column(run_, arena) == list(range(32))


@pytest.mark.parametrize(("load", "store"), [("acquire.gpu", "relaxed.gpu"), ("acquire.gpu", "volatile"), ("relaxed.gpu", "release.gpu"),
                                             ("volatile", "release.gpu"), ("acquire.cta", "release.gpu")])  # fmt: skip
def test_a_flag_without_order_is_a_race(load: str, store: str) -> None:
    run_, _ = run(handover(1, load, store), [zeros("data", 32), zeros("flag", 1), out(32)], block=32, grid=2)
    assert "data race" in kinds(run_)


@pytest.mark.parametrize("consumer", [0, 1])
def test_a_value_that_is_never_stored_is_a_deadlock(consumer: int) -> None:
    run_, _ = run(handover(consumer, value=2), [zeros("data", 32), zeros("flag", 1), out(32)], block=32, grid=2)
    assert kinds(run_) == ["deadlock"]
    assert "no thread stores" in run_.findings[0].message


def test_a_cta_that_does_not_run_is_no_deadlock() -> None:
    text = handover(0)
    launch = Launch((2, 1, 1), (32, 1, 1), (zeros("data", 32), zeros("flag", 1), out(32)), ctas=((0, 0, 0),))
    with pytest.raises(BudgetError, match="does not run together"):
        execute(parse(text), None, bind(launch, Arena()))


LOCK = """
ld.param.u64 %d1, [flag]; ld.param.u64 %d2, [out];
L: atom.acquire.gpu.global.cas.b32 %r1, [%d1], 0, 1; setp.ne.s32 %p1, %r1, 0; @%p1 bra L;
ld.global.b32 %r2, [%d2]; add.s32 %r2, %r2, 1; st.global.b32 [%d2], %r2;
atom.release.gpu.global.exch.b32 %r3, [%d1], 0;
"""


def test_a_spin_lock_lets_every_lane_in() -> None:
    run_, arena = run(module(LOCK, ("u64 flag", "u64 out")), [zeros("flag", 1), zeros("out", 1)], block=32, grid=2)
    assert kinds(run_) == [] and column(run_, arena) == [64]
    assert run_.schedule_dependent, "who enters when is up to the schedule"


def test_a_lock_that_is_never_released_is_a_deadlock() -> None:
    text = module(LOCK.replace("atom.release.gpu.global.exch.b32 %r3, [%d1], 0;", ""), ("u64 flag", "u64 out"))
    run_, _ = run(text, [zeros("flag", 1), zeros("out", 1)], block=32)
    assert kinds(run_) == ["deadlock"]


def test_a_counting_loop_of_strong_loads_ends() -> None:
    body = (
        "ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out]; mov.u32 %r1, 0; mov.u32 %r2, 0;\n"
        "L: mul.wide.u32 %d3, %r1, 4; add.s64 %d4, %d1, %d3; ld.volatile.global.b32 %r3, [%d4]; add.s32 %r2, %r2, %r3; add.s32 %r1, %r1, 1;\n"
        "setp.lt.s32 %p1, %r1, 8; @%p1 bra L; st.global.b32 [%d2], %r2;\n"
    )
    run_, arena = run(module(body, ("u64 in", "u64 out")), [ints("in", range(8)), out(1)], block=1)
    assert kinds(run_) == [] and column(run_, arena) == [28] and run_.schedule_dependent == []


def test_a_strong_load_of_written_memory_depends_on_the_schedule() -> None:
    body = "ld.param.u64 %d1, [flag]; mov.u32 %r0, %tid.x; st.volatile.global.b32 [%d1], 1; ld.volatile.global.b32 %r1, [%d1]; st.global.b32 [%d1+4], %r1;\n"
    run_, _ = run(module(body, ("u64 flag",)), [zeros("flag", 2)], block=1)
    assert run_.schedule_dependent == [], "nobody else has written it"
    run_, _ = run(module(body, ("u64 flag",)), [zeros("flag", 2)], block=2)
    assert run_.schedule_dependent


def test_vector_atomics_add_each_element() -> None:
    body = "ld.param.u64 %d1, [out]; red.global.add.v2.f32 [%d1+OFF], {%f1, %f2}; atom.global.v2.f32.add {%f3, %f4}, [%d1], {%f2, %f1};\n"
    body = "mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000;\n" + body
    target = TensorArg("out", "f32", (4,), Role.INOUT, contents=np.zeros(4, np.float32))
    run_, arena = run(module(body.replace("OFF", "8")), [target], block=4)
    ids = run_.footprints["out"].ids
    assert kinds(run_) == [] and [float(arena.consts[int(i)].coef) for i in ids] == [8, 4, 4, 8]
    run_, _ = run(module(body.replace("OFF", "16")), [target], block=4)
    assert kinds(run_) == ["out of bounds"]


def test_a_loop_that_nothing_reaches_is_no_loop() -> None:
    """Its blocks are not in the graph."""
    body = "ld.param.u64 %d1, [flag]; ld.param.u64 %d2, [out]; mov.u32 %r9, 7; st.global.b32 [%d2], %r9; ret;\n"
    spin = "LOST: ld.acquire.gpu.global.b32 %r1, [%d1]; setp.ne.s32 %p2, %r1, 1; @%p2 bra LOST; ret;\n"
    for text in (body, body + spin):
        run_, arena = run(module(text, PARAMS), [zeros("data", 1), zeros("flag", 1), out(1)], block=1)
        assert kinds(run_) == [] and column(run_, arena) == [7]


SPIN = """
ld.param.u64 %d0, [data]; ld.param.u64 %d1, [flag]; ld.param.u64 %d2, [out]; mov.u32 %r0, %tid.x; setp.eq.u32 %p1, %r0, 32; @%p1 bra LOOP;
setp.ne.u32 %p1, %r0, 0; @%p1 bra DONE; st.global.b32 [%d0], 7; red.release.gpu.global.add.u32 [%d1], 1; bra DONE;
LOOP: {look}; setp.eq.u32 %p2, %r1, 0; @%p2 bra LOOP; {after}
ld.global.b32 %r2, [%d0]; st.global.b32 [%d2], %r2; DONE:
"""


@pytest.mark.parametrize(
    ("look", "after", "found", "depends"),
    [
        ("atom.acquire.gpu.global.add.u32 %r1, [%d1], 0", "", [], False),
        ("atom.relaxed.gpu.global.add.u32 %r1, [%d1], 0", "", ["data race"], False),
        ("atom.global.or.b32 %r1, [%d1], 0", "membar.gl;", [], False),
        ("atom.acquire.gpu.global.add.u32 %r1, [%d1], 0", "st.global.b32 [%d2+4], %r1;", [], True),
        ("atom.acquire.gpu.global.add.u32 %r1, [%d1], 1", "", ["data race"], True),  # it counts itself
        ("atom.acquire.gpu.global.and.b32 %r1, [%d1], 0", "", ["deadlock"], None),  # it takes back what was counted
    ],
)
def test_an_atomic_that_leaves_what_it_finds_only_looks(look: str, after: str, found: list[str], depends: bool | None) -> None:
    run_, _ = run(module(SPIN.format(look=look, after=after), PARAMS), [zeros("data", 1), zeros("flag", 1), out(2)], block=64)
    assert depends is None or (kinds(run_) == found and bool(run_.schedule_dependent) == depends)
    assert found != ["deadlock"] or run_.schedule_dependent


#: how a thread spins on a flag by plain loads: in each turn, or once, as the compiler moves the load out of the loop
SPINS = {"each turn": "L: ld.global.b32 %r1, [%d1]; setp.ne.s32 %p2, %r1, 1; @%p2 bra L;\n",
         "moved out": "ld.global.b32 %r1, [%d1]; setp.ne.s32 %p2, %r1, 1; L: @%p2 bra L;\n"}  # fmt: skip


@pytest.mark.parametrize("how", SPINS)
@pytest.mark.parametrize("told", [1, 0])
@pytest.mark.parametrize("store", ["st.relaxed.gpu.global.b32", "st.global.b32"])
def test_a_spin_by_plain_loads_is_a_race_at_once(how: str, told: int, store: str) -> None:
    """It lets the others run, who meet at a barrier before one raises the flag; the budget would be spent on its turns else."""
    body = (
        "ld.param.u64 %d0, [data]; ld.param.u64 %d1, [flag]; ld.param.u64 %d2, [out]; mov.u32 %r0, %ctaid.x; mov.u32 %r9, %tid.x;\n"
        f"setp.ne.u32 %p1, %r0, 0; @%p1 bra C; bar.sync 0; setp.ne.u32 %p3, %r9, 0; @%p3 bra E; {store} [%d1], {told}; bra E;\n"
        "C: " + SPINS[how] + "E:\n"
    )
    run_, _ = run(module(body, PARAMS), [zeros("data", 32), zeros("flag", 1), out(32)], block=32, grid=2, budget=Budget(seconds=30))
    found = kinds(run_)
    assert "data race" in found and ("deadlock" in found) is (how == "moved out" or not told)


@pytest.mark.parametrize("how", SPINS)
@pytest.mark.parametrize(("value", "found"), [(0, ["deadlock"]), (1, [])])
def test_a_spin_by_plain_loads_that_nobody_tells_is_a_deadlock(how: str, value: int, found: list[str]) -> None:
    """There is no strong access at all, nor a store to what it looks at; its twin's flag is up from the start."""
    body = "ld.param.u64 %d1, [flag]; ld.param.u64 %d2, [out]; mov.u32 %r9, %tid.x;\n" + SPINS[how] + (
        "mad.wide.u32 %d3, %r9, 4, %d2; st.global.b32 [%d3], %r9;\n"
    )  # fmt: skip
    run_, _ = run(module(body, PARAMS), [zeros("data", 1), ints("flag", [value]), out(32)], block=32, budget=Budget(seconds=30))
    assert kinds(run_) == found


def test_a_loop_of_plain_loads_that_counts_its_turns_is_none_that_spins() -> None:
    """A reduction looks like one, but for what it carries."""
    body = (
        "ld.param.u64 %d0, [data]; ld.param.u64 %d2, [out]; mov.u32 %r1, 0; mov.u32 %r2, 0;\n"
        "L: ld.global.b32 %r3, [%d0]; add.u32 %r2, %r2, %r3; add.s64 %d0, %d0, 4; add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 32; @%p2 bra L;\n"
        "mov.u32 %r9, %tid.x; mad.wide.u32 %d3, %r9, 4, %d2; st.global.b32 [%d3], %r2;\n"
    )
    run_, arena = run(module(body, PARAMS), [ints("data", range(32)), zeros("flag", 1), out(32)], block=32)
    assert kinds(run_) == [] and column(run_, arena) == [sum(range(32))] * 32


#: lanes wait in a loop, in which they meet lane 0 of their warp {rounds} times before it tells them
ROUNDS = {
    "warp syncs": "L: bar.warp.sync -1; ld.{load}shared.b32 %r3, [s]; bar.warp.sync -1; setp.eq.u32 %p2, %r3, 0; @%p2 bra L; bra E;\n"
                  "P: setp.eq.u32 %p3, %r4, {rounds}; @%p3 st.{load}shared.b32 [s], 1; bar.warp.sync -1; bar.warp.sync -1;\n",
    "shuffles": "L: ld.{load}global.b32 %r5, [%d0]; shfl.sync.idx.b32 %r3, %r5, 0, 31, -1; setp.ne.u32 %p2, %r3, {rounds}; @%p2 bra L; bra E;\n"
                "P: shfl.sync.idx.b32 %r3, %r4, 0, 31, -1;\n",
}  # fmt: skip


@pytest.mark.parametrize("how", ROUNDS)
@pytest.mark.parametrize("load", ["", "relaxed.cta."])
@pytest.mark.parametrize(("rounds", "found"), [(5, []), (6, ["deadlock"])])
def test_who_waits_in_a_loop_meets_others_of_its_warp_there(how: str, load: str, rounds: int, found: list[str]) -> None:
    """They go on though nothing is stored; a round too many, in which lane 0 comes no more, and nobody tells them."""
    tail = "add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 6; @%p3 bra P; E: bar.warp.sync -1; mad.wide.u32 %d3, %r9, 4, %d2; st.global.b32 [%d3], %r9;\n"
    body = (
        "ld.param.u64 %d0, [data]; ld.param.u64 %d2, [out]; mov.u32 %r9, %tid.x; mov.u32 %r4, 0; setp.eq.u32 %p1, %r9, 0;\n"
        "@%p1 st.shared.b32 [s], 0; bar.warp.sync -1; @%p1 bra P;\n" + ROUNDS[how].format(load=load, rounds=rounds) + tail
    )
    text = module(body, PARAMS, shared=".shared .align 4 .b32 s;")
    run_, _ = run(text, [zeros("data", 1), zeros("flag", 1), out(32)], block=32, budget=Budget(seconds=30))
    assert kinds(run_) == found


@pytest.mark.parametrize(("mask", "found"), [("activemask.b32 %r1;", []), ("mov.b32 %r1, -1;", ["deadlock"])])
def test_a_loop_that_lanes_leave_one_after_another_ends(mask: str, found: list[str]) -> None:
    """The lowest active lane leaves; its twin's is the lowest lane of all in each turn."""
    body = (
        "ld.param.u64 %d1, [flag]; ld.param.u64 %d2, [out]; mov.u32 %r9, %tid.x; mov.u32 %r2, 1; shl.b32 %r2, %r2, %r9;\n"
        f"L: {mask} neg.s32 %r3, %r1; and.b32 %r3, %r1, %r3; ld.global.b32 %r4, [%d1]; or.b32 %r3, %r3, %r4;\n"
        "setp.ne.u32 %p1, %r3, %r2; @%p1 bra L; bar.warp.sync -1; mad.wide.u32 %d3, %r9, 4, %d2; st.global.b32 [%d3], %r9;\n"
    )
    run_, _ = run(module(body, PARAMS), [zeros("data", 1), zeros("flag", 1), out(32)], block=32, budget=Budget(seconds=30))
    assert kinds(run_) == found


@pytest.mark.parametrize("ctas", [1, 2])
def test_a_loop_that_nothing_can_end_waits_for_no_other_cta(ctas: int) -> None:
    text = module("L: bra L;\n", PARAMS)
    run_, _ = run(text, [zeros("data", 1), zeros("flag", 1), out(32)], grid=ctas, budget=Budget(seconds=30, batch_threads=32))
    (finding,) = run_.findings
    assert finding.kind == "deadlock" and finding.count == ctas
