"""Expressions of tile programs: a registry by operation, each from operand values to a value.

Floats are real numbers, integers are bit-exact where concrete and exact integers modulo their width where symbolic, as in
the TTIR evaluator, whose operations these are. TVM's signedness stands in the type: uint8 and int8 divide differently.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptx_engine.errors import UnsupportedError
from ptx_engine.terms.ops import Op
from volta_pass.references.contents import float_ids
from volta_pass.references.tile_logic import choose, opposite, truth
from volta_pass.references.tile_program import Expr, Operand
from volta_pass.references.tile_scope import Scope
from volta_pass.references.tile_types import element, kind_of
from volta_pass.references.ttir_bits import symbolic_bits, symbolic_shift
from volta_pass.references.ttir_float import COMPARISONS, FUNCTIONS
from volta_pass.references.ttir_int import BINARY, exact_ids, unsigned, widened_bit
from volta_pass.references.ttir_predicates import negation, predicate_logic
from volta_pass.references.ttir_ring import symbolic_ring
from volta_pass.references.ttir_types import TtirType
from volta_pass.references.ttir_values import Sym, Value, concrete, emitted, id_operand, need_concrete, rows

Evaluator = Callable[[Scope, Expr], Value]

EXPRESSIONS: dict[str, Evaluator] = {}


def expression(*names: str) -> Callable[[Evaluator], Evaluator]:
    """Register an operation's evaluator. Raises KeyError on a name that is taken."""

    def register(fn: Evaluator) -> Evaluator:
        for name in names:
            if name in EXPRESSIONS:
                raise KeyError(f"{name} is registered twice")
            EXPRESSIONS[name] = fn
        return fn

    return register


def evaluate(scope: Scope, expr: Operand) -> Value:
    """The value of an expression. Raises UnsupportedError naming an operation without a meaning here."""
    if not isinstance(expr, Expr):
        raise UnsupportedError("a region where a value is expected", feature="region")
    run = EXPRESSIONS.get(expr.op)
    if run is None:
        raise UnsupportedError(f"{expr.op} has no tile semantics here", feature=expr.op)
    return run(scope, expr)


def numbers(scope: Scope, expr: Operand, use: str) -> np.ndarray:
    """A value that decides an index, a bound or a condition. Raises NotStructuredError where it is symbolic."""
    assert isinstance(expr, Expr)
    return need_concrete(evaluate(scope, expr), kind_of(expr.dtype, scope.rank), scope.arena, use)


@expression("const")
def _constant(scope: Scope, expr: Expr) -> Value:
    kind, shape = kind_of(expr.dtype, scope.rank), (1,) * (scope.rank + 1)
    if kind.is_float:
        return Sym(float_ids(np.full(shape, float(expr.data), np.float64), kind.fmt, scope.arena))
    if kind.width == 1:
        return np.full(shape, bool(expr.data))
    bits = int(expr.data) & ((1 << kind.width) - 1)
    return np.full(shape, bits, np.uint64).astype(f"u{kind.element_bytes}").view(kind.dtype)


@expression("var")
def _variable(scope: Scope, expr: Expr) -> Value:
    value = scope.env.get(int(expr.data))
    if value is None:
        raise UnsupportedError("the index of a thread: a tile program is evaluated as a whole block", feature="thread index")
    return value


@expression("load")
def _load(scope: Scope, expr: Expr) -> Value:
    index = [numbers(scope, arg, "an index") for arg in expr.args]
    return scope.memory.load_elements(scope, int(expr.data), index)


def float_operation(scope: Scope, name: str, *operands: Value) -> Sym:
    """A float function of ``FUNCTIONS``, lane by lane."""
    return Sym(emitted(FUNCTIONS[name](scope.arena, *(id_operand(rows(v)) for v in operands)), scope.rank))


