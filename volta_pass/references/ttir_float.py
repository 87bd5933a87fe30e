"""Float operations of arith, math and tt: one row per operation, over term ids. Rounding is the identity (real arithmetic)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from gmpy2 import mpq

from ptx_engine.terms.arena import FALSE, NAN, TRUE, UNDEF, Arena, Ids
from ptx_engine.terms.constants import Const
from ptx_engine.terms.ops import Op
from volta_pass.references.library import Call, approximated
from volta_pass.references.ttir_frame import Frame
from volta_pass.references.ttir_registry import OpInfo, Run, operation
from volta_pass.references.ttir_values import Sym, emitted, id_operand, rows

FloatOp = Callable[..., Ids]


def constant(arena: Arena, numerator: int, denominator: int = 1) -> int:
    """The id of a small rational."""
    return arena.rational(mpq(numerator, denominator))


def unary(op: Op) -> FloatOp:
    return lambda arena, a: arena.unary(op, a)


def _rsqrt(arena: Arena, a: Ids) -> Ids:
    return arena.div(TRUE, arena.sqrt(a))


def _log10(arena: Arena, a: Ids) -> Ids:
    return arena.div(arena.log2(a), arena.log2(constant(arena, 10)))


def _fmod(arena: Arena, a: Ids, b: Ids) -> Ids:
    """a - b * trunc(a / b)."""
    return arena.sub(a, arena.mul(b, arena.unary(Op.TRUNC, arena.div(a, b))))


def _round(arena: Arena, a: Ids) -> Ids:
    """To nearest, halves away from zero: trunc(a + copysign(1/2, a))."""
    half = constant(arena, 1, 2)
    signed = arena.select(arena.compare(Op.LT, a, 0), arena.neg(half), half)
    return arena.unary(Op.TRUNC, arena.add(a, signed))


def _tan(arena: Arena, a: Ids) -> Ids:
    return arena.div(arena.unary(Op.SIN, a), arena.unary(Op.COS, a))


def _pow(arena: Arena, a: Ids, b: Ids) -> Ids:
    return arena.emit(Op.POW, a, b)


def _copysign(arena: Arena, a: Ids, b: Ids) -> Ids:
    """|a| with b's sign; b is not -0, which a real number has not."""
    size = arena.abs(a)
    return arena.select(arena.compare(Op.LT, b, 0), arena.neg(size), size)


def _propagating(pick: FloatOp) -> FloatOp:
    """maximumf and minimumf: a NaN operand is the result, unlike maxnumf and minnumf."""

    def run(arena: Arena, a: Ids, b: Ids) -> Ids:
        result = pick(arena, a, b)
        if _holds_nan(a) or _holds_nan(b):
            return _plain(np.where((np.asarray(a) == NAN) | (np.asarray(b) == NAN), np.int32(NAN), result))
        return result

    return run


def _plain(ids: np.ndarray) -> Ids:
    """An array without axes as the int that it is."""
    return int(ids) if ids.ndim == 0 else ids


def _holds_nan(ids: Ids) -> bool:
    return ids == NAN if isinstance(ids, int) else bool((ids == NAN).any())


def _maximum(arena: Arena, a: Ids, b: Ids) -> Ids:
    return arena.maximum(a, b)


def _minimum(arena: Arena, a: Ids, b: Ids) -> Ids:
    return arena.minimum(a, b)


