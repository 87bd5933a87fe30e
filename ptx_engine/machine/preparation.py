"""What is settled before a launch runs: the entry, its calls, its CTAs, whether the block fits, the places of instructions, cell size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ptx_engine.errors import LaunchError, ParseError, lines_of
from ptx_engine.launch import BoundLaunch
from ptx_engine.machine.inline import inline
from ptx_engine.machine.program import PtxOrigin
from ptx_engine.syntax import user_loc
from ptx_engine.syntax.ast import FlatFunction, Function, Module


def choose_entry(module: Module, entry: str | None) -> Function:
    """The entry by name, or the only one. Raises LaunchError listing what there is, ParseError for a module that contradicts itself."""
    check_module(module)
    entries = module.entries()
    names = ", ".join(f.name for f in entries) or "none"
    if entry is None:
        if len(entries) != 1:
            raise LaunchError(f"the module has {len(entries)} entries", hint=f"name one: {names}")
        return entries[0]
    for function in entries:
        if function.name == entry:
            return function
    raise LaunchError(f"there is no entry {entry}", hint=f"the module has: {names}")


def calls_inlined(function: Function, module: Module, externs: Mapping[str, str], bound: BoundLaunch) -> FlatFunction:
    """The flat function without calls; what was assumed about functions without a body goes to the ledger."""
    inlined = inline(function, module, externs)
    for assumption in inlined.assumptions:
        bound.arena.assumptions.setdefault(assumption)
    return inlined.flat


def linear_ctas(bound: BoundLaunch, ctas: Sequence[tuple[int, int, int]] | None) -> np.ndarray:
    """CTA numbers (x fastest) to run, sorted; None: all. Raises LaunchError."""
    gx, gy, gz = bound.launch.grid
    if ctas is None:
        return np.arange(gx * gy * gz, dtype=np.int64)
    for x, y, z in ctas:
        if not (0 <= x < gx and 0 <= y < gy and 0 <= z < gz):
            raise LaunchError(f"CTA ({x}, {y}, {z}) is outside the grid {bound.launch.grid}")
    return np.array(sorted({x + gx * (y + gy * z) for x, y, z in ctas}), np.int64)


def check_block(function: Function, bound: BoundLaunch) -> None:
    """The block must fit the kernel's .reqntid / .maxntid. Raises LaunchError."""
    block = bound.launch.block
    for name, values in function.directives:
        numbers = [int(v) for v in values if str(v).isdigit()]
        shape = tuple(numbers + [1] * (3 - len(numbers)))
        if name.lstrip(".") == "reqntid" and shape != block:
            raise LaunchError(f"{function.name} requires a block of {shape}, the launch has {block}", span=function.span)
        if name.lstrip(".") == "maxntid" and bound.launch.threads > shape[0] * shape[1] * shape[2]:
            raise LaunchError(f"{function.name} allows at most {shape} threads, the launch has {block}", span=function.span)


def check_module(module: Module) -> None:
    """What only the whole module can contradict: sizes left out, headers of one function that differ, directives that exclude each other.
    Raises ParseError. Source: PTX ISA 9.1, "Variables", "Kernel and Function Directives", "Performance-Tuning Directives"."""
    for variable in module.variables:
        if variable.shape[:1] == (0,) and variable.linkage != "extern":
            raise ParseError(f"{variable.name} has no size", span=variable.span, hint="only an .extern array may leave it out")
    first: dict[str, Function] = {}
    for function in module.functions:
        known = first.setdefault(function.name, function)
        if _sizes(known) != _sizes(function):
            hint = f"its first header is in line {known.span.line}"
            raise ParseError(f"{function.name} has other parameters than before", span=function.span, hint=hint)
        if {"maxntid", "reqntid"} <= {name for name, _ in function.directives}:
            raise ParseError(f"{function.name}: .maxntid and .reqntid do not stand together", span=function.span, hint="remove one")


def _sizes(function: Function) -> list[list[tuple[str, int, int]]]:
    return [[(formal.space, formal.size, formal.vector) for formal in formals] for formals in (function.returns, function.params)]


def make_origins(module: Module, flat: FlatFunction, source: str) -> list[PtxOrigin]:
    """The place of every instruction; the text comes from ``source`` where given."""
    lines = lines_of(source) if source else []
    cache: dict[object, str] = {}
    origins = []
    for pc, instruction in enumerate(flat.instructions):
        line = instruction.span.line
        text = lines[line - 1].strip() if 0 < line <= len(lines) else instruction.mnemonic
        if instruction.loc not in cache:
            cache[instruction.loc] = user_loc(module, instruction.loc)
        origins.append(PtxOrigin(pc, line, text, cache[instruction.loc]))
    return origins


def granule_of(flat: FlatFunction, bound: BoundLaunch) -> int:
    """The cell size of shared and local memory: the smallest element the kernel moves."""
    smallest = 4
    for buffer in bound.buffers:
        smallest = min(smallest, buffer.arg.element_bytes)
    for instruction in flat.instructions:
        kind = instruction.modifiers[-1] if instruction.modifiers else ""
        if instruction.opcode in ("ld", "st", "ldmatrix", "stmatrix", "atom", "red", "cvt", "mma", "wmma"):
            joined = instruction.modifiers
            if kind in ("b8", "u8", "s8") and instruction.opcode in ("ld", "st", "ldmatrix", "stmatrix"):
                return 1
            if any(m in ("b16", "u16", "s16", "f16", "bf16", "f16x2", "bf16x2") for m in joined):
                smallest = min(smallest, 2)
    return smallest
