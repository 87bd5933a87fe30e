"""Terms that have the shape of a known term: library code that computes a function is read as the function.

A pattern is a term over one input. A column of ids matches lane by lane where operators, constants and sharing agree all the way
down to one term in the input's place; then the function of that term is emitted instead. Whoever makes a pattern vouches that its
term is the function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ptx_engine.terms.ops import TABLE, Op
from ptx_engine.terms.storage import CONST_CAP, NEG_INF, Ids

if TYPE_CHECKING:
    from ptx_engine.terms.arena import Arena


@dataclass(frozen=True, eq=False)
class Pattern:
    """``root`` of ``source`` over the input id ``leaf`` stands for ``function``; ``assumption`` goes into the ledger of who uses it."""

    source: Arena
    root: int
    leaf: int
    function: Callable[[Arena, Ids], Ids]
    assumption: str
    _order: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Raises ValueError for a term of another input, or with a record (a dot product or a wide sum) in it."""
        seen, todo = {self.root}, [self.root]
        while todo:
            ident = todo.pop()
            if ident < 0 and ident != self.leaf:
                raise ValueError("a pattern over more than one input")
            if ident < CONST_CAP:
                continue
            op, *operands = self.source.node(ident)
            if TABLE[op].record:
                raise ValueError(f"{op.name} in a pattern")
            fresh = set(operands[: TABLE[op].arity]) - seen
            seen |= fresh
            todo.extend(fresh)
        if self.leaf not in seen:
            raise ValueError("a pattern without its input")
        self._order.extend(sorted(seen, reverse=True))  # every node before its operands

    def replaced(self, arena: Arena, ids: Ids) -> Ids:
        """The ids with the function in place of every lane that matches."""
        column = np.atleast_1d(np.asarray(ids, np.int32)).ravel()
        alive, x = self.match(arena, column)
        if not alive.any():
            return ids
        arena.assumptions.setdefault(self.assumption)
        result = column.copy()
        result[alive] = self.function(arena, x[alive])
        return int(result[0]) if isinstance(ids, int) else result.reshape(ids.shape)

    def match(self, arena: Arena, column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which lanes match, and the term in the input's place."""
        columns = {self.root: column}
        alive = np.ones(column.shape, bool)
        codes, *slots = arena.columns()
        for ident in self._order:
            if not alive.any():
                break
            here = columns[ident]
            if ident == self.leaf:
                continue
            if ident < CONST_CAP:
                alive &= here == arena.const(self.source.consts[ident])
                continue
            op, *operands = self.source.node(ident)
            alive &= here >= CONST_CAP
            safe = np.where(alive, here, CONST_CAP)
            alive &= codes[safe] == int(op)
            self._follow(arena, op, operands, [slot[safe] for slot in slots], columns, alive)
        return alive, columns.get(self.leaf, column)

    def _follow(
        self, arena: Arena, op: Op, operands: list[int], found: list[np.ndarray], columns: dict[int, np.ndarray], alive: np.ndarray
    ) -> None:
        """The operands of one node: a shared one must be shared, plain ones equal."""
        arity = TABLE[op].arity
        for mine, theirs in zip(operands[:arity], found):
            if mine in columns:
                alive &= columns[mine] == theirs
            else:
                columns[mine] = theirs
        for mine, theirs in zip(operands[arity : arity + len(TABLE[op].plain)], found[arity:]):
            if op is Op.OPAQUE:
                name = self.source.opaque_names[mine]
                mine = arena.opaque_names.index(name) if name in arena.opaque_names else -1
            alive &= theirs == mine


#: operators whose value is no real number where one of their operands is none
_STRICT = {Op.ADD: 2, Op.SUB: 2, Op.MUL: 2, Op.DIV: 2, Op.FMA: 3, Op.NEG: 1}
#: how deep a logarithm is looked for
_DEPTH = 4
_ARITY = np.zeros(256, np.int8)
_ARITY[[int(op) for op in _STRICT]] = list(_STRICT.values())


@dataclass(frozen=True, eq=False)
class Guard:
    """``c ? -inf : e`` is ``e`` where ``c`` says that x is zero, and ``e`` is computed from log2(x) by arithmetic alone: at zero
    neither is a real number, elsewhere they are the same. Compilers fold the arithmetic behind a logarithm into both ways of its code.

    ``zero`` matches conditions that are true where their leaf is zero and nowhere else: whoever makes it vouches for that.
    """

    zero: Pattern

    def replaced(self, arena: Arena, ids: Ids) -> Ids:
        """The ids without the guard in every lane that has one."""
        column = np.atleast_1d(np.asarray(ids, np.int32)).ravel()
        codes, a, b, c = arena.columns()
        alive = column >= CONST_CAP
        at = np.where(alive, column, CONST_CAP)
        alive &= (codes[at] == int(Op.ITE)) & (b[at] == NEG_INF)
        if not alive.any():
            return ids
        is_zero, x = self.zero.match(arena, a[at])
        alive &= is_zero & self._computed_from(arena, c[at], x)
        if not alive.any():
            return ids
        result = np.where(alive, c[at], column)
        return int(result[0]) if isinstance(ids, int) else result.reshape(ids.shape)

    @staticmethod
    def _computed_from(arena: Arena, column: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Which terms are log2(x), or arithmetic on it."""
        codes, *slots = arena.columns()
        found, level = np.zeros(column.shape, bool), [column]
        for _ in range(_DEPTH + 1):
            below = []
            for ids in level:
                at = np.where(ids >= CONST_CAP, ids, CONST_CAP)
                inner = ids >= CONST_CAP
                found |= inner & (codes[at] == int(Op.LOG2)) & (slots[0][at] == x)
                arity = _ARITY[codes[at]] * inner
                below += [np.where(arity > i, slots[i][at], 0) for i in range(3) if (arity > i).any()]
            level = below
        return found
