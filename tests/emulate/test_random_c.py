"""Differential: random C functions compiled by NVRTC and emulated, against the host's compiler run natively; equal bits."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
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


def check(seeds: range, folder: Path, *options: str) -> None:
    programs = {seed: Program(seed).text() for seed in seeds}
    host = native(programs, folder)
    module = parse(compile_cuda(cuda_source(programs), 80, *options))
    for seed in seeds:
        words = inputs(seed)
        wanted, got = np.zeros(THREADS, np.uint64), np.zeros(THREADS, np.uint64)
        pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in (words, wanted)]
        getattr(host, f"run{seed}")(*pointers, THREADS)
        emulation = emulate(module, f"run{seed}", 2, THREADS // 2, [words, got, THREADS])
        assert not emulation.findings, (seed, emulation.findings)
        wrong = np.flatnonzero(got != wanted)
        assert not wrong.size, f"seed {seed}: threads {wrong[:5].tolist()} of {THREADS} differ"


@pytest.mark.parametrize("options", [(), ("--device-debug",)], ids=["optimised", "debug"])
def test_twenty_functions(options: tuple[str, ...], tmp_path: Path) -> None:
    check(range(20) if not options else range(5), tmp_path, *options)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("options", [(), ("--device-debug",)], ids=["optimised", "debug"])
@pytest.mark.parametrize("first", range(20, 320, 20))
def test_three_hundred_functions(first: int, options: tuple[str, ...], tmp_path: Path) -> None:
    check(range(first, first + 20), tmp_path, *options)
