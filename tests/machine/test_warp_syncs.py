"""``.sync`` instructions under divergence: the lanes of a mask wait for each other, wherever they come from, and deadlock for good."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_kernels import OWN, column, ints, kinds, module, out, run

from ptx_engine.errors import UnsupportedError
from ptx_engine.findings import Finding
from ptx_engine.launch import Role
from ptx_engine.machine import Execution

SHARED = ".shared .align 4 .b8 s[128];"
#: %r11 = address of the thread's own element of s, %r13 = of the element of lane (tid + {ahead}) % 32; %p1: the lower half of the warp
PLACES = OWN + (
    "mov.u32 %r10, s;\nmad.lo.u32 %r11, %r0, 4, %r10;\nadd.u32 %r12, %r0, {ahead};\nand.b32 %r12, %r12, 31;\n"
    "mad.lo.u32 %r13, %r12, 4, %r10;\nsetp.lt.u32 %p1, %r0, 16;\nsetp.eq.u32 %p2, %r0, 15;\n"
)
STORE = "st.shared.u32 [%r11], %r0;\n"
LOAD = "ld.shared.u32 %r5, [%r13];\nst.global.u32 [%d1], %r5;"
#: both halves of a warp, each in a branch of its own
BRANCHES = "@%p1 bra LOW;\n{high}bra JOIN;\nLOW:\n{low}JOIN:\n"


def through_branches(low: str, high: str, ahead: int = 16) -> tuple[Execution, list[int]]:
    """Every lane stores its number in its branch, and loads another lane's after both have joined."""
    body = PLACES.format(ahead=ahead) + BRANCHES.format(low=STORE + low + "\n", high=STORE + high + "\n") + LOAD
    execution, arena = run(module(body, shared=SHARED), [out(32)])
    return execution, column(execution, arena)


def deadlock(execution: Execution) -> Finding:
    (finding,) = execution.findings
    assert finding.kind == "deadlock"
    return finding


# --- bar.warp.sync ------------------------------------------------------------------------------


def test_halves_of_a_warp_meet_at_two_instructions() -> None:
    execution, values = through_branches("bar.warp.sync 0xffffffff;", "bar.warp.sync 0xffffffff;")
    assert kinds(execution) == []
    assert values == [(lane + 16) % 32 for lane in range(32)]


def test_masks_of_halves_order_the_halves_only() -> None:
    low, high = "bar.warp.sync 0x0000ffff;", "bar.warp.sync 0xffff0000;"
    assert set(kinds(through_branches(low, high)[0])) == {"data race"}
    body = PLACES.format(ahead=0).replace("and.b32 %r12, %r12, 31", "xor.b32 %r12, %r12, 7")
    execution, arena = run(
        module(body + BRANCHES.format(low=STORE + low + "\n", high=STORE + high + "\n") + LOAD, shared=SHARED), [out(32)]
    )
    assert kinds(execution) == [] and column(execution, arena) == [lane ^ 7 for lane in range(32)]


def test_different_masks_at_one_instruction_order_the_halves_only() -> None:
    masks = "selp.b32 %r20, 0x0000ffff, 0xffff0000, %p1;\n"
    body = PLACES.format(ahead=16) + masks + STORE + "bar.warp.sync %r20;\n" + LOAD
    assert kinds(run(module(body, shared=SHARED), [out(32)])[0]) == ["data race"]
    full = body.replace("0x0000ffff", "0xffffffff").replace("0xffff0000", "0xffffffff")
    assert kinds(run(module(full, shared=SHARED), [out(32)])[0]) == []


def test_guards_part_the_lanes_of_two_barriers_in_a_row() -> None:
    body = PLACES.format(ahead=16) + STORE + "@%p1 bar.warp.sync 0xffffffff;\n@!%p1 bar.warp.sync 0xffffffff;\n" + LOAD
    execution, arena = run(module(body, shared=SHARED), [out(32)])
    assert kinds(execution) == [] and column(execution, arena) == [(lane + 16) % 32 for lane in range(32)]
    alone, _ = run(module(body.replace("@!%p1 bar.warp.sync 0xffffffff", "@!%p1 bar.sync 0"), shared=SHARED), [out(32)])
    assert "deadlock" in kinds(alone)


