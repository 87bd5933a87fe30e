"""Which stored terms are the same value in every schedule: built alike, up to the order of commutative operands, or proved equal.

Two lanes of a butterfly reduction compute x + y and y + x; IEEE addition is commutative, so the bits are equal, although
the terms are two. Where a compiler fused products into the first step they compute fma(x, x, y * y) and fma(y, y, x * x): one
real number, which is what a verdict is about. Keys reassociate nothing: whether lanes of one instruction store one real number in
two ways is told by evaluating both, and then proved.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ptx_engine.decide.oracle import Reals, random_inputs
from ptx_engine.decide.templates import Outcome, ProofBudget, prove_apart
from ptx_engine.order.records import WeakKeys
from ptx_engine.terms import CONST_CAP, TABLE, Arena, Op

#: concrete bits are told to the order checker as ``BITS_BASE + bits``, term ids as they are
BITS_BASE = 1 << 40

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


Words = npt.NDArray[np.uint64]


def mix(x: Words) -> Words:
    """A 64-bit finaliser (the constants are those of SplitMix64)."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


#: pairs of stored values that are proved equal at most, and what all proofs together may cost
_PROVED, _SECONDS, _TERMS = 4096, 20.0, 2_000_000
#: a butterfly over 32 lanes parts two lanes for five levels; below that their operands are the same terms
SHALLOW = 6


