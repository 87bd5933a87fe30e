"""Arrays of ended arenas serve the next one, and never one that is still looked at."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

from ptx_engine.order.pages import scattered
from ptx_engine.terms import Arena, Op, spare

NODES = 1 << 15


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    gc.collect()  # arenas of earlier tests, which would end in the middle of one and leave arrays of theirs
    monkeypatch.setattr(spare, "LARGE", 1 << 15)
    spare._kept.clear()
    yield
    spare._kept.clear()


def filled(value: int) -> Arena:
    """An arena that has grown large."""
    arena = Arena(capacity=1 << 10)
    for _ in range(4):
        arena.emit_column(int(Op.ADD), NODES, np.full(NODES, -value, np.int32), -1)
    return arena


def address(arena: Arena) -> int:
    return int(arena.columns()[1].__array_interface__["data"][0])


def test_the_next_arena_has_the_arrays_of_the_last() -> None:
    arena = filled(7)
    where = address(arena)
    del arena
    again = filled(9)
    assert address(again) == where
    assert (again.columns()[1][-NODES:] == -9).all() and (again.columns()[3][-NODES:] == 0).all()


@pytest.mark.parametrize("slot", range(4))
def test_a_view_that_is_in_use_keeps_what_it_shows(slot: int) -> None:
    arena = filled(7)
    view = arena.columns()[slot][-NODES:]
    seen = view.copy()
    del arena
    assert not spare._kept
    filled(9)
    assert (view == seen).all()


def test_arenas_that_only_cycles_hold_end_when_memory_is_needed() -> None:
    gc.disable()
    try:
        arena = filled(7)
        where = address(arena)
        arena.cycle = arena  # type: ignore[attr-defined]
        del arena
        assert address(filled(9)) == where
    finally:
        gc.enable()


def test_what_is_too_large_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spare, "MOST_KEPT", 1)
    arena = filled(7)
    del arena
    assert not spare._kept


def test_two_living_arenas_share_nothing() -> None:
    first, second = filled(7), filled(9)
    assert (first.columns()[1][-NODES:] == -7).all() and (second.columns()[1][-NODES:] == -9).all()
    assert not np.shares_memory(first.columns()[1], second.columns()[1])


@pytest.mark.parametrize("count", [10, 5_000_000])
def test_scattered_arrays_are_zeros_that_can_be_written(count: int) -> None:
    array = scattered(count, np.int32)
    array[count - 1] = 5
    assert len(array) == count and array.dtype == np.int32 and int(array.sum()) == 5
