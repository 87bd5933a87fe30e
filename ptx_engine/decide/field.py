"""Arithmetic in a chain of prime fields, over NumPy columns: p0 = 2*p1 + 1 and p1 = 2*p2 + 1, about 31 bits.

2 has order p1 in F_p0 and order p2 in F_p1 (all three primes are 7 modulo 8), so that w -> 2^w maps F_p1 into F_p0 with
2^(v + w) = 2^v * 2^w, and integer powers of two keep their value. Elements are uint64 below p; products stay below 2^62.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from ptx_engine.decide.tiles import product

#: p0, p1, p2; every step is a safe prime, and 2, 3, 5, 7 are squares in the first two fields
CHAIN = (2147365919, 1073682959, 536841479)

#: K columns per float64 product block: 64 terms below 2^(31+16) sum to less than 2^53
_BLOCK = 64
_POWER_BITS = 11


@dataclass(frozen=True)
class Field:
    """F_p with ``order`` the order of 2 (the next prime of the chain); ``order`` is 0 where the chain ends."""

    p: int
    order: int
    _powers: list[np.ndarray] = field(default_factory=list, repr=False, compare=False)

    def add(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        total = x + y
        return np.asarray(np.minimum(total, total - np.uint64(self.p)))  # the wrong one of the two wraps to a huge number

    def sub(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        difference = x - y
        return np.asarray(np.minimum(difference, difference + np.uint64(self.p)))

    def neg(self, x: np.ndarray) -> np.ndarray:
        flipped = np.uint64(self.p) - x
        return np.asarray(np.minimum(flipped, flipped - np.uint64(self.p)))

    def mul(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(x * y % np.uint64(self.p))

    def fma(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.asarray((x * y + z) % np.uint64(self.p))

    def power(self, x: np.ndarray, exponent: int) -> np.ndarray:
        """x ** exponent, exponent >= 0, by squaring."""
        result, base = np.ones_like(x), x
        while exponent:
            if exponent & 1:
                result = self.mul(result, base)
            exponent >>= 1
            if exponent:
                base = self.mul(base, base)
        return result

    def inverse(self, x: np.ndarray) -> np.ndarray:
        """1/x, and 0 for 0. Large columns invert one product per pair and undo it, down to a short column."""
        zero = x == 0
        return np.where(zero, np.uint64(0), self._invert(np.where(zero, np.uint64(1), x).ravel()).reshape(x.shape))

    def _invert(self, x: np.ndarray) -> np.ndarray:
        if len(x) <= 256:
            return self.power(x, self.p - 2)
        half = len(x) // 2
        low, high, odd = x[:half], x[half : 2 * half], x[2 * half :]
        both = self._invert(np.concatenate((self.mul(low, high), odd)))
        return np.concatenate((self.mul(both[:half], high), self.mul(both[:half], low), both[half:]))

    def exp2(self, w: np.ndarray) -> np.ndarray:
        """2 ** w for exponents w in the next field of the chain."""
        if not self._powers:
            self._powers.extend(self._power_tables())
        mask = np.uint64((1 << _POWER_BITS) - 1)
        first, second, third = self._powers
        result = self.mul(first[w & mask], second[w >> np.uint64(_POWER_BITS) & mask])
        return self.mul(result, third[w >> np.uint64(2 * _POWER_BITS)])

    def _power_tables(self) -> list[np.ndarray]:
        """2^i, 2^(i * 2^11) and 2^(i * 2^22) for i below 2^11."""
        tables = []
        for digit in range(3):
            table = np.ones(1, np.uint64)
            step = pow(2, 1 << (digit * _POWER_BITS), self.p)
            for _ in range(_POWER_BITS):
                table = np.concatenate((table, table * np.uint64(step) % np.uint64(self.p)))
                step = step * step % self.p
            tables.append(table)
        return tables

    def matmul(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Batched exact products (..., M, K) @ (..., K, N) of field elements (of any unsigned type), through float64 products.

        The left side is split into 16 low and 15 high bits, K into blocks, so that every sum is an exact float64.
        """
        if x.shape[-2] == 1 and y.shape[-1] == 1:
            return self._inner(np.asarray(x[..., 0, :], np.uint64), np.asarray(y[..., 0], np.uint64))[..., None, None]
        # in C order whatever the views' layout: otherwise these are no BLAS calls
        high = (x >> 16).astype(np.float64, order="C")
        low = (x & 0xFFFF).astype(np.float64, order="C")
        right = y.swapaxes(-1, -2).astype(np.float64, order="C").swapaxes(-1, -2)
        p = np.uint64(self.p)
        total: np.ndarray | None = None
        for start in range(0, x.shape[-1], _BLOCK):
            span = slice(start, start + _BLOCK)
            top = product(high[..., span], right[..., span, :]).astype(np.uint64) % p
            part = (top << np.uint64(16)) + product(low[..., span], right[..., span, :]).astype(np.uint64)
            total = part % p if total is None else (total + part) % p
        return np.zeros((*x.shape[:-1], y.shape[-1]), np.uint64) if total is None else total

    def _inner(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.total(self.mul(x, y), axis=-1)

    def total(self, x: np.ndarray, axis: int) -> np.ndarray:
        """Sum along an axis (fewer than 2^33 elements)."""
        return self.reduce(np.asarray(np.sum(x, axis=axis, dtype=np.uint64)))

    def reduce(self, x: np.ndarray) -> np.ndarray:
        """Any uint64 as a field element (hashes)."""
        return np.asarray(x % np.uint64(self.p))

    def rational(self, numerator: int, denominator: int) -> int:
        """numerator / denominator as a field element; a denominator that is 0 in the field counts as 1."""
        bottom = denominator % self.p
        return numerator * pow(bottom or 1, -1, self.p) % self.p


@lru_cache(maxsize=1)
def fields() -> tuple[Field, Field, Field]:
    """The chain as fields, by level."""
    p0, p1, p2 = CHAIN
    return Field(p0, p1), Field(p1, p2), Field(p2, 0)


_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(x: np.ndarray) -> np.ndarray:
    """The SplitMix64 finaliser (Steele, Lea, Flood 2014), a bijection on 64-bit words."""
    x = (x ^ (x >> np.uint64(30))) * _M1
    x = (x ^ (x >> np.uint64(27))) * _M2
    return np.asarray(x ^ (x >> np.uint64(31)))


@lru_cache(maxsize=4096)
def key(seed: int, *parts: "str | int") -> int:
    """A 64-bit key from a seed and labels, by BLAKE2b: the same on every machine and in every process."""
    text = "\x1f".join((str(seed), *map(str, parts))).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
