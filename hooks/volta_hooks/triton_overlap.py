"""Arguments that are views of one buffer: they share memory in the launch as they do in the program.

The view that starts first owns the memory, reaching up to the end of the last one; the others are aliases at a distance. Interleaved
views (``b[0::2]`` and ``b[1::2]``) and shifted ones then read and write each other's elements exactly where the addresses say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ptx_engine.errors import UnsupportedError
from ptx_engine.launch import Arg, Role, TensorArg


def sharing(args: Sequence[Arg], starts: Mapping[str, int]) -> list[Arg]:
    """The arguments with overlapping views made one memory where one of them is written; ``starts``: addresses in bytes of
    tensors that have memory (owners of an address only). What an input may be read past its view ends where another argument
    starts. Raises UnsupportedError for views that differ in type."""
    tensors = sorted((a for a in args if isinstance(a, TensorArg) and a.name in starts and a.storage), key=lambda a: starts[a.name])
    ends = _ends(args, starts)
    changed: dict[str, TensorArg] = {}
    for group in _groups(tensors, starts, ends):
        changed |= _one_memory(group, starts, ends)
    for i, first in enumerate(tensors):
        follower = next((b for b in tensors[i + 1 :] if starts[b.name] >= ends[first.name] and b.role is not Role.IN), None)
        if first.name not in changed and first.extra_elements and follower is not None:
            room = (starts[follower.name] - ends[first.name]) // first.element_bytes
            changed[first.name] = replace(first, extra_elements=min(first.extra_elements, room))
    return [_repointed(changed.get(arg.name, arg), changed) if isinstance(arg, TensorArg) else arg for arg in args]


def _ends(args: Sequence[Arg], starts: Mapping[str, int]) -> dict[str, int]:
    """Per owner of an address, the address after the last element of the longest view that starts there."""
    ends: dict[str, int] = {}
    for arg in args:
        owner = arg.alias or arg.name if isinstance(arg, TensorArg) else ""
        if isinstance(arg, TensorArg) and owner in starts:
            end = starts[owner] + (arg.storage - arg.extra_elements) * arg.element_bytes
            ends[owner] = max(ends.get(owner, 0), end)
    return ends


def _groups(tensors: Sequence[TensorArg], starts: Mapping[str, int], ends: Mapping[str, int]) -> list[list[TensorArg]]:
    """Runs of views whose ranges touch the same bytes; those of which none is written are left apart."""
    groups: list[list[TensorArg]] = []
    reach = 0
    for arg in tensors:
        if groups and starts[arg.name] < reach:
            groups[-1].append(arg)
        else:
            groups.append([arg])
        reach = max(reach, ends[arg.name])
    return [group for group in groups if any(arg.role is not Role.IN for arg in group)]


def _one_memory(group: Sequence[TensorArg], starts: Mapping[str, int], ends: Mapping[str, int]) -> dict[str, TensorArg]:
    owner, size = group[0], group[0].element_bytes
    for arg in group[1:]:
        if arg.dtype != owner.dtype or (starts[arg.name] - starts[owner.name]) % size:
            raise UnsupportedError(
                f"arguments {owner.name} and {arg.name} overlap in memory (views of one buffer) and differ in type",
                feature="overlapping arguments", hint="pass views of one element type, or copies",
            )  # fmt: skip
    roles = {arg.role for arg in group}
    end = max(ends[arg.name] for arg in group)
    own = owner.storage - owner.extra_elements
    whole = replace(
        owner, role=roles.pop() if len(roles) == 1 else Role.INOUT, extra_elements=(end - starts[owner.name]) // size - own
    )  # fmt: skip
    apart = {arg.name: (starts[arg.name] - starts[owner.name]) // size for arg in group[1:]}
    views = {arg.name: replace(arg, alias=owner.name, offset_elements=apart[arg.name], extra_elements=0) for arg in group[1:]}
    return {owner.name: whole, **views}


def _repointed(arg: TensorArg, changed: Mapping[str, TensorArg]) -> TensorArg:
    """An alias of a view that became an alias itself."""
    owner = changed.get(arg.alias)
    if owner is None or not owner.alias:
        return arg
    return replace(arg, alias=owner.alias, offset_elements=arg.offset_elements + owner.offset_elements)
