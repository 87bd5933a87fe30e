"""Random terms over three inputs and random rewrites of them that are valid wherever both sides are defined."""

from __future__ import annotations

import random
from collections.abc import Callable

from gmpy2 import mpq

from ptx_engine.terms import TABLE, Arena, Op

X, Y, Z = INPUTS = (-1, -2, -3)
_ROUNDINGS = (Op.FLOOR, Op.CEIL, Op.TRUNC, Op.ROUND_EVEN)
_ODD_EVEN = (Op.TANH, Op.SIN, Op.COS, Op.ERF)


class Terms:
    """Generates and rewrites terms of one arena with one random source."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.arena = Arena(capacity=64)
        self.arena.add_input("x", 4, "f32")

    def leaf(self) -> int:
        if self.rng.random() < 0.75:
            return self.rng.choice(INPUTS)
        return self.arena.rational(mpq(self.rng.randint(-4, 4), self.rng.choice((1, 1, 2, 3))))

    def term(self, depth: int) -> int:
        """A random term of at most the given depth."""
        a, rng = self.arena, self.rng
        if depth == 0 or rng.random() < 0.1:
            return self.leaf()

        def t() -> int:
            return self.term(depth - 1)

        makers: list[tuple[int, Callable[[], object]]] = [
            (6, lambda: a.add(t(), t())), (4, lambda: a.sub(t(), t())), (8, lambda: a.mul(t(), t())),
            (3, lambda: a.fma(t(), t(), t())), (2, lambda: a.neg(t())), (4, lambda: a.maximum(t(), t())),
            (4, lambda: a.minimum(t(), t())), (2, lambda: a.abs(t())), (2, lambda: a.exp2(t())), (2, lambda: a.exp(t())),
            (4, lambda: a.div(t(), t())), (2, lambda: a.sqrt(t())), (1, lambda: a.log2(t())),
            (2, lambda: a.unary(rng.choice(_ROUNDINGS + _ODD_EVEN), t())), (3, lambda: a.select(self.condition(depth), t(), t())),
            (1, lambda: a.emit(Op.POW, t(), a.rational(mpq(rng.randint(-3, 3), rng.choice((1, 2)))))),
        ]  # fmt: skip
        return int(rng.choices([m for _, m in makers], [w for w, _ in makers])[0]())  # type: ignore[call-overload]

    def condition(self, depth: int) -> int:
        """A random comparison, negated or joined with another at times."""
        a, rng = self.arena, self.rng
        compare = (Op.LT, Op.LE, Op.EQ, Op.NE)
        result = a.compare(rng.choice(compare), self.term(depth - 1), self.term(depth - 1))
        if rng.random() < 0.2:
            result = a.logic(rng.choice((Op.AND, Op.OR)), result, a.compare(Op.LT, self.term(depth - 1), self.term(depth - 1)))
        return int(a.logic(Op.NOT, result) if rng.random() < 0.2 else result)  # type: ignore[arg-type]

    def rewritten(self, root: int, share: float) -> int:
        """The same value spelled otherwise: every operator is rewritten with probability ``share``."""
        memo: dict[int, int] = {}
        stack = [root]
        while stack:
            ident = stack[-1]
            if ident in memo:
                stack.pop()
                continue
            if ident < 0 or self.arena.node(ident)[0] is Op.CONST:
                memo[ident] = ident
                continue
            op, *slots = self.arena.node(ident)
            operands = slots[: TABLE[op].arity]
            missing = [i for i in operands if i not in memo]
            if missing:
                stack.extend(missing)
                continue
            memo[ident] = self._spelled(op, [memo[i] for i in operands], self.rng.random() < share)
        return memo[root]

    def _spelled(self, op: Op, v: list[int], otherwise: bool) -> int:
        rules = self._rules(op, v) if otherwise else []
        return int(self.rng.choice(rules)() if rules else self._plain(op, v))  # type: ignore[call-overload]

    def _plain(self, op: Op, v: list[int]) -> object:
        a = self.arena
        builders: dict[Op, Callable[..., object]] = {
            Op.ADD: a.add, Op.SUB: a.sub, Op.MUL: a.mul, Op.DIV: a.div, Op.FMA: a.fma, Op.NEG: a.neg, Op.MAX: a.maximum,
            Op.MIN: a.minimum, Op.ABS: a.abs, Op.EXP2: a.exp2, Op.LOG2: a.log2, Op.SQRT: a.sqrt, Op.ITE: a.select,
        }  # fmt: skip
        if op in builders:
            return builders[op](*v)
        if op is Op.POW:
            return a.emit(op, *v)
        if op in (Op.AND, Op.OR, Op.NOT):
            return a.logic(op, *v)
        return a.compare(op, *v) if TABLE[op].predicate else a.unary(op, *v)

    def _rules(self, op: Op, v: list[int]) -> list[Callable[[], object]]:
        a, two, half = self.arena, self.arena.rational(2), self.arena.rational(mpq(1, 2))
        p = v[0]
        q = v[1] if len(v) > 1 else p
        match op:
            case Op.ADD:
                return [lambda: a.add(q, p), lambda: a.sub(p, a.neg(q)), lambda: a.sub(a.add(a.add(p, X), q), X)]
            case Op.SUB:
                return [lambda: a.add(p, a.neg(q)), lambda: a.neg(a.sub(q, p))]
            case Op.MUL:
                return [lambda: a.mul(q, p), lambda: a.neg(a.mul(a.neg(p), q)), lambda: a.sub(a.mul(p, a.add(q, Y)), a.mul(Y, p))]
            case Op.FMA:
                return [lambda: a.add(a.mul(p, q), v[2])]
            case Op.DIV:
                e = a.exp2(X)
                return [lambda: a.mul(p, a.div(1, q)), lambda: a.div(a.neg(p), a.neg(q)), lambda: a.div(a.mul(p, e), a.mul(q, e))]
            case Op.NEG:
                return [lambda: a.mul(p, a.rational(-1)), lambda: a.sub(0, p)]
            case Op.MAX:
                return [
                    lambda: a.maximum(q, p), lambda: a.neg(a.minimum(a.neg(p), a.neg(q))),
                    lambda: a.select(a.compare(Op.LT, q, p), p, q), lambda: a.add(a.maximum(a.sub(p, Z), a.sub(q, Z)), Z),
                    lambda: a.maximum(a.maximum(p, q), p), lambda: a.mul(a.maximum(a.mul(p, two), a.mul(two, q)), half),
                ]  # fmt: skip
            case Op.MIN:
                return [lambda: a.minimum(q, p), lambda: a.neg(a.maximum(a.neg(p), a.neg(q))), lambda: a.sub(a.add(p, q), a.maximum(p, q))]
            case Op.ABS:
                return [lambda: a.maximum(p, a.neg(p)), lambda: a.abs(a.neg(p)), lambda: a.sqrt(a.mul(p, p))]
            case Op.EXP2:
                return [lambda: a.mul(a.exp2(a.sub(p, X)), a.exp2(X)), lambda: a.div(1, a.exp2(a.neg(p)))]
            case Op.ITE:
                return [lambda: a.select(a.logic(Op.NOT, p), v[2], v[1])]
            case Op.LT:
                return [lambda: a.logic(Op.NOT, a.compare(Op.LE, q, p)), lambda: a.compare(Op.LT, a.sub(p, q), 0)]
        return []

    def text(self, ident: int) -> str:
        """A term in words, for failure messages."""
        if ident < 0:
            return "xyzw"[-1 - ident]
        op, *slots = self.arena.node(ident)
        if op is Op.CONST:
            return str(self.arena.consts[slots[0]])
        return f"{TABLE[op].symbol}({', '.join(self.text(i) for i in slots[: TABLE[op].arity])})"
