"""Storage of symbolic values: struct of arrays, ids instead of objects, no hash-consing on the hot path.

Id space (int32): negative ids are inputs (``-1 - (base + index)``, implicit: nothing is stored for them);
``0 <= id < CONST_CAP`` are interned constants, with fixed ids for the special ones; the rest are nodes.
Operands always have smaller node ids than the node itself, so id order is a topological order.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Union

import numpy as np
from gmpy2 import mpq

from ptx_engine.terms import constants as k
from ptx_engine.terms import spare
from ptx_engine.terms.constants import Const, Special
from ptx_engine.terms.ops import Op
from ptx_engine.terms.turns import TurnOperand, Turns

if TYPE_CHECKING:
    from ptx_engine.terms.patterns import Guard, Pattern

Ids = Union[int, "np.ndarray[tuple[int, ...], np.dtype[np.int32]]"]

CONST_CAP = 1 << 14
ZERO, ONE, POS_INF, NEG_INF, NAN, UNDEF = 0, 1, 2, 3, 4, 5
TRUE, FALSE = ONE, ZERO
_NEUTRAL = {Op.NSUM: ZERO, Op.NMAX: NEG_INF, Op.NMIN: POS_INF}
MAX_ID = 2**31 - 1
#: numbers in ``pending`` (four for each emission) at which they go to the arrays
MAX_PENDING = 1 << 18
#: how much the arrays grow when they are large
_LEAP = 8
_COLUMNS = ("_op", "_a", "_b", "_c")


@dataclass(frozen=True, slots=True)
class Input:
    """A registered input tensor: its ids are ``-1 - (base + index)`` for ``0 <= index < count``."""

    name: str
    base: int
    count: int
    #: "f16", "f32", ... or "s8", "u4", ...: the element format; integer formats give value ranges
    fmt: str

    def ids(self, index: "int | np.ndarray[tuple[int, ...], np.dtype[np.int64]]") -> Ids:
        """The ids of elements (flat storage indices)."""
        if isinstance(index, int):
            return -1 - (self.base + index)
        return (-1 - self.base - index).astype(np.int32)


@dataclass(frozen=True, slots=True)
class DotRecord:
    """G batched products: node ``first + (g*M + m)*N + n`` is ``acc[g,m,n] + sum_k rows[g,m,k] * cols[g,n,k]``."""

    first: int
    rows: np.ndarray  # int32 (G, M, K)
    cols: np.ndarray  # int32 (G, N, K)
    acc: np.ndarray  # int32 (G, M, N)


@dataclass(frozen=True, slots=True)
class NaryRecord:
    """Node ``first + i`` is sum, max or min over ``operands[i, :]``."""

    first: int
    operands: np.ndarray  # int32 (n, L)


@dataclass
class Ledger:
    """What emitting leaned on: assumptions, nodes that vanished, whether a denominator did (see ``Storage``)."""

    assumptions: list[str] = field(default_factory=list)
    dropped: list[np.ndarray] = field(default_factory=list)
    denominators: bool = False


class Storage:
    """Constants, inputs and nodes of one arena; nothing is simplified here."""

    def __init__(self, capacity: int = 1 << 16, max_terms: int = 1 << 29) -> None:
        size = CONST_CAP + capacity
        self._op = np.zeros(size, np.uint8)
        self._a = np.zeros(size, np.int32)
        self._b = np.zeros(size, np.int32)
        self._c = np.zeros(size, np.int32)
        self.stored = CONST_CAP  # next node id, without the pending ones
        #: scalar emissions not yet in the arrays: operator and three operands of each, one after the other
        self.pending: list[int] = []
        self._max_terms = max_terms
        self._owner = spare.Owner()
        self.consts: list[Const] = []
        self._const_ids: dict[Const, int] = {}
        self._bits_cache: dict[tuple[int, str], int] = {}
        #: rests of constants (``constants.sign_of_rest``), and the numbers that their literals are
        self.rests: dict[int, int] = {}
        self.inputs: list[Input] = []
        self._input_bases: list[int] = []
        self._input_total = 0
        self.dots: list[DotRecord] = []
        self.naries: list[NaryRecord] = []
        self.opaque_names: list[str] = []
        #: known terms that are read as functions, looked for where a selection has minus infinity (``patterns``)
        self.patterns: list[Pattern | Guard] = []
        #: first ids of columns of powers of two that are made of the bits of an integer (``range_reduction``)
        self.powers: set[int] = set()
        #: whether values may lie beyond what f32 holds, or at its ends: a selection by symbolic data has such a constant, or there is f64
        self.beyond_floats = False
        #: whether bits of floats that meet integer arithmetic are functions of the float; else that is refused, with its line
        self.words_of_floats = False
        #: assumption ledger entries: what this arena's construction leaned on, in order of first use
        self.assumptions: dict[str, None] = {}
        #: columns of nodes that vanished in folding (0 * x): they do not stand below any output, but may be undefined
        self.dropped: list[np.ndarray] = []
        #: whether anything was divided by an input, and vanished
        self.dropped_denominators = False
        #: set by whoever emits: who (an instruction index, a tile op) the next nodes belong to
        self.origin: object = None
        #: first ids, ascending, and who emitted from each on (``turns`` have their own)
        self.origin_starts = array("i", [0])
        self.origins: list[object] = [None]
        #: first ids of the emissions, ascending: nodes of one emission do not depend on each other
        self.emissions = array("i")
        #: loops whose turns were emitted at once, ascending
        self.turns: list[Turns] = []
        #: first ids of the sides that are compared, ascending, where whoever emits says when another one begins
        self.sides = array("i")
        for const in (k.ZERO, k.ONE):
            self.const(const)
        for special in (Special.POS_INF, Special.NEG_INF, Special.NAN, Special.UNDEF):
            self.const(Const(mpq(0), special=special))

    def begin_side(self) -> None:
        """What is emitted from here on is another side of a comparison."""
        self.sides.append(len(self))

    def side_of(self, ident: int) -> int:
        """The first id of the side that a node belongs to."""
        at = bisect_right(self.sides, ident)
        return self.sides[at - 1] if at else CONST_CAP

    # --- constants and inputs -------------------------------------------------------------------

    def const(self, value: Const) -> int:
        """The id of a constant, interned."""
        found = self._const_ids.get(value)
        if found is not None:
            return found
        index = len(self.consts)
        self.consts.append(value)
        if index < CONST_CAP:
            ident = index
            self._a[ident] = index
        else:  # more constants than reserved ids: an ordinary node; folding passes it by
            ident = self.emit_scalar(Op.CONST, index, 0, 0)
        self._const_ids[value] = ident
        if k.sign_of_rest(value):
            self.rests[ident] = self.rational(k.number_of_rest(value))
        return ident

    def rational(self, value: "int | mpq") -> int:
        """The id of an exact rational."""
        return self.const(Const(mpq(value)))

    def float_bits(self, bits: int, fmt: str) -> int:
        """The constant that a bit pattern of a float format means (recognised constants enter the ledger)."""
        key = (bits, fmt)
        found = self._bits_cache.get(key)
        if found is None:
            value = k.float_from_bits(bits, fmt)
            const, name = k.from_float(value, k.ulp_of(value, fmt))
            if name:
                self.assumptions.setdefault(f"constant recognised: {value!r} is {name}")
            found = self._bits_cache[key] = self.const(const)
        return found

    def float_bits_column(self, bits: np.ndarray, fmt: str) -> np.ndarray:
        """``float_bits`` over an unsigned array, one Python step per distinct pattern."""
        unique, inverse = np.unique(bits, return_inverse=True)
        table = np.fromiter((self.float_bits(int(u), fmt) for u in unique), np.int32, len(unique))
        return table[inverse].reshape(bits.shape)

    def integers(self, values: np.ndarray) -> np.ndarray:
        """Constants of concrete integers, elementwise."""
        unique, inverse = np.unique(values, return_inverse=True)
        table = np.fromiter((self.rational(int(u)) for u in unique), np.int32, len(unique))
        return table[inverse].reshape(values.shape)

    def add_input(self, name: str, count: int, fmt: str) -> Input:
        """Register ``count`` input elements; their ids are implicit."""
        entry = Input(name, self._input_total, count, fmt)
        if self._input_total + count > MAX_ID:
            raise OverflowError(f"more than 2^31 input elements with {name}")
        self._input_total += count
        self.inputs.append(entry)
        self._input_bases.append(entry.base)
        return entry

    def input_of(self, ident: int) -> tuple[Input, int]:
        """The input tensor and storage index of a negative id."""
        flat = -1 - ident
        entry = self.inputs[bisect_right(self._input_bases, flat) - 1]
        return entry, flat - entry.base

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        """What is emitted inside as if the arena had seen nothing before: its assumptions and what vanished, then added to the arena's."""
        kept = self.assumptions, self._bits_cache, self.dropped, self.dropped_denominators
        self.assumptions, self._bits_cache, self.dropped, self.dropped_denominators = {}, {}, [], False
        noted = Ledger()
        try:
            yield noted
        finally:
            noted.assumptions, noted.dropped, noted.denominators = list(self.assumptions), self.dropped, self.dropped_denominators
            self.assumptions, self._bits_cache, self.dropped, self.dropped_denominators = kept
            self.assumptions |= dict.fromkeys(noted.assumptions)
            self.dropped += noted.dropped
            self.dropped_denominators |= noted.denominators

    def drop(self, ids: Ids, denominator: bool = False) -> None:
        """Note that a factor vanishes, or a denominator under zero: that is the factor 1 / denominator."""
        column = np.asarray(ids, np.int32).ravel()
        nodes = column[(column >= CONST_CAP) | ((column < 0) if denominator else False)]
        if nodes.size:
            self.dropped.append(self.emit_column(Op.DIV, len(nodes), ONE, nodes) if denominator else nodes)
        self.dropped_denominators |= denominator and bool((column < 0).any())

    # --- raw storage ----------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.stored + len(self.pending) // 4

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Operator codes and operands of all ids ``0 .. len-1`` (views; valid until the next emission)."""
        self.flush()
        n = self.stored
        return self._op[:n], self._a[:n], self._b[:n], self._c[:n]

    def node(self, ident: int) -> tuple[Op, int, int, int]:
        """Operator and operands of one non-negative id."""
        self.flush()
        return Op(int(self._op[ident])), int(self._a[ident]), int(self._b[ident]), int(self._c[ident])

    def origin_of(self, ident: int) -> object:
        """Who emitted a node (what ``origin`` was set to)."""
        at = bisect_right(self.turns, ident, key=lambda turns: turns.first)
        if at and ident < self.turns[at - 1].stop:
            return self.turns[at - 1].origin_of(ident)
        i = bisect_right(self.origin_starts, ident)
        return self.origins[i - 1] if i else None

    def dot_operands(self, ident: int) -> tuple[np.ndarray, np.ndarray, int]:
        """Rows, columns (K ids each) and accumulator id of one DOT node."""
        record = self.dots[int(self.columns()[1][ident])]
        _, m_count, n_count = record.acc.shape
        g, rest = divmod(ident - record.first, m_count * n_count)
        m, n = divmod(rest, n_count)
        return record.rows[g, m], record.cols[g, n], int(record.acc[g, m, n])

    def nary_operands(self, ident: int) -> np.ndarray:
        """The operand ids of one NSUM, NMAX or NMIN node."""
        record = self.naries[int(self.columns()[1][ident])]
        operands: np.ndarray = record.operands[ident - record.first]
        return operands

    def _reserve(self, count: int) -> None:
        need = self.stored + count
        if need - CONST_CAP > self._max_terms or need > MAX_ID:
            raise MemoryError(f"more than {self._max_terms} terms")
        if need > len(self._op):
            self._grow(max(need, (_LEAP if len(self._op) >= spare.LARGE else 2) * len(self._op)), need)

    def _grow(self, size: int, need: int) -> None:
        """Longer arrays: memory that nothing was written to costs addresses only, a copy costs time and memory. Where the system does not
        give as many addresses, what is needed."""
        kinds = [getattr(self, name).dtype for name in _COLUMNS]
        found = spare.take(need, self._owner) if size >= spare.LARGE else None
        try:
            grown = found or [np.empty(size, kind) for kind in kinds]
        except MemoryError:
            grown = [np.empty(need + need // 4, kind) for kind in kinds]
        for name, column in zip(_COLUMNS, grown):
            column[: self.stored] = getattr(self, name)[: self.stored]
            setattr(self, name, column)

    def __del__(self) -> None:
        columns = [self.__dict__.pop(name) for name in _COLUMNS if name in self.__dict__]
        if len(columns) == len(_COLUMNS) and len(columns[0]) >= spare.LARGE:
            spare.leave(columns, self.stored, self._owner)

    def flush(self) -> None:
        """Move pending scalar emissions to the arrays. Raises MemoryError beyond ``max_terms``."""
        if self.pending:
            rows = np.array(array("i", self.pending)).reshape(-1, 4)
            self.pending.clear()
            count = len(rows)
            self._reserve(count)
            span = slice(self.stored, self.stored + count)
            self._op[span], self._a[span], self._b[span], self._c[span] = rows.T
            self.emissions.frombytes(np.arange(self.stored, self.stored + count, dtype=np.intc).tobytes())
            self.stored += count

    def emit_scalar(self, op: int, a: int, b: int, c: int) -> int:
        ident = self.stored + len(self.pending) // 4
        if self.origins[-1] is not self.origin:
            self.origin_starts.append(ident)
            self.origins.append(self.origin)
        self.pending.extend((op, a, b, c))
        if len(self.pending) >= MAX_PENDING:
            self.flush()
        return ident

    def emit_column(self, op: int, count: int, a: Ids, b: Ids = 0, c: Ids = 0) -> np.ndarray:
        """Emit ``count`` nodes without folding."""
        if self.pending:
            self.flush()
        first = self.stored
        stop = first + count
        if stop > len(self._op) or stop - CONST_CAP > self._max_terms:
            self._reserve(count)
        if self.origins[-1] is not self.origin:
            self.origin_starts.append(first)
            self.origins.append(self.origin)
        self.emissions.append(first)
        self._op[first:stop] = op
        self._a[first:stop] = a
        self._b[first:stop] = b
        self._c[first:stop] = c
        self.stored = stop
        return np.arange(first, stop, dtype=np.int32)

    def emit_columns(self, op: int, count: int, rows: Sequence[tuple[Ids, Ids, Ids]], origins: Sequence[object]) -> np.ndarray:
        """Columns of ``count`` nodes of one operator, one after the other, each with its origin: ids (rows, count)."""
        if self.pending:
            self.flush()
        first = self.stored
        stop = first + count * len(rows)
        if stop > len(self._op) or stop - CONST_CAP > self._max_terms:
            self._reserve(stop - first)
        emitted = range(first, stop, count)
        last = self.origins[-1]
        for begin, origin in zip(emitted, origins):
            if origin is not last:
                self.origin_starts.append(begin)
                self.origins.append(origin)
                last = origin
        self.origin = last
        self.emissions.extend(emitted)
        self._op[first:stop] = op
        for column, operands in zip((self._a, self._b, self._c), zip(*rows)):
            for begin, operand in zip(emitted, operands):
                column[begin : begin + count] = operand
        self.stored = stop
        return np.arange(first, stop, dtype=np.int32).reshape(-1, count)

    @property
    def room(self) -> int:
        """How many more nodes may be emitted."""
        return min(self._max_terms + CONST_CAP, MAX_ID) - len(self)

    def emit_turns(
        self, turns: int, codes: np.ndarray, widths: Sequence[int], origins: Sequence[object], operands: Sequence[TurnOperand]
    ) -> None:
        """Emit ``turns`` times the same emissions, each with its width and origin; ``codes``: operators of the nodes of one turn."""
        self.flush()
        width, first = len(codes), self.stored
        count = turns * width
        self._reserve(count)
        begins = np.cumsum([0, *widths[:-1]], dtype=np.intc)
        steps = (operands[0].step, operands[1].step, operands[2].step)
        made = Turns(first, turns, width, tuple(begins.tolist()), tuple(origins), steps)
        starts = np.arange(first, first + count, width, dtype=np.intc)[:, None] + begins
        self.emissions.frombytes(starts.tobytes())
        self.origin_starts.append(made.stop)  # (of the nodes themselves ``made`` knows)
        self.origins.append(origins[-1])
        self.origin = origins[-1]
        self.stored += count
        made.table(self._op)[:] = codes
        for column, operand in zip((self._a, self._b, self._c), operands):
            operand.fill(made.table(column))
        if self.turns and made.continues(self.turns[-1], self._op, (self._a, self._b, self._c)):
            made = self.turns.pop().extended(turns)
        self.turns.append(made)

    def emit(self, op: Op, a: Ids, b: Ids = 0, c: Ids = 0) -> Ids:
        """Emit without folding. Operands broadcast to the largest shape; plain slots hold plain ints."""
        if isinstance(a, int) and isinstance(b, int) and isinstance(c, int):
            return self.emit_scalar(op, a, b, c)
        shape = _common_shape(a, b, c)
        if len(shape) == 1:
            return self.emit_column(op, shape[0], a, b, c)
        flat = tuple(x if isinstance(x, int) else (x if x.shape == shape else np.broadcast_to(x, shape)).ravel() for x in (a, b, c))
        return self.emit_column(op, math.prod(shape), *flat).reshape(shape)

    def emit_stored(self, codes: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray, starts: np.ndarray) -> None:
        """Append nodes as they are; ``starts``: first ids of their emissions (an archive's, see ``archive``)."""
        self.flush()
        count = len(codes)
        self._reserve(count)
        if self.origins[-1] is not self.origin:
            self.origin_starts.append(self.stored)
            self.origins.append(self.origin)
        span = slice(self.stored, self.stored + count)
        self._op[span], self._a[span], self._b[span], self._c[span] = codes, a, b, c
        self.emissions.frombytes(starts.astype(np.intc).tobytes())
        self.stored += count

    # --- records --------------------------------------------------------------------------------

    def add_dot(self, first: int, rows: np.ndarray, cols: np.ndarray, acc: np.ndarray) -> None:
        """A record whose nodes are there already."""
        self.dots.append(DotRecord(first, rows, cols, acc))

    def add_nary(self, first: int, operands: np.ndarray) -> None:
        """A record whose nodes are there already."""
        self.naries.append(NaryRecord(first, operands))

    def dot(self, rows: np.ndarray, cols: np.ndarray, acc: np.ndarray) -> np.ndarray:
        """Batched products (int32 ids): rows (G,M,K), cols (G,N,K), acc (G,M,N) -> ids (G,M,N)."""
        self.flush()
        record = DotRecord(self.stored, rows, cols, acc)
        self.dots.append(record)
        ids = self.emit_column(Op.DOT, acc.size, len(self.dots) - 1).reshape(acc.shape)
        if has_const(rows) or has_const(cols):  # products that are zero throughout leave the accumulator as it was
            empty = (rows == ZERO).all(axis=2)[:, :, None] | (cols == ZERO).all(axis=2)[:, None, :]
            if empty.any():
                self.drop(rows[(cols == ZERO).all(axis=2).any(axis=1)])
                self.drop(cols[(rows == ZERO).all(axis=2).any(axis=1)])
                ids = np.where(empty, acc, ids)
        return self._infinite_sums(rows, cols, acc, ids) if has_const(acc) else ids

    def _infinite_sums(self, rows: np.ndarray, cols: np.ndarray, acc: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """An infinite accumulator stays what it is where all products are finite: data are finite reals."""
        infinite = (acc == POS_INF) | (acc == NEG_INF)
        if not infinite.any():
            return ids
        finite = [np.asarray(~((x >= POS_INF) & (x <= UNDEF)).any(axis=2)) for x in (rows, cols)]
        infinite &= finite[0][:, :, None] & finite[1][:, None, :]
        self.drop(rows[infinite.any(axis=2)])
        self.drop(cols[infinite.any(axis=1)])
        return np.where(infinite, acc, ids)

    def nary(self, op: Op, operands: np.ndarray) -> np.ndarray:
        """``op`` (NSUM, NMAX, NMIN) over the last axis: ids (..., L) -> ids (...)."""
        shape = operands.shape[:-1]
        flat = np.ascontiguousarray(operands.reshape(-1, operands.shape[-1]))
        neutral = _NEUTRAL[op]
        empty = (flat[:, 0] == neutral) & (flat == neutral).all(axis=1)
        if not empty.any():
            return self._nary(op, flat).reshape(shape)
        result = np.full(len(flat), neutral, np.int32)
        if not empty.all():
            result[~empty] = self._nary(op, flat[~empty])
        return result.reshape(shape)

    def _nary(self, op: Op, flat: np.ndarray) -> np.ndarray:
        self.flush()
        self.naries.append(NaryRecord(self.stored, flat))
        return self.emit_column(op, len(flat), len(self.naries) - 1)


def _common_shape(a: Ids, b: Ids, c: Ids) -> tuple[int, ...]:
    """The shape that operands broadcast to; the common case is arrays of one shape."""
    shape: tuple[int, ...] | None = None
    for x in (a, b, c):
        if not isinstance(x, int):
            if shape is None:
                shape = x.shape
            elif x.shape != shape:
                return np.broadcast_shapes(np.shape(a), np.shape(b), np.shape(c))
    return shape if shape is not None else ()


def has_const(ids: Ids) -> bool:
    """Whether a column holds an interned constant: as unsigned numbers these are the smallest ids."""
    if isinstance(ids, int):
        return 0 <= ids < CONST_CAP
    return ids.size > 0 and bool(np.minimum.reduce(ids.view(np.uint32), axis=None) < CONST_CAP)
