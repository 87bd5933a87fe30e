"""mma.sp: products with a structured sparse A. The compressed A is spread over K columns by the metadata, the rest is zero.

In a chunk of four consecutive elements two are kept (f16, bf16, 8-bit floats and integers); of two, one (tf32); of four pairs,
two (4-bit integers). The selector says which lanes of each group of four hold the metadata. Metadata must be concrete.
Source: PTX ISA 9.1, "Sparse matrix storage" and "Matrix fragments for multiply-accumulate operation with sparse matrix A".
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from ptx_engine.errors import NotStructuredError, ParseError
from ptx_engine.isa import fragments
from ptx_engine.isa.decode import Decode, Step
from ptx_engine.isa.group import WARP, Group
from ptx_engine.isa.mma_integer import IntegerProduct, integer_product_step
from ptx_engine.isa.mma_shapes import extents
from ptx_engine.isa.registry import instruction
from ptx_engine.isa.tensor_core import Spread, element_of, float_product_step
from ptx_engine.isa.values import Sym, uninitialised

_S = "PTX ISA 9.1, Warp Level Matrix Multiply-Accumulate Instructions: mma.sp"


@cache
def metadata_place(bits_per_row: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Where each row's metadata stands: lanes (16, words) within a warp for selector 0, first bits (16, words), bits per word.

    16 bits a row: lane 4g, row g in the lower half and g + 8 in the upper; 32 bits of 16-bit elements: two lanes, each 16 bits of both
    rows; see ``_row_words`` for elements of 8 bits and less.
    """
    rows = np.arange(16)
    words = max(1, bits_per_row // 16)
    lanes = (rows % 8)[:, None] * 4 + np.arange(words)
    return lanes, np.repeat((rows // 8 * 16)[:, None], words, 1), 16


@cache
def _row_words(bits_per_row: int) -> tuple[np.ndarray, np.ndarray, int]:
    """8-bit and 4-bit elements: whole words, lane 4g holds row g and lane 4g + 1 row g + 8; the next 32 bits are in lanes 4g + 2, + 3."""
    rows = np.arange(16)
    words = bits_per_row // 32
    lanes = (rows % 8)[:, None] * 4 + (rows // 8)[:, None] + 2 * np.arange(words)
    return lanes, np.zeros((16, words), np.int64), 32


def spreader(d: Decode, k: int) -> Spread:
    """The function that spreads A. Raises ParseError for a selector that the shape does not have."""
    kind = d.mods["atype"]
    bits = {"tf32": 32, "f16": 16, "bf16": 16}.get(kind, 4 if kind in ("s4", "u4") else 8)
    bits_per_row = {32: 2 * k, 16: k, 8: k, 4: k // 2}[bits]
    lanes, first, size = metadata_place(bits_per_row) if bits >= 16 else _row_words(bits_per_row)
    contributing = max(1, bits_per_row // 16)  # lanes of a group of four
    selector = d.literal(5)
    if not 0 <= selector < 4 // contributing:
        raise ParseError(f"{d.ins.mnemonic}: the sparsity selector must be below {4 // contributing}", span=d.ins.span)
    lanes = lanes + selector * contributing
    source, name, ordered = d.src(4, 32), d.ins.mnemonic, d.mods["variant"] == "sp::ordered_metadata"

    def spread(g: Group, rows: np.ndarray) -> np.ndarray:
        value = g.R[source]
        if value is None:
            raise uninitialised("sparsity metadata")
        if isinstance(value, Sym):
            raise NotStructuredError(f"{name} with symbolic metadata", feature="symbolic sparsity metadata",
                                     hint="give the metadata tensor concrete contents in the launch spec")  # fmt: skip
        words = np.broadcast_to(np.asarray(value, np.uint32), (g.n,)).reshape(-1, WARP)[:, lanes]  # (warps, 16, words)
        fields = (words >> first.astype(np.uint32)) & np.uint32((1 << size) - 1) if size < 32 else words
        codes = _codes(fields, size)
        if ordered and bool((codes[..., 0::2] > codes[..., 1::2]).any()):  # undefined by the ISA: which element goes where is not said
            raise NotStructuredError(f"{name}: metadata whose indices do not increase", feature="invalid sparsity metadata")
        return _spread(rows, _columns(codes, bits, name), k)

    return spread


def _codes(fields: np.ndarray, size: int) -> np.ndarray:
    """Two-bit codes of each row, low bits first: (warps, 16, codes)."""
    shifts = np.arange(0, size, 2, dtype=np.uint32)
    return ((fields[..., None] >> shifts) & np.uint32(3)).reshape(*fields.shape[:2], -1).astype(np.int64)


def _columns(codes: npt.NDArray[np.int64], bits: int, name: str) -> npt.NDArray[np.int64]:
    """The column of each kept element: (warps, 16, K / 2)."""
    pairs = codes.reshape(*codes.shape[:2], -1, 2)
    if bool((pairs[..., 0] == pairs[..., 1]).any()):
        raise NotStructuredError(f"{name}: metadata that names one element twice", feature="invalid sparsity metadata")
    if bits == 32:  # a tf32 element is two units of 16 bits: codes 0b0100 and 0b1110
        if bool(((pairs[..., 0] & 1) | (pairs[..., 1] != pairs[..., 0] + 1)).any()):
            raise NotStructuredError(f"{name}: metadata of .tf32 must be 0b0100 or 0b1110", feature="invalid sparsity metadata")
        return 2 * np.arange(pairs.shape[2]) + pairs[..., 0] // 2
    chunk = 4 * np.arange(pairs.shape[2])[:, None]
    units = (chunk + pairs).reshape(*codes.shape)
    if bits == 4:  # units are pairs of elements
        return (2 * units[..., None] + np.arange(2)).reshape(*codes.shape[:2], -1)
    return units


def _spread(rows: np.ndarray, columns: np.ndarray, k: int) -> np.ndarray:
    """Zero is 0 in every algebra: the id of the constant, and the number."""
    full = np.zeros((*rows.shape[:2], k), rows.dtype)
    np.put_along_axis(full, columns, rows, axis=2)
    return full


_SP = "variant=sp|sp::ordered_metadata sync aligned"


@instruction("mma", f"{_SP} shape=m16n8k16|m16n8k32 row col dtype=f32|f16 atype=f16 btype=f16 ctype=f32|f16",
             f"{_SP} shape=m16n8k16|m16n8k32 row col dtype=f32 atype=bf16 btype=bf16 ctype=f32",
             f"{_SP} shape=m16n8k8|m16n8k16 row col dtype=f32 atype=tf32 btype=tf32 ctype=f32",
             f"{_SP} shape=m16n8k64 row col dtype=f32 atype=e4m3|e5m2 btype=e4m3|e5m2 ctype=f32", source=_S)  # fmt: skip
def mma_sparse(d: Decode) -> Step:
    d.expect(6)
    _, _, k = extents(d.mods["shape"])
    ea, eb = element_of(d, "atype"), element_of(d, "btype")
    layout_c = fragments.fragment_c(16)
    layouts = (fragments.fragment_a(16, k // 2, ea.per_register), fragments.fragment_b(k, eb.per_register), layout_c, layout_c)
    return float_product_step(d, layouts, (ea, eb), spreader(d, k))


@instruction("mma", f"{_SP} shape=m16n8k32|m16n8k64 row col [satfinite] dtype=s32 atype=s8|u8 btype=s8|u8 ctype=s32",
             f"{_SP} shape=m16n8k64|m16n8k128 row col [satfinite] dtype=s32 atype=s4|u4 btype=s4|u4 ctype=s32", source=_S)  # fmt: skip
def mma_sparse_integer(d: Decode) -> Step:
    d.expect(6)
    _, _, k = extents(d.mods["shape"])
    ea, eb = element_of(d, "atype"), element_of(d, "btype")
    layouts = (fragments.fragment_a(16, k // 2, ea.per_register), fragments.fragment_b(k, eb.per_register), fragments.fragment_c(16))
    return integer_product_step(d, IntegerProduct(layouts, (ea, eb), "", d.has("satfinite")), spreader(d, k))
