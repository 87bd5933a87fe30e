"""Calls a reference function on a launch's tensors and maps what it returns to the output tensors' storage."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ptx_engine.errors import LaunchError
from ptx_engine.launch import BoundLaunch, Footprint, ScalarArg, TensorArg
from ptx_engine.machine.contents import Contents
from volta_pass.references.tensor import SymbolicTensor, converted, lift


def tensor_reference(
    fn: Callable[..., Any], bound: BoundLaunch, inputs: Mapping[str, str] | None = None, outputs: Sequence[str] = ()
) -> dict[str, Footprint]:
    """What ``fn`` says the outputs are.

    ``inputs`` maps the function's parameters to launch arguments (default: by equal names). Tensors arrive as
    SymbolicTensors (concrete integer contents as NumPy arrays), concrete scalars as numbers, symbolic ones as tensors of shape
    (). The function returns one array, a sequence in the order of ``outputs``, or a mapping by name; each has its tensor's shape.
    Raises LaunchError where names or shapes do not fit.
    """
    names = _parameters(fn, bound) if inputs is None else dict(inputs)
    previous = bound.arena.origin
    try:
        result = fn(**{parameter: _argument(bound, name) for parameter, name in names.items()})
    finally:
        bound.arena.origin = previous
    written: dict[str, list[Footprint]] = {}
    for name, value in _by_name(result, outputs).items():
        owner, footprint = _footprint(bound, name, value)
        written.setdefault(owner, []).append(footprint)
    return {name: parts[0] if len(parts) == 1 else _joined(name, parts) for name, parts in written.items()}


def _joined(name: str, parts: Sequence[Footprint]) -> Footprint:
    """Outputs that are views of one memory."""
    index = np.concatenate([part.index for part in parts])
    order = np.argsort(index, kind="stable")
    if (np.diff(index[order]) == 0).any():
        raise LaunchError(f"two outputs of the reference function are one element of {name}", hint="their arguments overlap in memory")
    return Footprint(index[order], np.concatenate([part.ids for part in parts])[order])


def _parameters(fn: Callable[..., Any], bound: BoundLaunch) -> dict[str, str]:
    known = {arg.name for arg in bound.launch.args}
    chosen = {}
    for name, parameter in inspect.signature(fn).parameters.items():
        if name in known:
            chosen[name] = name
        elif parameter.default is inspect.Parameter.empty:
            shown = ", ".join(sorted(known))
            raise LaunchError(f"the reference function's parameter {name} names no launch argument", hint=f"launch arguments: {shown}")
    return chosen


def _argument(bound: BoundLaunch, name: str) -> Any:
    arg = next((a for a in bound.launch.args if a.name == name), None)
    if isinstance(arg, TensorArg):
        return _tensor(bound, arg)
    if not isinstance(arg, ScalarArg):
        raise LaunchError(f"the reference function asks for {name}, which is no argument of the launch")
    if isinstance(arg.value, str):
        return SymbolicTensor(np.array(bound.scalar_ids[name], np.int32), bound.arena, arg.dtype)
    return arg.value


def _tensor(bound: BoundLaunch, arg: TensorArg) -> "SymbolicTensor | np.ndarray":
    buffer, index = bound.by_name[arg.name], storage_index(arg) + arg.offset_elements
    if not isinstance(buffer.arg.contents, str):
        if not arg.is_float:
            return np.asarray(np.asarray(buffer.arg.contents).reshape(-1)[index])
        return SymbolicTensor(Contents(buffer.arg, bound.arena).ids(index), bound.arena, arg.dtype)
    if buffer.input is None:
        raise LaunchError(f"the reference function reads {arg.name}, which is an output without contents")
    return SymbolicTensor(np.asarray(buffer.input.ids(index)), bound.arena, arg.dtype)


def storage_index(arg: TensorArg) -> np.ndarray:
    """The storage index of every element, int64 in the tensor's shape."""
    index = np.zeros(arg.shape, np.int64)
    for axis, (extent, stride) in enumerate(zip(arg.shape, arg.element_strides())):
        steps = np.arange(extent, dtype=np.int64) * stride
        index += steps.reshape(-1, *(1,) * (len(arg.shape) - 1 - axis))
    return index


def _by_name(result: Any, outputs: Sequence[str]) -> dict[str, Any]:
    if isinstance(result, Mapping):
        missing = [name for name in outputs if name not in result]
        if missing:
            raise LaunchError(f"the reference function returns nothing for {', '.join(missing)}")
        return {name: result[name] for name in (outputs or result)}
    if result is None:
        raise LaunchError("the reference function returns None", hint=f"return {', '.join(outputs) or 'the outputs'}")
    values = list(result) if isinstance(result, (tuple, list)) else [result]
    if len(values) != len(outputs):
        message = f"the reference function returns {len(values)} tensors for {len(outputs)} outputs"
        raise LaunchError(message, hint=f"return {', '.join(outputs)}, in this order, or a mapping by name")
    return dict(zip(outputs, values))


def _footprint(bound: BoundLaunch, name: str, value: Any) -> tuple[str, Footprint]:
    """The argument whose memory an output is, and what is written to it."""
    arg = next((a for a in bound.launch.args if a.name == name), None)
    if not isinstance(arg, TensorArg):
        raise LaunchError(f"output {name} is no tensor argument of the launch")
    tensor = value if isinstance(value, SymbolicTensor) else lift(value, bound.arena)
    if tensor.shape != arg.shape:
        message = f"the reference function returns shape {tensor.shape} for {name}, whose shape is {arg.shape}"
        raise LaunchError(message, hint="reshape or broadcast what it returns")
    if not arg.is_float:  # a result that the output's type cannot hold is no output
        tensor = converted(tensor, arg.dtype)
    index = storage_index(arg).reshape(-1) + arg.offset_elements
    order = np.argsort(index, kind="stable")
    if (np.diff(index[order]) == 0).any():
        raise LaunchError(f"output {name}: elements of shape {arg.shape} share storage (strides {arg.element_strides()})")
    return arg.alias or name, Footprint(index[order], np.ascontiguousarray(tensor.ids.reshape(-1)[order]))
