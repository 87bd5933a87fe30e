"""Truth values of a tile program: concrete columns of bool, or 0/1 terms."""

from __future__ import annotations

import numpy as np

from ptx_engine.terms.ops import Op
from volta_pass.references.tile_scope import Scope
from volta_pass.references.ttir_predicates import negation, predicate_logic
from volta_pass.references.ttir_types import TtirType
from volta_pass.references.ttir_values import Sym, Value, bounds, concrete, emitted, id_operand, int_ids, unify

BOOL = TtirType("int", 1)


def truth(scope: Scope, value: Value) -> np.ndarray | Sym:
    """A condition as bools where it is concrete, else as 0/1 terms."""
    numbers = concrete(value, BOOL, scope.arena)
    if numbers is not None:
        return numbers.astype(bool)
    assert isinstance(value, Sym)
    return value


def conjunction(scope: Scope, a: Value, b: Value) -> Sym:
    """Both hold; at least one is symbolic."""
    return predicate_logic(Op.BITAND, scope.arena, scope.rank, a, b)


def opposite(scope: Scope, value: np.ndarray | Sym) -> np.ndarray | Sym:
    """not."""
    return negation(scope.arena, scope.rank, value) if isinstance(value, Sym) else ~value


def choose(scope: Scope, condition: np.ndarray | Sym, a: Value, b: Value, kind: TtirType) -> Value:
    """``a`` where the condition holds, else ``b``, lane by lane."""
    if isinstance(condition, Sym):
        return _choose_symbolic(scope, condition, a, b, kind)
    if condition.size == 1:
        return a if condition.item() else b
    (left, right), remake = unify([a, b], kind, scope.arena)
    return remake(np.where(condition, left, right))


def _choose_symbolic(scope: Scope, condition: Sym, a: Value, b: Value, kind: TtirType) -> Value:
    arena = scope.arena
    bits = ""
    if isinstance(a, Sym) and isinstance(b, Sym):
        (left, right), remake = unify([a, b], kind, arena)
        sample = remake(left[:0])
        bits = sample.bits if isinstance(sample, Sym) else ""
    else:
        left, right = int_ids(a, arena), int_ids(b, arena)
    ids = emitted(arena.select(id_operand(condition.ids), id_operand(left), id_operand(right)), scope.rank)
    if kind.is_float:
        return Sym(ids)
    pairs = [bounds(a), bounds(b)]
    lows, highs = [p[0] for p in pairs], [p[1] for p in pairs]
    low = None if None in lows else min(x for x in lows if x is not None)
    high = None if None in highs else max(x for x in highs if x is not None)
    return Sym(ids, low, high, bits)
