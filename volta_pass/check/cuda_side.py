"""A CUDA C kernel as a side of a spec: compiled for the spec's target without a GPU, then checked as its PTX."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ptx_engine.errors import LaunchError, PtxError
from volta_pass.check.options import CheckOptions
from volta_pass.check.sides import ReadySide, ready_ptx
from volta_pass.cuda import Compilation, CudaCompileError, CudaSource, compile_cuda
from volta_pass.cuda.functions import CudaFunctions
from volta_pass.cuda.source import read_source
from volta_pass.spec import SideSpec, Spec, SpecError


def ready_cuda(side: SideSpec, spec: Spec, options: CheckOptions) -> ReadySide:
    """The compiled kernel. Raises CudaCompileError (the compiler's own text), CudaCompilerMissing, SpecError."""
    done = compile_side(side)
    ready = ready_ptx(replace(side, entry=done.entry), done.ptx, spec, options, f"{Path(side.source).stem}.ptx")
    ready.kernel, ready.toolchain = done.kernel, done.toolchain
    ready.side = replace(ready.side, functions=functions_of(side))
    ready.seconds["compile"] = done.seconds
    return ready


def functions_of(side: SideSpec) -> CudaFunctions:
    """The library functions of a side's compiler."""
    return CudaFunctions(source_of(side), side.compiler, side.entry)


def source_of(side: SideSpec) -> CudaSource:
    """A side's text and how it is compiled. Raises LaunchError."""
    text = read_source(side.source) if side.text is None else side.text
    return CudaSource(text, side.source, int(side.target.partition(":")[2]), side.cuda_options, side.defines, side.include)


def compile_side(side: SideSpec) -> Compilation:
    """Compile a side's file with its options, macros and target. Raises as ``ready_cuda``."""
    try:
        return compile_cuda(source_of(side), side.entry, side.compiler)
    except CudaCompileError:
        raise
    except LaunchError as error:
        raise SpecError(f"[{side.side}] {error.message}", span=side.span, source_line=side.source_line, hint=error.hint) from None
    except PtxError as error:
        if error.span is None:
            error.span, error.source_line = side.span, side.source_line
        raise
