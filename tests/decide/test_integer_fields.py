"""Bit fields, wraps and right shifts have one normal form: identities with wrong twins, checked at integers as well."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gmpy2 import mpq
from normal_terms import Builder, proved

from ptx_engine.decide.precise import Cone
from ptx_engine.terms import Arena, Ids, Op

Build = Callable[[Arena, int], Ids]


def field(lo: int, width: int, inner: Build = lambda a, x: x) -> Build:
    return lambda a, x: a.emit(Op.FIELD, inner(a, x), lo, width)


def wrap(width: int, inner: Build = lambda a, x: x) -> Build:
    return lambda a, x: a.emit(Op.WRAP, inner(a, x), width)


def shr(count: int, inner: Build = lambda a, x: x) -> Build:
    return lambda a, x: a.emit(Op.SHR, inner(a, x), a.rational(count))


def times(factor: int, inner: Build = lambda a, x: x) -> Build:
    return lambda a, x: a.mul(inner(a, x), a.rational(factor))


def plus(offset: int, inner: Build = lambda a, x: x) -> Build:
    return lambda a, x: a.add(inner(a, x), a.rational(offset))


#: input type, two equal builds, and one that differs
ROWS: list[tuple[str, Build, Build, Build]] = [
    ("s8", field(0, 4), wrap(4), wrap(5)),
    ("s8", field(4, 4), wrap(4, shr(4)), wrap(4, shr(3))),
    ("u8", field(4, 28), field(4, 4), field(3, 4)),
    ("u8", field(4, 4), shr(4), shr(5)),
    ("s8", shr(4, wrap(-8, times(16))), wrap(-4), wrap(4)),
    ("u8", field(4, 4, times(16)), wrap(4), wrap(3)),
    ("s32", shr(28, wrap(-32, times(1 << 20))), wrap(-4, field(8, 4)), wrap(-4, field(7, 4))),
    ("s32", field(4, 4, shr(8)), field(12, 4), field(11, 4)),
    ("s32", field(0, 8, wrap(16)), wrap(8), wrap(-8)),
    ("s32", wrap(12, times(16)), times(16, wrap(8)), times(16, wrap(9))),
    ("s32", field(8, 8, plus(1 << 16)), field(8, 8), field(8, 8, plus(256))),
    ("s32", shr(3, wrap(16)), field(3, 13), field(3, 12)),
]


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_one_normal_form(row: tuple[str, Build, Build, Build]) -> None:
    fmt, left, right, wrong = row
    builder = Builder()
    arena = builder.arena
    x = int(arena.add_input("x", 1, fmt).ids(0))
    a, b, c = (int(build(arena, x)) for build in (left, right, wrong))
    assert proved(builder, (a,), (b,))
    assert not proved(builder, (a,), (c,))
    values = (
        range(-128, 128)
        if fmt == "s8"
        else range(256)
        if fmt == "u8"
        else [0, 1, -1, 255, 4096, -(2**31), 2**31 - 1, 0x12345678, -0x12345678]
    )
    cone = Cone(arena, [a, b, c])
    results = [cone.evaluate({x: mpq(v)}, 64) for v in values]
    assert all(r[a] == r[b] for r in results) and any(r[a] != r[c] for r in results)
