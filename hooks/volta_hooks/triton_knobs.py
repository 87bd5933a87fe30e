"""Triton's global hooks as chains: ours runs, and so does whatever the user assigns, before or after us.

``knobs.runtime.add_stages_inspection_hook`` and ``knobs.compilation.listener`` hold one callable each. A data descriptor on
the class keeps the user's in the instance's dictionary, where Triton's own ``scope`` and ``copy`` expect it, and hands out
a callable that runs both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

#: enters both of Triton's cache keys, so that entries written under validation always hold PTX and TTIR
PIPELINE_KEY = "volta-pass-1"


class ChainedKnob:
    """A data descriptor: reading gives ``chain(user's value)``, assigning sets the user's value."""

    def __init__(self, name: str, chain: Callable[[Any], Callable[..., Any]]) -> None:
        self._name = name
        self._chain = chain
        self._made: tuple[Any, Callable[..., Any]] | None = None

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        user = instance.__dict__.get(self._name)
        if self._made is None or self._made[0] is not user:
            made = self._chain(user)
            made.volta_user = user  # type: ignore[attr-defined]
            self._made = (user, made)
        return self._made[1]

    def __set__(self, instance: Any, value: Any) -> None:
        """Assigning a chain that was read here earlier (to restore it) restores the user's value of then."""
        instance.__dict__[self._name] = getattr(value, "volta_user", value)

    def __delete__(self, instance: Any) -> None:
        instance.__dict__.pop(self._name, None)


def chain_stages(user: Callable[..., Any] | None) -> Callable[..., Any]:
    """The pipeline hook: our key joined with the user's; the user's changes to the stages are what gets compiled."""

    def hook(backend: Any = None, stages: Any = None, options: Any = None, language: Any = None, capability: Any = None) -> Any:
        if stages is None:
            theirs = user() if user is not None else None
            key = PIPELINE_KEY if theirs is None else f"{PIPELINE_KEY}+{theirs[0]}"
            return key, hashlib.sha256(f"{key}+{theirs[1] if theirs is not None else ''}".encode()).hexdigest()
        return user(backend, stages, options, language, capability) if user is not None else None

    return hook


def chain_listener(ours: Callable[..., None]) -> Callable[[Any], Callable[..., None]]:
    """A compilation listener that runs the user's first."""

    def chain(user: Callable[..., None] | None) -> Callable[..., None]:
        def listener(**facts: Any) -> None:
            if user is not None:
                user(**facts)
            ours(**facts)

        return listener

    return chain


def chain_knob(knobs: Any, name: str, chain: Callable[[Any], Callable[..., Any]]) -> None:
    """Turn one of Triton's single-callable knobs into a chain, keeping what the user has set. Idempotent."""
    owner = type(knobs)
    present = owner.__dict__.get(name)
    if isinstance(present, ChainedKnob):
        return
    if callable(present) and name not in knobs.__dict__:
        knobs.__dict__[name] = present
    setattr(owner, name, ChainedKnob(name, chain))
