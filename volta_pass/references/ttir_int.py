"""Integer operations of arith and math: concrete columns bit-exactly, symbolic integers as ring terms and fields.

i1 arithmetic is done in int8 with true = -1 and cut back to one bit. Shifts by the width or more and divisions by zero,
which MLIR leaves undefined, give 0 (the sign for an arithmetic right shift).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ptx_engine.terms.ops import Op
from volta_pass.references.ttir_bits import symbolic_bits, symbolic_shift
from volta_pass.references.ttir_frame import Frame
from volta_pass.references.ttir_predicates import negation, predicate_logic
from volta_pass.references.ttir_registry import OpInfo, Run, operation
from volta_pass.references.ttir_ring import symbolic_divide, symbolic_extreme, symbolic_ring
from volta_pass.references.ttir_types import TtirType
from volta_pass.references.ttir_values import Sym, Value, concrete, emitted, id_operand, int_ids, wrapped

IntOp = Callable[[np.ndarray, np.ndarray], np.ndarray]
SymbolicOp = Callable[[Frame, TtirType, Value, Value], Value]


def unsigned(x: np.ndarray) -> np.ndarray:
    """The same bits as an unsigned number."""
    return x.view(f"u{x.dtype.itemsize}") if x.dtype.kind == "i" else x


def _on_bits(fn: IntOp) -> IntOp:
    """A signed operation made unsigned: operands and result are reinterpreted."""
    return lambda a, b: fn(unsigned(a), unsigned(b)).view(a.dtype)


def _trunc_div(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    safe = np.where(b == 0, b.dtype.type(1), b)
    quotient = a // safe
    quotient = quotient + ((a % safe != 0) & ((a < 0) != (safe < 0)))
    return np.where(b == 0, 0, quotient).astype(a.dtype)


def _trunc_rem(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(b == 0, 0, a - _trunc_div(a, b) * b).astype(a.dtype)


def _floor_div(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(b == 0, 0, a // np.where(b == 0, b.dtype.type(1), b)).astype(a.dtype)


def _ceil_div(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray((_floor_div(a, b) + (_trunc_rem(a, b) != 0)).astype(a.dtype))


def _shift(fn: IntOp, arithmetic: bool = False) -> IntOp:
    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        width = 8 * a.dtype.itemsize
        amount = unsigned(b)
        low = np.minimum(amount, amount.dtype.type(width - 1)).astype(a.dtype)
        shifted = fn(a, low)
        return shifted if arithmetic else np.where(amount >= width, 0, shifted).astype(a.dtype)

    return run


#: name -> (on concrete columns, on symbolic ones)
BINARY: dict[str, tuple[IntOp, SymbolicOp]] = {
    "arith.addi": (np.add, symbolic_ring(Op.ADD)),
    "arith.subi": (np.subtract, symbolic_ring(Op.SUB)),
    "arith.muli": (np.multiply, symbolic_ring(Op.MUL)),
    "arith.divsi": (_trunc_div, symbolic_divide(Op.TRUNCDIV, signed=True)),
    "arith.divui": (_on_bits(_floor_div), symbolic_divide(Op.FLOORDIV, signed=False)),
    "arith.remsi": (_trunc_rem, symbolic_divide(Op.TRUNCREM, signed=True)),
    "arith.remui": (_on_bits(_trunc_rem), symbolic_divide(Op.TRUNCREM, signed=False)),
    "arith.floordivsi": (_floor_div, symbolic_divide(Op.FLOORDIV, signed=True)),
    "arith.ceildivsi": (_ceil_div, symbolic_divide(None, signed=True)),
    "arith.ceildivui": (_on_bits(_ceil_div), symbolic_divide(None, signed=False)),
    "arith.andi": (np.bitwise_and, symbolic_bits(Op.BITAND)),
    "arith.ori": (np.bitwise_or, symbolic_bits(Op.BITOR)),
    "arith.xori": (np.bitwise_xor, symbolic_bits(Op.BITXOR)),
    "arith.shli": (_shift(np.left_shift), symbolic_shift(Op.SHL, signed=False)),
    "arith.shrsi": (_shift(np.right_shift, arithmetic=True), symbolic_shift(Op.SHR, signed=True)),
    "arith.shrui": (_on_bits(_shift(np.right_shift)), symbolic_shift(Op.SHR, signed=False)),
    "arith.maxsi": (np.maximum, symbolic_extreme(Op.MAX, signed=True)),
    "arith.minsi": (np.minimum, symbolic_extreme(Op.MIN, signed=True)),
    "arith.maxui": (_on_bits(np.maximum), symbolic_extreme(Op.MAX, signed=False)),
    "arith.minui": (_on_bits(np.minimum), symbolic_extreme(Op.MIN, signed=False)),
}


def widened_bit(fn: IntOp) -> IntOp:
    """The operation on i1: true is -1, and one bit is kept."""

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if a.dtype != bool:
            return fn(a, b)
        return (fn(-a.astype(np.int8), -b.astype(np.int8)) & 1).astype(bool)

    return run


def _binary(op: OpInfo, fn: IntOp, symbolic: SymbolicOp) -> Run:
    left, right = op.operands
    result, kind = op.result, op.kind
    exact = widened_bit(fn) if kind.width == 1 else fn

    def run(frame: Frame) -> None:
        a, b = frame.get(left), frame.get(right)
        if isinstance(a, Sym) or isinstance(b, Sym):
            frame.regs[result] = symbolic(frame, kind, a, b)
        else:
            with np.errstate(all="ignore"):
                frame.regs[result] = exact(a, b)

    return run


def _register_binary() -> None:
    for name, (fn, symbolic) in BINARY.items():
        operation(name)(partial(_binary, fn=fn, symbolic=symbolic))


_register_binary()


#: arith.cmpi predicates by number: concrete test, signed?, term operator, operands swapped?
_CMPI: tuple[tuple[IntOp, bool, Op, bool], ...] = (
    (np.equal, True, Op.EQ, False), (np.not_equal, True, Op.NE, False),
    (np.less, True, Op.LT, False), (np.less_equal, True, Op.LE, False),
    (np.greater, True, Op.LT, True), (np.greater_equal, True, Op.LE, True),
    (np.less, False, Op.LT, False), (np.less_equal, False, Op.LE, False),
    (np.greater, False, Op.LT, True), (np.greater_equal, False, Op.LE, True),
)  # fmt: skip


@operation("arith.cmpi")
def cmpi(op: OpInfo) -> Run:
    """Concrete truth values, or predicate terms over the exact signed or unsigned numbers."""
    test, signed, term, swap = _CMPI[op.integer("predicate")]
    left, right = op.operands
    kind, result, rank = op.operand_types[0], op.result, op.kind.rank

    def compare(frame: Frame, a: Value, b: Value) -> Value:
        if kind.width == 1 and term in (Op.EQ, Op.NE):
            differ = predicate_logic(Op.BITXOR, frame.arena, rank, a, b)
            return differ if term is Op.NE else negation(frame.arena, rank, differ)
        x, y = (exact_ids(frame, v, kind.width, signed) for v in ((b, a) if swap else (a, b)))
        return Sym(emitted(frame.arena.compare(term, id_operand(x), id_operand(y)), rank), 0, 1)

    def run(frame: Frame) -> None:
        a, b = frame.get(left), frame.get(right)
        if isinstance(a, Sym) or isinstance(b, Sym):
            frame.regs[result] = compare(frame, a, b)
        elif signed:
            frame.regs[result] = test(-a.astype(np.int8), -b.astype(np.int8)) if a.dtype == bool else test(a, b)
        else:
            frame.regs[result] = test(unsigned(a), unsigned(b))

    return run


def exact_ids(frame: Frame, value: Value, width: int, signed: bool) -> np.ndarray:
    """Ids of the exact signed or unsigned numbers of an integer value."""
    if isinstance(value, Sym):
        if width == 1 and signed:  # true is -1
            return emitted(frame.arena.neg(id_operand(value.ids)), value.ids.ndim - 1)
        return wrapped(value, width, signed, frame.arena).ids
    if value.dtype == bool:
        return int_ids(-value.astype(np.int8) if signed else value, frame.arena)
    return int_ids(value, frame.arena) if signed else frame.arena.integers(unsigned(value))


@operation("math.absi")
def absi(op: OpInfo) -> Run:
    """|x| of a signed integer; the least one stays itself."""
    source, result, kind = op.operands[0], op.result, op.kind

    def run(frame: Frame) -> None:
        value = frame.get(source)
        if isinstance(value, Sym):
            ids = exact_ids(frame, value, kind.width, True)
            frame.regs[result] = Sym(emitted(frame.arena.abs(id_operand(ids)), kind.rank), 0, 1 << kind.width - 1)
        else:
            frame.regs[result] = np.abs(value)

    return run


def _leading_zeros(x: np.ndarray) -> np.ndarray:
    width, rest = 8 * x.dtype.itemsize, unsigned(x).astype(np.uint64)
    count = np.full(x.shape, width, np.int64)
    for _ in range(width):
        count -= rest != 0
        rest >>= np.uint64(1)
    return np.asarray(count.astype(x.dtype))


def _trailing_zeros(x: np.ndarray) -> np.ndarray:
    width, bits = 8 * x.dtype.itemsize, unsigned(x)
    lowest = bits & (~bits + bits.dtype.type(1))
    found: np.ndarray = np.where(x == 0, width, width - 1 - _leading_zeros(lowest.view(x.dtype)).astype(np.int64))
    return found.astype(x.dtype)


def _ones(x: np.ndarray) -> np.ndarray:
    rest, count = unsigned(x).astype(np.uint64), np.zeros(x.shape, np.uint64)
    for _ in range(8 * x.dtype.itemsize):
        count += rest & np.uint64(1)
        rest >>= np.uint64(1)
    return np.asarray(count.astype(x.dtype))


def _concrete_unary(op: OpInfo, fn: Callable[[np.ndarray], np.ndarray]) -> Run:
    source, result, kind = op.operands[0], op.result, op.kind

    def run(frame: Frame) -> None:
        value = concrete(frame.get(source), kind, frame.arena)
        if value is None:
            raise op.unsupported("of a symbolic integer")
        frame.regs[result] = fn(value)

    return run


for _name, _fn in {"math.ctlz": _leading_zeros, "math.cttz": _trailing_zeros, "math.ctpop": _ones}.items():
    operation(_name)(partial(_concrete_unary, fn=_fn))


def _high_product(a: np.ndarray, b: np.ndarray, signed: bool) -> np.ndarray:
    """The upper half of the double-width product."""
    if a.dtype.itemsize <= 4:
        wide = (a.astype(np.int64) * b.astype(np.int64)) if signed else (unsigned(a).astype(np.uint64) * unsigned(b).astype(np.uint64))
        return np.asarray((wide >> wide.dtype.type(8 * a.dtype.itemsize)).astype(a.dtype))
    high: np.ndarray = _unsigned_high64(a.view(np.uint64), b.view(np.uint64)).view(np.int64)
    return np.asarray(high - np.where(a < 0, b, 0) - np.where(b < 0, a, 0)) if signed else high


def _unsigned_high64(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & mask, a >> half, b & mask, b >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    high: np.ndarray = a1 * b1 + (middle >> half) + ((a0 * b1 + (middle & mask)) >> half)
    return high


@operation("tt.mulhiui")
def mulhiui(op: OpInfo) -> Run:
    """The upper half of an unsigned product; of symbolic integers the field of the exact product."""
    width = op.kind.width

    def high(frame: Frame, kind: TtirType, a: Value, b: Value) -> Value:
        ids = [exact_ids(frame, v, width, False) for v in (a, b)]
        product = frame.arena.mul(*(id_operand(i) for i in ids))
        return Sym(emitted(frame.arena.emit(Op.FIELD, product, width, width), kind.rank), 0, (1 << width) - 1)

    return _binary(op, lambda a, b: _high_product(a, b, signed=False), high)


def _extended(op: OpInfo, signed: bool) -> Run:
    """arith.mulsi_extended and mului_extended: low and high halves."""
    left, right = op.operands
    kind = op.operand_types[0]

    def run(frame: Frame) -> None:
        a, b = (concrete(frame.get(r), kind, frame.arena) for r in (left, right))
        if a is None or b is None:
            raise op.unsupported("of symbolic integers")
        frame.assign(op.results, (a * b, _high_product(a, b, signed)))

    return run


operation("arith.mulsi_extended")(lambda op: _extended(op, True))
operation("arith.mului_extended")(lambda op: _extended(op, False))
