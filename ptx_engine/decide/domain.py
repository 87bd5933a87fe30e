"""Where a candidate is no real number although the reference is: equality on a smaller domain is not what was asked.

A proof holds where both sides are defined. If the candidate takes the root or logarithm of something that can be negative
where the reference does not, real inputs are looked for at which only the reference has a value.
"""

from __future__ import annotations

import numpy as np
from gmpy2 import mpq

from ptx_engine.decide.levels import Mode, plan
from ptx_engine.decide.oracle import Reals, random_inputs
from ptx_engine.decide.precise import Cone, Value, is_nan
from ptx_engine.decide.sweep import Sweep
from ptx_engine.terms.arena import CONST_CAP, Arena
from ptx_engine.terms.ops import Op

#: operators that are undefined somewhere
_PARTIAL = (Op.SQRT, Op.LOG2, Op.POW, Op.DIV, Op.FLOORDIV, Op.TRUNCDIV, Op.TRUNCREM)
#: operators that are undefined on sets with an interior
PARTIAL = (Op.SQRT, Op.LOG2, Op.POW)


def narrowed(arena: Arena, reference: np.ndarray, candidate: np.ndarray, *, seed: int = 0) -> list[tuple[int, dict[int, mpq], Value]]:
    """Pairs whose candidate is undefined at sampled real inputs where the reference is not.

    Returns positions with the inputs (ids, zero where missing) and the reference's value there.
    """
    ids = np.concatenate((reference, candidate))
    order = plan(arena, ids, Mode.CONE)
    if not np.isin(order.codes, PARTIAL).any():
        return []
    draw = random_inputs(arena, seed)
    reals = Reals(arena, ids, draw, order=order)
    suspects = np.isfinite(reals.of(reference)) & np.isnan(reals.of(candidate))
    found = []
    for position in np.flatnonzero(suspects.any(axis=1)):
        point = int(np.argmax(suspects[position]))
        cone = Cone(arena, [int(reference[position]), int(candidate[position])])
        drawn = draw(np.array(cone.inputs, np.int32))[:, point]
        inputs = {ident: mpq(*float(x).as_integer_ratio()) for ident, x in zip(cone.inputs, drawn)}
        values = cone.evaluate(inputs, 128)
        if is_nan(values[int(candidate[position])]) and not is_nan(values[int(reference[position])]):
            found.append((int(position), inputs, values[int(reference[position])]))
    return found


def vanished(arena: Arena) -> list[str]:
    """Ledger lines for what vanished while the terms were made (0 * x = 0) although it may be undefined."""
    lines = ["a quotient of zero is zero: its denominator is not zero"] if arena.dropped_denominators else []
    if not arena.dropped:
        return lines
    last = max(int(ids.max()) for ids in arena.dropped)
    if not np.isin(arena.columns()[0][CONST_CAP : last + 1], _PARTIAL).any():
        return lines
    if Sweep(arena, Mode.CONE).reaches(np.concatenate(arena.dropped), _PARTIAL):
        lines.append("a product with zero is zero, also where its other factor takes a quotient, root or logarithm: that is defined")
    return lines
