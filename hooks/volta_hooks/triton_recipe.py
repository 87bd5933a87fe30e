"""How to compile a Triton kernel again: its own source and that of the functions it calls, as one text, with signature and options.

The text holds only imports from Triton, constants and decorated functions; the functions of the kernel's file stand at their own
lines, so that a later compilation has the user's line numbers.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import triton.language as tl
from triton.runtime.jit import JITFunction

from ptx_engine.errors import lines_of

#: options of a compilation that its user may have chosen
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "default_dot_input_precision", "sanitize_overflow")


class NoRecipeError(Exception):
    """Why a kernel cannot be compiled again from what is recorded."""


def recipe(fn: Any, signature: Mapping[str, Any], constants: Mapping[str, Any], attributes: Any, metadata: Any) -> dict[str, Any]:
    """JSON values from which ``volta_pass.baseline`` compiles the kernel again; ``{"refused": why}`` where that cannot be."""
    try:
        if not isinstance(fn, JITFunction):
            raise NoRecipeError("the kernel is no Triton function")
        return {
            "compiler": "triton",
            "file": os.path.basename(fn.fn.__code__.co_filename),
            "function": fn.__name__,
            "source": standalone(fn),
            "signature": {name: _kind(name, kind) for name, kind in signature.items()},
            "constants": {name: constant(value) for name, value in constants.items()},
            "attributes": [[list(path), [[str(k), v] for k, v in rows]] for path, rows in (attributes or {}).items()],
            "options": {name: value for name in OPTIONS if _plain(value := getattr(metadata, name, None)) and value is not None},
        }
    except NoRecipeError as error:
        return {"compiler": "triton", "refused": str(error)}


def _kind(name: str, kind: Any) -> str:
    if not isinstance(kind, str):
        raise NoRecipeError(f"argument {name} is a tuple")
    return kind


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def constant(value: Any) -> Any:
    """A compile-time value as JSON: itself, or an object that names its type."""
    if isinstance(value, tl.constexpr):
        return constant(value.value)
    if _plain(value):
        return value
    if isinstance(value, tl.dtype):
        return {"dtype": value.name}
    if isinstance(value, JITFunction):
        return {"function": value.__name__}
    if isinstance(value, tuple):
        return {"tuple": [constant(item) for item in value]}
    raise NoRecipeError(f"a constant of type {type(value).__name__}")


def standalone(fn: JITFunction) -> str:
    """The kernel, what it calls and the module constants that they read, as one text."""
    functions: dict[str, JITFunction] = {}
    lines: dict[str, str] = {}
    todo = [fn]
    while todo:
        each = todo.pop()
        if functions.get(each.__name__, each) is not each:
            raise NoRecipeError(f"two functions are called {each.__name__}")
        if each.__name__ in functions:
            continue
        functions[each.__name__] = each
        for name, value in _globals_of(each):
            if isinstance(value, JITFunction) and not value.__module__.startswith("triton."):
                if value.__name__ != name:
                    lines[name] = f"{name} = {value.__name__}"
                todo.append(value)
            else:
                line = _definition(name, value)
                if lines.setdefault(name, line) != line:
                    raise NoRecipeError(f"two values are called {name}")
    return _laid_out(fn, functions, lines)


def _globals_of(fn: JITFunction) -> list[tuple[str, Any]]:
    code = fn.fn.__code__
    if code.co_freevars:
        raise NoRecipeError(f"{fn.__name__} is a closure")
    scope = fn.fn.__globals__
    function = ast.parse(fn.src).body[0]
    assert isinstance(function, ast.FunctionDef)
    header = {
        node.id for part in (function.args, function.returns) if part is not None for node in ast.walk(part) if isinstance(node, ast.Name)
    }
    read = [node.id for node in ast.walk(function) if isinstance(node, ast.Name)]
    return [(n, scope[n]) for n in dict.fromkeys(read) if n in scope and (n in header or n not in code.co_varnames)]


def _definition(name: str, value: Any) -> str:
    """A line that gives a name its value: an import from Triton, or a constant."""
    if isinstance(value, ModuleType):
        return _import(value.__name__, name)
    if isinstance(value, tl.constexpr) and _plain(value.value):
        return f"{name} = triton.language.constexpr({value.value!r})"
    if isinstance(value, tl.dtype):
        return f"{name} = triton.language.dtype({value.name!r})"
    if _plain(value):
        return f"{name} = {value!r}"
    module, own = getattr(value, "__module__", "") or "", getattr(value, "__name__", "")
    if module.startswith("triton.") and own:
        return f"from {module} import {own} as {name}"
    raise NoRecipeError(f"the kernel reads {name}, a {type(value).__name__}")


def _import(module: str, name: str) -> str:
    if module != "triton" and not module.startswith("triton."):
        raise NoRecipeError(f"the kernel reads the module {module}")
    return f"import {module} as {name}"


def _laid_out(kernel: JITFunction, functions: Mapping[str, JITFunction], lines: Mapping[str, str]) -> str:
    """Definitions on the first line; the functions of the kernel's file at their lines where that is possible, the others after them."""
    aliases = {name: line for name, line in lines.items() if line.partition(" = ")[2] in functions}
    head = ["import triton", "import triton.language", *(line for name, line in lines.items() if name not in aliases)]
    here = kernel.fn.__code__.co_filename
    placed = sorted((f for f in functions.values() if f.fn.__code__.co_filename == here), key=lambda f: int(f.starting_line_number))
    others = [f for f in functions.values() if f.fn.__code__.co_filename != here]
    text = ["; ".join(head)]
    for function in [*placed, *others]:
        first, source = _source(function)
        text += [""] * (first - 1 - len(text)) if function in placed else [""]
        text += ["@triton.jit", *source]
    return "\n".join([*text, *aliases.values()]) + "\n"


def _source(fn: JITFunction) -> tuple[int, list[str]]:
    """The line before ``def`` (1-based), where our own decorator goes, and the lines from ``def`` on."""
    raw = lines_of("".join(fn.raw_src))
    before = next((i for i, line in enumerate(raw) if line.lstrip().startswith("def ")), 0)
    return int(fn.starting_line_number) + before - 1, lines_of(str(fn.src).rstrip("\n"))
