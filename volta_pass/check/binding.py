"""One set of input ids and addresses for both sides of a comparison, where their launches may differ.

The sides may differ in grid, block, parameter order, and in a tensor's shape, role, contents and float type. They may not
differ in a tensor's strides or integer type: element i of one side would not be element i of the other.
"""

from __future__ import annotations

from dataclasses import replace

from ptx_engine.errors import UnsupportedError
from ptx_engine.launch import SYMBOLIC, Arg, BoundLaunch, Buffer, Launch, Role, ScalarArg, TensorArg, bind
from ptx_engine.terms.arena import Arena


def bind_sides(launches: list[Launch], arena: Arena) -> list[BoundLaunch]:
    """A bound launch per side; the same name is the same input on every side. Raises UnsupportedError, LaunchError."""
    if len(launches) == 1:
        return [bind(launches[0], arena)]
    union = bind(Launch((1, 1, 1), (1, 1, 1), _union(launches)), arena)
    return [_narrow(union, launch) for launch in launches]


def _union(launches: list[Launch]) -> tuple[Arg, ...]:
    """Every argument once: tensors at their largest, symbolic wherever one side needs them so."""
    merged: dict[str, Arg] = {}
    for arg in (arg for launch in launches for arg in launch.args):
        before = merged.get(arg.name)
        if before is None:
            merged[arg.name] = arg
        elif isinstance(before, TensorArg) and isinstance(arg, TensorArg):
            merged[arg.name] = _union_tensor(before, arg)
        elif isinstance(before, ScalarArg) and isinstance(arg, ScalarArg) and arg.value == SYMBOLIC:
            merged[arg.name] = arg
    return tuple(merged.values())


def _union_tensor(a: TensorArg, b: TensorArg) -> TensorArg:
    if a.element_strides() != b.element_strides() and a.storage > 1:
        raise UnsupportedError(f"tensor {a.name} has other strides in reference and candidate", feature="strides per side")
    if a.dtype != b.dtype and not (a.is_float and b.is_float):
        raise UnsupportedError(f"tensor {a.name} is {a.dtype} on one side and {b.dtype} on the other", feature="integer type per side")
    largest = max(a, b, key=lambda arg: arg.storage * arg.element_bytes)
    readable = next((arg.role for arg in (a, b) if arg.role in (Role.IN, Role.INOUT)), largest.role)
    symbolic = isinstance(a.contents, str) or isinstance(b.contents, str)
    longest = max(a, b, key=lambda arg: arg.storage)
    dtype = max(a, b, key=lambda arg: arg.element_bytes).dtype
    return replace(longest, dtype=dtype, role=readable, contents=SYMBOLIC if symbolic else largest.contents)


def _narrow(union: BoundLaunch, launch: Launch) -> BoundLaunch:
    """The union as one side sees it: its own arguments at the shared addresses."""
    buffers: list[Buffer] = []
    by_name: dict[str, Buffer] = {}
    for arg in launch.args:
        if not isinstance(arg, TensorArg) or arg.name in by_name:
            continue
        shared = union.by_name[arg.name]
        readable = isinstance(arg.contents, str) and arg.role in (Role.IN, Role.INOUT)
        by_name[arg.name] = Buffer(arg, shared.number, shared.address, shared.input if readable else None)
        buffers.append(by_name[arg.name])
    buffers.sort(key=lambda buffer: buffer.address)
    scalars = {arg.name: union.scalar_ids[arg.name] for arg in launch.args if isinstance(arg, ScalarArg) and arg.value == SYMBOLIC}
    return BoundLaunch(launch, union.arena, buffers, by_name, scalars, [buffer.address for buffer in buffers])
