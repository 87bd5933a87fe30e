"""Numbered barriers: what is no use of one, in this schedule or in another; exited threads; scopes of fences; read-only arguments."""

from __future__ import annotations

import pytest
from machine_kernels import OWN, column, ints, kinds, module, out, run

from ptx_engine.findings import Finding
from ptx_engine.launch import Role
from ptx_engine.machine import Execution

WARPS = OWN + "shr.u32 %r9, %r0, 5;\n" + "".join(f"setp.eq.u32 %p{w + 1}, %r9, {w};\n" for w in range(4))
STORE = "st.global.u32 [%d1], %r0;\n"


def by_warp(*ways: str, then: str = "") -> str:
    """Each warp does its own thing."""
    jumps = "".join(f"@%p{w + 1} bra W{w};\n" for w in range(len(ways)))
    return WARPS + jumps + "".join(f"W{w}:\n{way}bra END;\n" for w, way in enumerate(ways)) + "END:\n" + then + STORE


def ran(body: str, block: int) -> Execution:
    return run(module(body), [out(block)], block=block)[0]


def misuse(execution: Execution) -> list[Finding]:
    assert set(kinds(execution)) <= {"barrier misuse", "deadlock"}
    return [f for f in execution.findings if f.kind == "barrier misuse"]


def test_a_count_that_is_no_multiple_of_the_warp_size() -> None:
    (finding,) = misuse(ran(OWN + "mov.u32 %r9, 48; barrier.sync 1, %r9;\n" + STORE, 64))
    assert finding.message == "thread count 48 is not a positive multiple of the warp size"
    assert misuse(ran(OWN + "barrier.sync 1, 64;\n" + STORE, 64)) == []


def test_two_pairs_of_warps_use_one_id_at_once() -> None:
    pair = "bar.sync 1, 64;\n"
    third, fourth = misuse(ran(by_warp(pair, pair, pair, pair), 128))
    assert third.message == "two barriers of id 1 are in flight: 96 threads have come to one that counts 64"
    assert "128 threads have come" in fourth.message
    other = "bar.sync 2, 64;\n"
    assert kinds(ran(by_warp(pair, pair, other, other), 128)) == []


def test_pairs_that_happen_to_follow_each_other_do_so_in_one_schedule_only() -> None:
    """Warps 2 and 3 come late in the schedule that runs, since they have a barrier of their own before; nothing says that they must."""
    pair, late = "bar.sync 1, 64;\n", "bar.sync 2, 64;\nbar.sync 1, 64;\n"
    (finding,) = misuse(ran(by_warp(pair, pair, late, late), 128))
    assert "may be in flight" in finding.message and finding.missing == "nothing orders the end of the last use before this"
    assert [s.warp for s in finding.sites] == [2, 0]
    meet = "bar.sync 0;\n"
    assert kinds(ran(by_warp(pair + meet, pair + meet, meet + pair, meet + pair), 128)) == []


def test_different_counts_at_one_barrier() -> None:
    found = misuse(ran(by_warp("bar.sync 1, 64;\n", "bar.sync 1, 96;\n", "bar.sync 1, 64;\n"), 96))
    assert found[0].message == "two barriers of id 1 are in flight: thread counts 64 and 96"
    assert misuse(ran(by_warp("bar.sync 1, 96;\n", "bar.sync 1, 96;\n", "bar.sync 1, 96;\n"), 96)) == []


def test_a_reduction_and_a_wait_at_one_barrier() -> None:
    red = "bar.red.popc.u32 %r5, 1, 64, %p1;\n"
    assert "in flight: .red and .sync" in misuse(ran(by_warp(red, "bar.sync 1, 64;\n"), 64))[0].message
    assert kinds(ran(by_warp(red, red), 64)) == []


def test_a_producer_that_arrives_twice() -> None:
    twice = by_warp("bar.arrive 1, 96;\nbar.arrive 1, 96;\n", "bar.sync 1, 96;\n", "bar.sync 1, 96;\n")
    assert "again before it is complete" in misuse(ran(twice, 96))[0].message
    answered = by_warp("bar.arrive 1, 64;\nbar.sync 2, 64;\nbar.arrive 1, 64;\n", "bar.sync 1, 64;\nbar.arrive 2, 64;\nbar.sync 1, 64;\n")
    assert kinds(ran(answered, 64)) == []