@pytest.mark.parametrize("lanes", ["%r0, 1", "%r0, 16", "%r0, 31"])
def test_a_missing_lane_that_waits_elsewhere_is_a_deadlock(lanes: str) -> None:
    few = int(lanes.split()[1])
    body = (
        OWN
        + f"setp.lt.u32 %p1, {lanes};\n@%p1 bra B;\nbar.warp.sync 0xffffffff;\nbra E;\nB:\nbarrier.sync 0;\nE:\nst.global.u32 [%d1], %r0;"
    )
    finding = deadlock(run(module(body), [out(96)], block=32, grid=3)[0])
    assert finding.count == 3  # CTAs
    said = "lane 0" if few == 1 else f"lanes 0-{few - 1}"
    assert f"bar.warp.sync with mask 0xffffffff: {said} of the warp" in finding.message
    assert f"{few} of 32 threads have arrived" in finding.message
    assert sorted(s.lane for s in finding.sites) == [0, few] and {s.cta for s in finding.sites} == {(0, 0, 0)}
    assert sorted(s.ptx_text for s in finding.sites) == ["bar.warp.sync 0xffffffff;", "barrier.sync 0;"]


def test_an_exited_lane_is_not_waited_for() -> None:
    body = PLACES.format(ahead=16) + "@%p2 exit;\n" + STORE + "bar.warp.sync 0xffffffff;\nst.global.u32 [%d1], %r0;"
    execution, arena = run(module(body, shared=SHARED), [out(32)])
    assert kinds(execution) == [] and column(execution, arena) == [lane for lane in range(32) if lane != 15]
    # the lane exits only after the others have come
    late = body.replace("@%p2 exit;", "@%p2 bra LATE;") + "\nbra END;\nLATE:\nmov.u32 %r20, 1;\nexit;\nEND:"
    assert kinds(run(module(late, shared=SHARED), [out(32)])[0]) == []


def test_different_masks_never_meet() -> None:
    execution, _ = run(
        module(
            PLACES.format(ahead=0) + BRANCHES.format(low="bar.warp.sync 0xffffffff;\n", high="bar.warp.sync 0xffff00ff;\n"), shared=SHARED
        ),
        [out(32)],
    )
    finding = deadlock(execution)
    assert "mask 0xffffffff: lanes 16-31" in finding.message and "mask 0xffff00ff: lanes 0-7" in finding.message


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=64, max_size=64), st.integers(1, 31))
def test_lanes_meet_wherever_they_come_from(ways: list[int], ahead: int) -> None:
    """Two warps, whose lanes take four ways of different lengths, one of them backwards."""
    table = "".join(f"setp.eq.u32 %p5, %r0, {t};\n@%p5 mov.u32 %r20, {w};\n" for t, w in enumerate(ways))
    meet = "W{0}:\n" + STORE + "bar.warp.sync 0xffffffff;\nbra JOIN;\n"
    body = (
        PLACES.format(ahead=ahead).replace("%r12, 31;", "%r12, 31;\nand.b32 %r21, %r0, 32;\nadd.u32 %r12, %r12, %r21;")
        + "mov.u32 %r20, 0;\n" + table + "ts: .branchtargets W0, W1, W2, BACK;\nbrx.idx %r20, ts;\n"
        + meet.format(0) + meet.format(1) + "BACK:\nbra W1;\n" + meet.format(2) + "JOIN:\n" + LOAD
    )  # fmt: skip
    execution, arena = run(module(body, shared=".shared .align 4 .b8 s[256];"), [out(64)], block=64)
    assert kinds(execution) == []
    assert column(execution, arena) == [(t + ahead) % 32 + (t & 32) for t in range(64)]


# --- exchanges ----------------------------------------------------------------------------------

