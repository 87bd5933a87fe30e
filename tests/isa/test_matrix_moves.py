"""ldmatrix, stmatrix and movmatrix against NumPy, on bits and on terms."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_kernels import HEAD, registers

from ptx_engine import emulate
from ptx_engine.errors import NotStructuredError, UnsupportedError
from ptx_engine.launch import Launch, Role, TensorArg, bind
from ptx_engine.machine import execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena

_BODY = """.visible .entry k(.param .u64 in, .param .u64 out)
{
.reg .b32 %r<20>; .reg .b64 %d<8>; .reg .b32 %lane, %row, %sm;
.shared .align 16 .b8 tile[1024];
mov.u32 %lane, %tid.x; mov.u32 %sm, tile;
"""


def load_kernel(num: int, trans: bool, generic: bool = False, older: bool = False) -> str:
    """The tile comes from ``in`` (row r of matrix i at 128 i + 16 r), ldmatrix reads it, registers go out."""
    where = ["cvta.shared.u64 %d5, %d5;"] if generic else []
    op = f"ldmatrix.sync.aligned.m8n8.x{num}{'.trans' if trans else ''}{'' if generic else '.shared'}.b16"
    if older:  # the number of matrices before their shape, as CUTLASS writes it
        op = f"ldmatrix.sync.aligned.x{num}{'.trans' if trans else ''}.m8n8{'' if generic else '.shared'}.b16"
    return HEAD + _BODY + "\n".join([
        "ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out]; mul.wide.u32 %d2, %lane, 16; add.s64 %d3, %d0, %d2;",
        "ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%d3]; shl.b32 %r0, %lane, 4; add.u32 %r0, %r0, %sm; st.shared.v4.b32 [%r0], {%r1, %r2, %r3, %r4};",
        "bar.sync 0;", f"and.b32 %row, %lane, {8 * num - 1}; shl.b32 %row, %row, 4; add.u32 %row, %row, %sm; cvt.u64.u32 %d5, %row;", *where,
        f"{op} {registers('r', num)}, [%d5];", f"mul.wide.u32 %d2, %lane, {4 * num}; add.s64 %d3, %d1, %d2;",
        *(f"st.global.b32 [%d3+{4 * i}], %r{i};" for i in range(num)), "ret;", "}",
    ]) + "\n"  # fmt: skip


def expected_fragments(tile: np.ndarray, num: int, trans: bool) -> np.ndarray:
    """(lanes, 2 num): elements 2(l%4) and 2(l%4)+1 of row l/4 of each matrix."""
    matrices = tile.reshape(-1, 8, 8)[:num]
    matrices = matrices.swapaxes(1, 2) if trans else matrices
    lane = np.arange(32)
    return np.stack([matrices[i, lane // 4, 2 * (lane % 4) + j] for i in range(num) for j in range(2)], 1)


@pytest.mark.parametrize("trans", [False, True])
def test_ldmatrix_of_terms(trans: bool) -> None:
    arena = Arena()
    args = (TensorArg("in", "f16", (256,), Role.IN), TensorArg("out", "f16", (256,), Role.OUT))
    text = load_kernel(4, trans)
    run = execute(parse(text), None, bind(Launch((1, 1, 1), (32, 1, 1), args), arena), source=text)
    assert not run.findings
    ids = np.asarray(arena.inputs[0].ids(np.arange(256)))
    np.testing.assert_array_equal(run.footprints["out"].ids.reshape(32, 8), expected_fragments(ids, 4, trans))


def store_kernel(num: int, trans: bool, older: bool = False) -> str:
    """Registers come from ``in``, stmatrix writes the tile, which goes out row by row."""
    op = f"stmatrix.sync.aligned.m8n8.x{num}{'.trans' if trans else ''}.shared.b16"
    if older:
        op = f"stmatrix.sync.aligned.x{num}{'.trans' if trans else ''}.m8n8.shared.b16"
    return HEAD + _BODY + "\n".join([
        f"ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out]; mul.wide.u32 %d2, %lane, {4 * num}; add.s64 %d3, %d0, %d2;",
        *(f"ld.global.b32 %r{i}, [%d3+{4 * i}];" for i in range(num)),
        f"and.b32 %row, %lane, {8 * num - 1}; shl.b32 %row, %row, 4; add.u32 %row, %row, %sm;", f"{op} [%row], {registers('r', num)};",
        "bar.sync 0;", f"setp.ge.u32 %p, %lane, {8 * num};", "@%p ret;",
        "shl.b32 %r10, %lane, 4; add.u32 %r10, %r10, %sm; ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r10]; mul.wide.u32 %d2, %lane, 16;",
        "add.s64 %d3, %d1, %d2; st.global.v4.b32 [%d3], {%r1, %r2, %r3, %r4};", "ret;", "}",
    ]).replace("bar.sync 0;", ".reg .pred %p; bar.sync 0;") + "\n"  # fmt: skip


def test_stmatrix_of_misaligned_rows() -> None:
    text = store_kernel(1, False).replace("add.u32 %row, %row, %sm;", "add.u32 %row, %row, %sm; add.u32 %row, %row, 8;")
    with pytest.raises(NotStructuredError, match="aligned to 16"):
        emulate(text, None, 1, 32, [np.zeros((32, 2), np.uint16), np.zeros(64, np.uint16)])


def test_movmatrix_transposes() -> None:
    text = HEAD + _BODY + "\n".join([
        "ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out]; mul.wide.u32 %d2, %lane, 4; add.s64 %d3, %d0, %d2; ld.global.b32 %r0, [%d3];",
        "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0;", "add.s64 %d3, %d1, %d2; st.global.b32 [%d3], %r1;", "ret;", "}",
    ]) + "\n"  # fmt: skip
    matrix = np.arange(64, dtype=np.uint16).reshape(8, 8)
    fragment = np.ascontiguousarray(expected_fragments(matrix, 1, False))
    out = np.zeros((32, 2), np.uint16)
    assert not emulate(text, None, 1, 32, [fragment, out]).findings
    np.testing.assert_array_equal(out, expected_fragments(matrix, 1, True))
    arena = Arena()
    args = (TensorArg("in", "f16", (64,), Role.IN), TensorArg("out", "f16", (64,), Role.OUT))
    run = execute(parse(text), None, bind(Launch((1, 1, 1), (32, 1, 1), args), arena), source=text)
    ids = np.asarray(arena.inputs[0].ids(expected_fragments(np.arange(64), 1, True)))
    # element (lane, j) of the transposed fragment holds element [col, row] of the matrix, which lies at its own place in the input fragment
    place = {int(v): i for i, v in enumerate(expected_fragments(np.arange(64), 1, False).ravel())}
    wanted = [int(arena.inputs[0].ids(place[int(v)])) for v in expected_fragments(np.arange(64), 1, True).ravel()]
    assert run.footprints["out"].ids.tolist() == wanted
    assert ids.shape == (32, 2)


# --- 8-bit elements -------------------------------------------------------------------------------
# Two independent statements of the layouts. ``fragment_of_bytes`` is what is measured on a GPU that has the instruction: register 2i of
# lane l holds rows 4(l%4).. of column l/4 of matrix i, register 2i+1 the same rows of column l/4 + 8. ``by_strides`` is the published
# layout of a kernel library, shapes and strides from (lane, bit) to a bit of the tile, after its byte shuffle and its order of rows.


def byte_kernel(num: int, generic: bool = False) -> str:
    """Lane l gives the address of row l of the tile (16 bytes a row)."""
    where = ["cvta.shared.u64 %d5, %d5;"] if generic else []
    count = 2 * num
    return HEAD + _BODY + "\n".join([
        "ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out]; mul.wide.u32 %d2, %lane, 16; add.s64 %d3, %d0, %d2;",
        "ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%d3]; shl.b32 %r0, %lane, 4; add.u32 %r0, %r0, %sm; st.shared.v4.b32 [%r0], {%r1, %r2, %r3, %r4};",
        f"bar.sync 0; and.b32 %row, %lane, {16 * num - 1}; shl.b32 %row, %row, 4; add.u32 %row, %row, %sm; cvt.u64.u32 %d5, %row;", *where,
        f"ldmatrix.sync.aligned.m16n16.x{num}.trans{'' if generic else '.shared'}.b8 {registers('r', count)}, [%d5];",
        f"mul.wide.u32 %d2, %lane, {4 * count}; add.s64 %d3, %d1, %d2;",
        *(f"st.global.b32 [%d3+{4 * i}], %r{i};" for i in range(count)), "ret;", "}",
    ]) + "\n"  # fmt: skip


def fragment_of_bytes(tile: np.ndarray, num: int) -> np.ndarray:
    """(lanes, bytes in register order)."""
    matrices, lane = tile.reshape(-1, 16, 16), np.arange(32)
    return np.stack([matrices[i, 4 * (lane % 4) + j, lane // 4 + column] for i in range(num) for column in (0, 8) for j in range(4)], 1)


def strided(shape: tuple[int, ...], strides: tuple[int, ...], index: int) -> int:
    """A layout of shapes and strides, the first mode fastest."""
    at = 0
    for extent, stride in zip(shape, strides):
        at, index = at + index % extent * stride, index // extent
    return at


def by_strides(tile: np.ndarray, num: int) -> np.ndarray:
    out = np.zeros((32, 8 * num), tile.dtype)
    sources = {strided((2, 2, 4, 2), (128, 1024, 256, 2048 if num == 2 else 0), lane) // 128: lane for lane in range(16 * num)}
    for lane in range(32):
        for k in range(8 * num):  # byte k of the shuffled registers: {r0.x, r0.y, r1.x, r1.y}, {r0.z, r0.w, r1.z, r1.w}
            bit = strided((4, 8), (256, 8), lane) + strided((2, 2, 2, 2), (128, 64, 1024, 2048), k)
            register, byte = (k >> 1 & 1) + 2 * (k >> 3), (k & 1) + 2 * (k >> 2 & 1)
            out[lane, 4 * register + byte] = tile.reshape(-1, 16)[sources[bit // 128], bit % 128 // 8]
    return out


@pytest.mark.parametrize("num", [1, 2])
@pytest.mark.parametrize("generic", [False, True])
def test_ldmatrix_of_bytes(num: int, generic: bool) -> None:
    tile = np.random.default_rng(3).permutation(512).astype(np.uint16)
    for half in (tile & 255, tile >> 8):  # each byte of a number that names its element
        data = half.astype(np.uint8)
        out = np.zeros((32, 8 * num), np.uint8)
        assert not emulate(byte_kernel(num, generic), None, 1, 32, [data, out]).findings
        np.testing.assert_array_equal(out, fragment_of_bytes(data, num))
        np.testing.assert_array_equal(out, by_strides(data, num))


@pytest.mark.parametrize("kind", ["e4m3", "s8"])
def test_ldmatrix_of_bytes_as_terms(kind: str) -> None:
    arena = Arena()
    args = (TensorArg("in", kind, (512,), Role.IN), TensorArg("out", kind, (512,), Role.OUT))
    text = byte_kernel(2)
    run = execute(parse(text), None, bind(Launch((1, 1, 1), (32, 1, 1), args), arena), source=text)
    assert not run.findings
    ids = np.asarray(arena.inputs[0].ids(np.arange(512)))
    np.testing.assert_array_equal(run.footprints["out"].ids.reshape(32, 16), fragment_of_bytes(ids, 2))


@pytest.mark.parametrize("num", [1, 2, 4])
def test_stmatrix_of_bytes(num: int) -> None:
    """16x8 matrices whose columns become rows of memory: the accumulator's elements, eight rows apart in the upper half of a register."""
    matrices = np.arange(128 * num).reshape(num, 16, 8)
    lane = np.arange(32)
    places = [(i, lane // 4 + 8 * (j // 2), 2 * (lane % 4) + j % 2) for i in range(num) for j in range(4)]
    fragment = np.stack([matrices[p] for p in places], 1)
    # the published layout: bit of the stored tile for (lane, bit of the register)
    bits = [strided((4, 8), (256, 8), n) + strided((2, 2), (128, 64), k) for n in range(32) for k in range(4)]
    stored = matrices[0].T.ravel()
    assert [int(stored[b // 8]) for b in bits] == fragment[:, :4].ravel().tolist()
    text = store_kernel(num, True).replace("m8n8", "m16n8").replace(".b16 [", ".b8 [")
    for shift in (0, 8):  # each byte of a number that names its element
        out = np.zeros(128 * num, np.uint8)
        data = np.ascontiguousarray((fragment >> shift).astype(np.uint8))
        assert not emulate(text, None, 1, 32, [data, out]).findings
        np.testing.assert_array_equal(out, (matrices.swapaxes(1, 2).ravel() >> shift).astype(np.uint8))


def test_matrices_of_narrower_elements_are_refused() -> None:
    text = byte_kernel(1).replace("m16n16.x1.trans.shared.b8 ", "m16n16.x1.trans.shared.b8x16.b4x16_p64 ")
    with pytest.raises(UnsupportedError, match="4-bit elements"):
        emulate(text, None, 1, 32, [np.zeros(512, np.uint8), np.zeros((32, 8), np.uint8)])
