"""The concrete mode: the same executor and specs over IEEE bits instead of terms.

Used for conformance tests of the instruction specs, to replay a counterexample, and to run a kernel without a GPU.
Rounding is as ``isa.concrete`` says; tensor cores and approximate instructions differ from a GPU within the ISA's bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Union

import numpy as np

from ptx_engine.errors import LaunchError
from ptx_engine.findings import Finding
from ptx_engine.isa.algebra import Algebra
from ptx_engine.isa.concrete import ConcreteAlgebra
from ptx_engine.launch import Launch, bind
from ptx_engine.machine.emulate_arguments import Bound, bind_arguments
from ptx_engine.machine.emulate_memory import ByteStorage, ConcreteMemory
from ptx_engine.machine.execution import Budget
from ptx_engine.machine.executor import NO_EXTERNS, Machine
from ptx_engine.machine.memory import Memory
from ptx_engine.machine.preparation import calls_inlined, choose_entry
from ptx_engine.machine.variables import VariableBuffer, zero_bytes
from ptx_engine.syntax import parse
from ptx_engine.syntax.ast import FlatFunction, Module
from ptx_engine.terms import Arena

Extent = Union[int, Sequence[int]]
DEFAULT_BUDGET = Budget()


@dataclass(frozen=True)
class Emulation:
    """What a run did: findings (races, faults), thread-instructions, CTAs, seconds."""

    findings: list[Finding]
    instructions: int
    ctas: int
    seconds: float


class ConcreteMachine(Machine):
    """The machine over IEEE bits."""

    def __init__(self, module: Module, flat: FlatFunction, bound: Bound, budget: Budget, order: bool, source: str) -> None:
        self._storages = [ByteStorage(data) for data in bound.storages]
        super().__init__(module, flat, bound.launch, budget, order, source)

    def _algebra(self) -> Algebra:
        return ConcreteAlgebra()

    def _memory(self, granule: int, shared_bytes: int, local_bytes: int) -> Memory:
        variables = [ByteStorage(zero_bytes(b)) for b in self.bound.buffers if isinstance(b, VariableBuffer)]
        return ConcreteMemory(self.bound, granule, shared_bytes, local_bytes, self.log, self.order, [*self._storages, *variables])

    def write_back(self) -> None:
        """Put what was written into the arguments."""
        for storage in self._storages:
            if storage.source.flags.writeable:
                storage.write_back()


def emulate(
    ptx: "str | Module",
    entry: str | None,
    grid: Extent,
    block: Extent,
    args: Sequence[object],
    dynamic_shared_bytes: int = 0,
    *,
    order: bool = True,
    budget: Budget = DEFAULT_BUDGET,
    externs: Mapping[str, str] = NO_EXTERNS,
) -> Emulation:
    """Run a grid on IEEE values; ``entry`` may be None where the module has one.

    ``args`` in parameter order: NumPy arrays (any strides >= 0, written in place), Python or NumPy scalars, ``bytes`` or a
    structured scalar laid out as C does (``np.dtype(..., align=True)``) for a structure passed by value, None for a null
    pointer. ``grid`` and ``block`` are an int or up to three. ``order`` checks races as well. ``externs`` is as in
    ``execute``. Raises PtxError (LaunchError for arguments that do not fit, UnsupportedError, BudgetError); memory faults
    and races are findings. Arguments are untouched when it raises.
    """
    module = parse(ptx) if isinstance(ptx, str) else ptx
    function = choose_entry(module, entry)
    arguments, storages = bind_arguments(function, args)
    launch = Launch(_extent(grid, "grid"), _extent(block, "block"), tuple(arguments), dynamic_shared_bytes)
    source = ptx if isinstance(ptx, str) else module.source
    bound = bind(launch, Arena())
    machine = ConcreteMachine(module, calls_inlined(function, module, externs, bound), Bound(bound, storages), budget, order, source)
    execution = machine.run()
    machine.write_back()
    return Emulation(execution.findings, execution.instructions, execution.ctas_executed, sum(execution.seconds.values()))


def _extent(value: Extent, what: str) -> tuple[int, int, int]:
    numbers = [value] if isinstance(value, int) else list(value)
    if not 1 <= len(numbers) <= 3 or any(not isinstance(n, (int, np.integer)) or n < 1 for n in numbers):
        raise LaunchError(f"{what} {value!r}: one to three positive numbers are needed")
    x, y, z = (*(int(n) for n in numbers), 1, 1)[:3]
    return x, y, z
