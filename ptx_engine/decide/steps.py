"""Batches of nodes that can be evaluated at once, and the parts in which a node is needed.

Bit 0 of a need mask is the value itself; the argument of an exponential is needed one level up (its part in the field of
exponents, see ``fingerprint``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from ptx_engine.terms.ops import TABLE, Op

#: parts that exist: the value, its exponent part, the exponent part of that
LEVELS = 3
ALL_PARTS = (1 << LEVELS) - 1

#: operators whose value at one level is made from their argument's value at the next
RAISING = frozenset((Op.EXP2, Op.TANH))

ID_SLOTS: dict[Op, tuple[bool, bool, bool]] = {
    op: tuple(slot < row.arity and "abc"[slot] not in row.plain for slot in range(3))  # type: ignore[misc]
    for op, row in TABLE.items()
}
#: operator -> which of a, b, c it has, ids or plain ints
USED_SLOTS: dict[Op, tuple[bool, bool, bool]] = {
    op: tuple(slot < row.arity or "abc"[slot] in row.plain for slot in range(3))  # type: ignore[misc]
    for op, row in TABLE.items()
}
RECORDS = frozenset(op for op, row in TABLE.items() if row.record)


class Mode(Enum):
    """WHOLE: every node of the arena, records as units. CONE: only nodes below the outputs, records node by node. EMISSIONS: what
    is below the outputs, emission by emission, records as units."""

    WHOLE = "whole"
    EMISSIONS = "emissions"
    CONE = "cone"


@dataclass(slots=True)
class Step:
    """Nodes of one operator that can be evaluated at once. ``need`` holds the part mask of each node.

    ``a``, ``b``, ``c`` hold operand ids or plain ints as the operator's row says. Records carry ``rows`` (n,M,K), ``cols``
    (n,N,K), ``acc`` (n,M,N) with ``ids`` (n,M,N), or ``operands`` (n,L) with ``ids`` (n,); ``need`` is per ``n``.
    """

    op: Op
    ids: np.ndarray
    need: np.ndarray
    a: np.ndarray | None = None
    b: np.ndarray | None = None
    c: np.ndarray | None = None
    rows: np.ndarray | None = None
    cols: np.ndarray | None = None
    operands: np.ndarray | None = None

    def restricted(self, bit: int) -> Step | None:
        """The part of this step that is needed at a level (itself if all of it is)."""
        wanted = (self.need & bit) != 0
        if wanted.all():
            return self
        if not wanted.any():
            return None
        return self.pick(np.flatnonzero(wanted))

    def pick(self, chosen: "np.ndarray | slice") -> Step:
        """The step over a selection of its first axis."""
        parts = (self.ids, self.need, self.a, self.b, self.c, self.rows, self.cols, self.operands)
        return Step(self.op, *(None if x is None else x[chosen] for x in parts))  # type: ignore[arg-type]

    def operand_ids(self) -> list[np.ndarray]:
        """All arrays of operand ids (plain slots left out)."""
        slots = ID_SLOTS[self.op]
        found = [x for x, used in zip((self.a, self.b, self.c), slots) if used and x is not None]
        if self.rows is not None and self.cols is not None and self.c is not None:
            found += [self.rows, self.cols, self.c]
        if self.operands is not None:
            found.append(self.operands)
        return found

    def held(self) -> int:
        """How many ids it holds."""
        return self.ids.size + sum(x.size for x in self.operand_ids())

    def moved(self, place: Callable[[np.ndarray], np.ndarray]) -> Step:
        """The same step with ``place`` of its ids for them."""
        slots = ID_SLOTS[self.op]
        if self.rows is not None and self.cols is not None and self.c is not None:
            return replace(self, ids=place(self.ids), c=place(self.c), rows=place(self.rows), cols=place(self.cols))
        a, b, c = (place(x) if used and x is not None else x for x, used in zip((self.a, self.b, self.c), slots))
        operands = None if self.operands is None else place(self.operands)
        return replace(self, ids=place(self.ids), a=a, b=b, c=c, operands=operands)
