"""Bitwise functions of registers with symbolic data: wherever constant bits decide, the result is a constant, a slice or its complement."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from ptx_engine.isa.fields import Field, Plain, Slice, cut, mask, total_width
from ptx_engine.isa.values import same_ids

#: truth tables over (a, b, c), bit 4a + 2b + c of the table, as lop3 numbers them
AND, OR, XOR, NOT = 0xC0, 0xFC, 0x3C, 0x0F


def bitwise(table: int, operands: Sequence[Sequence[Field]]) -> list[Field] | None:
    """A truth table over three registers of one width, bit by bit; None where two symbolic bits really meet."""
    width = total_width(operands[0])
    cuts = sorted({0, *(at for fields in operands for at in accumulate(f.width for f in fields))})
    result: list[Field] = []
    for lo, hi in pairwise(cuts):
        pieces = [cut(fields, lo, hi - lo)[0] for fields in operands]
        if all(isinstance(p, Plain) for p in pieces):
            result.append(Plain(_evaluate(table, [p.bits for p in pieces], hi - lo), hi - lo))  # type: ignore[union-attr]
            continue
        segment = _segment(table, [_uniform(p) for p in pieces], hi - lo)
        if segment is None:
            return None
        result.extend(segment)
    assert total_width(result) == width
    return result


def _uniform(f: Field) -> Field:
    """Bits that are the same in all lanes as an int."""
    if isinstance(f, Plain) and isinstance(f.bits, np.ndarray) and f.bits.size and bool((f.bits == f.bits[0]).all()):
        return Plain(int(f.bits[0]), f.width)
    return f


def _evaluate(table: int, words: "list[int | np.ndarray]", width: int) -> "int | np.ndarray":
    """A truth table on concrete bits."""
    full = mask(width)
    if any(isinstance(w, np.ndarray) for w in words):
        columns = [np.asarray(w, np.uint64) for w in words]
        return np.asarray(_sum_of_products(table, columns, np.asarray(full, np.uint64)))
    return int(_sum_of_products(table, words, full))


def _sum_of_products(table: int, words: Sequence["int | np.ndarray"], full: "int | np.ndarray") -> "int | np.ndarray":
    result: "int | np.ndarray" = full ^ full
    for i in range(8):
        if table >> i & 1:
            x, y, z = (w if i >> 2 - k & 1 else w ^ full for k, w in enumerate(words))
            result = result | (x & y & z)
    return result & full


def _segment(table: int, pieces: list[Field], width: int) -> list[Field] | None:
    """One stretch where each operand is one field: cut further where constant bits change."""
    constants = [p.bits if isinstance(p, Plain) and isinstance(p.bits, int) else None for p in pieces]
    changes = [0, width]
    for i in range(1, width):
        if any(c is not None and (c >> i & 1) != (c >> i - 1 & 1) for c in constants):
            changes.insert(-1, i)
    result: list[Field] = []
    for lo, hi in pairwise(changes):
        known = [None if c is None else c >> lo & 1 for c in constants]
        one = _run(table, known, [cut([p], lo, hi - lo)[0] for p in pieces], hi - lo)
        if one is None:
            return None
        result.append(one)
    return result


def _run(table: int, known: list[int | None], pieces: list[Field], width: int) -> Field | None:
    """A stretch where the constant operands are all zeros or all ones."""
    free = _distinct([i for i, k in enumerate(known) if k is None], pieces)
    inputs = [i for i in range(8) if all(k is None or (i >> 2 - p & 1) == k for p, k in enumerate(known))]
    inputs = [i for i in inputs if all(len({i >> 2 - p & 1 for p in group}) == 1 for group in free)]
    outputs = {i: table >> i & 1 for i in inputs}
    if len(set(outputs.values())) == 1:
        return Plain(mask(width) if outputs[inputs[0]] else 0, width)
    for group in free:
        bits = {i: i >> 2 - group[0] & 1 for i in inputs}
        piece = pieces[group[0]]
        if all(outputs[i] == bits[i] for i in inputs):
            return piece
        if all(outputs[i] != bits[i] for i in inputs):
            return _inverted(piece)
    return None


def _distinct(free: list[int], pieces: list[Field]) -> list[list[int]]:
    """Operands that are not constant, those that are the same slice together."""
    groups: list[list[int]] = []
    for p in free:
        for group in groups:
            if _same(pieces[group[0]], pieces[p]):
                group.append(p)
                break
        else:
            groups.append([p])
    return groups


def _same(x: Field, y: Field) -> bool:
    if not isinstance(x, Slice) or not isinstance(y, Slice):
        return False
    return (x.lo, x.inverted) == (y.lo, y.inverted) and x.part[0] is y.part[0] and same_ids(x.part[1], y.part[1])


def _inverted(f: Field) -> Field:
    if isinstance(f, Slice):
        return Slice(f.part, f.lo, f.width, not f.inverted)
    ones = mask(f.width)
    return Plain(f.bits ^ ones if isinstance(f.bits, int) else np.bitwise_xor(f.bits, np.uint64(ones)), f.width)
