"""The operator table: one row per term operator with its arity, algebraic flags and printed form.

Evaluators (float64, MPFR, finite fields) are registered beside their interpreters in ``decide``, keyed by
this table; a test holds that every operator has every evaluator. Terms know nothing of PTX.

There is one exponential, ``EXP2``: exp(x) = EXP2(x * log2e), with ``log2e`` a symbolic constant
(see ``constants``). Likewise ln(x) = LOG2(x) / log2e.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Op(IntEnum):
    """Operator codes as they stand in the arena. Negative term ids are inputs and have no row in the arena."""

    CONST = 0  # a = index into the constant table
    ADD = 1
    SUB = 2
    MUL = 3
    DIV = 4
    NEG = 5
    FMA = 6  # a * b + c
    MAX = 7
    MIN = 8
    ABS = 9
    EXP2 = 10
    LOG2 = 11
    SQRT = 12
    TANH = 13
    SIN = 14
    COS = 15
    ERF = 16
    FLOOR = 17
    CEIL = 18
    ROUND_EVEN = 19
    TRUNC = 20
    POW = 21
    # records: bulk nodes whose operands stand in a record (see Arena.dot, Arena.nary)
    DOT = 22  # a = record index
    NSUM = 23
    NMAX = 24
    NMIN = 25
    # predicates: terms whose value is 1 (true) or 0 (false)
    LT = 26
    LE = 27
    EQ = 28
    NE = 29
    AND = 30
    OR = 31
    NOT = 32
    ITE = 33  # a ? b : c
    # integers
    WRAP = 34  # a wrapped to width b (negative: signed); b is a plain int, not an id
    FIELD = 35  # bits [lo, lo + width) of a as an unsigned integer; b = lo, c = width (plain ints)
    FLOORDIV = 36
    TRUNCDIV = 37
    TRUNCREM = 38
    BITAND = 39
    BITOR = 40
    BITXOR = 41
    SHL = 42
    SHR = 43
    #: an operation on bits that has no meaning over the reals: equal on equal arguments, taints the verdict
    OPAQUE = 44  # a, b = operand ids, c = index into the opaque-name table


@dataclass(frozen=True, slots=True)
class OpRow:
    """``arity`` counts operand *ids*; ``plain`` names operand slots that hold plain ints instead."""

    op: Op
    symbol: str
    arity: int
    commutative: bool = False
    associative: bool = False
    idempotent: bool = False
    predicate: bool = False
    record: bool = False
    plain: tuple[str, ...] = ()


def _row(op: Op, symbol: str, arity: int, flags: str = "", plain: tuple[str, ...] = ()) -> OpRow:
    return OpRow(op, symbol, arity, "c" in flags, "a" in flags, "i" in flags, "p" in flags, "r" in flags, plain)


TABLE: dict[Op, OpRow] = {
    row.op: row
    for row in (
        _row(Op.CONST, "const", 0, plain=("a",)),
        _row(Op.ADD, "+", 2, "ca"),
        _row(Op.SUB, "-", 2),
        _row(Op.MUL, "*", 2, "ca"),
        _row(Op.DIV, "/", 2),
        _row(Op.NEG, "neg", 1),
        _row(Op.FMA, "fma", 3),
        _row(Op.MAX, "max", 2, "cai"),
        _row(Op.MIN, "min", 2, "cai"),
        _row(Op.ABS, "abs", 1),
        _row(Op.EXP2, "exp2", 1),
        _row(Op.LOG2, "log2", 1),
        _row(Op.SQRT, "sqrt", 1),
        _row(Op.TANH, "tanh", 1),
        _row(Op.SIN, "sin", 1),
        _row(Op.COS, "cos", 1),
        _row(Op.ERF, "erf", 1),
        _row(Op.FLOOR, "floor", 1),
        _row(Op.CEIL, "ceil", 1),
        _row(Op.ROUND_EVEN, "rint", 1),
        _row(Op.TRUNC, "trunc", 1),
        _row(Op.POW, "pow", 2),
        _row(Op.DOT, "dot", 0, "r", plain=("a",)),
        _row(Op.NSUM, "sum", 0, "r", plain=("a",)),
        _row(Op.NMAX, "max", 0, "ri", plain=("a",)),
        _row(Op.NMIN, "min", 0, "ri", plain=("a",)),
        _row(Op.LT, "<", 2, "p"),
        _row(Op.LE, "<=", 2, "p"),
        _row(Op.EQ, "==", 2, "pc"),
        _row(Op.NE, "!=", 2, "pc"),
        _row(Op.AND, "and", 2, "pcai"),
        _row(Op.OR, "or", 2, "pcai"),
        _row(Op.NOT, "not", 1, "p"),
        _row(Op.ITE, "select", 3),
        _row(Op.WRAP, "wrap", 1, plain=("b",)),
        _row(Op.FIELD, "field", 1, plain=("b", "c")),
        _row(Op.FLOORDIV, "floordiv", 2),
        _row(Op.TRUNCDIV, "truncdiv", 2),
        _row(Op.TRUNCREM, "truncrem", 2),
        _row(Op.BITAND, "&", 2, "cai"),
        _row(Op.BITOR, "|", 2, "cai"),
        _row(Op.BITXOR, "^", 2, "ca"),
        _row(Op.SHL, "<<", 2),
        _row(Op.SHR, ">>", 2),
        _row(Op.OPAQUE, "opaque", 2, plain=("c",)),
    )
}

assert set(TABLE) == set(Op), "every operator has a row"
