"""Which arguments of a launch a kernel's parameters take: one each, and a struct passed by value one for each field.

The fields of a struct are consecutive arguments named ``struct.field``, those of a struct in it ``struct.inner.field``. They lie as C has
them: each at a multiple of its own size, a struct padded to a multiple of its largest (C++ ABI of CUDA); a parameter of another size or
alignment than that is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptx_engine.errors import LaunchError
from ptx_engine.launch import DTYPES, Arg, ScalarArg
from ptx_engine.syntax.ast import Param

#: an argument, its offset in the parameter, and its size, in bytes
Field = tuple[Arg, int, int]


class BitsArg(ScalarArg):
    """The bits of a whole parameter, a struct's too, of whatever size it is: the concrete mode's."""


def assigned(name: str, params: Sequence[Param], args: Sequence[Arg]) -> list[list[Field]]:
    """The arguments of each parameter of the kernel ``name``. Raises LaunchError where numbers or structs do not fit."""
    found: list[list[Field]] = []
    at = 0
    for param in params:
        if at == len(args):
            break
        count = _fields(args, at) if param.shape else 0
        found.append(_struct(param, args[at : at + count]) if count else [_whole(param, args[at])])
        at += max(1, count)
    if at != len(args) or len(found) != len(params):
        raise LaunchError(
            f"{name} takes {len(params)} parameters, the launch gives {len(args)}"
            + (" arguments, fields counted" if _structs(params) else ""),
            hint="list the arguments in parameter order: " + ", ".join(_described(param) for param in params),
        )
    return found


def size_of(arg: Arg) -> int:
    """Bytes that an argument takes."""
    return DTYPES[arg.dtype][0] if isinstance(arg, ScalarArg) else 8


def _structs(params: Sequence[Param]) -> bool:
    return any(param.shape for param in params)


def _described(param: Param) -> str:
    return (
        f"{param.name} (a struct of {param.size} bytes: its fields, named s.a, s.b, ...)" if param.shape else f"{param.name} ({param.type})"
    )


def _fields(args: Sequence[Arg], at: int) -> int:
    """How many arguments from ``at`` on are fields of one struct."""
    struct, dot, _ = args[at].name.partition(".")
    if not dot:
        return 0
    count = 0
    while at + count < len(args) and args[at + count].name.startswith(struct + "."):
        count += 1
    return count


def _whole(param: Param, arg: Arg) -> Field:
    """One argument; a struct with the size of one, such as __half, is that."""
    if param.shape and not isinstance(arg, BitsArg) and size_of(arg) != param.size:
        raise LaunchError(
            f"parameter {param.name} is a struct of {param.size} bytes, but argument {arg.name} has {size_of(arg)}",
            hint=f"give its fields in order as arguments named {arg.name}.first, {arg.name}.second, ...",
        )
    return arg, 0, param.size


def _struct(param: Param, args: Sequence[Arg]) -> list[Field]:
    fields: list[Field] = []
    total, largest = _laid_out(args, 1, 0, fields)
    if (total, largest) != (param.size, param.align):
        layout = ", ".join(f"{arg.name} at {place} ({size})" for arg, place, size in fields)
        raise LaunchError(
            f"parameter {param.name} is a struct of {param.size} bytes aligned to {param.align}, its fields make one of {total} aligned to"
            f" {largest}: {layout}",
            hint="give every field in order and of its own type; those of an inner struct are named s.inner.a; alignas is not supported",
        )
    return fields


def _laid_out(args: Sequence[Arg], depth: int, start: int, fields: list[Field]) -> tuple[int, int]:
    """Lay fields out from ``start`` on; where they end, padded, and their alignment. ``depth``: names of structs before a field's own."""
    offset, largest, at = start, 1, 0
    while at < len(args):
        parts = args[at].name.split(".")
        if len(parts) > depth + 1:  # an inner struct: as aligned as its largest field
            inner = [arg for arg in args[at:] if arg.name.split(".")[: depth + 1] == parts[: depth + 1]]
            aligned = max(size_of(arg) for arg in inner)
            offset, _ = _laid_out(inner, depth + 1, offset + -offset % aligned, fields)
            at += len(inner)
        else:
            aligned = size_of(args[at])
            offset += -offset % aligned
            fields.append((args[at], offset, aligned))
            offset, at = offset + aligned, at + 1
        largest = max(largest, aligned)
    return offset + -offset % largest, largest
