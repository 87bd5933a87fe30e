"""Which terms have a value at all inputs, as signs alone show: a root of a sum of squares, a quotient by a sum of exponentials.

From the terms below some ids, operands first: whether each is a real number everywhere, is nowhere negative, is nowhere zero.
What is not shown so may be shown by other means; nothing is sampled here. An opaque operation counts as a real number (the
verdict names it), an infinity does not, but in a maximum or minimum that it is neutral in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from ptx_engine.decide.oracle import integer_range
from ptx_engine.decide.shape_hash import hash_int, mix
from ptx_engine.decide.steps import ID_SLOTS
from ptx_engine.terms.arena import CONST_CAP, NEG_INF, POS_INF, ZERO, Arena
from ptx_engine.terms.ops import TABLE, Op
from ptx_engine.terms.turns import spans_of

#: operators that are undefined somewhere
PARTIAL = (Op.SQRT, Op.LOG2, Op.POW, Op.DIV, Op.FLOORDIV, Op.TRUNCDIV, Op.TRUNCREM)
#: what is known of a value: it is a real number everywhere; where it is one, it is not negative; and not zero
DEFINED, NONNEGATIVE, NONZERO = 1, 2, 4
_POSITIVE = NONNEGATIVE | NONZERO
#: groups of nodes, and steps from a term to what is below it, beyond which nothing is shown: what one thread emits comes one by one
_MOST = 1 << 11
#: ids looked at together: they stay in the cache
_PIECE = 1 << 17
_EXTREME = frozenset({Op.MAX, Op.MIN, Op.NMAX, Op.NMIN})

_IS_PARTIAL = np.zeros(256, bool)
_IS_PARTIAL[list(PARTIAL)] = True
_USED = np.zeros((3, 256), bool)
for _op, _slots in ID_SLOTS.items():
    _USED[:, _op] = _slots
_RECORDS = np.zeros(256, bool)
_RECORDS[[op for op, row in TABLE.items() if row.record]] = True

Bits = np.ndarray


class Signs:
    """What is known of all terms at and below ``ids``; nothing where there are too many groups of them."""

    def __init__(self, arena: Arena, ids: np.ndarray) -> None:
        self.arena = arena
        self.op, self.a, self.b, self.c = arena.columns()
        nodes = ids[ids >= CONST_CAP]
        self._bits = np.zeros(int(nodes.max(initial=CONST_CAP)) + 1, np.uint8)
        self._bits[: min(len(arena.consts), CONST_CAP)] = [_of_constant(arena, i) for i in range(min(len(arena.consts), CONST_CAP))]
        self._unsigned = np.array([(integer_range(entry.fmt) or (-1, 0))[0] == 0 for entry in arena.inputs], bool)
        self._bases = np.array([entry.base for entry in arena.inputs], np.int64)
        partial = _IS_PARTIAL[self.op[: len(self._bits)]]
        #: the first term that an infinity takes part in, and before which all are real numbers everywhere (behind all where there is none)
        self._infinite = first_infinite(arena, len(self._bits))
        self._first = min(self._infinite, int(partial.argmax()) if partial.any() else len(self._bits))
        #: ids that were looked at, ascending; empty where that was given up
        self.seen = self._below(nodes)
        if len(self._groups()) > _MOST:
            self.seen = self.seen[:0]
        self._run()

    def _run(self, known: np.ndarray | None = None) -> None:
        """Bits of all that was looked at; ``known`` (ascending ids) are real numbers."""
        for group in self._groups():
            found = self._evaluate(Op(int(self.op[group[0]])), group)
            self._bits[group] = found if known is None else found | np.isin(group, known)

    def rely_on(self, outputs: np.ndarray) -> None:
        """Take it that ``outputs`` are real numbers, and with them all that they are made of: but for the branches of selections,
        and unless an infinity takes part (2 to the minus infinite is a real number)."""
        seen = self.seen[~self.has(self.seen, DEFINED)]
        if not len(seen) or self._infinite < len(self._bits):
            return
        low = int(seen[0])
        made = np.zeros(len(self.op) - low, bool)
        frontier = np.unique(outputs[outputs >= low])
        for _ in range(_MOST):
            if not frontier.size:
                self._run(seen[made[seen - low]])
                return
            made[frontier - low] = True
            needed = frontier[self.op[frontier] != np.uint8(Op.ITE)]
            conditions = self.a[frontier[self.op[frontier] == np.uint8(Op.ITE)]]
            frontier = _fresh([*self.operands(needed, beside_zeros=False), conditions], made, low)

    def of(self, ids: np.ndarray) -> Bits:
        """Bits of ids of any shape at or below those given."""
        found = self._bits[np.maximum(ids, 0)]
        leaf = ids < 0
        if leaf.any():
            found = np.where(leaf, DEFINED, found).astype(np.uint8)
            if self._unsigned.any():
                owner = np.searchsorted(self._bases, -1 - ids[leaf].astype(np.int64), side="right") - 1
                found[leaf] |= np.where(self._unsigned[owner], NONNEGATIVE, 0).astype(np.uint8)
        return np.asarray(found)

    def has(self, ids: np.ndarray, bit: int) -> np.ndarray:
        """Whether a bit is shown."""
        return np.asarray((self.of(ids) & bit) == bit)

    def formulas(self, ids: np.ndarray) -> np.ndarray:
        """Numbers of terms that were looked at, alike for terms of one formula over the same tensors, whichever elements it is of."""
        found = np.zeros(len(self._bits), np.uint64)
        found[:CONST_CAP] = np.arange(CONST_CAP, dtype=np.uint64)
        with np.errstate(over="ignore"):
            for group in self._groups():
                found[group] = self._formula(group, found)
        return np.asarray(found[ids])

    def _formula(self, ids: np.ndarray, found: np.ndarray) -> np.ndarray:
        op = Op(int(self.op[ids[0]]))
        total = np.full(len(ids), hash_int(int(op) + 101), np.uint64)
        if TABLE[op].record:
            columns = [x if x.ndim > 1 else x[:, None] for x in self._record_operands(ids)]
        else:
            columns = [column[ids][:, None] for column, used in zip((self.a, self.b, self.c), ID_SLOTS[op]) if used]
            for slot, name in enumerate("abc"):
                if name in TABLE[op].plain:
                    total = mix(total + (self.a, self.b, self.c)[slot][ids].astype(np.uint64))
        for column in columns:
            values = np.where(column < 0, self._tensor(column), found[np.maximum(column, 0)])
            total = mix(total + mix(values).sum(axis=1, dtype=np.uint64))
        return total

    def _tensor(self, ids: np.ndarray) -> np.ndarray:
        """A number for the tensor of each input."""
        owner = np.searchsorted(self._bases, -1 - np.minimum(ids, -1).astype(np.int64), side="right")
        return np.asarray(owner.astype(np.uint64) + np.uint64(1 << 40))

    def operands(self, ids: np.ndarray, beside_zeros: bool = True) -> Iterator[np.ndarray]:
        """Columns of all operands of nodes, any shape; or without the factors that a product of matrices has beside zeros."""
        codes = self.op[ids]
        for slot, column in enumerate((self.a, self.b, self.c)):
            yield column[ids[_USED[slot][codes]]]
        records = ids[_RECORDS[codes]]
        if len(records):
            for part in self._split(records):
                found = self._record_operands(part)
                if len(found) > 1 and not beside_zeros:
                    rows, cols, acc = found
                    found = [np.where(cols == ZERO, ZERO, rows), np.where(rows == ZERO, ZERO, cols), acc]
                yield from found

    # --- order ------------------------------------------------------------------------------------

    def _below(self, nodes: np.ndarray) -> np.ndarray:
        """All nodes whose bits are needed, ascending: what is below an exponential matters only where it may have no value."""
        seen = np.zeros(len(self._bits), bool)
        frontier = np.unique(nodes)
        for _ in range(_MOST):
            if not frontier.size:
                return np.flatnonzero(seen)
            seen[frontier] = True
            deep = frontier[(self.op[frontier] != np.uint8(Op.EXP2)) | (frontier > self._first)]
            frontier = _fresh(self.operands(deep), seen, 0)
        return np.zeros(0, np.intp)

    def _groups(self) -> list[np.ndarray]:
        return list(self._split(self.seen)) if len(self.seen) else []

    def _split(self, ids: np.ndarray) -> Iterator[np.ndarray]:
        """Ascending ids by emission: nodes of one are of one operator and do not depend on each other."""
        owner = np.searchsorted(np.array(self.arena.emissions, np.int64), ids, side="right")
        yield from np.split(ids, np.flatnonzero(np.diff(owner)) + 1)

    def _record_operands(self, ids: np.ndarray) -> list[np.ndarray]:
        """Operands of nodes of one record: lists (n, L); of products rows, columns (n, K) and accumulators."""
        number = int(self.a[ids[0]])
        if self.op[ids[0]] != np.uint8(Op.DOT):
            nary = self.arena.naries[number]
            return [nary.operands[ids - nary.first]]
        record = self.arena.dots[number]
        _, m_count, n_count = record.acc.shape
        group, rest = np.divmod(ids.astype(np.int64) - record.first, m_count * n_count)
        m, n = np.divmod(rest, n_count)
        return [record.rows[group, m], record.cols[group, n], record.acc[group, m, n]]

    # --- operators --------------------------------------------------------------------------------

    def _evaluate(self, op: Op, ids: np.ndarray) -> Bits:
        if op is Op.CONST:
            return np.array([_of_constant(self.arena, int(i)) for i in ids], np.uint8)
        if TABLE[op].record:
            return self._record(op, self._record_operands(ids))
        columns = [column[ids] for column, used in zip((self.a, self.b, self.c), ID_SLOTS[op]) if used]
        x = [self.of(column) for column in columns]
        defined = np.bitwise_and.reduce(x) & DEFINED
        if op in _NEEDS:
            slot, bits = _NEEDS[op]
            defined &= _where(x[slot], bits)
        match op:
            case Op.MUL | Op.FMA:
                known = _product(x[0], x[1], columns[0] == columns[1])
                known = _sum(known, x[2]) if op is Op.FMA else known
            case Op.EXP2:
                defined = defined | (ids < self._first)
                known = NONNEGATIVE | defined * np.uint8(NONZERO)  # (2 to the minus infinite is zero)
            case Op.OPAQUE:
                defined, known = np.full(len(ids), DEFINED, np.uint8), np.zeros(len(ids), np.uint8)
            case Op.WRAP:
                known = np.where(self.b[ids] > 0, NONNEGATIVE, 0).astype(np.uint8)
            case _:
                known = _known(op, x)
        return np.asarray(defined | known, np.uint8)

    def _record(self, op: Op, operands: list[np.ndarray]) -> Bits:
        if op is not Op.DOT:
            (ids,) = operands
            x = self.of(ids)
            if op is not Op.NSUM:  # what fills a shorter list up is neutral
                neutral = ids == (NEG_INF if op is Op.NMAX else POS_INF)
                x[neutral & ~neutral.all(axis=1, keepdims=True)] |= DEFINED
            every = np.bitwise_and.reduce(x, axis=1)
            if op is Op.NMIN:
                return np.asarray(every)
            if op is Op.NMAX:
                return np.asarray((every & DEFINED) | _largest(x))
            some = np.bitwise_or.reduce(x, axis=1)
            return np.asarray((every & (DEFINED | NONNEGATIVE)) | (_where(every, NONNEGATIVE) * (some & NONZERO)))
        rows, cols, acc = operands
        x, y, rest = self.of(rows), self.of(cols), self.of(acc)
        factors = _product(x, y, rows == cols) & NONNEGATIVE
        defined = np.bitwise_and.reduce(x & y, axis=1) & rest & DEFINED
        return np.asarray(defined | _sum(np.bitwise_and.reduce(factors, axis=1), rest))


#: what an operator needs of one of its operands to be defined
_NEEDS: dict[Op, tuple[int, int]] = {
    Op.DIV: (1, NONZERO), Op.FLOORDIV: (1, NONZERO), Op.TRUNCDIV: (1, NONZERO), Op.TRUNCREM: (1, NONZERO),
    Op.LOG2: (0, _POSITIVE), Op.SQRT: (0, NONNEGATIVE), Op.POW: (0, _POSITIVE),
}  # fmt: skip


def _known(op: Op, x: list[Bits]) -> Bits:
    """The signs of an operator's values by those of its operands alone."""
    match op:
        case Op.ADD:
            return _sum(x[0], x[1])
        case Op.DIV:
            return np.asarray((x[0] & x[1] & NONNEGATIVE) | (x[0] & NONZERO))
        case Op.NEG:
            return np.asarray(x[0] & NONZERO)
        case Op.ABS | Op.SQRT:
            return np.asarray((x[0] & NONZERO) | NONNEGATIVE)
        case Op.POW:
            return np.where(_has(x[0], _POSITIVE), _POSITIVE, 0).astype(np.uint8)
        case Op.MAX:
            return _largest(np.stack(x, axis=1))
        case Op.MIN:
            return np.asarray(x[0] & x[1] & _POSITIVE)
        case Op.ITE:
            return np.asarray(x[1] & x[2] & _POSITIVE)
        case Op.TANH | Op.ERF:
            return np.asarray(x[0] & _POSITIVE)
        case Op.FLOOR | Op.TRUNC | Op.ROUND_EVEN | Op.SHL | Op.SHR:
            return np.asarray(x[0] & NONNEGATIVE)
        case Op.CEIL:
            return np.asarray((x[0] & NONNEGATIVE) | np.where(_has(x[0], _POSITIVE), NONZERO, 0), np.uint8)
        case Op.FLOORDIV | Op.TRUNCDIV | Op.TRUNCREM | Op.BITAND | Op.BITOR | Op.BITXOR | Op.AND | Op.OR:
            return np.asarray(x[0] & x[1] & NONNEGATIVE)
        case Op.FIELD | Op.LT | Op.LE | Op.EQ | Op.NE:
            return np.full(len(x[0]), NONNEGATIVE, np.uint8)
    return np.zeros(len(x[0]), np.uint8)