#: the lower half comes to the shuffle first, the upper half from a place behind it
FROM_TWO_SIDES = OWN + (
    "setp.lt.u32 %p1, %r0, 16;\nmov.u32 %r2, %r0;\n@!%p1 bra BEHIND;\n"
    "MEET:\n{exchange}\nst.global.u32 [%d1], %r3;\nbra END;\n"
    "BEHIND:\nadd.u32 %r2, %r2, 100;\n{then}\nEND:"
)


@pytest.mark.parametrize(
    ("exchange", "expected"),
    [
        ("shfl.sync.bfly.b32 %r3, %r2, 16, 31, 0xffffffff;", [(t ^ 16) + 100 * (t < 16) for t in range(32)]),
        ("shfl.sync.idx.b32 %r3, %r2, 20, 31, 0xffffffff;", [120] * 32),
        ("setp.gt.u32 %p3, %r2, 3;\nvote.sync.ballot.b32 %r3, %p3, 0xffffffff;\nshr.u32 %r3, %r3, 1;", [0x7FFFFFF8] * 32),
        ("redux.sync.max.u32 %r3, %r2, 0xffffffff;", [131] * 32),
        ("shr.u32 %r2, %r2, 6;\nmatch.any.sync.b32 %r3, %r2, 0xffffffff;\nand.b32 %r3, %r3, 0x7fffffff;",
         [0xFFFF if t < 16 else 0x0FFF0000 if t < 28 else 0x70000000 for t in range(32)]),
    ],
    ids=["bfly", "idx", "ballot", "redux", "match"],
)  # fmt: skip
def test_halves_come_to_one_exchange_at_different_times(exchange: str, expected: list[int]) -> None:
    execution, arena = run(module(FROM_TWO_SIDES.format(exchange=exchange, then="bra MEET;")), [out(32)])
    assert kinds(execution) == [] and execution.schedule_dependent == []
    assert column(execution, arena) == expected
    never, _ = run(module(FROM_TWO_SIDES.format(exchange=exchange, then="barrier.sync 0;")), [out(32)])
    assert "lanes 16-31 of the warp, named by the mask, never execute this" in deadlock(never).message


def test_an_exchange_after_the_others_have_exited() -> None:
    vote = "setp.gt.u32 %p3, %r2, 3;\nvote.sync.ballot.b32 %r3, %p3, 0xffffffff;"
    execution, arena = run(module(FROM_TWO_SIDES.format(exchange=vote, then="exit;")), [out(32)])
    assert kinds(execution) == [] and column(execution, arena) == [0xFFF0] * 16


def test_a_complete_warp_does_not_wait_for_the_lanes_of_another() -> None:
    """All come to the shuffle at once but for the upper half of warp 0, which waits for a flag that warp 1 sets behind the shuffle."""
    body = OWN + (
        "ld.param.u64 %d5, [flag];\nshr.u32 %r6, %r0, 4;\nsetp.eq.u32 %p1, %r6, 1;\nsetp.eq.u32 %p2, %r0, {setter};\n@%p1 bra POLL;\n"
        "MEET:\nshfl.sync.bfly.b32 %r3, %r0, 16, 31, 0xffffffff;\nst.global.u32 [%d1], %r3;\n@%p2 st.release.gpu.global.u32 [%d5], 1;\n"
        "bra END;\nPOLL:\nld.acquire.gpu.global.u32 %r7, [%d5];\nsetp.eq.u32 %p3, %r7, 0;\n@%p3 bra POLL;\nbra MEET;\nEND:"
    )
    params, flag = ("u64 out", "u64 flag"), ints("flag", [0], Role.INOUT)
    execution, arena = run(module(body.format(setter=40), params), [out(64), flag], block=64)
    assert kinds(execution) == [] and column(execution, arena) == [t ^ 16 for t in range(64)]
    stuck, _ = run(module(body.format(setter=3), params), [out(64), flag], block=64)
    assert "lanes 16-31 of the warp" in deadlock(stuck).message and "no thread stores" in deadlock(stuck).message


