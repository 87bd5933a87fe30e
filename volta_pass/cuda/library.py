"""The NVRTC library: found in the pip package, a toolkit or the system, and called through its C interface."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from volta_pass.cuda.errors import CudaCompilerMissing

INSTALL = "pip install 'volta-pass[cuda]' (the package nvidia-cuda-nvrtc; no GPU, no driver, no toolkit needed)"


@cache
def nvrtc_library() -> ctypes.CDLL:
    """The newest libnvrtc of the pip packages, else of CUDA_HOME, else of the system. Raises CudaCompilerMissing."""
    tried = []
    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            tried.append(f"{path}: {error}")
    detail = f" ({'; '.join(tried)})" if tried else ""
    raise CudaCompilerMissing(f"NVRTC, the CUDA C compiler library, is not installed{detail}", feature="cuda", hint=INSTALL)


def nvidia_folders() -> list[Path]:
    """The folders of NVIDIA's pip packages, such as ``nvidia/cu13``."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        return []
    roots = list(spec.submodule_search_locations or ()) if spec is not None else []
    return sorted({path for root in roots for path in Path(root).iterdir() if path.is_dir()}, reverse=True)


def toolkit() -> Path | None:
    """The CUDA toolkit that CUDA_HOME or CUDA_PATH names, or the usual folder, if it is there."""
    for place in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if place and (Path(place) / "include").is_dir():
            return Path(place)
    return None


def _candidates() -> Iterator[str]:
    for folder in nvidia_folders():
        yield from map(str, _newest((folder / "lib").glob("libnvrtc.so.*")))
    home = toolkit()
    if home is not None:
        yield from map(str, _newest((home / "lib64").glob("libnvrtc.so.*")))
    found = ctypes.util.find_library("nvrtc")
    if found:
        yield found


def _newest(paths: Iterator[Path]) -> list[Path]:
    kept = (path for path in paths if not path.name.endswith(".alt.so"))
    return sorted(kept, key=lambda path: [int(n) for n in re.findall(r"\d+", path.name)], reverse=True)
