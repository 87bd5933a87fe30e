"""Strong loads: what they read is up to chance only where a strong store to the same bytes is not ordered with them."""

from __future__ import annotations

import pytest
from machine_kernels import OWN, column, ints, kinds, module, out, run

from ptx_engine.launch import Role
from ptx_engine.machine import Execution
from ptx_engine.order import pairs

SHARED = ".shared .align 4 .b8 a[256];"
#: each thread has its word of shared memory at %r1, the next thread's at %r2
HEAD = OWN + "shl.b32 %r1, %r0, 2; mov.u32 %r3, a; add.u32 %r1, %r1, %r3; add.u32 %r2, %r1, 4; mov.u32 %r6, %r0; setp.eq.u32 %p1, %r0, 0;\n"
TAIL = "st.global.u32 [%d1], %r6;"


def ran(body: str, block: int = 64) -> tuple[Execution, list[int]]:
    execution, arena = run(module(HEAD + body + TAIL, shared=SHARED), [out(block)], block=block)
    return execution, column(execution, arena)


@pytest.mark.parametrize("strong", ["volatile", "relaxed.cta", "relaxed.gpu"])
def test_after_a_barrier_there_is_no_chance(strong: str) -> None:
    store, load = f"st.{strong}.shared.u32 [%r1], %r0;", f"@!%p9 ld.{strong}.shared.u32 %r6, [%r2];"
    last = "setp.eq.u32 %p9, %r0, 63;"
    execution, values = ran(f"{last} {store} bar.sync 0; {load}")
    assert kinds(execution) == [] and execution.schedule_dependent == [] and values == [*range(1, 64), 63]
    assert ran(f"{last} {store} {load}")[0].schedule_dependent


def test_two_lanes_of_a_warp_and_two_warps() -> None:
    """Between lanes a volatile load relies on lockstep; between warps nobody expects an order, which leaves the value unknown."""
    store, load = "@%p1 st.volatile.shared.u32 [a], 7;", "@%p2 ld.volatile.shared.u32 %r6, [a];"
    for reader, found in ((1, ["lockstep assumed"]), (40, [])):
        execution, _ = ran(f"setp.eq.u32 %p2, %r0, {reader}; {store} {load}")
        assert kinds(execution) == found and execution.schedule_dependent[0].startswith("ld.volatile returns")
    relaxed = ran(f"setp.eq.u32 %p2, %r0, 1; {store} {load}".replace("volatile", "relaxed.cta"))[0]
    assert kinds(relaxed) == [] and relaxed.schedule_dependent[0].startswith("ld.relaxed returns"), (
        "who writes .relaxed knows that it is no order"
    )
    synced = ran(f"setp.eq.u32 %p2, %r0, 1; {store} bar.warp.sync -1; {load}", 32)[0]
    assert kinds(synced) == [] and synced.schedule_dependent == []


def test_a_lane_that_has_stored_last_itself_may_read_another_one() -> None:
    body = "setp.lt.u32 %p2, %r0, 2; @%p2 st.volatile.shared.u32 [a], %r0; setp.eq.u32 %p3, %r0, 1; @%p3 ld.volatile.shared.u32 %r6, [a];"
    assert kinds(ran(body, 32)[0]) == ["lockstep assumed"]
    apart = body.replace("setp.lt.u32 %p2, %r0, 2;", "and.b32 %r9, %r0, 33; setp.gt.u32 %p2, %r9, 0;").replace("[a]", "[%r3]")
    assert ran(apart.replace("setp.eq.u32 %p3, %r0, 1;", "setp.eq.u32 %p3, %r0, 63;"))[0].schedule_dependent


def test_who_waits_for_another_lane_assumes_nothing() -> None:
    """A volatile load in a loop that ends by what it reads."""
    wait = "@%p1 st.volatile.shared.u32 [a], 7; @%p1 bra ON; L: ld.volatile.shared.u32 %r7, [a]; setp.ne.u32 %p2, %r7, 7; @%p2 bra L; ON: "
    first = "@%p1 st.volatile.shared.u32 [a], 0; bar.sync 0; "
    assert kinds(ran(first + wait, 32)[0]) == []


def test_sums_that_are_complete() -> None:
    execution, values = ran(
        "@%p1 st.shared.u32 [a], 0; bar.sync 0; red.shared.add.u32 [a], 2; bar.sync 0; ld.relaxed.cta.shared.u32 %r6, [a];"
    )
    assert kinds(execution) == [] and execution.schedule_dependent == [] and values == [128] * 64
    early = "@%p1 st.shared.u32 [a], 0; bar.sync 0; red.shared.add.u32 [a], 2; ld.relaxed.cta.shared.u32 %r6, [a];"
    assert ran(early)[0].schedule_dependent