def places(low: str, high: str) -> str:
    """Halves of a warp on two ways; %r3 is stored, %r4 is ten times the lane."""
    head = PLACES.format(ahead=0) + "mul.lo.u32 %r4, %r0, 10;\n"
    return module(head + BRANCHES.format(low=low + "\n", high=high + "\n") + "st.global.u32 [%d1], %r3;", shared=SHARED)


BFLY = "shfl.sync.bfly.b32 {}, {}, 16, 31, 0xffffffff;"


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (BFLY.format("%r3", "%r0"), BFLY.format("%r3", "%r0"), [t ^ 16 for t in range(32)]),
        (BFLY.format("%r3", "%r0"), BFLY.format("%r5", "%r4") + " add.u32 %r3, %r5, 1000;",
         [10 * (t + 16) if t < 16 else t - 16 + 1000 for t in range(32)]),
        ("setp.gt.u32 %p5, %r0, 3;\nvote.sync.ballot.b32 %r3, %p5, 0xffffffff; shr.u32 %r3, %r3, 1;",
         "setp.gt.u32 %p6, %r0, 19;\nvote.sync.ballot.b32 %r3, %p6, 0xffffffff; shr.u32 %r3, %r3, 1;", [0x7FF87FF8] * 32),
        ("redux.sync.add.u32 %r3, %r0, 0xffffffff;", "redux.sync.add.u32 %r3, %r4, 0xffffffff;", [120 + 10 * 376] * 32),
        ("mov.u32 %r6, 1;\nmatch.all.sync.b32 %r3|%p5, %r6, 0xffffffff; selp.u32 %r3, 7, 9, %p5;",
         "mov.u32 %r7, 1;\nmatch.all.sync.b32 %r8|%p6, %r7, 0xffffffff; selp.u32 %r3, 7, 9, %p6;", [7] * 32),
    ],
    ids=["shfl", "other registers", "vote", "redux", "match"],
)  # fmt: skip
def test_an_exchange_is_the_same_wherever_it_is_written(low: str, high: str, expected: list[int]) -> None:
    """The ISA has lanes wait for those of their mask that execute it "with the same qualifiers and same membermask value"."""
    execution, arena = run(places(low, high), [out(32)])
    assert kinds(execution) == [] and column(execution, arena) == expected


@pytest.mark.parametrize(
    "high", [BFLY.format("%r3", "%r0").replace("bfly", "down"), BFLY.format("%r3", "%r0").replace("0xffffffff", "0xffff0001")]
)
def test_other_qualifiers_and_masks_do_not_meet(high: str) -> None:
    assert "deadlock" in kinds(run(places(BFLY.format("%r3", "%r0"), high), [out(32)])[0])


def test_halves_exchange_among_themselves_at_two_places() -> None:
    one = "shfl.sync.bfly.b32 %r3, %r0, 8, 31, {};"
    execution, arena = run(places(one.format("0x0000ffff"), one.format("0xffff0000")), [out(32)])
    assert kinds(execution) == [] and column(execution, arena) == [t ^ 8 for t in range(32)]


def test_a_literal_at_one_place_and_another_at_the_other_are_refused() -> None:
    high = BFLY.format("%r3", "%r0").replace("16, 31", "8, 31")
    with pytest.raises(UnsupportedError, match=r"meet at different shfl\.sync.* with different kinds of operands") as caught:
        run(places(BFLY.format("%r3", "%r0"), high), [out(32)])
    assert caught.value.span is not None and caught.value.source_line.startswith("shfl")


def test_lanes_beyond_the_block_are_not_waited_for() -> None:
    body = OWN + "shfl.sync.bfly.b32 %r3, %r0, 1, 31, 0xffffffff;\nbar.warp.sync 0xffffffff;\nst.global.u32 [%d1], %r3;"
    execution, arena = run(module(body), [out(80)], block=40, grid=2)
    assert kinds(execution) == [] and column(execution, arena) == [t ^ 1 for t in range(40)] * 2


