"""Where mma.sp keeps A, B and the metadata, against the layouts that NVIDIA publishes as code beside its template library.

Those state for each shape a function from (thread, element) to a place in the dense matrix: extents and strides of the thread's and of the
element's digits, lowest first, over a place of row + rows * column. They are data here and share nothing with the engine's formulas.
The element's digits of the metadata are dense elements in the order in which their bits stand in the word.
Source: CUTLASS 3.8, "mma_traits_sm80_sparse.hpp" (BSD-3-Clause); the fragments of A are those of the ISA's text, too.
"""

from __future__ import annotations

import numpy as np
import pytest

from ptx_engine.isa import fragments
from ptx_engine.isa.sparse import _row_words, metadata_place

Digits = tuple[tuple[int, int], ...]
BITS = {"f16": 16, "tf32": 32, "s8": 8, "s4": 4}
#: dense elements that four bits of metadata describe
CHUNK = {"f16": 4, "tf32": 2, "s8": 4, "s4": 8}

#: (type, k): digits (extent, stride) of the thread, then of the element; A and the metadata over (16, k), B over (8, k)
A: dict[tuple[str, int], tuple[Digits, Digits]] = {
    ("f16", 16): (((4, 64), (8, 1)), ((4, 16), (2, 8))),
    ("f16", 32): (((4, 64), (8, 1)), ((4, 16), (2, 8), (2, 256))),
    ("tf32", 8): (((4, 32), (8, 1)), ((2, 16), (2, 8))),
    ("tf32", 16): (((4, 32), (8, 1)), ((2, 16), (2, 8), (2, 128))),
    ("s8", 32): (((4, 128), (8, 1)), ((8, 16), (2, 8))),
    ("s8", 64): (((4, 128), (8, 1)), ((8, 16), (2, 8), (2, 512))),
    ("s4", 64): (((4, 256), (8, 1)), ((16, 16), (2, 8))),
    ("s4", 128): (((4, 256), (8, 1)), ((16, 16), (2, 8), (2, 1024))),
}
B: dict[tuple[str, int], tuple[Digits, Digits]] = {
    ("f16", 16): (((4, 16), (8, 1)), ((2, 8), (2, 64))),
    ("f16", 32): (((4, 16), (8, 1)), ((2, 8), (4, 64))),
    ("tf32", 8): (((4, 8), (8, 1)), ((2, 32),)),
    ("tf32", 16): (((4, 8), (8, 1)), ((4, 32),)),
    ("s8", 32): (((4, 32), (8, 1)), ((4, 8), (2, 128))),
    ("s8", 64): (((4, 32), (8, 1)), ((4, 8), (4, 128))),
    ("s4", 64): (((4, 64), (8, 1)), ((8, 8), (2, 256))),
    ("s4", 128): (((4, 64), (8, 1)), ((8, 8), (4, 256))),
}
#: a thread digit of stride 0 is the selector's: the threads that differ in it hold the metadata of other instructions
METADATA: dict[tuple[str, int], tuple[Digits, Digits]] = {
    ("f16", 16): (((4, 0), (8, 1)), ((16, 16), (2, 8))),
    ("f16", 32): (((2, 256), (2, 0), (8, 1)), ((16, 16), (2, 8))),
    ("tf32", 8): (((4, 0), (8, 1)), ((8, 16), (2, 8))),
    ("tf32", 16): (((2, 128), (2, 0), (8, 1)), ((8, 16), (2, 8))),
    ("s8", 32): (((2, 8), (2, 0), (8, 1)), ((32, 16),)),
    ("s8", 64): (((2, 8), (2, 512), (8, 1)), ((32, 16),)),
    ("s4", 64): (((2, 8), (2, 0), (8, 1)), ((64, 16),)),
    ("s4", 128): (((2, 8), (2, 1024), (8, 1)), ((64, 16),)),
}


def place(digits: Digits, number: int) -> int:
    """The sum of the digits of a number times their strides."""
    total = 0
    for extent, stride in digits:
        total += number % extent * stride
        number //= extent
    return total


def count(digits: Digits) -> int:
    return int(np.prod([extent for extent, _ in digits]))


@pytest.mark.parametrize(("kind", "k"), list(A))
def test_kept_elements_of_a(kind: str, k: int) -> None:
    """Of each chunk of dense elements a thread holds the kept half, in order."""
    threads, elements = A[kind, k]
    layout = fragments.fragment_a(16, k // 2, 32 // BITS[kind])
    chunk = CHUNK[kind]
    seen = set()
    for lane in range(32):
        for dense in range(0, count(elements), chunk):
            column, row = divmod(place(threads, lane) + place(elements, dense), 16)
            assert column % chunk == 0
            for kept in range(chunk // 2):
                part = dense // 2 + kept
                assert layout[row, column // 2 + kept] == part * 32 + lane
                seen.add((row, column // 2 + kept))
    assert len(seen) == layout.size


@pytest.mark.parametrize(("kind", "k"), list(B))
def test_elements_of_b(kind: str, k: int) -> None:
    threads, elements = B[kind, k]
    layout = fragments.fragment_b(k, 32 // BITS[kind])
    for lane in range(32):
        for part in range(count(elements)):
            row, n = divmod(place(threads, lane) + place(elements, part), 8)
            assert layout[n, row] == part * 32 + lane
    assert 32 * count(elements) == layout.size


def engine_nibbles(kind: str, k: int, selector: int) -> dict[tuple[int, int], tuple[int, int]]:
    """(lane, first bit) of each four bits -> (row, first dense column) that they describe."""
    bits = 4 * k // CHUNK[kind]
    lanes, first, size = metadata_place(bits) if BITS[kind] >= 16 else _row_words(bits)
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for row in range(16):
        for word in range(lanes.shape[1]):
            for nibble in range(size // 4):
                key = int(lanes[row, word]) + selector * max(1, bits // 16), int(first[row, word]) + 4 * nibble
                assert key not in found
                found[key] = row, (word * size // 4 + nibble) * CHUNK[kind]
    return found


@pytest.mark.parametrize(("kind", "k"), list(METADATA))
def test_metadata(kind: str, k: int) -> None:
    threads, elements = METADATA[kind, k]
    chunk = CHUNK[kind]
    contributing = max(1, 4 * k // chunk // 16)  # threads of four
    for selector in range(4 // contributing):
        published = {}
        for lane in range(32):
            if lane % 4 // contributing == selector:
                for dense in range(0, count(elements), chunk):
                    column, row = divmod(place(threads, lane) + place(elements, dense), 16)
                    published[lane, 4 * (dense // chunk)] = row, column
        assert engine_nibbles(kind, k, selector) == published
        assert len(set(published.values())) == 16 * k // chunk
