"""What a program may say about launches: ``TensorSpec`` stands for a tensor without data, ``launch_for`` announces a launch.

A ``TensorSpec`` goes wherever a kernel takes a tensor; it has the few methods that launch code and autotuners call on
tensors (``stride``, ``size``, ``data_ptr``, ``zero_``, ``clone``), none of which holds or computes data.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptx_engine.errors import LaunchError
from ptx_engine.launch import DTYPES

#: spellings of element types (NumPy's, torch's, Triton's, ours) -> Triton's
TRITON_DTYPES: dict[str, str] = {
    "f16": "fp16", "fp16": "fp16", "float16": "fp16", "half": "fp16",
    "bf16": "bf16", "bfloat16": "bf16",
    "f32": "fp32", "fp32": "fp32", "float32": "fp32", "float": "fp32", "tf32": "fp32",
    "f64": "fp64", "fp64": "fp64", "float64": "fp64", "double": "fp64",
    "e4m3": "fp8e4nv", "fp8e4nv": "fp8e4nv", "float8_e4m3fn": "fp8e4nv",
    "e5m2": "fp8e5", "fp8e5": "fp8e5", "float8_e5m2": "fp8e5",
    "s8": "i8", "i8": "i8", "int8": "i8", "s16": "i16", "i16": "i16", "int16": "i16", "short": "i16",
    "s32": "i32", "i32": "i32", "int32": "i32", "int": "i32", "s64": "i64", "i64": "i64", "int64": "i64", "long": "i64",
    "u8": "u8", "uint8": "u8", "u16": "u16", "uint16": "u16", "u32": "u32", "uint32": "u32", "u64": "u64", "uint64": "u64",
    "bool": "i1", "i1": "i1",
}  # fmt: skip

#: Triton's element type -> launch dtype
LAUNCH_DTYPES: dict[str, str] = {
    "fp16": "f16", "bf16": "bf16", "fp32": "f32", "fp64": "f64", "fp8e4nv": "e4m3", "fp8e5": "e5m2",
    "i1": "u8", "i8": "s8", "i16": "s16", "i32": "s32", "i64": "s64", "u1": "u8", "u8": "u8", "u16": "u16", "u32": "u32", "u64": "u64",
}  # fmt: skip

#: made-up addresses: far apart, aligned as an allocator's
_addresses = itertools.count(1 << 44, 1 << 32)


def triton_dtype(dtype: object) -> str:
    """Triton's name of an element type given as a string, a NumPy or a torch dtype. Raises LaunchError."""
    name = str(dtype).rsplit(".", 1)[-1]
    if name not in TRITON_DTYPES and isinstance(dtype, type):
        name = np.dtype(dtype).name
    if name not in TRITON_DTYPES:
        raise LaunchError(f"unknown element type {dtype!r}", hint="one of " + ", ".join(sorted(TRITON_DTYPES)))
    return TRITON_DTYPES[name]


def launch_dtype(name: str) -> str:
    """The launch dtype behind Triton's element type. Raises LaunchError on one that has no meaning here."""
    if name not in LAUNCH_DTYPES:
        raise LaunchError(f"Triton's element type {name} has no meaning here", hint="supported: " + ", ".join(LAUNCH_DTYPES))
    return LAUNCH_DTYPES[name]


class TensorSpec:
    """A tensor argument without storage: shape, element type, strides in elements, optionally integer contents.

    ``contents`` (an array-like of the shape) fixes the elements, for tensors that steer addresses or branches. Raises
    LaunchError on a malformed shape, stride or type.
    """

    def __init__(
        self, shape: tuple[int, ...], dtype: object = "f32", strides: tuple[int, ...] | None = None, contents: object = None
    ) -> None:
        self.shape = tuple(int(extent) for extent in shape)
        self.dtype = triton_dtype(dtype)
        if any(extent < 0 for extent in self.shape):
            raise LaunchError(f"TensorSpec: negative extent in {self.shape}")
        if strides is not None and len(strides) != len(self.shape):
            raise LaunchError(f"TensorSpec: {len(strides)} strides for {len(self.shape)} dimensions")
        self.strides = tuple(int(s) for s in strides) if strides is not None else _contiguous(self.shape)
        self.contents = None if contents is None else np.asarray(contents)
        if self.contents is not None and self.contents.shape != self.shape:
            raise LaunchError(f"TensorSpec: contents of shape {self.contents.shape} for a tensor of shape {self.shape}")
        self._address = next(_addresses)

    def __repr__(self) -> str:
        return f"TensorSpec({self.shape}, {self.dtype!r})"

    def data_ptr(self) -> int:
        """A made-up address, aligned to 16 bytes and its own for each spec."""
        return self._address

    def stride(self, dim: int | None = None) -> Any:
        """All strides in elements, or one of them."""
        return self.strides if dim is None else self.strides[dim]

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one extent."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return math.prod(self.shape)

    def element_size(self) -> int:
        return DTYPES[launch_dtype(self.dtype)][0]

    def is_contiguous(self) -> bool:
        return self.strides == _contiguous(self.shape)

    def clone(self) -> TensorSpec:
        """A tensor of the same kind at another address (autotuners keep one to restore from)."""
        return TensorSpec(self.shape, self.dtype, self.strides, self.contents)

    def zero_(self) -> TensorSpec:
        return self

    def copy_(self, other: object) -> TensorSpec:
        return self


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


@dataclass(frozen=True)
class AnnouncedLaunch:
    """A launch that a program announced for kernels compiled without one: grid, and arguments by parameter name."""

    kernel: str
    grid: Any
    args: Mapping[str, Any]


_announced: dict[str, list[AnnouncedLaunch]] = {}
_lock = threading.Lock()


def launch_for(kernel: object, *, grid: Any, args: Mapping[str, Any]) -> AnnouncedLaunch:
    """Announce a launch of a kernel (by name, or the ``@triton.jit`` object) that is compiled without being launched.

    ``grid`` is a tuple of up to three ints or a function of the arguments and constants by name; ``args`` maps parameter
    names to tensors, ``TensorSpec`` or numbers. Several launches of one kernel are all validated.
    """
    name = kernel if isinstance(kernel, str) else kernel_name(kernel)
    launch = AnnouncedLaunch(name, grid, dict(args))
    with _lock:
        _announced.setdefault(name, []).append(launch)
    return launch


def announced_launches(kernel: str) -> list[AnnouncedLaunch]:
    """The launches announced for a kernel, oldest first."""
    with _lock:
        return list(_announced.get(kernel, []))


def kernel_name(kernel: object) -> str:
    """The name of the function inside (possibly nested) kernel decorators."""
    inner = innermost(kernel)
    return str(getattr(inner, "__name__", inner))


def innermost(kernel: object) -> object:
    """What is left when the ``fn`` of autotuners, heuristics and jit wrappers is followed to the Python function."""
    while hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel
