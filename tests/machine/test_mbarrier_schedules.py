"""mbarriers in other schedules than the machine's own: what is clean stays clean and computes the same, what is wrong is always reported."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from ptx_engine.findings import Severity
from ptx_engine.isa.group import Group
from ptx_engine.launch import Launch, Role, ScalarArg, TensorArg, bind
from ptx_engine.machine import Execution, execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena

FOLDER = Path(__file__).parent / "cuda_library"
SEEDS = range(8)


class Shuffled:
    """Warps start apart, any group that can run may run next, and groups stay apart unless they are taken together by chance."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._groups: list[Group] = []

    def begin(self, threads: int, block_threads: int) -> list[np.ndarray]:
        first = [np.arange(t, min(t + 32, threads), dtype=np.int32) for t in range(0, threads, 32)]
        self._random.shuffle(first)
        return first

    def put(self, g: Group) -> None:
        self._groups.append(g)

    def take(self) -> list[Group]:
        if not self._groups:
            return []
        chosen = self._random.choice(self._groups)
        alike = [g for g in self._groups if g is chosen or (g.pc == chosen.pc and self._random.random() < 0.5)]
        self._groups = [g for g in self._groups if g not in alike]
        return alike


def ran(text: str, inputs: int, outputs: int, seed: int, turns: int = 3) -> tuple[Execution, bytes]:
    args = (TensorArg("in", "f32", (inputs,), Role.IN), TensorArg("out", "f32", (outputs,), Role.OUT), ScalarArg("n", "s32", turns))
    arena = Arena()
    execution = execute(parse(text), None, bind(Launch((1, 1, 1), (128, 1, 1), args), arena), schedule=lambda: Shuffled(seed))
    return execution, execution.footprints["out"].index.tobytes()


def errors(execution: Execution) -> set[str]:
    return {f.kind for f in execution.findings if f.severity is Severity.ERROR}


@pytest.mark.parametrize("name", ["barrier", "copies", "pipeline"])
def test_the_library_is_clean_in_any_schedule(name: str) -> None:
    text, size = (FOLDER / f"{name}.ptx").read_text(), 1536
    written = set()
    for seed in SEEDS:
        execution, index = ran(text, size, size, seed)
        assert execution.findings == [], seed
        written.add(index + execution.footprints["out"].ids.tobytes())
    assert len(written) == 1, "elements are moved, not computed with: the ids are those of inputs"


@pytest.mark.parametrize("line", ["mbarrier.arrive.shared.b64                                  %rd14", "cp.async.mbarrier.arrive.shared.b64 [%r51]",
                                  "mbarrier.arrive.shared.b64                                  %rd23"])  # fmt: skip
def test_what_is_missing_is_missed_in_any_schedule(line: str) -> None:
    text = (FOLDER / "pipeline.ptx").read_text()
    assert text.count(line) == 1
    broken = "\n".join("" if line in row else row for row in text.splitlines())
    for seed in SEEDS:
        assert errors(ran(broken, 1536, 1536, seed)[0]), seed


PHASES = """
.version 8.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n)
{
.reg .pred %p<8>; .reg .b32 %r<10>; .reg .b64 %d<8>; .shared .align 8 .b64 m[2];
mov.u32 %r0, %tid.x; mov.u32 %r1, m; setp.eq.u32 %p1, %r0, 0; setp.lt.u32 %p2, %r0, 64;
@%p1 mbarrier.init.shared.b64 [%r1], 64; @%p1 mbarrier.init.shared.b64 [%r1+8], 64; bar.sync 0;
@!%p2 bra OTHERS;
mbarrier.arrive.shared.b64 %d1, [%r1];
L1: mbarrier.test_wait.shared.b64 %p3, [%r1], %d1; @!%p3 bra L1;
ANSWER mbarrier.arrive.shared.b64 %d1, [%r1];
L3: mbarrier.test_wait.shared.b64 %p3, [%r1], %d1; @!%p3 bra L3;
bra END;
OTHERS:
L4: mbarrier.test_wait.parity.shared.b64 %p3, [%r1], 0; @!%p3 bra L4;
SAY
END: ret;
}
"""
ANSWER = "L2: mbarrier.test_wait.parity.shared.b64 %p3, [%r1+8], 0; @!%p3 bra L2;"
SAY = "mbarrier.arrive.shared.b64 _, [%r1+8];"