def first_infinite(arena: Arena, last: int) -> int:
    """The first term before ``last`` that takes an infinity and is no maximum or minimum in which it is neutral; ``last`` if there is
    none."""
    op, *columns = arena.columns()
    # what takes a constant in a loop's turns takes it in each of them, but for the first one
    for start, stop in spans_of(arena.turns, CONST_CAP, len(op), kept=2):
        for first in range(start, min(stop, last), _PIECE):
            for slot, column in enumerate(columns):
                users = np.flatnonzero(_infinite(column[first : min(first + _PIECE, stop, last)])) + first
                users = users[_USED[slot][op[users]]]
                last = min([last, *(int(i) for i in users if Op(int(op[i])) not in _EXTREME)])
            if last < first + _PIECE:
                break
    for nary in arena.naries:
        infinite = _infinite(nary.operands)
        if nary.first < last and infinite.any() and (op[nary.first] == np.uint8(Op.NSUM) or infinite.all(axis=1).any()):
            last = nary.first
    return last


def _infinite(ids: np.ndarray) -> np.ndarray:
    return np.asarray((ids | 1) == (POS_INF | NEG_INF))  # (these are 2 and 3)


def _fresh(operands: Iterable[np.ndarray], seen: np.ndarray, low: int) -> np.ndarray:
    """The nodes from ``low`` on among some operands that were not seen, ascending."""
    below = np.concatenate([x.ravel() for x in operands] or [np.zeros(0, np.int32)])
    below = below[below >= max(low, CONST_CAP)]
    below = below[~seen[below - low]]
    below.sort()
    return np.asarray(below[np.flatnonzero(np.diff(below, prepend=-1))])


