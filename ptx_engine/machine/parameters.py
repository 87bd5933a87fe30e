"""Which arguments of a launch a kernel's parameters take: one each, and a struct passed by value one for each field.

The fields of a struct are consecutive arguments named ``struct.field``, those of a struct in it ``struct.inner.field``. They lie as C has
them: each at a multiple of its own size, a struct padded to a multiple of its largest (C++ ABI of CUDA). An inner struct may be aligned to
more than its fields (float2 is): the one layout of the parameter's size and alignment is taken; none, or several, are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from ptx_engine.errors import LaunchError
from ptx_engine.launch import DTYPES, Arg, ScalarArg
from ptx_engine.syntax.ast import Param

#: an argument, its offset in the parameter, and its size, in bytes
Field = tuple[Arg, int, int]
#: so many ways to align inner structs are tried
_LAYOUTS = 4096


class BitsArg(ScalarArg):
    """The bits of a whole parameter, a struct's too, of whatever size it is: the concrete mode's."""

    def __post_init__(self) -> None:
        """No type to fit into."""


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
    fitting: dict[tuple[int, ...], list[Field]] = {}
    for raised in _alignments(param, args):
        fields: list[Field] = []
        if _laid_out(args, 1, 0, fields, raised) == (param.size, param.align):
            fitting.setdefault(tuple(place for _, place, _ in fields), fields)
    if len(fitting) == 1:
        return next(iter(fitting.values()))
    if fitting:
        shown = " or ".join(_layout(fields) for fields in list(fitting.values())[:2])
        raise LaunchError(
            f"the fields of parameter {param.name} lie in more than one way in {param.size} bytes: {shown}",
            hint="inner structs may be aligned to more than their fields (float2, float4, alignas): name the padding, too, as fields",
        )
    fields = []
    total, largest = _laid_out(args, 1, 0, fields, {})
    raise LaunchError(
        f"parameter {param.name} is a struct of {param.size} bytes aligned to {param.align}, its fields make one of {total} aligned to"
        f" {largest}: {_layout(fields)}",
        hint="give every field in order and of its own type; those of an inner struct are named s.inner.a; fields with alignas are not"
        " supported",
    )


def _layout(fields: Sequence[Field]) -> str:
    return ", ".join(f"{arg.name} at {place} ({size})" for arg, place, size in fields)


def _alignments(param: Param, args: Sequence[Arg]) -> Iterator[dict[str, int]]:
    """What inner structs may be aligned to: each to its fields, or to a greater power of two up to the parameter's own alignment."""
    inner: dict[str, None] = {}
    for arg in args:
        parts = arg.name.split(".")
        inner.update({".".join(parts[:n]): None for n in range(2, len(parts))})
    powers = [0, *(1 << n for n in range(1, 8) if 1 << n <= param.align)]
    names = list(inner)
    if len(powers) ** len(names) > _LAYOUTS:
        raise LaunchError(f"parameter {param.name} has {len(names)} inner structs, too many to say where their fields lie")
    for chosen in product(powers, repeat=len(names)):
        yield dict(zip(names, chosen))


def _laid_out(args: Sequence[Arg], depth: int, start: int, fields: list[Field], raised: Mapping[str, int]) -> tuple[int, int]:
    """Lay fields out from ``start`` on; where they end, padded, and their alignment. ``depth``: names of structs before a field's own;
    ``raised``: the alignment that an inner struct has at least."""
    offset, largest, at = start, 1, 0
    while at < len(args):
        parts = args[at].name.split(".")
        if len(parts) > depth + 1:  # an inner struct: as aligned as its largest field
            name = ".".join(parts[: depth + 1])
            inner = [arg for arg in args[at:] if arg.name.split(".")[: depth + 1] == parts[: depth + 1]]
            nested = (raised.get(each, 0) for each in raised if each.startswith(name + "."))
            aligned = max(raised.get(name, 0), *nested, *(size_of(arg) for arg in inner))
            begin = offset + -offset % aligned
            end, _ = _laid_out(inner, depth + 1, begin, fields, raised)
            offset, at = begin + (end - begin) + -(end - begin) % aligned, at + len(inner)
        else:
            aligned = size_of(args[at])
            offset += -offset % aligned
            fields.append((args[at], offset, aligned))
            offset, at = offset + aligned, at + 1
        largest = max(largest, aligned)
    return offset + -(offset - start) % largest, largest
