"""A term of one arena emitted again in another, with columns in place of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ptx_engine.terms.arena import Arena
from ptx_engine.terms.ops import TABLE, Op
from ptx_engine.terms.storage import CONST_CAP, Ids

_FOLDED: dict[Op, str] = {
    Op.ADD: "add", Op.SUB: "sub", Op.MUL: "mul", Op.DIV: "div", Op.NEG: "neg", Op.FMA: "fma", Op.MAX: "maximum", Op.MIN: "minimum",
    Op.ABS: "abs", Op.EXP2: "exp2", Op.LOG2: "log2", Op.SQRT: "sqrt", Op.ITE: "select",
}  # fmt: skip
_UNARY = frozenset({Op.TANH, Op.SIN, Op.COS, Op.ERF, Op.FLOOR, Op.CEIL, Op.ROUND_EVEN, Op.TRUNC})
_COMPARISONS = frozenset({Op.LT, Op.LE, Op.EQ, Op.NE})
_LOGIC = frozenset({Op.AND, Op.OR, Op.NOT})


def replayed(source: Arena, root: int, target: Arena, leaves: Mapping[int, Ids]) -> Ids:
    """``root`` of ``source`` in ``target``; ``leaves`` gives the column of each input id. Folds as if it were computed there.

    Raises KeyError for an input without a column, ValueError for a record (a dot product or a wide sum).
    """
    order = _reachable(source, root)
    values: dict[int, Ids] = dict(leaves)
    for ident in order:
        if 0 <= ident < CONST_CAP:
            values[ident] = target.const(source.consts[ident])
        elif ident >= CONST_CAP:
            op, *operands = source.node(ident)
            values[ident] = _emitted(source, target, op, operands, values)
    return values[root]


def _reachable(source: Arena, root: int) -> list[int]:
    """All ids below a term, operands first."""
    seen, todo = {root}, [root]
    while todo:
        ident = todo.pop()
        if ident < CONST_CAP:
            continue
        op, *operands = source.node(ident)
        if TABLE[op].record:
            raise ValueError(f"{op.name} cannot be replayed")
        for operand in operands[: TABLE[op].arity]:
            if operand not in seen:
                seen.add(operand)
                todo.append(operand)
    return sorted(seen)


def _emitted(source: Arena, target: Arena, op: Op, operands: list[int], values: Mapping[int, Ids]) -> Ids:
    row = TABLE[op]
    ids = [values[operand] for operand in operands[: row.arity]]
    if op in _FOLDED:
        method: Callable[..., Ids] = getattr(target, _FOLDED[op])
        return method(*ids)
    if op is Op.OPAQUE:
        return target.opaque(source.opaque_names[operands[2]], ids[0], ids[1])
    if op in _UNARY:
        return target.unary(op, ids[0])
    if op in _COMPARISONS:
        return target.compare(op, ids[0], ids[1])
    if op in _LOGIC:
        return target.logic(op, *ids)
    plain = operands[row.arity : row.arity + len(row.plain)]
    return target.emit(op, *ids, *plain)
