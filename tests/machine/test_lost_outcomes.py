"""Outcomes of single tests of mbarriers that are lost sight of: what a success may order is unknown, what none orders is a race."""

from __future__ import annotations

import pytest
from machine_kernels import OWN, kinds, module, out, run

from ptx_engine.errors import BudgetError
from ptx_engine.machine import Execution
from ptx_engine.machine.executor import Machine

#: thread by thread: %r11 its own word of s and %r13 the next thread's; two mbarriers of all threads at %r10; %p9: its warp's first one;
#: %r15: a flag of its warp
SHARED = ".shared .align 8 .b64 m[4];\n.shared .align 16 .b8 s[512];"
START = OWN + (
    ".local .align 4 .b8 spill[4];\nmov.u32 %r10, m;\nmov.u32 %r12, s;\nmad.lo.u32 %r11, %r0, 4, %r12;\nadd.u32 %r13, %r0, 1;\n"
    "rem.u32 %r13, %r13, %r51;\nmad.lo.u32 %r13, %r13, 4, %r12;\nsetp.eq.u32 %p1, %r0, 0;\n@%p1 mbarrier.init.shared.b64 [%r10], 64;\n"
    "@%p1 mbarrier.init.shared.b64 [%r10+8], 64;\nmov.u32 %r14, %r10;\nand.b32 %r16, %r0, 31;\nsetp.eq.u32 %p9, %r16, 0;\n"
    "sub.u32 %r15, %r0, %r16;\nshr.u32 %r15, %r15, 3;\nadd.u32 %r15, %r15, %r10;\n@%p9 st.shared.u32 [%r15+16], 0;\nbar.sync 0;\n"
)
STORE = "st.shared.u32 [%r11], %r0;\n"
ARRIVE = "mbarrier.arrive.shared.b64 _, [%r10];\nmbarrier.arrive.shared.b64 _, [%r10+8];\n"
LOAD = "ld.shared.u32 %r5, [%r13];\nst.global.u32 [%d1], %r5;\nE:\n"
TEST = "mbarrier.test_wait.parity.shared.b64 {}, [%r10{}], 0;\n"
FIRST, SECOND = TEST.format("%p5", ""), TEST.format("%p7", "+8")
TOLD = "bar.warp.sync -1;\nld.shared.u32 %r21, [%r15+16];\nsetp.ne.u32 %p6, %r21, 0;\n@!%p6 bra E;\n"
SHUFFLED = "selp.u32 %r20, 1, 0, %p5;\nshfl.sync.idx.b32 %r21, %r20, 0, 31, -1;\nsetp.ne.u32 %p6, %r21, 0;\n@!%p6 bra E;\n"
#: ways on that hang on a success, of which nothing is known at the load
LOST = {
    "either of two": FIRST + SECOND + "or.pred %p6, %p5, %p7;\n@!%p6 bra E;\n",
    "either of two, one by one": FIRST + "@%p5 bra D;\n" + SECOND + "@!%p7 bra E;\nD:\n",
    "either of two, in a loop": "L:\n" + FIRST + "@%p5 bra D;\n" + SECOND + "@!%p7 bra L;\nD:\n",
    "either of two, or an end": FIRST + SECOND + "or.pred %p6, %p5, %p7;\n@!%p6 exit;\n",
    "spilled": FIRST + "selp.u32 %r20, 1, 0, %p5;\nst.local.u32 [spill], %r20;\nld.local.u32 %r21, [spill];\nsetp.ne.u32 %p6, %r21, 0;\n"
               "@!%p6 bra E;\n",
    "told by a lane": "@!%p9 bra N;\n" + FIRST + "selp.u32 %r20, 1, 0, %p5;\nst.shared.u32 [%r15+16], %r20;\nN:\n" + TOLD,
    "told by a lane that is past it": "@!%p9 bra N;\n" + FIRST + "@%p5 st.shared.u32 [%r15+16], 1;\nN:\n" + TOLD,
    "voted for by any lane": FIRST + "vote.sync.any.pred %p6, %p5, -1;\n@!%p6 bra E;\nbar.warp.sync -1;\n",
    "until any lane has seen it": "L:\n" + FIRST + "vote.sync.any.pred %p6, %p5, -1;\n@!%p6 bra L;\nbar.warp.sync -1;\n",
    "shuffled from a lane": "setp.ne.u32 %p5, %r0, %r0;\n@%p9 " + FIRST + "bar.warp.sync -1;\n" + SHUFFLED,
    "shuffled from a lane, met later": "setp.ne.u32 %p5, %r0, %r0;\n@%p9 " + FIRST + SHUFFLED + "bar.warp.sync -1;\n",
    "reduced over the warp": FIRST + "selp.u32 %r20, 1, 0, %p5;\nredux.sync.max.u32 %r21, %r20, -1;\nsetp.ne.u32 %p6, %r21, 0;\n@!%p6 bra E;\n"
                             "bar.warp.sync -1;\n",
    "an address": FIRST + "selp.b32 %r20, %r13, %r11, %p5;\nmov.b32 %r13, %r20;\n",
    "tested again after a barrier": "L:\n" + FIRST + "bar.warp.sync -1;\n" + TEST.format("%p7", "") + "@!%p5 bra L;\n",
}  # fmt: skip
#: ways on of those who have seen no success, too
OPEN = {
    "nothing is asked": FIRST + SECOND + "or.pred %p6, %p5, %p7;\n",
    "each decides something else": "mov.u32 %r20, 0;\n" + FIRST + "@%p5 add.u32 %r20, %r20, 1;\n" + SECOND + "@%p7 mov.u32 %r20, 2;\n",
    "stored, and not asked for": FIRST + "selp.u32 %r20, 1, 0, %p5;\nst.local.u32 [spill], %r20;\n",
    "an address after a failure": FIRST + "selp.b32 %r20, %r11, %r13, %p5;\nmov.b32 %r13, %r20;\n",
    "either of two, or not": FIRST + SECOND + "or.pred %p6, %p5, %p7;\n@!%p6 bra D;\nmov.u32 %r20, 1;\nD:\n",
}


