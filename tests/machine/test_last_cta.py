"""Grid-wide counters: a correct split-K semaphore is clean whoever comes last; what is wrong with one, or only not settled, is told."""

from __future__ import annotations

import pytest
from machine_kernels import column, ints, kinds, module, out, run

from ptx_engine.launch import Role
from ptx_engine.machine import Budget, Execution, last_cta

#: every CTA of 32 threads stores its part, its thread 0 counts it; TELL says who is last, %p3 is set for the others; TAIL is the last one's
KERNEL = """
ld.param.u64 %d0, [parts]; ld.param.u64 %d2, [count]; ld.param.u64 %d3, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;
mov.u32 %r20, %nctaid.x; sub.u32 %r21, %r20, 1;
setp.eq.u32 %p1, %r0, 0; mad.lo.u32 %r2, %r1, 32, %r0; mul.wide.u32 %d4, %r2, 4; add.u64 %d4, %d0, %d4; st.global.u32 [%d4], %r2;
bar.sync 0; RELEASE @!%p1 bra WAIT; ATOM ACQUIRE WAIT: TELL @%p3 bra END;
mul.wide.u32 %d5, %r0, 4; add.u64 %d6, %d0, %d5; ld.global.u32 %r7, [%d6]; ld.global.u32 %r8, [%d6+128]; ld.global.u32 %r9, [%d6+256];
add.u32 %r7, %r7, %r8; add.u32 %r7, %r7, %r9; add.u64 %d5, %d3, %d5; TAIL st.global.u32 [%d5], %r7;
END:
"""
COUNT = "atom.global.add.u32 %r5, [%d2], 1;"
#: who is last, told to all by a word of shared memory: the ticket itself, or what came of comparing it
TICKET = "@%p1 st.shared.u32 [flag], %r5; bar.sync 0; ld.shared.u32 %r6, [flag]; setp.ne.u32 %p3, %r6, 2;"
FLAG = "setp.eq.u32 %p2, %r5, %r21; selp.u32 %r6, 1, 0, %p2; @%p1 st.shared.u32 [flag], %r6; bar.sync 0; ld.shared.u32 %r6, [flag]; " \
    "setp.eq.u32 %p3, %r6, 0;"  # fmt: skip
SHUFFLE = "shfl.sync.idx.b32 %r6, %r5, 0, 31, -1; bar.warp.sync -1; add.u32 %r16, %r6, 1; setp.ne.u32 %p3, %r20, %r16;"
VOTE = "setp.eq.u32 %p4, %r5, 2; bar.red.popc.u32 %r6, 0, %p4; setp.ne.u32 %p3, %r6, 1;"
FENCE = "membar.gl;"


def ran(
    tell: str = TICKET, *, release: str = FENCE, atom: str = COUNT, acquire: str = FENCE, tail: str = "", start: int = 0,
    budget: Budget | None = None,
) -> tuple[Execution, list[int]]:  # fmt: skip
    body = KERNEL.replace("RELEASE", release).replace("ATOM", atom).replace("ACQUIRE", acquire).replace("TELL", tell).replace("TAIL", tail)
    body = body.replace("setp.eq.u32 %p1", "mov.u32 %r5, 9; setp.eq.u32 %p1", 1)
    args = [ints("parts", [0] * 96, Role.INOUT), ints("count", [start, 0], Role.INOUT), out(32)]
    text = module(body, ("u64 parts", "u64 count", "u64 out"), shared=".shared .align 4 .b8 flag[4];")
    execution, arena = run(text, args, block=32, grid=3, budget=budget)
    return execution, column(execution, arena) if execution.footprints["out"].index.size else []


SUMS = [3 * t + 96 for t in range(32)]


@pytest.mark.parametrize("tell", [TICKET, FLAG, SHUFFLE, VOTE])
def test_whoever_is_last_adds_up(tell: str) -> None:
    execution, values = ran(tell)
    assert kinds(execution) == [] and values == SUMS
    assert execution.schedule_dependent == [] and not any("schedule" in a for a in execution.assumptions)


