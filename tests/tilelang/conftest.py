"""TileLang under the hook, in this process: compiled for a GPU that is not there, every report kept.

These tests have an environment and a command of their own (README, "TileLang"); without TileLang they fail.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "configs" / "suite" / "tilelang"), str(Path(__file__).parent), str(ROOT / "tests" / "kernels")]


def toolkit() -> str:
    """The folder of the CUDA toolkit, where the environment names none: nvcc on the path may be a wrapper elsewhere."""
    found = [path.parent.parent for path in Path("/usr/local").glob("cuda*/bin/nvcc")]
    return str(max(found, default=""))


if "CUDA_HOME" not in os.environ and toolkit():
    os.environ["CUDA_HOME"] = toolkit()
os.environ["TILELANG_PRINT_ON_COMPILATION"] = "0"
os.environ["VOLTA_TARGET"] = "cuda:80"

import tilelang  # noqa: E402
from tilelang.engine import register_cuda_postproc  # noqa: E402

import volta_hooks.tilelang  # noqa: E402
from volta_hooks.policy import Mode  # noqa: E402
from volta_hooks.session import Session  # noqa: E402
from volta_hooks.tilelang_errors import ValidationFailure  # noqa: E402
from volta_pass.kernel_report import KernelReport  # noqa: E402

_edit: list[Callable[[str], str]] = []
_seen: list[str] = []


@pytest.fixture(scope="session", autouse=True)
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """The hook, installed once, with caches of its own."""
    os.environ["VOLTA_CACHE_DIR"] = str(tmp_path_factory.mktemp("verdicts"))
    os.environ["TILELANG_CACHE_DIR"] = str(tmp_path_factory.mktemp("kernels"))
    found = volta_hooks.tilelang.install(Mode.ON)

    def edited(code: str, target: object) -> str:
        for change in _edit:
            code = change(code)
        _seen.append(code)
        return code

    register_cuda_postproc(edited)
    return found


@contextmanager
def _changed(change: Callable[[str], str] | None) -> Iterator[None]:
    if change is not None:
        _edit.append(change)
    try:
        yield
    finally:
        _edit.clear()


@pytest.fixture
def changed() -> Callable[[Callable[[str], str]], AbstractContextManager[None]]:
    """``with changed(change):`` TileLang's CUDA text is edited before it is compiled."""
    return _changed


@pytest.fixture
def compiled(session: Session) -> Callable[..., list[KernelReport]]:
    """``compiled(func, arch=80, change=None)``: the reports of a compilation; ``change`` edits the CUDA text."""

    def run(func: object, arch: int = 80, change: Callable[[str], str] | None = None, **options: object) -> list[KernelReport]:
        before = len(session.reports)
        with _changed(change):
            try:
                # a changed text is another kernel, which TileLang's cache in memory does not see
                tilelang.cache._dispatch_map["tvm_ffi"]._memory_cache.clear()
                tilelang.compile(func, target={"kind": "cuda", "arch": f"sm_{arch}"}, **options)
            except ValidationFailure:
                assert session.reports[before:]
        return session.reports[before:]

    return run


@pytest.fixture
def cuda_text(compiled: Callable[..., list[KernelReport]]) -> Callable[..., str]:
    """``cuda_text(func, arch=80)``: the CUDA text that TileLang generates for a function."""

    def run(func: object, arch: int = 80) -> str:
        compiled(func, arch)
        return _seen[-1]

    return run
