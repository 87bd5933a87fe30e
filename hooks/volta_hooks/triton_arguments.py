"""What a launch passes, as plain facts: cheap enough to be taken at every launch, and hashable.

A tensor is anything with ``data_ptr``, ``shape`` and ``dtype`` (torch, ``TensorSpec``, an adapted NumPy array). Its memory is
what its allocation still holds from its first element on, so that a view may be read past its edge as on the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptx_engine.errors import LaunchError
from volta_hooks.storage_order import in_storage_order, is_on_host, span
from volta_pass.job import contents_digest
from volta_pass.specs_api import TensorSpec, triton_dtype


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """Shape, strides in elements, element type in Triton's spelling, elements up to the end of the allocation (None: unknown),
    and the number of the first argument with the same address."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    capacity: int | None
    alias: int


class NumpyTensor:
    """A NumPy array with what Triton's launch code asks of a tensor; writes go to the array."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.shape = array.shape
        self.dtype = triton_dtype(array.dtype)

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def stride(self, dim: int | None = None) -> Any:
        """In elements. Raises LaunchError where the array's strides are no such number, or negative."""
        if any(step < 0 or step % self.array.itemsize for step in self.array.strides):
            raise LaunchError(
                f"an array with strides of {', '.join(map(str, self.array.strides))} bytes and elements of {self.array.itemsize}",
                hint="pass a copy, np.ascontiguousarray(x): a kernel counts whole elements upwards from the first one",
            )
        strides = tuple(step // self.array.itemsize for step in self.array.strides)
        return strides if dim is None else strides[dim]

    def numel(self) -> int:
        return self.array.size

    def element_size(self) -> int:
        return self.array.itemsize

    def clone(self) -> NumpyTensor:
        return NumpyTensor(self.array.copy())

    def zero_(self) -> NumpyTensor:
        self.array[...] = 0
        return self

    def copy_(self, other: NumpyTensor) -> NumpyTensor:
        self.array[...] = other.array
        return self


def adapt(value: Any) -> Any:
    """A NumPy array as a tensor; everything else unchanged."""
    return NumpyTensor(value) if isinstance(value, np.ndarray) else value


def launch_key(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Hashable facts of the bound arguments: tensors by layout and aliasing, integers by value, floats by type only.

    On the path of every launch: no conversions, a microsecond or two per tensor. Raises LaunchError for a tensor without shape.
    """
    addresses: dict[int, int] = {}
    facts = tuple(_fact(i, arg, addresses) for i, arg in enumerate(args))
    overlap = _overlapping(args, addresses) if len(addresses) > 1 else ()
    return (*facts, overlap) if overlap else facts


def _overlapping(args: tuple[Any, ...], addresses: dict[int, int]) -> tuple[tuple[int, int, int], ...]:
    """(earlier argument, later argument, distance) of tensors that start inside another: such launches are validated apart."""
    found = []
    end, owner, start = 0, -1, 0
    for address, number in sorted(addresses.items()):
        if address < end:
            found.append((owner, number, address - start))
        reach = address + (_extent_bytes(args[number]) if number < len(args) else 0)
        if reach > end:
            end, owner, start = reach, number, address
    return tuple(found)


def _extent_bytes(tensor: Any) -> int:
    """Bytes from a tensor's first element to its last (0 where it has no memory of its own)."""
    size = getattr(tensor, "element_size", None)
    if size is None or type(tensor) is TensorSpec:
        return 0
    if not all(tensor.shape):
        return 0
    elements = 1 + sum((int(extent) - 1) * int(step) for extent, step in zip(tensor.shape, tensor.stride()))
    return int(size()) * elements


def _fact(number: int, arg: Any, addresses: dict[int, int]) -> Any:
    kind = type(arg)
    if kind is int or kind is bool:
        return arg
    if arg is None or kind is float or kind is str:
        return kind
    if hasattr(arg, "data_ptr"):
        if not hasattr(arg, "shape"):
            raise _shapeless()
        stride = getattr(arg, "stride", None)
        strides = stride() if stride is not None else None
        return tuple(arg.shape), strides, arg.dtype, _capacity(arg), addresses.setdefault(arg.data_ptr(), number)
    if kind is tuple:
        return tuple(_fact(number * 1000 + i, part, addresses) for i, part in enumerate(arg))
    return arg if isinstance(arg, (int, np.integer)) else kind


def _shapeless() -> LaunchError:
    return LaunchError("a tensor argument has no shape", hint="pass a tensor, an array or a volta_pass.TensorSpec")


def tensor_facts(number: int, tensor: Any, addresses: dict[int, int]) -> TensorFacts:
    """The facts of one tensor argument; ``addresses`` maps addresses seen so far to argument numbers. Raises LaunchError."""
    shape = getattr(tensor, "shape", None)
    if shape is None:
        raise _shapeless()
    shape = tuple(int(extent) for extent in shape)
    stride = getattr(tensor, "stride", None)
    strides = tuple(int(step) for step in stride()) if callable(stride) else _contiguous(shape)
    alias = addresses.setdefault(int(tensor.data_ptr()), number)
    return TensorFacts(shape, strides, triton_dtype(tensor.dtype), _capacity(tensor), alias)


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _capacity(tensor: Any) -> int | None:
    if type(tensor) is TensorSpec:
        return None
    if isinstance(tensor, NumpyTensor):
        base = tensor.array if tensor.array.base is None else tensor.array.base
        if not isinstance(base, np.ndarray) or not base.flags.contiguous:
            return None
        end = base.ctypes.data + base.nbytes
        return max(0, end - tensor.array.ctypes.data) // tensor.array.itemsize
    storage = getattr(tensor, "untyped_storage", None)
    if storage is None:
        return None
    return int(storage().nbytes()) // int(tensor.element_size()) - int(tensor.storage_offset())


def contents_loader(parts: Sequence[tuple[Any, TensorFacts, int]], storage: int) -> Callable[[], np.ndarray] | None:
    """A function giving the elements of an integer tensor in storage order (``storage`` of them), or None where it has no data.

    ``parts``: the tensor and the views that lie in its memory, each with the element it starts at.
    """
    readers = [_reader(tensor) for tensor, _, _ in parts]
    if any(read is None for read in readers):
        return None
    return lambda: in_storage_order([(read(), facts.strides, start) for read, (_, facts, start) in zip(readers, parts) if read], storage)


def _reader(tensor: Any) -> Callable[[], np.ndarray] | None:
    if isinstance(tensor, TensorSpec):
        contents = tensor.contents
        return None if contents is None else lambda: contents
    if isinstance(tensor, NumpyTensor):
        return lambda: tensor.array
    if hasattr(tensor, "detach") and hasattr(tensor, "cpu"):
        return lambda: np.asarray(tensor.detach().cpu().numpy())
    return None


def flatten(names: tuple[str, ...], values: tuple[Any, ...], types: tuple[Any, ...]) -> Iterator[tuple[str, Any, Any]]:
    """(name, value, Triton type) of every leaf: a tuple argument ``t`` has the leaves ``t.0``, ``t.1``, ..."""
    for name, value, kind in zip(names, values, types):
        if isinstance(kind, tuple):
            inner = tuple(f"{name}.{i}" for i in range(len(kind)))
            yield from flatten(inner, tuple(value), kind)
        else:
            yield name, value, kind


def contents_key(args: tuple[Any, ...]) -> tuple[str, ...]:
    """Digests of the integer tensors that the host can read without waiting for a device."""
    found = []
    for number, arg in enumerate(args):
        if not hasattr(arg, "data_ptr") or not is_on_host(arg):
            continue
        facts = tensor_facts(number, arg, {})
        if facts.dtype.startswith(("i", "u")):
            loader = contents_loader([(arg, facts, 0)], span(facts.shape, facts.strides))
            found.append(contents_digest(loader()) if loader is not None else "")
    return tuple(found)
