"""Where a candidate is no real number although the reference is: equality on a smaller domain is not what was asked.

A proof holds where both sides are defined. If the candidate takes the root or logarithm of something that can be negative
where the reference does not, real inputs are looked for at which only the reference has a value.
"""

from __future__ import annotations

import gmpy2
import numpy as np
from gmpy2 import mpq

from ptx_engine.decide.defined import DEFINED, NONZERO, Signs, first_infinite
from ptx_engine.decide.defined import PARTIAL as PARTIAL_SOMEWHERE
from ptx_engine.decide.levels import Mode, plan
from ptx_engine.decide.oracle import STYLES, InputValues, Reals, Style, integer_range, random_inputs
from ptx_engine.decide.precise import Cone, Value, is_nan
from ptx_engine.decide.sweep import Sweep
from ptx_engine.terms.arena import CONST_CAP, ONE, ZERO, Arena
from ptx_engine.terms.ops import Op

#: operators that are undefined on sets with an interior
PARTIAL = (Op.SQRT, Op.LOG2, Op.POW)
#: how inputs are drawn, some of them negative at one point or another
_STYLES: tuple[Style, ...] = (*STYLES, (-2.0, -(2.0**-6), 2.0**-10), (-16.0, 0.0, 2.0**-6), (-1.0, 1.0, 2.0**-10))


def narrowed(arena: Arena, reference: np.ndarray, candidate: np.ndarray, *, seed: int = 0) -> list[tuple[int, dict[int, mpq], Value]]:
    """Pairs whose candidate is undefined at sampled real inputs where the reference is not.

    Returns positions with the inputs (ids, zero where missing) and the reference's value there.
    """
    ids = np.concatenate((reference, candidate))
    order = plan(arena, ids, Mode.CONE)
    if not np.isin(order.codes, PARTIAL).any():
        return []
    draw = random_inputs(arena, seed, _STYLES)
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


