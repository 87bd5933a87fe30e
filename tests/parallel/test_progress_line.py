"""A long validation says on a terminal how far it is; nothing is written where there is none, nor before a second has passed."""

import io
import json
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ptx_engine.launch import Launch, Role, TensorArg, bind
from ptx_engine.machine import Budget, execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena
from ptx_engine.watching import Step, tell, watched, watcher
from volta_pass.progress_line import ProgressLine, describe, progress_line

LOOP = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x) {
  .reg .b64 %rd<3>; .reg .b32 %r<5>; .reg .f32 %f<3>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [x]; mov.u32 %r1, 0;
again:
  add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 500; @%p1 bra again;
  mov.u32 %r2, %ctaid.x; mul.wide.u32 %rd2, %r2, 4; add.s64 %rd2, %rd1, %rd2; mov.f32 %f1, 0f00000000; st.global.f32 [%rd2], %f1; ret;
}
"""


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def line():
    clock, out = Clock(), Terminal()
    return clock, out, ProgressLine("k.toml", out, clock)


def test_the_machine_tells_ctas_instructions_and_what_is_left():
    steps = []
    launch = Launch((6, 1, 1), (1, 1, 1), (TensorArg("x", "f32", (6,), Role.OUT),))
    with watched(steps.append):
        done = execute(parse(LOOP), "k", bind(launch, Arena()), budget=Budget(batch_threads=2, fuse_after=None))
    assert {step.total for step in steps} == {6} and {step.ctas for step in steps} == {0, 2, 4}
    counted = [step.instructions for step in steps]
    assert counted == sorted(counted) and 0 < counted[-1] <= done.instructions
    assert all(0 < step.budget_s <= 120 for step in steps) and watcher() is None


def test_words():
    assert describe(Step("comparing"), 3) == "comparing"
    assert describe(Step("executing", 0, 64, 1_250_000, 100.0), 2) == "executing, 0 of 64 CTAs, 1.2 M instructions, at most 1 min 40 s left"
    assert describe(Step("executing", 16, 64, 12, 500.0), 5) == "executing, 16 of 64 CTAs, 12 instructions, about 15 s left"
    assert describe(Step("executing", 64, 64, 12), 5) == "executing, 64 of 64 CTAs, 12 instructions"


def test_the_line_appears_after_a_second_and_is_wiped(line):
    clock, out, shown = line
    shown(Step("parsing"))
    clock.now = 0.9
    shown(Step("executing", 0, 4))
    assert out.getvalue() == ""
    clock.now = 1.1
    shown(Step("executing", 1, 4))
    assert out.getvalue() == "\rk.toml: executing, 1 of 4 CTAs, about 1 s left"
    clock.now = 1.2
    shown(Step("executing", 2, 4))
    assert "2 of 4" not in out.getvalue(), "it flickers"
    shown(Step("comparing"))
    assert out.getvalue().endswith("\rk.toml: comparing".ljust(47)), "a new stage is shown at once, over all of the old line"
    shown.wipe()
    assert out.getvalue().endswith("\r" + " " * 17 + "\r") and "\x1b" not in out.getvalue()


def test_nothing_was_shown_nothing_is_wiped(line):
    _, out, shown = line
    shown.wipe()
    assert out.getvalue() == ""


@pytest.mark.parametrize(
    ("stream", "quiet", "told"), [(Terminal(), False, True), (Terminal(), True, False), (io.StringIO(), False, False), (None, False, False)]
)
def test_only_terminals_are_written_to(monkeypatch, stream, quiet, told):
    monkeypatch.setattr("volta_pass.progress_line.AFTER_S", 0.0)
    monkeypatch.setattr("sys.stderr", stream)
    with progress_line("k", quiet=quiet):
        assert (watcher() is not None) == told
        tell(Step("executing"))
    assert stream is None or bool(stream.getvalue()) == told


def test_control_characters_of_a_name_do_not_reach_the_terminal():
    out, clock = Terminal(), Clock()
    shown = ProgressLine("\x1b[31mk", out, clock)
    clock.now = 2.0
    shown(Step("parsing"))
    assert "\x1b" not in out.getvalue()


# --- commands, on a real terminal -----------------------------------------------------------------

ROOT = Path(__file__).parents[2]
SPECS = [str(ROOT / "configs" / "examples" / f"{name}.toml") for name in ("scale_add", "reduce_alone")]


def run(folder, *words, terminal=True, **environ):
    """Exit code, stdout and stderr of a command whose stderr is a terminal, or a pipe."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("VOLTA_", "NO_COLOR", "COLUMNS"))}
    env |= {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "hooks")]),
        "VOLTA_CACHE_DIR": str(folder / "cache"),
        "TERM": "xterm",
        **environ,
    }
    ours, theirs = pty.openpty() if terminal else os.pipe()
    process = subprocess.Popen([sys.executable, "-m", "volta_pass", *words], stdout=subprocess.PIPE, stderr=theirs, env=env, cwd=folder)
    os.close(theirs)
    said = []
    reader = threading.Thread(target=lambda: said.extend(_until_closed(ours)))
    reader.start()
    out = process.communicate(timeout=200)[0].decode()
    reader.join()
    os.close(ours)
    return process.returncode, out, b"".join(said).decode()


def _until_closed(handle):
    while True:
        try:
            data = os.read(handle, 1 << 16)
        except OSError:  # a terminal whose other side is closed
            return
        if not data:
            return
        yield data


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Two launches; the newer recording's kernels have a barrier more, so that there is something to compare."""
    from dataclasses import replace

    from volta_pass.baseline import Recording

    folder = tmp_path_factory.mktemp("recorded")
    assert run(folder, "baseline", "record", "old", *SPECS, terminal=False)[0] == 0
    for record in Recording(folder / "old").records():
        Recording(folder / "new").write(replace(record, ptx=record.ptx.replace("ret;", "bar.sync 0; ret;")))
    return folder


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["check", *SPECS, "--json"], "checking"),
        (["baseline", "record", "again", *SPECS, "--json"], "checking and recording"),
        (["baseline", "check", "new", "--json"], "compiling and comparing"),
        (["baseline", "diff", "old", "new", "--json"], "comparing"),
    ],
)
def test_commands_say_on_a_terminal_how_far_they_are_and_nothing_in_a_pipe(recorded, words, what):
    code, out, said = run(recorded, *words)
    assert what in said and "/2" in said, "how many of how many"
    assert json.loads(out), "what is printed for programs is not touched"
    assert "\x1b[2K" in said.rpartition("/2")[2], "the line is wiped"
    quiet = run(recorded, *words, terminal=False)
    assert (quiet[0], what in quiet[2], "\x1b" in quiet[2]) == (code, False, False)


def test_the_stage_of_the_work_in_this_process_is_shown(monkeypatch):
    from volta_pass.parallel.progress import shown_progress

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", Terminal())
    with shown_progress(3, "checking [all] of them") as done:
        done(0)
        tell(Step("executing", 1, 4))
    shown = sys.stderr.getvalue()
    assert "checking [all] of them" in shown and "executing, 1 of 4 CTAs" in shown and "1/3" in shown and watcher() is None


def test_no_colour_where_none_is_wanted(recorded):
    colours = re.compile(r"\x1b\[[0-9;]*3[0-7]m|\x1b\[9[0-7]m")
    words = ["baseline", "diff", "old", "new", "--json"]
    assert colours.search(run(recorded, *words)[2])
    plain = run(recorded, *words, NO_COLOR="1")[2]
    assert "comparing" in plain and not colours.search(plain)
