"""The real-number oracle: terms evaluated in float64 at many points at once, over the batches of ``levels``.

A value that is not a real number (0/0, the logarithm of a negative number, an operation without a meaning) is NaN and
stays NaN; infinities appear only where a special constant or an overflow put them. The oracle finds candidates for a
witness; ``precise`` confirms them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ptx_engine.decide.field import GOLDEN, key, mix
from ptx_engine.decide.levels import Plan, Step, plan, store
from ptx_engine.decide.tiles import product
from ptx_engine.terms.arena import Arena
from ptx_engine.terms.ops import Op

#: ids -> values (n, points)
InputValues = Callable[[np.ndarray], np.ndarray]
_CHUNK = 1 << 15


class Reals:
    """Values of everything below some outputs at the points that ``inputs`` describes; float64 (n, points)."""

    def __init__(self, arena: Arena, outputs: np.ndarray, inputs: InputValues, *, order: Plan | None = None) -> None:
        self.arena = arena
        self.plan = order if order is not None else plan(arena, outputs)
        ids = self.plan.input_ids()
        leaves = inputs(ids)
        self.points = leaves.shape[1]
        self.values = np.zeros((self.plan.count, self.points))
        self.values[self.plan.at(ids)] = leaves
        for ident in self.plan.constant_ids():
            self.values[ident] = float(arena.consts[int(ident)].value())
        with np.errstate(all="ignore"):
            self._run()

    def _run(self) -> None:
        for step in self.plan.each():
            evaluator = EVALUATORS[step.op]
            size = max(1, _CHUNK // max(1, step.operands.shape[1])) if step.operands is not None else _CHUNK
            for start in range(0, len(step.need), size):
                part = step if len(step.need) <= size else step.pick(slice(start, start + size))
                store(self.values, part.ids, evaluator(self, part))

    def of(self, ids: np.ndarray) -> np.ndarray:
        """Values of ids below the outputs: (n, points)."""
        return self.values.take(self.plan.at(ids), axis=0)

    def get(self, ids: "np.ndarray | None") -> np.ndarray:
        assert ids is not None
        return self.values.take(ids, axis=0)


# --- points --------------------------------------------------------------------------------------


def integer_range(fmt: str) -> tuple[int, int] | None:
    """The values of an integer element format ("s8", "u4", "pred"), or None for a float format."""
    if fmt == "pred":
        return 0, 1
    if fmt[:1] in ("s", "u") and fmt[1:].isdigit():
        width = int(fmt[1:])
        return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if fmt[0] == "s" else (0, (1 << width) - 1)
    return None


#: how the float inputs of a point are drawn: least value, greatest value, grid
Style = tuple[float, float, float]
STYLES: tuple[Style, ...] = (
    (-2.0, 2.0, 2.0**-10),
    (-2.0, 2.0, 0.5),  # a coarse grid: ties
    (2.0**-6, 2.0, 2.0**-10),  # positive: inside the domain of logarithms and roots
    (-16.0, 16.0, 2.0**-6),
)


def random_inputs(
    arena: Arena, seed: int = 0, styles: Sequence[Style] = STYLES, of_tensors: Sequence[Sequence[Style]] | None = None
) -> InputValues:
    """Random values for input ids, one point per style, on short binary grids so that they print exactly; ``of_tensors``: styles
    for each tensor, in the place of those for all.

    Integer formats are drawn from their range, from a small part of it at every second point.
    """

    def values(ids: np.ndarray) -> np.ndarray:
        result = np.zeros((len(ids), len(styles if of_tensors is None else of_tensors[0])))
        flat = -1 - np.asarray(ids, np.int64)
        owner = np.searchsorted(np.array([entry.base for entry in arena.inputs], np.int64), flat, side="right") - 1
        for number in np.unique(owner):
            entry, chosen = arena.inputs[int(number)], owner == number
            index = (flat[chosen] - entry.base).astype(np.uint64)
            for point, style in enumerate(styles if of_tensors is None else of_tensors[int(number)]):
                words = mix(index * GOLDEN + np.uint64(key(seed, "real", entry.name, point)))
                result[chosen, point] = _draw(words, entry.fmt, point, style)
        return result

    return values


def _draw(words: np.ndarray, fmt: str, point: int, style: tuple[float, float, float]) -> np.ndarray:
    bounds = integer_range(fmt)
    if bounds is None:
        low, high, grid = style
        return low + (words % np.uint64(round((high - low) / grid) + 1)).astype(np.float64) * grid
    low_i, high_i = bounds
    if point % 2:
        low_i, high_i = max(low_i, -9), min(high_i, 9)
    low_i, high_i = max(low_i, -(1 << 40)), min(high_i, 1 << 40)
    return low_i + (words % np.uint64(high_i - low_i + 1)).astype(np.float64)


# --- evaluators: one per operator ----------------------------------------------------------------

Evaluator = Callable[[Reals, Step], np.ndarray]
EVALUATORS: dict[Op, Evaluator] = {}


def _evaluates(*ops: Op) -> Callable[[Evaluator], Evaluator]:
    def register(function: Evaluator) -> Evaluator:
        for op in ops:
            if op in EVALUATORS:
                raise KeyError(f"two evaluators for {op.name}")
            EVALUATORS[op] = function
        return function

    return register


def _from_unary(function: Callable[[np.ndarray], np.ndarray]) -> Evaluator:
    return lambda reals, step: function(reals.get(step.a))


def _from_binary(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Evaluator:
    return lambda reals, step: function(reals.get(step.a), reals.get(step.b))


def _divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray(np.where(y == 0, np.nan, x / y))


def _pow(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where((x == 0) & (y < 0), np.nan, np.power(x, y))


def _erf(x: np.ndarray) -> np.ndarray:
    return np.fromiter(map(math.erf, x.ravel()), np.float64, x.size).reshape(x.shape)


def _holds(compare: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda x, y: np.where(np.isnan(x) | np.isnan(y), np.nan, compare(x, y))


def _integers(operation: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """An operation on int64 two's complement; NaN where a side is no integer of that range."""

    def apply(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        good = (np.abs(x) < 2.0**62) & (np.abs(y) < 2.0**62)
        result = operation(np.where(good, x, 0).astype(np.int64), np.where(good, y, 0).astype(np.int64))
        return np.where(good, result.astype(np.float64), np.nan)

    return apply


_UNARY: dict[Op, Callable[[np.ndarray], np.ndarray]] = {
    Op.NEG: np.negative, Op.ABS: np.abs, Op.EXP2: np.exp2, Op.LOG2: np.log2, Op.SQRT: np.sqrt, Op.TANH: np.tanh, Op.SIN: np.sin,
    Op.COS: np.cos, Op.ERF: _erf, Op.FLOOR: np.floor, Op.CEIL: np.ceil, Op.ROUND_EVEN: np.rint, Op.TRUNC: np.trunc,
    Op.NOT: lambda x: 1.0 - x,
}  # fmt: skip
_BINARY: dict[Op, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.DIV: _divide, Op.MAX: np.maximum, Op.MIN: np.minimum, Op.POW: _pow,
    Op.LT: _holds(np.less), Op.LE: _holds(np.less_equal), Op.EQ: _holds(np.equal), Op.NE: _holds(np.not_equal),
    Op.AND: np.minimum, Op.OR: np.maximum,
    Op.FLOORDIV: lambda x, y: np.where(y == 0, np.nan, np.floor(x / y)),
    Op.TRUNCDIV: lambda x, y: np.where(y == 0, np.nan, np.trunc(x / y)),
    Op.TRUNCREM: lambda x, y: np.where(y == 0, np.nan, np.fmod(x, y)),
    Op.BITAND: _integers(np.bitwise_and), Op.BITOR: _integers(np.bitwise_or), Op.BITXOR: _integers(np.bitwise_xor),
    Op.SHL: lambda x, y: x * np.exp2(y), Op.SHR: lambda x, y: np.floor(x * np.exp2(-y)),
}  # fmt: skip
EVALUATORS.update({op: _from_unary(function) for op, function in _UNARY.items()})
EVALUATORS.update({op: _from_binary(function) for op, function in _BINARY.items()})


@_evaluates(Op.CONST)
def _const(reals: Reals, step: Step) -> np.ndarray:
    assert step.a is not None
    values = [float(reals.arena.consts[int(i)].value()) for i in step.a]
    return np.repeat(np.array(values)[:, None], reals.points, axis=1)


@_evaluates(Op.FMA)
def _fma(reals: Reals, step: Step) -> np.ndarray:
    return np.asarray(reals.get(step.a) * reals.get(step.b) + reals.get(step.c))


@_evaluates(Op.ITE)
def _ite(reals: Reals, step: Step) -> np.ndarray:
    condition = reals.get(step.a)
    return np.where(np.isnan(condition), np.nan, np.where(condition != 0, reals.get(step.b), reals.get(step.c)))


@_evaluates(Op.DOT)
def _dot(reals: Reals, step: Step) -> np.ndarray:
    rows = np.ascontiguousarray(np.moveaxis(reals.get(step.rows), -1, 0))  # for BLAS
    cols = np.ascontiguousarray(np.moveaxis(reals.get(step.cols), -1, 0))
    return np.asarray(np.moveaxis(product(rows, cols.swapaxes(-1, -2)), 0, -1) + reals.get(step.c))


@_evaluates(Op.NSUM)
def _nsum(reals: Reals, step: Step) -> np.ndarray:
    return np.asarray(reals.get(step.operands).sum(axis=1))


@_evaluates(Op.NMAX)
def _nmax(reals: Reals, step: Step) -> np.ndarray:
    return np.asarray(reals.get(step.operands).max(axis=1))


@_evaluates(Op.NMIN)
def _nmin(reals: Reals, step: Step) -> np.ndarray:
    return np.asarray(reals.get(step.operands).min(axis=1))


@_evaluates(Op.WRAP)
def _wrap(reals: Reals, step: Step) -> np.ndarray:
    assert step.b is not None
    x, width = reals.get(step.a), step.b[:, None]
    size = np.exp2(np.abs(width).astype(np.float64))
    low = np.mod(x, size)
    low = np.where((width < 0) & (low >= size / 2), low - size, low)
    return np.asarray(np.where((width < 0) & (x >= -size / 2) & (x < size / 2), x, low))  # -1 + 2^64 is no float64


@_evaluates(Op.FIELD)
def _field(reals: Reals, step: Step) -> np.ndarray:
    assert step.b is not None and step.c is not None
    lo, width = step.b[:, None].astype(np.float64), step.c[:, None].astype(np.float64)
    return np.asarray(np.mod(np.floor(reals.get(step.a) * np.exp2(-lo)), np.exp2(width)))


@_evaluates(Op.OPAQUE)
def _opaque(reals: Reals, step: Step) -> np.ndarray:
    return np.full((len(step.ids), reals.points), np.nan)
