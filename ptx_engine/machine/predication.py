"""Predicated instructions: run for all lanes, for none, or for a subset whose results are merged."""

from __future__ import annotations

import numpy as np

from ptx_engine.errors import NotStructuredError
from ptx_engine.isa.decode import Step
from ptx_engine.isa.group import Group
from ptx_engine.isa.values import Sym, Value, choose, uninitialised
from ptx_engine.machine.elements import spread
from ptx_engine.terms import Arena


def concrete_predicate(value: Value, what: str) -> "bool | np.ndarray":
    """A predicate that must be concrete: it decides control or a memory access."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, np.ndarray):
        return value
    if value is None:
        raise uninitialised(f"predicate of {what}")
    if isinstance(value, Sym):
        raise NotStructuredError(
            f"{what} depends on symbolic data", feature=f"symbolic {what}",
            hint="give what it comes from contents (an integer argument in the launch, a module variable in [globals]), or use a select",
        )  # fmt: skip
    return bool(value)


def table_index(value: Value, n: int, targets: int) -> np.ndarray:
    """The place of each lane in the table of a ``brx.idx``. Raises NotStructuredError for symbolic data and places outside."""
    if not isinstance(value, (int, np.ndarray)) or isinstance(value, bool):
        raise NotStructuredError("brx.idx by symbolic data", feature="symbolic branch")
    column = np.broadcast_to(np.asarray(value, np.int64), (n,))
    if int(column.max()) >= targets:
        raise NotStructuredError("brx.idx: the index is outside the table", feature="brx.idx")
    return column


def guarded(arena: Arena, step: Step, predicate: int, negated: bool, reads: list[int], writes: list[int], widths: list[int]) -> Step:
    """The step under ``@p`` or ``@!p``. ``widths`` gives the bits of each register (for merging lanes never written)."""

    def run(g: Group) -> None:
        p = concrete_predicate(g.R[predicate], "a predicated instruction")
        if isinstance(p, bool):
            if p is not negated:
                step(g)
            return
        active = ~p if negated else p
        count = int(np.count_nonzero(active))
        if count == g.n:
            step(g)
        elif count:
            _subset(arena, g, step, active, reads, writes, widths)

    return run


def _subset(arena: Arena, g: Group, step: Step, active: np.ndarray, reads: list[int], writes: list[int], widths: list[int]) -> None:
    where = np.flatnonzero(active)
    sub = g.subset(where, reads)
    step(sub)
    for r in writes:
        g.R[r] = choose(arena, active, spread(sub.R[r], where, g.n), g.R[r], widths[r])
