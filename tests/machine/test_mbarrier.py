"""mbarriers: phases, states and parities, what waits order, who waits for whom for good, and what programs may not do with them."""

from __future__ import annotations

import pytest
from machine_kernels import OWN, column, ints, kinds, module, out, run

from ptx_engine.errors import ParseError, UnsupportedError
from ptx_engine.findings import Finding
from ptx_engine.machine import Execution

MISUSE = "mbarrier misuse"
SHARED = ".shared .align 8 .b64 m[4];\n.shared .align 16 .b8 s[512];"
#: %r10: an mbarrier of {count}, initialised by thread 0; %r11 the thread's own word of s, %r13 that of the next thread, around the block
START = OWN + (
    "mov.u32 %r10, m;\nmov.u32 %r12, s;\nmad.lo.u32 %r11, %r0, 4, %r12;\nadd.u32 %r13, %r0, 1;\nrem.u32 %r13, %r13, %r51;\n"
    "mad.lo.u32 %r13, %r13, 4, %r12;\nsetp.eq.u32 %p1, %r0, 0;\n@%p1 mbarrier.init.shared.b64 [%r10], {count};\nbar.sync 0;\n"
)
STORE = "st.shared.u32 [%r11], %r0;\n"
ARRIVE = "mbarrier.arrive.shared.b64 %d5, [%r10];\n"
WAIT = "L{0}:\nmbarrier.test_wait.shared.b64 %p5, [%r10], %d5;\n@!%p5 bra L{0};\n"
PARITY = "L{0}:\nmbarrier.try_wait.parity.shared.b64 %p5, [%r10], {1};\n@!%p5 bra L{0};\n"
LOAD = "ld.shared.u32 %r5, [%r13];\nst.global.u32 [%d1], %r5;\n"


def ran(body: str, *, block: int = 64, count: int | None = None, grid: int = 1, size: int | None = None) -> tuple[Execution, list[int]]:
    text = module(START.format(count=block if count is None else count) + body, shared=SHARED)
    execution, arena = run(text, [out(size or block * grid)], block=block, grid=grid)
    return execution, column(execution, arena)


def misuse(execution: Execution) -> Finding:
    (finding,) = execution.findings
    assert finding.kind == MISUSE
    return finding


def neighbours(block: int) -> list[int]:
    return [(t + 1) % block for t in range(block)]


# --- order --------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", [WAIT.format(1), PARITY.format(1, 0)])
@pytest.mark.parametrize("block", [32, 64, 40])
def test_a_wait_orders_what_came_before_the_arrivals(wait: str, block: int) -> None:
    execution, values = ran(STORE + ARRIVE + wait + LOAD, block=block, grid=2, size=2 * block)
    assert kinds(execution) == [] and execution.schedule_dependent == []
    assert values == neighbours(block) * 2


def test_without_the_wait_nothing_is_ordered() -> None:
    assert kinds(ran(STORE + ARRIVE + LOAD)[0]) == ["data race"]


def test_a_store_after_the_arrival_is_not_ordered() -> None:
    assert kinds(ran(ARRIVE + STORE + WAIT.format(1) + LOAD)[0]) == ["data race"]


def test_one_test_without_a_loop_orders_nothing() -> None:
    once = "mbarrier.test_wait.shared.b64 %p5, [%r10], %d5;\n"
    execution, _ = ran(STORE + ARRIVE + once + LOAD)
    assert kinds(execution) == ["data race"]


def test_a_wait_that_gives_up_orders_nothing() -> None:
    bounded = (
        "mov.u32 %r20, 0;\nL1:\nmbarrier.test_wait.shared.b64 %p5, [%r10], %d5;\n@%p5 bra D1;\nadd.u32 %r20, %r20, 1;\n"
        "setp.lt.u32 %p6, %r20, 100;\n@%p6 bra L1;\n{otherwise}D1:\n"
    )
    assert kinds(ran(STORE + ARRIVE + bounded.format(otherwise="") + LOAD)[0]) == ["data race"]
    execution, values = ran(STORE + ARRIVE + bounded.format(otherwise="trap;\n") + LOAD)
    assert kinds(execution) == [] and values == neighbours(64) and execution.schedule_dependent == []


GIVES_UP = (
    "mov.u32 %r20, 0;\nL1:\nmbarrier.test_wait.shared.b64 %p5, [%r10], %d5;\n@%p5 bra D1;\nadd.u32 %r20, %r20, 1;\n"
    "setp.gt.u32 %p6, %r20, 100;\n{end}bra L1;\nD1:\n"
)


@pytest.mark.parametrize(
    ("wait", "found", "depends"),
    [
        (GIVES_UP.format(end="@%p6 trap;\n"), [], False), (GIVES_UP.format(end="@%p6 exit;\n"), [], True),
        (GIVES_UP.format(end="@%p6 bra D1;\n"), ["data race"], False),
        ("mbarrier.test_wait.shared.b64 %p5, [%r10], %d5;\n@!%p5 exit;\n", [], True),
        ("mbarrier.test_wait.shared.b64 %p5, [%r10], %d5;\n@!%p5 trap;\n", [], False),
        ("mbarrier.test_wait.shared.b64 %p5, [%r10], %d5;\n@%p5 exit;\n", ["data race"], True),
    ],
)  # fmt: skip
def test_a_guarded_end_parts_those_who_have_seen_the_success(wait: str, found: list[str], depends: bool) -> None:
    """Whoever comes past ``@!%p exit`` has seen it, as behind a branch. A launch that gives up by a trap has no outputs."""
    execution, _ = ran(STORE + ARRIVE + wait + LOAD)
    assert [kind for kind in kinds(execution) if kind != "uninitialised"] == found and bool(execution.schedule_dependent) is depends


