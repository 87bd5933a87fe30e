"""Recorded kernels through the compiler that is installed now.

The recorded source is checked to hold nothing but imports from Triton, constants and functions under ``triton.jit`` before it is
imported; those functions are compiled by Triton, never called.
"""

from __future__ import annotations

import ast
import importlib.util
import os
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

from ptx_engine.errors import LaunchError, PtxError, UnsupportedError, lines_of
from ptx_engine.launch import Launch, NullArg, Role, TensorArg
from volta_pass.baseline.recompile_tilelang import recompile_tilelang
from volta_pass.baseline.recording import Record
from volta_pass.store.keys import digest

#: for tests: ``_VOLTA_TEST_PTX_PATCH=text=>other`` seeds a miscompilation into what is compiled again
_PATCH = "_VOLTA_TEST_PTX_PATCH"


class CompileFailedError(Exception):
    """The compiler refused a recorded kernel: its own words."""


def recompile(record: Record, folder: Path) -> Record:
    """The same launch as the installed compiler makes it; the source is written under ``folder``, where diagnostics find it.

    Raises UnsupportedError where the recording says that it cannot be compiled again or its compiler is missing, CompileFailedError
    where the compiler refuses, LaunchError for a recipe that is damaged or holds other code than kernels.
    """
    recipe = record.recipe
    if recipe.get("refused"):
        raise UnsupportedError(
            f"{record.kernel} was recorded without what it takes to compile it again: {recipe['refused']}", feature="recipe"
        )
    if recipe.get("compiler") == "tilelang":
        return _tilelang(record, recipe)
    if recipe.get("compiler") != "triton":
        raise UnsupportedError(f"{record.kernel}: no compiler {recipe.get('compiler')!r} for recorded kernels", feature="recipe")
    try:
        return _triton(record, recipe, folder)
    except (KeyError, TypeError, ValueError, SyntaxError) as error:
        raise LaunchError(f"{record.kernel}: the recorded recipe is damaged: {type(error).__name__}: {error}") from None


def _tilelang(record: Record, recipe: Mapping[str, Any]) -> Record:
    try:
        found = recompile_tilelang(record, recipe)
    except (KeyError, TypeError, ValueError) as error:
        raise LaunchError(f"{record.kernel}: the recorded recipe is damaged: {type(error).__name__}: {error}") from None
    if isinstance(found, str):
        raise CompileFailedError(found)
    return found


def _triton(record: Record, recipe: Mapping[str, Any], folder: Path) -> Record:
    try:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        from volta_pass.check.triton_library import library_of
    except ImportError as error:
        raise UnsupportedError(f"Triton is not installed: {error}", feature="triton", hint="pip install 'volta-pass[triton]'") from None
    module = load_kernels(str(recipe["source"]), str(recipe["file"]), folder)
    fn = getattr(module, str(recipe["function"]))
    names = list(fn.arg_names)
    constants = {(names.index(name),): _constant(value, module) for name, value in recipe["constants"].items()}
    attributes = {tuple(path): [list(row) for row in rows] for path, rows in recipe["attributes"]}
    source = ASTSource(fn, dict(recipe["signature"]), constants, attributes)
    target = GPUTarget("cuda", int(record.target.removeprefix("sm_")), 32)
    try:
        with triton.knobs.compilation.scope(), redirect_stdout(StringIO()):
            triton.knobs.compilation.always_compile = True
            compiled = triton.compile(source, target=target, options=_options(recipe, target))
    except Exception as error:  # the compiler's own errors have many classes
        said = str(error).partition("Repro command:")[0].strip()
        raise CompileFailedError(f"{type(error).__name__}: {said}") from error
    launch = _launch(record.launch, compiled.metadata)
    ptx, ttir = str(compiled.asm["ptx"]), str(compiled.asm["ttir"])
    toolchain = {"Triton": triton.__version__}
    generic = _generic(ttir)
    return replace(
        record, ptx=ptx, entry=str(compiled.metadata.name), source=generic, launch=launch, toolchain=toolchain, report={},
        library=library_of(generic, target.arch),
    )  # fmt: skip


def _generic(ttir: str) -> str | None:
    from volta_pass.references.generic import generic_of_text

    try:
        return generic_of_text(ttir)
    except PtxError:
        return None


