"""The entry a side launches, and whether the spec's arguments and block fit its parameters."""

from __future__ import annotations

import difflib
from pathlib import Path

from ptx_engine.errors import LaunchError
from ptx_engine.launch import ScalarArg
from ptx_engine.machine.parameters import assigned, size_of
from ptx_engine.syntax.ast import Function, Module, Param
from volta_pass.spec import SideSpec, SpecError

_SCRATCH_HINT = 'Triton adds two scratch pointers after its own parameters: give each as kind = "scalar", dtype = "u64", value = 0'


def find_entry(module: Module, side: SideSpec) -> Function:
    """The entry the spec names, or the only one. Raises SpecError."""
    entries = module.entries()
    names = [entry.name for entry in entries]
    where = Path(side.source).name
    if not entries:
        raise _error(side, f"{where} has no .entry", "give a PTX file with a kernel")
    if side.entry is None:
        if len(entries) > 1:
            raise _error(side, f"{where} has {len(entries)} entries", f'add entry = "{names[0]}" (or {", ".join(names[1:6])})')
        return entries[0]
    if side.entry not in names:
        close = difflib.get_close_matches(side.entry, names, n=1, cutoff=0.5)
        hint = f'did you mean "{close[0]}"?' if close else "its entries: " + ", ".join(names[:8])
        raise _error(side, f"{where} has no entry {side.entry!r}", hint)
    return entries[names.index(side.entry)]


def check_arguments(entry: Function, side: SideSpec) -> None:
    """Raise SpecError unless number and sizes of the arguments, and the block, are what the entry declares."""
    args = side.launch.args
    if len(args) != len(entry.params):
        hint = f"list this side's arguments in order: args = [...]; {entry.name} takes {_signature(entry)}"
        if len(entry.params) == len(args) + 2 and all(param.size == 8 for param in entry.params[-2:]):
            hint = _SCRATCH_HINT
        if not any(param.shape for param in entry.params):
            raise _error(side, f"{entry.name} takes {len(entry.params)} arguments, but the spec gives {len(args)}", hint)
    try:
        taken = assigned(entry.name, entry.params, args)
    except LaunchError as error:
        raise _error(side, error.message, error.hint) from None
    for number, (param, fields) in enumerate(zip(entry.params, taken), 1):
        arg, need = fields[0][0], size_of(fields[0][0])
        if len(fields) > 1:
            continue
        if param.size != need:
            what = "a pointer (8 bytes)" if not isinstance(arg, ScalarArg) else f"{arg.dtype} ({need} bytes)"
            message = f"parameter {number} of {entry.name} is .{param.type} ({param.size} bytes), but argument {arg.name} is {what}"
            raise _error(side, message, f"{entry.name} takes {_signature(entry)}")
    _check_block(entry, side)


def _check_block(entry: Function, side: SideSpec) -> None:
    declared = dict(entry.directives).get("reqntid")
    if not declared:
        return
    x, y, z = (*(int(extent, 0) for extent in declared), 1, 1)[:3]
    if side.launch.block != (x, y, z):
        raise _error(side, f"{entry.name} requires a block of {[x, y, z]}, not {list(side.launch.block)}", f"block = {[x, y, z]}")


def _signature(entry: Function) -> str:
    return ", ".join(_parameter(param) for param in entry.params) or "no arguments"


def _parameter(param: Param) -> str:
    return f".{param.type} {param.name}"


def _error(side: SideSpec, message: str, hint: str) -> SpecError:
    return SpecError(f"[{side.side}] {message}", span=side.span, source_line=side.source_line, hint=hint)
