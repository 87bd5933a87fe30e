"""Upstream MLIR through whichever Python binding is installed: parse generic text, read locations, emit diagnostics.

Looked for in this order: ``mlir.ir``, ``iree.compiler.ir``, ``jaxlib.mlir.ir``, ``torch_mlir.ir``; imported only when
a module is parsed. One context serves the process (making one costs more than parsing a kernel); dialects that the
binding does not know are allowed, so the text must be in generic form.
"""

from __future__ import annotations

import importlib
import importlib.util
import linecache
import re
import sys
import threading
import types
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ptx_engine.errors import ParseError, Span, UnsupportedError, lines_of

BINDINGS = ("mlir.ir", "iree.compiler.ir", "jaxlib.mlir.ir", "torch_mlir.ir")

_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One place of a nested MLIR location: ``role`` is "at", "called from" or "defining 'x'"; 1-based line and column."""

    role: str
    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@lru_cache(maxsize=1)
def mlir_ir() -> Any:
    """The first MLIR binding that imports. Raises UnsupportedError naming what to install if there is none."""
    for name in BINDINGS:
        try:
            binding = importlib.import_module(name)
        except ImportError:
            continue
        _without_dialects(name.removesuffix(".ir"))
        return binding
    raise UnsupportedError(
        "no MLIR Python binding is installed",
        feature="MLIR binding",
        hint="pip install iree-base-compiler (or jaxlib); looked for " + ", ".join(BINDINGS),
    )


def _without_dialects(package: str) -> None:
    """Say once that the binding has no Python classes for Triton's dialects: it would search the path for them at every operation."""
    for dialect in ("tt", "ttg"):
        name = f"{package}.dialects.{dialect}"
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            sys.modules[name] = types.ModuleType(name, "No operation classes: this module stands for those that do not exist.")


@lru_cache(maxsize=1)
def _context() -> Any:
    context = mlir_ir().Context()
    context.allow_unregistered_dialects = True
    return context


def parse_module(generic_text: str) -> Any:
    """An ``ir.Module`` from MLIR text in generic form. Raises ParseError with the place that MLIR names."""
    ir = mlir_ir()
    with _lock:
        try:
            return ir.Module.parse(generic_text, _context())
        except (ir.MLIRError, ValueError) as error:
            raise _parse_error(str(error), generic_text) from None


def _parse_error(message: str, text: str) -> ParseError:
    place = re.search(r'"?-"?:(\d+):(\d+)"?\)?: ?(.*)', message)
    if place is None:
        return ParseError("not MLIR in generic form: " + message.strip().splitlines()[0])
    line, column = int(place[1]), int(place[2])
    lines = lines_of(text)
    shown = lines[line - 1] if 0 < line <= len(lines) else ""
    hint = "print the module in generic form (see volta_pass.references.generic)" if '"' not in shown else ""
    return ParseError(f"MLIR: {place[3]}", span=Span(line, column, file="<mlir>"), source_line=shown, hint=hint)


def source_lines(location: Any) -> list[SourceLine]:
    """All places of a possibly nested location, innermost first: callee before caller, the children of a fusion in order."""
    found: list[SourceLine] = []
    stack: list[tuple[Any, str]] = [(location, "at")]
    while stack:
        loc, role = stack.pop()
        kind = type(loc).__name__
        if kind == "FileLineColLoc":
            found.append(SourceLine(role, loc.filename, loc.start_line, loc.start_col))
        elif kind == "NameLoc":
            stack.append((loc.child_loc, role if role != "at" else f"defining '{loc.name_str}'"))
        elif kind == "CallSiteLoc":
            stack.append((loc.caller, "called from"))
            stack.append((loc.callee, role))
        elif kind == "FusedLoc":
            stack.extend((child, role) for child in reversed(loc.locations))
    return found


#: files of the compiler's own library: a user wants the line that called into them
_LIBRARY = re.compile(r"[/\\]triton[/\\](language|experimental)[/\\]|\.ttir$")


def user_line(location: Any) -> SourceLine | None:
    """The innermost place outside the compiler's own library; else the innermost; None where there is none."""
    lines = source_lines(location)
    return next((row for row in lines if not _LIBRARY.search(row.file)), lines[0] if lines else None)


def name_of(location: Any) -> str:
    """The variable name that a location carries (``loc("x"(...))``), or ""."""
    return str(location.name_str) if type(location).__name__ == "NameLoc" else ""


def diagnose(op: Any, message: str) -> str:
    """Emit an MLIR error at an operation's location; returns it as text, each place with its source line.

    The diagnostic reaches every handler attached to the context; ours only keeps it from stderr.
    """
    caught: list[tuple[str, list[SourceLine]]] = []

    def handler(diagnostic: Any) -> bool:
        caught.append((diagnostic.message, source_lines(diagnostic.location)))
        return True

    operation = op.operation
    attached = operation.context.attach_diagnostic_handler(handler)
    try:
        operation.location.emit_error(message)
    finally:
        attached.detach()
    text = [f"error: {caught[0][0]}"]
    for row in caught[0][1]:
        text.append(f"  --> {row} ({row.role})")
        shown = linecache.getline(row.file, row.line).rstrip()
        if shown:
            text.append(f"      {shown}")
    return "\n".join(text)
