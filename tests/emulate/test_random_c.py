"""Differential: random C functions compiled to PTX and emulated, against the host's compiler run natively; equal bits.

By NVRTC and by nvcc, optimised and for a debugger (nvcc's -O3 and -O0). Where there is no nvcc, NVRTC stands in for it with its options.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from nvcc import compile_by_nvcc
from nvrtc import compile_cuda
from random_c import Program, cuda_source, host_source

from ptx_engine import emulate
from ptx_engine.syntax import parse

THREADS = 48
COMPILER = os.environ.get("CC") or next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), "")
pytestmark = pytest.mark.skipif(not COMPILER, reason="the other side of the comparison is the host's C compiler, and there is none")


def native(programs: dict[int, str], folder: Path) -> ctypes.CDLL:
    source, target = folder / "programs.c", folder / "programs.so"
    source.write_text(host_source(programs), encoding="ascii")
    options = ["-O1", "-fwrapv", "-ffp-contract=off", "-fno-strict-aliasing", "-w", "-shared", "-fPIC"]
    subprocess.run([COMPILER, *options, "-o", str(target), str(source), "-lm"], check=True)
    return ctypes.CDLL(str(target))


def inputs(seed: int) -> np.ndarray:
    """Four words a thread: small, large and random ones."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 2**64, (THREADS, 4), dtype=np.uint64)
    return np.where(rng.random((THREADS, 4)) < 0.4, words & np.uint64(0x3FF), words)


#: how a text becomes PTX: NVRTC or nvcc, optimised or with device debug information (registers in memory, nothing inlined)
BUILDS: dict[str, Callable[[str], str]] = {
    "nvrtc": lambda text: compile_cuda(text, 80),
    "nvrtc-debug": lambda text: compile_cuda(text, 80, "--device-debug"),
    "nvcc-O3": lambda text: compile_by_nvcc(text, 80, "-O3"),
    "nvcc-O0": lambda text: compile_by_nvcc(text, 80, "-O0", "-G"),
}


def check(seeds: range, folder: Path, build: str) -> None:
    programs = {seed: Program(seed).text() for seed in seeds}
    host = native(programs, folder)
    module = parse(BUILDS[build](cuda_source(programs)))
    for seed in seeds:
        words = inputs(seed)
        wanted, got = np.zeros(THREADS, np.uint64), np.zeros(THREADS, np.uint64)
        pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in (words, wanted)]
        getattr(host, f"run{seed}")(*pointers, THREADS)
        emulation = emulate(module, f"run{seed}", 2, THREADS // 2, [words, got, THREADS])
        assert not emulation.findings, (seed, emulation.findings)
        wrong = np.flatnonzero(got != wanted)
        assert not wrong.size, f"seed {seed}: threads {wrong[:5].tolist()} of {THREADS} differ"


#: by each compiler's optimiser twenty, by its unoptimised code a few: it runs many times as many instructions
EVERY_DAY = {"nvrtc": range(20), "nvrtc-debug": range(20, 22), "nvcc-O3": range(20), "nvcc-O0": range(5)}


@pytest.mark.parametrize("build", list(BUILDS))
def test_twenty_functions(build: str, tmp_path: Path) -> None:
    check(EVERY_DAY[build], tmp_path, build)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("build", list(BUILDS))
@pytest.mark.parametrize("first", range(20, 320, 20))
def test_three_hundred_functions(first: int, build: str, tmp_path: Path) -> None:
    check(range(first, first + 20), tmp_path, build)
