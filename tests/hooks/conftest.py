"""Running Triton programs under the hook: each in its own process, with caches of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: makes a source tree behave as an installation whose .pth file is active
START = "import volta_hooks.autoload as _autoload\n_autoload.install()\n"


@dataclass
class Ran:
    """A finished program: exit code, output, and the reports it left."""

    code: int
    out: str
    err: str
    kernels: list[dict]


@pytest.fixture
def run_program(tmp_path):
    """``run_program(source, VOLTA_VALIDATE="1", ...)``: a program with the autoload active, in a folder of its own."""

    def run(source: str, *, start: str = START, timeout: float = 120, **environ: str) -> Ran:
        path = tmp_path / "program.py"
        path.write_text(start + source)
        report = tmp_path / "report.json"
        report.unlink(missing_ok=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("VOLTA_", "TRITON_"))}
        env |= {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "hooks"), str(ROOT / "configs" / "triton")])}
        env |= {"TRITON_CACHE_DIR": str(tmp_path / "triton"), "VOLTA_CACHE_DIR": str(tmp_path / "verdicts")}
        env |= {"VOLTA_REPORT": str(report), "TRITON_DEFAULT_FP_FUSION": "1", **environ}
        done = subprocess.run(
            [sys.executable, str(path)], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=timeout, check=False
        )
        kernels = json.loads(report.read_text())["kernels"] if report.is_file() else []
        return Ran(done.returncode, done.stdout, done.stderr, kernels)

    return run