@pytest.mark.parametrize("guard", ["", "setp.gt.u32 %p8, %r0, 63;\n@%p8 trap;\n"])
@pytest.mark.parametrize("used", ["", "@%p5 mov.u32 %r5, 1;\n", "@!%p5 bra F;\nmov.u32 %r5, 1;\nF:\n"])
def test_an_assertion_hides_nothing_that_depends_on_a_test(guard: str, used: str) -> None:
    """A trap that nobody executes, between a single test and what is done with its outcome."""
    test = "mbarrier.test_wait.shared.b64 %p5, [%r10], %d5;\n" + guard + "mov.u32 %r5, 7;\n" + used + guard
    execution, _ = ran(ARRIVE + test + "st.global.u32 [%d1], %r5;\n")
    assert kinds(execution) == [] and bool(execution.schedule_dependent) is bool(used)


@pytest.mark.parametrize(
    "use",
    [
        "@!%p5 bra E;\n" + LOAD + "E:\n",  # whoever fails stores nothing
        "selp.u32 %r5, 1, 0, %p5;\nst.global.u32 [%d1], %r5;\n",
        "@!%p5 bra F;\nmov.u32 %r5, 1;\nbra G;\nF:\nmov.u32 %r5, 2;\nG:\nst.global.u32 [%d1], %r5;\n",
    ],
)
@pytest.mark.parametrize("test", [WAIT, PARITY])
def test_what_comes_of_a_single_test_is_up_to_the_schedule(test: str, use: str) -> None:
    """In lockstep all have arrived and every test succeeds; one that is repeated until it does is no matter of chance."""
    single = test.format(1, 0).replace("@!%p5 bra L1;\n", "")
    execution, _ = ran(STORE + ARRIVE + single + use)
    assert kinds(execution) == [] and "succeeds or fails" in execution.schedule_dependent[0]
    assert ran(STORE + ARRIVE + test.format(1, 0) + use)[0].schedule_dependent == []


@pytest.mark.parametrize(("count", "insist", "refused"), [(63, False, False), (64, False, True), (64, True, False)])
def test_tests_that_may_fail_are_at_most_as_many_as_a_word_has_bits(count: int, insist: bool, refused: bool) -> None:
    """More places are refused by name; waits, which insist, do not count."""
    again = "@!%p5 bra L{0};\n" if insist else "selp.u32 %r6, 1, 0, %p5;\nadd.u32 %r7, %r7, %r6;\n"
    test = "mov.u32 %y{0}, 0;\nL{0}:\nmbarrier.test_wait.parity.shared.b64 %p5, [%r10], %y{0};\n" + again
    body = (
        ".reg .b32 %y<64>;\n" + ARRIVE + "mov.u32 %r7, 0;\n" + "".join(test.format(i) for i in range(count)) + "st.global.u32 [%d1], %r7;\n"
    )
    if refused:
        with pytest.raises(UnsupportedError, match="more than 63 tests of mbarriers"):
            ran(body)
        return
    execution, values = ran(body)
    assert kinds(execution) == [] and values == [0 if insist else count] * 64


TRIES = "mov.u32 %r20, 0;\nL1:\n{turn}mbarrier.test_wait.shared.b64 %p5, [%r10], %d5;\n@%p5 bra D1;\n{failed}bra L1;\nD1:\n"


@pytest.mark.parametrize(
    ("turn", "failed", "stored", "depends"),
    [
        ("add.u32 %r20, %r20, 1;\n", "", "%r20", True),
        ("add.u32 %r21, %r20, 1;\n", "", "%r20", False),
        ("", "add.u32 %r20, %r20, 1;\n", "%r20", True),
        ("", "add.u32 %r20, %r20, 1;\n", "%r0", False),
        ("", "st.global.u32 [%d1], 7;\n", "%r0", True),
        ("", "nanosleep.u32 20;\n", "%r0", False),
    ],
)
def test_how_often_a_wait_has_failed_is_up_to_the_schedule(turn: str, failed: str, stored: str, depends: bool) -> None:
    body = ARRIVE + TRIES.format(turn=turn, failed=failed) + f"st.global.u32 [%d1], {stored};\n"
    execution, _ = ran(body)
    assert kinds(execution) == [] and bool(execution.schedule_dependent) == depends


@pytest.mark.parametrize(("moved", "depends"), [("", False), ("add.u32 %r14, %r14, 8;\n", True)])
def test_a_wait_that_follows_a_failure_may_be_for_another_phase(moved: str, depends: bool) -> None:
    """Thread 0 tests for what its warp stores, and waits for that, or for another mbarrier, if it has failed."""
    body = (
        "@%p1 mbarrier.init.shared.b64 [%r10+8], 32;\nbar.sync 0;\nsetp.gt.u32 %p6, %r0, 31;\n@!%p6 bra A;\n" + STORE
        + "mbarrier.arrive.shared.b64 _, [%r10];\nmbarrier.arrive.shared.b64 _, [%r10+8];\nbra E;\nA:\nmov.u32 %r14, %r10;\n"
        + "mbarrier.test_wait.parity.shared.b64 %p5, [%r14], 0;\nst.shared.u32 [%r11], %r0;\n@%p5 bra J;\n" + moved
        + "L:\nmbarrier.test_wait.parity.shared.b64 %p7, [%r14], 0;\n@!%p7 bra L;\nJ:\nld.shared.u32 %r5, [%r11+128];\n"
        + "st.global.u32 [%d1], %r5;\nE:\n"
    )  # fmt: skip
    assert bool(ran(body, count=32)[0].schedule_dependent) == depends


