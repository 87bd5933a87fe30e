"""Arguments of an emulated launch: NumPy arrays as buffers of bytes, scalars as the bits their parameter declares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptx_engine.errors import LaunchError
from ptx_engine.isa.values import UINT
from ptx_engine.launch import Arg, BoundLaunch, NullArg, Role, TensorArg, shown_number
from ptx_engine.machine.parameters import BitsArg
from ptx_engine.syntax.ast import Function, Param
from ptx_engine.terms.constants import FLOAT_FORMATS
from ptx_engine.terms.float_formats import largest, number_bits

#: NumPy dtype name -> launch dtype
DTYPE_NAMES: dict[str, str] = {
    "float16": "f16", "float32": "f32", "float64": "f64", "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "bool": "pred",
    **{f"{kind}int{bits}": f"{'u' if kind else 's'}{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


@dataclass(frozen=True)
class Bound:
    """A bound launch and the bytes of each of its buffers (views of the arguments' memory)."""

    launch: BoundLaunch
    storages: list[np.ndarray]


def bind_arguments(function: Function, args: Sequence[object]) -> tuple[list[Arg], list[np.ndarray]]:
    """Launch arguments and buffer bytes in parameter order. Raises LaunchError for what does not fit."""
    params = function.params
    if len(args) != len(params):
        raise LaunchError(
            f"{function.name} takes {len(params)} parameters, {len(args)} arguments are given",
            hint="give them in parameter order: " + ", ".join(f"{p.name} ({p.type})" for p in params),
        )
    bound: list[Arg] = []
    storages: list[np.ndarray] = []
    seen: list[tuple[np.ndarray, str]] = []
    for param, arg in zip(params, args):
        if isinstance(arg, np.ndarray):
            tensor, data = _tensor(param, arg, seen)
            bound.append(tensor)
            if data is not None:
                storages.append(data)
                seen.append((data, param.name))
        elif arg is None:
            bound.append(NullArg(param.name))
        else:
            bound.append(BitsArg(param.name, "u64", scalar_bits(param, arg)))
    return bound, storages


def _tensor(param: Param, array: np.ndarray, seen: list[tuple[np.ndarray, str]]) -> tuple[TensorArg, np.ndarray | None]:
    """A buffer for an array; an array that was given before shares its buffer (then no bytes are returned)."""
    if param.size != 8:
        raise LaunchError(f"parameter {param.name} is {param.type}, an array is given", hint="check the order of the arguments")
    dtype = DTYPE_NAMES.get(array.dtype.name)
    if dtype is None or not array.dtype.isnative:
        raise LaunchError(f"argument for {param.name}: arrays of {array.dtype} are not supported", hint="one of " + ", ".join(DTYPE_NAMES))
    strides = tuple(s // array.itemsize for s in array.strides)
    if any(s < 0 or s % array.itemsize for s in array.strides):
        raise LaunchError(f"argument for {param.name}: strides {array.strides} bytes of {array.itemsize}-byte elements")
    role = Role.INOUT if array.flags.writeable else Role.IN
    empty = np.zeros(0, np.uint8)
    plain = TensorArg(param.name, dtype, array.shape, role, strides, contents=empty)
    plain_words = array.view(UINT[8 * array.itemsize])  # NumPy's interface does not describe 8-bit floats
    flat = np.lib.stride_tricks.as_strided(plain_words, (plain.storage,), (array.itemsize,), writeable=array.flags.writeable)
    data = flat.view(np.uint8)
    for other, name in seen:
        if not np.may_share_memory(data, other):
            continue
        if data.ctypes.data == other.ctypes.data and len(data) <= len(other):
            return TensorArg(param.name, dtype, array.shape, role, strides, contents=empty, alias=name), None
        raise LaunchError(f"the arrays for {name} and {param.name} overlap", hint="give the same array for both, or copies")
    return plain, data


def scalar_bits(param: Param, value: object) -> int:
    """The bits of a scalar as its parameter declares it. Raises LaunchError where it does not fit."""
    bits = 8 * param.size
    if isinstance(value, (bytes, bytearray)):
        if len(value) != param.size:
            raise LaunchError(f"parameter {param.name} has {param.size} bytes, {len(value)} are given")
        return int.from_bytes(value, "little")
    if isinstance(value, np.void):
        return _struct_bits(param, value)
    if isinstance(value, np.floating) and param.type[0] in "us":
        hint = "an integer; check the order of the arguments"
        raise LaunchError(f"parameter {param.name} of type {param.type} cannot take {value!r}", hint=hint)
    floating = param.type in FLOAT_FORMATS
    if isinstance(value, np.generic) and not isinstance(value, (np.integer, np.bool_)):
        if value.dtype.itemsize == param.size and not (floating and DTYPE_NAMES.get(value.dtype.name) != param.type):
            return int.from_bytes(value.tobytes(), "little")
        if value.dtype.name in DTYPE_NAMES:
            value = float(value)
    if isinstance(value, (int, np.integer, np.bool_)) and not floating:
        number = int(value)
        if not -(1 << bits - 1) <= number < 1 << bits:
            hint = f"{-(1 << bits - 1)} to {(1 << bits) - 1}"
            raise LaunchError(f"{number} does not fit parameter {param.name} of type {param.type}", hint=hint)
        return number & ((1 << bits) - 1)
    fmt = param.type if floating else {2: "f16", 4: "f32", 8: "f64"}.get(param.size) if param.type[0] == "b" else None
    if isinstance(value, (int, float, np.integer)) and fmt is not None:
        return _float_bits(value if isinstance(value, float) else int(value), fmt, param)
    hint = "a number of that type" if param.type[0] != "b" else "bytes, or a NumPy scalar of its size"
    raise LaunchError(f"parameter {param.name} of type {param.type} cannot take {value!r}", hint=hint)


def _struct_bits(param: Param, value: np.void) -> int:
    """The bytes of a structured scalar, for a parameter that is an array of bytes."""
    if param.type[0] != "b":
        raise LaunchError(f"parameter {param.name} of type {param.type} cannot take a structured scalar", hint="a number of that type")
    _check_layout(param, value.dtype, "")
    if value.dtype.itemsize != param.size:
        hint = "np.dtype([...], align=True) lays fields out as C does"
        raise LaunchError(f"parameter {param.name} has {param.size} bytes, {value.dtype} has {value.dtype.itemsize}", hint=hint)
    return int.from_bytes(value.tobytes(), "little")


def _check_layout(param: Param, dtype: np.dtype, path: str) -> None:
    """NumPy packs fields unless asked not to; a packed struct of the right size by chance would be read shifted."""
    for name in dtype.names or ():
        field, offset = dtype.fields[name][:2]  # type: ignore[index]
        inner = field.base
        if offset % inner.alignment and inner.names is None:
            message = f"argument for {param.name}: field {path}{name} at byte {offset} is not aligned to {inner.alignment}"
            raise LaunchError(message, hint="np.dtype([...], align=True) lays fields out as C does; or give the bytes")
        if not inner.isnative:
            raise LaunchError(f"argument for {param.name}: field {path}{name} of {inner} is not in this machine's byte order")
        _check_layout(param, inner, f"{path}{name}.")


def _float_bits(value: "int | float", fmt: str, param: Param) -> int:
    try:
        return number_bits(value, fmt)
    except OverflowError:
        hint = f"{-largest(fmt)!r} to {largest(fmt)!r}, or inf"
        raise LaunchError(f"{shown_number(value)} does not fit parameter {param.name} of type {param.type}", hint=hint) from None
