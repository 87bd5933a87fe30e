"""The exceptions that a launch or compilation ends with; Triton's autotuner takes them as "this configuration is invalid"."""

from __future__ import annotations

from triton.compiler.errors import CompileTimeAssertionFailure


class ValidationFailure(CompileTimeAssertionFailure):  # type: ignore[misc]
    """A configuration that must not be used; the message is the whole diagnostic.

    A subclass of what ``Autotuner._bench`` catches (3.7 to 3.9: OutOfResources, CompileTimeAssertionFailure, PTXASError),
    and a compilation error for everybody else.
    """

    def __init__(self, diagnostic: str) -> None:
        super().__init__(None, None, diagnostic)

    def _format_message(self) -> str:
        return str(self.error_message)

    def __reduce__(self) -> tuple[type[ValidationFailure], tuple[str]]:
        return type(self), (str(self.error_message),)


class KernelRefuted(ValidationFailure):
    """The emitted code is wrong: another value, a race, a deadlock or a memory fault."""


class KernelNotProved(ValidationFailure):
    """Under ``VOLTA_VALIDATE=strict``: no proof was reached."""
