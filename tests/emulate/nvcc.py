"""CUDA C to PTX through nvcc with options of one's own; NVRTC with the same meaning where nvcc is missing."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from nvrtc import compile_cuda

from volta_pass.cuda.errors import CudaCompilerMissing
from volta_pass.cuda.nvcc import find_nvcc


def compile_by_nvcc(source: str, arch: int, *options: str) -> str:
    """The PTX of a translation unit. Raises CalledProcessError."""
    try:
        program = find_nvcc()
    except CudaCompilerMissing:
        return compile_cuda(source, arch, *(["--device-debug"] if "-G" in options else []))
    with tempfile.TemporaryDirectory(prefix="nvcc-") as folder:
        text, out = Path(folder) / "program.cu", Path(folder) / "program.ptx"
        text.write_text(source, encoding="ascii")
        command = [program, "--ptx", f"-arch=compute_{arch}", "-fmad=false", "-w", *options, "-o", str(out), str(text)]
        subprocess.run(command, check=True, capture_output=True)
        return out.read_text(encoding="utf-8")
