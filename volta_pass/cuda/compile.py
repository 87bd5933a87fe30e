"""CUDA C -> PTX and the entry that is meant, by NVRTC (the default) or nvcc."""

from __future__ import annotations

import difflib
import time
from dataclasses import dataclass

from ptx_engine.errors import LaunchError, UnsupportedError
from volta_pass.cuda import nvcc, nvrtc
from volta_pass.cuda.names import entries_of, is_expression, matching, source_name
from volta_pass.cuda.source import CudaSource

COMPILERS = ("nvrtc", "nvcc")


@dataclass(frozen=True)
class Compilation:
    """One compilation. ``entry`` is a name in ``ptx``, ``kernel`` the name to show; ``log`` holds the compiler's warnings."""

    ptx: str
    entry: str
    kernel: str
    log: str
    seconds: float
    toolchain: dict[str, str]


def compile_cuda(source: CudaSource, entry: str | None = None, compiler: str = "nvrtc") -> Compilation:
    """Compile, and find the entry: by its C++ name, by its PTX name, or the only one.

    Raises CudaCompileError (the compiler's own text), CudaCompilerMissing, LaunchError for an entry that is not there.
    """
    if compiler not in COMPILERS:
        raise LaunchError(f"no compiler {compiler!r}", hint="nvrtc or nvcc")
    start = time.perf_counter()
    lowered: dict[str, str] = {}
    if compiler == "nvrtc":
        expressions = [entry] if entry is not None and is_expression(entry) else []
        ptx, lowered, log = nvrtc.compile_nvrtc(source, expressions)
        version = nvrtc.version()
    else:
        if entry is not None and is_expression(entry):
            hint = f"instantiate it in the source and give its plain name, or use NVRTC: {entry}"
            raise UnsupportedError("nvcc cannot be asked for a template's instance", feature="entry", hint=hint)
        ptx, log = nvcc.compile_nvcc(source)
        version = nvcc.version(nvcc.find_nvcc())
    seconds = time.perf_counter() - start
    found = lowered[entry] if entry in lowered and entry is not None else _find_entry(entry, entries_of(ptx), source.name)
    name, _, number = version.partition(" ")
    toolchain = {name.lower(): number, "target": f"cuda:{source.arch}"}
    return Compilation(ptx, found, entry or source_name(found), log, seconds, toolchain)


def _find_entry(entry: str | None, entries: list[str], where: str) -> str:
    if not entries:
        raise LaunchError(
            f"{where} has no __global__ function that is compiled", hint='a template is compiled where it is named: entry = "k<4>"'
        )
    shown = ", ".join(source_name(name) for name in entries[:8])
    if entry is None:
        if len(entries) > 1:
            raise LaunchError(f"{where} has {len(entries)} kernels", hint=f"name one as entry: {shown}")
        return entries[0]
    found = matching(entry, entries)
    if len(found) > 1:
        raise LaunchError(f"{where} has {len(found)} kernels named {entry}", hint="give the PTX name: " + ", ".join(found[:8]))
    if not found:
        close = difflib.get_close_matches(entry, [source_name(name) for name in entries], n=1, cutoff=0.5)
        hint = f'did you mean "{close[0]}"?' if close else f"its kernels: {shown}"
        raise LaunchError(f"{where} has no kernel {entry!r}", hint=hint)
    return found[0]
