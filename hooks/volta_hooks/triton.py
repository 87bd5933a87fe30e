"""The hook into Triton 3.7 to 3.9: every new launch of every compiled kernel is validated before it runs.

``install()`` refuses other versions before it touches anything. Under ``VOLTA_TARGET`` a stand-in takes the place of the GPU
driver, so that launches are validated instead of executed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ptx_engine.errors import LaunchError
from volta_hooks.policy import check_settings

if TYPE_CHECKING:
    from volta_hooks.policy import Mode
    from volta_hooks.session import Session

OLDEST, NEWEST = (3, 7), (3, 9)


def check_version(version: str) -> None:
    """Raises LaunchError for a Triton outside 3.7 to 3.9."""
    found = re.match(r"(\d+)\.(\d+)", version)
    number = (int(found[1]), int(found[2])) if found else (0, 0)
    if number < OLDEST:
        raise LaunchError(
            f"Triton {version} is too old to be validated (its pipeline hook differs)", hint="pip install 'triton>=3.7,<3.10'"
        )
    if number > NEWEST:
        raise LaunchError(f"Triton {version} is newer than what this release validates (3.7 to 3.9)", hint="pip install -U volta-pass")


def install(mode: Mode | None = None) -> Session:
    """Install the hook once per process; ``mode`` overrides the environment's.

    Raises SettingError for a ``VOLTA_*`` variable that means nothing, LaunchError for an unsupported Triton.
    """
    import triton

    check_settings()
    check_version(triton.__version__)
    from volta_hooks import triton_runtime

    return triton_runtime.install(mode)


def session() -> Session:
    """The process's session. Raises LaunchError before ``install``."""
    from volta_hooks import triton_runtime

    return triton_runtime.session()
