"""Loads a compiler's hook right after the program has imported that compiler; imports no compiler itself.

The wheel's ``.pth`` file imports this module at interpreter start if ``VOLTA_VALIDATE`` is set, and nothing otherwise. A program
that never imports a compiler pays for one entry in ``sys.meta_path`` (hence no ``importlib.abc`` here, which costs 20 ms).
"""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

#: package whose import is followed -> our module with ``install()``
HOOKS = {"triton": "volta_hooks.triton", "tilelang": "volta_hooks.tilelang"}


class _Loader:
    """The package's own loader, followed by our installation."""

    def __init__(self, inner: Any, hook: str) -> None:
        self._inner = inner
        self._hook = hook

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        found: ModuleType | None = self._inner.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = self._inner  # resource readers and reloads must see the real one
            module.__loader__ = self._inner
        self._inner.exec_module(module)
        install_hook(self._hook)


class Finder:
    """Finds the packages in ``HOOKS`` through the other finders and wraps their loaders; finds nothing else."""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname not in HOOKS:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, HOOKS[fullname])  # type: ignore[assignment]
                return spec
        return None


def install_hook(name: str) -> None:
    """Import one of our hook modules and call its ``install()``; a failure is printed and breaks nothing unless strict.

    A ``VOLTA_*`` variable that means nothing ends the program with exit code 2, except under ``warn``.
    """
    try:
        importlib.import_module(name).install()
    except Exception as error:
        import traceback

        from volta_hooks.policy import Mode, SettingError, mode_from_environment, tell

        if isinstance(error, SettingError) and mode_from_environment() is not Mode.WARN:
            tell(f"error: {error}\n  help: {error.hint}")
            raise SystemExit(2) from None
        if mode_from_environment() is Mode.STRICT:
            raise
        hint = getattr(error, "hint", "")
        detail = "".join(traceback.format_exception(error)) if type(error).__name__ != "LaunchError" else hint and f"  help: {hint}"
        tell(f"volta-pass: kernels are not validated: {error}\n{detail}".rstrip())


def install() -> None:
    """Follow the import of every known compiler; those already imported get their hook now. Idempotent."""
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, Finder())
    for package, hook in HOOKS.items():
        if package in sys.modules:
            install_hook(hook)