def test_many_stores_beside_a_load() -> None:
    """One that is not ordered is found among thousands that are."""
    many = "mov.u32 %r8, 0; L: red.shared.add.u32 [a], 1; add.u32 %r8, %r8, 1; setp.lt.u32 %p4, %r8, 40; @%p4 bra L; "
    late = "@%p1 st.shared.u32 [a], 0; bar.sync 0; LATE " + many + "bar.sync 1, 64; setp.lt.u32 %p5, %r0, 64; @!%p5 bra ON; "
    load = "ld.relaxed.cta.shared.u32 %r6, [a]; ON: "
    stray = "setp.lt.u32 %p5, %r0, 64; @%p5 bra IN; red.shared.add.u32 [a], 1; bra ON; IN: "
    body = HEAD + late.replace("LATE", stray) + load + TAIL
    execution, _ = run(module(body, shared=SHARED), [out(96)], block=96)
    assert execution.schedule_dependent
    quiet = body.replace("@%p5 bra IN; red.shared.add.u32 [a], 1;", "@%p5 bra IN;")
    execution, _ = run(module(quiet, shared=SHARED), [out(96)], block=96)
    assert execution.schedule_dependent == []


def test_more_stores_than_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest stores are of the warp that loads, and ordered; those of the other warp are not, and lie beyond what is compared."""
    monkeypatch.setattr(pairs, "ATOMIC_WINDOW", 31)
    monkeypatch.setattr(pairs, "WINDOW", 31)
    body = "setp.ge.u32 %p5, %r0, 32; @%p1 st.shared.u32 [a], 0; bar.sync 0; red.shared.add.u32 [a], 2; SYNC @%p5 ld.relaxed.cta.shared.u32 %r6, [a];"
    assert ran(body.replace("SYNC", "bar.warp.sync -1;"))[0].schedule_dependent


def test_a_flag_that_says_it_twice() -> None:
    """Who has seen the flag by a loop that waits for it reads the same again."""
    body = (
        "ld.param.u64 %d0, [flag]; ld.param.u64 %d1, [out]; mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 0; @!%p1 bra L;\n"
        "st.release.gpu.global.u32 [%d0], 5; ret;\nL: ld.acquire.gpu.global.u32 %r2, [%d0]; setp.ne.u32 %p2, %r2, 5; @%p2 bra L;\n"
        "ld.relaxed.gpu.global.u32 %r3, [%d0]; st.global.u32 [%d1], %r3;"
    )
    execution, arena = run(module(body, ("u64 flag", "u64 out")), [ints("flag", [0], Role.INOUT), out(1)], block=1, grid=2)
    assert kinds(execution) == [] and execution.schedule_dependent == [] and column(execution, arena) == [5]
    once = body.replace("@%p2 bra L;\n", "\n")
    assert run(module(once, ("u64 flag", "u64 out")), [ints("flag", [0], Role.INOUT), out(1)], block=1, grid=2)[0].schedule_dependent


SINGLE_LOOK = (
    "ld.param.u64 %d1, [data]; ld.param.u64 %d2, [flag]; ld.param.u64 %d3, [out]; mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, CONSUMER;\n"
    "@%p1 bra C; st.global.u32 [%d1], 7; st.release.gpu.global.u32 [%d2], 1; ret;\n"
    "C: ld.acquire.gpu.global.u32 %r2, [%d2]; setp.ne.u32 %p2, %r2, 0; GUARD ld.global.u32 %r3, [%d1]; GUARD st.global.u32 [%d3], %r3;\n"
)


@pytest.mark.parametrize("consumer", [0, 1])
@pytest.mark.parametrize(("guard", "found"), [("@%p2", []), ("", ["data race"])])
def test_a_flag_that_is_looked_at_once(consumer: int, guard: str, found: list[str]) -> None:
    """A look that decides nothing orders nothing."""
    text = module(SINGLE_LOOK.replace("CONSUMER", str(consumer)).replace("GUARD", guard), ("u64 data", "u64 flag", "u64 out"))
    args = [ints("data", [0], Role.INOUT), ints("flag", [0], Role.INOUT), out(1)]
    execution, _ = run(text, args, block=1, grid=2)
    assert kinds(execution) == found and bool(execution.schedule_dependent) == bool(guard)


@pytest.mark.parametrize("consumer", [0, 1])
def test_what_is_done_where_a_flag_is_not_set_yet(consumer: int) -> None:
    """The element is changed by the reader instead: a race, in a schedule that the machine would not run."""
    text = SINGLE_LOOK.replace("CONSUMER", str(consumer)).replace("GUARD", "@%p2") + "@!%p2 st.global.u32 [%d1], 3;"
    args = [ints("data", [0], Role.INOUT), ints("flag", [0], Role.INOUT), out(1)]
    for body, found in ((text, ["data race"]), (text.replace("[%d1], 3", "[%d1+4], 3"), [])):
        args[0] = ints("data", [0, 0], Role.INOUT)
        assert kinds(run(module(body, ("u64 data", "u64 flag", "u64 out")), args, block=1, grid=2)[0]) == found
