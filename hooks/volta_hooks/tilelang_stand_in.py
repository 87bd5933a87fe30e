"""A stand-in for a GPU under TileLang: kernels compile, calls return outputs of the right shapes, benchmarks tie.

Chosen by ``VOLTA_TARGET=cuda:80``. Nothing is executed (the validation is the point); an autotuner ranks by validity only.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch
from tilelang.autotuner import AutoTuner
from tilelang.cache.kernel_cache import KernelCache
from tilelang.env import env
from tilelang.jit.adapter.base import BaseKernelAdapter
from tilelang.jit.kernel import JITKernel
from tilelang.profiler import Profiler

from volta_hooks.session import Session
from volta_hooks.tilelang_arguments import arguments, bind, results
from volta_hooks.tilelang_launch import size_of

#: what a benchmark "measures", in milliseconds
_EQUAL_MS = 1.0


class StandInAdapter(BaseKernelAdapter):  # type: ignore[misc]
    """A kernel that cannot run, for back ends whose own adapters would load it into a GPU."""

    def __init__(self, params: Any, result_idx: Any, source: str) -> None:
        self.params, self.source = params, source
        self.result_idx = self._legalize_result_idx(result_idx)
        self._post_init()

    def _convert_torch_func(self) -> Any:
        def refused(*_: Any) -> None:
            raise RuntimeError("without a GPU nothing is executed")

        return refused

    def get_kernel_source(self, kernel_only: bool = True) -> str:
        return self.source


def activate(target: tuple[str, int], session: Session) -> None:
    """Compile for ``target`` where no target is named; replace what would need the GPU."""
    env.TILELANG_DEFAULT_TARGET = json.dumps({"kind": target[0], "arch": f"sm_{target[1]}"})
    own_adapter = JITKernel._create_adapter_from_artifact

    def adapter(self: JITKernel, func: Any, out_idx: Any, artifact: Any, *rest: Any) -> Any:
        if self.execution_backend == "tvm_ffi":  # loads nothing before its first call
            return own_adapter(self, func, out_idx, artifact, *rest)
        return StandInAdapter(artifact.params, out_idx, artifact.kernel_source)

    def benchmarked(self: AutoTuner, jit_kernel: JITKernel, *args: Any, **kwargs: Any) -> tuple[float, None]:
        return _EQUAL_MS, None

    def timed(self: Profiler, *args: Any, **kwargs: Any) -> float:
        return _EQUAL_MS

    def compared(self: Profiler, *args: Any, **kwargs: Any) -> None:
        session.say_once("without a GPU nothing is executed: comparisons with a reference program are left out")

    def kept_in_memory(*args: Any, **kwargs: Any) -> None:
        """What cannot run is of no use to another process."""

    JITKernel._create_adapter_from_artifact = adapter
    KernelCache._save_kernel_to_disk = AutoTuner._save_result_to_disk = kept_in_memory
    AutoTuner._benchmark_target, Profiler.do_bench = benchmarked, timed
    Profiler.assert_allclose = Profiler.manual_assert_close = Profiler.assert_consistent = compared


def outputs(kernel: JITKernel, args: Sequence[Any]) -> Any:
    """Tensors of the shapes that a call returns, without the kernel's results."""
    func = kernel.prim_func
    sizes: dict[str, Any] = {}
    for param, value in zip(func.params, arguments(kernel, args)):
        if param in func.buffer_map and hasattr(value, "shape"):
            bind(func.buffer_map[param], value, sizes)
        elif value is not None:
            sizes[str(param.name)] = value
    made = []
    for i in results(kernel):
        shape = [size_of(extent, sizes) for extent in func.buffer_map[func.params[i]].shape]
        made.append(torch.zeros(shape, dtype=kernel.adapter.params[i].torch_dtype()))
    return None if not made else made[0] if len(made) == 1 else made
