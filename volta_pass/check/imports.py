"""Imports what a spec names, "pkg.mod:name" or "file.py:name", with the spec's folder first on the path.

Called only where the user allowed it. Whatever the imported code raises becomes one SpecError at the spec's line.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from volta_pass.spec import SideSpec, SpecError


def import_object(side: SideSpec, folder: Path) -> Any:
    """The named object. Raises SpecError."""
    module_name, _, name = side.source.rpartition(":")
    try:
        module = _import_file(folder / module_name) if module_name.endswith(".py") else _import_module(module_name, folder)
    except (Exception, SystemExit) as error:  # code of the user's: anything can come out of it
        hint = "a file.py is looked for beside the spec, a module beside it and on Python's path; does it import on its own?"
        raise _error(side, f"importing {module_name} failed: {type(error).__name__}: {error}", hint) from error
    if not hasattr(module, name):
        raise _error(side, f"{module_name} has no {name!r}", "name a kernel or function at the module's top level")
    return getattr(module, name)


def _import_file(path: Path) -> ModuleType:
    found = importlib.util.spec_from_file_location(path.stem, path)
    if found is None or found.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(found)
    before = sys.modules.get(path.stem)
    sys.modules[path.stem] = module  # Triton reads a kernel's globals through its module
    try:
        found.loader.exec_module(module)
    except BaseException:
        if before is None:
            del sys.modules[path.stem]
        else:
            sys.modules[path.stem] = before
        raise
    return module


def _import_module(name: str, folder: Path) -> ModuleType:
    sys.path.insert(0, str(folder.absolute()))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(folder.absolute()))


def _error(side: SideSpec, message: str, hint: str) -> SpecError:
    return SpecError(f"[{side.side}] {message}", span=side.span, source_line=side.source_line, hint=hint)
