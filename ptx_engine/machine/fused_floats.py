"""Float instructions over the reals as emissions of terms, for fused code.

The operands are terms that fold with nothing, or literals that do not in their place: an operation is exactly one node of the arena.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptx_engine.isa.simple import Floats
from ptx_engine.machine.fused_integers import Operand
from ptx_engine.machine.fused_kinds import INT, Kind, Shape
from ptx_engine.terms import ONE, ZERO, Arena, Op
from ptx_engine.terms.storage import MAX_PENDING

if TYPE_CHECKING:
    from ptx_engine.machine.fused_code import Code

#: operator of the algebra -> node
NODES = {
    "add": Op.ADD, "sub": Op.SUB, "mul": Op.MUL, "fma": Op.FMA, "div": Op.DIV, "max": Op.MAX, "min": Op.MIN, "neg": Op.NEG, "abs": Op.ABS,
    "sqrt": Op.SQRT, "ex2": Op.EXP2, "lg2": Op.LOG2, "sin": Op.SIN, "cos": Op.COS, "tanh": Op.TANH,
}  # fmt: skip
#: (operator, place) -> finite constants that fold there beside terms that do not; None: all do
_FOLDING: dict[tuple[str, int], tuple[int, ...] | None] = {
    ("add", 0): (ZERO,), ("add", 1): (ZERO,), ("sub", 0): (ZERO,), ("sub", 1): (ZERO,), ("mul", 0): (ZERO, ONE), ("mul", 1): (ZERO, ONE),
    ("fma", 0): (ZERO, ONE), ("fma", 1): (ZERO, ONE), ("fma", 2): (ZERO,), ("div", 0): (ZERO,), ("div", 1): None,
    ("max", 0): (), ("max", 1): (), ("min", 0): (), ("min", 1): (),
}  # fmt: skip
#: the next id of the arena, and the one at which pending emissions must be moved to the arrays
_NEXT = ["new = A.stored + len(pending) // 4", f"most = A.stored + {MAX_PENDING // 4}"]


class FloatCode:
    """Emissions in the code of one block."""

    def __init__(self, code: "Code", arena: Arena) -> None:
        self.code, self.arena = code, arena
        #: whether the local ``new`` is the next id of the arena at the end of the lines so far
        self._counted = False
        self._scalar = False
        self._alone = True

    def prologue(self) -> list[str]:
        """Lines at the top of the function. If nobody else emits in the block, the next id is looked up there alone."""
        if not self._scalar:
            return []
        count = _NEXT if self._alone else []
        if self._alone:
            self.code.lines = [line for line in self.code.lines if line not in _NEXT]
        # an arena in which nothing was emitted yet has no origin to compare with
        return ["pending = A.pending", "emit = pending.extend", "origins = A.origins", "if not origins:", "    return 0", *count]

    def stale(self) -> None:
        """Others may have emitted."""
        self._counted = self._alone = False

    def emit(self, form: Floats, operands: list[Operand], origin: object) -> Kind | None:
        """Emit an operation; the kind of its result, None where the closure is needed."""
        op = NODES.get(form.operator)
        terms = [o for o in operands if o.kind.fmt is form.fmt]
        ids = [self._id(form, place, operand) for place, operand in enumerate(operands)]
        known = [ident for ident in ids if ident is not None]
        if op is None or not terms or len(known) != len(ids):
            return None
        row = ", ".join([str(int(op)), *(known + ["0", "0"])[:3]])
        where = self.code.name(origin)
        if any(o.kind.column for o in terms):
            first, *rest = row.split(", ")
            self.code.lines += [f"A.origin = {where}", f"x{form.dst} = A.emit_column({first}, n, {', '.join(rest)})"]
            self.stale()
            return Kind(Shape.TERMS, fmt=form.fmt)
        self._emit_scalar(form.dst, row, where)
        return Kind(Shape.TERM, fmt=form.fmt)

    def _emit_scalar(self, dst: int, row: str, where: str) -> None:
        self._scalar = True
        if not self._counted:
            self.code.lines += _NEXT
            self._counted = True
        self.code.lines += [
            f"if origins[-1][1] is not {where}:",
            f"    origins.append((new, {where}))",
            f"emit(({row}))",
            f"x{dst} = new",
            "new += 1",
            "if new >= most:",
            "    A.flush()",
            f"    most = A.stored + {MAX_PENDING // 4}",
        ]

    def _id(self, form: Floats, place: int, operand: Operand) -> str | None:
        """The id of an operand as text; None where it may fold."""
        if operand.kind.fmt is form.fmt:
            return operand.text
        if operand.kind is not INT or operand.literal is None:
            return None
        folding = _FOLDING.get((form.operator, place))
        ident = self.arena.float_bits(operand.literal, form.fmt.name)
        if folding is None or ident in folding or self.arena.finite(ident) is None:
            return None
        return str(ident)
