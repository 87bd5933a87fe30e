"""The machine: executes a PTX function over a bound launch, column by column."""

from ptx_engine.machine.executor import Budget, Execution, execute
from ptx_engine.machine.preparation import choose_entry
from ptx_engine.machine.program import PtxOrigin

__all__ = ["Budget", "Execution", "PtxOrigin", "choose_entry", "execute"]