def ran(body: str) -> Execution:
    return run(text(body), [out(64)], block=64)[0]


def text(body: str) -> str:
    return module(START + body, shared=SHARED)


def races(execution: Execution) -> bool:
    return "data race" in kinds(execution)


def unknown(execution: Execution) -> list[str]:
    return [reason for reason in execution.schedule_dependent if "order the accesses in PTX lines" in reason]


@pytest.mark.parametrize("name", LOST)
def test_what_a_success_may_order_is_unknown(name: str) -> None:
    """All arrive after their stores: whichever test has succeeded, it orders them before the loads."""
    execution = ran(STORE + ARRIVE + LOST[name] + LOAD)
    assert not races(execution)
    (reason,) = unknown(execution)
    store = text(STORE)[: text(STORE).index(STORE)].count("\n") + 1
    assert f"PTX lines {store}, " in reason


@pytest.mark.parametrize("name", LOST)
def test_what_no_success_orders_is_a_race(name: str) -> None:
    execution = ran(ARRIVE + STORE + LOST[name] + LOAD)
    assert races(execution) and unknown(execution) == []


@pytest.mark.parametrize("name", OPEN)
def test_what_runs_without_a_success_is_a_race(name: str) -> None:
    """The tests fail in one of the schedules that are tried."""
    execution = ran(STORE + ARRIVE + OPEN[name] + LOAD)
    assert races(execution) and unknown(execution) == []


def test_what_the_first_of_two_orders_is_a_race_of_the_other() -> None:
    """Somebody sees the success of the second one before all have arrived on the first, which alone is told of the stores."""
    arrive = ARRIVE.split("\n")
    execution = ran(arrive[1] + "\n" + STORE + arrive[0] + "\n" + LOST["either of two"] + LOAD)
    assert races(execution) and unknown(execution) == []


