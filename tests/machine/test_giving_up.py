"""Waits for mbarriers that give up by a trap: that they see their success is assumed by name, and schedules in which they give up say nothing."""

from __future__ import annotations

import pytest
from machine_kernels import OWN, kinds, module, out, run

from ptx_engine.machine import Execution

SHARED = ".shared .align 8 .b64 m[2];\n.shared .align 16 .b8 s[256];"
#: two mbarriers of all threads; %r11: a thread's own word; %p4: of the second warp
START = OWN + (
    "mov.u32 %r10, m;\nmov.u32 %r12, s;\nmad.lo.u32 %r11, %r0, 4, %r12;\nsetp.eq.u32 %p1, %r0, 0;\nsetp.gt.u32 %p4, %r0, 31;\n"
    "@%p1 mbarrier.init.shared.b64 [%r10], 64;\n@%p1 mbarrier.init.shared.b64 [%r10+8], 64;\nmov.u32 %r5, 0;\nbar.sync 0;\n"
)
ARRIVE = "mbarrier.arrive.shared.b64 _, [%r10];\n"
TEST = "mbarrier.test_wait.parity.shared.b64 %p5, [%r10], 0;\n"
#: three tries, then ``end``
TRIES = "mov.u32 %r20, 0;\nL:\n" + TEST + "@%p5 bra D;\nadd.u32 %r20, %r20, 1;\nsetp.lt.u32 %p6, %r20, 3;\n@%p6 bra L;\n{}D:\n"
WATCHED = TRIES.format("trap;\n")
TIMED = (
    "mov.u64 %d8, %clock64;\nL:\n" + TEST + "@%p5 bra D;\nmov.u64 %d9, %clock64;\nsub.u64 %d9, %d9, %d8;\nsetp.lt.u64 %p6, %d9, 1000;\n"
    "@%p6 bra L;\ntrap;\nD:\n"
)
FOREVER = "L:\n" + TEST + "@!%p5 bra L;\n"
ASSERTION = "setp.gt.u32 %p7, %r0, 63;\n@%p7 trap;\n"
STORE = "st.shared.u32 [%r11], %r0;\n"
RESULT = "st.global.u32 [%d1], %r5;\n"
#: what makes the launch be run in other schedules: a test of the other mbarrier, of which something is stored
SINGLE = "mbarrier.arrive.shared.b64 _, [%r10+8];\nmbarrier.test_wait.parity.shared.b64 %p9, [%r10+8], 0;\nselp.u32 %r6, 1, 0, %p9;\n"


def ran(body: str, ctas: int = 1) -> Execution:
    return run(module(START + body, shared=SHARED), [out(64)], block=64, grid=ctas)[0]


def assumed(execution: Execution) -> list[str]:
    return [line for line in execution.assumptions if "lead to no trap" in line]


@pytest.mark.parametrize(
    ("wait", "gives_up"),
    [
        (WATCHED, True), (TIMED, True), (TEST + "@!%p5 trap;\n", True), ("L:\n" + ASSERTION + TEST + "@!%p5 bra L;\n", False), (TEST + "@%p5 bra D;\ntrap;\nD:\n", True),
        (FOREVER, False), (FOREVER + ASSERTION, False), (ASSERTION + FOREVER, False), (TRIES.format("exit;\n"), False),
        (TRIES.format(""), False), (TEST + ASSERTION + "@!%p5 exit;\n", False),
    ],
)  # fmt: skip
def test_who_gives_up_by_a_trap_is_in_the_ledger(wait: str, gives_up: bool) -> None:
    """An assertion that has nothing to do with a test is none that gives up, nor is a wait that goes on or ends without its success."""
    execution = ran(ARRIVE + wait + RESULT)
    assert kinds(execution) == []
    line = module(START + ARRIVE + wait, shared=SHARED).split(TEST)[0].count("\n") + 1
    said = [f"tests of mbarriers lead to no trap (PTX line {line})"]
    assert assumed(execution) == (said if gives_up else [])


#: the first warp waits, while the second one arrives in the end
def _warps(wait: str, barrier: str) -> str:
    return (
        SINGLE + "@%p4 bra N;\n" + STORE + ARRIVE + wait + "bra M;\nN:\n" + ARRIVE + "M:\n" + barrier + "@!%p4 bra E;\n"
        "ld.shared.u32 %r5, [%r11+-128];\nE:\nadd.u32 %r5, %r5, %r6;\n" + RESULT
    )


