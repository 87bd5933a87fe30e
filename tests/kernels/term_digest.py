"""A hash of every term of an arena by its structure: equal for terms that are built alike, whatever their ids.

Unlike ``decide.shape_hash`` nothing is commutative or associative here: a sum in another order is another term. Written from the
operator table and the layout of records alone. 64 bits: two of a million different terms agree by chance once in thirty million runs.
"""

from __future__ import annotations

import hashlib

import numpy as np

from ptx_engine.terms import Arena
from ptx_engine.terms.ops import TABLE, Op
from ptx_engine.terms.storage import CONST_CAP

U64 = np.uint64


def _mix(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> U64(32))) * U64(0xD6E8FEB86659FD93)
    x = (x ^ (x >> U64(32))) * U64(0xD6E8FEB86659FD93)
    return x ^ (x >> U64(32))


def _of_text(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _in_order(columns: np.ndarray) -> np.ndarray:
    """One value of the last axis' values, in their order."""
    place = _mix(np.arange(1, columns.shape[-1] + 1, dtype=U64))
    return _mix(columns * (place | U64(1)) + place).sum(axis=-1, dtype=U64)


class TermDigest:
    """Digests of all terms of an arena."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._op, *self._operands = arena.columns()
        self._values = np.zeros(len(self._op), U64)
        constants = [_of_text(repr(const)) for const in arena.consts]
        self._values[: min(len(constants), CONST_CAP)] = constants[:CONST_CAP]
        starts = [start for start in arena.emissions if start >= CONST_CAP]
        with np.errstate(over="ignore"):
            for first, stop in zip(starts, [*starts[1:], len(self._op)]):
                self._emission(Op(int(self._op[first])), slice(first, stop))

    def of(self, ids: np.ndarray) -> np.ndarray:
        """Digests of ids; inputs by their place among the inputs, which both sides of a comparison share."""
        ids = np.asarray(ids, np.int64)
        with np.errstate(over="ignore"):
            return np.where(ids < 0, _mix(ids.view(U64) * U64(0x9E3779B97F4A7C15)), self._values[np.maximum(ids, 0)])

    def _emission(self, op: Op, span: slice) -> None:
        kind = U64(_of_text(op.name))
        if op is Op.DOT:
            record = self._arena.dots[int(self._operands[0][span.start])]
            place = _mix(np.arange(1, record.rows.shape[2] + 1, dtype=U64))
            products = np.matmul(_mix(self.of(record.rows) + place), _mix(self.of(record.cols) ^ place).transpose(0, 2, 1))
            self._values[span] = _mix(products + _mix(self.of(record.acc) + kind)).ravel()
        elif TABLE[op].record:
            operands = self._arena.naries[int(self._operands[0][span.start])].operands
            self._values[span] = _mix(_in_order(self.of(operands)) + kind)
        elif op is Op.CONST:
            self._values[span] = [_of_text(repr(self._arena.consts[int(i)])) for i in self._operands[0][span]]
        else:
            row = TABLE[op]
            plain = [self._operands["abc".index(name)][span].astype(np.int64).view(U64) for name in row.plain]
            ids = [self.of(column[span]) for column in self._operands[: row.arity]]
            self._values[span] = _mix(_in_order(np.stack([*ids, *plain], axis=-1)) + kind)
