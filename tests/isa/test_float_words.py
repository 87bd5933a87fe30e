"""Float bits that meet integer arithmetic: functions of their argument on both sides, never a guess, never a proof of two readings."""

from __future__ import annotations

import numpy as np
import pytest

from ptx_engine.decide import decide
from ptx_engine.errors import NotStructuredError
from ptx_engine.isa.bits import symbolic_integer
from ptx_engine.isa.compare import compare_symbolic
from ptx_engine.isa.float_words import word_of
from ptx_engine.isa.values import F16, F32, Sym, read_float
from ptx_engine.launch import Footprint
from ptx_engine.terms.arena import UNDEF, Arena
from ptx_engine.verdict import Status


@pytest.fixture
def arena():
    arena = Arena()
    arena.words_of_floats = True
    return arena


def floats(arena, fmt=F32, name="x"):
    return Sym(((fmt, arena.add_input(name, 2, fmt.name).ids(np.arange(2))),))


def same(arena, left, right):
    index = np.arange(2)
    return decide(arena, {"o": Footprint(index, left)}, {"o": Footprint(index, right)}).status


def test_equal_words_are_proved_equal_and_others_are_not(arena):
    x, y = floats(arena), floats(arena, name="y")

    def shifted(value, by):
        return read_float(arena, symbolic_integer(arena, "add", (value, by), 32, True), F32)

    assert same(arena, shifted(x, 7), shifted(x, 7)) is Status.PROVED
    assert same(arena, shifted(x, 7), shifted(x, 8)) is not Status.PROVED
    assert same(arena, shifted(x, 7), shifted(y, 7)) is not Status.PROVED


def test_a_signed_and_an_unsigned_reading_are_two_numbers(arena):
    x = floats(arena)
    signed, unsigned = (compare_symbolic(arena, "lt", x, 5, 32, kind).parts[0][1] for kind in (True, False))
    assert same(arena, signed, signed) is Status.PROVED
    assert same(arena, signed, unsigned) is not Status.PROVED


def test_an_undefined_value_stays_undefined_and_other_registers_stay(arena):
    value = Sym(((F32, np.array([UNDEF, -1], np.int32)),))
    assert word_of(arena, value, 32).parts[0][1][0] == UNDEF
    for other in (floats(arena, F16), 5, None):
        assert word_of(arena, other, 32) is other


def test_elsewhere_the_instruction_is_refused_by_name(arena):
    arena.words_of_floats = False
    with pytest.raises(NotStructuredError, match="integer operation add on symbolic f32"):
        symbolic_integer(arena, "add", (floats(arena), 7), 32, True)
