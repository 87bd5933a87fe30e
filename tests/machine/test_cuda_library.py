"""cuda::barrier and cuda::pipeline as NVRTC compiles them for sm_80: clean, with the right values; without one of their steps, a finding."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from ptx_engine.findings import Severity
from ptx_engine.launch import Launch, Role, ScalarArg, TensorArg, bind
from ptx_engine.machine import Execution, execute
from ptx_engine.machine.emulate import emulate
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena

FOLDER = Path(__file__).parent / "cuda_library"
TURNS = 5
#: kernel -> elements of the input and of the output
SIZES = {
    "barrier": (128 * TURNS, 128 * TURNS),
    "copies": (128 * TURNS, 128 * TURNS),
    "pipeline": (512 * TURNS, 512 * TURNS),
    "roles": (64 * TURNS, 64),
}
TEXTS = {name: (FOLDER / f"{name}.ptx").read_text() for name in SIZES}


def expected(name: str, data: np.ndarray) -> np.ndarray:
    """What the CUDA source computes: each thread passes its neighbour's element on, or adds its partner's up."""
    if name == "roles":
        return data.reshape(TURNS, 32, 2)[:, :, ::-1].reshape(TURNS, 64).sum(axis=0)
    width = 4 if name == "pipeline" else 1
    return np.roll(data.reshape(TURNS, 128, width), -1, axis=1).reshape(-1)


def ran(name: str, text: str, grid: int = 1) -> Execution:
    inputs, outputs = SIZES[name]
    args = (TensorArg("in", "f32", (inputs,), Role.IN), TensorArg("out", "f32", (outputs,), Role.OUT), ScalarArg("n", "s32", TURNS))
    return execute(parse(text), None, bind(Launch((grid, 1, 1), (128, 1, 1), args), Arena()), source=text)


@pytest.mark.parametrize("name", TEXTS)
def test_the_values_are_those_of_the_source(name: str) -> None:
    data = np.arange(SIZES[name][0], dtype=np.float32)
    result = np.zeros(SIZES[name][1], np.float32)
    run = emulate(TEXTS[name], None, 1, 128, [data, result, TURNS])
    assert run.findings == []
    assert np.array_equal(result, expected(name, data))


@pytest.mark.parametrize("name", TEXTS)
def test_nothing_is_found(name: str) -> None:
    execution = ran(name, TEXTS[name])
    assert execution.findings == [] and len(execution.footprints["out"].index) == SIZES[name][1]
    dependent = execution.schedule_dependent
    if name == "roles":  # who produces is up to atomics; how many do is read when all have been counted
        assert dependent and not any("ld.relaxed" in reason for reason in dependent)
    else:
        assert dependent == [], "first tests, sleep, clocks and who clears up are of no influence"


def test_what_clears_up_may_not_be_seen() -> None:
    """The last thread of the pipeline invalidates its mbarriers. If it did something that others see, the result would depend on who is last."""
    text = TEXTS["pipeline"]
    for place, instead in (("mbarrier.inval.shared.b64 [%r38];", "st.global.u32 [%rd2], %r93;"), ("fence.sc.cta;", "ld.shared.u32 %r96, [%r45];"),
                           ("barrier.sync 	0;", "barrier.sync 0;\nld.relaxed.cta.shared.b32 %r96, [_ZZ1kE2st+32];")):  # fmt: skip
        assert text.count(place) == 1
        reasons = ran("pipeline", text.replace(place, instead)).schedule_dependent
        assert any("activemask" in reason or "atom" in reason for reason in reasons), instead


def steps(name: str) -> list[tuple[str, int, str]]:
    """(kernel, line, its replacement) for every step of a protocol: an arrival is left out, a wait passes at once. Not those whose state a
    wait needs; not the first wait of the pipeline, for a stage that is free from the start."""
    found = []
    for number, line in enumerate(TEXTS[name].splitlines()):
        if re.search(r"cp\.async\.mbarrier|mbarrier\.init", line) or (name != "copies" and "mbarrier.arrive" in line):
            found.append((name, number, ""))
        wait = re.search(r"mbarrier\.test_wait\S* (%?p),", line)
        if wait and (name, "%r38") != ("pipeline", line[line.find("[") + 1 : line.find("]")]):
            found.append((name, number, re.sub(r"mbarrier\.test_wait[^;]*;", f"setp.eq.u32 {wait[1]}, 0, 0;", line)))
    return found


@pytest.mark.parametrize(("name", "line", "instead"), [s for name in ("copies", "pipeline", "roles") for s in steps(name)])
def test_without_one_step_something_is_found(name: str, line: int, instead: str) -> None:
    lines = TEXTS[name].splitlines()
    lines[line] = instead
    found = {f.kind for f in ran(name, "\n".join(lines)).findings if f.severity is Severity.ERROR}
    assert found & {"data race", "deadlock", "mbarrier misuse"}, found
