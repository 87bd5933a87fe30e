"""Calls of compiled TileLang kernels: sizes and contents that only a launch fixes are validated before it runs.

Under ``VOLTA_TARGET`` a call executes nothing: it returns outputs of the right shapes, and benchmarks give all kernels the
same time, so that an autotuner ranks by validity only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from tilelang.autotuner import AutoTuner
from tilelang.jit.kernel import JITKernel
from tilelang.profiler import Profiler
from tvm import tirx

from volta_hooks.tilelang_guard import CompiledFunction, check
from volta_hooks.tilelang_tool import Registry, compiled_here

#: what a benchmark "measures", in milliseconds
_EQUAL_MS = 1.0


def guard_calls(registry: Registry, stand_in: bool) -> None:
    """Put validation in front of every call; with ``stand_in``, in place of it."""
    make, call = JITKernel.__init__, JITKernel.__call__

    def made(self: JITKernel, func: Any = None, *args: Any, **kwargs: Any) -> None:
        make(self, func, *args, **kwargs)
        name = str(func.attrs["global_symbol"]) if func is not None and func.attrs else ""
        self._volta = compiled_here(name)
        if name in registry.refused:
            raise registry.refused[name]

    def called(self: JITKernel, *args: Any, **kwargs: Any) -> Any:
        compiled: CompiledFunction | None = getattr(self, "_volta", None)
        if compiled is None:
            registry.session.say_once(f"{_name(self)}: loaded from a cache, so that it is not validated")
        else:
            _check_call(registry, compiled, _arguments(self, args))
        return _outputs(self, args) if stand_in else call(self, *args, **kwargs)

    JITKernel.__init__, JITKernel.__call__ = made, called
    if stand_in:
        _equal_times(registry)


def _equal_times(registry: Registry) -> None:
    def benchmarked(self: AutoTuner, jit_kernel: JITKernel, *args: Any, **kwargs: Any) -> tuple[float, None]:
        return _EQUAL_MS, None

    def timed(self: Profiler, *args: Any, **kwargs: Any) -> float:
        return _EQUAL_MS

    def compared(self: Profiler, *args: Any, **kwargs: Any) -> None:
        registry.session.say_once("without a GPU nothing is executed: comparisons with a reference program are left out")

    AutoTuner._benchmark_target, Profiler.do_bench = benchmarked, timed
    Profiler.assert_allclose = Profiler.manual_assert_close = Profiler.assert_consistent = compared


def _name(kernel: JITKernel) -> str:
    func = kernel.prim_func
    return str(func.attrs["global_symbol"]) if func is not None and func.attrs else "kernel"


def _results(kernel: JITKernel) -> list[int]:
    """Positions of the parameters that a call returns instead of taking."""
    return [int(i) for i in getattr(kernel.adapter, "result_idx", None) or []]


def _arguments(kernel: JITKernel, args: Sequence[Any]) -> list[Any]:
    """The value of each parameter of the function; None for those that the call returns."""
    count, results = len(kernel.prim_func.params), set(_results(kernel))
    given = iter(args)
    return [None if i in results else next(given, None) for i in range(count)]


def _check_call(registry: Registry, compiled: CompiledFunction, values: Sequence[Any]) -> None:
    func, sizes = compiled.func, {}
    contents: dict[str, Callable[[], np.ndarray]] = {}
    for param, value in zip(func.params, values):
        if param not in func.buffer_map:
            if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and "float" not in str(param.dtype):
                sizes[str(param.name)] = int(value)
        elif value is not None and hasattr(value, "shape"):
            buffer = func.buffer_map[param]
            _bind(buffer, value, sizes)
            if compiled.needs_contents and not str(buffer.dtype).startswith(("float", "bfloat")):
                contents[str(buffer.name)] = lambda tensor=value: _elements(tensor)  # type: ignore[misc]
    if sizes or contents:
        check(registry.session, compiled, sizes, contents)


def _bind(buffer: Any, value: Any, sizes: dict[str, Any]) -> None:
    """Symbolic extents and strides of a buffer, from a tensor."""
    for extent, actual in zip((*buffer.shape, *buffer.strides), (*value.shape, *_strides(value))):
        if isinstance(extent, tirx.Var):
            sizes.setdefault(str(extent.name), int(actual))
        elif isinstance(extent, tirx.IntImm) and int(extent) != int(actual) and len(value.shape) > 0:
            raise ValueError(f"argument {buffer.name}: {int(actual)} where the kernel was compiled for {int(extent)}")


def _strides(value: Any) -> tuple[int, ...]:
    strides = value.stride() if callable(getattr(value, "stride", None)) else getattr(value, "strides", ())
    return tuple(int(s) for s in strides)


def _elements(tensor: Any) -> np.ndarray:
    """A tensor's elements in storage order."""
    return np.asarray(tensor.detach().cpu().contiguous().numpy() if hasattr(tensor, "detach") else tensor).reshape(-1)


def _outputs(kernel: JITKernel, args: Sequence[Any]) -> Any:
    """Tensors of the shapes that a call returns, without the kernel's results."""
    func, results = kernel.prim_func, _results(kernel)
    sizes: dict[str, Any] = {}
    for param, value in zip(func.params, _arguments(kernel, args)):
        if param in func.buffer_map and hasattr(value, "shape"):
            _bind(func.buffer_map[param], value, sizes)
        elif value is not None:
            sizes[str(param.name)] = value
    from volta_hooks.tilelang_launch import size_of

    made = []
    for i in results:
        shape = [size_of(extent, sizes) for extent in func.buffer_map[func.params[i]].shape]
        made.append(torch.zeros(shape, dtype=kernel.adapter.params[i].torch_dtype()))
    return None if not made else made[0] if len(made) == 1 else made