#: what each float function means; extern functions of a device library are looked up here too
FUNCTIONS: dict[str, FloatOp] = {
    "add": lambda arena, a, b: arena.add(a, b),
    "sub": lambda arena, a, b: arena.sub(a, b),
    "mul": lambda arena, a, b: arena.mul(a, b),
    "div": lambda arena, a, b: arena.div(a, b),
    "fma": lambda arena, a, b, c: arena.fma(a, b, c),
    "neg": lambda arena, a: arena.neg(a),
    "abs": lambda arena, a: arena.abs(a),
    "exp": lambda arena, a: arena.exp(a),
    "exp2": lambda arena, a: arena.exp2(a),
    "exp10": lambda arena, a: arena.exp2(arena.mul(a, arena.log2(constant(arena, 10)))),
    "expm1": lambda arena, a: arena.sub(arena.exp(a), TRUE),
    "log": lambda arena, a: arena.log(a),
    "log2": lambda arena, a: arena.log2(a),
    "log10": _log10,
    "log1p": lambda arena, a: arena.log(arena.add(a, TRUE)),
    "sqrt": lambda arena, a: arena.sqrt(a),
    "rsqrt": _rsqrt,
    "rcp": lambda arena, a: arena.div(TRUE, a),
    "sin": unary(Op.SIN),
    "cos": unary(Op.COS),
    "tan": _tan,
    "tanh": unary(Op.TANH),
    "erf": unary(Op.ERF),
    "erfc": lambda arena, a: arena.sub(TRUE, arena.unary(Op.ERF, a)),
    "floor": unary(Op.FLOOR),
    "ceil": unary(Op.CEIL),
    "trunc": unary(Op.TRUNC),
    "rint": unary(Op.ROUND_EVEN),
    "round": _round,
    "fmod": _fmod,
    "pow": _pow,
    "copysign": _copysign,
    "max": _maximum,
    "min": _minimum,
    "max_nan": _propagating(_maximum),
    "min_nan": _propagating(_minimum),
    "log2e": lambda arena: arena.const(Const(mpq(1), log2e=1)),
}

_ROWS: dict[str, str] = {
    "arith.addf": "add", "arith.subf": "sub", "arith.mulf": "mul", "arith.divf": "div", "arith.negf": "neg", "arith.remf": "fmod",
    "arith.maxnumf": "max", "arith.minnumf": "min", "arith.maximumf": "max_nan", "arith.minimumf": "min_nan",
    "tt.precise_divf": "div", "tt.precise_sqrt": "sqrt",
    "math.absf": "abs", "math.exp": "exp", "math.exp2": "exp2", "math.expm1": "expm1", "math.log": "log", "math.log2": "log2",
    "math.log10": "log10", "math.log1p": "log1p", "math.sqrt": "sqrt", "math.rsqrt": "rsqrt", "math.sin": "sin", "math.cos": "cos",
    "math.tan": "tan", "math.tanh": "tanh", "math.erf": "erf", "math.erfc": "erfc", "math.floor": "floor", "math.ceil": "ceil",
    "math.trunc": "trunc", "math.round": "round", "math.roundeven": "rint", "math.fma": "fma", "math.powf": "pow",
    "math.copysign": "copysign",
}  # fmt: skip


def apply(function: FloatOp, op: OpInfo) -> Run:
    """A step that applies a float function to the operands, lane by lane."""
    result, operands, rank = op.result, op.operands, op.kind.rank

    def run(frame: Frame) -> None:
        ids = [id_operand(rows(frame.get(r))) for r in operands]
        frame.regs[result] = Sym(emitted(function(frame.arena, *ids), rank))

    return run


def apply_library(function: FloatOp, key: str, op: OpInfo) -> Run:
    """A step that applies what the compiler's library computes where its code is known, else the function itself."""
    own = apply(function, op)
    result, operands, rank = op.result, op.operands, op.kind.rank

    def run(frame: Frame) -> None:
        library = frame.memory.library
        ids = [id_operand(rows(frame.get(r))) for r in operands] if library is not None else []
        found = library.apply(frame.arena, key, ids) if library is not None else None
        if library is None:
            own(frame)
        elif found is None:
            raise op.unsupported(f"the compiler's library code of {key} has no formula (it loops or reads tables)")
        else:
            frame.regs[result] = Sym(emitted(found, rank))

    return run


def call_key(name: str, op: OpInfo) -> str:
    """The library's key of a call of ``name`` with this operation's operands."""
    return Call(name, tuple(kind.fmt for kind in op.operand_types), extern=True).key


def _math(function: FloatOp, op: OpInfo) -> Run:
    return apply_library(function, call_key(op.name, op), op) if approximated(op.name, extern=False) else apply(function, op)


def _register_rows() -> None:
    for name, function in _ROWS.items():
        operation(name)(partial(_math, FUNCTIONS[function]))


