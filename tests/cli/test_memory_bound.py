"""``--memory-mib``: one spec's process is bounded, too, and what it does not hold is a verdict."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SPEC = str(Path(__file__).parents[2] / "configs" / "examples" / "reduce.toml")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems count no private mappings")


def checked(*options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "volta_pass", "check", SPEC, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_one_spec_is_bounded() -> None:
    done = checked("--memory-mib", "1")
    assert done.returncode == 3 and "not enough memory" in done.stderr and "--memory-mib" in done.stderr
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_more_than_there_is_is_no_bound(jobs: str) -> None:
    done = checked("--memory-mib", "9" * 20, "--jobs", jobs)
    assert done.returncode == 0 and done.stderr == ""
