"""CUDA C to PTX through NVRTC: one call of the library, its log shown as it is."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from ptx_engine.errors import InternalError
from volta_pass.cuda.errors import CudaCompileError
from volta_pass.cuda.headers import include_folders
from volta_pass.cuda.host_headers import IMPLICIT, host_headers
from volta_pass.cuda.library import nvrtc_library
from volta_pass.cuda.source import CudaSource


def compile_nvrtc(source: CudaSource, names: Sequence[str] = ()) -> tuple[str, dict[str, str], str]:
    """PTX, lowered names of the C++ name expressions in ``names``, and the log (warnings). Raises CudaCompileError."""
    library = nvrtc_library()
    program = ctypes.c_void_p()
    headers = host_headers([source.folder, *source.include])
    texts, included = ((ctypes.c_char_p * len(headers))(*(word.encode() for word in words)) for words in (headers.values(), headers))
    text, name = source.text.encode(), source.name.encode()
    _check(library.nvrtcCreateProgram(ctypes.byref(program), text, name, len(headers), texts, included), library)
    try:
        for expression in names:
            _check(library.nvrtcAddNameExpression(program, expression.encode()), library)
        words = [word.encode() for word in options(source)]
        status = library.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words))
        log = _text(library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog, program, library)
        if status:
            raise CudaCompileError(log or _name(status, library), source.text, version())
        ptx = _text(library.nvrtcGetPTXSize, library.nvrtcGetPTX, program, library)
        return ptx, {expression: _lowered(program, expression, library) for expression in names}, log
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def options(source: CudaSource) -> list[str]:
    """The command line: target, lines, what nvcc includes by itself, the user's options and folders, CUDA's headers last."""
    own = ["-std=c++17"] if not any(option.lstrip("-").startswith("std=") for option in source.options) else []
    folders = [source.folder, *source.include, *(include_folders() if source.includes else [])]
    # 47: CUDA's <cmath> and <climits> define over again, in other words, what the stand-ins for the host's headers have defined
    fixed = ["-diag-suppress=47", f"--gpu-architecture=compute_{source.arch}", "-lineinfo", f"--pre-include={IMPLICIT}"]
    return [*fixed, *own, *source.options, *source.definitions(), *(f"-I{folder}" for folder in folders)]


def version() -> str:
    """Such as "NVRTC 13.5"."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc_library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"NVRTC {major.value}.{minor.value}"


def _lowered(program: ctypes.c_void_p, name: str, library: ctypes.CDLL) -> str:
    lowered = ctypes.c_char_p()
    _check(library.nvrtcGetLoweredName(program, name.encode(), ctypes.byref(lowered)), library)
    return (lowered.value or b"").decode()


def _check(status: int, library: ctypes.CDLL) -> None:
    if status:
        raise InternalError(f"NVRTC: {_name(status, library)}")


def _name(status: int, library: ctypes.CDLL) -> str:
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return str(library.nvrtcGetErrorString(status).decode())


def _text(measure: Any, fetch: Any, program: ctypes.c_void_p, library: ctypes.CDLL) -> str:
    size = ctypes.c_size_t()
    _check(measure(program, ctypes.byref(size)), library)
    buffer = ctypes.create_string_buffer(max(1, size.value))
    _check(fetch(program, buffer), library)
    return buffer.value.decode(errors="replace")