@pytest.mark.parametrize(
    ("guard", "found"),
    [
        ("and.pred %p8, %p5, %p7;", []), ("and.pred %p8, %p7, %p5;", []), ("or.pred %p8, %p5, %p7;", ["data race"]),
        ("selp.u32 %r20, 1, 0, %p5; and.b32 %r20, %r20, %r0; setp.ne.u32 %p8, %r20, 0;", []),
        ("selp.u32 %r20, 0, 1, %p5; and.b32 %r20, %r20, %r0; setp.ne.u32 %p8, %r20, 0;", ["data race"]),
        ("not.pred %p8, %p5;", ["data race"]),
    ],
)  # fmt: skip
def test_a_success_and_something_else(guard: str, found: list[str]) -> None:
    """Threads of two warps read their neighbours' words: where their test has succeeded, or also where it has not."""
    single = "setp.gt.u32 %p7, %r0, 3;\nmov.u32 %r5, 0;\nmbarrier.test_wait.shared.b64 %p5, [%r10], %d5;\n"
    load = "@%p8 ld.shared.u32 %r5, [%r13];\nst.global.u32 [%d1], %r5;\n"
    said = kinds(ran(STORE + ARRIVE + single + guard + "\n" + load)[0])  # who reads too early may read what nothing was stored to
    assert "data race" in said if found else said == []


TOLD = "selp.b32 %r20, 0, {failed}, %p5;\n"
BALLOT = "vote.sync.ballot.b32 %r20, %p5, -1; "


