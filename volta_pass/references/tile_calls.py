"""Calls in the expressions of tile programs: mathematical functions by name, conversions, reductions of a condition."""

from __future__ import annotations

import numpy as np

from ptx_engine.errors import UnsupportedError
from ptx_engine.terms.arena import POS_INF, Arena, Ids
from ptx_engine.terms.ops import Op
from volta_pass.references.float_to_integer import held_integers
from volta_pass.references.freedoms import Conversion
from volta_pass.references.library import applied
from volta_pass.references.tile_expr import evaluate, expression, float_operation
from volta_pass.references.tile_logic import truth
from volta_pass.references.tile_program import Expr
from volta_pass.references.tile_regions import read_run
from volta_pass.references.tile_scope import Scope
from volta_pass.references.tile_types import element, kind_of
from volta_pass.references.ttir_arith import reinterpreted, widened
from volta_pass.references.ttir_float import SATURATION
from volta_pass.references.ttir_int import exact_ids, unsigned
from volta_pass.references.ttir_predicates import predicate_logic
from volta_pass.references.ttir_types import TtirType
from volta_pass.references.ttir_values import Sym, Value, concrete, emitted, id_operand, rows, type_range, wrapped

#: functions of TVM and of TileLang's CUDA dialect, by the float function that they are
_MATH = {
    **{name: name for name in (
        "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "erf", "floor", "ceil",
        "trunc", "pow", "fmod", "copysign", "fma",
    )},
    "fabs": "abs", "nearbyint": "rint", "round": "rint", "round_ties_away_from_zero": "round",
    "__exp": "exp", "__exp10": "exp10", "__log": "log", "__log2": "log2", "__log10": "log10",
    "__sin": "sin", "__cos": "cos", "__tan": "tan", "fast_rcp": "rcp", "max_nan": "max_nan", "min_nan": "min_nan", "fmul": "mul",
}  # fmt: skip

#: TileLang's functions with a rounding mode as their last argument
_ROUNDED = {
    "ieee_add": "add", "ieee_sub": "sub", "ieee_mul": "mul", "ieee_fdiv": "div", "ieee_fmaf": "fma",
    "ieee_frcp": "rcp", "ieee_fsqrt": "sqrt",
}  # fmt: skip


@expression(*_MATH, "ieee_frsqrt")
def _function(scope: Scope, expr: Expr) -> Value:
    if not kind_of(expr.dtype, 0).is_float:
        raise UnsupportedError(f"{expr.op} of {expr.dtype}", feature=expr.op)
    name, operands = _MATH.get(expr.op, "rsqrt"), [evaluate(scope, arg) for arg in expr.args]
    found = applied(scope.arena, name, element(expr.dtype).launch, [id_operand(rows(value)) for value in operands])
    return float_operation(scope, name, *operands) if found is None else Sym(emitted(found, scope.rank))


@expression(*_ROUNDED)
def _rounded(scope: Scope, expr: Expr) -> Value:
    return float_operation(scope, _ROUNDED[expr.op], *(evaluate(scope, arg) for arg in expr.args[:-1]))


@expression("sigmoid")
def _sigmoid(scope: Scope, expr: Expr) -> Value:
    """1 / (1 + exp(-x))."""
    x = evaluate(scope, expr.args[0])
    one = Sym(np.full((1,) * (scope.rank + 1), 1, np.int32))
    grown = float_operation(scope, "exp", float_operation(scope, "neg", x))
    return float_operation(scope, "div", one, float_operation(scope, "add", one, grown))


@expression("infinity")
def _infinity(scope: Scope, expr: Expr) -> Value:
    return Sym(np.full((1,) * (scope.rank + 1), POS_INF, np.int32))


@expression("min_value")
def _least(scope: Scope, expr: Expr) -> Value:
    kind = kind_of(expr.dtype, scope.rank)
    if kind.is_float:
        raise UnsupportedError(f"the least finite {expr.dtype}", feature="min_value", hint="-T.infinity(dtype)")
    return np.full((1,) * (scope.rank + 1), -(1 << kind.width - 1) if element(expr.dtype).signed else 0, kind.dtype)


@expression("clamp")
def _clamp(scope: Scope, expr: Expr) -> Value:
    """min(max(x, low), high), as torch.clamp; a NaN stays one."""
    x, low, high = (evaluate(scope, arg) for arg in expr.args)
    return float_operation(scope, "min_nan", float_operation(scope, "max_nan", x, low), high)


@expression("neg")
def _negation(scope: Scope, expr: Expr) -> Value:
    return float_operation(scope, "neg", evaluate(scope, expr.args[0]))