def test_a_lane_outside_its_mask_is_misuse() -> None:
    body = OWN + "vote.sync.any.pred %p3, %p0, 0x7fffffff;\nst.global.u32 [%d1], %r0;"
    assert kinds(run(module("setp.eq.u32 %p0, 0, 0;\n" + body), [out(32)])[0]) == ["barrier misuse"]
    assert kinds(run(module("setp.eq.u32 %p0, 0, 0;\n" + body.replace("0x7f", "0xff")), [out(32)])[0]) == []


def test_a_shuffle_from_outside_the_mask_is_undefined() -> None:
    masks = "selp.b32 %r20, 0x0000ffff, 0xffff0000, %p1;\nshfl.sync.bfly.b32 %r3, %r0, {distance}, 31, %r20;\nst.global.u32 [%d1], %r0;"
    for distance, expected in ((8, []), (16, ["undefined value"])):
        body = PLACES.format(ahead=0) + masks.format(distance=distance)
        assert kinds(run(module(body, shared=SHARED), [out(32)])[0]) == expected


def test_a_vote_with_different_masks_in_one_warp_is_refused() -> None:
    body = PLACES.format(ahead=0) + "selp.b32 %r20, 0x0000ffff, 0xffff0000, %p1;\nvote.sync.any.pred %p3, %p1, %r20;\n"
    with pytest.raises(UnsupportedError, match="different member masks"):
        run(module(body, shared=SHARED), [out(32)])


def test_activemask_depends_on_the_schedule() -> None:
    used = OWN + "activemask.b32 %r3;\nst.global.u32 [%d1], %r3;"
    (reason,) = run(module(used), [out(32)])[0].schedule_dependent
    assert reason.startswith("activemask returns a value that depends on the schedule")
    assert run(module(used.replace("[%d1], %r3", "[%d1], %r0")), [out(32)])[0].schedule_dependent == []


# --- any sequences of masks, against a simulation of the rule ------------------------------------

UNITS = 4


def unit_mask(units: frozenset[int]) -> int:
    """The lanes of units of eight lanes each."""
    return sum(0xFF << 8 * unit for unit in units)


def never_ends(ways: list[list[frozenset[int]]]) -> bool:
    """Whether units that synchronise with the given sets in turn, and exit, get stuck. Step by step, from the rule's text."""
    at = [0] * UNITS
    while True:

        def ready(unit: int) -> bool:
            mask = ways[unit][at[unit]]
            return all(at[o] == len(ways[o]) or ways[o][at[o]] == mask for o in mask)

        waiting = [u for u in range(UNITS) if at[u] < len(ways[u])]
        able = [u for u in waiting if ready(u)]
        if not able:
            return bool(waiting)
        mask = ways[able[0]][at[able[0]]]
        for unit in mask:
            at[unit] += at[unit] < len(ways[unit])


@st.composite
def sequences(draw: st.DrawFn) -> list[list[frozenset[int]]]:
    """Meetings in an order that all their units follow, of which some may be dropped for one unit."""
    ways: list[list[frozenset[int]]] = [[] for _ in range(UNITS)]
    for _ in range(draw(st.integers(0, 5))):
        units = draw(st.frozensets(st.integers(0, UNITS - 1), min_size=1))
        dropped = draw(st.integers(0, UNITS + 1))
        for unit in units - {dropped}:
            ways[unit].append(units)
    return ways


@settings(max_examples=60, deadline=None)
@given(sequences())
def test_any_sequence_of_masks_ends_or_deadlocks_as_the_rule_says(ways: list[list[frozenset[int]]]) -> None:
    body = OWN + "shr.u32 %r20, %r0, 3;\nts: .branchtargets W0, W1, W2, W3;\nbrx.idx %r20, ts;\n"
    for unit, way in enumerate(ways):
        body += f"W{unit}:\n" + "".join(f"bar.warp.sync 0x{unit_mask(m):08x};\n" for m in way) + "st.global.u32 [%d1], %r0;\nexit;\n"
    execution, _ = run(module(body), [out(64)], block=32, grid=2)
    assert kinds(execution) == (["deadlock"] if never_ends(ways) else [])
