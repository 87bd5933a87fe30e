"""Launches of a Triton kernel described by launch specs in ``configs/`` of the current folder, for kernels compiled without one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ptx_engine.errors import LaunchError
from ptx_engine.launch import Launch, ScalarArg, TensorArg
from volta_pass.spec import SideKind, SideSpec, read_spec
from volta_pass.specs_api import AnnouncedLaunch, TensorSpec

FOLDER = "configs"


def spec_launches(kernel: str, folder: "str | Path" = FOLDER) -> list[AnnouncedLaunch]:
    """The launches of every spec under ``folder`` with a side ``triton = "module:KERNEL"``, in order of file names.

    Raises SpecError for a malformed spec that names the kernel; files that do not name it are not read as specs.
    """
    found: list[AnnouncedLaunch] = []
    for path in sorted(Path(folder).rglob("*.toml")):
        if f":{kernel}" not in path.read_text(encoding="utf-8", errors="replace"):
            continue
        spec = read_spec(path)
        sides = [side for side in (spec.candidate, spec.reference) if side is not None and _names(side, kernel)]
        found += [AnnouncedLaunch(kernel, side.launch.grid, _arguments(side.launch)) for side in sides]
    return found


def _names(side: SideSpec, kernel: str) -> bool:
    return side.kind is SideKind.TRITON and side.source.rsplit(":", 1)[-1] == kernel


def _arguments(launch: Launch) -> dict[str, object]:
    """Values by argument name; a symbolic float is any float, since the hook keeps floats symbolic."""
    values: dict[str, object] = {}
    for arg in launch.args:
        if isinstance(arg, TensorArg):
            contents = None if isinstance(arg.contents, str) else arg.contents.reshape(-1)[: arg.storage]
            values[arg.name] = TensorSpec(arg.shape, arg.dtype, arg.element_strides(), _logical(arg, contents))
        elif isinstance(arg, ScalarArg):
            if isinstance(arg.value, str) and not arg.dtype.startswith(("f", "b")):
                raise LaunchError(f"argument {arg.name}: an integer scalar needs a value", hint="value = 3 in its [[args]] table")
            values[arg.name] = 0.0 if isinstance(arg.value, str) else arg.value
    return values


def _logical(arg: TensorArg, contents: object) -> object:
    """Contents in the tensor's shape, from storage order."""
    if contents is None:
        return None
    offsets = np.zeros(arg.shape, np.int64)
    for axis, (extent, stride) in enumerate(zip(arg.shape, arg.element_strides())):
        offsets += (np.arange(extent, dtype=np.int64) * stride).reshape([-1 if d == axis else 1 for d in range(len(arg.shape))])
    return np.asarray(contents)[offsets]
