"""TTIR in generic form, which any upstream MLIR binding reads, printed by the libtriton that compiled it (Triton >= 3.7).

MLIR's printer option lives inside libtriton and is global to the process: it is switched on, one module is printed, and it
is switched off again, under a lock. Switching resets LLVM's other command-line options to their defaults, so that a
compilation running in another thread at that moment must not depend on such options.
"""

from __future__ import annotations

import ctypes
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from ptx_engine.errors import ParseError, UnsupportedError

_REGISTER = "_ZN4mlir27registerAsmPrinterCLOptionsEv"
_RESET = "_ZN4llvm2cl25ResetAllOptionOccurrencesEv"
_PARSE = "LLVMParseCommandLineOptions"
_lock = threading.Lock()


class _Switch:
    """The printer option of one loaded libtriton."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._reset, self._parse = getattr(library, _RESET), getattr(library, _PARSE)
        self._reset.restype, self._reset.argtypes = None, []
        self._parse.restype = None
        self._parse.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), ctypes.c_char_p]
        register = getattr(library, _REGISTER)
        register.restype, register.argtypes = None, []
        register()

    def set(self, on: bool) -> None:
        """Print operations in generic form from now on, or no longer."""
        self._reset()
        if on:
            self._parse(2, (ctypes.c_char_p * 2)(b"volta-pass", b"-mlir-print-op-generic=true"), b"")


@lru_cache(maxsize=1)
def _switch() -> _Switch:
    try:
        from triton._C import libtriton
    except ImportError as error:
        raise UnsupportedError("Triton is not installed", feature="triton", hint="pip install 'volta-pass[triton]'") from error
    try:
        return _Switch(ctypes.CDLL(libtriton.__file__))
    except AttributeError:
        import triton

        raise UnsupportedError(
            f"Triton {triton.__version__} cannot print TTIR in generic form", feature="triton version", hint="use Triton 3.7 or newer"
        ) from None


def available() -> bool:
    """Whether the installed Triton can print generic form."""
    try:
        _switch()
    except UnsupportedError:
        return False
    return True


@contextmanager
def _generic_printing() -> Iterator[None]:
    switch = _switch()
    with _lock:
        switch.set(True)
        try:
            yield
        finally:
            switch.set(False)


def generic_of_module(module: Any) -> str:
    """Generic text, with locations, of an in-memory Triton module (what a compile stage returns)."""
    with _generic_printing():
        return str(module.str())


def generic_of_text(custom_text: str) -> str:
    """Generic text of TTIR in custom form (``kernel.asm["ttir"]``). Raises ParseError if Triton does not parse it."""
    _switch()
    from triton._C.libtriton import ir

    with tempfile.NamedTemporaryFile("w", suffix=".ttir", encoding="utf-8") as file:
        file.write(custom_text)
        file.flush()
        context = _contexts.take()
        try:
            module = ir.parse_mlir_module(file.name, context)
        except RuntimeError as error:
            raise ParseError(f"Triton does not parse this TTIR: {error}") from None
    module.context = context
    text = generic_of_module(module)
    _contexts.put(context)
    return text


class _Contexts:
    """Triton contexts with their dialects, which take longer to make than a kernel to parse. One is used by one thread at a time, and
    for so many modules only, since what it has seen it keeps."""

    def __init__(self) -> None:
        self._free: list[Any] = []
        self._left = 0

    def take(self) -> Any:
        """A context that nobody else uses."""
        with _lock:
            if self._free and self._left > 0:
                self._left -= 1
                return self._free.pop()
            self._free.clear()
            self._left = _MODULES_PER_CONTEXT
        from triton._C.libtriton import ir, nvidia

        context = ir.context()
        ir.load_dialects(context)
        nvidia.load_dialects(context)
        return context

    def put(self, context: Any) -> None:
        """Give a context back; after an error it is given up instead."""
        with _lock:
            self._free[:] = [context]


_MODULES_PER_CONTEXT = 64
_contexts = _Contexts()


def is_generic(text: str) -> bool:
    """Whether MLIR text is in generic form already."""
    return '"tt.func"(' in text or '"builtin.module"(' in text
