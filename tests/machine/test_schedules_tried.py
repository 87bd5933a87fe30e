"""Schedules that are tried where results hang on single tests: what shows only if arrivals or stores to flags come late, or by chance."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine_kernels import OWN, ints, kinds, module, out, run

from ptx_engine.errors import BudgetError
from ptx_engine.launch import Role, TensorArg
from ptx_engine.machine import Budget, Execution, early_looks, runs
from ptx_engine.machine.drawn import Drawn
from ptx_engine.machine.executor import Machine
from ptx_engine.machine.schedule import LowestFirst, in_units

SHARED = ".shared .align 8 .b64 m[2];\n.shared .align 16 .b8 s[256];"
FLAG_ARG = TensorArg("flag", "s32", (1,), Role.INOUT, contents=np.zeros(1, np.int32))
PARAMS = ("u64 data", "u64 flag", "u64 out")
#: two mbarriers of all threads; %r11: a thread's own word, %r13: that of the thread in the other warp
START = OWN + (
    "mov.u32 %r10, m;\nmov.u32 %r12, s;\nmad.lo.u32 %r11, %r0, 4, %r12;\nxor.b32 %r13, %r0, 32;\nmad.lo.u32 %r13, %r13, 4, %r12;\n"
    "setp.eq.u32 %p1, %r0, 0;\n@%p1 mbarrier.init.shared.b64 [%r10], 64;\n@%p1 mbarrier.init.shared.b64 [%r10+8], 64;\nbar.sync 0;\n"
)
STORE = "st.shared.u32 [%r11], %r0;\n"
ARRIVE, ARRIVE_SECOND = "mbarrier.arrive.shared.b64 _, [%r10];\n", "mbarrier.arrive.shared.b64 _, [%r10+8];\n"
TEST = "mbarrier.test_wait.parity.shared.b64 %p5, [%r10], 0;\n"
TEST_SECOND = "mbarrier.test_wait.parity.shared.b64 %p7, [%r10+8], 0;\n"
LOAD = "ld.shared.u32 %r5, [%r13];\nst.global.u32 [%d1], %r5;\nE:\n"
EITHER = "L:\n" + TEST + "@%p5 bra D;\n" + TEST_SECOND + "@{}%p7 bra {};\n"
#: a hundred turns, then ``{}``
BOUNDED = "mov.u32 %r30, 0;\n" + EITHER.format("", "D") + "add.u32 %r30, %r30, 1;\nsetp.lt.u32 %p6, %r30, 100;\n@%p6 bra L;\n{}D:\n"


def ran(body: str) -> Execution:
    args, text = [ints("data", range(64)), FLAG_ARG, out(64)], module(START + body, shared=SHARED, params=PARAMS)
    return run(text, args, block=64, budget=Budget(seconds=30))[0]


@pytest.mark.parametrize(("gives_up", "races"), [("", True), ("bra E;\n", False)])
def test_a_wait_for_either_that_goes_on_after_many_turns(gives_up: str, races: bool) -> None:
    """One warp arrives and goes on as far as it comes; the other, which has stored, arrives too late for it."""
    execution = ran(STORE + ARRIVE + ARRIVE_SECOND + BOUNDED.format(gives_up) + LOAD)
    assert ("data race" in kinds(execution)) is races and (races or kinds(execution) == [])
    assert execution.schedule_dependent


@pytest.mark.parametrize(
    ("second", "races"), [("cp.async.mbarrier.arrive.noinc.shared.b64 [%r10+8];\n", False), (ARRIVE_SECOND, True)]
)  # fmt: skip
def test_copies_behind_either_of_two_mbarriers(second: str, races: bool) -> None:
    """A thread that has not waited for its copies may arrive on the second mbarrier before they are complete."""
    copy = "ld.param.u64 %d2, [data];\nmad.wide.u32 %d3, %r0, 4, %d2;\ncp.async.ca.shared.global [%r11], [%d3], 4;\n"
    arrive = "cp.async.mbarrier.arrive.noinc.shared.b64 [%r10];\n" + second
    execution = ran(copy + arrive + EITHER.format("!", "L") + "D:\n" + LOAD)
    assert ("data race" in kinds(execution)) is races and (races or kinds(execution) == [])


#: the second warp raises a flag for the first, which looks a hundred times, then ``{}``
FLAG = (
    "ld.param.u64 %d2, [flag];\nsetp.gt.u32 %p4, %r0, 31;\n@!%p4 bra C;\n" + STORE + "fence.acq_rel.gpu;\nsetp.eq.u32 %p2, %r0, 63;\n"
    "bar.warp.sync -1;\n@%p2 st.release.gpu.global.u32 [%d2], 1;\nbra E;\n"
    "C:\nmov.u32 %r30, 0;\nL:\nld.acquire.gpu.global.u32 %r4, [%d2];\nsetp.eq.u32 %p5, %r4, 1;\n@%p5 bra D;\nadd.u32 %r30, %r30, 1;\n"
    "setp.lt.u32 %p6, %r30, 100;\n@%p6 bra L;\n{}D:\n"
) + LOAD


@pytest.mark.parametrize(("gives_up", "races"), [("", True), ("bra E;\n", False), ("trap;\n", False)])
def test_a_wait_for_a_flag_that_goes_on_after_many_turns(gives_up: str, races: bool) -> None:
    execution = ran(FLAG.format(gives_up))
    assert ("data race" in kinds(execution)) is races and (races or kinds(execution) == [])
    assert any("leads to a trap" in reason for reason in execution.schedule_dependent) is ("trap" in gives_up)


@pytest.mark.parametrize("limit", ["DRAWN", "FURTHER_STEPS"])
def test_what_only_a_drawn_schedule_shows(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """The first test must succeed between the end of phase 1 and that of phase 2, the second fail before that of phase 3."""
    loop = "L{0}:\nmbarrier.test_wait.parity.shared.b64 %p8, [%r10{1}], {2};\n@!%p8 bra L{0};\n"
    produce = ARRIVE + loop.format(5, "", 0) + ARRIVE + loop.format(6, "", 1) + ARRIVE_SECOND + STORE + ARRIVE
    body = (
        "@%p1 mbarrier.inval.shared.b64 [%r10];\n@%p1 mbarrier.inval.shared.b64 [%r10+8];\n@%p1 mbarrier.init.shared.b64 [%r10], 32;\n"
        "@%p1 mbarrier.init.shared.b64 [%r10+8], 32;\nbar.sync 0;\nsetp.gt.u32 %p2, %r0, 31;\n@%p2 bra P;\nL1:\n" + TEST
        + loop.format(2, "+8", 0) + TEST.replace("%p5", "%p7") + "or.pred %p6, %p5, %p7;\n@!%p6 bra L1;\n" + LOAD.replace("E:\n", "")
        + "bra E;\nP:\n" + produce + "E:\n"
    )  # fmt: skip
    assert "data race" in kinds(ran(body))
    monkeypatch.setattr(early_looks, limit, 0)
    assert kinds(ran(body)) == []


@given(st.integers(1, 3), st.integers(1, 100), st.sampled_from([0, 32]))
def test_units_are_warps_or_ctas(ctas: int, block: int, unit: int) -> None:
    groups = in_units(ctas * block, block, unit)
    assert [t for group in groups for t in group.tolist()] == list(range(ctas * block))
    expected = ctas * (1 if unit == 0 else -(-block // 32))
    assert len(groups) == expected and all(len({t // block for t in group.tolist()}) == 1 for group in groups)


@given(st.integers(0, 100), st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3)), min_size=1, max_size=30))
def test_a_drawn_schedule_takes_all_that_it_is_given_and_is_the_same_each_time(seed: int, given_: list[tuple[int, int]]) -> None:
    def taken() -> list[int]:
        schedule, found = Drawn(seed, 32, {1, 2}), []
        for number, (thread, pc) in enumerate(given_):
            schedule.put(SimpleNamespace(threads=np.array([32 * thread]), pc=pc, number=number))  # type: ignore[arg-type]
        for _ in range(2 * len(given_)):  # at most every second time there is nothing, for those who wait for memory
            found += [g.number for g in schedule.take()]  # type: ignore[attr-defined]
        assert schedule.take() == []
        return found

    assert sorted(taken()) == list(range(len(given_))) and taken() == taken()


#: the first warp stores as long as the second has not raised a flag of shared memory; whose single test of an mbarrier is why schedules are tried
WITH_EFFECT = (
    "@%p1 st.shared.u32 [%r12], 0;\nbar.sync 0;\n" + ARRIVE + TEST + "selp.u32 %r6, 1, 0, %p5;\nst.global.u32 [%d1], %r6;\n"
    "and.b32 %r20, %r0, 31;\nsetp.eq.u32 %p3, %r20, 0;\n@!%p3 bra E;\nsetp.eq.u32 %p2, %r0, 32;\n@!%p2 bra L;\nst.{0}.shared.u32 [%r12], 1;\nbra E;\n"
    "L:\n{1}ld.{0}.shared.u32 %r7, [%r12];\nsetp.eq.u32 %p6, %r7, 0;\n@%p6 bra L;\nE:\n"
)  # fmt: skip


@pytest.mark.parametrize(
    ("semantics", "effect"), [("relaxed.cta", "red.relaxed.gpu.global.add.u32 [%d1], 1;\n"), ("volatile", "st.global.u32 [%d1], 5;\n")]
)
def test_every_schedule_lets_in_whom_a_loop_with_an_effect_waits_for(semantics: str, effect: str) -> None:
    """No run spends the budget: nothing is said to have been left untried. The first effect is one that others may look at: it comes late."""
    execution = ran(WITH_EFFECT.format(semantics, effect))
    assert kinds(execution) == [] and execution.schedule_dependent
    assert not [reason for reason in execution.schedule_dependent if "not tried" in reason]


@pytest.mark.parametrize(("before", "found"), [("", ["uninitialised"]), ("mov.u32 %r20, 0;\n", [])])
def test_what_a_schedule_has_shown_before_it_cannot_go_on(before: str, found: list[str]) -> None:
    """Who fails reads a register that only the success writes, and what it stores is nothing."""
    execution = ran(before + ARRIVE + TEST + "@%p5 mov.u32 %r20, 1;\nadd.u32 %r21, %r20, 1;\nst.global.u32 [%d1], %r21;\n")
    assert kinds(execution) == found
    assert any("not tried in other schedules" in reason for reason in execution.schedule_dependent) is bool(found)


@pytest.mark.parametrize(("count", "found"), [(65, ["deadlock"]), (64, [])])
def test_a_deadlock_is_one_in_however_many_groups_threads_wait(count: int, found: list[str]) -> None:
    """All threads are one group in the machine's own schedule, and two in others."""
    votes = "bar.sync 0;\nL:\n" + TEST + "vote.sync.all.pred %p5, %p5, -1;\n@!%p5 bra L;\nst.global.u32 [%d1], %r0;\n"
    execution = ran(
        f"@%p1 mbarrier.inval.shared.b64 [%r10];\n@%p1 mbarrier.init.shared.b64 [%r10], {count};\nbar.sync 0;\n" + ARRIVE + votes
    )
    assert kinds(execution) == found and execution.schedule_dependent


def test_what_is_said_of_time_is_of_all_runs_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of what was left for one of them, which is another number each time."""

    def looked(machine: Machine, done: Execution, numbers: np.ndarray, seconds: float, again: early_looks.Again) -> Execution:
        with pytest.raises(BudgetError, match="more than 30 s"):
            again(0.0, LowestFirst).run_numbers(numbers)
        return replace(done, schedule_dependent=["looked"])

    monkeypatch.setattr(runs, "with_early_looks", looked)
    assert ran(STORE).schedule_dependent == ["looked"]


def test_drawn_schedules_differ() -> None:
    def first(seed: int) -> int:
        schedule = Drawn(seed, 32, ())
        for warp in range(4):
            schedule.put(SimpleNamespace(threads=np.array([32 * warp]), pc=0, number=warp))  # type: ignore[arg-type]
        return int(schedule.take()[0].number)  # type: ignore[attr-defined]

    assert {first(seed) for seed in range(40)} == set(range(4))
