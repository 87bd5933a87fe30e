"""TTIR as a reference: the tile program that Triton compiles, run over all programs of a grid, emitting terms.

``load_ttir`` walks the MLIR once and decodes every operation into a closure; ``evaluate`` never touches the binding. It
assumes that programs do not communicate except by atomics (else: findings), and that memory is what the launch says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptx_engine.errors import BudgetError, LaunchError, UnsupportedError
from ptx_engine.findings import Finding
from ptx_engine.launch import BoundLaunch, Footprint, NullArg, ScalarArg, TensorArg
from volta_pass.references import (  # noqa: F401  (operation tables register themselves)
    ttir_access,
    ttir_arith,
    ttir_dot,
    ttir_extern,
    ttir_float,
    ttir_int,
    ttir_reduce,
    ttir_refused,
    ttir_scf,
    ttir_tt,
)
from volta_pass.references.budget import Budget
from volta_pass.references.contents import float_ids
from volta_pass.references.finding_log import FindingLog
from volta_pass.references.freedoms import Freedoms
from volta_pass.references.library import Library
from volta_pass.references.memory_format import dtype_range
from volta_pass.references.mlir_binding import diagnose, mlir_ir, name_of, parse_module, user_line
from volta_pass.references.ttir_frame import Frame, run_function
from volta_pass.references.ttir_memory import Memory
from volta_pass.references.ttir_registry import Decoder, Function, TtirOrigin
from volta_pass.references.ttir_types import TtirType, parse_type
from volta_pass.references.ttir_values import Sym, Value

#: lanes of the widest tensor times programs that are evaluated at once
BATCH_LANES = 1 << 22


@dataclass(slots=True)
class TtirProgram:
    """A decoded TTIR module: its one public function. ``module`` keeps the MLIR for diagnostics."""

    function: Function
    module: Any

    @property
    def name(self) -> str:
        return self.function.name

    def diagnose(self, user_loc: str, message: str) -> str:
        """Emit an MLIR error at the first operation of a place "file.py:12:3" (of the module, if none stands there); its text."""
        found = [self.module.operation]

        def visit(op: Any) -> Any:
            place = user_line(op.location)
            if place is not None and str(place) == user_loc:
                found.append(op)
                return mlir_ir().WalkResult.INTERRUPT
            return mlir_ir().WalkResult.ADVANCE

        self.module.operation.walk(visit, mlir_ir().WalkOrder.PRE_ORDER)
        return diagnose(found[-1], message)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the function's arguments, where their locations carry them."""
        return self.function.arg_names


def load_ttir(generic_text: str) -> TtirProgram:
    """Parse and decode TTIR in generic form. Raises ParseError, or UnsupportedError naming an operation and its source line."""
    module = parse_module(generic_text)
    functions = {str(op.attributes["sym_name"].value): op for op in module.body.operations if op.operation.name == "tt.func"}
    public = [name for name, op in functions.items() if _visibility(op) == "public"] or list(functions)
    if len(public) != 1:
        raise UnsupportedError(f"a module with {len(public)} public functions: {', '.join(public)}", feature="tt.func")
    decoded: dict[str, Function] = {}
    open_calls: list[str] = []

    def resolve(name: str) -> Function:
        if name in open_calls:
            raise UnsupportedError(f"recursive call of {name}", feature="tt.call")
        if name not in decoded:
            if name not in functions:
                raise UnsupportedError(f"call of {name}, which the module does not define", feature="tt.call")
            open_calls.append(name)
            decoded[name] = _decode(name, functions[name], resolve)
            open_calls.pop()
        return decoded[name]

    return TtirProgram(resolve(public[0]), module)


def _visibility(op: Any) -> str:
    attributes = op.attributes
    return str(attributes["sym_visibility"].value) if "sym_visibility" in attributes else "public"


def _decode(name: str, op: Any, resolve: Any) -> Function:
    if not list(op.regions[0].blocks):
        raise UnsupportedError(f"function {name} has no body", feature="tt.func")
    arguments = list(op.regions[0].blocks[0].arguments)
    names = tuple(name_of(a.location) for a in arguments)
    function = Function(name, names, tuple(parse_type(str(a.type)) for a in arguments))
    Decoder(resolve).decode(op, function)
    return function


