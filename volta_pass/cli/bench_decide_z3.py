"""Z3 on the terms of ``bench decide``: one output element, as real arithmetic; exponentials and roots by their laws.

``python -m ... CASE MILLISECONDS`` prints the answer and its CPU seconds as JSON. Z3 is no dependency: without it there is no row.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from ptx_engine.terms.arena import CONST_CAP, Arena
from ptx_engine.terms.ops import TABLE, Op


class Encoder:
    """Terms of an arena as Z3 expressions over real variables."""

    def __init__(self, z3: Any, arena: Arena) -> None:
        self.z3, self.arena = z3, arena
        self.known: dict[int, Any] = {}
        #: what holds of the functions and inputs that occur
        self.facts: list[Any] = []
        self.exp2 = z3.Function("exp2", z3.RealSort(), z3.RealSort())
        x, y = z3.Reals("x y")
        self.laws = [
            z3.ForAll([x, y], self.exp2(x + y) == self.exp2(x) * self.exp2(y)),
            z3.ForAll([x], self.exp2(x) > 0),
        ]

    def term(self, root: int) -> Any:
        """The expression of a term, operands first."""
        stack = [root]
        while stack:
            ident = stack[-1]
            if ident in self.known:
                stack.pop()
                continue
            missing = [child for child in self._operands(ident) if child not in self.known]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            self.known[ident] = self._expression(ident)
        return self.known[root]

    def _operands(self, ident: int) -> list[int]:
        if ident < CONST_CAP:
            return []
        op, *operands = self.arena.node(ident)
        if op is Op.DOT:
            rows, cols, acc = self.arena.dot_operands(ident)
            return [*rows.tolist(), *cols.tolist(), acc]
        if TABLE[op].record:
            return [int(x) for x in self.arena.nary_operands(ident)]
        return operands[: TABLE[op].arity]

    def _expression(self, ident: int) -> Any:
        z3 = self.z3
        if ident < 0:
            return z3.Real(f"i{-ident}")
        if ident < CONST_CAP:
            return self._constant(ident)
        op, *_ = self.arena.node(ident)
        x = [self.known[child] for child in self._operands(ident)]
        if op is Op.DOT:
            half = (len(x) - 1) // 2
            return z3.Sum([*(a * b for a, b in zip(x[:half], x[half : 2 * half])), x[-1]])
        if op in (Op.NMAX, Op.MAX):
            return self._maximum(x)
        if op is Op.SQRT:
            root = z3.Real(f"r{ident}")
            self.facts += [root >= 0, root * root == x[0]]
            return root
        return {
            Op.ADD: lambda: x[0] + x[1], Op.SUB: lambda: x[0] - x[1], Op.MUL: lambda: x[0] * x[1], Op.NEG: lambda: -x[0],
            Op.FMA: lambda: x[0] * x[1] + x[2], Op.DIV: lambda: x[0] / x[1], Op.EXP2: lambda: self.exp2(x[0]), Op.NSUM: lambda: z3.Sum(x),
        }[op]()  # fmt: skip

    def _constant(self, ident: int) -> Any:
        const = self.arena.consts[ident]
        value = self.z3.Q(int(const.coef.numerator), int(const.coef.denominator))
        if not const.log2e:
            return value
        log2e = self.z3.Real("log2e")
        self.facts.append(log2e > 0)
        return value * log2e

    def _maximum(self, values: list[Any]) -> Any:
        total = values[0]
        for value in values[1:]:
            total = self.z3.If(total >= value, total, value)
        return total


def answer(arena: Arena, reference: int, candidate: int, milliseconds: int) -> dict[str, object]:
    """Z3's answer on one pair of terms: proved, refuted, unknown or time-out, the CPU seconds of encoding and solving, and its version."""
    import z3

    clock = time.process_time()
    encoder = Encoder(z3, arena)
    difference = encoder.term(reference) != encoder.term(candidate)
    solver = z3.Solver()
    solver.set("timeout", milliseconds)
    solver.add(*encoder.facts, difference)
    if any(arena.columns()[0][CONST_CAP:] == Op.EXP2):
        solver.add(*encoder.laws)
    found = {"unsat": "proved", "sat": "refuted"}.get(str(solver.check()), "unknown")
    seconds = time.process_time() - clock
    if found == "unknown" and solver.reason_unknown() in ("timeout", "canceled"):
        found = "time-out"
    return {"answer": found, "seconds": seconds, "version": z3.get_version_string()}


if __name__ == "__main__":
    from volta_pass.cli.bench_decide_case import CASES

    p = CASES[sys.argv[1]].make()
    print(json.dumps(answer(p.arena, int(p.reference["out"].ids[0]), int(p.candidate["out"].ids[0]), int(sys.argv[2]))))
