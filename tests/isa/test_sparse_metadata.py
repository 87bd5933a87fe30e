"""Where the metadata of mma.sp stands, against two public statements that the engine knows nothing of.

One is the order in which libraries store metadata for these instructions: rows of the metadata matrix are regrouped, 2x2 blocks swapped
from Z to N, and columns interleaved by two, so that lane l of a warp loads word l of a tile. The other is the ISA's text: which lanes
of four may hold metadata, two bits for each kept element of four, row g in lanes 4g to 4g + 3 and row g + 8 beside it.
"""

from __future__ import annotations

import numpy as np
import pytest
from test_tensor_sparse import CASES, metadata, selectors

from ptx_engine.isa.sparse import _row_words, metadata_place


def library_words(rows: int, words: int, bits: int) -> np.ndarray:
    """(lane order) the place (row, column) of each element of a metadata matrix of ``rows`` x ``words`` elements of 16 or 32 bits."""
    group, interweave = (32, 4) if bits == 16 else (16, 2)
    order = np.zeros((rows * words, 2), int)
    for m in range(rows):
        for k in range(words):
            row, col = m // group * group + m % 8 * interweave + m % group // 8, k
            if row % 2 == 0 and col % 2 == 1:
                row, col = row + 1, col - 1
            elif row % 2 == 1 and col % 2 == 0:
                row, col = row - 1, col + 1
            order[col // 2 * rows * 2 + row * 2 + col % 2] = m, k
    return order


def metadata_bits(k: int, kind: str) -> int:
    """Bits of metadata in a row: two for each kept unit, and tf32 counts as two units of 16 bits."""
    return {"tf32": 2 * k, "s4": k // 2, "u4": k // 2}.get(kind, k)


#: instructions whose metadata fill two columns of a library's matrix
PAIRED = [(k, a) for k, a, _, _ in CASES if metadata_bits(k, a) == (32 if a in ("f16", "bf16", "tf32") else 64)]


@pytest.mark.parametrize(("k", "kind"), PAIRED)
def test_lanes_load_the_words_of_a_library(k: int, kind: str) -> None:
    """16-bit elements: a tile of 32 rows serves two instructions, by selector 0 and 1. Narrow ones: a tile of 16 rows fills the warp."""
    wide = kind in ("f16", "bf16", "tf32")
    size = 16 if wide else 32
    order = library_words(32 if wide else 16, 2, size)
    held = order.reshape(32, 2, 2) if wide else order.reshape(32, 1, 2)  # of each lane: (row, column), low half first
    place = metadata_place(32) if wide else _row_words(64)
    for selector in range(selectors(k, kind)):
        lanes, first, _ = place
        for row in range(16):
            for word in range(2):
                lane, half = int(lanes[row, word]) + 2 * selector * wide, int(first[row, word]) // 16
                assert held[lane, half].tolist() == [row + 16 * selector, word]


@pytest.mark.parametrize(("k", "kind"), [(k, a) for k, a, _, _ in CASES])
def test_selectors_are_the_isas(k: int, kind: str) -> None:
    """One lane of four (0 to 3), a pair of lanes (0 and 1), or all four (0)."""
    bits = metadata_bits(k, kind)
    assert selectors(k, kind) == {16: 4, 32: 2, 64: 1}[bits]
    table = {
        ("f16", 16): 4, ("bf16", 16): 4, ("tf32", 8): 4, ("f16", 32): 2, ("bf16", 32): 2, ("tf32", 16): 2, ("s8", 32): 2, ("u8", 32): 2,
        ("s4", 64): 2, ("u4", 64): 2, ("s8", 64): 1, ("u8", 64): 1, ("e4m3", 64): 1, ("e5m2", 64): 1, ("s4", 128): 1, ("u4", 128): 1,
    }  # fmt: skip
    assert table[kind, k] == selectors(k, kind)


@pytest.mark.parametrize(("k", "kind"), [(k, a) for k, a, _, _ in CASES])
def test_each_row_has_its_own_bits(k: int, kind: str) -> None:
    """The words of the selected lanes hold every row's metadata once, and other lanes none."""
    bits, wide = metadata_bits(k, kind), kind in ("f16", "bf16", "tf32")
    lanes, first, size = metadata_place(bits) if wide else _row_words(bits)
    taken = {(int(lane), int(at)) for row in range(16) for lane, at in zip(lanes[row], first[row])}
    assert len(taken) == lanes.size and lanes.size * size == 16 * bits
    assert {lane % 4 for lane, _ in taken} == set(range(max(1, bits // 16)))
    words = metadata(kind, k, [[1, 0] * (bits // 4) if row == 3 else [0, 0] * (bits // 4) for row in range(16)], 0).ravel()
    changed = {lane for lane in range(32) if words[lane] not in (0, 0xFFFFFFFF)}
    assert changed == {int(lane) for lane in lanes[3]}
