"""``volta-pass bench tilelang``: the time of a validation over nvcc's time for the same kernel, for the suite's TileLang kernels.

The suite runs in a child process under the hook, for a GPU that is not there; its report has both times.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ptx_engine.errors import LaunchError
from volta_pass.cli.run import with_source_tree
from volta_pass.configs_folder import configs_folder

#: most seconds of validation per second of nvcc
RATIO_TARGET = 1.0
_LIMIT_S = 1800


def measure() -> Iterator[tuple[str, float, str, float]]:
    """(name, figure, unit, target) per kernel; a kernel that is not proved has one row that says so, as infinitely slow.

    Raises LaunchError where the suite cannot run (TileLang or nvcc is not installed).
    """
    for kernel in _reports():
        name, seconds = kernel["kernel"].removesuffix("_kernel"), kernel["seconds"]
        if kernel["verdict"] != "proved":
            yield f"{name}: {kernel['verdict']}, not proved: {kernel['reason']}", float("inf"), "ratio", RATIO_TARGET
            continue
        yield f"{name}: validate / nvcc", seconds["validate"] / seconds["compile"], "ratio", RATIO_TARGET


def _reports() -> list[dict[str, Any]]:
    suite = configs_folder() / "suite" / "tilelang" / "suite.py"
    with tempfile.TemporaryDirectory(prefix="volta-pass-bench-") as folder:
        report = Path(folder) / "report.json"
        environ = {
            **os.environ, "VOLTA_VALIDATE": "warn", "VOLTA_TARGET": "cuda:80", "VOLTA_REPORT": str(report),
            "VOLTA_CACHE_DIR": folder, "TILELANG_PRINT_ON_COMPILATION": "0",
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "volta_hooks.program", "file", str(suite)],
            env=with_source_tree(environ), capture_output=True, text=True, check=False, timeout=_LIMIT_S,
        )  # fmt: skip
        if not report.is_file():
            last = (done.stderr.strip().splitlines() or ["no output"])[-1]
            raise LaunchError(f"the TileLang suite did not run: {last}", hint="pip install 'volta-pass[tilelang]', and nvcc on the path")
        found: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))["kernels"]
    return found
