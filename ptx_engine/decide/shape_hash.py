"""A cheap hash of every term, equal where sums, products and maxima differ in order and shape only.

Used to find pairs of inner terms worth proving equal (``cuts``); nothing is concluded from it. Terms are evaluated in the
integers mod 2^64 in the order of emission: sums and products exactly, maxima as the sum of their operands' mixed values
(operands that stand twice are missed), anything else as a hash of its operands.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ptx_engine.decide.lone_chains import BATCHED, LEAST_RUN, batches
from ptx_engine.decide.turn_tables import Kind, TurnTable
from ptx_engine.terms.arena import CONST_CAP, NEG_INF, POS_INF, Arena
from ptx_engine.terms.constants import Const
from ptx_engine.terms.ops import TABLE, Op
from ptx_engine.terms.turns import Turns

U64 = np.uint64
Words = npt.NDArray[np.uint64]
_GOLDEN = U64(0x9E3779B97F4A7C15)
_MASK = (1 << 64) - 1
#: what stands for 1/2 in values of constants, and for the symbolic constants
_HALF, _LOG2E, _SQRT2, _PI = 0xA24BAED4963EE407, 0x9FB21C651E98DF25, 0xD6E8FEB86659FD93, 0xCA5A826395121157
_LOG2TEN = 0x8CB92BA72F3D8DD7
_RING = (Op.ADD, Op.SUB, Op.MUL, Op.FMA)
_IS_RING = np.zeros(256, bool)
_IS_RING[list(_RING)] = True
_ORDERS = np.array([Op.LT, Op.LE], np.uint8)
_EXTREMES = frozenset({Op.MAX, Op.MIN, Op.NMAX, Op.NMIN})


def mix(x: Words) -> Words:
    """A 64-bit finaliser (the constants are those of SplitMix64)."""
    x = (x ^ (x >> U64(30))) * U64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> U64(27))) * U64(0x94D049BB133111EB)
    return x ^ (x >> U64(31))


def _constant(const: Const) -> int:
    if const.special is not None:
        return hash_int(0x5EC1A1 + list(type(const.special)).index(const.special))
    numerator, denominator = int(const.coef.numerator), int(const.coef.denominator)
    twos = (denominator & -denominator).bit_length() - 1
    value = numerator * pow(_HALF, twos, 1 << 64) * pow(denominator >> twos, -1, 1 << 64)
    for base, power in ((_LOG2E, const.log2e), (_SQRT2, const.sqrt2), (_PI, const.pi), (_LOG2TEN, const.log2ten)):
        value *= pow(base | 1, power, 1 << 64)
    return value & _MASK


def hash_int(x: int) -> int:
    """``mix`` of one number."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _MASK
    return x ^ (x >> 31)


#: input elements up to which their values are kept in the table
_WRAPPED = 1 << 23


def _inputs(arena: Arena) -> int:
    return sum(entry.count for entry in arena.inputs)


