"""CUDA's own headers (fp16, mma, cooperative groups, CCCL): those that NVRTC carries, else those of pip packages or a toolkit."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from volta_pass.cuda.library import nvidia_folders, nvrtc_library, toolkit
from volta_pass.store import default_root

#: a header that every complete set has
_PROBE = "cuda_fp16.h"


def include_folders(bundled: bool = True) -> list[str]:
    """Folders for -I, the first complete set: NVRTC's bundled headers (unpacked once into the cache), pip packages, toolkit."""
    if bundled:
        own = _bundled()
        if own is not None:
            return _with_cccl(own)
    for root in [*nvidia_folders(), *([home] if (home := toolkit()) is not None else [])]:
        if (root / "include" / _PROBE).is_file():
            return _with_cccl(root / "include")
    return []


def _with_cccl(folder: Path) -> list[str]:
    return [str(folder)] + ([str(folder / "cccl")] if (folder / "cccl").is_dir() else [])


@cache
def _bundled() -> Path | None:
    """The unpacked headers of this NVRTC; None where it carries none (before 13.3) or no cache folder can be written."""
    library = nvrtc_library()
    if not hasattr(library, "nvrtcInstallBundledHeaders"):
        return None
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    folder = default_root() / f"cuda-headers-{major.value}.{minor.value}"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    status = library.nvrtcInstallBundledHeaders(str(folder).encode(), 0, None)  # waits for other processes, skips what is there
    return folder if status == 0 and (folder / _PROBE).is_file() else None