#: TVM operation -> (float function, MLIR's operation on signed integers, on unsigned ones)
_ARITHMETIC = {
    "add": ("add", "arith.addi", "arith.addi"), "sub": ("sub", "arith.subi", "arith.subi"), "mul": ("mul", "arith.muli", "arith.muli"),
    "div": ("div", "arith.divsi", "arith.divui"), "mod": ("fmod", "arith.remsi", "arith.remui"),
    "max": ("max", "arith.maxsi", "arith.maxui"), "min": ("min", "arith.minsi", "arith.minui"),
    "floordiv": ("", "arith.floordivsi", "arith.divui"),
    "bitwise_and": ("", "arith.andi", "arith.andi"), "bitwise_or": ("", "arith.ori", "arith.ori"),
    "bitwise_xor": ("", "arith.xori", "arith.xori"),
    "shift_left": ("", "arith.shli", "arith.shli"), "shift_right": ("", "arith.shrsi", "arith.shrui"),
}  # fmt: skip


@expression(*_ARITHMETIC)
def _arithmetic(scope: Scope, expr: Expr) -> Value:
    floating, signed, unsigned_name = _ARITHMETIC[expr.op]
    a, b = (evaluate(scope, arg) for arg in expr.args)
    kind = kind_of(expr.dtype, scope.rank)
    if kind.is_float:
        if not floating:
            raise UnsupportedError(f"{expr.op} of {expr.dtype}", feature=expr.op)
        return float_operation(scope, floating, a, b)
    return integer_operation(scope, signed if element(expr.dtype).signed else unsigned_name, kind, a, b)


def integer_operation(scope: Scope, name: str, kind: TtirType, a: Value, b: Value) -> Value:
    """An integer operation by its MLIR name."""
    exact, symbolic = BINARY[name]
    if isinstance(a, Sym) or isinstance(b, Sym):
        found = [concrete(v, kind, scope.arena) for v in (a, b)]
        if found[0] is None or found[1] is None:
            return _floor_of_power(scope, name, kind, a, b) or symbolic(scope.frame, kind, a, b)
        a, b = found[0], found[1]
    with np.errstate(all="ignore"):
        return (widened_bit(exact) if kind.width == 1 else exact)(a, b)


def _floor_of_power(scope: Scope, name: str, kind: TtirType, a: Value, b: Value) -> Value | None:
    """A quotient by a power of two, rounded down, is a shift: the form in which compilers write it."""
    power = power_of_two(scope, kind, b) if name in ("arith.floordivsi", "arith.divui") else None
    if power is None:
        return None
    shift = np.full((1,) * (scope.rank + 1), power, kind.dtype)
    return symbolic_shift(Op.SHR, signed=name == "arith.floordivsi")(scope.frame, kind, a, shift)


def power_of_two(scope: Scope, kind: TtirType, value: Value) -> int | None:
    """The logarithm of a value that is one positive power of two in all lanes."""
    found = concrete(value, kind, scope.arena)
    if found is None or not found.size or (found != found.flat[0]).any():
        return None
    number = int(found.flat[0])
    return number.bit_length() - 1 if number > 0 and number & (number - 1) == 0 else None


@expression("floormod")
def _floormod(scope: Scope, expr: Expr) -> Value:
    """a - b * floor(a / b); by a power of two, the low bits."""
    a, b = (evaluate(scope, arg) for arg in expr.args)
    kind = kind_of(expr.dtype, scope.rank)
    if kind.is_float:
        quotient = float_operation(scope, "floor", float_operation(scope, "div", a, b))
        return float_operation(scope, "sub", a, float_operation(scope, "mul", b, quotient))
    power = power_of_two(scope, kind, b)
    if power is not None and isinstance(a, Sym):
        low = np.full((1,) * (scope.rank + 1), (1 << power) - 1, kind.dtype)
        return symbolic_bits(Op.BITAND)(scope.frame, kind, a, low)
    floor = integer_operation(scope, "arith.floordivsi" if element(expr.dtype).signed else "arith.divui", kind, a, b)
    return integer_operation(scope, "arith.subi", kind, a, integer_operation(scope, "arith.muli", kind, b, floor))


