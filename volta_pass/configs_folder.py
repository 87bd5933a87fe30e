"""Where the launch specs and example kernels lie: in the wheel beside this file, in a source tree at its top."""

from __future__ import annotations

from pathlib import Path

from ptx_engine.errors import LaunchError


def configs_folder() -> Path:
    """The folder of specs and kernels. Raises LaunchError where an installation has none."""
    here = Path(__file__).parent
    for folder in (here / "configs", here.parent / "configs"):
        if (folder / "launch_spec.schema.json").is_file():
            return folder
    raise LaunchError("the example kernels are not installed", hint="install the volta-pass wheel, or run from a source tree")
