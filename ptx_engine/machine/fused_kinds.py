"""What fused code assumes of a register: a kind, which a guard checks once and the code then keeps.

A term kind promises that no id is an interned constant, so that nothing folds. A register of any other kind is left to the closures.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from ptx_engine.isa.values import UINT, Fmt, Sym, Value
from ptx_engine.terms import CONST_CAP
from ptx_engine.terms.storage import has_const


class Shape(Enum):
    """How a register's value is held."""

    INT = "int"
    FLAG = "flag"
    BITS = "bits"
    FLAGS = "flags"
    TERM = "term"
    TERMS = "terms"


@dataclass(frozen=True, slots=True)
class Kind:
    """A shape with the width of an unsigned column, the format of a term, or the one value of an int."""

    shape: Shape
    bits: int = 0
    fmt: Fmt | None = None
    value: int | None = None

    @property
    def column(self) -> bool:
        """Whether threads may differ."""
        return self.shape in (Shape.BITS, Shape.FLAGS, Shape.TERMS)


INT, FLAG, FLAGS = Kind(Shape.INT), Kind(Shape.FLAG), Kind(Shape.FLAGS)
COLUMNS = {bits: Kind(Shape.BITS, bits) for bits in (16, 32, 64)}


def kind_of(value: Value) -> Kind | None:
    """The kind of a register's value, None where it has none."""
    if value.__class__ is int:
        return INT
    if value.__class__ is bool:
        return FLAG
    if isinstance(value, np.ndarray):
        if value.dtype is UINT[1]:
            return FLAGS
        return next((kind for bits, kind in COLUMNS.items() if value.dtype is UINT[bits]), None)
    if isinstance(value, Sym) and len(value.parts) == 1:
        fmt, ids = value.parts[0]
        if fmt.kind != "float":
            return None
        if ids.__class__ is int:
            return None if 0 <= ids < CONST_CAP else Kind(Shape.TERM, fmt=fmt)
        return None if has_const(ids) else Kind(Shape.TERMS, fmt=fmt)
    return None


def is_term(value: Value, fmt: Fmt) -> bool:
    """The guard of a uniform term."""
    if value.__class__ is not Sym or len(value.parts) != 1:
        return False
    held, ids = value.parts[0]
    return held is fmt and ids.__class__ is int and not 0 <= ids < CONST_CAP


def is_terms(value: Value, fmt: Fmt) -> bool:
    """The guard of a column of terms."""
    if value.__class__ is not Sym or len(value.parts) != 1:
        return False
    held, ids = value.parts[0]
    return held is fmt and ids.__class__ is np.ndarray and not has_const(ids)


def is_column(value: Value, dtype: np.dtype) -> bool:
    """The guard of a column of bits or flags."""
    return value.__class__ is np.ndarray and value.dtype is dtype
