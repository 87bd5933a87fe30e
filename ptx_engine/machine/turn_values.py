"""Values over the turns of a loop of one block: integers and addresses that grow by the same step in every turn, terms whose ids do.

Turn ``t`` counts from 0. A step is one number for all threads; what it starts with may differ between them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ptx_engine.isa.simple import Integers
from ptx_engine.isa.values import UINT, Fmt
from ptx_engine.terms import Ids


class Irregular(Exception):
    """A loop does something that has no such form, or only from another turn on: it is run turn by turn."""


class Linear:
    """``start + t * step`` modulo 2**bits; ``start`` are canonical bits, ``step`` lies in [-2**(bits-1), 2**(bits-1))."""

    __slots__ = ("bits", "start", "step")

    def __init__(self, start: "int | np.ndarray", step: int, bits: int) -> None:
        half = 1 << bits - 1
        self.start, self.step, self.bits = start, (step + half) % (2 * half) - half, bits

    def at(self, turn: int) -> "int | np.ndarray":
        """The value at a turn."""
        moved = turn * self.step % (1 << self.bits)
        if isinstance(self.start, int):
            return (self.start + moved) % (1 << self.bits)
        return np.asarray(self.start + self.start.dtype.type(moved))


@dataclass(frozen=True, slots=True)
class Moving:
    """Terms with ids ``ids + t * step``: elements of an input, or (``step`` 0) what the loop does not change."""

    ids: Ids
    step: int
    fmt: Fmt


@dataclass(frozen=True, slots=True)
class Emitted:
    """What emission ``number`` of the same turn has made: a node for each thread if ``column``, else one."""

    number: int
    column: bool
    fmt: Fmt


@dataclass(frozen=True, slots=True)
class Before:
    """What a register holds at the end of the turn before; before the first turn ``ids``."""

    slot: int
    ids: Ids
    fmt: Fmt


@dataclass(frozen=True, slots=True)
class Comparison:
    """A predicate: an instruction ``setp`` over two values."""

    form: Integers
    first: Linear
    second: Linear


Term = Moving | Emitted | Before
TurnValue = Linear | Term | Comparison
_COMPARE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


def is_column(ids: "Ids | np.ndarray") -> bool:
    """Whether threads have one each."""
    return not isinstance(ids, int)


def turns_within(low: int, high: int, step: int, last: int) -> int:
    """How many turns values that start in [low, high] stay in [0, last]. Raises Irregular where they do not start there.

    All integers between two of [0, last] lie in it, so that a step is exact in these turns: nothing wraps.
    """
    if low < 0 or high > last:
        raise Irregular
    if step == 0:
        return 1 << 62
    return ((last - high) // step if step > 0 else low // -step) + 1


def added(a: Linear, b: Linear, sign: int = 1) -> Linear:
    """Sum or difference."""
    mask = (1 << a.bits) - 1
    if isinstance(a.start, int) and isinstance(b.start, int):
        start: "int | np.ndarray" = a.start + sign * b.start & mask
    else:
        start = a.start + b.start if sign > 0 else a.start - b.start
    return Linear(start, a.step + sign * b.step, a.bits)


def scaled(a: Linear, b: Linear) -> Linear:
    """A product with what is the same in all threads and turns."""
    if is_column(b.start) or b.step:
        a, b = b, a
    if not isinstance(b.start, int) or b.step:
        raise Irregular
    start = a.start * b.start & (1 << a.bits) - 1 if isinstance(a.start, int) else a.start * b.start
    return Linear(start, a.step * b.start, a.bits)


def widened(a: Linear, signed: bool) -> tuple[Linear, int]:
    """A value read as a number and put into twice the bits, and in how many turns that has the same step."""
    bits, wide = a.bits, UINT.get(2 * a.bits)
    if wide is None or bits < 16:
        raise Irregular
    bias = 1 << bits - 1 if signed else 0  # the number plus the bias is a value in [0, 2**bits)
    if isinstance(a.start, int):
        number = (a.start + bias) % (1 << bits)
        turns = turns_within(number, number, a.step, (1 << bits) - 1)
        return Linear((number - bias) % (1 << 2 * bits), a.step, 2 * bits), turns
    column = (a.start + a.start.dtype.type(bias)).astype(wide)
    turns = turns_within(int(column.min()), int(column.max()), a.step, (1 << bits) - 1)
    return Linear(column - wide.type(bias), a.step, 2 * bits), turns


def turns_taken(condition: Comparison, negated: bool, most: int) -> int:
    """In how many turns, one after the other and at most ``most``, a branch is taken under a predicate."""
    form, turn = condition.form, np.arange(most, dtype=np.uint64)
    sign = np.uint64(1 << form.bits - 1) if form.signed else np.uint64(0)
    mask = np.uint64((1 << form.bits) - 1)
    sides = []
    for value in (condition.first, condition.second):
        if not isinstance(value.start, int):
            raise Irregular
        at = (np.uint64(value.start) + turn * np.uint64(value.step % (1 << 64))) & mask
        sides.append(at ^ sign)  # flipping the sign bit puts negative numbers first
    holds = _COMPARE[form.name.partition(".")[2]](*sides)
    taken = ~holds if negated else holds
    return most if taken.all() else int(np.argmin(taken))