def _options(recipe: Mapping[str, Any], target: Any) -> dict[str, Any]:
    """The recorded options that this compiler knows."""
    from triton.compiler.compiler import make_backend

    known = getattr(type(make_backend(target).parse_options({})), "__dataclass_fields__", {})
    return {name: value for name, value in recipe["options"].items() if name in known}


def _constant(value: Any, module: Any) -> Any:
    """A compile-time value from JSON."""
    if not isinstance(value, dict):
        return value
    import triton.language as tl

    if "dtype" in value:
        return tl.dtype(str(value["dtype"]))
    if "function" in value:
        return getattr(module, str(value["function"]))
    return tuple(_constant(item, module) for item in value["tuple"])


def _launch(launch: Launch, metadata: Any) -> Launch:
    """The recorded launch with what the compiler chose: threads, shared memory, scratch."""
    kept = [arg for arg in launch.args if arg.name not in ("global_scratch", "profile_scratch")]
    scratch: list[Any] = []
    for name in ("global_scratch", "profile_scratch"):
        size = int(getattr(metadata, f"{name}_size", 0) or 0)
        scratch.append(TensorArg(name, "u8", (size * launch.cta_count,), Role.AUX) if size else NullArg(name))
    block = (32 * int(metadata.num_warps), 1, 1)
    return replace(launch, block=block, dynamic_shared_bytes=int(metadata.shared), args=(*kept, *scratch))


def seeded(record: Record) -> Record:
    """The record with what the tests seed into it, if anything; as it is otherwise."""
    before, _, after = os.environ.get(_PATCH, "").partition("=>")
    return replace(record, ptx=record.ptx.replace(before, after, 1)) if before else record


def load_kernels(source: str, file: str, folder: Path) -> Any:
    """The module of a recorded source, written as ``folder/DIGEST/FILE``. Raises LaunchError if it holds more than kernels."""
    check_kernels(source)
    name = digest(source)[:16]
    path = folder / name / (os.path.basename(file) or "kernel.py")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"volta_recorded_{name}", path)
    if spec is None or spec.loader is None:
        raise LaunchError(f"the recorded file {file!r} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_kernels(source: str) -> None:
    """Raise LaunchError unless every statement is an import from Triton, a constant, or a function under ``triton.jit`` alone."""
    for node in ast.parse(source).body:
        if not (_is_import(node) or _is_kernel(node) or _is_constant(node)):
            line = lines_of(source)[node.lineno - 1]
            raise LaunchError(f"the recorded source holds more than kernels: line {node.lineno}: {line.strip()}")


def _is_import(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import):
        return all(_is_triton(alias.name) for alias in node.names)
    return isinstance(node, ast.ImportFrom) and node.level == 0 and _is_triton(node.module or "")


def _is_triton(module: str) -> bool:
    return module == "triton" or module.startswith("triton.language")


def _is_kernel(node: ast.stmt) -> bool:
    """A function whose only decorator is ``triton.jit`` and whose defaults are constants; annotations are never evaluated."""
    if not isinstance(node, ast.FunctionDef) or [ast.unparse(d) for d in node.decorator_list] != ["triton.jit"]:
        return False
    defaults = [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    annotations = [a.annotation for a in arguments if a.annotation is not None] + ([node.returns] if node.returns is not None else [])
    return all(_is_value(d) for d in defaults) and all(_is_path(a) or isinstance(a, ast.Constant) for a in annotations)


def _is_constant(node: ast.stmt) -> bool:
    """``NAME = 3``, ``NAME = triton.language.constexpr(3)``, ``NAME = triton.language.dtype('fp16')``, ``NAME = OTHER``."""
    if not isinstance(node, ast.Assign) or not all(isinstance(t, ast.Name) for t in node.targets):
        return False
    value = node.value
    if isinstance(value, ast.Call):
        known = ast.unparse(value.func) in ("triton.language.constexpr", "triton.language.dtype")
        return known and not value.keywords and all(_is_value(a) for a in value.args)
    return _is_value(value)


def _is_value(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        node = node.operand
    return isinstance(node, (ast.Constant, ast.Name))


def _is_path(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)