def test_a_counter_that_starts_anywhere_or_wraps_behind_the_last_is_one() -> None:
    five = TICKET.replace("%r6, 2", "%r6, 7")
    assert ran(five, start=5)[0].schedule_dependent == []
    assert ran(TICKET, atom="atom.global.inc.u32 %r5, [%d2], 2;")[0].schedule_dependent == []
    assert ran(TICKET.replace("%r6, 2", "%r6, 4"), atom="atom.global.add.u32 %r5, [%d2], 2;")[0].schedule_dependent == []
    assert ran(TICKET, atom="atom.acq_rel.gpu.global.add.u32 %r5, [%d2], 1;", release="", acquire="")[0].schedule_dependent == []


def test_the_last_one_may_set_the_counter_back() -> None:
    for reset in ("st.global.u32 [%d2], 0;", "red.global.and.b32 [%d2], 0;"):
        execution, values = ran(tail=f"@%p1 {reset}")
        assert kinds(execution) == [] and execution.schedule_dependent == [] and values == SUMS


@pytest.mark.parametrize(("release", "acquire"), [("", FENCE), (FENCE, ""), ("membar.cta;", FENCE), (FENCE, "membar.cta;")])
def test_without_a_fence_it_is_a_race(release: str, acquire: str) -> None:
    found = ran(release=release, acquire=acquire)[0].findings
    assert {f.kind for f in found} == {"data race"}
    assert len({site.instruction for f in found for site in f.sites}) == 4, "the store, and the load of each of the three parts"


@pytest.mark.parametrize("cta", [0, 1, 2])
def test_a_fence_that_one_cta_lacks_is_found(cta: int) -> None:
    """Whoever lacks its fence must be met as one who is last, or as one who is not."""
    skip = f"setp.eq.u32 %p7, %r1, {cta}; @%p7 bra NO{{0}}; membar.gl; NO{{0}}: "
    for where in ({"release": skip.format("R")}, {"acquire": skip.format("A")}):
        assert "data race" in kinds(ran(**where)[0])


def test_a_last_one_that_is_not() -> None:
    """The second to come adds up while the third may not have stored its part."""
    execution, _ = ran(TICKET.replace("%r6, 2", "%r6, 1"))
    assert set(kinds(execution)) == {"data race"}


def reasons(*args: str, **rest: str) -> str:
    execution, _ = ran(*args, **rest)
    assert kinds(execution) == []
    (reason,) = execution.schedule_dependent
    assert reason.startswith("atom.global.")
    return reason.rsplit("; ", 1)[1]


def test_what_is_not_settled_says_why() -> None:
    assert reasons(TICKET.replace("%r6, 2", "%r6, 3")) == "it is compared with another value than the counter's last one"
    assert reasons(tail="@%p1 st.global.u32 [%d2+4], %r6;").startswith("its value is used beyond")
    assert reasons(TICKET.replace("ne.u32", "lt.u32")).startswith("its value is used beyond")
    assert reasons(tail="add.u32 %r7, %r7, %r1;") == "the outputs are not proved equal for every CTA that can be the last"
    differ = "add.u32 %r30, %r1, 1; atom.global.add.u32 %r5, [%d2], %r30;"
    assert reasons(TICKET.replace("%r6, 2", "%r6, 5"), atom=differ) == "a CTA counts more than once, or the numbers added differ"


def test_tickets_that_are_no_sequence_of_their_own() -> None:
    """A counter that wraps before the last one has come gives a value twice; so may a CTA come twice."""
    assert ran(TICKET.replace("%r6, 2", "%r6, 0"), atom="atom.global.inc.u32 %r5, [%d2], 1;")[0].schedule_dependent
    assert ran("setp.lt.u32 %p1, %r0, 2;" + VOTE.replace("%r5, 2", "%r5, 5"), atom="@!%p1 bra WAIT; " + COUNT)[0].schedule_dependent
    twice = COUNT + COUNT.replace("%r5", "%r35")
    assert ran(TICKET.replace("%r6, 2", "%r6, 4"), atom=twice)[0].schedule_dependent


def test_two_threads_of_a_cta_that_draw() -> None:
    """Whichever of the two comes last marks its element, and in lockstep that is always the second: the runs would all agree on a mark that
    other schedules put elsewhere."""
    both, fifth = FENCE + "setp.lt.u32 %p1, %r0, 2;", VOTE.replace("%r5, 2", "%r5, 5")
    assert reasons(fifth, release=both, tail="@%p4 add.u32 %r7, %r7, 1000;") == "a CTA counts more than once, or the numbers added differ"


