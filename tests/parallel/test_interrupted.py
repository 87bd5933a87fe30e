"""Ctrl-C ends a command and the processes that it started, whoever of them gets the signal: nobody waits for work that nobody wants."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pool_steps
import pytest

from volta_pass.parallel.pool import Stopped, run_tasks

EXAMPLES = Path(__file__).parents[2] / "configs" / "examples"
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of process groups")


def children(pid: int) -> list[str]:
    return subprocess.run(["ps", "-o", "pid=,stat=", "--ppid", str(pid)], capture_output=True, text=True, check=False).stdout.splitlines()


@pytest.mark.parametrize("whole_group", [True, False])
@pytest.mark.parametrize("files", [1, 3])
def test_an_interrupted_command_ends_at_once(files: int, whole_group: bool, tmp_path: Path) -> None:
    """A million CTAs take minutes. The workers are still importing, or at work; those that the signal killed are not replaced."""
    text = (EXAMPLES / "reduce.toml").read_text(encoding="utf-8").replace("grid = [1, 1, 1]", "grid = [1048576, 1, 1]")
    for name in ("reduce_tree.ptx", "reduce_serial.ptx"):
        text = text.replace(f'"{name}"', f'"{EXAMPLES / name}"')
    specs = [tmp_path / f"{number}.toml" for number in range(files)]
    for spec in specs:
        spec.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "volta_pass", "check", *map(str, specs), "--jobs", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 60
    while len(children(process.pid)) < 2 and time.monotonic() < deadline:  # a worker and multiprocessing's resource tracker
        time.sleep(0.05)
    time.sleep(0.5)
    (os.killpg if whole_group else os.kill)(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130 and said.rstrip().endswith("interrupted")
    gone = time.monotonic() + 10
    while subprocess.run(["pgrep", "-g", str(process.pid)], capture_output=True, check=False).stdout and time.monotonic() < gone:
        time.sleep(0.1)
    assert not subprocess.run(["pgrep", "-g", str(process.pid)], capture_output=True, check=False).stdout


def test_a_run_is_stopped_from_another_thread() -> None:
    stop = threading.Event()
    threading.Timer(1.0, stop.set).start()
    start = time.monotonic()
    with pytest.raises(Stopped):
        run_tasks(pool_steps.sleep, [60.0, 60.0], workers=2, stop=stop)
    assert time.monotonic() - start < 20


def test_a_run_that_is_not_stopped_goes_on() -> None:
    assert run_tasks(pool_steps.sleep, [0.3, 0.0], workers=2, stop=threading.Event()) == [0.3, 0.0]
