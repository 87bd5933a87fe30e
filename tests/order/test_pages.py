"""What is declared costs nothing, what is written does: marks of large arrays, and launches whose outputs are far larger than written."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptx_engine.launch import Launch, Role, ScalarArg, TensorArg, bind
from ptx_engine.machine import execute
from ptx_engine.order import pages
from ptx_engine.order.pages import Marks, scattered
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena
from volta_pass.references.ttir_memory import NOBODY, Overlay

HUGE = 2**31 - 1


@pytest.mark.parametrize("searched", [1, 1 << 22])
@settings(max_examples=100, deadline=None)
@given(st.integers(1, 20_000), st.data())
def test_marks_are_a_set(searched: int, count: int, data: st.DataObject) -> None:
    """With blocks (from one element on) and without."""
    elements = data.draw(st.lists(st.integers(0, count - 1), max_size=30))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "_SEARCHED", searched)
        marks = Marks(count)
        for first, second in zip(elements[::2], elements[1::2]):
            marks.add(np.array([first, second]))
        if len(elements) % 2:
            marks.add(elements[-1])
    assert marks.where().tolist() == sorted(set(elements))
    assert marks[np.arange(count)].sum() == len(set(elements))


def test_a_full_array_is_found_whole() -> None:
    marks = Marks(1 << 23)
    marks.add(np.arange(1 << 23))
    assert np.array_equal(marks.where(), np.arange(1 << 23))


def test_addresses_that_the_process_may_not_have_are_memory_that_is_short() -> None:
    with pytest.raises(MemoryError, match="unable to allocate"):
        scattered(1 << 60, np.int32)


def test_an_overlay_says_who_wrote() -> None:
    overlay = Overlay.of(100)
    assert overlay.writer(np.arange(100)).tolist() == [NOBODY] * 100
    overlay.write(np.array([7, 3]), np.array([11, 12], np.int32), np.array([0, 5]), 4)
    assert overlay.writer(np.array([3, 7, 8])).tolist() == [5, 0, NOBODY]
    assert overlay.ids[[3, 7]].tolist() == [12, 11] and overlay.atomic[3] == 4
    assert overlay.written.where().tolist() == [3, 7]


# --- costs --------------------------------------------------------------------------------------------

SCATTER = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 stride)
{
    .reg .b32 %r<3>;
    .reg .b64 %d<5>;
    ld.param.u64 %d1, [out];
    ld.param.u64 %d2, [stride];
    mov.u32 %r1, %tid.x;
    cvt.u64.u32 %d3, %r1;
    mad.lo.u64 %d4, %d3, %d2, %d1;
    st.global.u32 [%d4], %r1;
    ret;
}
"""


def seconds(step: Callable[[], object]) -> float:
    """CPU time, the best of three."""
    spent = []
    for _ in range(3):
        start = time.process_time()
        step()
        spent.append(time.process_time() - start)
    return min(spent)


def scatter(count: int, stride_elements: int) -> list[int]:
    out = TensorArg("out", "u32", (count,), Role.OUT)
    launch = Launch((1, 1, 1), (256, 1, 1), (out, ScalarArg("stride", "u64", 4 * stride_elements)))
    return execute(parse(SCATTER), None, bind(launch, Arena())).footprints["out"].index.tolist()


def test_an_output_of_two_thousand_million_elements_costs_what_is_written_of_it() -> None:
    """Looking for what was written took seconds. At both ends of the array, as near together as far apart."""
    assert scatter(HUGE, 8_000_000) == [8_000_000 * i for i in range(256)]
    small, huge, wide = (seconds(lambda c=c, s=s: scatter(c, s)) for c, s in ((256, 1), (HUGE, 1), (HUGE, 8_000_000)))  # type: ignore[misc]
    assert max(huge, wide) < 3 * small + 0.1, (small, huge, wide)


def test_an_overlay_of_two_thousand_million_elements_costs_what_is_written_of_it() -> None:
    def use(count: int) -> None:
        overlay = Overlay.of(count)
        index = np.arange(0, count, count // 250)
        overlay.write(index, index.astype(np.int32), np.zeros(len(index), np.int32))
        assert np.array_equal(overlay.written.where(), index)

    small, huge = (seconds(lambda c=c: use(c)) for c in (1000, HUGE))  # type: ignore[misc]
    assert huge < 3 * small + 0.1, (small, huge)
