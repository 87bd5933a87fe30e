"""A Triton kernel as a side of a spec: compiled for the spec's target without a GPU; its PTX is a candidate, its TTIR a reference.

The spec's arguments are the kernel's parameters that are no constants, in order. As Triton does at a launch, integers equal
to 1 become constants, and pointers and integers divisible by 16 are specialised.
"""

from __future__ import annotations

import time
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

from ptx_engine.errors import UnsupportedError
from ptx_engine.launch import Arg, BoundLaunch, Launch, NullArg, Role, ScalarArg, TensorArg
from volta_pass.check.imports import import_object
from volta_pass.check.options import CheckOptions
from volta_pass.check.sides import CompilerRefusedError, ReadySide, SideRun, ready_ptx
from volta_pass.environment import ARCHS
from volta_pass.spec import SideSpec, Spec, SpecError
from volta_pass.spec.structure import suggestion
from volta_pass.specs_api import TRITON_DTYPES


@dataclass(frozen=True)
class Compiled:
    """One compilation: texts, the launch of its PTX, and how long it took."""

    name: str
    ptx: str
    ttir: str
    launch: Launch
    seconds: float
    toolchain: dict[str, str]


def ready_triton(side: SideSpec, spec: Spec, options: CheckOptions) -> ReadySide:
    """The compiled kernel: TTIR for a reference, PTX (with the TTIR as its own source) for a candidate."""
    start = time.perf_counter()
    kernel = import_object(side, spec.path.parent)
    imported = time.perf_counter() - start
    compiled = compile_side(side, kernel)
    source = _tile_program(side, compiled, options)
    if side.side == "reference":
        source.seconds["import"], source.seconds["compile"] = imported, compiled.seconds
        return source
    ready = ready_ptx(replace(side, launch=compiled.launch, entry=None), compiled.ptx, spec, options, f"{compiled.name}.ptx")
    ready.seconds["import"], ready.seconds["compile"] = imported, compiled.seconds
    ready.toolchain, ready.own_source = compiled.toolchain, source
    return ready


def compile_side(side: SideSpec, kernel: Any) -> Compiled:
    """Compile a kernel for the side's target, constants and options. Raises SpecError, UnsupportedError."""
    try:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
    except ImportError as error:
        hint = "pip install 'volta-pass[triton]'"
        raise UnsupportedError(f"Triton is not installed: {error}", span=side.span, source_line=side.source_line, hint=hint) from None
    fn = _jit_function(side, kernel)
    target = GPUTarget("cuda", int(side.target.partition(":")[2]), 32)
    _check_options(side, target)
    signature, constants, attributes, args = _specialise(side, list(fn.arg_names))
    start = time.perf_counter()
    try:
        with triton.knobs.compilation.scope(), redirect_stdout(StringIO()):  # it prints whole PTX files where ptxas fails
            triton.knobs.compilation.always_compile = True  # its cache knows kernels by text: source lines may be another file's
            compiled = triton.compile(ASTSource(fn, signature, constants, attributes), target=target, options=dict(side.options))
    except Exception as error:  # the compiler's own errors have many classes
        said = str(error).partition("Repro command:")[0].strip()
        hint = "does the kernel compile with these constexprs, options and target on its own?"
        message = f"[{side.side}] Triton could not compile {side.source}: {type(error).__name__}: {said}"
        raise CompilerRefusedError(message, span=side.span, source_line=side.source_line, hint=hint) from error
    seconds = time.perf_counter() - start
    metadata = compiled.metadata
    launch = replace(
        side.launch, block=(32 * int(metadata.num_warps), 1, 1), dynamic_shared_bytes=int(metadata.shared),
        args=(*args, *_scratch(metadata, side.launch)),
    )  # fmt: skip
    return Compiled(
        metadata.name, compiled.asm["ptx"], compiled.asm["ttir"], launch, seconds, {"triton": triton.__version__, "target": side.target}
    )


def _check_options(side: SideSpec, target: Any) -> None:
    """Raise SpecError for a target that Triton has no back end for, and for options that it would pass over without a word."""
    from triton.compiler.compiler import make_backend

    if target.arch not in ARCHS:
        raise _error(side, f"target {side.target} is none that Triton compiles for", f"cuda: and one of {', '.join(map(str, ARCHS))}")
    known = getattr(type(make_backend(target).parse_options({})), "__dataclass_fields__", {})
    for name in side.options:
        if known and name not in known:
            raise _error(side, f"Triton has no option {name!r}", suggestion(name, list(known)))


