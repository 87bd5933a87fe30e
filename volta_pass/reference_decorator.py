"""``@volta_pass.reference(fn)``: says what a kernel computes, as a Python function over symbolic tensors.

``fn``'s parameters are named after the kernel's arguments it needs (a trailing ``_ptr`` may be left out); it returns the
output tensor, or a dictionary from output argument to tensor. The kernel itself is unchanged.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from ptx_engine.errors import LaunchError
from volta_pass.specs_api import innermost, kernel_name

Kernel = TypeVar("Kernel")

ATTRIBUTE = "__volta_reference__"


def reference(fn: Callable[..., Any]) -> Callable[[Kernel], Kernel]:
    """A decorator that attaches ``fn`` to a kernel, above or below ``@triton.autotune``.

    Raises LaunchError if ``fn`` is not callable or takes variable arguments, which could not be matched by name.
    """
    if not callable(fn):
        raise LaunchError(f"@volta_pass.reference takes a function, not {fn!r}", hint="write @volta_pass.reference(fn) above the kernel")
    kinds = {parameter.kind for parameter in inspect.signature(fn).parameters.values()}
    if inspect.Parameter.VAR_POSITIONAL in kinds or inspect.Parameter.VAR_KEYWORD in kinds:
        raise LaunchError("a reference function's parameters are matched by name: it cannot take *args or **kwargs")

    def attach(kernel: Kernel) -> Kernel:
        setattr(innermost(kernel), ATTRIBUTE, fn)
        return kernel

    return attach


def reference_of(kernel: object) -> Callable[..., Any] | None:
    """The function attached to a kernel, or None."""
    found = getattr(innermost(kernel), ATTRIBUTE, None)
    return found if callable(found) else None


def match_parameters(fn: Callable[..., Any], kernel: object, available: list[str]) -> dict[str, str]:
    """Which kernel argument each parameter of ``fn`` names: {parameter: argument}. Raises LaunchError naming one that fits none."""
    matched = {}
    for name, parameter in inspect.signature(fn).parameters.items():
        choices = [argument for argument in (name, name + "_ptr") if argument in available]
        fields = [argument for argument in available if argument.endswith(f".{name}")]  # of a struct
        if not choices and len(fields) == 1:
            choices = fields
        if choices:
            matched[name] = choices[0]
        elif parameter.default is inspect.Parameter.empty:
            raise LaunchError(
                f"the reference function of {kernel_name(kernel)} takes {name!r}, which is no argument of the kernel",
                hint="its arguments: " + ", ".join(available),
            )
    return matched
