"""Float instructions over the reals as emissions of terms, for fused code.

The operands are terms that fold with nothing, or literals that do not in their place: an operation is exactly one node of the arena.
"""

from __future__ import annotations

from ptx_engine.isa.magnitude import LOW
from ptx_engine.isa.simple import Floats
from ptx_engine.machine.fused_integers import Operand
from ptx_engine.machine.fused_kinds import INT
from ptx_engine.machine.fused_registers import Registers
from ptx_engine.terms import ONE, ZERO, Arena, Op
from ptx_engine.terms.constants import sign_of_rest
from ptx_engine.terms.folding import LARGEST_FLOAT

#: operator of the algebra -> node
NODES = {
    "add": Op.ADD, "sub": Op.SUB, "mul": Op.MUL, "fma": Op.FMA, "div": Op.DIV, "max": Op.MAX, "min": Op.MIN, "neg": Op.NEG, "abs": Op.ABS,
    "sqrt": Op.SQRT, "ex2": Op.EXP2, "lg2": Op.LOG2, "sin": Op.SIN, "cos": Op.COS, "tanh": Op.TANH,
}  # fmt: skip
#: (operator, place) -> finite constants that fold there beside terms that do not; no row: all do
_FOLDING: dict[tuple[str, int], tuple[int, ...]] = {
    ("add", 0): (ZERO,), ("add", 1): (ZERO,), ("sub", 0): (ZERO,), ("sub", 1): (ZERO,), ("mul", 0): (ZERO, ONE), ("mul", 1): (ZERO, ONE),
    ("fma", 0): (ZERO, ONE), ("fma", 1): (ZERO, ONE), ("fma", 2): (ZERO,), ("div", 0): (ZERO,),
    ("max", 0): (), ("max", 1): (), ("min", 0): (), ("min", 1): (),
}  # fmt: skip


def emit_float(form: Floats, registers: Registers, arena: Arena, origin: object) -> bool:
    """Emit an operation; False where the closure is needed."""
    operands = [registers.operand(slot) for slot in form.sources]
    known = [o for o in operands if o is not None]
    op = NODES.get(form.operator)
    if op is None or len(known) != len(operands):
        return False
    if form.operator == "fma" and _constant(known[2], form, arena) == ZERO:  # the start of a sum: one product
        form, op, known = Floats("mul", form.dst, form.sources[:2], form.fmt), Op.MUL, known[:2]
    terms = [o for o in known if o.kind.fmt is form.fmt]
    ids = [ident for place, o in enumerate(known) if (ident := _id(form, place, o, arena)) is not None]
    if not terms or len(ids) != len(known):
        return False
    if arena.powers and len(terms) == 2 and (op is Op.MUL or (op is Op.FMA and known[2] not in terms)):
        return False  # it may put an exponential together again, or one that has a constant added to it (1 + expf(x))
    if any(o.kind.column for o in terms):
        registers.emit_column(form.dst, form.fmt, int(op), ids, origin)
    else:
        registers.emit(form.dst, form.fmt, (int(op), ids), origin)
    return True


def _constant(operand: Operand, form: Floats, arena: Arena) -> int | None:
    """The id of a literal."""
    return arena.float_bits(operand.literal, form.fmt.name) if operand.kind is INT and operand.literal is not None else None


def _id(form: Floats, place: int, operand: Operand, arena: Arena) -> int | str | None:
    """The register of an operand, or its id as text; None where it may fold."""
    if operand.kind.fmt is form.fmt:
        return form.sources[place]
    ident = _constant(operand, form, arena)
    return None if ident is None or folds(form.operator, place, ident, arena) else str(ident)


def folds(operator: str, place: int, ident: int, arena: Arena) -> bool:
    """Whether a constant may fold in a place of an operator, beside terms that do not; or, added, may round the sum to an integer."""
    folding, number = _FOLDING.get((operator, place)), arena.finite(ident)
    if folding is None or ident in folding or number is None or sign_of_rest(number):
        return True
    return (operator in ("add", "fma") and number.coef >= LOW) or (operator in ("max", "min") and abs(number.coef) == LARGEST_FLOAT)
