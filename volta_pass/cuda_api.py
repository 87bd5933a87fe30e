"""CUDA C kernels in Python: ``cuda_kernel(source)`` compiles one, ``kernel[grid, block](...)`` checks a launch of it, without a GPU.

A launch's arguments are given by name in the order of the kernel's parameters. A tensor is a ``TensorSpec``, an array (its
shape and type count, and the contents where they are integers) or a ``TensorArg``; a number or "symbolic" is a scalar of
the parameter's type; None is a null pointer; a mapping is a struct passed by value, field by field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ptx_engine.errors import LaunchError
from ptx_engine.launch import DTYPES, SYMBOLIC, Arg, Launch, NullArg, ScalarArg, TensorArg
from ptx_engine.machine.parameters import assigned
from ptx_engine.syntax import parse
from ptx_engine.syntax.ast import Function, Param
from volta_pass.check import CheckOptions, check_spec
from volta_pass.cuda import Compilation, CudaSource, compile_cuda
from volta_pass.cuda.functions import CudaFunctions
from volta_pass.cuda.source import Define, read_source
from volta_pass.kernel_report import KernelReport
from volta_pass.spec import SideKind, SideSpec, Spec
from volta_pass.specs_api import TensorSpec, launch_dtype, triton_dtype

Extent = int | Sequence[int]


def cuda_kernel(
    source: "str | Path", *, arch: int = 80, options: Sequence[str] = (), entry: str | None = None,
    defines: Mapping[str, Define] | None = None, include: Sequence[str] = (), compiler: str = "nvrtc",
) -> CudaKernel:  # fmt: skip
    """Compile one kernel of CUDA C, given as text or as the path of a .cu file, for ``sm_<arch>``.

    ``entry`` is its C++ name, with template arguments if it has any; not needed where the source has one kernel. Raises
    CudaCompileError with the compiler's own text, CudaCompilerMissing, LaunchError.
    """
    is_path = isinstance(source, Path) or ("\n" not in source and source.endswith((".cu", ".cuh")))
    text, name = (read_source(source), str(source)) if is_path else (str(source), "kernel.cu")
    unit = CudaSource(text, name, arch, tuple(options), dict(defines or {}), tuple(include))
    return CudaKernel(unit, compile_cuda(unit, entry, compiler), compiler)


@dataclass(frozen=True)
class CudaKernel:
    """A compiled kernel; ``kernel[grid, block]`` or ``kernel[grid, block, dynamic_shared_bytes]`` is a launch of it."""

    source: CudaSource
    compilation: Compilation
    compiler: str = "nvrtc"

    @property
    def name(self) -> str:
        """Its name in the source."""
        return self.compilation.kernel

    @property
    def ptx(self) -> str:
        """The PTX of the whole translation unit."""
        return self.compilation.ptx

    @cached_property
    def entry(self) -> Function:
        """The parsed entry."""
        return next(e for e in parse(self.ptx, f"{self.name}.ptx").entries() if e.name == self.compilation.entry)

    def __getitem__(self, launch: tuple[Any, ...]) -> CudaLaunch:
        if not isinstance(launch, tuple) or not 2 <= len(launch) <= 3:
            raise LaunchError(f"a launch of {self.name} is [grid, block] or [grid, block, dynamic_shared_bytes]")
        grid, block, shared = (*launch, 0)[:3]
        return CudaLaunch(self, _dim3(grid), _dim3(block), int(shared))


@dataclass(frozen=True)
class CudaLaunch:
    """A kernel with its grid, block and dynamic shared memory; called with arguments it looks for races and memory faults."""

    kernel: CudaKernel
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int = 0

    def __call__(self, **args: Any) -> KernelReport:
        """Order and memory of the launch; outputs are not compared."""
        return self.validate(args)

    def validate(
        self, args: Mapping[str, Any], *, reference: "CudaLaunch | Callable[..., Any] | None" = None, outputs: Sequence[str] = (),
        reference_args: Sequence[str] = (), ctas: Sequence[Sequence[int]] | None = None, externs: Mapping[str, str] | None = None,
        globals: Mapping[str, "int | float | list[int | float]"] | None = None, options: CheckOptions | None = None,
    ) -> KernelReport:  # fmt: skip
        """The report on a launch, compared with a reference if there is one: a launch of another kernel, or a function of the
        input tensors by their names.

        ``outputs`` are the tensors to compare (default: all that either side writes); ``reference_args`` names the reference's
        parameters in order, where they differ; ``ctas`` are the CTAs to execute (default: all); ``externs`` maps extern device
        functions to operators; ``globals`` are the contents of module-scope variables at the launch, which are symbolic where their
        initialiser says nothing but zero: the host or an earlier launch may have written them. Raises LaunchError where arguments
        and parameters do not fit.
        """
        ours = self._args(args)
        candidate = self._side("candidate", ours, ctas)
        if reference is None or isinstance(reference, CudaLaunch):
            chosen = {name: args[name] for name in reference_args} if reference_args else args
            other = None if reference is None else reference._side("reference", reference._args(chosen), None)
        else:
            name = getattr(reference, "__name__", "reference")
            other = SideSpec("reference", SideKind.PYTHON, name, candidate.launch, function=reference)
        return check_spec(
            Spec(Path(self.kernel.source.name), candidate, other, tuple(outputs), (), dict(externs or {}), dict(globals or {})), options
        )

    def _side(self, side: str, args: tuple[Arg, ...], ctas: Sequence[Sequence[int]] | None) -> SideSpec:
        chosen = None if ctas is None else tuple(_dim3(cta, 0) for cta in ctas)
        launch = Launch(self.grid, self.block, args, self.dynamic_shared_bytes, chosen)
        kernel = self.kernel
        functions = CudaFunctions(kernel.source, kernel.compiler, kernel.name)
        return SideSpec(side, SideKind.PTX, f"{kernel.name}.ptx", launch, kernel.compilation.entry, text=kernel.ptx, functions=functions)

    def _args(self, args: Mapping[str, Any]) -> tuple[Arg, ...]:
        params = self.kernel.entry.params
        if len(args) != len(params):
            hint = "give every parameter by a name, in the kernel's order: " + ", ".join(f".{param.type}" for param in params)
            raise LaunchError(f"{self.kernel.name} takes {len(params)} arguments, not {len(args)}", hint=hint)
        found: list[Arg] = []
        for (name, value), param in zip(args.items(), params):
            found += _fields(name, value) if isinstance(value, Mapping) else [_argument(name, value, param)]
        assigned(self.kernel.name, params, found)
        return tuple(found)


def _dim3(extent: Extent, fill: int = 1) -> tuple[int, int, int]:
    extents = [extent] if isinstance(extent, int) else [int(e) for e in extent]
    if not 1 <= len(extents) <= 3:
        raise LaunchError(f"{extent!r} is no extent", hint="one to three integers")
    x, y, z = (*extents, fill, fill)[:3]
    return x, y, z


def _fields(struct: str, values: Mapping[str, Any]) -> list[Arg]:
    """The fields of a struct that is passed by value, as arguments ``struct.field``. A number is an int or a float of C; a NumPy scalar or
    a ScalarArg has the type that it says."""
    found: list[Arg] = []
    for field, value in values.items():
        name = f"{struct}.{field}"
        if isinstance(value, Mapping):
            found += _fields(name, value)
        elif isinstance(value, np.generic):
            found.append(ScalarArg(name, launch_dtype(triton_dtype(value.dtype)), value.item()))
        elif isinstance(value, (ScalarArg, TensorArg)):
            found.append(replace(value, name=name))
        elif isinstance(value, str):
            raise LaunchError(f"argument {name}: {value!r} has no type", hint=f'ScalarArg("{field}", "f32") is a symbolic float')
        else:
            kind = "f32" if isinstance(value, float) else "b32"
            found.append(_argument(name, value, Param(kind, name, 4, 4)))
    return found


def _argument(name: str, value: Any, param: Param) -> Arg:
    if value is None:
        return NullArg(name)
    if isinstance(value, (TensorArg, ScalarArg)):
        return value
    if isinstance(value, TensorSpec):
        contents = SYMBOLIC if value.contents is None else value.contents.reshape(-1)
        return TensorArg(name, launch_dtype(value.dtype), value.shape, strides=value.strides, contents=contents)
    if isinstance(value, np.ndarray):
        fixed = value.reshape(-1) if value.dtype.kind in "iub" else SYMBOLIC
        return TensorArg(name, launch_dtype(triton_dtype(value.dtype)), value.shape, contents=fixed)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (int, float)) or value == SYMBOLIC:
        return ScalarArg(name, _scalar_dtype(name, value, param), value)
    raise LaunchError(
        f"argument {name}: {type(value).__name__} is neither a tensor nor a number", hint="a TensorSpec, an array, a number or None"
    )


def _scalar_dtype(name: str, value: Any, param: Param) -> str:
    """The type of a scalar parameter: PTX says its width, and float or not; a negative integer is a signed one."""
    kind, width = param.type[0], 8 * param.size
    if kind == "f" or (kind == "b" and isinstance(value, float)):
        dtype = f"f{width}"
    else:
        dtype = f"{'s' if isinstance(value, int) and value < 0 else 'u'}{width}"
    if dtype not in DTYPES or (kind != "f" and isinstance(value, float) and kind != "b"):
        raise LaunchError(f"argument {name}: {value!r} for a parameter of type .{param.type}", hint="a number of that type")
    return dtype