def test_an_aligned_barrier_in_one_half_of_a_warp() -> None:
    half = OWN + "setp.lt.u32 %p1, %r0, 16;\n@%p1 bar.sync 1, 32;\n" + STORE
    (found,) = misuse(ran(half, 32))
    assert "executed by part of a warp" in found.message and found.missing == "lanes 16-31 of the warp at the same instruction"
    assert found.sites[0].role == "bar.sync"
    assert misuse(ran(half.replace("%r0, 16", "%r0, 32"), 64)) == []


@pytest.mark.parametrize(("counted", "found"), [("", []), (", 64", ["deadlock"])])
def test_exited_threads_count_only_where_no_count_is_given(counted: str, found: list[str]) -> None:
    assert kinds(ran(by_warp("exit;\n", "", then=f"bar.sync 0{counted};\n"), 64)) == found


#: warp 1's threads from 40 on do something else, then all others come to a barrier that counts both warps
PART = OWN + "setp.ge.u32 %p1, %r0, 40;\n@%p1 {way};\n{barrier};\n" + STORE + "END:\nmov.u32 %r9, 0;\n{then}"


@pytest.mark.parametrize("barrier", ["bar.sync 1, 64", "barrier.sync 1, 64", "bar.red.popc.u32 %r5, 1, 64, %p1"])
def test_a_warp_some_of_whose_threads_have_exited_counts_as_a_warp(barrier: str) -> None:
    """PTX ISA, "bar": a thread waits "for all non-exited threads from its warp and marks warps' arrival"."""
    assert kinds(ran(PART.format(way="exit", barrier=barrier, then=""), 64)) == []
    skipped = PART.format(way="bra END", barrier=barrier, then="barrier.sync 2, 32;\n")
    assert "deadlock" in kinds(ran(skipped, 64))
    assert kinds(ran(PART.format(way="exit", barrier=barrier, then=""), 40)) == []  # the last warp has eight threads
    third = [f.message for f in ran(PART.format(way="exit", barrier=barrier.replace("64", "96"), then=""), 96).findings]
    assert any("64 of 96 threads have arrived" in message for message in third)


def test_what_threads_did_before_they_exited_is_not_ordered_by_the_barrier_that_counts_them() -> None:
    """Only accesses of threads that execute the barrier are performed when it completes."""
    store, load = ".shared .b32 s;\n@%p1 st.shared.u32 [s], 1;\n", "ld.shared.u32 %r5, [s];\nst.global.u32 [%d1], %r5;\n"
    body = OWN + "setp.eq.u32 %p1, %r0, 63;\nsetp.eq.u32 %p2, %r0, 62;\n" + store + "@WHO exit;\nbar.sync 1, 64;\n" + load
    assert kinds(ran(body.replace("WHO", "%p1"), 64)) == ["data race"]
    assert kinds(ran(body.replace("WHO", "%p2"), 64)) == []


def test_halves_of_two_warps_are_two_warps() -> None:
    half = OWN + "and.b32 %r9, %r0, 16;\nsetp.ne.u32 %p1, %r9, 0;\n@%p1 bra END;\nbarrier.sync 1, 32;\nEND:\n" + STORE
    assert "64 threads have come to one that counts 32" in misuse(ran(half, 64))[0].message
    assert "deadlock" in kinds(ran(half.replace("END:", "END:\nbar.warp.sync -1;"), 32))


def test_a_producer_that_exits_after_it_has_arrived() -> None:
    assert kinds(ran(by_warp("bar.arrive 1, 64;\nexit;\n", "bar.sync 1, 64;\n"), 64)) == []


@pytest.mark.parametrize(("guard", "found"), [("exit", []), ("bra END", ["barrier misuse", "deadlock"])])
def test_an_aligned_barrier_does_not_miss_lanes_that_have_exited(guard: str, found: list[str]) -> None:
    body = OWN + f"setp.ge.u32 %p1, %r0, 40;\n@%p1 {guard};\nbar.sync 0;\n" + STORE + "END:\nmov.u32 %r9, 0;\n"
    if guard == "bra END":
        body += "barrier.sync 1;\n"
    assert kinds(ran(body, 64)) == found


# --- fences and atomics by scope ------------------------------------------------------------------

