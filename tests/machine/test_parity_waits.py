"""A wait by parity means the first phase of that parity that the thread can be sure of, not the one that was complete when it ran."""

from __future__ import annotations

import pytest
from machine_kernels import OWN, kinds, module, out, run

SHARED = ".shared .align 8 .b8 m[8];\n.shared .align 4 .b8 a[512];"
HEAD = (
    OWN
    + "mov.u32 %r10, m; mov.u32 %r11, a; and.b32 %r12, %r0, 31; shl.b32 %r13, %r12, 2; add.u32 %r13, %r13, %r11; xor.b32 %r14, %r13, 4;\n"
    "mov.u32 %r6, 0; setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [%r10], COUNT; bar.sync 0; setp.lt.u32 %p2, %r0, 32;\n"
)
ARRIVE = "mbarrier.arrive.shared.b64 %d5, [%r10];\n"


def wait(label: str, parity: int) -> str:
    return f"{label}: mbarrier.test_wait.parity.shared.b64 %p5, [%r10], {parity}; @!%p5 bra {label};\n"


def ran(body: str, count: int, block: int = 64) -> list[str]:
    text = module(HEAD.replace("COUNT", str(count)) + body + "st.global.u32 [%d1], %r6;", shared=SHARED)
    return kinds(run(text, [out(block)], block=block)[0])


STORE, LOAD = "st.shared.u32 [%r13], %r0;\n", "ld.shared.u32 %r6, [%r14];\n"


def test_a_parity_that_an_earlier_phase_has_too() -> None:
    """Warp 0 stores before it arrives in phase 2. Warp 1 knows of no phase: its wait may pass when phase 0 is complete."""
    produce = ARRIVE + wait("A", 0) + ARRIVE + wait("B", 1) + STORE + ARRIVE + "bra END;\n"
    assert "data race" in ran(f"@!%p2 bra C;\n{produce}C: {wait('L', 0)}{LOAD}END:\n", 32)
    informed = wait("L", 0) + wait("M", 1) + wait("N", 0) + LOAD
    assert "data race" not in ran(f"@!%p2 bra C;\n{produce}C: {informed}END:\n", 32)


def test_a_phase_that_is_over_before_anything_was_stored() -> None:
    """Parity 1 stands for the phase before the first one: such a wait passes at once."""
    both = f"@%p2 bra P;\n{wait('L', 1)}{LOAD}bra END;\nP: {STORE}{ARRIVE}END:\n"
    assert "data race" in ran(both, 32)


def test_who_has_heard_that_all_have_arrived_knows_the_phase_to_be_complete() -> None:
    """Warp 1 waits for phase 1 only; that phase 0 is complete it knows from the barrier after its arrivals. Not so with transactions."""
    body = ARRIVE + "bar.sync 0;\n@!%p2 bra C;\n" + wait("A", 0) + STORE + "SECOND bra END;\nC: " + wait("L", 1) + LOAD + "END:\n"
    second = "mbarrier.arrive.shared.b64 %d5, [%r10], 2;\n"
    assert ran(body.replace("SECOND", second), 64) == []


@pytest.mark.parametrize("late", [True, False])
def test_one_lane_waits_and_tells_the_others(late: bool) -> None:
    """The lanes that hear of it by a warp barrier need not wait themselves."""
    tell = "setp.eq.u32 %p6, %r12, 0; @!%p6 bra T;\n" + wait("L", 0) + "T: " + ("" if late else "bar.warp.sync -1;\n") + LOAD
    found = ran(f"@%p2 bra P;\n{tell}bra END;\nP: {STORE}{ARRIVE}END:\n", 32)
    assert ("data race" in found) == late and (late or found == [])