@expression("abs")
def _absolute(scope: Scope, expr: Expr) -> Value:
    value, kind = evaluate(scope, expr.args[0]), kind_of(expr.dtype, scope.rank)
    if kind.is_float:
        return float_operation(scope, "abs", value)
    if not isinstance(value, Sym):
        return np.abs(value)
    ids = exact_ids(scope.frame, value, kind.width, True)
    return Sym(emitted(scope.arena.abs(id_operand(ids)), scope.rank), 0, 1 << kind.width - 1)


@expression("any_of", "all_of")
def _quantified(scope: Scope, expr: Expr) -> Value:
    """Whether any or all of some adjacent elements are not zero."""
    values = read_run(scope, expr.args[0])
    op, total = (Op.BITOR if expr.op == "any_of" else Op.BITAND), None
    for value in values:
        test = truth(scope, value)
        if total is None:
            total = test
        elif isinstance(total, Sym) or isinstance(test, Sym):
            total = predicate_logic(op, scope.arena, scope.rank, total, test)
        else:
            total = total | test if op is Op.BITOR else total & test
    assert total is not None
    return total


# --- conversions ------------------------------------------------------------------------------------


@expression("cast")
def _cast(scope: Scope, expr: Expr) -> Value:
    source = expr.args[0]
    assert isinstance(source, Expr)
    return converted(scope, evaluate(scope, source), source.dtype, expr.dtype)


def converted(scope: Scope, value: Value, before: str, after: str) -> Value:
    """A value as another type, as a C cast: between floats the identity (to 8 bits, a clamp), to integers towards zero."""
    source, target = kind_of(before, scope.rank), kind_of(after, scope.rank)
    if before == after:
        return value
    if source.is_float:
        assert isinstance(value, Sym)
        return _float_to_float(scope, value, target) if target.is_float else _float_to_integer(scope, value, source, after)
    signed = element(before).signed
    if target.is_float:
        if isinstance(value, Sym) and source.width == 1:
            return Sym(value.ids)
        return Sym(exact_ids(scope.frame, value, source.width, signed))
    return _integer_to_integer(scope, value, source, target, signed)


def _float_to_float(scope: Scope, value: Sym, target: TtirType) -> Value:
    top = SATURATION.get(target.fmt)
    if top is None:
        return value

    def clamp(arena: Arena, x: Ids) -> Ids:
        return arena.minimum(arena.maximum(x, arena.rational(-top)), arena.rational(top))

    return Sym(emitted(clamp(scope.arena, id_operand(value.ids)), scope.rank))


#: C makes integers of fewer bits of one of so many, and cuts it; of halves NVCC makes them at once, where it packs them
_INT_BITS = 32


def _float_to_integer(scope: Scope, value: Sym, source: TtirType, after: str) -> Value:
    """Towards zero. Narrow numbers that do not fit are cut as C cuts them, or all are taken to fit (``Freedoms``)."""
    arena, kind = scope.arena, kind_of(after, scope.rank)
    if kind.width == 1:
        zero = np.zeros((1,) * (scope.rank + 1), np.int32)
        return Sym(emitted(arena.compare(Op.NE, id_operand(value.ids), id_operand(zero)), scope.rank), 0, 1)
    signed, freedoms = element(after).signed, scope.memory.freedoms
    whole, held = held_integers(arena, value.ids, kind.width, signed, source.width, 0 if freedoms.fitting else _INT_BITS)
    exact = wrapped(held, kind.width, signed, arena)
    found = concrete(exact, kind, arena)
    if found is None:
        place = getattr(arena.origin, "user_loc", "")
        freedoms.conversions.append(Conversion(np.unique(whole), *type_range(kind.width, signed), kind.width < _INT_BITS, place))
    return exact if found is None else found


def _integer_to_integer(scope: Scope, value: Value, source: TtirType, target: TtirType, signed: bool) -> Value:
    if target.width == 1:
        if not isinstance(value, Sym):
            return np.asarray(value != 0)
        ids = exact_ids(scope.frame, value, source.width, signed)
        return Sym(emitted(scope.arena.compare(Op.NE, id_operand(ids), 0), scope.rank), 0, 1)
    if not isinstance(value, Sym):
        if target.width > source.width and not signed:
            value = unsigned(value)
        return value.astype(target.dtype)
    if target.width > source.width:
        return widened(scope.arena, value, source.width, signed and source.width > 1)
    if value.bits and target.width < source.width:
        return wrapped(value, source.width, True, scope.arena)
    return Sym(value.ids, value.lo, value.hi, value.bits, min(value.zeros, target.width), value.shifted)


@expression("reinterpret")
def _reinterpret(scope: Scope, expr: Expr) -> Value:
    source = expr.args[0]
    assert isinstance(source, Expr)
    before, after = kind_of(source.dtype, scope.rank), kind_of(expr.dtype, scope.rank)
    if before.width != after.width:
        raise UnsupportedError(f"{source.dtype} reinterpreted as {expr.dtype}", feature="reinterpret")
    return reinterpreted(scope.arena, evaluate(scope, source), before, after)
