"""CUDA C to PTX through NVRTC's C interface: no driver, no toolkit, only the library of the pip package."""

from __future__ import annotations

import ctypes
import importlib.util
from functools import cache
from pathlib import Path


@cache
def library() -> ctypes.CDLL:
    """libnvrtc of the installed package. Raises FileNotFoundError naming the package."""
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations or ()) if spec is not None else []
    found = sorted(path for root in roots for path in Path(root).glob("*/lib/libnvrtc.so.*"))
    if not found:
        raise FileNotFoundError("libnvrtc is missing: pip install nvidia-cuda-nvrtc")
    return ctypes.CDLL(str(found[-1]))


def compile_cuda(source: str, arch: int = 80, *options: str) -> str:
    """The PTX of a translation unit. Raises RuntimeError with the compiler's log."""
    nvrtc = library()
    program = ctypes.c_void_p()
    _check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"program.cu", 0, None, None))
    words = [f"--gpu-architecture=compute_{arch}", "--fmad=false", "--disable-warnings", *options]
    array = (ctypes.c_char_p * len(words))(*[w.encode() for w in words])
    status = nvrtc.nvrtcCompileProgram(program, len(words), array)
    if status:
        raise RuntimeError(_text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program))
    ptx = _text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return ptx


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"NVRTC error {status}")


def _text(measure: "ctypes._FuncPointer", fetch: "ctypes._FuncPointer", program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    _check(measure(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(fetch(program, buffer))
    return buffer.value.decode()
