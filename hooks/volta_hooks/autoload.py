"""Loads a compiler's hook right after the program has imported that compiler; imports no compiler itself.

The wheel's ``.pth`` file imports this module at interpreter start if ``VOLTA_VALIDATE`` is set, and nothing otherwise. Only
the standard library is imported here: a program that never imports a compiler pays for one entry in ``sys.meta_path``.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
import traceback
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

#: package whose import is followed -> our module with ``install()``
HOOKS = {"triton": "volta_hooks.triton"}


class _Loader(importlib.abc.Loader):
    """The package's own loader, followed by our installation."""

    def __init__(self, inner: importlib.abc.Loader, hook: str) -> None:
        self._inner = inner
        self._hook = hook

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = self._inner  # resource readers and reloads must see the real one
            module.__loader__ = self._inner
        self._inner.exec_module(module)
        install_hook(self._hook)


class Finder(importlib.abc.MetaPathFinder):
    """Finds the packages in ``HOOKS`` through the other finders and wraps their loaders; finds nothing else."""

    def __init__(self) -> None:
        self._searching: set[str] = set()

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname not in HOOKS or fullname in self._searching:
            return None
        self._searching.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching.discard(fullname)
        if spec is None or spec.loader is None:
            return None
        spec.loader = _Loader(spec.loader, HOOKS[fullname])
        return spec


def install_hook(name: str) -> None:
    """Import one of our hook modules and call its ``install()``; a failure is printed and breaks nothing unless strict."""
    try:
        importlib.import_module(name).install()
    except Exception as error:
        from volta_hooks.policy import Mode, mode_from_environment

        if mode_from_environment() is Mode.STRICT:
            raise
        detail = "" if type(error).__name__ == "LaunchError" else "".join(traceback.format_exception(error))
        print(f"volta-pass: no validation: {error}\n{detail}".rstrip(), file=sys.stderr)


def install() -> None:
    """Follow the import of every known compiler; those already imported get their hook now. Idempotent."""
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, Finder())
    for package, hook in HOOKS.items():
        if package in sys.modules:
            install_hook(hook)