def test_one_register_for_tickets_of_two_kinds() -> None:
    kept = "shfl.sync.idx.b32 %r6, %r5, 0, 31, -1; bar.warp.sync -1; add.u32 %r6, %r6, 1; setp.ne.u32 %p3, %r20, %r6;"
    assert reasons(kept).startswith("its value is used beyond")


def test_who_comes_second_is_another_matter() -> None:
    """A look at any ticket but the last one tells schedules apart that have the same last CTA."""
    second = TICKET + "setp.eq.u32 %p5, %r6, 1; and.pred %p5, %p5, %p1; @%p5 st.global.u32 [%d4], 77;"
    execution, _ = ran(second)
    assert execution.schedule_dependent


def test_other_strong_accesses_to_the_counter() -> None:
    early = "red.global.add.u32 [%d2], 1;" + COUNT
    assert reasons(TICKET.replace("%r6, 2", "%r6, 5"), atom=early) == "the counter is changed by others"


def test_a_run_for_each_cta_is_paid_from_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_cta, "MOST", 2)
    assert reasons() == "which of 3 CTAs counts last was not tried: at most 2"


#: CTAs 0-1 count on one counter and CTAs 2-3 on another; the last of each adds up the parts of both and stores at PLACE
PAIRS = """
ld.param.u64 %d0, [parts]; ld.param.u64 %d2, [count]; ld.param.u64 %d3, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;
shr.u32 %r10, %r1, 1; mul.wide.u32 %d8, %r10, 4; add.u64 %d2, %d2, %d8;
setp.eq.u32 %p1, %r0, 0; mad.lo.u32 %r2, %r1, 32, %r0; mul.wide.u32 %d4, %r2, 4; add.u64 %d4, %d0, %d4; st.global.u32 [%d4], %r2;
bar.sync 0; membar.gl; @!%p1 bra WAIT; atom.global.add.u32 %r5, [%d2], 1; membar.gl; st.shared.u32 [flag], %r5;
WAIT: bar.sync 0; ld.shared.u32 %r6, [flag]; setp.ne.u32 %p3, %r6, 1; @%p3 bra END;
mad.lo.u32 %r11, %r10, 64, %r0; mul.wide.u32 %d5, %r11, 4; add.u64 %d6, %d0, %d5; ld.global.u32 %r7, [%d6]; ld.global.u32 %r8, [%d6+128];
add.u32 %r7, %r7, %r8; PLACE mul.wide.u32 %d7, %r12, 4; add.u64 %d7, %d3, %d7; VALUE st.global.u32 [%d7], %r7;
END:
"""


def pairs(place: str = "mad.lo.u32 %r12, %r10, 32, %r0;", value: str = "") -> tuple[Execution, list[int]]:
    args = [ints("parts", [0] * 128, Role.INOUT), ints("count", [0, 0], Role.INOUT), out(64)]
    body = PAIRS.replace("PLACE", place).replace("VALUE", value)
    text = module(body, ("u64 parts", "u64 count", "u64 out"), shared=".shared .align 4 .b8 flag[4];")
    execution, arena = run(text, args, block=32, grid=4)
    return execution, column(execution, arena)


def test_several_counters_choose_their_last_ones_apart() -> None:
    execution, values = pairs()
    assert kinds(execution) == [] and execution.schedule_dependent == []
    assert values == [2 * t + 32 + 128 * pair for pair in (0, 1) for t in range(32)]


def test_counters_whose_last_ctas_may_meet() -> None:
    """CTA 0 and CTA 3 store to one place, CTA 1 and CTA 2 to another: the last ones of both counters meet in half of all schedules,
    though not if both are the first, or both the second, of their counter."""
    crossed = "and.b32 %r13, %r1, 1; xor.b32 %r13, %r13, %r10; mad.lo.u32 %r12, %r13, 32, %r0;"
    execution, _ = pairs(crossed, "mov.u32 %r7, %r0;")
    assert execution.schedule_dependent and "touch each other's memory" in execution.schedule_dependent[0]


def test_a_block_that_is_fused_is_watched_all_the_same() -> None:
    assert ran(budget=Budget(fuse_after=0))[0].schedule_dependent == []
