"""Findings in a loop say in which turn: the uniform integers that the loop carries."""

from __future__ import annotations

from machine_kernels import OWN, kinds, module, out, run

#: every thread stores at i = 0, 1, 2 to its own place of s, and in turn {turn} (after the barrier) to that of the next thread
BODY = OWN + (
    "mov.u32 %r10, s;\nmad.lo.u32 %r11, %r0, 4, %r10;\nadd.u32 %r12, %r0, 1;\nand.b32 %r12, %r12, 63;\nmad.lo.u32 %r13, %r12, 4, %r10;\n"
    "mov.u32 %r20, 0;\nmov.s32 %r21, 10;\nmov.u32 %r22, %r0;\nmov.u32 %r23, 5;\n"
    "L:\nst.shared.u32 [%r11], %r0;\nsetp.eq.u32 %p1, %r20, {turn};\n@%p1 st.shared.u32 [%r13], %r21;\nbar.sync 0;\n"
    "add.u32 %r20, %r20, 1;\nadd.s32 %r21, %r21, -8;\nadd.u32 %r22, %r22, %r23;\nsetp.lt.u32 %p2, %r20, 3;\n@%p2 bra L;\n"
    "st.global.u32 [%d1], %r22;"
)
SHARED = ".shared .align 4 .b8 s[256];"


def test_a_race_in_a_loop_names_the_turn() -> None:
    execution, _ = run(module(BODY.format(turn=2), shared=SHARED), [out(64)], block=64)
    assert set(kinds(execution)) == {"data race"}
    # %r22 differs between threads, %r23 is not carried, addresses do not change
    assert {f.details["loop"] for f in execution.findings} == {"%r20 = 2, %r21 = -6"}


def test_without_the_turn_there_is_no_race() -> None:
    assert kinds(run(module(BODY.format(turn=3), shared=SHARED), [out(64)], block=64)[0]) == []


def test_accesses_of_two_turns_name_both() -> None:
    body = BODY.format(turn=9).replace("bar.sync 0;\n", "").replace("st.shared.u32 [%r11], %r0", "@%p3 st.shared.u32 [%r11], %r0")
    body = body.replace("L:\n", "L:\nsetp.eq.u32 %p3, %r20, 0;\nsetp.eq.u32 %p4, %r20, 1;\n@%p4 ld.shared.u32 %r30, [%r13];\n")
    (finding,) = run(module(body, shared=SHARED), [out(64)], block=64)[0].findings
    assert finding.details["loop"] == "first: %r20 = 0, %r21 = 10; second: %r20 = 1, %r21 = 2"


def test_a_fault_in_a_loop_names_the_turn_and_one_outside_does_not() -> None:
    body = OWN + (
        "mov.u32 %r20, 0;\nL:\nst.global.u32 [%d1], %r0;\nadd.s64 %d1, %d1, 128;\nadd.u32 %r20, %r20, 1;\n"
        "setp.lt.u32 %p2, %r20, 3;\n@%p2 bra L;\n"
    )
    (finding,) = run(module(body), [out(64)])[0].findings
    assert (finding.kind, finding.details) == ("out of bounds", {"loop": "%r20 = 2"})
    (finding,) = run(module(OWN + "st.global.u32 [%d1+256], %r0;"), [out(64)])[0].findings
    assert (finding.kind, finding.details) == ("out of bounds", {})
