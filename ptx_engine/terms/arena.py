"""The arena of symbolic values: struct of arrays, ids instead of objects, no hash-consing on the hot path.

Id space (int32): negative ids are inputs (``-1 - (base + index)``, implicit: nothing is stored for them);
``0 <= id < CONST_CAP`` are interned constants, with fixed ids for the special ones; the rest are nodes.
Operands always have smaller node ids than the node itself, so id order is a topological order.

Every builder takes ids as Python ints (uniform) or int32 arrays of one common shape (a column, or a whole
tensor) and returns the same. Folding happens here: constants with constants exactly, neutral and absorbing
elements, infinities as far as the result is determined (``0 * x = 0``: data are finite reals).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Union

import numpy as np
from gmpy2 import mpq

from ptx_engine.terms import constants as k
from ptx_engine.terms.constants import Const, Special
from ptx_engine.terms.ops import Op

Ids = Union[int, "np.ndarray[tuple[int, ...], np.dtype[np.int32]]"]

CONST_CAP = 1 << 14
ZERO, ONE, POS_INF, NEG_INF, NAN, UNDEF = 0, 1, 2, 3, 4, 5
TRUE, FALSE = ONE, ZERO
_NEUTRAL = {Op.NSUM: ZERO, Op.NMAX: NEG_INF, Op.NMIN: POS_INF}
MAX_ID = 2**31 - 1


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


class Arena:
    """Terms of one comparison: reference and candidate emit into the same arena with the same inputs."""

    def __init__(self, capacity: int = 1 << 16, max_terms: int = 1 << 29) -> None:
        size = CONST_CAP + capacity
        self._op = np.zeros(size, np.uint8)
        self._a = np.zeros(size, np.int32)
        self._b = np.zeros(size, np.int32)
        self._c = np.zeros(size, np.int32)
        self._size = CONST_CAP  # next node id, without the pending ones
        self._pending: list[tuple[int, int, int, int]] = []  # scalar emissions not yet in the arrays
        self._max_terms = max_terms
        self.consts: list[Const] = []
        self._const_ids: dict[Const, int] = {}
        self._bits_cache: dict[tuple[int, str], int] = {}
        self.inputs: list[Input] = []
        self._input_bases: list[int] = []
        self._input_total = 0
        self.dots: list[DotRecord] = []
        self.naries: list[NaryRecord] = []
        self.opaque_names: list[str] = []
        #: assumption ledger entries: what this arena's construction leaned on, in order of first use
        self.assumptions: dict[str, None] = {}
        #: set by whoever emits: who (an instruction index, a tile op) the next nodes belong to
        self.origin: object = None
        self._origins: list[tuple[int, object]] = []
        #: first ids of the emissions, ascending: nodes of one emission do not depend on each other
        self.emissions: list[int] = []
        for const in (k.ZERO, k.ONE):
            self.const(const)
        for special in (Special.POS_INF, Special.NEG_INF, Special.NAN, Special.UNDEF):
            self.const(Const(mpq(0), special=special))

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
            ident = self._emit_scalar(Op.CONST, index, 0, 0)
        self._const_ids[value] = ident
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

    # --- raw storage ----------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._size + len(self._pending)

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Operator codes and operands of all ids ``0 .. len-1`` (views; valid until the next emission)."""
        self._flush()
        n = self._size
        return self._op[:n], self._a[:n], self._b[:n], self._c[:n]

    def node(self, ident: int) -> tuple[Op, int, int, int]:
        """Operator and operands of one non-negative id."""
        self._flush()
        return Op(int(self._op[ident])), int(self._a[ident]), int(self._b[ident]), int(self._c[ident])

    def origin_of(self, ident: int) -> object:
        """Who emitted a node (what ``origin`` was set to)."""
        i = bisect_right(self._origins, ident, key=lambda row: row[0])
        return self._origins[i - 1][1] if i else None

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
        return record.operands[ident - record.first]

    def _reserve(self, count: int) -> None:
        need = self._size + count
        if need - CONST_CAP > self._max_terms or need > MAX_ID:
            raise MemoryError(f"more than {self._max_terms} terms")
        if need > len(self._op):
            size = max(need, 2 * len(self._op))
            for name in ("_op", "_a", "_b", "_c"):
                old = getattr(self, name)
                grown = np.empty(size, old.dtype)
                grown[: self._size] = old[: self._size]
                setattr(self, name, grown)

    def _flush(self) -> None:
        if self._pending:
            rows = np.array(self._pending, np.int64)
            self._pending.clear()
            count = len(rows)
            self._reserve(count)
            span = slice(self._size, self._size + count)
            self._op[span], self._a[span], self._b[span], self._c[span] = rows.T
            self.emissions.extend(range(self._size, self._size + count))
            self._size += count

    def _emit_scalar(self, op: int, a: int, b: int, c: int) -> int:
        ident = self._size + len(self._pending)
        if not self._origins or self._origins[-1][1] is not self.origin:
            self._origins.append((ident, self.origin))
        self._pending.append((op, a, b, c))
        if len(self._pending) >= 1 << 16:
            self._flush()
        return ident

    def _emit_column(self, op: int, count: int, a: Ids, b: Ids = 0, c: Ids = 0) -> np.ndarray:
        if self._pending:
            self._flush()
        first = self._size
        stop = first + count
        if stop > len(self._op) or stop - CONST_CAP > self._max_terms:
            self._reserve(count)
        if not self._origins or self._origins[-1][1] is not self.origin:
            self._origins.append((first, self.origin))
        self.emissions.append(first)
        self._op[first:stop] = op
        self._a[first:stop] = a
        self._b[first:stop] = b
        self._c[first:stop] = c
        self._size = stop
        return np.arange(first, stop, dtype=np.int32)

    def emit(self, op: Op, a: Ids, b: Ids = 0, c: Ids = 0) -> Ids:
        """Emit without folding. Operands broadcast to the largest shape; plain slots hold plain ints."""
        if isinstance(a, int) and isinstance(b, int) and isinstance(c, int):
            return self._emit_scalar(op, a, b, c)
        shape = _common_shape(a, b, c)
        if len(shape) == 1:
            return self._emit_column(op, shape[0], a, b, c)
        flat = tuple(x if isinstance(x, int) else (x if x.shape == shape else np.broadcast_to(x, shape)).ravel() for x in (a, b, c))
        return self._emit_column(op, math.prod(shape), *flat).reshape(shape)

    # --- records --------------------------------------------------------------------------------

    def dot(self, rows: np.ndarray, cols: np.ndarray, acc: np.ndarray) -> np.ndarray:
        """Batched products (int32 ids): rows (G,M,K), cols (G,N,K), acc (G,M,N) -> ids (G,M,N)."""
        self._flush()
        record = DotRecord(self._size, rows, cols, acc)
        self.dots.append(record)
        ids = self._emit_column(Op.DOT, acc.size, len(self.dots) - 1).reshape(acc.shape)
        if _has_const(rows) or _has_const(cols):  # products that are zero throughout leave the accumulator as it was
            empty = (rows == ZERO).all(axis=2)[:, :, None] | (cols == ZERO).all(axis=2)[:, None, :]
            if empty.any():
                return np.where(empty, acc, ids)
        return ids

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
        self._flush()
        self.naries.append(NaryRecord(self._size, flat))
        return self._emit_column(op, len(flat), len(self.naries) - 1)

    # --- folding builders -----------------------------------------------------------------------

    def _folded(self, op: Op, scalar: Callable[..., "int | None"], operands: tuple[Ids, ...]) -> Ids:
        """Emit ``op`` over operands, folding lane by lane where an operand is an interned constant."""
        if all(isinstance(x, int) for x in operands):
            folded = scalar(*operands) if any(0 <= x < CONST_CAP for x in operands) else None  # type: ignore[operator]
            return folded if folded is not None else self._emit_scalar(op, *operands, *(0,) * (3 - len(operands)))  # type: ignore[arg-type]
        if not any(_has_const(x) for x in operands):
            return self.emit(op, *operands)
        return self._fold_columns(op, scalar, operands)

    def _fold_columns(self, op: Op, scalar: Callable[..., "int | None"], operands: tuple[Ids, ...]) -> Ids:
        """The slow path: lanes are grouped by which constants they hold; each group folds or emits at once.

        A constant lane is described by its id, any other by -1; groups are few, since constants are few.
        """
        shape = np.broadcast_shapes(*(np.shape(x) for x in operands))
        flat = [np.broadcast_to(np.asarray(x, np.int32), shape).ravel() for x in operands]
        key = np.zeros(flat[0].size, np.int64)
        for column in flat:
            key = key * (CONST_CAP + 1) + np.where((column >= 0) & (column < CONST_CAP), column + 1, 0)
        result = np.empty(flat[0].size, np.int32)
        plain = np.ones(flat[0].size, bool)
        for value in np.unique(key):
            if value == 0:
                continue
            chosen = np.flatnonzero(key == value)
            first = [int(column[chosen[0]]) for column in flat]
            is_const = [0 <= x < CONST_CAP for x in first]
            if all(is_const):
                folded = scalar(*first)
                if folded is None:
                    continue
                result[chosen] = folded
            else:
                columns = [x if fixed else column[chosen] for x, fixed, column in zip(first, is_const, flat)]
                outcome = scalar(*columns)
                if outcome is None:
                    continue
                result[chosen] = outcome
            plain[chosen] = False
        if plain.all():
            result = np.asarray(self.emit(op, *(column for column in flat)))
        elif plain.any():
            rest = np.flatnonzero(plain)
            result[rest] = self.emit(op, *(column[rest] for column in flat))
        return result.reshape(shape)

    def _finite(self, ident: Ids) -> Const | None:
        """The finite constant behind an interned id, else None."""
        if isinstance(ident, int) and 0 <= ident < CONST_CAP:
            const = self.consts[ident]
            return const if const.special is None else None
        return None

    # The ``_fold_*`` functions take ids (an int may be a constant; an array never is) and return the folded id(s) or
    # None for "emit the operation".

    def _fold_add(self, a: Ids, b: Ids) -> Ids | None:
        for x, y in ((a, b), (b, a)):
            if isinstance(x, int):
                if x == ZERO:
                    return y
                if x in (NAN, UNDEF):
                    return x
                if x == POS_INF:
                    return NAN if isinstance(y, int) and y in (NEG_INF, NAN) else (UNDEF if isinstance(y, int) and y == UNDEF else POS_INF)
                if x == NEG_INF:
                    return NAN if isinstance(y, int) and y in (POS_INF, NAN) else (UNDEF if isinstance(y, int) and y == UNDEF else NEG_INF)
        x, y = self._finite(a), self._finite(b)
        if x is not None and y is not None and (x.log2e, x.sqrt2, x.pi) == (y.log2e, y.sqrt2, y.pi):
            total = x.coef + y.coef
            return self.const(Const(total, x.log2e, x.sqrt2, x.pi) if total else k.ZERO)
        return None

    def _fold_mul(self, a: Ids, b: Ids) -> Ids | None:
        for x, y in ((a, b), (b, a)):
            if isinstance(x, int):
                if x == ONE:
                    return y
                if x in (NAN, UNDEF):
                    return x
        for x, y in ((a, b), (b, a)):
            if isinstance(x, int):
                if x == ZERO:
                    return NAN if isinstance(y, int) and y in (POS_INF, NEG_INF) else ZERO
                if x in (POS_INF, NEG_INF):
                    if isinstance(y, int) and y in (POS_INF, NEG_INF):
                        return POS_INF if x == y else NEG_INF
                    other = self._finite(y)
                    if other is not None:
                        return x if other.coef > 0 else (POS_INF if x == NEG_INF else NEG_INF)
                    return NAN if isinstance(y, int) and y == NAN else None
        x, y = self._finite(a), self._finite(b)
        return self.const(k.multiply(x, y)) if x is not None and y is not None else None

    def _fold_neg(self, a: Ids) -> Ids | None:
        if isinstance(a, int):
            if a in (POS_INF, NEG_INF):
                return NEG_INF if a == POS_INF else POS_INF
            if a in (NAN, UNDEF):
                return a
            x = self._finite(a)
            if x is not None:
                return self.const(k.multiply(x, Const(mpq(-1))))
        return None

    def _fold_sub(self, a: Ids, b: Ids) -> Ids | None:
        if isinstance(b, int) and 0 <= b < CONST_CAP:
            if b == ZERO:
                return a
            negated = self._fold_neg(b)
            if isinstance(negated, int):
                folded = self._fold_add(a, negated)
                return folded
        if isinstance(a, int):
            if a == ZERO:
                return self.neg(b)
            if a in (POS_INF, NEG_INF, NAN, UNDEF):
                return a
        return None

    def _fold_div(self, a: Ids, b: Ids) -> Ids | None:
        if isinstance(b, int):
            if b == ONE or b in (NAN, UNDEF):
                return a if b == ONE else b
            if b in (POS_INF, NEG_INF):
                return NAN if isinstance(a, int) and a in (POS_INF, NEG_INF, NAN) else ZERO
            if b == ZERO:
                if isinstance(a, int) and a in (ZERO, NAN):
                    return NAN
                x = self._finite(a)
                return None if x is None else (POS_INF if x.coef > 0 else NEG_INF)
            y = self._finite(b)
            if y is not None:
                return self.mul(a, self.const(k.reciprocal(y)))
        if isinstance(a, int):
            if a == ZERO:
                return ZERO
            if a in (NAN, UNDEF):
                return a
        return None

    def _fold_extreme(self, a: Ids, b: Ids, top: int, bottom: int, pick: Callable[[mpq, mpq], mpq]) -> Ids | None:
        for x, y in ((a, b), (b, a)):
            if isinstance(x, int):
                if x == bottom or x == NAN:  # max(-inf, y) = y; PTX and IEEE maxNum return the other operand of a NaN
                    return y
                if x == UNDEF:
                    return UNDEF
                if x == top:
                    return top
        x, y = self._finite(a), self._finite(b)
        if x is not None and y is not None and x.is_rational and y.is_rational:
            return self.const(Const(pick(x.coef, y.coef)))
        if isinstance(a, int) and isinstance(b, int) and a == b:
            return a
        return None

    def add(self, a: Ids, b: Ids) -> Ids:
        return self._folded(Op.ADD, self._fold_add, (a, b))

    def sub(self, a: Ids, b: Ids) -> Ids:
        return self._folded(Op.SUB, self._fold_sub, (a, b))

    def mul(self, a: Ids, b: Ids) -> Ids:
        return self._folded(Op.MUL, self._fold_mul, (a, b))

    def div(self, a: Ids, b: Ids) -> Ids:
        """a / b over the reals; the domain assumption b != 0 is stated by the decider."""
        return self._folded(Op.DIV, self._fold_div, (a, b))

    def neg(self, a: Ids) -> Ids:
        return self._folded(Op.NEG, self._fold_neg, (a,))

    def fma(self, a: Ids, b: Ids, c: Ids) -> Ids:
        return self._folded(Op.FMA, self._fold_fma, (a, b, c))

    def _fold_fma(self, a: Ids, b: Ids, c: Ids) -> Ids | None:
        product = self._fold_mul(a, b)
        if product is not None:
            return self.add(product, c)
        if isinstance(c, int) and 0 <= c < CONST_CAP:
            if c == ZERO:
                return self.mul(a, b)
            if c in (POS_INF, NEG_INF, NAN, UNDEF):
                return c
        return None

    def maximum(self, a: Ids, b: Ids) -> Ids:
        return self._folded(Op.MAX, lambda x, y: self._fold_extreme(x, y, POS_INF, NEG_INF, max), (a, b))

    def minimum(self, a: Ids, b: Ids) -> Ids:
        return self._folded(Op.MIN, lambda x, y: self._fold_extreme(x, y, NEG_INF, POS_INF, min), (a, b))

    def abs(self, a: Ids) -> Ids:
        return self._folded(Op.ABS, self._fold_abs, (a,))

    def _fold_abs(self, a: Ids) -> Ids | None:
        if isinstance(a, int):
            if a in (POS_INF, NEG_INF):
                return POS_INF
            if a in (NAN, UNDEF):
                return a
            x = self._finite(a)
            if x is not None:
                return a if x.coef >= 0 else self._fold_neg(a)
        return None

    def exp2(self, a: Ids) -> Ids:
        return self._folded(Op.EXP2, self._fold_exp2, (a,))

    def _fold_exp2(self, a: Ids) -> Ids | None:
        if isinstance(a, int):
            if a == NEG_INF:
                return ZERO
            if a in (POS_INF, NAN, UNDEF):
                return a
            x = self._finite(a)
            if x is not None and x.is_rational and x.coef.denominator == 1 and abs(x.coef) <= 4096:
                return self.rational(mpq(2) ** int(x.coef))
        return None

    def exp(self, a: Ids) -> Ids:
        """e^a = 2^(a * log2e)."""
        return self.exp2(self.mul(a, self.const(Const(mpq(1), log2e=1))))

    def log2(self, a: Ids) -> Ids:
        return self._folded(Op.LOG2, self._fold_log2, (a,))

    def _fold_log2(self, a: Ids) -> Ids | None:
        if isinstance(a, int):
            if a == ZERO:
                return NEG_INF
            if a in (POS_INF, NAN, UNDEF):
                return a
            if a == NEG_INF:
                return NAN
            x = self._finite(a)
            if x is not None:
                if x.coef < 0:
                    return NAN
                if x.is_rational:
                    for numerator, denominator, sign in (
                        (x.coef.numerator, x.coef.denominator, 1),
                        (x.coef.denominator, x.coef.numerator, -1),
                    ):
                        if denominator == 1 and numerator & (numerator - 1) == 0:
                            return self.rational(sign * (int(numerator).bit_length() - 1))
        return None

    def log(self, a: Ids) -> Ids:
        """ln a = log2(a) / log2e."""
        return self.mul(self.log2(a), self.const(Const(mpq(1), log2e=-1)))

    def sqrt(self, a: Ids) -> Ids:
        return self._folded(Op.SQRT, self._fold_sqrt, (a,))

    def _fold_sqrt(self, a: Ids) -> Ids | None:
        if isinstance(a, int):
            if a in (ZERO, ONE, POS_INF, NAN, UNDEF):
                return a
            if a == NEG_INF:
                return NAN
            x = self._finite(a)
            if x is not None and x.coef < 0:
                return NAN
            if x is not None and x.is_rational:
                numerator, denominator = (mpz_root(x.coef.numerator), mpz_root(x.coef.denominator))
                if numerator is not None and denominator is not None:
                    return self.rational(mpq(numerator, denominator))
        return None

    def unary(self, op: Op, a: Ids) -> Ids:
        """Any other unary operator (TANH, SIN, COS, ERF, FLOOR, ...): only NaN and undefined fold; TANH and ERF also 0."""

        def fold(x: Ids) -> Ids | None:
            if isinstance(x, int):
                if x in (NAN, UNDEF):
                    return x
                if x == ZERO and op in (Op.TANH, Op.SIN, Op.ERF, Op.FLOOR, Op.CEIL, Op.TRUNC, Op.ROUND_EVEN):
                    return ZERO
                if x == ZERO and op is Op.COS:
                    return ONE
                if op in (Op.TANH, Op.ERF) and x in (POS_INF, NEG_INF):
                    return ONE if x == POS_INF else self.rational(-1)
                const = self._finite(x)
                if const is not None and const.is_rational and op in _ROUNDINGS:
                    return self.rational(_ROUNDINGS[op](const.coef))
            return None

        return self._folded(op, fold, (a,))

    def compare(self, op: Op, a: Ids, b: Ids) -> Ids:
        """LT, LE, EQ or NE as a 0/1 term. A comparison with NaN is false (NE: true), as ordered IEEE comparison."""

        def fold(x: Ids, y: Ids) -> Ids | None:
            for z in (x, y):
                if isinstance(z, int) and z == NAN:
                    return TRUE if op is Op.NE else FALSE
                if isinstance(z, int) and z == UNDEF:
                    return UNDEF
            p, q = self._order_key(x), self._order_key(y)
            if p is not None and q is not None:
                return TRUE if {Op.LT: p < q, Op.LE: p <= q, Op.EQ: p == q, Op.NE: p != q}[op] else FALSE
            if q is not None and abs(q[0]) == 1 and p is None or p is not None and abs(p[0]) == 1 and q is None:
                # a finite real against an infinity
                below = (q is not None and q[0] == 1) or (p is not None and p[0] == -1)
                return {Op.LT: TRUE if below else FALSE, Op.LE: TRUE if below else FALSE, Op.EQ: FALSE, Op.NE: TRUE}[op]
            return None

        return self._folded(op, fold, (a, b))

    def _order_key(self, ident: Ids) -> "tuple[int, mpq] | None":
        """(-1, 0) for -inf, (0, q) for a rational, (1, 0) for inf; None where the order is not known."""
        if not isinstance(ident, int) or not 0 <= ident < CONST_CAP:
            return None
        if ident in (POS_INF, NEG_INF):
            return (1 if ident == POS_INF else -1, mpq(0))
        const = self.consts[ident]
        return (0, const.coef) if const.is_rational else None

    def select(self, condition: Ids, a: Ids, b: Ids) -> Ids:
        """condition ? a : b for a symbolic 0/1 condition."""

        def fold(p: Ids, x: Ids, y: Ids) -> Ids | None:
            if isinstance(p, int) and p in (TRUE, FALSE):
                return x if p == TRUE else y
            if isinstance(p, int) and p == UNDEF:
                return UNDEF
            return None

        return self._folded(Op.ITE, fold, (condition, a, b))

    def logic(self, op: Op, a: Ids, b: Ids = ZERO) -> Ids:
        """AND, OR, NOT over 0/1 terms."""

        def fold(x: Ids, y: Ids) -> Ids | None:
            neutral, absorbing = (TRUE, FALSE) if op is Op.AND else (FALSE, TRUE)
            for p, q in ((x, y), (y, x)):
                if isinstance(p, int):
                    if p == neutral:
                        return q
                    if p == absorbing:
                        return absorbing
                    if p == UNDEF:
                        return UNDEF
            return None

        def fold_not(x: Ids) -> Ids | None:
            if isinstance(x, int) and x in (TRUE, FALSE, UNDEF):
                return {TRUE: FALSE, FALSE: TRUE, UNDEF: UNDEF}[x]
            return None

        return self._folded(op, fold_not, (a,)) if op is Op.NOT else self._folded(op, fold, (a, b))

    def opaque(self, name: str, a: Ids, b: Ids = ZERO) -> Ids:
        """An operation without a meaning over the reals; ``name`` enters the verdict's reason."""
        if name not in self.opaque_names:
            self.opaque_names.append(name)
        return self.emit(Op.OPAQUE, a, b, self.opaque_names.index(name))


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


def _has_const(ids: Ids) -> bool:
    """Whether a column holds an interned constant: as unsigned numbers these are the smallest ids."""
    if isinstance(ids, int):
        return 0 <= ids < CONST_CAP
    return ids.size > 0 and bool(np.minimum.reduce(ids.view(np.uint32), axis=None) < CONST_CAP)


def mpz_root(value: "object") -> "int | None":
    """The integer square root of a perfect square, else None."""
    n = int(value)  # type: ignore[call-overload]
    root = math.isqrt(n)
    return root if root * root == n else None


def _floor(q: mpq) -> int:
    return int(q.numerator // q.denominator)


def _round_even(q: mpq) -> int:
    low = _floor(q)
    rest = q - low
    if rest * 2 == 1:
        return low + (low & 1)
    return low + (1 if rest * 2 > 1 else 0)


_ROUNDINGS: dict[Op, Callable[[mpq], int]] = {
    Op.FLOOR: _floor,
    Op.CEIL: lambda q: -_floor(-q),
    Op.TRUNC: lambda q: _floor(q) if q >= 0 else -_floor(-q),
    Op.ROUND_EVEN: _round_even,
}
