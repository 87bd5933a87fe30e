"""What simple instructions do, as data: the machine fuses runs of them into one function (``machine.fusion``).

A spec of such an instruction says it (``Decode.simple``) beside the closure that it returns. The closure stays the meaning; fused code does
the same for values of the plainest kinds, and leaves everything else to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from ptx_engine.isa.values import Fmt


@dataclass(frozen=True, slots=True)
class Integers:
    """``dst = name(sources)`` on canonical bits: add, sub, mul, mad, and, or, xor, not, shl, shr, min, max, mul.wide, mad.wide, setp.*.

    ``bits`` is the width of the operands (of a shift: of the first). ``signed`` is how they are read where that matters.
    """

    name: str
    dst: int
    sources: tuple[int, ...]
    bits: int
    signed: bool = False


@dataclass(frozen=True, slots=True)
class Floats:
    """``dst = operator(sources)``: an operator of the algebra on one-part registers of a format, without clamps."""

    operator: str
    dst: int
    sources: tuple[int, ...]
    fmt: Fmt


@dataclass(frozen=True, slots=True)
class Copy:
    """``dst = source``, whatever it holds."""

    dst: int
    source: int


@dataclass(frozen=True, slots=True)
class Choice:
    """``dst = condition ? first : second``."""

    dst: int
    first: int
    second: int
    condition: int


@dataclass(frozen=True, slots=True)
class Extension:
    """``dst`` is the low ``bits`` of ``source``, zero- or sign-extended to ``width`` bits (or cut to them)."""

    dst: int
    source: int
    bits: int
    width: int
    signed: bool


@dataclass(frozen=True, slots=True)
class Place:
    """A memory operand: a register plus an offset; without a register, ``offset`` is the address."""

    base: int | None
    offset: int


@dataclass(frozen=True, slots=True)
class Load:
    """A plain load of registers of ``bits`` each, which are as wide as the datum; several are one vector."""

    dsts: tuple[int, ...]
    place: Place
    space: str
    bits: int


@dataclass(frozen=True, slots=True)
class Store:
    """A plain store of one register of ``bits``."""

    source: int
    place: Place
    space: str
    bits: int


Simple = Union[Integers, Floats, Copy, Choice, Extension, Load, Store]


def targets_of(simple: Simple) -> tuple[int, ...]:
    """The slots that a simple instruction writes."""
    if isinstance(simple, Load):
        return simple.dsts
    return () if isinstance(simple, Store) else (simple.dst,)


def sources_of(simple: Simple) -> tuple[int, ...]:
    """The slots that a simple instruction reads."""
    if isinstance(simple, (Integers, Floats)):
        return simple.sources
    if isinstance(simple, Choice):
        return simple.first, simple.second, simple.condition
    if isinstance(simple, (Copy, Extension)):
        return (simple.source,)
    base = () if simple.place.base is None else (simple.place.base,)
    return base if isinstance(simple, Load) else (simple.source, *base)