def _jit_function(side: SideSpec, kernel: Any) -> Any:
    from triton.runtime.jit import JITFunction

    while not isinstance(kernel, JITFunction):
        if not hasattr(kernel, "fn"):
            raise _error(side, f"{side.source} is no Triton kernel", "name a function decorated with @triton.jit")
        kernel = kernel.fn
    return kernel


Specialised = tuple[dict[str, str], dict[tuple[int], Any], dict[tuple[int], list[list[Any]]], tuple[Arg, ...]]


def _specialise(side: SideSpec, parameters: list[str]) -> Specialised:
    """Signature, constants and attributes for the compiler, and the arguments that stay parameters of the PTX."""
    unknown = [name for name in side.constexprs if name not in parameters]
    if unknown:
        raise _error(side, f"the kernel has no parameter {unknown[0]!r}", "its parameters: " + ", ".join(parameters))
    free = [name for name in parameters if name not in side.constexprs]
    if len(free) != len(side.launch.args):
        hint = f"args = [...] in the order of {', '.join(free)}; the other parameters belong into constexprs"
        raise _error(side, f"{len(side.launch.args)} arguments for the {len(free)} parameters {', '.join(free)}", hint)
    given = dict(zip(free, side.launch.args))
    signature: dict[str, str] = {}
    constants: dict[tuple[int], Any] = {}
    attributes: dict[tuple[int], list[list[Any]]] = {}
    kept: list[Arg] = []
    for position, name in enumerate(parameters):
        arg = given.get(name)
        if name in side.constexprs or (isinstance(arg, ScalarArg) and isinstance(arg.value, int) and arg.value == 1):
            signature[name] = "constexpr"
            constants[(position,)] = side.constexprs.get(name, 1)
            continue
        assert arg is not None
        signature[name] = _triton_type(arg)
        kept.append(arg)
        if isinstance(arg, TensorArg) or (isinstance(arg, ScalarArg) and isinstance(arg.value, int) and arg.value % 16 == 0):
            attributes[(position,)] = [["tt.divisibility", 16]]
    return signature, constants, attributes, tuple(kept)


def _triton_type(arg: Arg) -> str:
    if isinstance(arg, TensorArg):
        return "*" + _element(arg.dtype)
    return _element(arg.dtype) if isinstance(arg, ScalarArg) else "*i8"


def _element(dtype: str) -> str:
    return "i1" if dtype == "pred" else TRITON_DTYPES[dtype]


def _scratch(metadata: Any, launch: Launch) -> list[Arg]:
    """Triton's two scratch pointers, null where the kernel uses none."""
    rows: list[Arg] = []
    for name in ("global_scratch", "profile_scratch"):
        size = int(getattr(metadata, f"{name}_size", 0) or 0)
        rows.append(TensorArg(name, "u8", (size * launch.cta_count,), Role.AUX) if size else NullArg(name))
    return rows


def _tile_program(side: SideSpec, compiled: Compiled, options: CheckOptions) -> ReadySide:
    def run(bound: BoundLaunch) -> SideRun:
        from volta_pass.check.triton_library import library_of
        from volta_pass.references.budget import Budget
        from volta_pass.references.generic import generic_of_text
        from volta_pass.references.library import Library
        from volta_pass.references.ttir import evaluate, load_ttir

        executed = bound.launch.cta_count if bound.launch.ctas is None else len(bound.launch.ctas)
        run = SideRun({}, ctas=(executed, bound.launch.cta_count))
        text = generic_of_text(compiled.ttir)
        program = load_ttir(text)
        library = Library(library_of(text, int(side.target.partition(":")[2])))
        names = [arg.name for arg in compiled.launch.args[: len(program.parameters)]]  # scratch pointers come after them
        run.footprints = evaluate(program, bound, args=names, budget=Budget(options.budget_seconds), findings=run.findings, library=library)
        return run

    return ReadySide(side, f"{compiled.name}'s TTIR", compiled.launch, run, {}, toolchain=compiled.toolchain, ttir=compiled.ttir)


def _error(side: SideSpec, message: str, hint: str = "") -> SpecError:
    return SpecError(f"[{side.side}] {message}", span=side.span, source_line=side.source_line, hint=hint)
