"""What a call of a compiled TileLang kernel passes: values by parameter, symbolic extents, contents of integer tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tilelang.jit.kernel import JITKernel
from tvm import tirx


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
    strides = value.stride() if callable(getattr(value, "stride", None)) else getattr(value, "strides", ())
    return tuple(int(s) for s in strides)


def elements(tensor: Any) -> np.ndarray:
    """A tensor's elements in storage order."""
    return np.asarray(tensor.detach().cpu().contiguous().numpy() if hasattr(tensor, "detach") else tensor).reshape(-1)
