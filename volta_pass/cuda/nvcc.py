"""CUDA C to PTX through nvcc, where a spec asks for it: the same options, a program of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from ptx_engine.errors import BudgetError
from volta_pass.cuda.errors import CudaCompileError, CudaCompilerMissing
from volta_pass.cuda.library import nvidia_folders, toolkit
from volta_pass.cuda.source import CudaSource

#: no kernel takes nvcc this long
LIMIT_S = 300


def compile_nvcc(source: CudaSource) -> tuple[str, str]:
    """PTX and the log. Raises CudaCompileError, CudaCompilerMissing."""
    program = find_nvcc()
    with tempfile.TemporaryDirectory(prefix="volta-pass-nvcc-") as folder:
        path, out = Path(source.name), Path(folder) / "kernel.ptx"
        if not (path.is_file() and path.read_text(encoding="utf-8", errors="replace") == source.text):  # text that is in no file
            path = Path(folder) / path.name
            path.write_text(source.text, encoding="utf-8")
        command = [program, *_options(source), "-o", str(out), str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            raise BudgetError(f"nvcc took more than {LIMIT_S} s") from None
        log = done.stdout + done.stderr
        if done.returncode or not out.is_file():
            raise CudaCompileError(log.replace(str(path), source.name), source.text, version(program))
        return out.read_text(encoding="utf-8").replace(str(path), source.name), log


def _options(source: CudaSource) -> list[str]:
    folders = [source.folder, *source.include]
    return ["--ptx", f"-arch=compute_{source.arch}", "-lineinfo", *source.options, *source.definitions(), *(f"-I{f}" for f in folders)]


def find_nvcc() -> str:
    """nvcc of CUDA_HOME, else of the PATH, else of the pip package. Raises CudaCompilerMissing."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    places = [Path(home) / "bin" / "nvcc"] if home else []
    found = shutil.which("nvcc")
    places += [Path(found)] if found else []
    places += [folder / "bin" / "nvcc" for folder in nvidia_folders()]
    places += [root / "bin" / "nvcc"] if (root := toolkit()) is not None else []
    for place in places:
        if place.is_file():
            return str(place)
    raise CudaCompilerMissing(
        "nvcc is not on this machine", feature="nvcc", hint="set CUDA_HOME, or leave out compiler: NVRTC needs no toolkit"
    )


@cache
def version(program: str) -> str:
    """Such as "nvcc 13.0"."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r"release ([\d.]+)", done.stdout)
    return f"nvcc {found[1]}" if found else "nvcc"