def evaluate(
    program: TtirProgram,
    bound: BoundLaunch,
    args: Sequence[str] | None = None,
    programs: Sequence[tuple[int, int, int]] | None = None,
    budget: Budget | None = None,
    findings: list[Finding] | None = None,
    library: Library | None = None,
    freedoms: Freedoms | None = None,
) -> dict[str, Footprint]:
    """Run the program over the launch's grid; what it wrote, per tensor.

    ``args`` names the launch argument of each function argument in order (default: all but null pointers, in order);
    ``programs`` are the program ids to run (default: the launch's CTAs). What is wrong with the tile program itself
    (accesses out of bounds, conflicts between programs) is appended to ``findings``, what it leaves open to
    ``freedoms``. ``library`` has the code of functions that the compiler approximates.
    Raises LaunchError, NotStructuredError, UnsupportedError, BudgetError.
    """
    budget = budget or Budget()
    grid = bound.launch.grid
    log = FindingLog(grid)
    memory = Memory(bound, log)
    memory.library = library
    if freedoms is not None:
        memory.freedoms = freedoms
    function = program.function
    values = _arguments(function, bound, args)
    pids = _program_ids(bound, programs)
    batch = max(1, BATCH_LANES // function.max_lanes)
    previous = bound.arena.origin
    try:
        for first in range(0, pids.shape[1], batch):
            x, y, z = pids[:, first : first + batch].astype(np.int32)
            numbers = (x + grid[0] * (y + grid[1] * z)).astype(np.int32)
            frame = Frame([None] * function.registers, (x, y, z), numbers, memory, budget, grid)
            frame.assign(function.body.block.args, values)
            run_function(frame, function)
    except MemoryError as error:
        raise BudgetError(f"the reference is too large: {error}", feature="terms") from None
    finally:
        bound.arena.origin = previous
    if findings is not None:
        findings.extend(log.findings())
    return memory.footprints()


def _program_ids(bound: BoundLaunch, programs: Sequence[tuple[int, int, int]] | None) -> np.ndarray:
    """Program ids as rows x, y, z."""
    chosen = programs if programs is not None else bound.launch.ctas
    if chosen is None:
        x, y, z = bound.launch.grid
        number = np.arange(x * y * z)
        return np.array([number % x, number // x % y, number // (x * y)])
    return np.array(chosen, np.int64).reshape(-1, 3).T


def _arguments(function: Function, bound: BoundLaunch, names: Sequence[str] | None) -> list[Value]:
    """Values of the function's arguments. Raises LaunchError where they do not fit the launch."""
    by_name = {arg.name: arg for arg in bound.launch.args if not isinstance(arg, NullArg)}
    given = list(by_name) if names is None else list(names)
    if names is None:
        given = [arg.name for arg in bound.launch.args if not isinstance(arg, NullArg)]
    if len(given) != len(function.arg_types):
        shown = ", ".join(name or "?" for name in function.arg_names)
        raise LaunchError(f"{function.name} takes {len(function.arg_types)} arguments ({shown}), the launch gives {len(given)}")
    values = []
    for name, kind in zip(given, function.arg_types):
        if name not in by_name:
            raise LaunchError(f"{function.name}: no launch argument is named {name}")
        values.append(_argument(by_name[name], kind, bound))
    return values


def _argument(arg: TensorArg | ScalarArg, kind: TtirType, bound: BoundLaunch) -> Value:
    if isinstance(arg, TensorArg):
        if kind.kind != "ptr":
            raise LaunchError(f"argument {arg.name} is a tensor, the kernel takes a scalar")
        return np.array([bound.by_name[arg.name].address], np.int64)
    if kind.kind == "ptr":
        raise LaunchError(f"argument {arg.name} is a scalar, the kernel takes a pointer")
    if isinstance(arg.value, str):
        ids = np.array([bound.scalar_ids[arg.name]], np.int32)
        return Sym(ids) if kind.is_float else Sym(ids, *dtype_range(arg.dtype))
    if kind.is_float:
        return Sym(float_ids(np.array([arg.value], np.float64), kind.fmt, bound.arena))
    number = int(arg.value) & ((1 << kind.width) - 1)
    return np.array([number], np.uint64).astype(f"u{kind.element_bytes}").view(kind.dtype)


__all__ = ["Budget", "TtirOrigin", "TtirProgram", "evaluate", "load_ttir"]
