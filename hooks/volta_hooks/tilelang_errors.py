"""The exceptions that a TileLang compilation or launch ends with; the autotuner takes any as "this configuration is invalid"."""

from __future__ import annotations


class ValidationFailure(RuntimeError):
    """A kernel that must not be used; the message is the whole diagnostic."""


class KernelRefuted(ValidationFailure):
    """The emitted code is wrong: another value, a race, a deadlock or a memory fault."""


class KernelNotProved(ValidationFailure):
    """Under ``VOLTA_VALIDATE=strict``: no proof was reached."""
