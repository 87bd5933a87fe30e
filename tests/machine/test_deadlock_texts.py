"""A deadlock says which threads wait where and for whom: threads that have exited neither wait nor come."""

from __future__ import annotations

import pytest
from machine_kernels import OWN, ints, module, out, run

from ptx_engine.findings import Finding
from ptx_engine.launch import Role

SHARED = ".shared .align 8 .b64 m[4];"
#: %p1: threads 0 to 15; %p2: warp 1; %p3: threads 48 to 63
GUARDS = OWN + "setp.lt.u32 %p1, %r0, 16;\nsetp.gt.u32 %p2, %r0, 31;\nsetp.gt.u32 %p3, %r0, 47;\n"
MBARRIER = (
    "mov.u32 %r10, m;\nsetp.eq.u32 %p4, %r0, 0;\n@%p4 mbarrier.init.shared.b64 [%r10], 64;\nbar.sync 0;\n{exits}"
    "mbarrier.arrive.shared.b64 _, [%r10];\nL:\nmbarrier.test_wait.parity.shared.b64 %p5, [%r10], 0;\n@!%p5 bra L;\n"
)
CASES = {
    "all threads": ("@%p2 bra B;\nbar.sync 0;\nbra E;\nB:\nbar.sync 1;\nE:\n", [
        "threads 0-31 wait at bar.sync 0: 32 of 64 threads have arrived, threads 32-63 never come",
        "threads 32-63 wait at bar.sync 1: 32 of 64 threads have arrived, threads 0-31 never come",
    ]),
    "some have exited": ("@%p1 ret;\n@%p3 bra W;\nbarrier.sync 0;\nbra E;\nW:\nbarrier.sync 2;\nE:\n", [
        "threads 16-47 wait at bar.sync 0: 32 of 48 threads that have not exited have arrived, threads 48-63 never come",
        "threads 48-63 wait at bar.sync 2: 16 of 48 threads that have not exited have arrived, threads 16-47 never come",
    ]),
    "some have exited, with their warp": ("@%p1 ret;\n@%p3 bra W;\nbarrier.sync 1, 64;\nbra E;\nW:\nbarrier.sync 2, 64;\nE:\n", [
        "threads 16-47 wait at bar.sync 1, count 64: 48 of 64 threads have arrived (16 of them have exited: they count with their warps), "
        "threads 48-63 never come",
        "threads 48-63 wait at bar.sync 2, count 64: 16 of 64 threads have arrived, threads 16-47 never come and threads 0-15 have exited",
    ]),
    "a warp has exited": ("@%p2 ret;\nbar.sync 1, 64;\n", [
        "threads 0-31 wait at bar.sync 1, count 64: 32 of 64 threads have arrived, threads 32-63 have exited",
    ]),
    "exited after an arrival": ("@%p2 bra B;\nbarrier.sync 1, 64;\nbra E;\nB:\n@%p3 bra E;\nbarrier.arrive 1, 64;\nE:\n", [
        "threads 0-31 wait at bar.sync 1, count 64: 64 of 64 threads",
    ]),
    "an mbarrier": (MBARRIER.format(exits="@%p1 ret;\n"), [
        "threads 16-63 wait at the mbarrier at shared+0x0, phase 0: 16 of 64 arrivals never come: threads 0-15 of the CTA have not arrived in "
        "this phase (threads 0-15 have exited)",
    ]),
    "a flag": ("@%p2 ret;\nL:\nld.acquire.gpu.global.u32 %r5, [%d2+8];\nsetp.eq.u32 %p5, %r5, 0;\n@%p5 bra L;\n", [
        "threads 0-31 wait at a loop that polls F[2]: a value that no thread stores",
    ]),
    "a counter in shared memory": ("st.shared.u64 [m], 0;\nbar.sync 0;\nL:\natom.shared.add.u32 %r5, [m+4], 0;\nsetp.lt.u32 %p5, %r5, 9;\n@%p5 bra L;\n", [
        "threads 0-63 wait at a loop that polls shared+0x4: a value that no thread stores",
    ]),
}  # fmt: skip


def ran(body: str) -> list[Finding]:
    text = module("ld.param.u64 %d2, [f];\n" + GUARDS + body, ("u64 out", "u64 f"), SHARED)
    flags = ints("F", [0] * 8, Role.INOUT)
    return [f for f in run(text, [out(64), flags], block=64)[0].findings if f.kind == "deadlock"]


@pytest.mark.parametrize("name", [name for name in CASES if name != "exited after an arrival"])
def test_who_waits_where_and_for_whom(name: str) -> None:
    body, expected = CASES[name]
    (finding,) = ran(body)
    assert finding.message == "deadlock: " + "; ".join(expected)
    assert [site.role for site in finding.sites] == ["waits at " + one.split(" wait at ")[1].split(":")[0] for one in expected]


def test_whoever_exits_after_its_warp_has_arrived_is_not_waited_for() -> None:
    assert ran(CASES["exited after an arrival"][0]) == []