@pytest.mark.parametrize("wait", [WATCHED, TIMED])
def test_a_schedule_in_which_a_wait_gives_up_tells_nothing(wait: str) -> None:
    """A barrier does not wait for threads that have trapped: the other warp's loads look unordered there."""
    execution = ran(_warps(wait, "bar.sync 0;\n"))
    assert kinds(execution) == [] and any("leads to a trap" in reason for reason in execution.schedule_dependent)


def test_a_single_test_that_is_asserted_tells_nothing_in_other_schedules() -> None:
    """The assertion holds in the machine's own schedule, and not where arrivals are held back."""
    execution = ran(SINGLE + ARRIVE + TEST + "@!%p5 trap;\nadd.u32 %r5, %r5, %r6;\n" + RESULT)
    assert kinds(execution) == [] and any("leads to a trap" in reason for reason in execution.schedule_dependent)


@pytest.mark.parametrize("wait", [WATCHED, TIMED])
def test_what_races_without_a_trap_is_found(wait: str) -> None:
    assert "data race" in kinds(ran(_warps(wait, "")))


def test_what_is_done_on_the_way_to_a_trap_is_no_fault() -> None:
    """Threads that give up leave their numbers in one place. Whoever does so without a trap has a race."""
    slot = "st.global.u32 [%d0], %r0;\n"
    execution = ran(ARRIVE + TRIES.format(slot + "trap;\n") + SINGLE + "st.global.u32 [%d1], %r6;\n")
    assert kinds(execution) == [] and any("leads to a trap" in reason for reason in execution.schedule_dependent)
    assert "data race" in kinds(ran(ARRIVE + TRIES.format(slot) + SINGLE + "st.global.u32 [%d1], %r6;\n"))


@pytest.mark.parametrize(("guard", "races"), [("@!%p5 ", False), ("", True)])
def test_what_is_done_under_the_guard_of_a_trap_is_no_fault(guard: str, races: bool) -> None:
    once = ARRIVE + TEST + guard + "st.global.u32 [%d0], %r0;\n@!%p5 trap;\n"
    assert bool(kinds(ran(once + SINGLE + "st.global.u32 [%d1], %r6;\n"))) is races


def test_a_trap_of_the_machine_s_own_schedule_is_a_finding() -> None:
    """Nobody else arrives before the test. That the others wait at the barrier for ever then is no finding of its own."""
    body = "@%p4 bra N;\n" + ARRIVE + TEST + "@!%p5 {};\nN:\nbar.sync 0;\n@%p4 mbarrier.arrive.shared.b64 _, [%r10];\n"
    assert kinds(ran(body.format("trap"))) == ["trap"]


@pytest.mark.parametrize(("end", "found"), [("trap", ["trap"]), ("exit", ["data race"])])
def test_nobody_goes_on_who_waits_for_threads_that_have_trapped(end: str, found: list[str]) -> None:
    """A store after the barrier, which is unordered with one of the threads that are gone, is executed if they have exited."""
    body = "setp.eq.u32 %p7, %r0, 63;\n@%p7 st.shared.u32 [%r12], %r0;\n@%p7 {};\nbar.sync 0;\n@%p1 st.shared.u32 [%r12], %r0;\n"
    assert kinds(ran(body.format(end))) == found


@pytest.mark.parametrize(("end", "found"), [("trap", ["trap"]), ("exit", ["divergent collective"])])
def test_a_collective_that_waits_for_a_lane_that_has_trapped(end: str, found: list[str]) -> None:
    """In one CTA of two: the other one goes on."""
    body = (
        "mov.u32 %r20, %ctaid.x;\nmad.lo.u32 %r20, %r20, 64, %r0;\nst.shared.u32 [%r11], 0;\nbar.sync 0;\nsetp.eq.u32 %p7, %r20, 5;\n@%p7 "
        + end + ";\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r21}, [%r12];\n"
    )  # fmt: skip
    assert kinds(ran(body, 2)) == found
    elsewhere = "setp.gt.u32 %p7, %r20, 64;\nsetp.lt.u32 %p8, %r20, 70;\nand.pred %p7, %p7, %p8;\n@%p7 exit;\n"
    assert kinds(ran(body.replace("ldmatrix", elsewhere + "ldmatrix"), 2)) == sorted({"divergent collective", *found})


def test_a_deadlock_of_another_cta_is_a_finding_beside_a_trap() -> None:
    body = "mov.u32 %r20, %ctaid.x;\nsetp.eq.u32 %p7, %r20, 0;\n@%p7 trap;\nsetp.lt.u32 %p3, %r0, 32;\n@%p3 bar.sync 1, 64;\n"
    assert sorted(kinds(ran(body, 2))) == ["deadlock", "trap"]
