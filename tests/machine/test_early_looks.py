"""Loops that wait for memory: what they may not have waited for is found, though the machine's own schedule lets them look late."""

from __future__ import annotations

import pytest
from machine_kernels import column, ints, kinds, module, out, run

from ptx_engine.errors import BudgetError
from ptx_engine.launch import Role
from ptx_engine.machine import Execution, early_looks

HEAD = (
    "ld.param.u64 %d1, [data]; ld.param.u64 %d2, [count]; ld.param.u64 %d3, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;\n"
    "mul.wide.u32 %d4, %r1, 4; add.u64 %d5, %d1, %d4;\n"
)
PRODUCE = "st.global.u32 [%d5], 7; red.release.gpu.global.add.u32 [%d2], 1; ret;\n"


def ran(body: str, grid: int, block: int = 1) -> tuple[Execution, list[int]]:
    args = [ints("data", [0] * 8, Role.INOUT), ints("count", [0, 0], Role.INOUT), out(8)]
    execution, arena = run(module(HEAD + body, ("u64 data", "u64 count", "u64 out")), args, block=block, grid=grid)
    return execution, column(execution, arena) if execution.footprints["out"].index.size else []


def consumer(cta: int, awaited: int, reads: tuple[int, ...]) -> str:
    """One CTA waits for a count and adds up elements; the others produce one each."""
    loads = "".join(f"ld.global.u32 %r4, [%d1+{4 * i}]; add.u32 %r3, %r3, %r4;" for i in reads)
    wait = f"C: ld.acquire.gpu.global.u32 %r2, [%d2]; setp.lt.u32 %p2, %r2, {awaited}; @%p2 bra C;"
    return f"setp.eq.u32 %p1, %r1, {cta}; @%p1 bra C; {PRODUCE}{wait} mov.u32 %r3, 0; {loads} st.global.u32 [%d3], %r3;\n"


@pytest.mark.parametrize("cta", [0, 1, 2])
def test_a_count_that_is_complete(cta: int) -> None:
    execution, values = ran(consumer(cta, 2, tuple({0, 1, 2} - {cta})), 3)
    assert kinds(execution) == [] and execution.schedule_dependent == [] and values == [14]


@pytest.mark.parametrize("cta", [0, 1, 2])
def test_one_of_two_is_no_order_with_the_other(cta: int) -> None:
    execution, _ = ran(consumer(cta, 1, tuple({0, 1, 2} - {cta})), 3)
    assert "data race" in kinds(execution)


def test_a_launch_too_large_to_be_tried_again_is_not_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    body = consumer(0, 2, (1, 2))
    monkeypatch.setattr(early_looks, "MOST", 3)
    assert ran(body, 3)[0].schedule_dependent == []
    monkeypatch.setattr(early_looks, "MOST", 2)
    (reason,) = ran(body, 3)[0].schedule_dependent
    assert "not tried in other schedules: 3 groups of threads, at most 2" in reason


def test_no_time_for_other_schedules_is_not_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    def spent(*_: object) -> None:
        raise BudgetError("execution took more than 0 s")

    monkeypatch.setattr(early_looks.OneByOne, "take", spent)
    assert "execution took more than 0 s" in ran(consumer(0, 2, (1, 2)), 3)[0].schedule_dependent[0]


def test_two_of_three_may_be_any_two() -> None:
    """The first two that come in each of the orders tried are those whose data are read: no race shows, and nothing is proved."""
    execution, _ = ran(consumer(3, 2, (1, 2)), 4)
    assert "data race" in kinds(execution) or "may end by other stores" in execution.schedule_dependent[0]
    execution, _ = ran(consumer(3, 3, (1, 2)), 4)
    assert kinds(execution) == [] and execution.schedule_dependent == []


@pytest.mark.parametrize(("awaited", "found"), [("eq.u32 %p2, %r2, 0", ["data race"]), ("ne.u32 %p2, %r2, 2", [])])
def test_what_is_stored_after_the_flag(awaited: str, found: list[str]) -> None:
    """The flag is set to 1, and to 2 when the second element is stored too, all in one stretch of code."""
    body = (
        "setp.eq.u32 %p1, %r1, 1; @%p1 bra C; st.global.u32 [%d1], 7; st.release.gpu.global.u32 [%d2], 1; st.global.u32 [%d1+4], 8; "
        f"st.release.gpu.global.u32 [%d2], 2; ret;\nC: ld.acquire.gpu.global.u32 %r2, [%d2]; setp.{awaited}; @%p2 bra C; "
        "ld.global.u32 %r3, [%d1+4]; st.global.u32 [%d3], %r3;\n"
    )
    execution, _ = ran(body, 2)
    assert kinds(execution) == found and (found or execution.schedule_dependent == [])


