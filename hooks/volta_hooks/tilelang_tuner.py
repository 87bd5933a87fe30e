"""Follows TileLang's autotuner: which configuration a compilation on this thread belongs to, and what all are compared with.

Without a reference function, the first configuration's tile program is the reference, whichever is compiled first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from tilelang.autotuner import AutoTuner
from tilelang.jit import JITImpl
from tvm import tirx

from ptx_engine.errors import PtxError
from ptx_engine.launch import Launch
from volta_hooks.session import Session
from volta_hooks.tilelang_guard import Tuned, label_of
from volta_hooks.tilelang_launch import KernelCall, make_launch, symbolic_sizes
from volta_hooks.tilelang_source import tile_programs
from volta_pass.job import TtirReference
from volta_pass.reference_decorator import reference_of
from volta_pass.references.tile import grid_of
from volta_pass.references.tile_program import load_program

_tuned: ContextVar[Tuned | None] = ContextVar("volta_tilelang_tuned", default=None)
_numbers = itertools.count(1)


def current_tuned() -> Tuned | None:
    """The configuration being compiled on this thread, or the reference that a plain kernel was given, or None."""
    return _tuned.get()


def follow_tuners(session: Session) -> None:
    """Know from now on which configuration each compilation of an autotuner is."""
    ensured, run, compile_jit = AutoTuner._ensure_jit_functions, AutoTuner.run, JITImpl.compile

    def jit_functions(self: AutoTuner) -> tuple[Callable[..., Any], Callable[..., Any]]:
        compile_function, elaborate = ensured(self)
        key = f"{getattr(self.fn, '__name__', 'kernel')} tuning {next(_numbers)}"
        _open(session, self, key, elaborate)
        return _followed(self, key, compile_function), _followed(self, key, elaborate)

    def tuning(self: AutoTuner, *args: Any, **kwargs: Any) -> Any:
        token = _tuned.set(None)
        try:
            return run(self, *args, **kwargs)
        finally:
            _tuned.reset(token)

    def compiled(self: JITImpl, *args: Any, **kwargs: Any) -> Any:
        reference = _reference(self)
        if _tuned.get() is not None or reference is None:
            return compile_jit(self, *args, **kwargs)
        token = _tuned.set(Tuned("", {}, reference))
        try:
            return compile_jit(self, *args, **kwargs)
        finally:
            _tuned.reset(token)

    AutoTuner._ensure_jit_functions, AutoTuner.run, JITImpl.compile = jit_functions, tuning, compiled


def _followed(tuner: AutoTuner, key: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The configuration stays this thread's after the call: a grouped compilation elaborates first and lowers afterwards."""

    def call(**configuration: Any) -> Any:
        _tuned.set(Tuned(key, _shown(configuration), _reference(tuner)))
        return function(**configuration)

    return call


def _shown(configuration: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in configuration.items() if isinstance(value, (int, str, float, bool))}


def _reference(owner: Any) -> Callable[..., Any] | None:
    """The function that ``@volta_pass.reference`` attached to a jitted function or an autotuner."""
    for name in ("", "fn", "func", "jit_impl"):
        found = reference_of(getattr(owner, name, None) if name else owner)
        if found is not None:
            return found
    return None


def _open(session: Session, tuner: AutoTuner, key: str, elaborate: Callable[..., Any]) -> None:
    """Make the first configuration's programs the references of a tuning; where that fails, the first one compiled is."""
    if _reference(tuner) is not None or not isinstance(tuner.configs, (list, tuple)) or not tuner.configs:
        return
    first = {name: value for name, value in tuner.configs[0].items() if name != "pass_configs"}
    try:
        func = elaborate(**first)
        if symbolic_sizes(func):
            return
        for i, source in enumerate(tile_programs(func)):
            session.open_tuning(f"{key}#{i}", TtirReference(source, _launch(func, source), label_of(_shown(first)), "tile"))
    except PtxError as error:
        session.say_once(f"{key}: the first configuration cannot be a reference\n{error.render()}")


def _launch(func: tirx.PrimFunc, source: str) -> Launch:
    """A launch of a tile program without its threads: its own grid, the function's arguments."""
    names = tuple(str(func.buffer_map[p].name if p in func.buffer_map else p.name) for p in func.params)
    extents = dict(zip(("blockIdx.x", "blockIdx.y", "blockIdx.z"), grid_of(load_program(source))))
    return make_launch(func, KernelCall(str(func.attrs["global_symbol"]), names, extents, {}, {}), source, {})