@pytest.mark.parametrize(
    ("asks", "ordered"),
    [
        (TOLD.format(failed="0xffffffff") + "setp.lt.u32 %p6, %r20, 1;", True),
        (TOLD.format(failed="0xffffffff") + "setp.lt.s32 %p6, %r20, 1;", False),  # -1 is less, too
        (TOLD.format(failed="-1") + "cvt.s64.s32 %d7, %r20;\nsetp.ne.s64 %p6, %d7, -1;", True),
        (TOLD.format(failed="-1") + "cvt.u64.u32 %d7, %r20;\nsetp.ne.s64 %p6, %d7, -1;", False),  # 2^32 - 1
        (TOLD.format(failed="256") + "cvt.u32.u16 %r21, %r20;\nsetp.ne.s32 %p6, %r21, 256;", True),
        (TOLD.format(failed="256") + "cvt.u32.u8 %r21, %r20;\nsetp.ne.s32 %p6, %r21, 256;", False),  # 0
        ("selp.b64 %d7, 0, 1, %p5;\nmov.b64 {%r20, %r21}, %d7;\nsetp.ne.s32 %p6, %r21, 1;", False),  # the high half is 0
        (TOLD.format(failed="1") + "setp.eq.s32 %p6|%p7, %r20, 0;", True),
        (TOLD.format(failed="1") + "setp.ne.s32 %p7|%p6, %r20, 0;", True),
        ("vote.sync.all.pred %p6, %p5, -1;", True), ("vote.sync.any.pred %p6, %p5, -1;", False),  # another thread's success orders nothing
        ("vote.sync.any.pred %p7, !%p5, -1; not.pred %p6, %p7;", True), ("vote.sync.all.pred %p7, !%p5, -1; not.pred %p6, %p7;", False),
        (BALLOT + "setp.eq.s32 %p6, %r20, -1;", True), (BALLOT + "setp.eq.u32 %p6, %r20, 0xffffffff;", True),
        (BALLOT + "setp.ne.s32 %p7|%p6, %r20, -1;", True), (BALLOT + "not.b32 %r20, %r20; setp.eq.s32 %p6, %r20, 0;", True),
        (BALLOT + "setp.ne.s32 %p6, %r20, 0;", False), (BALLOT + "not.b32 %r20, %r20; setp.ne.s32 %p6, %r20, -1;", False),
        ("mov.b32 %r21, -1; vote.sync.ballot.b32 %r20, %p5, %r21; setp.eq.b32 %p6, %r20, %r21;", True),
        ("sub.u32 %r21, %r51, 65; vote.sync.ballot.b32 %r20, %p5, %r21; setp.eq.b32 %p6, %r20, %r21;", True),
        ("sub.u32 %r21, %r51, 65; vote.sync.ballot.b32 %r20, %p5, %r21; mov.b32 %r21, %r20; setp.eq.b32 %p6, %r20, %r21;", False),
        # a lane that is not among those that are asked for
        (BALLOT + "and.b32 %r20, %r20, 0x7fffffff; setp.eq.s32 %p6, %r20, 0x7fffffff;", False),
        (BALLOT + "or.b32 %r20, %r20, 0x80000000; setp.eq.s32 %p6, %r20, -1;", False),
        (BALLOT + "popc.b32 %r20, %r20; setp.eq.u32 %p6, %r20, 32;", True), (BALLOT + "popc.b32 %r20, %r20; setp.ge.u32 %p6, %r20, 31;", False),
        ("selp.b32 %r20, 1, 0, %p5; redux.sync.and.b32 %r20, %r20, -1; setp.eq.s32 %p6, %r20, 1;", True),
        ("selp.b32 %r20, 1, 0, %p5; redux.sync.or.b32 %r20, %r20, -1; setp.eq.s32 %p6, %r20, 1;", False),
        ("selp.b32 %r20, 1, 0, %p5; redux.sync.min.u32 %r20, %r20, -1; setp.eq.s32 %p6, %r20, 1;", True),
        ("selp.b32 %r20, 1, 0, %p5; redux.sync.max.u32 %r20, %r20, -1; setp.eq.s32 %p6, %r20, 1;", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("again", ["@!%p6 bra L1;\n", ""], ids=["a loop", "one test"])
def test_what_the_way_on_asks_of_a_success_is_computed_as_the_machine_does(asks: str, ordered: bool, again: str) -> None:
    """A comparison that holds after a failure, too, orders nothing, whichever number it seems to compare."""
    test = WAIT.format(1).replace("@!%p5 bra L1;\n", f"{asks}\n{again or '@!%p6 bra E;'}\n")
    assert ("data race" in kinds(ran(STORE + ARRIVE + test + LOAD + "E:\n")[0])) is not ordered


@pytest.mark.parametrize("between", ["", "add.u32 %r20, %r0, 1;\nnanosleep.u32 20;\n"])
@pytest.mark.parametrize(("again", "clean"), [(".shared.b64 %p7, [%r10], %d5;\n", True), (".parity.shared.b64 %p7, [%r10], 1;\n", False)])
def test_either_of_two_tests_for_one_phase(between: str, again: str, clean: bool) -> None:
    """Who leaves by either of two successes knows what both tell; the phase before the first one is complete at once."""
    first = "mbarrier.test_wait.shared.b64 %p5, [%r10], %d5;\n"
    body = "L1:\n" + first + between + "mbarrier.test_wait" + again + "or.pred %p6, %p5, %p7;\n@!%p6 bra L1;\n" + LOAD
    found = kinds(ran(STORE + ARRIVE + body)[0])
    assert found == [] if clean else "data race" in found


@pytest.mark.parametrize("informed", [True, False])
def test_two_tests_of_one_parity_for_two_phases(informed: bool) -> None:
    """Between its two tests a thread hears that phase 1 is over: the second one is for phase 2, what is stored before its end is not ordered by
    the success of the first one, with which it leaves in a schedule that is drawn. Not so where it has heard of that before both."""
    test = "mbarrier.test_wait.parity.shared.b64 {1}, [%r10{2}], {3};\n"
    loop = "L{0}:\n" + test + "@!%p8 bra L{0};\n"
    hear = loop.format(2, "%p8", "+8", 0)
    produce = "".join(ARRIVE + loop.format(5 + i, "%p8", "", i) for i in range(2)) + ARRIVE.replace("%r10", "%r10+8") + STORE + ARRIVE
    body = (
        "@%p1 mbarrier.init.shared.b64 [%r10+8], 32;\nbar.sync 0;\nsetp.gt.u32 %p2, %r0, 31;\n@%p2 bra P;\n" + (hear if informed else "")
        + "L1:\n" + test.format("", "%p5", "", 0) + ("" if informed else hear) + test.format("", "%p7", "", 0) + "or.pred %p6, %p5, %p7;\n@!%p6 bra L1;\n"
        + "ld.shared.u32 %r5, [%r11+128];\nst.global.u32 [%d1], %r5;\nbra E;\nP:\n" + produce + "E:\n"
    )  # fmt: skip
    execution, _ = ran(body, count=32)
    assert kinds(execution) == ([] if informed else ["data race"])


#: a second mbarrier, which a thread arrives on after its store or before it
SECOND = "@%p1 mbarrier.init.shared.b64 [%r10+8], 64;\nbar.sync 0;\n"
ARRIVE_SECOND = ARRIVE.replace("%d5", "%d6").replace("%r10", "%r10+8")
BOTH = "mbarrier.test_wait.shared.b64 %p5, [%r10], %d5;\nmbarrier.test_wait.shared.b64 %p7, [%r10+8], %d6;\n"
COUNT = "selp.u32 %r20, 1, 0, %p5;\nselp.u32 %r21, {second}, 0, %p7;\n{add} %r20, %r20, %r21;\n"


@pytest.mark.parametrize(
    ("asks", "both"),
    [
        ("and.pred %p6, %p5, %p7;", True), ("or.pred %p6, %p5, %p7;", False),
        (COUNT.format(second=1, add="add.u32") + "setp.eq.u32 %p6, %r20, 2;", True),
        (COUNT.format(second=1, add="add.u32") + "setp.ge.s32 %p6, %r20, 2;", True),
        (COUNT.format(second=1, add="add.u32") + "setp.ge.u32 %p6, %r20, 1;", False),
        (COUNT.format(second=1, add="add.u32") + "setp.ne.u32 %p6, %r20, 0;", False),
        (COUNT.format(second=2, add="or.b32") + "setp.eq.u32 %p6, %r20, 3;", True),
        (COUNT.format(second=2, add="or.b32") + "setp.ge.u32 %p6, %r20, 1;", False),
        ("mov.u32 %r20, 0;\n@!%p5 bra M;\nadd.u32 %r20, %r20, 1;\nM:\n@!%p7 bra N;\nadd.u32 %r20, %r20, 1;\nN:\nsetp.eq.u32 %p6, %r20, 2;",
         True),
        ("mov.u32 %r20, 0;\n@!%p5 bra M;\nadd.u32 %r20, %r20, 1;\nM:\n@!%p7 bra N;\nadd.u32 %r20, %r20, 1;\nN:\nsetp.ne.u32 %p6, %r20, 0;",
         False),
        ("selp.u32 %r20, 1, 0, %p5;\nsetp.eq.and.u32 %p6, %r20, 1, %p7;", True), ("selp.u32 %r20, 1, 0, %p5;\nsetp.eq.or.u32 %p6, %r20, 1, %p7;", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("arrives", [ARRIVE + ARRIVE_SECOND, ARRIVE_SECOND + "{}" + ARRIVE], ids=["both order", "the first orders"])
@pytest.mark.parametrize("again", ["@!%p6 bra L1;\n", "@!%p6 bra E;\n"], ids=["a loop", "one test"])
def test_successes_that_are_counted(asks: str, both: bool, arrives: str, again: str) -> None:
    """Who has seen as many successes as there are tests has seen that of each. Who has seen one of two, of which either would do, is ordered,
    though nobody knows by which: not proved, and no race either."""
    before = arrives.format(STORE) if "{}" in arrives else STORE + arrives
    execution, _ = ran(SECOND + before + "L1:\n" + BOTH + asks + "\n" + again + LOAD + "E:\n")
    assert both or execution.schedule_dependent, "whether the tests succeed is up to the schedule"
    either = not both and "{}" not in arrives
    assert ("data race" in kinds(execution)) is (not both and not either)
    assert any("order the accesses in PTX lines" in reason for reason in execution.schedule_dependent) is either


@pytest.mark.parametrize(("first", "again", "races"), [("", "", False), (".relaxed.cta", "", True), ("", ".relaxed.cta", True)])
def test_a_relaxed_first_test_is_no_part_of_the_wait(first: str, again: str, races: bool) -> None:
    """The second warp stores for the first one, whose first test fails in the machine's own schedule."""
    test = "mbarrier.test_wait.parity{}.shared.b64 %p5, [%r10], 0;\n"
    body = (
        "setp.gt.u32 %p2, %r0, 31;\n@%p2 bra P;\n" + test.format(first) + "@%p5 bra D;\nL:\n" + test.format(again) + "@!%p5 bra L;\nD:\n"
        "ld.shared.u32 %r5, [%r11+128];\nst.global.u32 [%d1], %r5;\nbra E;\nP:\n" + STORE + "mbarrier.arrive.shared.b64 _, [%r10];\nE:\n"
    )  # fmt: skip
    assert ("data race" in kinds(ran(body, count=32)[0])) is races


def test_a_failed_first_test_with_a_backoff_loop_is_one_wait() -> None:
    """As CUDA's C++ library waits: a test, then tests with a counter, a clock and sleep between them."""
    body = (
        "mov.u64 %d7, %globaltimer;\nmbarrier.test_wait.shared.b64 %p5, [%r10], %d5;\nselp.b32 %r20, 1, 0, %p5;\nsetp.ne.s32 %p6, %r20, 0;\n"
        "@%p6 bra D;\nmov.u32 %r21, 0;\nT:\nsetp.lt.s32 %p7, %r21, 16;\n@%p7 bra C;\nmov.u64 %d8, %globaltimer;\nsub.s64 %d8, %d8, %d7;\n"
        "setp.lt.s64 %p8, %d8, 4000000;\n@%p8 bra S;\nmov.u32 %r22, 1000000;\nnanosleep.u32 %r22;\nbra.uni S;\nC:\nadd.s32 %r21, %r21, 1;\n"
        "S:\nmbarrier.test_wait.shared.b64 %p5, [%r10], %d5;\nselp.b32 %r20, 1, 0, %p5;\nsetp.eq.s32 %p6, %r20, 0;\n@%p6 bra T;\nD:\n"
    )
    execution, values = ran(STORE + ARRIVE + body + LOAD)
    assert kinds(execution) == [] and execution.schedule_dependent == [] and values == neighbours(64)
    stuck, _ = ran(STORE + ARRIVE + body + LOAD, count=65)
    assert kinds(stuck) == ["deadlock"]


def test_a_relaxed_arrival_or_wait_orders_no_memory() -> None:
    relaxed = ARRIVE.replace("arrive.", "arrive.relaxed.cta.")
    assert kinds(ran(STORE + relaxed + WAIT.format(1) + LOAD)[0]) == ["data race"]
    weak = WAIT.format(1).replace("test_wait.", "test_wait.relaxed.cta.")
    assert kinds(ran(STORE + ARRIVE + weak + LOAD)[0]) == ["data race"]
    same = ARRIVE.replace("arrive.", "arrive.release.cta."), WAIT.format(1).replace("test_wait.", "test_wait.acquire.cta.")
    assert kinds(ran(STORE + same[0] + same[1] + LOAD)[0]) == []


def test_an_mbarrier_that_others_use_before_its_initialisation() -> None:
    body = START.replace("bar.sync 0;\n", "").format(count=64) + STORE + ARRIVE + WAIT.format(1) + LOAD
    execution, _ = run(module(body, shared=SHARED), [out(64)], block=64)
    race = execution.findings[0]
    assert race.kind == "data race" and sorted(s.role for s in race.sites) == ["mbarrier operation", "mbarrier setup"]


# --- phases -------------------------------------------------------------------------------------

#: two rounds: everyone's word is stored, and stored anew after all have read it
ROUNDS = (
    "mov.u32 %r20, 0;\nR:\nadd.u32 %r21, %r0, %r20;\nst.shared.u32 [%r11], %r21;\n{full}ld.shared.u32 %r5, [%r13];\n{empty}"
    "add.u32 %r20, %r20, 1;\nsetp.lt.u32 %p6, %r20, 3;\n@%p6 bra R;\nst.global.u32 [%d1], %r5;\n"
)


def test_phases_follow_each_other() -> None:
    body = ROUNDS.format(full=ARRIVE + WAIT.format(1), empty=ARRIVE + WAIT.format(2))
    execution, values = ran(body)
    assert kinds(execution) == [] and values == [(t + 1) % 64 + 2 for t in range(64)]
    once, _ = ran(ROUNDS.format(full=ARRIVE + WAIT.format(1), empty=""))
    assert kinds(once) == ["data race"], "the next round's store is not after the read"


def test_parities_follow_each_other() -> None:
    body = ROUNDS.replace("R:\n", "R:\nshl.b32 %r23, %r20, 1;\nand.b32 %r24, %r23, 1;\nxor.b32 %r25, %r24, 1;\n")
    execution, values = ran(body.format(full=ARRIVE + PARITY.format(1, "%r24"), empty=ARRIVE + PARITY.format(2, "%r25")))
    assert kinds(execution) == [] and values == [(t + 1) % 64 + 2 for t in range(64)]
    wrong, _ = ran(body.format(full=ARRIVE + PARITY.format(1, "%r25"), empty=ARRIVE + PARITY.format(2, "%r25")))
    assert kinds(wrong) == ["deadlock"], "the phase is complete already: the wait is for the one after it"


def test_the_state_of_a_phase_is_of_no_use_after_the_next() -> None:
    body = ARRIVE + "mov.b64 %d6, %d5;\n" + WAIT.format(1) + ARRIVE + WAIT.format(2)
    late = "mbarrier.test_wait.shared.b64 %p6, [%r10], %d6;\n"
    assert kinds(ran(body)[0]) == []
    finding = misuse(ran(body + late)[0])
    assert "by a state of phase 0 in phase 2" in finding.message and finding.count == 64


def test_a_state_of_another_mbarrier() -> None:
    other = "@%p1 mbarrier.init.shared.b64 [%r10+8], 64;\nbar.sync 0;\n"
    body = other + ARRIVE + "mbarrier.test_wait.shared.b64 %p6, [%r10+8], %d5;\n"
    assert "no state of this mbarrier" in misuse(ran(body)[0]).message


def test_an_arrival_in_a_phase_before_anyone_has_waited_for_the_last() -> None:
    finding = misuse(ran(ARRIVE + "bar.sync 0;\n" + ARRIVE + WAIT.format(1))[0])
    assert "arrival in phase 1" in finding.message and finding.missing == "no successful wait for phase 0 happens before the arrival"
    assert [s.role for s in finding.sites] == ["mbarrier arrival"] and finding.count == 64


def test_a_wait_that_the_next_phases_may_overtake() -> None:
    """Warp 0 drives the phases, of 32 arrivals; warp 1 only waits for the first."""
    body = (
        "setp.lt.u32 %p3, %r0, 32;\n@!%p3 bra W;\n" + ARRIVE + WAIT.format(1) + "bra NEXT;\nW:\n" + PARITY.format(2, 0) + "{meet}bra END;\n"
    )
    body += "NEXT:\n{meet}" + ARRIVE + "END:\n"
    finding = misuse(ran(body.format(meet=""), count=32)[0])
    assert "a wait for phase 0" in finding.message and "phase 1 can complete before it" in finding.message
    assert [(s.role, s.warp) for s in finding.sites] == [("mbarrier wait", 1), ("mbarrier arrival", 0)]
    assert kinds(ran(body.format(meet="bar.sync 1;\n"), count=32)[0]) == []


def test_dropping_out() -> None:
    """The upper warp arrives once and is not expected again."""
    body = (
        "setp.lt.u32 %p3, %r0, 32;\n@%p3 bra STAY;\n" + STORE + "mbarrier.arrive_drop.shared.b64 _, [%r10];\nbra END;\nSTAY:\n"
        + STORE + ARRIVE + WAIT.format(1) + LOAD + ARRIVE + WAIT.format(2) + "END:\n"
    )  # fmt: skip
    execution, values = ran(body, size=32)
    assert kinds(execution) == [] and values == neighbours(64)[:32]
    stuck, _ = ran(body.replace("arrive_drop", "arrive"), size=32)
    assert kinds(stuck) == ["deadlock"]


def test_counts_of_arrivals() -> None:
    """One lane arrives for its warp, for others before it without completing the phase."""
    lanes = "setp.eq.u32 %p3, %r0, 32;\n@!%p1 bra NEXT;\nmbarrier.arrive.noComplete.shared.b64 %d5, [%r10], {first};\nNEXT:\nbar.sync 0;\n"
    lanes += "@%p3 mbarrier.arrive.release.cta.shared::cta.b64 %d6, [%r10], {second};\n" + PARITY.format(1, 0)
    assert kinds(ran(lanes.format(first=30, second=34))[0]) == []
    assert "completes the phase" in misuse(ran(lanes.format(first=64, second=64).replace("@%p3 mb", "// "))[0]).message
    assert "takes more" in misuse(ran(lanes.format(first=30, second=35))[0]).message
    assert kinds(ran(lanes.format(first=30, second=33))[0]) == ["deadlock"]


@pytest.mark.parametrize(("count", "said"), [(0, "count of 0"), (1 << 20, "count of 1048576")])
def test_counts_that_an_mbarrier_cannot_have(count: int, said: str) -> None:
    text = START.format(count="%r9").replace("@%p1 mbarrier", f"mov.u32 %r9, {count};\n@%p1 mbarrier")
    execution, _ = run(module(text, shared=SHARED), [out(64)], block=64, grid=1)
    assert said in execution.findings[0].message
    assert kinds(ran("mov.u32 %r9, 0;\n", count=(1 << 20) - 1)[0]) == []


def test_pending_counts_are_of_the_state_and_of_the_schedule() -> None:
    one = ARRIVE + "mbarrier.pending_count.b64 %r5, %d5;\nst.global.u32 [%d1], %r5;\n"
    execution, values = ran(one, block=1, count=7)
    assert values == [7] and any("pending_count" in reason for reason in execution.schedule_dependent)
    assert sorted(ran(one)[1]) == list(range(1, 65))


def test_a_state_is_opaque() -> None:
    execution, _ = ran(ARRIVE + "cvt.u32.u64 %r5, %d5;\nst.global.u32 [%d1], %r5;\n")
    assert any("opaque" in reason for reason in execution.schedule_dependent)


def test_transactions_hold_a_phase_open() -> None:
    expecting = (
        "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 16;\nbar.sync 0;\nsetp.eq.u32 %p3, %r0, 33;\n{complete}" + PARITY.format(1, 0)
    )
    complete = "@%p3 mbarrier.complete_tx.shared::cta.b64 [%r10], 16;\n"
    assert kinds(ran(expecting.format(complete=complete), count=1)[0]) == []
    stuck, _ = ran(expecting.format(complete=complete.replace("16", "8")), count=1)
    (finding,) = stuck.findings
    assert finding.kind == "deadlock" and "8 bytes of transactions are never completed" in finding.message
    before = (
        "@%p1 mbarrier.expect_tx.relaxed.cta.shared.b64 [%r10], 16;\nbar.sync 0;\n"
        + complete.replace("%p3", "%p1")
        + ARRIVE
        + WAIT.format(1)
    )
    assert kinds(ran(before)[0]) == []


# --- deadlocks ----------------------------------------------------------------------------------


def test_a_phase_that_is_never_complete_names_who_has_not_arrived() -> None:
    body = "setp.ge.u32 %p3, %r0, 56;\n@%p3 bra END;\n" + ARRIVE + WAIT.format(1) + "END:\n"
    execution, _ = ran(body, grid=3)
    (finding,) = execution.findings
    assert finding.kind == "deadlock" and finding.count == 3
    assert "threads 0-55 wait at the mbarrier at shared+0x0, phase 0: 8 of 64 arrivals never come" in finding.message
    assert "threads 56-63 of the CTA have not arrived in this phase" in finding.message
    assert finding.sites[0].ptx_text.startswith("@!%p5 bra L1")


def test_two_that_wait_for_each_other() -> None:
    """Warp 0 waits for an mbarrier of warp 1, warp 1 at the CTA's barrier."""
    body = "setp.lt.u32 %p3, %r0, 32;\n@!%p3 bra W;\n" + PARITY.format(1, 0) + "bar.sync 1;\nbra END;\nW:\n{first}{second}END:\n"
    good, _ = ran(body.format(first=ARRIVE, second="bar.sync 1;\n"), count=32)
    assert kinds(good) == []
    (finding,) = ran(body.format(first="bar.sync 1;\n", second=ARRIVE), count=32)[0].findings
    assert finding.kind == "deadlock" and "threads 0-63" not in finding.message
    assert "bar.sync 1" in finding.message and "mbarrier at shared+0x0" in finding.message


# --- lifetime -----------------------------------------------------------------------------------


def test_the_memory_of_an_mbarrier_is_its_own_until_it_is_invalidated() -> None:
    sync = ARRIVE + WAIT.format(1) + "bar.sync 0;\n"
    reuse = "st.shared.u32 [%r10+4], 1;\n"
    inval = "@%p1 mbarrier.inval.shared.b64 [%r10];\nbar.sync 0;\n"
    finding = ran(sync + "@%p1 " + reuse)[0].findings[0]
    assert finding.kind == MISUSE and "not invalidated" in finding.message and finding.sites[0].lane == 0
    assert kinds(ran(sync + inval + "@%p1 " + reuse)[0]) == []
    assert kinds(ran(sync + "ld.shared.u32 %r5, [%r10];\n")[0]) == [MISUSE, "uninitialised"]
    assert kinds(ran(sync + "ld.shared.u32 %r5, [%r10+8];\n")[0]) == ["uninitialised"]
    assert MISUSE in kinds(ran(sync + "atom.shared.add.u32 %r5, [%r10], 1;\n")[0])


def test_an_mbarrier_is_initialised_once() -> None:
    again = "bar.sync 0;\n{inval}@%p1 mbarrier.init.shared.b64 [%r10], 64;\nbar.sync 0;\n" + ARRIVE + WAIT.format(1)
    assert "initialised again without mbarrier.inval" in misuse(ran(again.format(inval=""))[0]).message
    assert kinds(ran(again.format(inval="@%p1 mbarrier.inval.shared.b64 [%r10];\n"))[0]) == []
    everyone = "mbarrier.init.shared.b64 [%r10+8], 64;\n"
    assert set(kinds(ran(everyone)[0])) == {MISUSE, "data race"}


@pytest.mark.parametrize(
    "operation", [ARRIVE, "mbarrier.inval.shared.b64 [%r10];\n", "mbarrier.test_wait.parity.shared.b64 %p5, [%r10], 1;\n",
                  "cp.async.mbarrier.arrive.shared.b64 [%r10];\n", "mbarrier.expect_tx.shared.b64 [%r10], 4;\n"],
)  # fmt: skip
def test_operations_need_an_object(operation: str) -> None:
    elsewhere = "@%p1 " + operation.replace("[%r10]", "[%r10+16]")
    assert "where no mbarrier is initialised" in misuse(ran(elsewhere)[0]).message
    assert kinds(ran("@%p1 " + operation)[0]) == []


def test_invalidated_before_the_others_have_waited() -> None:
    body = ARRIVE + WAIT.format(1) + "{meet}@%p1 mbarrier.inval.shared.b64 [%r10];\n"
    assert "data race" in kinds(ran(body.format(meet=""))[0])
    assert kinds(ran(body.format(meet="bar.sync 0;\n"))[0]) == []


@pytest.mark.parametrize(("place", "kind"), [("[%r10+4]", "misaligned"), ("[%r10+4096]", "out of bounds")])
def test_where_an_object_may_be(place: str, kind: str) -> None:
    assert kinds(ran(f"@%p1 mbarrier.init.shared.b64 {place}, 1;\n")[0]) == [kind]


def test_generic_addresses_of_shared_memory_only() -> None:
    generic = "cvt.u64.u32 %d7, %r10;\ncvta.shared.u64 %d7, %d7;\n"
    execution, values = ran(generic + STORE + "mbarrier.arrive.b64 %d5, [%d7];\n" + WAIT.format(1) + LOAD)
    assert kinds(execution) == [] and values == neighbours(64)
    assert "outside of shared memory" in misuse(ran("@%p1 mbarrier.init.b64 [%d1], 1;\n")[0]).message


def test_what_is_of_clusters_is_refused_by_name() -> None:
    for text, said in (("mbarrier.arrive.release.cluster.shared::cta.b64 _, [%r10];", "scope .cluster"),
                       ("mbarrier.arrive.shared::cluster.b64 _, [%r10];", "other CTAs")):  # fmt: skip
        with pytest.raises(UnsupportedError, match=said):
            ran(text)
    with pytest.raises(ParseError, match="memory order and scope"):
        ran("mbarrier.arrive.release.shared.b64 _, [%r10];")


# --- copies -------------------------------------------------------------------------------------

COPY = "ld.param.u64 %d6, [in];\nmad.wide.s32 %d6, %r52, 4, %d6;\ncp.async.ca.shared.global [%r11], [%d6], 4;\n"


def copied(body: str, count: int = 64) -> tuple[Execution, list[int]]:
    text = module(START.format(count=count) + COPY + body, ("u64 out", "u64 in"), shared=SHARED)
    execution, arena = run(text, [out(64), ints("in", range(100, 164))], block=64)
    return execution, column(execution, arena)


@pytest.mark.parametrize(
    ("arrivals", "count"),
    [("cp.async.mbarrier.arrive.shared.b64 [%r10];\n" + ARRIVE, 64), ("cp.async.mbarrier.arrive.noinc.shared.b64 [%r10];\n", 64),
     ("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r10];\n" + ARRIVE, 128)],
)  # fmt: skip
def test_copies_arrive_when_they_are_complete(arrivals: str, count: int) -> None:
    execution, values = copied(arrivals + PARITY.format(1, 0) + LOAD, count)
    assert kinds(execution) == [] and execution.schedule_dependent == []
    assert values == [100 + n for n in neighbours(64)]


def test_copies_that_do_not_arrive_are_not_waited_for() -> None:
    assert kinds(copied(ARRIVE + WAIT.format(1) + LOAD)[0]) == ["data race"]
    late = ARRIVE + WAIT.format(1) + "cp.async.mbarrier.arrive.noinc.shared.b64 [%r10];\n" + LOAD
    assert "data race" in kinds(copied(late)[0])


def test_copies_say_nothing_of_the_thread_that_issued_them() -> None:
    """What a thread stores itself needs an arrival of its own."""
    arrive = "cp.async.mbarrier.arrive.noinc.shared.b64 [%r10];\n"
    stored = "st.shared.u32 [%r11+256], %r0;\n"
    read = "ld.shared.u32 %r5, [%r13+256];\nst.global.u32 [%d1], %r5;\n"
    assert kinds(copied(stored + arrive + PARITY.format(1, 0) + read)[0]) == ["data race"]
    assert kinds(copied(stored + arrive + ARRIVE + WAIT.format(1) + read, 128)[0]) == []


def test_copies_that_arrive_where_no_mbarrier_is() -> None:
    """The only instruction of a kernel that names an mbarrier."""
    found = misuse(ran_without_any("cp.async.mbarrier.arrive.shared.b64 [%r10];\n"))
    assert "no mbarrier is initialised" in found.message


def ran_without_any(body: str) -> Execution:
    return run(module(OWN + "mov.u32 %r10, m;\n" + body, shared=SHARED), [out(32)], block=32, grid=1)[0]
