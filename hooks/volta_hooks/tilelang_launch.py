"""The launches of a TileLang function, wholly from its IR: parameters, grid, block, shared memory; nothing is asked of the user.

The host function's calls name the device kernels, their arguments in the order of the PTX parameters, and the extents; the
PrimFunc has the shapes and strides. Symbolic extents stay names until a launch, or a choice of ours, gives them values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import CallingConv

from ptx_engine.errors import LaunchError, UnsupportedError
from ptx_engine.launch import SYMBOLIC, Arg, Launch, Role, ScalarArg, TensorArg
from volta_pass.references.tile_program import load_program
from volta_pass.references.tile_types import element
from volta_pass.tile_uses import reads_and_writes

#: what separate tensors cannot show
DISJOINT = "tensor arguments do not overlap"


@dataclass(frozen=True)
class KernelCall:
    """One launch of a device kernel: ``params`` are its parameters in PTX order, ``extents`` expressions by tag. ``handles`` says of
    which parameter of the function a pointer is the data: a view of an argument gives it another name."""

    kernel: str
    params: tuple[str, ...]
    extents: Mapping[str, Any]
    attributes: Mapping[str, Any]
    handles: Mapping[str, str]


def kernel_calls(lowered: tvm.IRModule) -> list[KernelCall]:
    """The launches in a lowered module of host and device functions, in order."""
    device, host = {}, []
    for name, func in lowered.functions.items():
        if is_device(func):
            device[str(func.attrs.get("global_symbol", name.name_hint))] = func
        else:
            host.append(func)
    return [call for func in host for call in _calls(func, device)]


def is_device(func: Any) -> bool:
    """Whether a function is a kernel."""
    convention = func.attrs.get("calling_conv", CallingConv.DEFAULT) if func.attrs else CallingConv.DEFAULT
    return int(convention) == int(CallingConv.DEVICE_KERNEL_LAUNCH)


def _calls(func: Any, device: Mapping[str, Any]) -> Iterator[KernelCall]:
    found: list[Any] = []
    handles: dict[str, str] = {}

    def visit(node: Any) -> None:
        if _is_call(node, "tvm_call_packed"):
            found.append(node)
        elif type(node).__name__ in ("Bind", "LetStmt") and _is_call(node.value, "tvm_struct_get"):
            handle, _, field = node.value.args[:3]
            if int(field) == _DATA and isinstance(handle, tirx.Var):
                handles[str(node.var.name)] = str(handle.name)

    tirx.stmt_functor.post_order_visit(func.body, visit)
    for call in found:
        first = call.args[0]
        name = str(first.value) if isinstance(first, tirx.StringImm) else ""
        if name in device:
            kernel, values = device[name], list(call.args[1:])
            tags = [str(tag) for tag in kernel.attrs["tirx.kernel_launch_params"]]
            count = len(kernel.params)
            params = tuple(_parameter(p) for p in kernel.params)
            known = {p: handles[str(v.name)] for p, v in zip(params, values) if isinstance(v, tirx.Var) and str(v.name) in handles}
            yield KernelCall(name, params, dict(zip(tags, values[count:])), dict(kernel.attrs.items()), known)


#: the field of a tensor's descriptor that holds its data pointer
_DATA = 1


def _is_call(node: Any, name: str) -> bool:
    return isinstance(node, tirx.Call) and str(getattr(node.op, "name", "")).endswith(name)


def _parameter(param: Any) -> str:
    kind = param.type_annotation
    if isinstance(kind, tvm.ir.PointerType) and kind.storage_scope == "grid_constant":
        raise UnsupportedError(f"parameter {param.name} is a TMA descriptor", feature="tensormap")
    return str(param.name)


def symbolic_sizes(func: tirx.PrimFunc) -> list[str]:
    """Names of extents and strides that only a launch fixes."""
    found: dict[str, None] = {}
    for param in func.params:
        if param in func.buffer_map:
            buffer = func.buffer_map[param]
            found.update({str(e.name): None for e in (*buffer.shape, *buffer.strides) if isinstance(e, tirx.Var)})
    return list(found)


def make_launch(func: tirx.PrimFunc, call: KernelCall, source: str, values: Mapping[str, Any]) -> Launch:
    """The launch at given sizes and scalar arguments. Raises LaunchError naming a size or parameter that is not known."""
    if call.attributes.get("cluster_dims") is not None and any(int(n) != 1 for n in call.attributes["cluster_dims"]):
        raise UnsupportedError("clusters of CTAs are not modelled", feature="cluster_dims")
    size: Callable[[Any], int] = lambda e: size_of(e, values)  # noqa: E731
    args = _arguments(func, call, source, values)
    extents = {tag: size(e) for tag, e in call.extents.items()}
    grid, block = (tuple(extents.get(f"{which}.{axis}", 1) for axis in "xyz") for which in ("blockIdx", "threadIdx"))
    shared = next((n for tag, n in extents.items() if tag.endswith("use_dyn_shared_memory")), 0)
    return Launch(grid, block, tuple(args), shared)  # type: ignore[arg-type]


def _arguments(func: tirx.PrimFunc, call: KernelCall, source: str, values: Mapping[str, Any]) -> Sequence[Arg]:
    read, written = reads_and_writes(load_program(source))  # (nothing is written: by a statement that has no tile semantics)
    buffers = {str(func.buffer_map[p].name): func.buffer_map[p] for p in func.params if p in func.buffer_map}
    scalars = {str(p.name): p for p in func.params if p not in func.buffer_map}
    by_handle = {str(p.name): str(func.buffer_map[p].name) for p in func.params if p in func.buffer_map}
    names = [by_handle.get(call.handles.get(name, ""), name) for name in call.params]
    args: list[Arg] = []
    for name in names:
        if name in buffers:
            buffer = buffers[name]
            shape = tuple(size_of(e, values) for e in buffer.shape)
            strides = tuple(size_of(e, values) for e in buffer.strides) or None
            role = Role.IN if written and name not in written else Role.INOUT if name in read or not written else Role.OUT
            args.append(TensorArg(name, element(str(buffer.dtype)).launch, shape, role, strides))
        elif name in scalars:
            dtype = element(str(scalars[name].dtype)).launch
            args.append(ScalarArg(name, dtype, values.get(name, SYMBOLIC)))
        elif name in values:
            args.append(ScalarArg(name, "s32", int(values[name])))
        else:
            raise LaunchError(f"{call.kernel}: parameter {name} is no argument of the function", hint="report this kernel")
    missing = sorted((read | written) - set(names))
    if missing:
        raise LaunchError(f"{call.kernel} gets no {', '.join(missing)}, which its tile program uses")
    return args


_SIZES: dict[str, Callable[[int, int], int]] = {
    "Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b, "FloorDiv": lambda a, b: a // b,
    "FloorMod": lambda a, b: a % b, "Div": lambda a, b: int(a / b), "Mod": lambda a, b: a - b * int(a / b), "Max": max, "Min": min,
}  # fmt: skip
_SHIFTS: dict[str, Callable[[int, int], int]] = {
    "shift_right": lambda a, b: a >> b, "shift_left": lambda a, b: a << b, "bitwise_and": lambda a, b: a & b,
}  # fmt: skip


def size_of(e: Any, values: Mapping[str, Any]) -> int:
    """The value of an extent. Raises LaunchError where it depends on more than the given values."""
    kind = type(e).__name__
    if isinstance(e, (int, tirx.IntImm)):
        return int(e)
    if isinstance(e, tirx.Var):
        if str(e.name) not in values:
            raise LaunchError(f"the extent {e.name} is not known", feature=str(e.name))
        return int(values[str(e.name)])
    if kind in _SIZES:
        return _SIZES[kind](size_of(e.a, values), size_of(e.b, values))
    if kind == "Cast":
        return size_of(e.value, values)
    name = str(getattr(getattr(e, "op", None), "name", "")).rsplit(".", 1)[-1]
    if kind == "Call" and name in _SHIFTS:
        return _SHIFTS[name](*(size_of(arg, values) for arg in e.args))
    raise LaunchError(f"an extent {e} that cannot be computed", feature=kind)
