"""Random integer terms over inputs of known formats, with plain Python integers as their meaning."""

from __future__ import annotations

import random
from collections.abc import Callable

from ptx_engine.terms import Arena, Op

#: name, lowest and highest value of the inputs, in order of their ids from -1 down
INPUTS = (("s8", -128, 127), ("u8", 0, 255), ("s32", -(2**31), 2**31 - 1), ("u32", 0, 2**32 - 1))
Point = tuple[int, ...]
#: an id and its value at a point
Term = tuple[int, Callable[[Point], int]]


def wrapped(x: int, width: int) -> int:
    """x modulo 2^|width|, signed for a negative width."""
    bits = abs(width)
    x %= 1 << bits
    return x - (1 << bits) if width < 0 and x >> bits - 1 else x


def towards_zero(x: int, y: int) -> int:
    """x / y as in C."""
    return x // y if (x < 0) == (y < 0) else -(-x // y)


class Integers:
    """Generates terms of one arena with one random source."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.arena = Arena(capacity=64)
        for name, _, _ in INPUTS:
            self.arena.add_input(name, 1, name)

    def point(self) -> Point:
        """Values of the inputs: bounds, neighbours of powers of two, small and any ones."""
        return tuple(self._value(low, high) for _, low, high in INPUTS)

    def _value(self, low: int, high: int) -> int:
        rng = self.rng
        near = rng.choice((1, -1)) * 2 ** rng.randint(0, 32) + rng.randint(-1, 1)
        return max(low, min(high, rng.choice((low, high, near, near, rng.randint(-9, 9), rng.randint(low, high)))))

    def leaf(self) -> Term:
        """An input, or a constant at times."""
        if self.rng.random() < 0.85:
            i = self.rng.randrange(len(INPUTS))
            return -1 - i, lambda p: p[i]
        c = self.rng.choice((0, 1, -1, 2, 3, 7, 8, 15, 128, 255, 256, -8, -128))
        return self.arena.rational(c), lambda p: c

    def term(self, depth: int) -> Term:
        """A random term of at most the given depth."""
        if depth == 0 or self.rng.random() < 0.05:
            return self.leaf()
        return self.rng.choice((self._ring, self._ring, self._cut, self._cut, self._quotient, self._bits, self._choice))(depth)

    def _emit(self, op: Op, *slots: int) -> int:
        return int(self.arena.emit(op, *slots))  # type: ignore[call-overload]

    def _ring(self, depth: int) -> Term:
        (x, f), (y, g), a = self.term(depth - 1), self.term(depth - 1), self.arena
        kind = self.rng.randrange(4)
        if kind == 0:
            return int(a.add(x, y)), lambda p: f(p) + g(p)  # type: ignore[call-overload]
        if kind == 1:
            return int(a.sub(x, y)), lambda p: f(p) - g(p)  # type: ignore[call-overload]
        c = self.rng.choice((-3, -1, 2, 3, 5, 8, 16, 256, 2**16, 0xAAAB, 0xCCCD, 0xAAAAAAAB, 0x55555556))
        if kind == 2:
            return int(a.mul(x, a.rational(c))), lambda p: f(p) * c  # type: ignore[call-overload]
        return int(a.fma(x, a.rational(c), y)), lambda p: f(p) * c + g(p)  # type: ignore[call-overload]

    def _cut(self, depth: int) -> Term:
        x, f = self.term(depth - 1)
        if self.rng.random() < 0.5:
            width = self.rng.choice((1, -1)) * self.rng.choice((1, 2, 4, 8, 16, 32))
            return self._emit(Op.WRAP, x, width, 0), lambda p: wrapped(f(p), width)
        low, bits = self.rng.choice((0, 1, 3, 4, 8, 16, 31, 32)), self.rng.choice((1, 4, 8, 16, 32))
        return self._emit(Op.FIELD, x, low, bits), lambda p: f(p) >> low & ((1 << bits) - 1)

    def _quotient(self, depth: int) -> Term:
        (x, f), a = self.term(depth - 1), self.arena
        d = self.rng.choice((1, 2, 3, 4, 5, 7, 8, 10, 16, 100, 256))
        kind = self.rng.randrange(5)
        if kind == 0:
            return self._emit(Op.FLOORDIV, x, a.rational(d)), lambda p: f(p) // d
        if kind == 1:
            return self._emit(Op.TRUNCDIV, x, a.rational(d)), lambda p: towards_zero(f(p), d)
        if kind == 2:
            return self._emit(Op.TRUNCREM, x, a.rational(d)), lambda p: f(p) - d * towards_zero(f(p), d)
        if kind == 3:
            return self._emit(Op.SHL, x, a.rational(d % 9)), lambda p: f(p) << d % 9
        n = self.rng.choice((1, 2, 3, 8, 16, 31, 32, 33, 34))
        return self._emit(Op.SHR, x, a.rational(n)), lambda p: f(p) >> n

    def _bits(self, depth: int) -> Term:
        (x, f), (y, g) = self.term(depth - 1), self.leaf()
        kind = self.rng.randrange(3)
        if kind == 0:
            return self._emit(Op.BITAND, x, y), lambda p: f(p) & g(p)
        if kind == 1:
            return self._emit(Op.BITOR, x, y), lambda p: f(p) | g(p)
        return self._emit(Op.BITXOR, x, y), lambda p: f(p) ^ g(p)

    def _choice(self, depth: int) -> Term:
        (x, f), (y, g), a = self.term(depth - 1), self.leaf(), self.arena
        kind = self.rng.randrange(4)
        if kind == 0:
            return int(a.maximum(x, y)), lambda p: max(f(p), g(p))  # type: ignore[call-overload]
        if kind == 1:
            return int(a.minimum(x, y)), lambda p: min(f(p), g(p))  # type: ignore[call-overload]
        z, h = self.leaf()
        if kind == 2:
            return int(a.select(a.compare(Op.LT, x, y), z, x)), lambda p: h(p) if f(p) < g(p) else f(p)  # type: ignore[call-overload]
        return int(a.select(a.compare(Op.EQ, x, y), z, x)), lambda p: h(p) if f(p) == g(p) else f(p)  # type: ignore[call-overload]
