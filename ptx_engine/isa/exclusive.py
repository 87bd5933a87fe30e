"""Exclusive or of whole symbolic words: remembered, since a word that occurs twice cancels (x ^ (x ^ y) = y, as sorting networks swap).

The exclusive or of two floats is a part of its own kind, which no instruction reads as a number; a select between it and
zero stays one. Of two integers it is the bit operator's term.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptx_engine.isa.reinterpret import integer_of
from ptx_engine.isa.values import Part, Sym, Value, int_fmt, same_ids, xor_fmt, xor_of
from ptx_engine.terms import ZERO, Arena, Ids, Op
from ptx_engine.terms.alike import built_alike

#: selects inside selects that are looked through
_DEPTH = 4


def exclusive(arena: Arena, a: Value, b: Value, bits: int) -> Value | None:
    """a ^ b where both hold the same parts, part by part; None where nothing is known to cancel and no part remembers it."""
    if not isinstance(a, Sym) or not isinstance(b, Sym) or len(a.parts) != len(b.parts):
        return None
    parts: list[Part] = []
    for x, y in zip(a.parts, b.parts):
        part = _part(arena, x, y)
        if part is None:
            return None
        parts.append(part)
    return Sym(tuple(parts))


def _part(arena: Arena, x: Part, y: Part) -> Part | None:
    (f, p), (h, q) = x, y
    if f.bits != h.bits:
        return None
    if f.kind == "float" and h is f:
        return None if same_ids(p, q) else (xor_fmt(f), arena.emit(Op.BITXOR, p, q))
    for (word, ids), (mixed, nodes) in ((x, y), (y, x)):
        if mixed.kind == "xor" and xor_of(mixed) is word:
            found = cancelled(arena, nodes, ids)
            return None if found is None else (word, found)
    return _integers(arena, x, y) if f.kind == h.kind == "int" else None


def _integers(arena: Arena, x: Part, y: Part) -> Part | None:
    bits, signed = x[0].bits, signed_words((x, y))
    words = [integer_of(arena, Sym((part,)), bits, signed) for part in (x, y)]
    assert words[0] is not None and words[1] is not None
    for nodes, word in ((words[0][0], words[1][0]), (words[1][0], words[0][0])):
        found = cancelled(arena, nodes, word)
        if found is not None:
            return (int_fmt(bits, -(1 << bits - 1), (1 << bits - 1) - 1) if signed else int_fmt(bits, 0, (1 << bits) - 1)), found
    return None


def signed_words(parts: Sequence[Part]) -> bool:
    """Whether integers are signed words as they stand, one of them with a sign: bit operations on them then need no wrap, nor do
    comparisons of what comes of them."""
    half = [1 << fmt.bits - 1 for fmt, _ in parts]
    return any(fmt.lo < 0 for fmt, _ in parts) and all(fmt.lo >= -h and fmt.hi < h for (fmt, _), h in zip(parts, half))


def cancelled(arena: Arena, nodes: Ids, word: Ids, depth: int = _DEPTH) -> Ids | None:
    """nodes ^ word where each node is BITXOR(word, y), zero, or a select of such; None otherwise."""
    n, w = np.broadcast_arrays(np.atleast_1d(np.asarray(nodes)), np.atleast_1d(np.asarray(word)))
    ops, a, b, c = arena.columns()
    if not n.size or bool((n < 0).any()) or depth == 0:
        return None
    result, zero = np.array(w, np.int32), n == ZERO
    mixed, chosen = ~zero & (ops[n] == Op.BITXOR), ~zero & (ops[n] == Op.ITE)
    if not bool((zero | mixed | chosen).all()) or not bool((mixed | chosen).any()):
        return None
    left, right = a[n], b[n]
    first, second = mixed & (left == w), mixed & (right == w)
    for found, side in ((first, left), (second, right)):  # a word may be computed twice: the terms are two, built alike
        open_ = np.flatnonzero(mixed & ~first & ~second)
        found[open_] = built_alike(arena, side[open_], w[open_])
    if bool((mixed & ~first & ~second).any()):
        return None
    result[first], result[second & ~first] = right[first], left[second & ~first]
    if chosen.any():
        yes, no = (_branch(arena, side[n][chosen], w[chosen], depth) for side in (b, c))
        if yes is None or no is None:
            return None
        result[chosen] = arena.select(a[n][chosen], yes, no)
    return int(result[0]) if isinstance(nodes, int) and isinstance(word, int) else result


def _branch(arena: Arena, nodes: np.ndarray, word: np.ndarray, depth: int) -> np.ndarray | None:
    """One side of a select, which may be zero throughout."""
    if bool((nodes == ZERO).all()):
        return word
    found = cancelled(arena, nodes, word, depth - 1)
    return None if found is None else np.asarray(found, np.int32)
