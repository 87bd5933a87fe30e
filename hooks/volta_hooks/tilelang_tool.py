"""TileLang's instrumentation tool: sees every function before its first pass, its lowered module, and its code generation.

Where TileLang makes the machine code itself, the PTX is made first, validated, and assembled: what runs is what was
validated. For back ends that compile later, PTX is compiled from the same text on the side.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import tvm
import tvm_ffi
from tilelang.instrumentation import CodegenEvent, PassInstrumentationTool, current_compile_pass_instrumentation
from tvm import tirx
from tvm.ir.instrument import pass_instrument

from ptx_engine.errors import UnsupportedError
from volta_hooks.session import Session
from volta_hooks.tilelang_errors import ValidationFailure
from volta_hooks.tilelang_guard import CompiledFunction, Tuned, check_ahead, never_breaking
from volta_hooks.tilelang_launch import is_device
from volta_hooks.tilelang_library import library_of
from volta_hooks.tilelang_ptx import cuda_to_ptx, ptx_to_cubin

COMPILE = "tilelang_callback_cuda_compile"
_CODEGEN, _LATER = "target.build.tilelang_cuda", "_without_compile"
#: the name of the session in which an autotuner compiles several configurations into one module
_GROUPED = "grouped-tvm-ffi"

_active = threading.local()


def compiled_here(name: str) -> CompiledFunction | None:
    """What this thread has compiled last under a function's name."""
    found: CompiledFunction | None = getattr(_active, "compiled", {}).get(name)
    return found


class Registry:
    """The session, how to know the configuration being compiled, and functions of grouped modules that must not be used."""

    def __init__(self, session: Session, tuned: Callable[[], Tuned | None]) -> None:
        self.session = session
        self.tuned = tuned
        self.refused: dict[str, ValidationFailure] = {}


class ValidationTool(PassInstrumentationTool):  # type: ignore[misc]
    """One compilation: functions before their first pass, and modules with host and device functions, by function name."""

    pass_instrument_priority = 1000  # after other tools

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.sources: dict[str, tuple[tirx.PrimFunc, Tuned | None]] = {}
        self.lowered: dict[str, Any] = {}
        #: what a callback from C++ raised: on its way through there an exception loses its class
        self.failure: ValidationFailure | None = None

    # --- what is seen -----------------------------------------------------------------------------

    def create_pass_instrument(self) -> object:
        tool = self

        @pass_instrument
        class Observer:
            """The first pass shows the functions as written; any later one may show host and device functions together."""

            def __init__(self) -> None:
                self.seen = False
                self.written: list[str] = []

            def run_before_pass(self, module: Any, info: Any) -> None:
                if not self.seen:
                    self.seen = True
                    self.written = tool.note_sources(module)

            def run_after_pass(self, module: Any, info: Any) -> None:
                tool.note_lowered(module, self.written)

        return Observer()

    def note_sources(self, module: Any) -> list[str]:
        """Functions as the user wrote them; their names."""
        found = []
        for name, func in module.functions.items():
            if isinstance(func, tirx.PrimFunc) and "calling_conv" not in (func.attrs or {}):
                found.append(str(name.name_hint))
                self.sources.setdefault(found[-1], (func, self.registry.tuned()))
        return found

    def note_lowered(self, module: Any, names: list[str]) -> None:
        """A module with kernels and the host functions that launch them: the last one seen has the final extents."""
        functions = [f for f in module.functions.values() if isinstance(f, tirx.PrimFunc)]
        kinds = {is_device(f) for f in functions}
        if kinds == {True, False} and names:
            self.lowered[names[0]] = module

    # --- code generation ----------------------------------------------------------------------------

    def run_codegen(self, event: CodegenEvent, next_call: Callable[[], Any]) -> Any:
        """Validate around the generation of CUDA text. Raises ValidationFailure."""
        if not event.name.startswith(_CODEGEN):
            if event.name.startswith("target.build.tilelang_cutedsl"):
                self._refuse(UnsupportedError("kernels of the CuTe DSL are not CUDA C", feature="cutedsl"))
            return next_call()
        previous, _active.tool = getattr(_active, "tool", None), self
        try:
            runtime = next_call()
        except Exception:
            if self.failure is not None:
                raise self.failure from None
            raise
        finally:
            _active.tool = previous
        if event.name.endswith(_LATER):
            config = tvm.transform.PassContext.current().config
            with never_breaking(self.registry.session, ", ".join(self.sources)):
                self.validate(str(runtime.inspect_source()), event.target, config)
        return runtime

    def _refuse(self, error: UnsupportedError) -> None:
        with never_breaking(self.registry.session, ", ".join(self.sources)):
            raise error

    def validate(self, cuda: str, target: Any, config: Any) -> str:
        """Compile CUDA text to PTX and validate every function that it holds; the PTX. Raises ValidationFailure."""
        started_s = time.perf_counter()
        ptx = cuda_to_ptx(cuda, target, config)
        took_s = time.perf_counter() - started_s
        grouped = getattr(current_compile_pass_instrumentation(), "name", "") == _GROUPED
        for name, (func, tuned) in list(self.sources.items()):
            if name not in self.lowered:
                continue
            compiled = CompiledFunction(
                func,
                self.lowered[name],
                ptx,
                str(target.attrs["arch"]),
                took_s,
                tuned,
                partial(library_of, target=target, config=config or {}),
                dict(config or {}),
            )
            _active.compiled = {**getattr(_active, "compiled", {}), name: compiled}
            try:
                check_ahead(self.registry.session, compiled)
            except ValidationFailure as failure:
                if not grouped:
                    self.failure = failure
                    raise
                self.registry.refused[name] = failure  # one of several in a module: the others live on
        return ptx


def enforce(registry: Registry) -> None:
    """From now on, what TileLang assembles is the PTX that was validated."""
    own = tvm_ffi.get_global_func(COMPILE)

    def compile_validated(code: Any, target: Any, config: Any = None) -> Any:
        tool = getattr(_active, "tool", None)
        if tool is None:
            return own(code, target, config)
        with never_breaking(registry.session, ", ".join(tool.sources)):
            ptx = tool.validate(str(code), target, config)
            return bytearray(ptx_to_cubin(ptx, target, config))
        return own(code, target, config)

    tvm_ffi.register_global_func(COMPILE, f=compile_validated, override=True)