_register_rows()


@operation("tt.clampf")
def clampf(op: OpInfo) -> Run:
    """min(max(x, low), high); with propagateNan = 65535 (ALL) a NaN x stays NaN."""
    low, high = ("max_nan", "min_nan") if op.integer("propagateNan", 0) else ("max", "min")
    return apply(lambda arena, x, lo, hi: FUNCTIONS[high](arena, FUNCTIONS[low](arena, x, lo), hi), op)


#: largest finite value of formats to which a conversion saturates
SATURATION = {"e4m3": 448, "e5m2": 57344}


@operation("arith.truncf", "arith.extf", "tt.fp_to_fp")
def convert_float(op: OpInfo) -> Run:
    """Float to float: the identity over the reals; to the 8-bit formats a clamp to the largest finite value."""
    source, result = op.operands[0], op.result
    top = SATURATION.get(op.kind.fmt) if op.kind.fmt != op.operand_types[0].fmt else None
    if top is None:
        return lambda frame: frame.assign((result,), (frame.get(source),))

    def clamp(arena: Arena, x: Ids) -> Ids:
        return arena.minimum(arena.maximum(x, constant(arena, -top)), constant(arena, top))

    return apply(clamp, op)


def _always(value: int) -> FloatOp:
    return lambda arena, a, b: value


def _not(inner: FloatOp) -> FloatOp:
    return lambda arena, a, b: arena.logic(Op.NOT, inner(arena, a, b))


def _compare(op: Op, swap: bool = False) -> FloatOp:
    """A comparison in which a real number equals itself."""
    same = TRUE if op in (Op.LE, Op.EQ) else FALSE

    def run(arena: Arena, a: Ids, b: Ids) -> Ids:
        result = arena.compare(op, b, a) if swap else arena.compare(op, a, b)
        equal = (np.asarray(a) == np.asarray(b)) & (np.asarray(a) != NAN) & (np.asarray(a) != UNDEF)
        if equal.any():
            return _plain(np.where(equal, np.int32(same), result))
        return result

    return run


def _unordered(arena: Arena, a: Ids, b: Ids) -> Ids:
    """True where an operand is NaN: over the reals, only the constant."""
    return _plain(((np.asarray(a) == NAN) | (np.asarray(b) == NAN)).astype(np.int32))


_LT, _LE, _GT, _GE = _compare(Op.LT), _compare(Op.LE), _compare(Op.LT, swap=True), _compare(Op.LE, swap=True)
_EQ, _NE = _compare(Op.EQ), _compare(Op.NE)
#: ordered comparisons by name
COMPARISONS: dict[str, FloatOp] = {"lt": _LT, "le": _LE, "gt": _GT, "ge": _GE, "eq": _EQ, "ne": _NE}


def _ordered_ne(arena: Arena, a: Ids, b: Ids) -> Ids:
    return arena.logic(Op.AND, _NE(arena, a, b), arena.logic(Op.NOT, _unordered(arena, a, b)))


def _unordered_eq(arena: Arena, a: Ids, b: Ids) -> Ids:
    return arena.logic(Op.OR, _EQ(arena, a, b), _unordered(arena, a, b))


#: arith.cmpf predicates by number: false, oeq, ogt, oge, olt, ole, one, ord, ueq, ugt, uge, ult, ule, une, uno, true
_CMPF: tuple[FloatOp, ...] = (
    _always(FALSE), _EQ, _GT, _GE, _LT, _LE, _ordered_ne, _not(_unordered),
    _unordered_eq, _not(_LE), _not(_LT), _not(_GE), _not(_GT), _NE, _unordered, _always(TRUE),
)  # fmt: skip


@operation("arith.cmpf")
def cmpf(op: OpInfo) -> Run:
    """A predicate term per lane; an unordered comparison is the negation of the opposite ordered one (NaN makes it true)."""
    inner = apply(_CMPF[op.integer("predicate")], op)
    result = op.result

    def run(frame: Frame) -> None:
        inner(frame)
        frame.regs[result] = Sym(rows(frame.get(result)), 0, 1)

    return run
