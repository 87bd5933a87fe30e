"""volta-pass: proves the PTX of GPU kernels equal to what it was compiled from, and finds races, without a GPU.

Names are loaded when they are used: importing this package imports no compiler, no NumPy and none of our engine.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from volta_pass.check import CheckOptions as CheckOptions
    from volta_pass.check import CheckReport as CheckReport
    from volta_pass.check import check_file as check_file
    from volta_pass.check import check_spec as check_spec
    from volta_pass.cuda_api import cuda_kernel as cuda_kernel
    from volta_pass.diagnostics import render as render
    from volta_pass.parallel import check_many as check_many
    from volta_pass.parallel import validate_many as validate_many
    from volta_pass.reference_decorator import reference as reference
    from volta_pass.spec import read_spec as read_spec
    from volta_pass.spec import read_sweep as read_sweep
    from volta_pass.specs_api import TensorSpec as TensorSpec
    from volta_pass.specs_api import launch_for as launch_for
    from volta_pass.validate import validate as validate_job  # noqa: F401

#: public name -> (module, name there)
_NAMES = {
    "CheckOptions": ("volta_pass.check", "CheckOptions"),
    "CheckReport": ("volta_pass.check", "CheckReport"),
    "check_file": ("volta_pass.check", "check_file"),
    "check_many": ("volta_pass.parallel", "check_many"),
    "check_spec": ("volta_pass.check", "check_spec"),
    "cuda_kernel": ("volta_pass.cuda_api", "cuda_kernel"),
    "render": ("volta_pass.diagnostics", "render"),
    "read_spec": ("volta_pass.spec", "read_spec"),
    "read_sweep": ("volta_pass.spec", "read_sweep"),
    "reference": ("volta_pass.reference_decorator", "reference"),
    "TensorSpec": ("volta_pass.specs_api", "TensorSpec"),
    "launch_for": ("volta_pass.specs_api", "launch_for"),
    "validate_many": ("volta_pass.parallel", "validate_many"),
    "validate_job": ("volta_pass.validate", "validate"),
}

__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'volta_pass' has no attribute {name!r}")
    module, attribute = _NAMES[name]
    value = getattr(importlib.import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_NAMES]
