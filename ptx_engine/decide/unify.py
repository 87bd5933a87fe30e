"""Constants of the candidate that differ from the reference's in the last place of f32, read as the reference's.

Only under the assumption ``constants-within-1-ulp``: the candidate's terms are emitted again with the constants replaced,
as far as they depend on them, and each replacement is named in the ledger with both values. Constants of integers are never
replaced: those are exact.
"""

from __future__ import annotations

import numpy as np

from ptx_engine.decide.levels import Plan, Step, plan
from ptx_engine.decide.near_constants import close_constants, folded_constants, within_ulp
from ptx_engine.decide.whole_numbers import whole_constants
from ptx_engine.terms.arena import CONST_CAP, Arena
from ptx_engine.terms.ops import TABLE, Op

#: the assumption under which this is done
CONSTANTS_WITHIN_1_ULP = "constants-within-1-ulp"


def unified(arena: Arena, reference: np.ndarray, candidate: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Both sides' ids with the candidate's constants within 1 ulp (f32) of a constant of the reference replaced by it, and a
    constant of either side within 1 ulp of a product of two of the other by that product; and ledger lines."""
    orders = plan(arena, reference), plan(arena, candidate)
    mine, theirs = (order.constant_ids().tolist() for order in orders)
    close = _pairs(arena, close_constants(arena, mine, theirs)) + _pairs(arena, folded_constants(arena, mine, theirs))
    folded = _pairs(arena, folded_constants(arena, theirs, mine))
    if close or folded:
        whole = [whole_constants(order).possible | _whole_outputs(arena, ids) for order, ids in zip(orders, (reference, candidate))]
        close = [(a, b) for a, b in close if a not in whole[0] and b not in whole[1]]
        folded = [(a, b) for a, b in folded if a not in whole[1] and b not in whole[0]]
    lines = [f"{CONSTANTS_WITHIN_1_ULP}: {_text(arena, b)} in the candidate is {_text(arena, a)} in the reference" for a, b in close]
    lines += [f"{CONSTANTS_WITHIN_1_ULP}: {_text(arena, b)} in the reference is {_text(arena, a)} in the candidate" for a, b in folded]
    if close:
        candidate = _Rebuild(arena, orders[1], {b: a for a, b in close}).ids_of(candidate)
    if folded:
        reference = _Rebuild(arena, orders[0], {b: a for a, b in folded}).ids_of(reference)
    return reference, candidate, lines


def _whole_outputs(arena: Arena, outputs: np.ndarray) -> set[int]:
    """The whole constants among outputs, which may be integers."""
    ids = set(np.unique(outputs[(outputs >= 0) & (outputs < CONST_CAP)]).tolist())
    return {i for i in ids if arena.consts[i].is_rational and arena.consts[i].coef.denominator == 1}


def _pairs(arena: Arena, found: list[tuple[int, int, float]]) -> list[tuple[int, int]]:
    return [(a, b) for a, b, _ in found if within_ulp(arena.consts[a], arena.consts[b])]


def _text(arena: Arena, ident: int) -> str:
    const = arena.consts[ident]
    return f"{float(const.value()):.10g}" if const.is_rational else f"{const} = {float(const.value()):.10g}"


class _Rebuild:
    """New ids by position: unchanged terms keep theirs."""

    def __init__(self, arena: Arena, order: Plan, replace: dict[int, int]) -> None:
        self.arena, self.order = arena, order
        self.new = order.ids.copy()
        for old, new in replace.items():
            self.new[order.at(np.array([old]))] = new
        for step in order.steps:
            self._step(step)

    def ids_of(self, ids: np.ndarray) -> np.ndarray:
        return np.asarray(self.new[self.order.at(ids)])

    def _step(self, step: Step) -> None:
        if step.rows is not None and step.cols is not None and step.c is not None:
            if any(self._changed(x).any() for x in (step.rows, step.cols, step.c)):
                rows, cols, acc = (np.ascontiguousarray(self.new[x]) for x in (step.rows, step.cols, step.c))
                self.new[step.ids] = self.arena.dot(rows, cols, acc)
        elif step.operands is not None:
            chosen = self._changed(step.operands).any(axis=1)
            if chosen.any():
                self.new[step.ids[chosen]] = self.arena.nary(step.op, self.new[step.operands[chosen]])
        elif step.op is not Op.CONST:
            self._plain(step)

    def _plain(self, step: Step) -> None:
        row = TABLE[step.op]
        columns = (step.a, step.b, step.c)
        used = [x for slot, x in enumerate(columns) if x is not None and slot < row.arity and "abc"[slot] not in row.plain]
        chosen = np.logical_or.reduce([self._changed(x) for x in used])
        if not chosen.any():
            return
        operands = [0 if x is None else (x[chosen] if "abc"[slot] in row.plain else self.new[x[chosen]]) for slot, x in enumerate(columns)]
        self.new[step.ids[chosen]] = self.arena.emit(step.op, *operands)

    def _changed(self, positions: np.ndarray) -> np.ndarray:
        return np.asarray(self.new[positions] != self.order.ids[positions])
