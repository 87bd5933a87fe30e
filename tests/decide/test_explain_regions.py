"""Regions: phrases and maps of failing elements."""

from __future__ import annotations

import numpy as np
import pytest

from ptx_engine.decide.regions import ascii_map, cells, describe, region_data


def box(shape: tuple[int, ...], *slices: object) -> np.ndarray:
    mask = np.zeros(shape, bool)
    mask[slices] = True  # type: ignore[index]
    return np.flatnonzero(mask)


FULL = slice(None)


@pytest.mark.parametrize(
    ("shape", "slices", "phrase"),
    [
        ((64, 64), (FULL, FULL), "all 4096 elements"),
        ((64, 64), (FULL, 63), "column 63 of every row"),
        ((64, 64), (FULL, slice(48, None)), "columns >= 48 of every row"),
        ((128, 64), (slice(100, None), FULL), "rows >= 100"),
        ((128, 64), (slice(None, 16), FULL), "rows < 16"),
        ((128, 64), (7, FULL), "row 7"),
        ((64, 64), (slice(0, 16), slice(48, 64)), "a 16x16 tile at rows < 16, columns >= 48"),
        ((64, 64), (slice(16, 32), slice(8, 24)), "a 16x16 tile at rows 16..31, columns 8..23"),
        ((64, 64), (slice(None, None, 2), FULL), "rows 0, 2, ..., 62"),
        ((64, 64), (FULL, slice(1, None, 8)), "columns 1, 9, ..., 57 of every row"),
        ((64, 64), (3, 5), "element [3, 5] of 4096"),
        ((64, 64), (3, slice(5, 9)), "columns 5..8 of row 3"),
        ((4, 8, 8), (2, FULL, FULL), "all of batch 2"),
        ((4, 8, 8), (slice(2, None), FULL, 7), "column 7 of every row of batches >= 2"),
        ((1000,), (slice(992, None),), "elements >= 992"),
        ((1000,), (slice(10, 20),), "elements 10..19"),
        ((1000,), (5,), "element [5] of 1000"),
        ((1,), (0,), "the only element"),
        ((), (), "the only element"),
    ],
)
def test_phrases(shape: tuple[int, ...], slices: tuple[object, ...], phrase: str) -> None:
    assert describe(box(shape, *slices), shape) == phrase


def test_irregular_sets_are_counted_and_bounded() -> None:
    rng = np.random.default_rng(1)
    failing = np.sort(rng.choice(4096, 37, replace=False))
    text = describe(failing, (64, 64))
    assert text.startswith("37 of 4096 elements, within rows ")
    assert describe(np.array([1, 2, 9]), (100,)) == "3 of 100 elements, first 1, last 9"
    assert describe(np.array([], np.int64), (4, 4)) == "no element"


def test_one_element_less_is_another_phrase() -> None:
    whole = box((64, 64), FULL, 63)
    assert describe(whole[:-1], (64, 64)) != describe(whole, (64, 64))


def test_map_of_a_tile() -> None:
    lines = ascii_map(box((8, 8), slice(0, 2), slice(6, 8)), (8, 8)).split("\n")
    assert lines == ["......##"] * 2 + ["........"] * 6


def test_map_is_downsampled_with_shades() -> None:
    failing = box((256, 256), slice(0, 64), 0)
    lines = ascii_map(failing, (256, 256), width=64).split("\n")
    assert len(lines) == 32 and {len(line) for line in lines} == {64}
    assert [line[0] for line in lines[:9]] == ["+"] * 8 + ["."]
    assert ascii_map(box((256, 256), FULL, FULL), (256, 256)).replace("\n", "") == "#" * (64 * 32)


def test_map_of_a_long_vector_and_odd_shapes() -> None:
    assert ascii_map(np.arange(990, 1000), (1000,), width=50).split("\n")[-1] == "." * 40 + "#" * 10
    assert ascii_map(np.array([6]), (7,)) == "......#"
    shares = cells(np.arange(33 * 65), (33, 65), width=64, height=32)
    assert shares.shape == (17, 33) and (shares == 1).all()
    assert float(cells(np.array([0]), (33, 65)).sum()) == pytest.approx(1 / 4)


def test_data() -> None:
    data = region_data(box((8, 8), FULL, 7), (8, 8), limit=2)
    assert data["failing"] == 8 and data["elements"] == 64 and data["where"] == "column 7 of every row"
    assert data["first"] == [[0, 7], [1, 7]]
