"""Sampled CTAs: corners first, inside the grid, never more than asked for, the same every time."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from volta_pass.cta_sample import affordable, choose_ctas

grids = st.tuples(st.integers(1, 40), st.integers(1, 12), st.integers(1, 4))


@settings(max_examples=60, deadline=None)
@given(grids, st.integers(1, 64))
def test_samples_are_distinct_ordered_and_inside(grid, limit):
    total = grid[0] * grid[1] * grid[2]
    chosen = choose_ctas(grid, limit)
    if limit >= total:
        assert chosen is None
        return
    assert 1 <= len(chosen) <= limit
    assert len(set(chosen)) == len(chosen)
    assert all(0 <= c < extent for cta in chosen for c, extent in zip(cta, grid))
    numbers = [x + grid[0] * (y + grid[1] * z) for x, y, z in chosen]
    assert numbers == sorted(numbers)
    assert chosen == choose_ctas(grid, limit)


def test_corners_come_first():
    corners = set(itertools.product((0, 9), (0, 7), (0,)))
    assert set(choose_ctas((10, 8, 1), 4)) == corners
    assert corners < set(choose_ctas((10, 8, 1), 20))


def test_no_limit_is_all():
    assert choose_ctas((10, 8, 1), None) is None


def test_another_seed_is_another_sample():
    assert choose_ctas((100, 100, 1), 50, 1) != choose_ctas((100, 100, 1), 50, 2)


def test_affordable_is_linear_beyond_the_first_batch():
    # 1 CTA takes 1 s, 8 take 8 s: one second each
    assert affordable(1000, 1, 1.0, 8, 8.0, 20.0) == 20
    assert affordable(20, 1, 1.0, 8, 8.0, 20.0) is None
    assert affordable(21, 1, 1.0, 8, 8.0, 20.0) == 20
    # a budget below the measurement still runs what was measured
    assert affordable(1000, 1, 1.0, 8, 80.0, 20.0) == 8
