"""The machine: executes a PTX function over a bound launch, column by column."""

from ptx_engine.machine.execution import Budget, Execution
from ptx_engine.machine.preparation import choose_entry
from ptx_engine.machine.program import PtxOrigin
from ptx_engine.machine.runs import execute

__all__ = ["Budget", "Execution", "PtxOrigin", "choose_entry", "execute"]
