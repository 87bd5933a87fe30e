"""Which atomic writes a strong read has observed: those of its sequence of read-modify-writes, before it in time and by thread."""

from __future__ import annotations

from ptx_engine.order.observed import Observed

HERE = (-1, 64)


def test_reads_have_observed_what_came_before_them() -> None:
    observed = Observed()
    observed.read(HERE, 5, 1)
    assert observed.readers(HERE, 4, 7) == [(5, 1)] and observed.readers(HERE, 6, 0) == []
    assert observed.readers((-1, 68), 4, 7) == []


def test_lanes_of_one_instruction_take_effect_by_thread() -> None:
    observed = Observed()
    observed.read(HERE, 5, 1)
    assert observed.readers(HERE, 5, 0) == [(5, 1)] and observed.readers(HERE, 5, 1) == [] and observed.readers(HERE, 5, 2) == []


def test_a_store_hides_what_was_there() -> None:
    observed = Observed()
    observed.begin(HERE, 7)
    observed.read(HERE, 9, 3)
    assert observed.readers(HERE, 6, 0) == [] and observed.readers(HERE, 7, 0) == [(9, 3)] and observed.readers(HERE, 8, 5) == [(9, 3)]
