"""Small kernels as arena terms, the way a reference and an optimised program would compute them; lists of ids in and out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gmpy2 import mpq

from ptx_engine.decide.templates import ClassResult, Outcome, ProofBudget, prove_columns
from ptx_engine.terms import Arena, Const

Ids = list[int]


class Builder:
    """An arena with shorthand; scalars only."""

    def __init__(self) -> None:
        self.arena = Arena(capacity=1 << 10)
        self._count = 0

    def inputs(self, count: int, fmt: str = "f32") -> Ids:
        entry = self.arena.add_input(f"x{self._count}", count, fmt)
        self._count += 1
        return [int(entry.ids(i)) for i in range(count)]

    def c(self, value: object) -> int:
        return self.arena.rational(mpq(value))

    def total(self, values: Sequence[int]) -> int:
        result = values[0]
        for v in values[1:]:
            result = self.arena.add(result, v)
        return result

    def tree(self, values: Sequence[int]) -> int:
        level = list(values)
        while len(level) > 1:
            level = [self.arena.add(*level[i : i + 2]) if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)]
        return level[0]

    def greatest(self, values: Sequence[int]) -> int:
        result = values[0]
        for v in values[1:]:
            result = self.arena.maximum(result, v)
        return result

    def dot(self, a: Sequence[int], b: Sequence[int], acc: int = 0) -> int:
        for x, y in zip(a, b):
            acc = self.arena.fma(x, y, acc)
        return acc

    def rsqrt(self, x: int) -> int:
        return self.arena.div(1, self.arena.sqrt(x))

    def sigmoid(self, x: int) -> int:
        return self.arena.div(1, self.arena.add(1, self.arena.exp(self.arena.neg(x))))

    # --- softmax and attention ------------------------------------------------------------------

    def softmax(self, s: Sequence[int]) -> Ids:
        e = [self.arena.exp(x) for x in s]
        bottom = self.total(e)
        return [self.arena.div(x, bottom) for x in e]

    def softmax_shifted(self, s: Sequence[int]) -> Ids:
        m = self.greatest(s)
        return self.softmax([self.arena.sub(x, m) for x in s])

    def lse(self, s: Sequence[int]) -> int:
        return self.arena.log(self.total([self.arena.exp(x) for x in s]))

    def lse_shifted(self, s: Sequence[int]) -> int:
        m = self.greatest(s)
        return self.arena.add(m, self.lse([self.arena.sub(x, m) for x in s]))

    def online(
        self, s: Sequence[int], v: Sequence[int], block: int, base2: bool = False, divide_each: bool = False
    ) -> tuple[int, int, int]:
        """(output, maximum, denominator) of the online softmax of scores s over values v; FA1 divides in every step."""
        a = self.arena
        power = a.exp2 if base2 else a.exp
        if base2:
            s = [a.mul(x, a.const(Const(mpq(1), log2e=1))) for x in s]
        m, bottom, out = s[0], 0, 0
        for start in range(0, len(s), block):
            part = s[start : start + block]
            fresh = self.greatest([m, *part]) if start else self.greatest(part)
            p = [power(a.sub(x, fresh)) for x in part]
            rescale = power(a.sub(m, fresh)) if start else 0
            previous = a.mul(bottom, rescale)
            new_bottom = a.add(previous, self.tree(p))
            if divide_each:
                out = a.div(self.dot(p, v[start : start + block], a.mul(out, previous)), new_bottom)
            else:
                out = self.dot(p, v[start : start + block], a.mul(out, rescale))
            m, bottom = fresh, new_bottom
        return (out if divide_each else a.div(out, bottom)), m, bottom

    def attention(self, s: Sequence[int], v: Sequence[int]) -> int:
        e = [self.arena.exp(x) for x in s]
        return self.arena.div(self.dot(e, v), self.total(e))

    def split_kv(self, s: Sequence[int], v: Sequence[int], parts: int, rescale: bool = True) -> int:
        """Partial outputs with their own LSE, merged."""
        a, size = self.arena, len(s) // parts
        outs, logs = [], []
        for i in range(0, len(s), size):
            out, m, bottom = self.online(s[i : i + size], v[i : i + size], 2)
            outs.append(out)
            logs.append(a.add(m, a.log(bottom)))
        top = self.greatest(logs)
        weights = [a.exp(a.sub(x, top)) for x in logs] if rescale else [1] * parts
        return a.div(self.dot(weights, outs), self.total(weights))

    # --- normalisation --------------------------------------------------------------------------

    def mean(self, x: Sequence[int]) -> int:
        return self.arena.mul(self.total(x), self.c(mpq(1, len(x))))

    def centred(self, x: Sequence[int], mean: int) -> Ids:
        return [self.arena.sub(v, mean) for v in x]

    def variance(self, x: Sequence[int]) -> int:
        d = self.centred(x, self.mean(x))
        return self.arena.mul(self.dot(d, d), self.c(mpq(1, len(x))))

    def variance_by_moments(self, x: Sequence[int]) -> int:
        m = self.mean(x)
        return self.arena.sub(self.arena.mul(self.dot(x, x), self.c(mpq(1, len(x)))), self.arena.mul(m, m))

    def welford(self, x: Sequence[int]) -> tuple[int, int]:
        a, mean, square = self.arena, x[0], 0
        for k in range(1, len(x)):
            d = a.sub(x[k], mean)
            mean = a.fma(d, self.c(mpq(1, k + 1)), mean)
            square = a.fma(d, a.sub(x[k], mean), square)
        return mean, a.mul(square, self.c(mpq(1, len(x))))

    def chan(self, x: Sequence[int], block: int) -> tuple[int, int]:
        a, mean, square = self.arena, 0, 0
        for start in range(0, len(x), block):
            part = x[start : start + block]
            m = self.mean(part)
            d = self.centred(part, m)
            q = self.dot(d, d)
            if not start:
                mean, square = m, q
                continue
            n, delta = start + block, a.sub(m, mean)
            mean = a.fma(delta, self.c(mpq(block, n)), mean)
            square = a.add(a.add(square, q), a.mul(a.mul(delta, delta), self.c(mpq(start * block, n))))
        return mean, a.mul(square, self.c(mpq(1, len(x))))

    def normalised(self, x: int, mean: int, variance: int, eps: int) -> int:
        return self.arena.mul(self.arena.sub(x, mean), self.rsqrt(self.arena.add(variance, eps)))

    # --- sorting --------------------------------------------------------------------------------

    def exchange(self, x: Ids, i: int, j: int) -> None:
        x[i], x[j] = self.arena.minimum(x[i], x[j]), self.arena.maximum(x[i], x[j])

    def odd_even_sort(self, x: Sequence[int]) -> Ids:
        y = list(x)
        for round_ in range(len(y)):
            for i in range(round_ % 2, len(y) - 1, 2):
                self.exchange(y, i, i + 1)
        return y

    def bitonic_sort(self, x: Sequence[int]) -> Ids:
        y, n, size = list(x), len(x), 2
        while size <= n:
            stride = size // 2
            while stride:
                for i in range(n):
                    if i < (j := i ^ stride):
                        self.exchange(y, *((i, j) if i & size == 0 else (j, i)))
                stride //= 2
            size *= 2
        return y


#: far beyond what any proof here takes, however busy the machine: what bounds them is ``terms``
SECONDS = 250.0


def prove(builder: Builder, reference: Sequence[int], candidate: Sequence[int], terms: int = 20_000_000) -> list[ClassResult]:
    """All classes of the comparison."""
    sides = (np.array(side, np.int32) for side in (reference, candidate))
    return prove_columns(builder.arena, *sides, ProofBudget(SECONDS, terms))


def proved(builder: Builder, reference: Sequence[int], candidate: Sequence[int], terms: int = 20_000_000) -> bool:
    """Whether every output is proved."""
    results = prove(builder, reference, candidate, terms)
    assert sorted(int(m) for r in results for m in r.members) == list(range(len(reference)))
    return all(r.outcome is Outcome.EQUAL for r in results)