class ShapeHash:
    """Values of all ids of an arena; inputs by identity."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.op, self.a, self.b, self.c = arena.columns()
        #: node values, then input values backwards: a negative id indexes its input from the end
        self._wrapped = _inputs(arena) <= _WRAPPED
        self._table = np.zeros(len(self.op) + (_inputs(arena) if self._wrapped else 0), U64)
        self.values = self._table[: len(self.op)]
        #: sums of mixed operands, for maxima; 0 where the node is none
        self.top = np.zeros(len(self.op), U64)
        for index, const in enumerate(arena.consts[:CONST_CAP]):
            self.values[index] = _constant(const)
        with np.errstate(over="ignore"):
            self._table[len(self.op) :] = mix(np.arange(len(self.op) - len(self._table), 0).view(U64) * _GOLDEN)
            self._run()

    def _run(self) -> None:
        """All nodes in order: turns of loops that were emitted at once, and what lies between them."""
        bounds, done = np.append(np.array(self.arena.emissions, np.int64), len(self.op)), 0
        for turns in self.arena.turns:
            begin, end = np.searchsorted(bounds, (turns.first, turns.stop)).tolist()
            self._emissions(bounds[done : begin + 1])
            if not self._turns(turns):
                self._emissions(bounds[begin : end + 1])
            done = end
        self._emissions(bounds[done:])

    def _emissions(self, bounds: np.ndarray) -> None:
        for first, stop, lone in self._spans(bounds):
            if lone:
                self._lone(slice(first, stop))
            else:
                self._emission(Op(int(self.op[first])), slice(first, stop))

    def _spans(self, bounds: np.ndarray) -> Iterator[tuple[int, int, bool]]:
        """Neighbouring emissions, by their bounds; many single ones in a row (what one thread emits) as one span."""
        lone = (np.diff(bounds) == 1) & BATCHED[self.op[bounds[:-1]]]
        edges = np.flatnonzero(np.diff(lone, prepend=False, append=False)).reshape(-1, 2)
        done = 0
        for begin, end in edges[edges[:, 1] - edges[:, 0] >= LEAST_RUN].tolist():
            for i in range(done, begin):
                yield int(bounds[i]), int(bounds[i + 1]), False
            yield int(bounds[begin]), int(bounds[end]), True
            done = end
        for i in range(done, len(lone)):
            yield int(bounds[i]), int(bounds[i + 1]), False

    def _turns(self, turns: Turns) -> bool:
        """Nodes of a loop, place by place for all turns; False where a place needs what comes later."""
        table = TurnTable(turns, self.op, self.a, self.b, self.c)
        values, ids = turns.table(self.values), turns.table(np.arange(len(self.op), dtype=np.int32))
        done = 0
        for run in table.runs():
            span, done = slice(run.start, run.stop), run.stop
            if run.kind is Kind.APART:
                self._emission(run.op, ids[:, span].ravel())
                continue
            a, b, _ = (operands[:, span] for operands in table.operands)
            own = self.of(a) * self.of(b) if run.op is Op.FMA else self.of(b) if run.op is Op.ADD else U64(0) - self.of(b)
            axis = 0 if run.kind is Kind.ACROSS else 1
            first = (slice(0, 1), slice(None)) if run.kind is Kind.ACROSS else (slice(None), slice(0, 1))
            own[first] += self.of(table.operands[run.link][:, span][first])
            np.cumsum(own, axis=axis, out=values[:, span])
        return done == turns.width

    def _lone(self, span: slice) -> None:
        """Nodes that were emitted one by one: chains of sums that do not wait for each other are taken together."""
        ops = self.op[span]
        links = np.where(ops == np.uint8(Op.FMA), self.c[span], self.a[span])
        found = batches(ops, (self.a[span], self.b[span], self.c[span]), links, span.start)
        if found is None:
            self._one_by_one(span)
            return
        for chosen, linked in found:
            ids = chosen + span.start
            for op in np.flatnonzero(np.bincount(ops[chosen])).tolist():
                if op not in _RING:
                    self._emission(Op(op), ids[ops[chosen] == np.uint8(op)])
            self.values[ids] = self._sums(ids, ops[chosen], linked)

    def _one_by_one(self, span: slice) -> None:
        """Nodes each of which may depend on the one before it: sums and products on plain integers."""
        ring = _IS_RING[self.op[span]]
        edges = np.flatnonzero(np.diff(ring, prepend=~ring[:1], append=~ring[-1:])) + span.start
        for first, stop in zip(edges.tolist(), edges[1:].tolist()):
            if ring[first - span.start]:
                self._ring(slice(first, stop))
            else:
                for i in range(first, stop):
                    self._emission(Op(int(self.op[i])), slice(i, i + 1))

    def _ring(self, span: slice) -> None:
        first, found = span.start, [0] * (span.stop - span.start)
        a, b, c = (column[span] for column in (self.a, self.b, self.c))
        outside = [self.of(np.where(column < first, column, 0)).tolist() for column in (a, b, c)]
        rows = zip(self.op[span].tolist(), a.tolist(), b.tolist(), c.tolist(), *outside)
        for i, (op, a_id, b_id, c_id, x, y, z) in enumerate(rows):
            if a_id >= first:
                x = found[a_id - first]
            if b_id >= first:
                y = found[b_id - first]
            if op == Op.FMA:
                found[i] = x * y + (found[c_id - first] if c_id >= first else z) & _MASK
            elif op == Op.MUL:
                found[i] = x * y & _MASK
            else:
                found[i] = (x + y if op == Op.ADD else x - y) & _MASK
        self.values[span] = np.array(found, U64)

    def _sums(self, ids: np.ndarray, op: np.ndarray, linked: np.ndarray) -> Words:
        """Values of chains, one behind the other: a linked node adds to the one before it."""
        x, y, z = (self.of(column[ids]) for column in (self.a, self.b, self.c))
        fma, mul = op == np.uint8(Op.FMA), op == np.uint8(Op.MUL)
        own = np.where(fma | mul, x * y, np.where(op == np.uint8(Op.SUB), U64(0) - y, y))
        own += np.where(linked | mul, U64(0), np.where(fma, z, x))
        own = np.where(_IS_RING[op], own, self.values[ids])
        total, starts = np.cumsum(own, dtype=U64), np.flatnonzero(~linked)
        before = total[starts] - own[starts]
        sums: Words = total - np.repeat(before, np.diff(starts, append=len(ids)))
        return sums

    def of(self, ids: np.ndarray) -> Words:
        """Values of ids of any shape."""
        if self._wrapped:
            found: Words = self._table[ids]
            return found
        return np.where(ids < 0, mix(ids.astype(np.int64).view(U64) * _GOLDEN), self.values[np.maximum(ids, 0)])

    def _tops(self, ids: np.ndarray) -> Words:
        """What a maximum takes of its operands: the top of a nested one, else the mixed value."""
        tops = self.top[np.maximum(ids, 0)]
        return np.where((ids >= 0) & (tops != 0), tops, mix(self.of(ids)) | U64(1))

    def _emission(self, op: Op, span: "slice | np.ndarray") -> None:
        if op in _EXTREMES:
            self._extreme(op, span)
        elif op is Op.DOT:
            record = self.arena.dots[int(self.a[span][0])]
            product = np.matmul(self.of(record.rows), self.of(record.cols).transpose(0, 2, 1))
            self.values[span] = (product + self.of(record.acc)).ravel()
        elif op is Op.NSUM:
            self.values[span] = self.of(self.arena.naries[int(self.a[span][0])].operands).sum(axis=1, dtype=U64)
        elif op is Op.CONST:
            self.values[span] = [_constant(self.arena.consts[int(i)]) for i in self.a[span]]
        else:
            self.values[span] = self._plain(op, span)

    def _extreme(self, op: Op, span: "slice | np.ndarray") -> None:
        largest = op in (Op.MAX, Op.NMAX)
        neutral = NEG_INF if largest else POS_INF
        if op in (Op.MAX, Op.MIN):
            operands = np.stack([self.a[span], self.b[span]], axis=1)
        else:
            operands = self.arena.naries[int(self.a[span][0])].operands
        real = operands != neutral
        tops = np.where(real, self._tops(operands), U64(0)).sum(axis=1, dtype=U64)
        values = mix(tops + U64(7 if largest else 11))
        single = real.sum(axis=1) == 1
        if single.any():  # the maximum of one value is that value
            only = operands[single, real[single].argmax(axis=1)]
            values[single] = self.of(only)
            tops[single] = np.where(only >= 0, self.top[np.maximum(only, 0)], U64(0))
        self.top[span] = tops
        self.values[span] = values

    def _plain(self, op: Op, span: "slice | np.ndarray") -> Words:
        if op is Op.NEG:
            return U64(0) - self.of(self.a[span])
        columns = (self.a[span], self.b[span], self.c[span])
        row = TABLE[op]
        x = [self.of(column) for column in columns[: row.arity]]
        if op is Op.ADD:
            return x[0] + x[1]
        if op is Op.SUB:
            return x[0] - x[1]
        if op is Op.MUL:
            return x[0] * x[1]
        if op is Op.FMA:
            return x[0] * x[1] + x[2]
        if op is Op.DIV:
            return x[0] * (mix(x[1] + U64(23)) | U64(1))
        if row.commutative:
            x = [x[0] + x[1], x[0] * x[1]]
        total = np.full(len(columns[0]), hash_int(int(op) + 101), U64)
        for i, column in enumerate(x):
            total = mix(total + mix(column) * U64(2 * i + 3))
        for i, name in enumerate("abc"):
            if name in row.plain:
                total = mix(total + columns[i].astype(U64) * _GOLDEN)
        if op is Op.ITE:
            self._choose(self.a[span], total, x[1], x[2])
        return total

    def _choose(self, condition: np.ndarray, values: Words, x: Words, y: Words) -> None:
        """Values of selections that choose by comparing the two values that they choose between: those of maxima and minima, but as they
        are nested. Of sorting networks, flat sets would pair what only their laws make equal."""
        condition = np.maximum(condition, 0)
        turned = np.zeros(len(condition), bool)
        while (no := self.op[condition] == np.uint8(Op.NOT)).any():
            turned ^= no
            condition = np.where(no, np.maximum(self.a[condition], 0), condition)
        compared = np.isin(self.op[condition], _ORDERS) & (condition >= CONST_CAP)
        p, q = self.of(self.a[condition]), self.of(self.b[condition])
        least, most = compared & (p == x) & (q == y), compared & (p == y) & (q == x)
        found = np.flatnonzero(least | most)
        if not len(found):
            return
        tops = (mix(x[found]) | U64(1)) + (mix(y[found]) | U64(1))
        values[found] = mix(tops + np.where((most ^ turned)[found], U64(7), U64(11)))