def same_value_keys(arena: Arena) -> tuple[Callable[[np.ndarray], np.ndarray], ...]:
    """Functions from stored values (int64, any shape) to uint64 keys, equal where the values are equal in every schedule.

    The first looks a few levels deep and takes what is below by identity; the second walks whole terms.
    """

    def keys(values: np.ndarray, terms_of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        flat = values.ravel()
        is_term = flat < BITS_BASE
        result = mix(flat.astype(np.uint64) + _GOLDEN)
        terms, inverse = np.unique(flat[is_term].astype(np.int32), return_inverse=True)
        if terms.size:
            result[is_term] = terms_of(terms)[inverse]
        return result.reshape(values.shape)

    deep = TermKeys(arena)
    return (lambda values: keys(values, lambda ids: _shallow_keys(arena, ids))), (lambda values: keys(values, deep))


def numeric_keys(arena: Arena, rounded: bool = False) -> WeakKeys:
    """Keys of stored values by what they are at random real inputs, bit for bit in float64: two lanes that pick one index by
    different selections agree, two sums in different orders do not. These do where the numbers are ``rounded`` to float32: lanes
    that merge two means by Chan's formula, each beginning with its own, compute one real number in two ways."""

    def keys(values: np.ndarray) -> Words:
        flat = values.ravel()
        is_term = flat < BITS_BASE
        result = mix(flat.astype(np.uint64) + _GOLDEN)
        terms, inverse = np.unique(flat[is_term].astype(np.int32), return_inverse=True)
        if terms.size:
            numbers = Reals(arena, terms, random_inputs(arena)).of(terms)
            if rounded:
                with np.errstate(over="ignore"):
                    numbers = numbers.astype(np.float32).astype(np.float64)
            words = np.ascontiguousarray(numbers + 0.0).view(np.uint64)  # (+ 0.0: one zero)
            weights = mix(np.arange(words.shape[1], dtype=np.uint64) + _GOLDEN) | np.uint64(1)
            with np.errstate(over="ignore"):
                hashed = mix((mix(words) * weights).sum(axis=1, dtype=np.uint64))
            known = np.isfinite(numbers).all(axis=1) if rounded else ~np.isnan(numbers).any(axis=1)
            result[is_term] = np.where(known, hashed, leaf_keys(terms))[inverse]
        return result.reshape(values.shape)

    return WeakKeys(keys, rounded)


def proved_equal(arena: Arena, pairs: list[tuple[np.ndarray, np.ndarray]]) -> bool:
    """Whether stored values that agree at random inputs are one real number by proof: positions of one maximum, found by
    every lane in another order. Within a small budget."""
    left, right = (np.concatenate([side.ravel() for side in sides]) for sides in zip(*pairs))
    both = np.unique(np.stack([left, right])[:, left != right], axis=1)
    if both.shape[1] > _PROVED or int(both.max(initial=0)) >= BITS_BASE:
        return False
    one, other = both.astype(np.int32)
    results = prove_apart(arena, one, other, ProofBudget(_SECONDS, _TERMS))
    return all(r.outcome is Outcome.EQUAL and not r.assumptions for r in results)


def _shallow_keys(arena: Arena, ids: np.ndarray) -> Words:
    """Structural hashes of the top ``SHALLOW`` levels of terms (all of one level at a time); records are leaves."""
    ops, *columns = arena.columns()
    levels: list[np.ndarray] = [np.unique(ids)]
    for _ in range(SHALLOW):
        nodes = _inner(ops, levels[-1])
        below = [column[nodes] for column in columns]
        levels.append(np.unique(np.concatenate(below)) if nodes.size else np.zeros(0, np.int32))
    keys = leaf_keys(levels[-1])
    for level, under in zip(levels[-2::-1], levels[:0:-1]):
        keys = _level_keys(ops, columns, level, under, keys)
    found: np.ndarray = keys[np.searchsorted(levels[0], ids)]
    return found


def leaf_keys(ids: np.ndarray) -> Words:
    """Keys of terms by identity."""
    return mix(ids.astype(np.int64).astype(np.uint64) + _GOLDEN)


def _inner(ops: np.ndarray, ids: np.ndarray) -> np.ndarray:
    nodes = ids[ids >= CONST_CAP]
    inner: np.ndarray = nodes[_OPENED[ops[nodes]]]
    return inner


#: operators that the shallow walk opens: those whose operands are all ids
_OPENED = np.zeros(256, bool)
_OPENED[[op for op, row in TABLE.items() if not row.plain and not row.record]] = True


def _level_keys(ops: np.ndarray, columns: list[np.ndarray], level: np.ndarray, under: np.ndarray, keys: np.ndarray) -> Words:
    """Keys of one level from the keys of the level under it."""
    result = leaf_keys(level)
    nodes = _inner(ops, level)
    codes = ops[nodes]

    def of(ids: np.ndarray) -> Words:
        return keys[np.searchsorted(under, ids)]

    with np.errstate(over="ignore"):
        for code in np.unique(codes):
            chosen = nodes[codes == code]
            op = Op(int(code))
            operands = [column[chosen] if slot < TABLE[op].arity else None for slot, column in enumerate(columns)]
            result[np.searchsorted(level, chosen)] = _plain_keys(op, chosen.shape, operands, of, _seed(op))
    return result


class TermKeys:
    """Structural hashes of all terms of an arena, computed emission by emission as far as they are asked for."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.table = np.zeros(CONST_CAP, np.uint64)
        self.table[:CONST_CAP] = leaf_keys(np.arange(CONST_CAP))
        self.done = 0  # emissions hashed

    def of(self, ids: np.ndarray) -> Words:
        """Keys of terms that are hashed already; inputs by identity."""
        found = self.table[np.maximum(ids, 0)]
        return np.where(ids < 0, leaf_keys(ids), found) if ids.size and int(ids.min()) < 0 else found

    def __call__(self, ids: np.ndarray) -> np.ndarray:
        ops, a, b, c = self.arena.columns()
        if len(self.table) < len(ops):
            grown = np.zeros(max(len(ops), 2 * len(self.table)), np.uint64)
            grown[: len(self.table)] = self.table
            self.table = grown
        starts = self.arena.emissions
        last = int(ids.max()) if ids.size else 0
        with np.errstate(over="ignore"):
            while self.done < len(starts) and starts[self.done] <= last:
                first = starts[self.done]
                self.done += 1
                stop = starts[self.done] if self.done < len(starts) else len(ops)
                self.table[first:stop] = self._emission(Op(int(ops[first])), slice(first, stop), (a, b, c)).ravel()
        return self.of(ids)

    def _emission(self, op: Op, nodes: slice, columns: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Words:
        seed = _seed(op)
        if op is Op.DOT:
            record = self.arena.dots[int(columns[0][nodes.start])]
            rows, cols = self._lists(record.rows, 1), self._lists(record.cols, 2)
            return mix(rows[:, :, None] * _GOLDEN + mix(cols)[:, None, :] + self.of(record.acc) * np.uint64(3) + seed)
        if TABLE[op].record:
            return mix(self._lists(self.arena.naries[int(columns[0][nodes.start])].operands, 1) + seed)
        ids = np.arange(nodes.start, nodes.stop, dtype=np.int32)
        row = TABLE[op]
        operands = [x[nodes] if slot < row.arity or "abc"[slot] in row.plain else None for slot, x in enumerate(columns)]
        return _plain_keys(op, ids.shape, operands, self.of, seed)

    def _lists(self, ids: np.ndarray, salt: int) -> Words:
        """One key per list of operands along the last axis, in order."""
        weights = mix(np.arange(ids.shape[-1], dtype=np.uint64) * _GOLDEN + np.uint64(salt)) | np.uint64(1)
        return mix((self.of(ids) * weights).sum(axis=-1, dtype=np.uint64))


def _seed(op: Op) -> Words:
    """What tells an operator's keys from others'."""
    return mix(np.full(1, int(op) + 1, np.uint64))


def _commuted(x: Words, y: Words, seed: Words) -> Words:
    """Keys of an operator whose two operands may be exchanged."""
    return mix(x + y + mix(x) * mix(y) + seed)


def _plain_keys(
    op: Op, shape: tuple[int, ...], columns: "list[np.ndarray | None]", of: Callable[[np.ndarray], np.ndarray], seed: np.ndarray
) -> np.ndarray:
    """Keys of nodes of one operator from columns of operands: ids, or plain ints as the operator's row says."""
    row = TABLE[op]
    operands: list[np.ndarray] = []
    for slot, (name, column) in enumerate(zip("abc", columns)):
        if column is None:
            continue
        operands.append(of(column) if slot < row.arity and name not in row.plain else mix(column.astype(np.uint64) + _GOLDEN))
    total = np.broadcast_to(seed, shape).copy()
    if op is Op.FMA:  # a product and a sum
        return _commuted(_commuted(operands[0], operands[1], _seed(Op.MUL)), operands[2], _seed(Op.ADD))
    if row.commutative:
        return _commuted(operands[0], operands[1], total)
    for i, column in enumerate(operands):
        total = mix(total + mix(column) * np.uint64(2 * i + 3))
    return total
