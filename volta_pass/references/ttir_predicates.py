"""Logic of symbolic truth values (i1): and, or, exclusive or, where concrete lanes decide or negate."""

from __future__ import annotations

import numpy as np

from ptx_engine.terms.arena import Arena, Ids
from ptx_engine.terms.ops import Op
from volta_pass.references.ttir_values import Sym, Value, emitted, id_operand, int_ids


def predicate_logic(op: Op, arena: Arena, rank: int, a: Value, b: Value) -> Sym:
    """``op`` is BITAND, BITOR or BITXOR (also equality's negation); operands are bool columns or 0/1 terms."""
    if op is Op.BITXOR:
        return _exclusive(arena, rank, a, b)
    ids = [id_operand(int_ids(v, arena)) for v in (a, b)]
    return Sym(emitted(arena.logic(Op.AND if op is Op.BITAND else Op.OR, *ids), rank), 0, 1)


def negation(arena: Arena, rank: int, a: Sym) -> Sym:
    """not a."""
    return Sym(emitted(arena.logic(Op.NOT, id_operand(a.ids)), rank), 0, 1)


def _exclusive(arena: Arena, rank: int, a: Value, b: Value) -> Sym:
    for term, flip in ((a, b), (b, a)):
        if isinstance(term, Sym) and not isinstance(flip, Sym):
            if not flip.any():
                return Sym(np.broadcast_to(term.ids, np.broadcast_shapes(term.ids.shape, flip.shape)), 0, 1)
            inverted: Ids = negation(arena, rank, term).ids
            return Sym(np.where(flip, inverted, term.ids), 0, 1)
    ids = [id_operand(int_ids(v, arena)) for v in (a, b)]
    return Sym(emitted(arena.compare(Op.NE, *ids), rank), 0, 1)