def _of_constant(arena: Arena, ident: int) -> int:
    const = arena.consts[int(arena.columns()[1][ident])]
    if const.special is not None:
        return 0
    return DEFINED | (NONNEGATIVE if const.coef >= 0 else 0) | (NONZERO if const.coef else 0)


def _has(x: Bits, bits: int) -> np.ndarray:
    return np.asarray((x & bits) == bits)


def _where(x: Bits, bits: int) -> Bits:
    """1 where all of some bits are there."""
    return _has(x, bits).astype(np.uint8)


def _sum(x: Bits, y: Bits) -> Bits:
    """Signs of a sum: not negative if neither is, and then not zero if one is not."""
    both = x & y & NONNEGATIVE
    return np.asarray(both | ((both != 0) * ((x | y) & NONZERO)), np.uint8)


def _product(x: Bits, y: Bits, square: np.ndarray) -> Bits:
    """Signs of a product, of a square where both are one term."""
    return np.asarray((x & y & _POSITIVE) | np.where(square, NONNEGATIVE, 0), np.uint8)


def _largest(x: Bits) -> Bits:
    """Signs of maxima over the second axis: as good as the best of their operands."""
    some = np.bitwise_or.reduce(x & NONNEGATIVE, axis=1)
    nonzero = _has(x, _POSITIVE).any(axis=1) | _has(x, NONZERO).all(axis=1)
    return np.asarray(some | np.where(nonzero, NONZERO, 0), np.uint8)
