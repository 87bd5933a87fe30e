"""The same examples of every property in every normal run: what fails there fails for a change. Slow runs look for new ones."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Before the tests are read: their settings begin with the profile's."""
    if find_spec("hypothesis") is None:  # TileLang's tests have an environment of their own, and no properties
        return
    from hypothesis import settings

    settings.register_profile("the same examples", derandomize=True)
    if "not slow" in config.option.markexpr:
        settings.load_profile("the same examples")
