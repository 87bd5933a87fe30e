"""Where our code meets Triton's runtime: guards on compiled kernels, chained knobs, compilations without a launch.

Imported by ``volta_hooks.triton`` after it has seen that Triton's version is a known one. Kernels compiled without a launch
are validated for the launches that ``volta_pass.launch_for`` or a spec announced. Nothing is decided here.
"""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import triton
from triton import knobs
from triton.compiler import CompiledKernel
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITFunction

from ptx_engine.errors import LaunchError
from volta_hooks.policy import Mode, mode_from_environment, target_from_environment
from volta_hooks.session import Session
from volta_hooks.triton_guard import CompiledCode, Guard, adapted, guarded, leaves_with_shapes, never_breaking
from volta_hooks.triton_knobs import chain_knob, chain_listener, chain_stages
from volta_hooks.triton_tuning import measuring, taken, tuning
from volta_pass.spec_launches import spec_launches
from volta_pass.specs_api import announced_launches, kernel_name

#: whether this thread is inside ``JITFunction.run``, whose kernels are validated by their guards
_in_run: ContextVar[bool] = ContextVar("volta_in_run", default=False)

_session: Session | None = None
_compile_s: dict[str, float] = {}


def session() -> Session:
    """The process's session. Raises LaunchError before ``install``."""
    if _session is None:
        raise LaunchError("the Triton hook is not installed", hint="set VOLTA_VALIDATE=1, or call volta_hooks.triton.install()")
    return _session


def install(mode: Mode | None = None) -> Session:
    """Install the hook once per process. Raises LaunchError for a malformed ``VOLTA_TARGET``."""
    global _session
    if _session is not None:
        return _session
    target = target_from_environment()
    _session = Session(mode or mode_from_environment() or Mode.ON)
    _session.follow_exit()
    knobs.compilation.store_binary_only = False  # a cache entry without PTX and TTIR could not be validated
    chain_knob(knobs.runtime, "add_stages_inspection_hook", chain_stages)
    chain_knob(knobs.compilation, "listener", chain_listener(_compiled))
    _guard_kernels()
    _follow_runs(adapt_arrays=target is not None)
    if target is not None:
        from volta_hooks.triton_driver import activate

        activate(target)
    return _session


# ---------------------------------------------------------------------- launches


def _guard_kernels() -> None:
    """``CompiledKernel.run`` gives Triton's launcher behind the kernel's guard."""
    launcher = CompiledKernel.run.fget

    def run(self: CompiledKernel) -> Any:
        launch = launcher(self)
        known = self.__dict__.get("_volta_run")
        if known is None or known[0] is not launch:
            known = self.__dict__["_volta_run"] = (launch, guarded(_guard_of(self), launch))
        return known[1]

    CompiledKernel.run = property(run)


def _guard_of(kernel: Any) -> Guard:
    known: Guard | None = kernel.__dict__.get("_volta_guard")
    if known is None:
        known = kernel.__dict__["_volta_guard"] = Guard(session(), _code_of(kernel))
    return known


def _code_of(kernel: Any) -> CompiledCode:
    texts = {"ptx": str(kernel.asm.get("ptx", "")), "ttir": str(kernel.asm.get("ttir", ""))}
    return _code(kernel.src, kernel.metadata, texts, kernel.hash)


def _code(src: Any, metadata: Any, texts: dict[str, str], hashed: str) -> CompiledCode:
    names = tuple(str(name) for name in src.signature)
    constants = {names[path[0]]: value for path, value in getattr(src, "constants", {}).items() if len(path) == 1}
    fn = getattr(src, "fn", None)
    name = kernel_name(fn) if fn is not None else str(metadata.name)
    return CompiledCode(
        name, fn, texts["ptx"], texts["ttir"], names, tuple(src.signature.values()), constants, metadata, _compile_s.get(hashed, 0.0),
        getattr(src, "attrs", None),
    )  # fmt: skip


