"""The arena of symbolic values: operators, exact constants, emission with folding."""

from ptx_engine.terms.arena import CONST_CAP, FALSE, NAN, NEG_INF, ONE, POS_INF, TRUE, UNDEF, ZERO, Arena, DotRecord, Ids, Input, NaryRecord
from ptx_engine.terms.constants import Const, Special
from ptx_engine.terms.expr import Expr, Vector, symbols
from ptx_engine.terms.ops import TABLE, Op

__all__ = [
    "CONST_CAP", "FALSE", "NAN", "NEG_INF", "ONE", "POS_INF", "TABLE", "TRUE", "UNDEF", "ZERO",
    "Arena", "Const", "DotRecord", "Expr", "Ids", "Input", "NaryRecord", "Op", "Special", "Vector", "symbols",
]  # fmt: skip
