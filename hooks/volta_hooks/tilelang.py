"""The hook into TileLang 0.1.14 and newer: every kernel that it compiles is validated, by every way that there is to compile one.

``install()`` refuses older versions before it touches anything. Under ``VOLTA_TARGET`` kernels are compiled for a GPU that is
not there, and launches validate instead of executing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ptx_engine.errors import LaunchError
from volta_hooks.policy import check_settings

if TYPE_CHECKING:
    from volta_hooks.policy import Mode
    from volta_hooks.session import Session

OLDEST = (0, 1, 14)


def check_version(version: str) -> None:
    """Raises LaunchError for a TileLang before 0.1.14."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    number = tuple(int(part) for part in found.groups()) if found else (0, 0, 0)
    if number < OLDEST:
        raise LaunchError(
            f"TileLang {version} is too old to be validated: it has no instrumentation", hint="pip install 'tilelang>=0.1.14'"
        )


def install(mode: Mode | None = None) -> Session:
    """Install the hook once per process; ``mode`` overrides the environment's.

    Raises SettingError for a ``VOLTA_*`` variable that means nothing, LaunchError for an unsupported TileLang.
    """
    import tilelang

    check_settings()
    check_version(tilelang.__version__)
    from volta_hooks import tilelang_runtime

    return tilelang_runtime.install(mode)


def session() -> Session:
    """The process's session. Raises LaunchError before ``install``."""
    from volta_hooks import tilelang_runtime

    return tilelang_runtime.session()