@pytest.mark.parametrize("told", [SHUFFLED, "vote.sync.any.pred %p6, %p5, -1;\n@!%p6 bra E;\n"])
def test_what_a_lane_tells_without_meeting_orders_nothing(told: str) -> None:
    """Shuffles and votes exchange values: they give no memory order, so the success of one lane is none of the others."""
    execution = ran(STORE + ARRIVE + "setp.ne.u32 %p5, %r0, %r0;\n@%p9 " + FIRST + told + LOAD)
    assert races(execution) and unknown(execution) == []


@pytest.mark.parametrize(("before", "after", "found"), [(STORE, "", False), ("", STORE, True)])
def test_what_a_barrier_tells_of_one_thread(before: str, after: str, found: bool) -> None:
    """One thread of the first warp tests and tells its warp by bar.red; the second warp stores, and does not come to that barrier."""
    second = "sub.u32 %r22, %r0, %r16;\nsetp.eq.u32 %p4, %r22, 0;\n@%p4 bra W;\n" + before + ARRIVE + after + "bra E;\nW:\n" + ARRIVE
    asks = "setp.ne.u32 %p5, %r0, %r0;\n@%p9 " + FIRST + "barrier.red.or.pred %p6, 1, 32, %p5;\n@!%p6 bra E;\n"
    load = "ld.shared.u32 %r5, [%r11+128];\nst.global.u32 [%d1], %r5;\nE:\n"
    execution = ran(second + asks + load)
    assert races(execution) is found and bool(unknown(execution)) is not found


@pytest.mark.parametrize(("first", "found"), [("setp.eq.u32 %p4, %r20, 0;\n", True), ("setp.eq.u32 %p4, %r20, 1;\n", False)])
def test_a_race_is_shown_where_no_success_orders_it(first: str, found: bool) -> None:
    """One instruction stores twice, and arrives after the first or after the second store: of the loads of both only one is unordered."""
    stores = (
        "mov.u32 %r20, 0;\nmov.u32 %r22, %r11;\nA:\nst.shared.u32 [%r22], %r0;\n" + first + "@!%p4 bra B;\n" + ARRIVE + "B:\n"
        "add.u32 %r22, %r22, 256;\nadd.u32 %r20, %r20, 1;\nsetp.lt.u32 %p4, %r20, 2;\n@%p4 bra A;\n"
    )
    loads = (
        "mov.u32 %r20, 0;\nF:\nld.shared.u32 %r5, [%r13];\nadd.u32 %r13, %r13, 256;\nadd.u32 %r20, %r20, 1;\nsetp.lt.u32 %p4, %r20, 2;\n"
        "@%p4 bra F;\nst.global.u32 [%d1], %r5;\nE:\n"
    )
    execution = ran(stores + LOST["either of two"] + loads)
    offsets = [f.address_offset for f in execution.findings if f.kind == "data race"]
    second = 32 + 256  # behind the mbarriers, the flags and the first words
    assert [offset >= second for offset in offsets] == ([True] if found else []) and bool(unknown(execution)) is not found


#: a loop that tests one place after the other
IN_TURN = "L:\nxor.b32 %r14, %r14, 8;\nmbarrier.test_wait.parity.shared.b64 %p5, [%r14], 0;\n@!%p5 bra L;\n"


@pytest.mark.parametrize(("first", "second", "found"), [(STORE, "", False), ("", STORE, True)])
def test_a_loop_that_tests_one_place_after_the_other(first: str, second: str, found: bool) -> None:
    """The success that ends it is known, if not by which of the two: not proved, and no race where both order."""
    arrive = ARRIVE.split("\n")
    execution = ran(first + arrive[1] + "\n" + second + arrive[0] + "\n" + IN_TURN + LOAD)
    assert races(execution) is found and execution.schedule_dependent and unknown(execution) == []


def test_without_time_for_a_second_run_it_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Machine.run_numbers

    def only_once(self: Machine, *args: object, **kwargs: object) -> Execution:
        if self.trusted:
            raise BudgetError("execution took more than 1 s")
        return real(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Machine, "run_numbers", only_once)
    execution = ran(ARRIVE + STORE + LOST["either of two"] + LOAD)
    (reason,) = unknown(execution)
    assert not races(execution) and "(execution took more than 1 s)" in reason
