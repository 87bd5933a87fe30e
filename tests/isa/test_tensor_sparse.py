"""mma.sp: random structured sparse matrices, compressed here by the ISA's description, against the dense product."""

from __future__ import annotations

import numpy as np
import pytest
from fragment_formulas import a_16bit, a_narrow, a_tf32
from tensor_kernels import fragment_kernel, run_bits
from test_tensor_mma import BITS, draw, table

from ptx_engine.errors import NotStructuredError, ParseError

#: shape's k, types of A and B, accumulator, lanes of a group that hold metadata
CASES = [
    (16, "f16", "f16", "f32"), (32, "f16", "f16", "f16"), (16, "bf16", "bf16", "f32"), (32, "bf16", "bf16", "f32"), (8, "tf32", "tf32", "f32"),
    (16, "tf32", "tf32", "f32"), (64, "e4m3", "e5m2", "f32"), (64, "e5m2", "e4m3", "f32"), (32, "s8", "u8", "s32"), (64, "u8", "s8", "s32"), (64, "s4", "u4", "s32"),
    (128, "u4", "u4", "s32"), (128, "s4", "s4", "s32"), (32, "u8", "s8", "s32"), (64, "s8", "u8", "s32"),
]  # fmt: skip


LIMITS = {"s32": (-(2**31), 2**31 - 1)}


def unit_of(kind: str) -> tuple[int, int, int]:
    """Elements of a unit, units of a chunk, units kept of it."""
    if kind == "tf32":
        return 1, 2, 1
    return (2, 4, 2) if kind in ("s4", "u4") else (1, 4, 2)


def compress(rng: np.random.Generator, kind: str, k: int) -> tuple[np.ndarray, np.ndarray, list[list[int]]]:
    """A dense matrix of the structure, its kept elements, and the metadata of each row as 2-bit codes."""
    size, chunk, keep = unit_of(kind)
    dense = np.zeros((16, k))
    kept = np.zeros((16, k // 2))
    codes: list[list[int]] = []
    for row in range(16):
        at, mine = 0, []
        for first in range(0, k, size * chunk):
            chosen = sorted(rng.choice(chunk, keep, replace=False).tolist())
            mine += [2 * chosen[0], 2 * chosen[0] + 1] if kind == "tf32" else chosen
            for unit in chosen:
                for e in range(size):
                    value = draw(rng, kind, (1, 1))[0, 0]
                    dense[row, first + unit * size + e] = kept[row, at] = value
                    at += 1
        codes.append(mine)
    return dense, kept, codes


def metadata(kind: str, k: int, codes: list[list[int]], selector: int) -> np.ndarray:
    """The words of the lanes: 16-bit elements have row g in the lower and g + 8 in the upper half, narrow ones a word a row."""
    words = np.full(32, 0xFFFFFFFF, np.uint64)
    streams = [sum(code << 2 * i for i, code in enumerate(row)) for row in codes]
    bits = len(codes[0]) * 2
    for g in range(8):
        if BITS[kind] >= 16:
            for w in range(max(1, bits // 16)):
                low, high = (streams[r] >> 16 * w & 0xFFFF for r in (g, g + 8))
                words[4 * g + selector * max(1, bits // 16) + w] = low | high << 16
        else:
            for w in range(bits // 32):
                words[4 * g + selector * (bits // 16) + 2 * w] = streams[g] >> 32 * w & 0xFFFFFFFF
                words[4 * g + selector * (bits // 16) + 2 * w + 1] = streams[g + 8] >> 32 * w & 0xFFFFFFFF
    return words.astype(np.uint32).reshape(32, 1)


def b_place(kind: str, k: int) -> list[list[tuple[int, int]]]:
    """B's fragment: registers go along k in blocks of four registers' elements."""
    per = 32 // BITS[kind]
    return [[(lane % 4 * per + i % per + i // per * 4 * per, lane >> 2) for i in range(8 * k // 32)] for lane in range(32)]


def a_place(kind: str, kept: int) -> np.ndarray:
    if kind in ("f16", "bf16"):
        return table(a_16bit(kept), 16 * kept // 32)
    return table(a_tf32(kept) if kind == "tf32" else a_narrow(16, kept, 32 // BITS[kind]), 16 * kept // 32)


def text_of(k: int, a: str, b: str, c: str, selector: int, variant: str = "sp", saturated: bool = False) -> str:
    na, nb, nc = 16 * k // 2 // 32, 8 * k // 32, 4
    counts = {"a": na * BITS[a] // 32, "b": nb * BITS[b] // 32, "c": nc * BITS[c] // 32, "e": 1, "d": nc * BITS[c] // 32}
    text = f"mma.{variant}.sync.aligned.m16n8k{k}.row.col{'.satfinite' if saturated else ''}.{c}.{a}.{b}.{c} {{d}}, {{a}}, {{b}}, {{c}}, {{e}}, {selector};"
    return fragment_kernel(text, counts, dict.fromkeys(counts, 32))


def selectors(k: int, a: str) -> int:
    bits = {"tf32": 2 * k}.get(a, k // 2 if a in ("s4", "u4") else k)
    return 4 // max(1, bits // 16)


def test_a_selector_that_the_shape_does_not_have() -> None:
    frag = {name: np.zeros((32, n), np.uint32) for name, n in (("a", 4), ("b", 4), ("c", 4), ("e", 1), ("d", 4))}
    with pytest.raises(ParseError, match="selector"):
        run_bits(text_of(32, "f16", "f16", "f32", 2), frag)


def test_metadata_that_names_an_element_twice() -> None:
    frag = {name: np.zeros((32, n), np.uint32) for name, n in (("a", 4), ("b", 4), ("c", 4), ("e", 1), ("d", 4))}
    with pytest.raises(NotStructuredError, match="twice"):
        run_bits(text_of(32, "f16", "f16", "f32", 1), frag)


@pytest.mark.parametrize("variant", ["sp", "sp::ordered_metadata"])
def test_metadata_whose_indices_fall(variant: str) -> None:
    """Without the qualifier a pair may name its elements in any order; with it the result of such a pair is undefined."""
    frag = {name: np.zeros((32, n), np.uint32) for name, n in (("a", 4), ("b", 4), ("c", 4), ("e", 1), ("d", 4))}
    frag["e"][:] = 0x4444_4441  # elements 1 and 0 of the first chunk; 0 and 1 of the others
    text = text_of(32, "f16", "f16", "f32", 0, variant)
    if variant == "sp":
        run_bits(text, frag)
        return
    with pytest.raises(NotStructuredError, match="increase"):
        run_bits(text, frag)