@pytest.mark.parametrize("signal", ["red.release.gpu.global.add.u32 [%d2], 1;", "@%p4 red.release.gpu.global.add.u32 [%d2], 1;"])
@pytest.mark.parametrize(("awaited", "found"), [(1, ["data race"]), (2, [])])
def test_lanes_of_one_warp_that_signal_in_one_instruction(signal: str, awaited: int, found: list[str]) -> None:
    """Two lanes of CTA 0 store an element each and count; in some schedule the waiter looks between the two. The second form leaves out
    two lanes of four."""
    lanes = 4 if signal.startswith("@") else 2
    body = (
        "setp.lt.u32 %p4, %r0, 2; mul.wide.u32 %d6, %r0, 4; add.u64 %d6, %d1, %d6; setp.eq.u32 %p1, %r1, 1; @%p1 bra W; "
        f"st.global.u32 [%d6], 7; {signal} ret;\nW: setp.ne.u32 %p3, %r0, 0; @%p3 bra E;\nC: ld.acquire.gpu.global.u32 %r2, [%d2]; "
        f"setp.lt.u32 %p2, %r2, {awaited}; @%p2 bra C; ld.global.u32 %r3, [%d1]; ld.global.u32 %r4, [%d1+4]; add.u32 %r3, %r3, %r4; "
        "st.global.u32 [%d3], %r3;\nE:\n"
    )
    execution, values = ran(body, 2, block=lanes)
    assert kinds(execution) == found and (found or (execution.schedule_dependent == [] and values == [14]))


#: every CTA stores, counts itself and waits for all, twice; in between it reads its neighbour's element
MEET = "red.release.gpu.global.add.u32 [%d2], 1; {0}: ld.acquire.gpu.global.u32 %r2, [%d2]; setp.lt.u32 %p2, %r2, {1}; @%p2 bra {0};\n"
NEIGHBOUR = "add.u32 %r5, %r1, 1; and.b32 %r5, %r5, 3; mul.wide.u32 %d6, %r5, 4; add.u64 %d6, %d1, %d6; add.u64 %d7, %d3, %d4;\n"


def grid_barrier(first: int, second: int) -> tuple[Execution, list[int]]:
    body = NEIGHBOUR + "st.global.u32 [%d5], %r1;\n" + MEET.format("A", first) + "ld.global.u32 %r6, [%d6];\n"
    return ran(body + MEET.format("B", second) + "st.global.u32 [%d5], 9; st.global.u32 [%d7], %r6;\n", 4)


def test_a_barrier_of_the_grid_that_counts_on() -> None:
    """Counts of the second round may be seen in the first one: they come after all of the first."""
    execution, values = grid_barrier(4, 8)
    assert kinds(execution) == [] and execution.schedule_dependent == [] and values == [1, 2, 3, 0]


@pytest.mark.parametrize(("first", "second"), [(3, 8), (4, 7)])
def test_a_barrier_of_the_grid_that_goes_on_too_early(first: int, second: int) -> None:
    execution, _ = grid_barrier(first, second)
    assert "data race" in kinds(execution) or execution.schedule_dependent


def test_two_that_take_turns() -> None:
    """Flags that are set anew in every turn are awaited one by one."""
    body = (
        "setp.eq.u32 %p1, %r1, 1; @%p1 bra OTHER;\n"
        "st.global.u32 [%d1], 5; st.release.gpu.global.u32 [%d2], 1;\n"
        "A: ld.acquire.gpu.global.u32 %r2, [%d2+4]; setp.ne.u32 %p2, %r2, 1; @%p2 bra A;\n"
        "st.global.u32 [%d1], 6; st.release.gpu.global.u32 [%d2], 2; ret;\n"
        "OTHER:\nB: ld.acquire.gpu.global.u32 %r2, [%d2]; setp.ne.u32 %p2, %r2, 1; @%p2 bra B;\n"
        "ld.global.u32 %r3, [%d1]; st.release.gpu.global.u32 [%d2+4], 1;\n"
        "C: ld.acquire.gpu.global.u32 %r2, [%d2]; setp.ne.u32 %p2, %r2, 2; @%p2 bra C;\n"
        "ld.global.u32 %r4, [%d1]; add.u32 %r3, %r3, %r4; st.global.u32 [%d3], %r3;\n"
    )
    execution, values = ran(body, 2)
    assert kinds(execution) == [] and execution.schedule_dependent == [] and values == [11]
