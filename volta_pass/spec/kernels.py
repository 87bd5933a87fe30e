"""Kernel files in the place of a spec's sides: ``ref.cu opt.cu`` on the command line under a spec's launch and arguments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from volta_pass.spec.model import SideKind

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
