"""A stand-in for a GPU driver: unmodified Triton programs compile, launch and tune for a target that is not there.

Chosen by ``VOLTA_TARGET=cuda:80``. A launch executes nothing (the validation in front of it is the point), a benchmark calls
its kernel once and reports the same time for all, so that an autotuner ranks by validity only. Limits are those of the
data centre part of an architecture.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

#: sm -> (shared memory a CTA may use, multiprocessors); CUDA C++ Programming Guide, compute capabilities
_LIMITS = {75: (65536, 40), 80: (166912, 108), 86: (101376, 84), 87: (166912, 16), 89: (101376, 142), 90: (232448, 132),
           100: (232448, 148), 103: (232448, 148), 120: (101376, 188)}  # fmt: skip

#: what a benchmark "measures", in milliseconds
_EQUAL_MS = 1.0


class StandInLauncher:
    """Accepts a launch and executes nothing."""

    def __init__(self, src: Any, metadata: Any) -> None:
        self.src, self.metadata = src, metadata

    def __call__(self, *launch: Any, **options: Any) -> None:
        return None


class StandInDriver(DriverBase):  # type: ignore[misc]
    """Compiles for ``target`` and answers what Triton's runtime asks of a driver."""

    def __init__(self, target: GPUTarget) -> None:
        self.target = target
        self.utils = self
        self.launcher_cls = StandInLauncher

    @classmethod
    def is_active(cls) -> bool:
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        return None

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return self.target.arch // 10, self.target.arch % 10

    def get_active_torch_device(self) -> Any:
        """The CPU, on which an unmodified program then makes its tensors."""
        torch = sys.modules.get("torch")
        return torch.device("cpu") if torch is not None else "cpu"

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        shared, processors = _LIMITS.get(self.target.arch, (166912, 108))
        return {
            "max_shared_mem": shared,
            "multiprocessor_count": processors,
            "warpSize": self.target.warp_size,
            "max_num_regs": 65536,
            "sm_clock_rate": 1410000,
            "mem_clock_rate": 1215000,
            "mem_bus_width": 5120,
        }

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[int, int, int, int, int]:
        """Module, function, registers, spills, most threads of a CTA."""
        return 1, 1, 32, 0, 1024

    def unload_module(self, module: Any) -> None:
        return None

    def get_benchmarker(self) -> Callable[..., Any]:
        return benchmark

    def get_empty_cache_for_benchmark(self) -> None:
        return None

    def clear_cache(self, cache: Any) -> None:
        return None


def benchmark(kernel_call: Callable[[], Any], *_: Any, quantiles: Any = None, return_mode: str = "mean", **__: Any) -> Any:
    """Calls once; the equal time, or a list of it per quantile, as ``triton.testing.do_bench`` returns them."""
    kernel_call()
    if quantiles is not None:
        return [_EQUAL_MS] * len(quantiles)
    return [_EQUAL_MS] if return_mode == "all" else _EQUAL_MS


def activate(target: tuple[str, int]) -> StandInDriver:
    """Make the stand-in Triton's driver, and let Triton's benchmarks call once."""
    import triton.testing
    from triton.runtime import driver

    stand_in = StandInDriver(GPUTarget(target[0], target[1], 32))
    driver.set_active(stand_in)
    triton.testing.do_bench = benchmark
    triton.testing.do_bench_cudagraph = benchmark
    return stand_in
