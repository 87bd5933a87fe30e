"""What becomes of a verdict when nobody reads it: readers that are gone, streams that are closed or full, characters that are not there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "configs" / "examples"
PROVED, RACY = str(EXAMPLES / "reduce.toml"), str(EXAMPLES / "reduce_no_barrier.toml")
COMMANDS = [
    (["check", PROVED], 0), (["check", RACY], 1), (["check", RACY, "--json"], 1), (["check", PROVED, RACY], 1),
    (["check", "gone.toml"], 2), (["--help"], 0), (["check"], 2), (["doctor"], 0),
]  # fmt: skip


def run(words: list[str], stdout: int, stderr: int, **environ: str) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "volta_pass", *words]
    return subprocess.run(command, stdout=stdout, stderr=stderr, timeout=120, check=False, env={**os.environ, **environ})


def without_reader(words: list[str], *, both: bool) -> "subprocess.CompletedProcess[bytes]":
    read, write = os.pipe()
    os.close(read)
    try:
        return run(words, write, write if both else subprocess.PIPE)
    finally:
        os.close(write)


@pytest.mark.parametrize(("words", "code"), COMMANDS)
def test_a_reader_that_is_gone_takes_no_verdict_away(words: list[str], code: int) -> None:
    """It was 0, which is "proved and clean"."""
    done = without_reader(words, both=False)
    assert done.returncode == code and b"Traceback" not in done.stderr and b"BrokenPipe" not in done.stderr, done.stderr
    assert without_reader(words, both=True).returncode == code


@pytest.mark.parametrize(("words", "code"), COMMANDS)
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_take_no_verdict_away(words: list[str], code: int, closed: str) -> None:
    """``sys.stdout`` is None then."""
    script = f'"$@" {closed}'
    done = subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, "-m", "volta_pass", *words], capture_output=True, timeout=120, check=False
    )
    assert done.returncode == code and b"Traceback" not in done.stderr and b"internal error" not in done.stderr, done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("words", [["check", PROVED], ["check", PROVED, "--json"], ["--help"]])
def test_output_that_is_not_whole_is_no_success(words: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = run(words, full.fileno(), subprocess.PIPE)
        assert done.returncode == 2 and b"standard output cannot be written" in done.stderr and b"  help: " in done.stderr
        assert done.stderr.count(b"error") == 1 and b"Traceback" not in done.stderr
        assert run(["check", RACY], subprocess.PIPE, full.fileno()).returncode == 1


@pytest.mark.parametrize(
    "environ",
    [{"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
     {"PYTHONUTF8": "1"}],
)  # fmt: skip
@pytest.mark.parametrize("name", ["\u03b1\u03b2", os.fsdecode(b"d\xff")])
def test_names_that_the_terminal_cannot_show_are_escaped(name: str, environ: dict[str, str], tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLES, tmp_path / name)
    pages = [str(folder / f"r{suffix}") for suffix in (".html", ".md", ".junit.xml", ".sarif", ".json")]
    for page in pages:
        assert (
            run(["check", str(folder / "reduce_no_barrier.toml"), "--report", page], subprocess.DEVNULL, subprocess.PIPE, **environ).stderr
            == b""
        )
        assert os.path.getsize(page) > 0
    both = [str(folder / "reduce.toml"), str(folder / "reduce_no_barrier.toml")]
    done = run(["check", *both], subprocess.PIPE, subprocess.PIPE, **environ)
    assert done.returncode == 1 and done.stderr == b"" and b"data race" in done.stdout


#: stores past the end of x, and lives on
WRONG = """
import numpy as np, triton, triton.language as tl
@triton.jit
def k(x, B: tl.constexpr):
    tl.store(x + tl.program_id(0) * B + tl.arange(0, B), 1.0)
x = np.zeros(1000, np.float32)
try:
    k[(4,)](x, B=BLOCK)
except Exception:
    pass
"""


@pytest.mark.parametrize(("block", "code"), [(256, 1), (128, 0)])
@pytest.mark.parametrize("redirected", ["", "2>&-", ">&-", ">&- 2>&-", "2>/dev/full", "2>&1 >/dev/null | true"])
def test_a_program_s_verdict_needs_no_reader(block: int, code: int, redirected: str, tmp_path: Path) -> None:
    """The table at the end could not be printed, so that no report was written, and "no kernel was validated"."""
    pytest.importorskip("triton")
    if "/dev/full" in redirected and not os.path.exists("/dev/full"):
        pytest.skip("no device that is always full")
    (tmp_path / "w.py").write_text(WRONG.replace("BLOCK", str(block)), encoding="utf-8")
    script = f'set -o pipefail; {sys.executable} -m volta_pass run --target cuda:80 "$0" {redirected}'
    environ = {**os.environ, "VOLTA_CACHE_DIR": str(tmp_path / "cache"), "TRITON_CACHE_DIR": str(tmp_path / "triton")}
    done = subprocess.run(["bash", "-c", script, str(tmp_path / "w.py")], capture_output=True, timeout=120, check=False, env=environ)
    assert done.returncode == code, done.stderr
