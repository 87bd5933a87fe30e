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
from ptx_engine.terms.arena import CONST_CAP, ONE, Arena
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
    lines = [_QUOTIENT] if arena.dropped_denominators else []
    dropped = _dropped(arena)
    if not len(dropped):
        return lines
    op, a, b, _ = arena.columns()
    quotients = (op[dropped] == Op.DIV) & (a[dropped] == ONE)
    if quotients.any():
        lines = [_QUOTIENT]
        dropped = np.concatenate((dropped[~quotients], b[dropped[quotients]]))
        dropped = dropped[dropped >= CONST_CAP]
    if len(dropped) and Sweep(arena, Mode.CONE).reaches(dropped, _PARTIAL):
        lines.append(_PRODUCT)
    return lines


_QUOTIENT = "a quotient of zero is zero: its denominator is not zero"
_PRODUCT = "a product with zero is zero, also where its other factor takes a quotient, root or logarithm: that is defined"
#: points at which terms that vanished are looked at, in general position; and how many of these terms, and of a tensor's
_GENERAL = ((-2.0, 2.0, 2.0**-40),) * 8
_LOOKED_AT = 64


def _dropped(arena: Arena) -> np.ndarray:
    """The nodes that vanished, if any of them may be undefined."""
    if not arena.dropped:
        return np.zeros(0, np.int32)
    last = max(int(ids.max()) for ids in arena.dropped)
    possible = bool(np.isin(arena.columns()[0][CONST_CAP : last + 1], _PARTIAL).any())
    return np.unique(np.concatenate(arena.dropped)) if possible else np.zeros(0, np.int32)


def _some(ids: np.ndarray) -> np.ndarray:
    return np.asarray(ids[np.unique(np.linspace(0, len(ids) - 1, _LOOKED_AT).astype(np.intp))])


def narrowed_by_vanished(arena: Arena, reference: list[np.ndarray], *, seed: int = 0) -> dict[int, mpq] | None:
    """Real inputs at which a term that vanished beside a zero or an infinity has no value, although all outputs of the
    reference's tensors (ids) have one; None if none are seen. From which output a term vanished is not known: any could be it."""
    dropped = _dropped(arena)
    if not len(dropped) or not any(map(len, reference)):
        return None
    ids, all_kept = _some(dropped), np.unique(np.concatenate(reference))
    found = None
    for kept in (np.concatenate([_some(tensor) for tensor in reference if len(tensor)]), all_kept):
        found = _lost(arena, ids, kept, seed)
        if found is None:
            break
    return found


def _lost(arena: Arena, ids: np.ndarray, kept: np.ndarray, seed: int) -> dict[int, mpq] | None:
    """Inputs at which one of ``ids`` has no value, and all of ``kept`` have one."""
    outputs = np.concatenate((ids, kept))
    order = plan(arena, outputs, Mode.CONE if arena.dots else None)  # (else records of products would be taken whole)
    if not np.isin(order.codes, _PARTIAL).any() or Op.OPAQUE in order.codes:  # (opaque operations have no value at any point)
        return None
    draw = random_inputs(arena, seed, _GENERAL)
    reals = Reals(arena, outputs, draw, order=order)
    lost = np.isnan(reals.of(ids)).any(axis=0) & ~np.isnan(reals.of(kept)).any(axis=0)
    if not lost.any():
        return None
    inputs = order.input_ids()
    return {int(i): mpq(*float(x).as_integer_ratio()) for i, x in zip(inputs, draw(inputs)[:, int(np.argmax(lost))])}
