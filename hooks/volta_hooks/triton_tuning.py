"""What an autotuner is doing on this thread: which configurations it has, and the first one's compilation for a launch of another.

All configurations are compared with the first one's source at the same launch. While a tuner measures, the first configuration
meets a launch first; a tuner that knows its winner launches that one alone, and the first is compiled, not run, beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

#: the autotuner that is running on this thread, or None
current_tuner: ContextVar[Any] = ContextVar("volta_tuner", default=None)

#: whether that autotuner is measuring
measuring: ContextVar[bool] = ContextVar("volta_measuring", default=False)

#: what takes (guard, grid, arguments) of the first configuration's compilation, while there is one
_taker: ContextVar[Callable[[Any, tuple[int, int, int], tuple[Any, ...]], None] | None] = ContextVar("volta_taker", default=None)

_call: ContextVar["TunedCall | None"] = ContextVar("volta_tuned_call", default=None)


@dataclass(frozen=True)
class TunedCall:
    """A call of an autotuned kernel."""

    tuner: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@contextmanager
def tuning(tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[None]:
    """Inside, ``tuner`` is the current one."""
    outer_tuner, outer_call, outer_measuring = current_tuner.set(tuner), _call.set(TunedCall(tuner, args, kwargs)), measuring.set(False)
    try:
        yield
    finally:
        measuring.reset(outer_measuring)
        _call.reset(outer_call)
        current_tuner.reset(outer_tuner)


def compile_first(take: Callable[[Any, tuple[int, int, int], tuple[Any, ...]], None]) -> None:
    """Compile the first configuration for the current call and hand its guard and launch to ``take``.

    Does nothing while the tuner measures, or where the first configuration is the one that is launched. What the compiler
    raises leaves.
    """
    call = _call.get()
    if call is None or measuring.get() or len(call.tuner.configs) < 2:
        return
    first = call.tuner.prune_configs(call.kwargs)[0].all_kwargs()
    if first == call.tuner.best_config.all_kwargs():
        return
    token = _taker.set(take)
    try:
        call.tuner.fn.run(*call.args, **{**call.kwargs, **first, "warmup": True})
    finally:
        _taker.reset(token)


def taken(guard: Any, grid: tuple[int, int, int], args: tuple[Any, ...]) -> bool:
    """Whether a compilation without a launch was made for ``compile_first``; it is handed over then."""
    take = _taker.get()
    if take is not None:
        take(guard, grid, args)
    return take is not None


def tuned_names(tuner: Any) -> frozenset[str]:
    """Parameters that an autotuner's configurations, or heuristics below it, choose."""
    names: set[str] = set()
    while tuner is not None:
        for config in getattr(tuner, "configs", ()):
            names |= set(config.kwargs)
        values = getattr(tuner, "values", None)
        if isinstance(values, dict):
            names |= set(values)
        tuner = getattr(tuner, "fn", None)
    return frozenset(names)
