"""What is installed, what will be validated and why not: facts with a state and a remedy, gathered without importing compilers."""

from __future__ import annotations

import ctypes.util
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import site
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from volta_pass.environment import VARIABLES, environment_errors, environment_warnings

#: Triton releases whose pipeline hook we know: first included, last excluded
TRITON_RANGE = ((3, 7), (3, 10))
#: the first TileLang with instrumentation
OLDEST_TILELANG = (0, 1, 14)
#: where ``mlir.ir`` may come from, in the order of search: import name, distribution
MLIR_BINDINGS = (("mlir", "mlir"), ("iree.compiler", "iree-base-compiler"), ("jaxlib.mlir", "jaxlib"))
_PTH = "volta_pass_autoload.pth"


@dataclass(frozen=True)
class Fact:
    """``state`` is "ok", "note" or "problem"."""

    subject: str
    state: str
    text: str
    remedy: str = ""


def own_version() -> str:
    """The installed version, or "source tree"."""
    return _version("volta-pass") or "source tree"


def version_line() -> str:
    """Versions that a bug report needs, on one line."""
    parts = [f"volta-pass {own_version()}", f"Python {platform.python_version()}"]
    parts += [f"{name} {found}" for name in ("numpy", "gmpy2", "triton", "iree-base-compiler") if (found := _version(name))]
    return ", ".join(parts) + f", {sys.platform}"


def examine(environ: Mapping[str, str] = os.environ) -> list[Fact]:
    """All facts, in reading order."""
    facts = [Fact("volta-pass", "ok", own_version()), Fact("python", "ok", f"{platform.python_version()} ({sys.executable})")]
    facts += [_library(name) for name in ("numpy", "gmpy2", "rich")]
    triton, mlir, autoload = _triton(), _mlir(), _autoload()
    facts += [triton, mlir, _tilelang(environ), autoload, _gpu()]
    facts += _variables(environ)
    return [*facts, _outcome(environ, [triton, mlir, autoload])]


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _library(name: str) -> Fact:
    found = _version(name)
    return Fact(name, "ok", found) if found else Fact(name, "problem", "not installed", f"pip install {name}")


def _triton() -> Fact:
    found = _version("triton")
    if not found:
        return Fact("triton", "note", "not installed: only PTX can be checked", "pip install 'volta-pass[triton]'")
    low, high = TRITON_RANGE
    release = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
    if low <= release < high:
        return Fact("triton", "ok", found)
    wanted = f"{low[0]}.{low[1]} to {high[0]}.{high[1] - 1}"
    return Fact("triton", "problem", f"{found}: its pipeline hook is not known to us", f"install Triton {wanted}")


def _tilelang(environ: Mapping[str, str]) -> Fact:
    found = _version("tilelang")
    if not found:
        return Fact("tilelang", "note", "not installed", "pip install 'volta-pass[tilelang]'")
    release = tuple(int(part) for part in found.split("+")[0].split(".")[:3] if part.isdigit())
    if release < OLDEST_TILELANG:
        return Fact("tilelang", "problem", f"{found}: it has no instrumentation", "pip install 'tilelang>=0.1.14'")
    if not (environ.get("CUDA_HOME") or shutil.which("nvcc") or _version("nvidia-cuda-nvcc")):
        return Fact(
            "tilelang", "problem", f"{found}, without nvcc, which it runs", "install the CUDA toolkit, or pip install nvidia-cuda-nvcc"
        )
    return Fact("tilelang", "ok", found)


def _mlir() -> Fact:
    for module, distribution in MLIR_BINDINGS:
        if _has_module(module + ".ir"):
            return Fact("mlir binding", "ok", f"{module}.ir ({distribution} {_version(distribution) or 'of unknown version'})")
    return Fact("mlir binding", "note", "none: TTIR cannot be read as a reference", "pip install iree-base-compiler")


def _has_module(name: str) -> bool:
    """True if a module could be imported; only its parent packages are."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def _autoload() -> Fact:
    folders = [*site.getsitepackages(), site.getusersitepackages()]
    for folder in folders:
        if (Path(folder) / _PTH).is_file():
            return Fact("autoload", "ok", f"{Path(folder) / _PTH}: VOLTA_VALIDATE is looked at when Python starts")
    return Fact(
        "autoload", "note", f"{_PTH} is not in this environment: VOLTA_VALIDATE alone does nothing",
        "pip install volta-pass, or start programs with volta-pass run",
    )  # fmt: skip


def _gpu() -> Fact:
    driver = ctypes.util.find_library("cuda")
    tool = shutil.which("nvidia-smi")
    if driver:
        return Fact("gpu", "ok", f"CUDA driver {driver} found; validation itself never uses it")
    said = "no CUDA driver" + (" (but nvidia-smi is there)" if tool else "")
    return Fact("gpu", "note", f"{said}: set VOLTA_TARGET=cuda:80 to run programs without launching", "")


def _variables(environ: Mapping[str, str]) -> list[Fact]:
    facts = [Fact(v.name, "ok", f"{environ[v.name]}: {v.meaning}") for v in VARIABLES if environ.get(v.name)]
    facts += [Fact("environment", "problem", text, "unset it or correct the value") for text in environment_errors(environ)]
    return facts + [Fact("environment", "note", text) for text in environment_warnings(environ)]


def _outcome(environ: Mapping[str, str], needed: list[Fact]) -> Fact:
    """What a Triton program started now would see."""
    missing = [fact for fact in needed if fact.state != "ok"]
    if environ.get("VOLTA_VALIDATE", "").lower() in ("", "0", "off", "false", "no"):
        if missing:
            return Fact("validation", "note", "off, and would not work yet: " + "; ".join(f"{f.subject} {f.text}" for f in missing))
        return Fact("validation", "note", "off: set VOLTA_VALIDATE=1, or use volta-pass run program.py")
    if missing:
        why = "; ".join(f"{fact.subject}: {fact.text}" for fact in missing)
        return Fact("validation", "problem", f"asked for, but Triton kernels will not be validated: {why}", missing[0].remedy)
    return Fact("validation", "ok", f"every Triton kernel that is launched will be validated (VOLTA_VALIDATE={environ['VOLTA_VALIDATE']})")
