"""Where our code meets TileLang's runtime: the instrumentation tool, the cache root, launches, and the stand-in for a GPU.

Imported by ``volta_hooks.tilelang`` after it has seen that TileLang's version is a known one. Nothing is decided here.
"""

from __future__ import annotations

import atexit
import importlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import tilelang
from tilelang.env import env
from tilelang.instrumentation import register_pass_instrumentation_tool

from ptx_engine.errors import LaunchError
from volta_hooks.policy import Mode, mode_from_environment, target_from_environment
from volta_hooks.session import Session
from volta_hooks.tilelang_calls import guard_calls
from volta_hooks.tilelang_stand_in import activate
from volta_hooks.tilelang_tool import Registry, ValidationTool, enforce
from volta_hooks.tilelang_tuner import current_tuned, follow_tuners
from volta_pass.store import digest, own_version

TOOL = "volta-pass"

_session: Session | None = None


def session() -> Session:
    """The process's session. Raises LaunchError before ``install``."""
    if _session is None:
        raise LaunchError("the TileLang hook is not installed", hint="set VOLTA_VALIDATE=1, or call volta_hooks.tilelang.install()")
    return _session


def install(mode: Mode | None = None) -> Session:
    """Install the hook once per process. Raises LaunchError for a malformed ``VOLTA_TARGET``."""
    global _session
    if _session is not None:
        return _session
    target = target_from_environment()
    _session = Session(mode or mode_from_environment() or Mode.ON)
    _session.follow_exit()
    registry = Registry(_session, current_tuned)
    _own_cache(_session.mode)
    register_pass_instrumentation_tool(TOOL, lambda: ValidationTool(registry))
    enforce(registry)
    follow_tuners(_session)
    guard_calls(registry, stand_in=target is not None)
    _with_lines()
    if target is not None:
        activate(target, _session)
    return _session


def _with_lines() -> None:
    """Have the CUDA text say from which lines of Python it comes, unless the user decides."""
    for name in ("tilelang.jit.kernel", "tilelang.autotuner.grouped_compile"):
        module: Any = importlib.import_module(name)  # (tilelang.jit is a function, too)
        normalize = module.normalize_pass_configs

        def with_lines(configs: Any, normalize: Any = normalize) -> Any:
            return {"tl.emit_line_directives": True, **(normalize(configs) or {})}

        module.normalize_pass_configs = with_lines


def _own_cache(mode: Mode) -> None:
    """A cache of this process's own: a kernel that another process compiled would be loaded without being seen."""
    root = Path(env.TILELANG_CACHE_DIR) / f"volta-pass-{digest(own_version(), tilelang.__version__, mode.value)[:16]}"
    root.mkdir(parents=True, exist_ok=True)
    env.TILELANG_CACHE_DIR = tempfile.mkdtemp(prefix="run-", dir=root)
    atexit.register(shutil.rmtree, env.TILELANG_CACHE_DIR, ignore_errors=True)
