"""Recorded TileLang kernels through the TileLang that is installed now: in a process of its own, which records what it compiles."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ptx_engine.errors import LaunchError, UnsupportedError
from volta_pass.baseline.recording import Record, Recording

#: what compiles, and its exit codes (``volta_hooks.tilelang_again``)
PROGRAM = "volta_hooks.tilelang_again"
REFUSED, MISSING = 3, 4
_SECONDS = 600
#: lines of a compiler's complaint that are shown
_SHOWN = 12


def recompile_tilelang(record: Record, recipe: Mapping[str, Any]) -> "Record | str":
    """The same launch as TileLang makes it now, or the compiler's own words where it refuses.

    Raises UnsupportedError where TileLang is missing, LaunchError where the recording is damaged or nothing of it was compiled,
    KeyError and TypeError for a recipe without its parts.
    """
    number, values = int(recipe["kernel"]), dict(recipe["values"])
    request = {"source": str(recipe["source"]), "target": record.target, "values": values, "options": dict(recipe["options"])}
    with tempfile.TemporaryDirectory(prefix="volta-pass-") as folder:
        asked, made = Path(folder) / "request.json", Path(folder) / "recorded"
        asked.write_text(json.dumps(request), encoding="utf-8")
        done = _run(asked, made, record)
        said = "\n".join(done.stderr.strip().splitlines()[-_SHOWN:])
        if done.returncode == MISSING:
            raise UnsupportedError(said or "TileLang is not installed", feature="tilelang", hint="pip install 'volta-pass[tilelang]'")
        if done.returncode == REFUSED:
            return said
        rows = Recording(made).records() if made.is_dir() else []
    for row in rows:
        if row.recipe.get("kernel") == number and row.recipe.get("values") == values:
            return replace(row, kernel=record.kernel, configuration=record.configuration, report={})
    raise LaunchError(f"{record.kernel}: it was not compiled again", hint=said or "the recording may be damaged")


def _run(asked: Path, made: Path, record: Record) -> "subprocess.CompletedProcess[str]":
    root = Path(__file__).parents[2]
    paths = [str(root), str(root / "hooks")] if (root / "hooks" / "volta_hooks").is_dir() else []
    environ = {
        **os.environ, "VOLTA_BASELINE": str(made), "VOLTA_VALIDATE": "warn", "VOLTA_TARGET": record.target.replace("sm_", "cuda:"),
        "TILELANG_PRINT_ON_COMPILATION": "0", "VOLTA_REPORT": "",
        "PYTHONPATH": os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH", "")])]),
    }  # fmt: skip
    command = [sys.executable, "-m", PROGRAM, str(asked)]
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, said = process.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise UnsupportedError(f"{record.kernel}: TileLang took more than {_SECONDS} s to compile it again", feature="tilelang") from None
    finally:
        if process.poll() is None:  # it goes with the compilers that it has started
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return subprocess.CompletedProcess(command, process.returncode, out, said)
