"""Kernel files in the place of a spec's sides: ``ref.cu opt.cu`` on the command line under a spec's launch and arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ptx_engine.errors import LaunchError
from volta_pass.spec.model import SideKind, Spec

#: how CUDA C files are called; any other file is PTX
_CUDA = frozenset({".cu", ".cuh"})


def kind_of(path: "str | Path") -> SideKind:
    """What a kernel file holds, by its name."""
    return SideKind.CUDA if Path(path).suffix.lower() in _CUDA else SideKind.PTX


def put_kernels(data: dict[str, Any], kernels: Sequence["str | Path"]) -> None:
    """Replace what the sides of a spec's data run: the last file is the candidate, one before it the reference.

    Everything else that the sides say (entry, args, launch) stays, where it can be said of such a file.
    """
    for side, path in zip(("candidate", "reference"), reversed(kernels)):
        table = data.setdefault(side, {})
        if not isinstance(table, dict):
            continue  # the spec's own mistake, reported as such
        kind = kind_of(path)
        drop = {k.value for k in SideKind} | ({"constexprs"} if kind is SideKind.CUDA else _COMPILED)
        for key in drop | ({"options"} if isinstance(table.get("options"), dict) else set()):
            table.pop(key, None)
        table[kind.value] = str(Path(path).absolute())


#: what PTX cannot be told
_COMPILED = {"constexprs", "options", "target", "defines", "include", "compiler"}


def with_defines(spec: Spec, defines: Sequence[str]) -> Spec:
    """The spec with macros of the command line (NAME or NAME=VALUE) defined in a CUDA C candidate. Raises LaunchError."""
    if not defines:
        return spec
    if spec.candidate.kind is not SideKind.CUDA:
        raise LaunchError("-D defines macros of a CUDA C candidate", hint=f"this candidate is {spec.candidate.kind.value}")
    added = {name: value or True for name, _, value in (text.partition("=") for text in defines)}
    return replace(spec, candidate=replace(spec.candidate, defines={**spec.candidate.defines, **added}))
