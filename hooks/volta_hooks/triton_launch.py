"""A Triton launch as ours: kernel parameters in PTX order, tensors with roles from the TTIR, aliases, scratch pointers.

PTX parameters are the arguments that are no compile-time constants, in signature order, then two scratch pointers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ptx_engine.errors import LaunchError, UnsupportedError
from ptx_engine.launch import DTYPES, SYMBOLIC, Arg, Launch, NullArg, Role, ScalarArg, TensorArg
from volta_hooks.triton_arguments import TensorFacts, contents_loader, flatten, tensor_facts
from volta_hooks.triton_overlap import sharing
from volta_pass.specs_api import TensorSpec, launch_dtype
from volta_pass.ttir_uses import ParameterUse

#: what cannot be seen where tensors have no memory of their own (specs), or reach past their views
DISJOINT = "tensor arguments at different addresses do not overlap"

#: signature entry of an argument that is no parameter of the compiled kernel
CONSTANT = "constexpr"


@dataclass(frozen=True)
class CapturedLaunch:
    """The launch, how to get the contents of its integer tensors, and what it takes for granted."""

    launch: Launch
    contents: dict[str, Callable[[], np.ndarray]]
    assumptions: tuple[str, ...] = ()
    #: parameters that the source stores through
    outputs: tuple[str, ...] = ()


def capture(
    names: Sequence[str],
    types: Sequence[Any],
    values: Sequence[Any],
    grid: tuple[int, int, int],
    metadata: Any,
    uses: Sequence[ParameterUse],
) -> CapturedLaunch:
    """Turn bound arguments into a launch. ``types`` are Triton's signature entries; ``uses`` describes the TTIR's parameters,
    which are matched by position. Raises LaunchError or UnsupportedError naming the argument."""
    leaves = [leaf for leaf in flatten(tuple(names), tuple(values), tuple(types)) if leaf[2] != CONSTANT]
    if getattr(metadata, "num_ctas", 1) > 1:
        raise UnsupportedError("clusters of CTAs (num_ctas > 1) are not modelled", feature="num_ctas")
    args: list[Arg] = []
    builder = _Tensors(uses if len(uses) == len(leaves) else [])
    for position, (name, value, kind) in enumerate(leaves):
        if not isinstance(kind, str) or kind.startswith(("tensordesc", "nvTmaDesc")):
            raise UnsupportedError(f"argument {name}: host-side tensor descriptors are not modelled", feature=str(kind))
        if kind.startswith("*"):
            args.append(builder.tensor(position, name, value, kind))
        else:
            args.append(_scalar(name, value, kind))
    args = sharing(builder.with_shared_roles(args), builder.starts)
    contents = builder.loaders(args, {name: value for name, value, _ in leaves})
    args += _scratch(metadata, grid)
    block = (int(metadata.num_warps) * int(metadata.warp_size), 1, 1)
    assumptions = (DISJOINT,) if len(builder.owners) > 1 else ()
    return CapturedLaunch(Launch(grid, block, tuple(args), int(metadata.shared)), contents, assumptions, tuple(builder.written))


class _Tensors:
    """Makes tensor arguments; the first one at an address owns it, later ones are aliases."""

    def __init__(self, uses: Sequence[ParameterUse]) -> None:
        self.uses = uses
        self.addresses: dict[int, int] = {}
        self.owners: dict[int, str] = {}
        self.facts: dict[str, TensorFacts] = {}
        self.roles: dict[str, set[Role]] = {}
        self.extents: dict[str, int] = {}
        self.starts: dict[str, int] = {}  # address of each owner that has memory
        self.written: list[str] = []

    def tensor(self, position: int, name: str, value: Any, kind: str) -> Arg:
        if value is None or isinstance(value, int):
            if value:
                raise LaunchError(f"argument {name} is a bare address", hint="pass a tensor, so that its size is known")
            return NullArg(name)
        try:
            facts = tensor_facts(position, value, self.addresses)
        except LaunchError as error:
            raise LaunchError(f"argument {name}: {error.message}", hint=error.hint) from None
        dtype = launch_dtype(kind.lstrip("*").removeprefix("k"))
        role = self.uses[position].role if self.uses else Role.INOUT
        arg = TensorArg(name, dtype, facts.shape, role, facts.strides)
        owner = self.owners.setdefault(facts.alias, name)
        self.facts[name] = facts
        self.written += [name] if role is not Role.IN else []
        self.roles.setdefault(owner, set()).add(role)
        reach = max(arg.storage, facts.capacity or 0)
        self.extents[owner] = max(self.extents.get(owner, 0), reach)
        if owner == name:
            if not isinstance(value, TensorSpec):
                self.starts[name] = int(value.data_ptr())
            return arg
        if launch_dtype(self.facts[owner].dtype) != dtype:
            raise UnsupportedError(f"arguments {owner} and {name} share an address and differ in type", feature="aliased types")
        return replace(arg, alias=owner)

    def loaders(self, args: Sequence[Arg], values: Mapping[str, Any]) -> dict[str, Callable[[], np.ndarray]]:
        """How to read the contents of each integer tensor that has memory of its own, and of the views that lie in it."""
        views: dict[str, list[TensorArg]] = {}
        for arg in args:
            if isinstance(arg, TensorArg) and arg.name in self.facts and not DTYPES[arg.dtype][1]:
                views.setdefault(arg.alias or arg.name, []).append(arg)
        storage = {arg.name: arg.storage for arg in args if isinstance(arg, TensorArg)}
        parts = {owner: [(values[a.name], self.facts[a.name], a.offset_elements) for a in group] for owner, group in views.items()}
        found = {owner: contents_loader(rows, storage[owner]) for owner, rows in parts.items()}
        return {owner: loader for owner, loader in found.items() if loader is not None}

    def with_shared_roles(self, args: list[Arg]) -> list[Arg]:
        """Owners of an address get the roles of all its arguments together, and the longest reach."""
        return [self._settled(arg) if isinstance(arg, TensorArg) and not arg.alias else arg for arg in args]

    def _settled(self, arg: TensorArg) -> TensorArg:
        roles = self.roles[arg.name]
        role = roles.pop() if len(roles) == 1 else Role.INOUT
        # an input may be read past its view, as on the machine; what is written past a view belongs to someone else
        extra = max(0, self.extents[arg.name] - arg.storage) if role is Role.IN else 0
        return replace(arg, role=role, extra_elements=extra)


_FLOATS = {"fp16": "f16", "bf16": "bf16", "fp32": "f32", "fp64": "f64", "f32": "f32", "f64": "f64"}


def _scalar(name: str, value: Any, kind: str) -> ScalarArg:
    if kind in _FLOATS:
        return ScalarArg(name, _FLOATS[kind], SYMBOLIC)
    if not isinstance(value, (int, np.integer)):
        raise LaunchError(f"argument {name}: {value!r} where Triton's signature says {kind}")
    return ScalarArg(name, launch_dtype(kind), int(value))


def _scratch(metadata: Any, grid: tuple[int, int, int]) -> list[Arg]:
    """Triton's global and profile scratch pointers: memory of the launch where the kernel uses any, else null."""
    programs = grid[0] * grid[1] * grid[2]
    rows: list[Arg] = []
    for name in ("global_scratch", "profile_scratch"):
        size = int(getattr(metadata, f"{name}_size", 0) or 0)
        rows.append(TensorArg(name, "u8", (size * programs,), Role.AUX) if size else NullArg(name))
    return rows
