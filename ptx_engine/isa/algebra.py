"""What a float instruction computes on: terms over the reals, or IEEE bits. One spec, two evaluators.

A float spec names an operator of ``ARITY``, the formats of its parts and a ``Mode``, and asks the environment's algebra
for a function of register values. ``algebra_symbolic`` emits terms and ignores rounding; ``concrete`` computes bits.
Both tables have the rows of ``ARITY``, which a test holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ptx_engine.isa.values import Fmt, Value

#: register values -> register value
Function = Callable[..., Value]


@dataclass(frozen=True, slots=True)
class Mode:
    """How a result is finished: ``rnd`` is "rn", "rz", "rm", "rp" or "rna"; ``approx`` is "", "approx" or "full";
    ``ftz`` flushes subnormal operands and results; the clamps are as in the ISA."""

    rnd: str = "rn"
    approx: str = ""
    ftz: bool = False
    sat: bool = False
    relu: bool = False
    satfinite: bool = False


PLAIN = Mode()

#: operator -> number of operands
ARITY: dict[str, int] = {
    "add": 2, "sub": 2, "mul": 2, "div": 2, "fma": 3, "neg": 1, "abs": 1, "rcp": 1, "sqrt": 1, "rsqrt": 1,
    "ex2": 1, "lg2": 1, "sin": 1, "cos": 1, "tanh": 1, "copysign": 2,
    "max": 2, "min": 2, "max.NaN": 2, "min.NaN": 2, "max.abs": 2, "min.abs": 2, "max.NaN.abs": 2, "min.NaN.abs": 2,
    "max.xorsign.abs": 2, "min.xorsign.abs": 2, "max.NaN.xorsign.abs": 2, "min.NaN.xorsign.abs": 2,
    "id": 1, "rni": 1, "rzi": 1, "rmi": 1, "rpi": 1,
}  # fmt: skip

#: comparisons of floats; the ``u`` forms hold where an operand is NaN
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
PROPERTIES = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")


class Algebra(Protocol):
    """The meaning of float data. Methods are called while decoding and return what runs."""

    #: dtype of the columns that ``read`` gives for float parts and ``dot`` takes
    number: np.dtype

    def apply(self, operator: str, fmts: tuple[Fmt, ...], mode: Mode) -> Function:
        """An operator on each part of registers of the given formats (low part first)."""
        ...

    def convert(self, operator: str, source: tuple[Fmt, ...], target: tuple[Fmt, ...], mode: Mode) -> Function:
        """Parts of the source formats, rounded by ``operator`` ("id" or to an integer), in the target formats."""
        ...

    def pack(self, source: Fmt, target: tuple[Fmt, ...], mode: Mode) -> Function:
        """Several one-part registers (low part first) converted into one register."""
        ...

    def pack_random(self, source: Fmt, target: tuple[Fmt, ...], places: tuple[tuple[int, int], ...], mode: Mode) -> Function:
        """``pack`` by stochastic rounding: the function takes a register of random bits first; ``places`` are the first bit and the
        number of bits of each register's share of it."""
        ...

    def from_integer(self, bits: int, signed: bool, target: Fmt, mode: Mode) -> Function:
        """An integer register as a float."""
        ...

    def to_integer(self, operator: str, source: Fmt, bits: int, signed: bool, mode: Mode) -> Function:
        """A float rounded and clamped to an integer type, in a register of at least 16 bits; NaN as the ISA has it."""
        ...

    def compare(self, cmp: str, fmts: tuple[Fmt, ...], mode: Mode) -> Callable[[Value, Value], list[Value]]:
        """A comparison of each part: one predicate a part."""
        ...

    def test(self, prop: str, fmt: Fmt) -> Function:
        """A property of ``PROPERTIES`` as a predicate."""
        ...

    def read(self, value: Value, fmts: tuple[Fmt, ...], what: str) -> "Sequence[int | float | np.ndarray]":
        """A register's parts as numbers of this algebra: term ids, or float64 (integers: int64) values."""
        ...

    def write(self, fmts: tuple[Fmt, ...], columns: "Sequence[np.ndarray]") -> Value:
        """Numbers of this algebra as one register, rounded to the formats."""
        ...

    def dot(self, rows: np.ndarray, cols: np.ndarray, acc: np.ndarray) -> np.ndarray:
        """Batched products: rows (G,M,K), cols (G,N,K), acc (G,M,N) -> (G,M,N), all numbers of this algebra."""
        ...
