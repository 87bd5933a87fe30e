"""What the environment asks for: ``VOLTA_VALIDATE`` (mode), ``VOLTA_TARGET`` (validate without a GPU), and what follows from a verdict."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from enum import Enum

from ptx_engine.errors import LaunchError
from ptx_engine.verdict import Status
from volta_pass.environment import environment_errors


class Mode(Enum):
    """ON: refuted is an error, not proved a warning. WARN: everything is a warning. STRICT: not proved is an error too."""

    ON = "1"
    WARN = "warn"
    STRICT = "strict"


class SettingError(LaunchError):
    """A ``VOLTA_*`` variable with a value that means nothing: whoever set it wants kernels validated, so that the program stops."""


class Action(Enum):
    PASS = "pass"
    WARN = "warn"
    RAISE = "raise"


_OFF = ("", "0", "off", "false", "no")
_ON = ("1", "on", "true", "yes")


def mode_from_environment(environ: Mapping[str, str] | None = None) -> Mode | None:
    """The mode, or None where validation is off; an unknown word counts as on, with a warning."""
    word = (os.environ if environ is None else environ).get("VOLTA_VALIDATE", "").lower()
    if word in _OFF:
        return None
    if word in _ON:
        return Mode.ON
    if word in (Mode.WARN.value, Mode.STRICT.value):
        return Mode(word)
    tell(f"volta-pass: VOLTA_VALIDATE={word!r} is read as 1 (known: 1, warn, strict, 0)")
    return Mode.ON


def tell(text: str, end: str = "\n") -> None:
    """Write to standard error, where there is one: that it is closed, full, or nobody's any more changes no verdict and ends no program."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):  # (ValueError: a closed file of Python's)
            print(text, file=sys.stderr, end=end)


def check_settings(environ: Mapping[str, str] | None = None) -> None:
    """Raises SettingError, all of them in one, if a ``VOLTA_*`` variable other than ``VOLTA_VALIDATE`` has no meaning, and where the
    shared store that ``VOLTA_STORE`` names can be none (its file system's package is missing, say)."""
    settings = os.environ if environ is None else environ
    found = environment_errors(settings)
    found = [text for text in found if not text.startswith("VOLTA_VALIDATE=")]
    if found:
        raise SettingError("; ".join(found), hint="unset the variable or give it such a value")
    if settings.get("VOLTA_STORE"):
        from volta_pass.store.places import Remote

        try:
            Remote(settings["VOLTA_STORE"])
        except LaunchError as error:
            raise SettingError(error.message, hint=error.hint) from None


def target_from_environment(environ: Mapping[str, str] | None = None) -> tuple[str, int] | None:
    """``VOLTA_TARGET=cuda:80`` as ("cuda", 80), or None. Raises LaunchError on anything else."""
    text = (os.environ if environ is None else environ).get("VOLTA_TARGET", "")
    if not text:
        return None
    backend, _, arch = text.partition(":")
    arch = arch.removeprefix("sm_").removeprefix("sm").rstrip("af")
    if backend != "cuda" or not arch.isdigit():
        raise LaunchError(f"VOLTA_TARGET={text!r}", hint="cuda:80 for sm_80, cuda:89, cuda:75")
    return backend, int(arch)


def action(mode: Mode, status: Status) -> Action:
    """What a verdict does to the build (design section 9)."""
    if status is Status.PROVED:
        return Action.PASS
    if mode is Mode.WARN or (mode is Mode.ON and status is not Status.REFUTED):
        return Action.WARN
    return Action.RAISE
