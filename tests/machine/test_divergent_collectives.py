"""Collectives of whole warps with a lane missing: which lanes, and what has become of them. Lanes that come late are waited for."""

from __future__ import annotations

import pytest
from machine_kernels import OWN, ints, kinds, module, out, run

from ptx_engine.findings import Finding
from ptx_engine.launch import Role

SHARED = ".shared .align 16 .b8 s[2048];"
ZEROS = "mov.b32 %r20, 0;\nmov.b32 %r21, 0;\nmov.b32 %r22, 0;\nmov.b32 %r23, 0;\nmov.f32 %f1, 0f00000000;\n"
#: %r11: the thread's own row of 16 bytes; %p1: the lower half of warp 0; %p2: lane 5 of it; %p3: the first two warps
START = (
    OWN + ZEROS + "mov.u32 %r10, s;\nmad.lo.u32 %r11, %r0, 16, %r10;\nst.shared.v4.b32 [%r11], {%r20, %r20, %r20, %r20};\nbar.sync 0;\n"
    "setp.lt.u32 %p1, %r0, 16;\nsetp.eq.u32 %p2, %r0, 5;\nsetp.lt.u32 %p3, %r0, 64;\n"
)  # fmt: skip
COLLECTIVES = {
    "mma": "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f2, %f3, %f4, %f5}, {%r20, %r21}, {%r22}, {%f1, %f1, %f1, %f1};",
    "mma.s8": "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r30, %r31}, {%r20}, {%r21}, {%r22, %r23};",
    "ldmatrix": "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r30}, [%r10];",
    "stmatrix": "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r11], {%r20};",
    "movmatrix": "movmatrix.sync.aligned.m8n8.trans.b16 %r30, %r20;",
    "wmma.load": "wmma.load.c.sync.aligned.row.m16n16k16.shared.f32 {%f2, %f3, %f4, %f5, %f6, %f7, %f8, %f9}, [%r10], 16;",
}
STORE = "\nst.global.u32 [%d1], %r0;\n"


def divergent(body: str, block: int = 64) -> Finding:
    execution, _ = run(module(START + body, shared=SHARED), [out(block)], block=block)
    (finding,) = execution.findings
    assert finding.kind == "divergent collective"
    return finding


def clean(body: str, block: int = 64) -> None:
    execution, _ = run(module(START + body, shared=SHARED), [out(block)], block=block)
    assert kinds(execution) == []


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_guard_that_differs_between_lanes(name: str) -> None:
    collective = COLLECTIVES[name]
    finding = divergent(f"@%p1 {collective}{STORE}")
    assert finding.message.startswith(collective.split()[0] + " is executed by a part of a warp") and finding.count == 16
    assert "lanes 16-31 have exited" in finding.message
    assert finding.missing == "lanes 16-31 of the warp at the same instruction"
    assert (finding.sites[0].warp, finding.sites[0].lane) == (0, 0) and finding.sites[0].ptx_text.startswith("@%p1")
    clean(f"@%p3 {collective}{STORE}")


def test_a_lane_that_waits_elsewhere() -> None:
    body = "@%p2 bra B;\n" + COLLECTIVES["ldmatrix"] + "\nB:\nbarrier.sync 1;\n" + STORE
    assert "lane 5 waits at bar.sync 1" in divergent(body).message
    clean(body.replace("@%p2 bra B;", "@%p2 bra C;\nC:"))


def test_the_same_collective_in_two_branches() -> None:
    body = f"@%p1 bra B;\n{COLLECTIVES['mma']}\nbra J;\nB:\n{COLLECTIVES['mma']}\nJ:{STORE}"
    execution, _ = run(module(START + body, shared=SHARED), [out(64)], block=64)
    first, second = execution.findings
    assert first.kind == second.kind == "divergent collective"
    assert "lanes 0-15 wait at another mma" in first.message and "lanes 16-31 wait at another mma" in second.message


def test_a_lane_that_has_exited() -> None:
    assert "lane 5 has exited" in divergent("@%p2 exit;\n" + COLLECTIVES["movmatrix"] + STORE).message
    clean("@!%p3 exit;\n" + COLLECTIVES["movmatrix"] + STORE, block=96)


def test_a_warp_that_the_block_does_not_fill() -> None:
    assert "lanes 8-31 do not exist in a block of 40 threads" in divergent(COLLECTIVES["mma"] + STORE, block=40).message
    clean("@!%p3 bra END;\n" + COLLECTIVES["mma"] + "\nEND:" + STORE, block=72)


def test_lanes_that_come_late_are_waited_for() -> None:
    """The upper half of warp 0 waits for a flag that warp 1 sets."""
    body = START + (
        "ld.param.u64 %d5, [flag];\nshr.u32 %r6, %r0, 4;\nsetp.eq.u32 %p5, %r6, 1;\nsetp.eq.u32 %p6, %r0, 40;\n@%p5 bra POLL;\n"
        f"MEET:\n{COLLECTIVES['mma']}\n@%p6 st.release.gpu.global.u32 [%d5], 1;\nbra END;\n"
        "POLL:\nld.acquire.gpu.global.u32 %r7, [%d5];\nsetp.eq.u32 %p7, %r7, 0;\n@%p7 bra POLL;\nbra MEET;\nEND:" + STORE
    )
    text = module(body, ("u64 out", "u64 flag"), shared=SHARED)
    execution, _ = run(text, [out(64), ints("flag", [0], Role.INOUT)], block=64)
    assert kinds(execution) == [] and execution.seconds["execute"] < 30, "not run until the budget ends (120 s)"
    never = module(body.replace("%r0, 40", "%r0, 3"), ("u64 out", "u64 flag"), shared=SHARED)
    (finding,) = run(never, [out(64), ints("flag", [0], Role.INOUT)], block=64)[0].findings
    assert finding.kind == "divergent collective" and "lanes 16-31 wait at a loop that polls flag[0]" in finding.message
