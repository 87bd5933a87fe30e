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


def load_kernel(num: int, trans: bool, generic: bool = False) -> str:
    """The tile comes from ``in`` (row r of matrix i at 128 i + 16 r), ldmatrix reads it, registers go out."""
    where = ["cvta.shared.u64 %d5, %d5;"] if generic else []
    op = f"ldmatrix.sync.aligned.m8n8.x{num}{'.trans' if trans else ''}{'' if generic else '.shared'}.b16"
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


@pytest.mark.parametrize("num", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("generic", [False, True])
def test_ldmatrix(num: int, trans: bool, generic: bool) -> None:
    tile = np.arange(256, dtype=np.uint16)
    out = np.zeros((32, 2 * num), np.uint16)
    emulation = emulate(load_kernel(num, trans, generic), None, 1, 32, [tile, out])
    assert not emulation.findings
    np.testing.assert_array_equal(out, expected_fragments(tile, num, trans))


@pytest.mark.parametrize("trans", [False, True])
def test_ldmatrix_of_terms(trans: bool) -> None:
    arena = Arena()
    args = (TensorArg("in", "f16", (256,), Role.IN), TensorArg("out", "f16", (256,), Role.OUT))
    text = load_kernel(4, trans)
    run = execute(parse(text), None, bind(Launch((1, 1, 1), (32, 1, 1), args), arena), source=text)
    assert not run.findings
    ids = np.asarray(arena.inputs[0].ids(np.arange(256)))
    np.testing.assert_array_equal(run.footprints["out"].ids.reshape(32, 8), expected_fragments(ids, 4, trans))


def store_kernel(num: int, trans: bool) -> str:
    """Registers come from ``in``, stmatrix writes the tile, which goes out row by row."""
    op = f"stmatrix.sync.aligned.m8n8.x{num}{'.trans' if trans else ''}.shared.b16"
    return HEAD + _BODY + "\n".join([
        f"ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out]; mul.wide.u32 %d2, %lane, {4 * num}; add.s64 %d3, %d0, %d2;",
        *(f"ld.global.b32 %r{i}, [%d3+{4 * i}];" for i in range(num)),
        f"and.b32 %row, %lane, {8 * num - 1}; shl.b32 %row, %row, 4; add.u32 %row, %row, %sm;", f"{op} [%row], {registers('r', num)};",
        "bar.sync 0;", f"setp.ge.u32 %p, %lane, {8 * num};", "@%p ret;",
        "shl.b32 %r10, %lane, 4; add.u32 %r10, %r10, %sm; ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r10]; mul.wide.u32 %d2, %lane, 16;",
        "add.s64 %d3, %d1, %d2; st.global.v4.b32 [%d3], {%r1, %r2, %r3, %r4};", "ret;", "}",
    ]).replace("bar.sync 0;", ".reg .pred %p; bar.sync 0;") + "\n"  # fmt: skip


@pytest.mark.parametrize("num", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_stmatrix(num: int, trans: bool) -> None:
    tile = np.arange(64 * num, dtype=np.uint16)
    fragments = expected_fragments(tile, num, trans)
    out = np.zeros(64 * num, np.uint16)
    emulation = emulate(store_kernel(num, trans), None, 1, 32, [np.ascontiguousarray(fragments), out])
    assert not emulation.findings
    np.testing.assert_array_equal(out, tile)


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


def test_forms_of_later_targets_are_refused() -> None:
    text = load_kernel(1, True).replace("m8n8.x1.trans.shared.b16 {%r0}", "m16n16.x1.trans.shared.b8 {%r0, %r1}")
    with pytest.raises(UnsupportedError, match="sm_100"):
        emulate(text, None, 1, 32, [np.zeros(256, np.uint16), np.zeros((32, 2), np.uint16)])