#: every CTA stores its part, counts itself, and the last one adds all parts up
SPLIT = """
ld.param.u64 %d0, [parts]; ld.param.u64 %d2, [count]; ld.param.u64 %d3, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;
setp.eq.u32 %p1, %r0, 0; mad.lo.u32 %r2, %r1, 32, %r0; mul.wide.u32 %d4, %r2, 4; add.u64 %d4, %d0, %d4; st.global.u32 [%d4], %r2;
bar.sync 0; RELEASE mov.u32 %r5, 0;
@!%p1 bra WAIT; ATOM.global.add.u32 %r5, [%d2], 1; ACQUIRE WAIT: bar.red.popc.u32 %r6, 0, LAST; setp.ne.u32 %p3, %r6, 1; @%p3 bra END;
mul.wide.u32 %d5, %r0, 4; add.u64 %d6, %d0, %d5; ld.global.u32 %r7, [%d6]; ld.global.u32 %r8, [%d6+128]; ld.global.u32 %r9, [%d6+256];
add.u32 %r7, %r7, %r8; add.u32 %r7, %r7, %r9; add.u64 %d5, %d3, %d5; st.global.u32 [%d5], %r7;
END:
"""


def split(release: str = "membar.gl;", atom: str = "atom", acquire: str = "membar.gl;") -> tuple[Execution, list[int]]:
    body = SPLIT.replace("RELEASE", release).replace("ATOM", atom).replace("ACQUIRE", acquire)
    body = body.replace("bar.red.popc.u32 %r6, 0, LAST", "setp.eq.u32 %p4, %r5, 2; bar.red.popc.u32 %r6, 0, %p4")
    args = [ints("parts", [0] * 96, Role.INOUT), ints("count", [0], Role.INOUT), out(32)]
    execution, arena = run(module(body, ("u64 parts", "u64 count", "u64 out")), args, block=32, grid=3)
    return execution, column(execution, arena)


def test_the_last_cta_adds_up() -> None:
    execution, values = split()
    assert kinds(execution) == [] and values == [3 * t + 96 for t in range(32)]
    assert kinds(split("", "atom.acq_rel.gpu", "")[0]) == []
    assert execution.schedule_dependent == [], "it makes no difference which CTA is the last (see test_last_cta)"


@pytest.mark.parametrize(
    ("release", "atom", "acquire"),
    [("", "atom", "membar.gl;"), ("membar.gl;", "atom", ""), ("membar.cta;", "atom", "membar.gl;"), ("membar.gl;", "atom", "membar.cta;"),
     ("", "atom.acq_rel.cta", ""), ("", "atom.release.gpu", ""), ("", "atom.acquire.gpu", "")],
)  # fmt: skip
def test_the_last_cta_needs_both_fences_of_the_grid(release: str, atom: str, acquire: str) -> None:
    execution, _ = split(release, atom, acquire)
    races = [f for f in execution.findings if f.kind == "data race"]
    assert {f.tensor for f in races} >= {"parts"}
    of_parts = next(f for f in races if f.tensor == "parts")
    assert of_parts.missing == "no order exists between CTAs of a grid" and of_parts.count == 32


# --- arguments that are only read -----------------------------------------------------------------


@pytest.mark.parametrize("write", ["st.global.u32 [%d3], %r0;", "red.global.add.u32 [%d3], 1;", "atom.global.exch.b32 %r5, [%d3], 1;",
                                   "st.release.gpu.global.u32 [%d3], %r0;"])  # fmt: skip
def test_writes_to_an_argument_that_is_only_read(write: str) -> None:
    body = OWN + "ld.param.u64 %d3, [in];\nmad.wide.u32 %d3, %r0, 4, %d3;\n" + write + "\n"
    execution, _ = run(module(body, ("u64 out", "u64 in")), [out(32), ints("in", range(32))])
    (finding,) = execution.findings
    assert finding.kind == "write to a read-only argument" and finding.tensor == "in" and finding.count == 32 and finding.index == (0,)
    written, _ = run(module(body, ("u64 out", "u64 in")), [out(32), ints("in", range(32), Role.INOUT)])
    assert kinds(written) == []


@pytest.mark.parametrize(
    ("count", "block", "said"),
    [
        (48, 64, "thread count 48 is not a positive multiple of the warp size"), (0, 64, "thread count 0 is not a positive multiple"),
        (96, 64, "thread count 96 is more than the 64 threads of the CTA"), (96, 65, ""), (64, 64, ""),
    ],
)  # fmt: skip
def test_counts_that_a_barrier_cannot_have(count: int, block: int, said: str) -> None:
    found = [
        f.message for f in ran(OWN + f"mov.u32 %r20, {count};\nbar.sync 1, %r20;\n" + STORE, block).findings if f.kind == "barrier misuse"
    ]
    assert [message.startswith(said) for message in found] == [True] * bool(said)
