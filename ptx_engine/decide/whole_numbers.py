"""Which constants of some terms stand in integer arithmetic: there nothing is rounded, and 16777217 is not 16777216.

Terms do not say of what type they are. An operator over integer inputs and whole constants only is one of integers; beside any
float input, quotient or function it is one of floats. What is made of whole constants and conditions alone could be either.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ptx_engine.decide.levels import Plan, Step
from ptx_engine.decide.oracle import integer_range
from ptx_engine.terms.arena import Arena
from ptx_engine.terms.ops import Op

#: kinds of values: of floats, of integers, of either
_FLOAT, _WHOLE, _EITHER = 0, 1, 2
#: no integer of any format is as large
_LARGEST = 1 << 64

_RING = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.FMA, Op.NEG, Op.MAX, Op.MIN, Op.ABS, Op.DOT, Op.NSUM, Op.NMAX, Op.NMIN})
_COMPARISONS = frozenset({Op.LT, Op.LE, Op.EQ, Op.NE})
_INTEGERS = frozenset(
    {Op.WRAP, Op.FIELD, Op.FLOORDIV, Op.TRUNCDIV, Op.TRUNCREM, Op.BITAND, Op.BITOR, Op.BITXOR, Op.SHL, Op.SHR}
)  # fmt: skip
_EITHERS = _COMPARISONS | {Op.AND, Op.OR, Op.NOT, Op.FLOOR, Op.CEIL, Op.ROUND_EVEN, Op.TRUNC}


@dataclass
class WholeConstants:
    """Ids of whole constants that are operands of integers: certainly, and possibly (what is certain is possible)."""

    certain: set[int] = field(default_factory=set)
    possible: set[int] = field(default_factory=set)


def whole_constants(order: Plan) -> WholeConstants:
    """The whole constants of a plan's terms, below 2^64, that some term takes for an integer."""
    found = WholeConstants()
    kinds = np.zeros(order.count, np.uint8)
    constant = np.zeros(order.count, bool)
    places = order.constant_ids()  # (of interned constants the position is the id)
    kinds[places], constant[places] = [_kind_of(order.arena, int(i)) for i in places], True
    leaves = order.input_ids()
    kinds[order.at(leaves)] = [_WHOLE if integer_range(order.arena.input_of(int(i))[0].fmt) else _FLOAT for i in leaves]
    for step in order.steps:
        if step.op is Op.CONST:
            places = step.ids.ravel()
            kinds[places] = [_kind_of(order.arena, int(i)) for i in order.ids[places]]
            constant[places] = True
            continue
        columns = _operands(step)
        context = _context(step.op, [kinds[x] for x in columns], step.ids.shape)
        kinds[step.ids] = _result(step.op, context)
        for column in columns:
            column, around = np.broadcast_arrays(column, context.reshape(context.shape + (1,) * (column.ndim - context.ndim)))
            operands = constant[column] & (kinds[column] == _EITHER)
            for kind, sets in ((_WHOLE, (found.certain, found.possible)), (_EITHER, (found.possible,))):
                ids = order.ids[np.unique(column[operands & (around == kind)])].tolist()
                for chosen in sets:
                    chosen.update(ids)
    return found


def _kind_of(arena: Arena, ident: int) -> int:
    """The kind of a constant."""
    const = arena.consts[int(arena.columns()[1][ident])]
    whole = const.is_rational and const.coef.denominator == 1 and abs(const.coef) < _LARGEST
    return _EITHER if whole else _FLOAT


def _operands(step: Step) -> list[np.ndarray]:
    """The columns of operands whose kinds say what an operator works on: not the condition of a selection."""
    if step.operands is not None:
        return [step.operands]
    if step.rows is not None and step.cols is not None and step.c is not None:
        return [step.rows, step.cols, step.c]
    columns = step.operand_ids()
    return columns[1:] if step.op is Op.ITE else columns


def _context(op: Op, kinds: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """What an operator works on, one kind for each of its nodes (for each product of a record)."""
    rows = len(kinds[0])
    if op in _INTEGERS:
        return np.full(rows, _WHOLE, np.uint8)
    if op not in _RING and op not in _COMPARISONS and op is not Op.ITE:
        return np.full(rows, _EITHER if op in _EITHERS else _FLOAT, np.uint8)
    flat = np.concatenate([x.reshape(rows, -1) for x in kinds], axis=1)
    return np.where((flat == _FLOAT).any(axis=1), _FLOAT, np.where((flat == _WHOLE).any(axis=1), _WHOLE, _EITHER)).astype(np.uint8)


def _result(op: Op, context: np.ndarray) -> "np.ndarray | int":
    return _EITHER if op in _EITHERS else context
