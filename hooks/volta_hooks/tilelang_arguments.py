"""What a call of a compiled TileLang kernel passes: values by parameter, symbolic extents, contents of integer tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tilelang.jit.kernel import JITKernel
from tvm import tirx

from volta_hooks.storage_order import in_storage_order, span
from volta_pass.specs_api import TensorSpec


def results(kernel: JITKernel) -> list[int]:
    """Positions of the parameters that a call returns instead of taking."""
    return [int(i) for i in getattr(kernel.adapter, "result_idx", None) or []]


def arguments(kernel: JITKernel, args: Sequence[Any]) -> list[Any]:
    """The value of each parameter of the function; None for those that the call returns."""
    count, returned = len(kernel.prim_func.params), set(results(kernel))
    given = iter(args)
    return [None if i in returned else next(given, None) for i in range(count)]


def bind(buffer: Any, value: Any, sizes: dict[str, Any]) -> None:
    """Note the symbolic extents and strides of a buffer, from a tensor. Raises ValueError where a fixed one differs."""
    for extent, actual in zip((*buffer.shape, *buffer.strides), (*value.shape, *_strides(value))):
        if isinstance(extent, tirx.Var):
            sizes.setdefault(str(extent.name), int(actual))
        elif isinstance(extent, tirx.IntImm) and int(extent) != int(actual) and 1 not in (int(n) for n in value.shape):
            raise ValueError(f"argument {buffer.name}: {int(actual)} where the kernel was compiled for {int(extent)}")


def _strides(value: Any) -> tuple[int, ...]:
    """In elements: torch and TensorSpec say them so, NumPy in bytes."""
    if callable(getattr(value, "stride", None)):
        return tuple(int(s) for s in value.stride())
    return tuple(int(s) // int(value.itemsize) for s in getattr(value, "strides", ()))


def loader(value: Any) -> Callable[[], np.ndarray] | None:
    """How to read a tensor's elements in storage order; None for one without data. The gaps of a strided view hold zeros."""
    if isinstance(value, TensorSpec) and value.contents is None:
        return None

    def read() -> np.ndarray:
        data = value.contents if isinstance(value, TensorSpec) else value.detach().cpu().numpy() if hasattr(value, "detach") else value
        values, strides = np.asarray(data), _strides(value)
        return in_storage_order([(values, strides, 0)], span(values.shape, strides))

    return read
