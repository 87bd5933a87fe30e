"""Calls of compiled TileLang kernels: sizes, scalars and contents that only a launch fixes are validated before it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tilelang.jit.kernel import JITKernel

from volta_hooks.storage_order import is_on_host
from volta_hooks.tilelang_arguments import arguments, bind, loader
from volta_hooks.tilelang_guard import CompiledFunction, check
from volta_hooks.tilelang_stand_in import outputs
from volta_hooks.tilelang_tool import Registry, compiled_here


def guard_calls(registry: Registry, stand_in: bool) -> None:
    """Put validation in front of every call; with ``stand_in``, in place of it."""
    make, call = JITKernel.__init__, JITKernel.__call__

    def made(self: JITKernel, func: Any = None, *args: Any, **kwargs: Any) -> None:
        make(self, func, *args, **kwargs)
        name = str(func.attrs["global_symbol"]) if func is not None and func.attrs else ""
        self._volta = compiled_here(name)
        if name in registry.refused:
            raise registry.refused[name]

    def called(self: JITKernel, *args: Any, **kwargs: Any) -> Any:
        compiled: CompiledFunction | None = getattr(self, "_volta", None)
        if compiled is None:
            registry.session.say_once(f"{_name(self)}: its compilation was not seen, so that it is not validated")
        else:
            _check_call(registry, compiled, arguments(self, args))
        return outputs(self, args) if stand_in else call(self, *args, **kwargs)

    JITKernel.__init__, JITKernel.__call__ = made, called


def _name(kernel: JITKernel) -> str:
    func = kernel.prim_func
    return str(func.attrs["global_symbol"]) if func is not None and func.attrs else "kernel"


def _check_call(registry: Registry, compiled: CompiledFunction, values: Sequence[Any]) -> None:
    """Validate what is new in a call. A kernel of fixed sizes was validated when it was compiled."""
    func = compiled.func
    sizes: dict[str, Any] = {}
    contents: dict[str, Callable[[], np.ndarray]] = {}
    on_host: set[str] = set()
    for param, value in zip(func.params, values):
        if param not in func.buffer_map:
            if isinstance(value, (int, np.integer)) and "float" not in str(param.dtype):
                sizes[str(param.name)] = int(value)
        elif hasattr(value, "shape"):
            buffer = func.buffer_map[param]
            bind(buffer, value, sizes)
            if compiled.needs_contents and not str(buffer.dtype).startswith(("float", "bfloat")):
                load = loader(value)
                if load is not None:
                    contents[str(buffer.name)] = load
                    if is_on_host(value):
                        on_host.add(str(buffer.name))
    if sizes or contents:
        check(registry.session, compiled, sizes, contents, on_host)