@expression("bitwise_not")
def _bitwise_not(scope: Scope, expr: Expr) -> Value:
    value, kind = evaluate(scope, expr.args[0]), kind_of(expr.dtype, scope.rank)
    if not isinstance(value, Sym):
        return ~value
    minus_one = np.full((1,) * (scope.rank + 1), -1, kind.dtype)
    return symbolic_ring(Op.SUB)(scope.frame, kind, minus_one, value)


_TESTS: dict[str, tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], Op, bool]] = {
    "eq": (np.equal, Op.EQ, False), "ne": (np.not_equal, Op.NE, False), "lt": (np.less, Op.LT, False), "le": (np.less_equal, Op.LE, False),
    "gt": (np.greater, Op.LT, True), "ge": (np.greater_equal, Op.LE, True),
}  # fmt: skip


@expression(*_TESTS)
def _comparison(scope: Scope, expr: Expr) -> Value:
    first = expr.args[0]
    assert isinstance(first, Expr)
    a, b = (evaluate(scope, arg) for arg in expr.args)
    kind = kind_of(first.dtype, scope.rank)
    if kind.is_float:
        return Sym(emitted(COMPARISONS[expr.op](scope.arena, *(id_operand(rows(v)) for v in (a, b))), scope.rank), 0, 1)
    return _compare_integers(scope, expr.op, kind, element(first.dtype).signed, a, b)


def _compare_integers(scope: Scope, name: str, kind: TtirType, signed: bool, a: Value, b: Value) -> Value:
    test, term, swap = _TESTS[name]
    found = [concrete(v, kind, scope.arena) for v in (a, b)]
    if found[0] is not None and found[1] is not None:
        x, y = (v if signed else unsigned(v) for v in found if v is not None)
        return test(x, y)
    if kind.width == 1 and term in (Op.EQ, Op.NE):
        differ = predicate_logic(Op.BITXOR, scope.arena, scope.rank, a, b)
        return differ if term is Op.NE else negation(scope.arena, scope.rank, differ)
    ids = [id_operand(exact_ids(scope.frame, v, kind.width, signed)) for v in ((b, a) if swap else (a, b))]
    return Sym(emitted(scope.arena.compare(term, *ids), scope.rank), 0, 1)


@expression("and", "or")
def _logic(scope: Scope, expr: Expr) -> Value:
    """The second operand is evaluated only where it decides, as in C."""
    a = truth(scope, evaluate(scope, expr.args[0]))
    if not isinstance(a, Sym):
        open_lanes = a if expr.op == "and" else ~a
        if not open_lanes.any():
            return a
        b = truth(scope.masked(open_lanes), evaluate(scope.masked(open_lanes), expr.args[1]))
        if not isinstance(b, Sym):
            return np.asarray(a & b if expr.op == "and" else a | b)
    else:
        b = truth(scope, evaluate(scope, expr.args[1]))
    return predicate_logic(Op.BITAND if expr.op == "and" else Op.BITOR, scope.arena, scope.rank, a, b)


@expression("not")
def _not(scope: Scope, expr: Expr) -> Value:
    return opposite(scope, truth(scope, evaluate(scope, expr.args[0])))


@expression("select", "if_then_else")
def _conditional(scope: Scope, expr: Expr) -> Value:
    """Each side is evaluated in the lanes that take it."""
    condition = truth(scope, evaluate(scope, expr.args[0]))
    kind = kind_of(expr.dtype, scope.rank)
    if isinstance(condition, Sym):
        return choose(scope, condition, evaluate(scope, expr.args[1]), evaluate(scope, expr.args[2]), kind)
    if condition.all() or not condition.any():
        return evaluate(scope, expr.args[1 if condition.all() else 2])
    yes, no = scope.masked(condition), scope.masked(~condition)
    return choose(scope, condition, evaluate(yes, expr.args[1]), evaluate(no, expr.args[2]), kind)