def _follow_runs(adapt_arrays: bool) -> None:
    """Know when a launch or a tuning is going on; without a GPU, take NumPy arrays for tensors."""
    jit_run, tune, bench, heuristics_run = JITFunction.run, Autotuner.run, Autotuner._bench, Heuristics.run

    def run(self: JITFunction, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if adapt_arrays:
            args, kwargs = adapted(args, kwargs)
        token = _in_run.set(True)
        try:
            kernel = jit_run(self, *args, grid=grid, warmup=warmup, **kwargs)
        except RuntimeError as error:
            if "active drivers" in str(error):
                error.add_note("volta-pass: without a GPU, set VOLTA_TARGET=cuda:80 to validate launches instead of executing them")
            raise
        finally:
            _in_run.reset(token)
        if warmup and isinstance(kernel, CompiledKernel):  # else compiled in the background: its guard sees the launch
            with never_breaking(session(), kernel_name(self)):
                _validate_warmup(self, kernel, grid, args, kwargs)
        return kernel

    def tuned(self: Autotuner, *args: Any, **kwargs: Any) -> Any:
        if adapt_arrays:
            args, kwargs = adapted(args, kwargs)
        with tuning(self, args, kwargs):
            return tune(self, *args, **kwargs)

    def measured(self: Autotuner, *args: Any, **kwargs: Any) -> Any:
        token = measuring.set(True)
        try:
            return bench(self, *args, **kwargs)
        finally:
            measuring.reset(token)

    def with_heuristics(self: Heuristics, *args: Any, **kwargs: Any) -> Any:
        if adapt_arrays:
            args, kwargs = adapted(args, kwargs)
        return heuristics_run(self, *args, **kwargs)

    JITFunction.run, Autotuner.run, Autotuner._bench, Heuristics.run = run, tuned, measured, with_heuristics


# ---------------------------------------------------------------------- compilations without a launch


def _compiled(*, src: Any, metadata: dict[str, Any], metadata_group: dict[str, str], times: Any, cache_hit: bool) -> None:
    """Triton's compilation listener: note the time; validate now what is compiled outside of a launch."""
    hashed = str(metadata.get("hash", ""))
    _compile_s[hashed] = 0.0 if cache_hit else times.total / 1e6
    if _in_run.get():
        return
    with never_breaking(session(), str(metadata.get("name", "kernel"))):
        _validate_compiled(src, metadata, metadata_group, hashed)


def _validate_compiled(src: Any, metadata: dict[str, Any], metadata_group: dict[str, str], hashed: str) -> None:
    texts = {kind: _text(metadata_group, kind) for kind in ("ptx", "ttir")}
    facts = SimpleNamespace(**metadata)
    facts.warp_size = getattr(facts, "warp_size", 32)
    code = _code(src, facts, texts, hashed)
    _validate_announced(Guard(session(), code))


def _text(group: dict[str, str], kind: str) -> str:
    paths = [path for name, path in group.items() if name.endswith("." + kind)]
    return Path(paths[0]).read_text() if paths else ""


def _validate_announced(guard: Guard) -> None:
    code = guard.code
    launches = announced_launches(code.name) or spec_launches(code.name)
    if not launches:
        guard.session.say_once(
            f"{code.name}: compiled without a launch, so that none is known: not validated until it is launched"
            f" (volta_pass.launch_for({code.name!r}, grid=..., args=...), or a spec in configs/, describes one)"
        )
    for launch in launches:
        values = {**launch.args, **code.constants}
        missing = [name for name in code.names if name not in values]
        if missing:
            raise LaunchError(f"launch_for({code.name!r}): no value for {', '.join(missing)}", hint="args maps every parameter to a value")
        grid = launch.grid(values) if callable(launch.grid) else launch.grid
        guard.check(_three(grid), tuple(adapted(tuple(values[name] for name in code.names), {})[0]))


def _three(grid: Any) -> tuple[int, int, int]:
    """A grid of one to three extents. Raises LaunchError on others."""
    extents = tuple(int(extent) for extent in (grid if isinstance(grid, (tuple, list)) else (grid,)))
    if not 1 <= len(extents) <= 3:
        raise LaunchError(f"a grid has one to three extents, not {len(extents)}")
    extents += (1,) * (3 - len(extents))
    return extents[0], extents[1], extents[2]


def _validate_warmup(fn: JITFunction, kernel: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """A warm-up compiles for a launch to come: validate that launch if the arguments describe it, else an announced one."""
    guard = _guard_of(kernel)
    binder = fn.device_caches[triton.runtime.driver.active.get_current_device()][-1]
    bound = binder(*args, **{**kwargs, "debug": False, "instrumentation_mode": ""})[0]
    values = tuple(bound.values())
    if grid is None or not leaves_with_shapes(guard.code.names, values, guard.code.types):
        _validate_announced(guard)
        return
    extents = _three(grid(bound) if callable(grid) else grid)
    if not taken(guard, extents, values):
        guard.check(extents, values)
