"""CUDA's headers are unpacked into a cache folder of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setenv("VOLTA_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()