@pytest.mark.parametrize(("answer", "say", "clean"), [(ANSWER, SAY, True), ("", SAY, False), ("", "", False)])
def test_a_wait_that_may_be_overtaken(answer: str, say: str, clean: bool) -> None:
    text = PHASES.replace("ANSWER", answer).replace("SAY", say)
    for seed in SEEDS:
        found = errors(ran(text, 4, 4, seed)[0])
        assert (not found) if clean else found & {"mbarrier misuse", "deadlock"}, seed


#: the ways to wait, by tests of which none alone is repeated until it succeeds, too
TEST = "mbarrier.test_wait.parity.shared.b64 {}, [%r1{}], {};"
WAITS = {
    "one test": "L{0}: {1} @!%p3 bra L{0};",
    "either of two": "L{0}: {1} {2} or.pred %p5, %p3, %p4; @!%p5 bra L{0};",
    "both of two": "L{0}: {1} {2} and.pred %p5, %p3, %p4; @!%p5 bra L{0};",
    "all lanes": "L{0}: {1} vote.sync.ballot.b32 %r3, %p3, -1; setp.ne.s32 %p5, %r3, -1; @%p5 bra L{0};",
}


def wait(style: str, label: int, parity: int, at: str = "") -> str:
    return WAITS[style].format(label, TEST.format("%p3", at, parity), TEST.format("%p4", at, parity))


@pytest.mark.parametrize("style", WAITS)
@pytest.mark.parametrize("phases", [2, 3])
@pytest.mark.parametrize("answered", [True, False])
@pytest.mark.parametrize("end", ["ret;\n", ""])
def test_a_wait_that_phases_may_overtake_is_one_however_it_is_written(style: str, phases: int, answered: bool, end: str) -> None:
    """The other threads wait for the first phase only. Of three, the last has its parity: then they never hang, but wait for either."""
    answer = "L9: mbarrier.test_wait.parity.shared.b64 %p3, [%r1+8], 0; @!%p3 bra L9;" if answered else ""
    turn = "mbarrier.arrive.shared.b64 %d1, [%r1];\nL{0}: mbarrier.test_wait.shared.b64 %p3, [%r1], %d1; @!%p3 bra L{0};\n"
    text = PHASES[: PHASES.index("mbarrier.arrive")] + turn.format(1) + answer + "".join(map(turn.format, range(2, phases + 1)))
    text += f"bra END;\nOTHERS:\n{wait(style, 10, 0)}\n{SAY if answered else ''}\nEND:\n{end}}}\n"
    for seed in SEEDS:
        found = errors(ran(text, 4, 4, seed)[0])
        assert found == set() if answered else found & {"mbarrier misuse", "deadlock"}, seed


@pytest.mark.parametrize("style", WAITS)
def test_phases_follow_each_other_however_they_are_waited_for(style: str) -> None:
    """All arrive in a phase, wait for it, and arrive in the next one: not so if they do not wait."""
    head = PHASES[: PHASES.index("@!%p2 bra OTHERS")].replace("[%r1], 64", "[%r1], 128")
    arrive = "mbarrier.arrive.shared.b64 _, [%r1];\n"
    clean = head + arrive + wait(style, 1, 0) + arrive + wait(style, 2, 1) + arrive + wait(style, 3, 0) + "\nret;\n}\n"
    for seed in SEEDS:
        assert errors(ran(clean, 4, 4, seed)[0]) == set(), seed
        assert errors(ran(clean.replace(wait(style, 2, 1), ""), 4, 4, seed)[0]), seed


HALVES = """
.version 8.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n)
{
.reg .pred %p<8>; .reg .b32 %r<10>;
mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 64; @%p1 bar.sync 1, 64; FIRST @!%p1 bar.sync 1, 64; SECOND
ret;
}
"""


@pytest.mark.parametrize(("first", "second", "clean"), [("bar.sync 0;", "", True), ("", "bar.sync 0;", False), ("", "", False)])
def test_one_barrier_id_for_two_halves(first: str, second: str, clean: bool) -> None:
    text = HALVES.replace("FIRST", first).replace("SECOND", second)
    for seed in SEEDS:
        found = errors(ran(text, 4, 4, seed)[0])
        assert (not found) if clean else "barrier misuse" in found, seed