class Vanished:
    """What vanished while the terms were made (0 * x = 0) although it may be undefined, as far as signs do not show that it has a value
    wherever ``outputs`` have one: the reference's, and the candidate's where those are no less defined."""

    def __init__(self, arena: Arena, outputs: np.ndarray) -> None:
        self.arena = arena
        self._ids = np.zeros(0, np.int32)
        self._signs: Signs | None = None
        #: of how many different functions these terms are, and how many of those were looked at
        self.functions = self.looked_at = 0
        dropped = _dropped(arena)
        if not len(dropped):
            return
        self._signs = Signs(arena, dropped)
        self._signs.rely_on(outputs)
        self._ids = dropped[~self._signs.has(dropped, DEFINED)]

    def lines(self) -> list[str]:
        """Ledger lines: what is assumed of it."""
        lines = [_QUOTIENT] if self.arena.dropped_denominators else []
        if not len(self._ids) or self._signs is None:
            return lines
        op, a, b, _ = self.arena.columns()
        quotients = (op[self._ids] == Op.DIV) & (a[self._ids] == ONE)
        denominators = b[self._ids[quotients]]
        if not self._signs.has(denominators, NONZERO).all():
            lines = [_QUOTIENT]
        rest = np.concatenate((self._ids[~quotients], denominators[denominators >= CONST_CAP]))
        rest = rest[~self._signs.has(rest, DEFINED)]
        if len(rest) and Sweep(self.arena, Mode.CONE).reaches(rest, PARTIAL_SOMEWHERE):
            lines.append(_PRODUCT)
        if self.looked_at < self.functions:
            lines.append(f"of {self.functions} functions that vanished so, {self.looked_at} were tried at real inputs")
        return lines

    def narrows(self, reference: list[np.ndarray], *, seed: int = 0) -> dict[int, mpq] | None:
        """Real inputs at which one of these terms has no value, although all outputs of the reference's tensors (ids) have one; None if
        none are seen. From which output a term vanished is not known: any could be it."""
        if not len(self._ids) or self._signs is None or not any(map(len, reference)):
            return None
        ids = self._different()
        kept = np.concatenate([_some(tensor, _LOOKED_AT) for tensor in reference if len(tensor)])
        found = _lost(self.arena, ids, kept, seed)
        return _lost(self.arena, ids, np.unique(np.concatenate(reference)), seed) if found is not None else None

    def _different(self) -> np.ndarray:
        """Some terms of each function that they are of: formulas over the same tensors."""
        assert self._signs is not None
        formulas = self._signs.formulas(self._ids)
        _, first, number = np.unique(formulas, return_index=True, return_inverse=True)
        self.functions, self.looked_at = len(first), min(len(first), _LOOKED_AT)
        each = max(1, _LOOKED_AT // len(first))
        chosen = [_some(np.flatnonzero(number == i), each) for i in _some(np.arange(len(first)), _LOOKED_AT).tolist()]
        return np.asarray(self._ids[np.concatenate(chosen)])


_PARTIAL_SOMEWHERE = np.zeros(256, bool)
_PARTIAL_SOMEWHERE[list(PARTIAL_SOMEWHERE)] = True


def _dropped(arena: Arena) -> np.ndarray:
    """Nodes that vanished and may be undefined, or infinite: as terms were made, and beside the zeros of products of matrices, where they
    are left out of the sums that are compared."""
    if not arena.dropped and not arena.dots:
        return np.zeros(0, np.int32)
    codes, emissions = arena.columns()[0], np.frombuffer(arena.emissions, np.intc)
    partial = _PARTIAL_SOMEWHERE[codes[emissions]]  # (an emission is of one operator)
    first = first_infinite(arena, int(emissions[partial.argmax()]) if partial.any() else len(arena))
    parts = list(arena.dropped)
    for record in arena.dots:
        for zeros, partners in ((record.rows, record.cols), (record.cols, record.rows)):
            if int(partners.max(initial=-1)) >= first and (zeros == ZERO).any():
                beside = (zeros == ZERO).any(axis=1)[:, None, :]
                parts.append(partners[np.broadcast_to(beside, partners.shape)])
    found = np.unique(np.concatenate([np.zeros(0, np.int32), *parts]))
    return np.asarray(found[found >= first])


_QUOTIENT = "a quotient of zero is zero: its denominator is not zero"
_PRODUCT = "a product with zero is zero, also where its other factor takes a quotient, root or logarithm: that is defined"
#: how many terms that vanished are looked at, and how many outputs of a tensor
_LOOKED_AT = 64
#: ranges in which inputs are drawn for them, each on a grid so fine that they are in general position: all tensors in each of these,
#: then each tensor in one of its own
_RANGES = ((-2.0, 2.0), (0.0, 2.0), (-2.0, 0.0), (-100.0, 100.0), (-(2.0**24), 2.0**24), (-(2.0**-10), 2.0**-10), (-1.0, 1.0), (0.5, 1.5))
_MIXED = 16
_ZEROS = 4
_GRID = 2.0**40


def _some(ids: np.ndarray, count: int) -> np.ndarray:
    return np.asarray(ids[np.unique(np.linspace(0, len(ids) - 1, count).astype(np.intp))])


def _styles(arena: Arena, seed: int) -> list[tuple[Style, ...]]:
    """For each tensor the ranges of its elements, one for each point."""
    chosen = np.random.default_rng(seed).integers(0, len(_RANGES), (len(arena.inputs), _MIXED))
    styles = [(low, high, (high - low) / _GRID) for low, high in _RANGES]
    return [(*styles, *(styles[i] for i in row)) for row in chosen.tolist()]


def _with_zeros(arena: Arena, draw: InputValues) -> InputValues:
    """Some more points, at which integers are zero: by chance they hardly are, though an integer is zero at one value out of few."""
    whole = np.array([integer_range(entry.fmt) is not None for entry in arena.inputs], bool)
    bases = np.array([entry.base for entry in arena.inputs], np.int64)

    def values(ids: np.ndarray) -> np.ndarray:
        drawn = draw(ids)
        zeros = drawn[:, :_ZEROS].copy()
        zeros[whole[np.searchsorted(bases, -1 - np.asarray(ids, np.int64), side="right") - 1]] = 0.0
        return np.concatenate((drawn, zeros), axis=1)

    return values if whole.any() else draw


def _lost(arena: Arena, ids: np.ndarray, kept: np.ndarray, seed: int) -> dict[int, mpq] | None:
    """Inputs at which one of ``ids`` has no value, and all of ``kept`` have one."""
    outputs = np.concatenate((ids, kept))
    order = plan(arena, outputs, Mode.CONE if arena.dots else None)  # (else records of products would be taken whole)
    if Op.OPAQUE in order.codes:  # (opaque operations have no value at any point)
        return None
    draw = _with_zeros(arena, random_inputs(arena, seed, of_tensors=_styles(arena, seed)))
    reals = Reals(arena, outputs, draw, order=order)
    undefined, complete = ~np.isfinite(reals.of(ids)), ~np.isnan(reals.of(kept)).any(axis=0)
    inputs = order.input_ids()
    for point in np.flatnonzero(undefined.any(axis=0) & complete).tolist():
        term = int(ids[int(np.argmax(undefined[:, point]))])
        found = {int(i): mpq(*float(x).as_integer_ratio()) for i, x in zip(inputs, draw(inputs)[:, point])}
        cone = Cone(arena, [term])
        if not gmpy2.is_finite(cone.evaluate(found, 128)[term]):  # (and not for an overflow of float64)
            return {i: found[i] for i in cone.inputs} | found  # its own first
    return None
