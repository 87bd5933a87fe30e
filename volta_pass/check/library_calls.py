"""A spec whose CUDA C sides call library functions, instead of holding code of them that has no formula."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ptx_engine.errors import PtxError
from ptx_engine.syntax import parse
from volta_pass.check.cuda_side import functions_of
from volta_pass.cuda import compile_cuda
from volta_pass.cuda.library_calls import EXTERNS, as_calls, functions_in, inexact_in
from volta_pass.spec import SideKind, SideSpec, Spec


def with_library_calls(spec: Spec, inexact: bool = False) -> tuple[Spec, str] | None:
    """The spec with such sides compiled so, and what is to be said of it; None where there is nothing to call, or it does not compile.

    ``inexact``: with calls, too, of functions whose code has a formula that approximates them; None where a side names none.
    """
    sides = [side for side in (spec.candidate, spec.reference) if side is not None]
    try:
        changed = {side.side: _with_calls(side, inexact) for side in sides}
    except PtxError:
        return None
    called = sorted({name for each in changed.values() for name in each.called})
    named = sorted({name for each in changed.values() for name in each.named})
    if not (called or named) or any(name in spec.externs for name in called):
        return None
    externs = {**spec.externs, **{name: EXTERNS[name] for name in called}}
    reference = changed["reference"].side if spec.reference is not None else None
    shown = ", ".join(named or [name.removeprefix("cuda_") for name in called])
    what = "is an approximation" if inexact else "has no formula"
    note = f"CUDA's own code of {shown} {what}: what was executed was compiled with calls of the functions themselves in its place"
    return replace(spec, candidate=changed["candidate"].side, reference=reference, externs=externs), note


def approximates(spec: Spec) -> bool:
    """Whether a side names functions whose code has a formula that approximates them."""
    sides = [side for side in (spec.candidate, spec.reference) if side is not None]
    try:
        functions = [functions_of(side) if side.kind is SideKind.CUDA else side.functions for side in sides]
    except PtxError:  # (a file that is not there: the check itself says so)
        return False
    return any(inexact_in(each.source.text) for each in functions if each is not None)


@dataclass(frozen=True)
class _Changed:
    """A side, the functions that its text names, and those without a body that its PTX declares."""

    side: SideSpec
    named: tuple[str, ...] = ()
    called: tuple[str, ...] = ()


def _with_calls(side: SideSpec, inexact: bool) -> _Changed:
    functions = functions_of(side) if side.kind is SideKind.CUDA else side.functions
    if functions is None:
        return _Changed(side)
    text = functions.source.text
    named = inexact_in(text) if inexact else functions_in(text)
    if not named and (inexact or not functions.source.includes):
        return _Changed(side)
    source = as_calls(functions.source, inexact)
    done = compile_cuda(source, functions.entry, functions.compiler)
    called = tuple(f.name for f in parse(done.ptx).functions if f.name in EXTERNS)
    if side.kind is SideKind.CUDA:
        return _Changed(replace(side, text=source.text), named, called)
    return _Changed(replace(side, text=done.ptx, entry=done.entry), named, called)
