"""Functions without a body that a launch declares to be mathematical operators (``[externs]`` of a spec).

The machine replaces such a call by the pseudo instruction ``extern call``, which no PTX text can spell.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ptx_engine.isa.algebra import PLAIN
from ptx_engine.isa.algebra_symbolic import SymbolicAlgebra
from ptx_engine.isa.decode import Decode, Step
from ptx_engine.isa.group import Group
from ptx_engine.isa.registry import instruction
from ptx_engine.isa.values import FLOATS
from ptx_engine.terms import ONE, Arena, Ids, Op

EXTERN_CALL = "extern call"


@dataclass(frozen=True)
class Operator:
    """``terms`` emits it over the reals, ``numbers`` computes it in float64; None where the algebra of IEEE bits has an operator of
    that name: a fused sum that is rounded to float64 first is rounded twice."""

    arity: int
    terms: Callable[..., Ids]
    numbers: Callable[..., np.ndarray] | None


def _op(op: Op) -> Callable[..., Ids]:
    return lambda arena, x: arena.unary(op, x)


def _erf(x: np.ndarray) -> np.ndarray:
    return np.fromiter(map(math.erf, x.tolist()), np.float64, len(x))


def _rsqrt(x: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 / np.sqrt(x))


OPERATORS: dict[str, Operator] = {
    "exp": Operator(1, Arena.exp, np.exp), "exp2": Operator(1, Arena.exp2, np.exp2), "log": Operator(1, Arena.log, np.log),
    "log2": Operator(1, Arena.log2, np.log2), "sqrt": Operator(1, Arena.sqrt, np.sqrt),
    "rsqrt": Operator(1, lambda arena, x: arena.div(ONE, arena.sqrt(x)), _rsqrt),
    "rcp": Operator(1, lambda arena, x: arena.div(ONE, x), np.reciprocal), "tanh": Operator(1, _op(Op.TANH), np.tanh),
    "sin": Operator(1, _op(Op.SIN), np.sin), "cos": Operator(1, _op(Op.COS), np.cos), "erf": Operator(1, _op(Op.ERF), _erf),
    "abs": Operator(1, Arena.abs, np.abs), "neg": Operator(1, Arena.neg, np.negative), "floor": Operator(1, _op(Op.FLOOR), np.floor),
    "ceil": Operator(1, _op(Op.CEIL), np.ceil), "trunc": Operator(1, _op(Op.TRUNC), np.trunc),
    "rint": Operator(1, _op(Op.ROUND_EVEN), np.rint), "max": Operator(2, Arena.maximum, np.fmax),
    "min": Operator(2, Arena.minimum, np.fmin), "pow": Operator(2, lambda arena, x, y: arena.emit(Op.POW, x, y), np.power),
    "fma": Operator(3, Arena.fma, None),
}  # fmt: skip


@instruction(EXTERN_CALL, f"op={'|'.join(OPERATORS)} type=f16|bf16|f32|f64", source="launch specs, [externs]")
def extern_call(d: Decode) -> Step:
    """An operator over the reals; in concrete mode float64 rounded once."""
    row, fmt, algebra = OPERATORS[d.mods["op"]], FLOATS[d.mods["type"]], d.algebra
    d.expect(1 + row.arity)
    dst, sources, name = d.dst(), [d.src(i + 1) for i in range(row.arity)], d.mods["op"]
    symbolic = isinstance(algebra, SymbolicAlgebra)
    rounded = algebra.apply(name, (fmt,), PLAIN) if not symbolic and row.numbers is None else None

    def step(g: Group) -> None:
        if rounded is not None:
            g.R[dst] = rounded(*(g.R[s] for s in sources))
            return
        operands = [algebra.read(g.R[s], (fmt,), name)[0] for s in sources]
        if symbolic:
            g.R[dst] = algebra.write((fmt,), [row.terms(d.arena, *operands)])  # type: ignore[list-item]
            return
        assert row.numbers is not None
        with np.errstate(all="ignore"):
            columns = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in operands), np.empty(g.n))
            g.R[dst] = algebra.write((fmt,), [row.numbers(*columns[:-1])])

    return step
