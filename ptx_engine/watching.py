"""How far a long computation is, told to whoever watches in this context; costs a look at a variable where nobody does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """A stage; while a kernel executes, CTAs that have ended and all of them, thread-instructions, and seconds left of the budget."""

    stage: str
    ctas: int = 0
    total: int = 0
    instructions: int = 0
    budget_s: float | None = None


Watcher = Callable[[Step], None]
_watcher: ContextVar[Watcher | None] = ContextVar("_watcher", default=None)


def watcher() -> Watcher | None:
    """Who watches, if anybody does."""
    return _watcher.get()


def tell(step: Step) -> None:
    """Tell whoever watches."""
    found = _watcher.get()
    if found is not None:
        found(step)


@contextmanager
def watched(by: Watcher) -> Iterator[None]:
    """``by`` is told what happens inside."""
    token = _watcher.set(by)
    try:
        yield
    finally:
        _watcher.reset(token)
