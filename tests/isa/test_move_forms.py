"""mov with packing and unpacking, prmt in every mode, cvta and isspacep, special registers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from one_instruction import run, run_one

from ptx_engine import emulate
from ptx_engine.errors import UnsupportedError


def permuted(mode: str, a: int, b: int, c: int) -> int:
    """prmt from the ISA's tables: bytes of {b, a}, numbered from a's lowest."""
    data = list((a | b << 32).to_bytes(8, "little"))
    tables = {
        "f4e": [[3, 2, 1, 0], [4, 3, 2, 1], [5, 4, 3, 2], [6, 5, 4, 3]],
        "b4e": [[5, 6, 7, 0], [6, 7, 0, 1], [7, 0, 1, 2], [0, 1, 2, 3]],
        "rc8": [[0, 0, 0, 0], [1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]],
        "ecl": [[3, 2, 1, 0], [3, 2, 1, 1], [3, 2, 2, 2], [3, 3, 3, 3]],
        "ecr": [[0, 0, 0, 0], [1, 1, 1, 0], [2, 2, 1, 0], [3, 2, 1, 0]],
        "rc16": [[1, 0, 1, 0], [3, 2, 3, 2], [1, 0, 1, 0], [3, 2, 3, 2]],
    }  # fmt: skip
    if mode:
        chosen = [data[i] for i in reversed(tables[mode][c & 3])]
    else:
        chosen = []
        for i in range(4):
            nibble = c >> 4 * i & 15
            byte = data[nibble & 7]
            chosen.append((255 if byte & 128 else 0) if nibble & 8 else byte)
    return int.from_bytes(bytes(chosen), "little")


word = st.integers(0, 2**32 - 1)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(word, word, word), min_size=1, max_size=10))
def test_prmt(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array([r[i] for r in rows], np.uint32) for i in range(3)]
    for mode in ("", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        got = run_one(f"prmt.b32{'.' if mode else ''}{mode} d0, a0, a1, a2;", columns, np.uint32)
        assert got.tolist() == [permuted(mode, *r) for r in rows]


def test_prmt_with_a_literal_selector() -> None:
    a, b = np.array([0x44332211, 0xC4B3A291], np.uint32), np.array([0x88776655, 0], np.uint32)
    assert run_one("prmt.b32 d0, a0, a1, 0x7531;", [a, b], np.uint32).tolist() == [
        permuted("", int(x), int(y), 0x7531) for x, y in zip(a, b)
    ]


def test_mov_packs_and_unpacks() -> None:
    low, high = np.array([0x1111, 0xAAAA], np.uint16), np.array([0x2222, 0xBBBB], np.uint16)
    assert run_one("mov.b32 d0, {a0, a1};", [low, high], np.uint32).tolist() == [0x22221111, 0xBBBBAAAA]
    assert run_one("mov.b64 d0, {a0, a1, a0, a1};", [low, high], np.uint64).tolist() == [0x2222111122221111, 0xBBBBAAAABBBBAAAA]
    wide = np.array([0x8877665544332211, 0], np.uint64)
    lo, hi = run("mov.b64 {d0, d1}, a0;", [wide], [np.uint32, np.uint32])
    assert lo.tolist() == [0x44332211, 0] and hi.tolist() == [0x88776655, 0]
    parts = run("mov.b64 {d0, d1, d2, d3}, a0;", [wide], [np.uint16] * 4)
    assert [int(p[0]) for p in parts] == [0x2211, 0x4433, 0x6655, 0x8877]
    only = run("mov.b64 {_, d0}, a0;", [wide], [np.uint32])
    assert only[0].tolist() == [0x88776655, 0]


def test_mov_of_bytes() -> None:
    text = ".reg .b8 %x<4>; mov.b32 {%x0, %x1, %x2, %x3}, a0; mov.b32 d0, {%x3, %x2, %x1, %x0};"
    assert run_one(text, [np.array([0x44332211, 0xFF000080], np.uint32)], np.uint32).tolist() == [0x11223344, 0x800000FF]


def test_mov_of_128_bits() -> None:
    a, b = np.array([1, 2], np.uint64), np.array([3, 4], np.uint64)
    text = ".reg .b128 %q<2>; mov.b128 %q0, {a0, a1}; mov.b128 %q1, %q0; mov.b128 {d1, d0}, %q1;"
    first, second = run(text, [a, b], [np.uint64, np.uint64])
    assert first.tolist() == [3, 4] and second.tolist() == [1, 2]
    one, two = run(text, [a[:1], b[:1]], [np.uint64, np.uint64])
    assert (one[0], two[0]) == (3, 1)


def test_mov_of_float_literals_and_predicates() -> None:
    x = np.array([7, 8], np.uint32)
    assert run_one("mov.f32 d0, 0f3F800000;", [x], np.uint32).tolist() == [0x3F800000] * 2
    assert run_one("mov.f64 d0, 0d3FF0000000000000;", [x], np.uint64).tolist() == [0x3FF0000000000000] * 2
    assert run_one("setp.eq.u32 %p3, a0, 7; mov.pred p0, %p3;", [x], np.uint32).tolist() == [1, 0]
    assert run_one("mov.u32 d0, -1;", [x], np.uint32).tolist() == [0xFFFFFFFF] * 2


def test_special_registers() -> None:
    x = np.zeros(200, np.uint32)
    text = "mov.u32 d0, %laneid; mov.u32 d1, %warpid; mov.u32 d2, %lanemask_lt;"
    lane, warp, mask = run(text, [x], [np.uint32] * 3)
    tid = np.arange(200) % 128
    assert np.array_equal(lane, tid % 32) and np.array_equal(warp, tid // 32)
    assert np.array_equal(mask, (1 << (tid % 32)) - 1)
    with pytest.raises(UnsupportedError, match="pm0"):
        run("mov.u32 d0, %pm0;", [x], [np.uint32])


def test_addresses_and_state_spaces() -> None:
    ptx = """
.version 8.8
.target sm_80
.address_size 64
.shared .align 4 .b8 buf[64];
.visible .entry k(.param .u64 out) {
  .local .align 4 .b8 stack[16];
  .reg .b64 %rd<8>; .reg .b32 %r<8>; .reg .pred %p<8>;
  ld.param.u64 %rd0, [out];
  mov.u64 %rd1, buf;
  cvta.shared.u64 %rd2, %rd1;
  mov.u64 %rd3, stack;
  cvta.local.u64 %rd4, %rd3;
  isspacep.shared %p0, %rd2; isspacep.local %p1, %rd2; isspacep.global %p2, %rd2;
  isspacep.local %p3, %rd4; isspacep.global %p4, %rd0; isspacep.shared::cta %p5, %rd0;
  st.u32 [%rd2+4], 77;
  ld.shared.u32 %r0, [buf+4];
  st.u32 [%rd4], %r0;
  ld.local.u32 %r1, [stack];
  cvta.to.shared.u64 %rd5, %rd2;
  ld.shared.u32 %r2, [%rd5+4];
  selp.u32 %r3, 1, 0, %p0; selp.u32 %r4, 1, 0, %p3; and.b32 %r3, %r3, %r4; selp.u32 %r4, 1, 0, %p4; and.b32 %r3, %r3, %r4;
  selp.u32 %r4, 1, 0, %p1; selp.u32 %r5, 1, 0, %p2; or.b32 %r4, %r4, %r5; selp.u32 %r5, 1, 0, %p5; or.b32 %r4, %r4, %r5;
  st.global.v4.u32 [%rd0], {%r1, %r2, %r3, %r4};
  ret;
}
"""
    out = np.zeros(4, np.uint32)
    assert not emulate(ptx, None, 1, 1, [out]).findings
    assert out.tolist() == [77, 77, 1, 0]


@pytest.mark.parametrize(("space", "name"), [("global", "gv"), ("shared", "sv"), ("local", "lv"), ("const", "cv"), ("param", "out")])
def test_the_generic_address_of_a_variable(space: str, name: str) -> None:
    """cvta of a name, with and without an offset, is cvta of the address that mov gives."""
    text = f""".version 8.8\n.target sm_80\n.address_size 64\n.global .b32 gv[8]; .const .b32 cv[8];
.visible .entry k(.param .u64 out) {{ .shared .b32 sv[8]; .local .b32 lv[8]; .reg .b64 %d<9>; .reg .pred %p<3>; .reg .b32 %r<3>;
ld.param.u64 %d0, [out]; mov.u64 %d1, {name}; cvta.{space}.u64 %d2, %d1; cvta.{space}.u64 %d3, {name}; cvta.{space}.u64 %d4, {name}+8;
sub.u64 %d3, %d3, %d2; sub.u64 %d4, %d4, %d2; st.global.v2.u64 [%d0], {{%d3, %d4}}; ret; }}"""
    out = np.full(2, 99, np.uint64)
    emulate(text, None, 1, 1, [out])
    assert out.tolist() == [0, 8]


def test_a_narrow_generic_address_is_extended() -> None:
    """32 bits extended by zeros lie in global memory: the windows of the other spaces are above."""
    texts = [f"mov.u32 %r0, -8; isspacep.{space} %p0, %r0; selp.b32 %r1, 1, 0, %p0;" for space in ("global", "shared", "local", "const")]
    out = np.zeros(1, np.uint32)
    found = []
    for text in texts:
        emulate(
            f""".version 8.8\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 out) {{ .reg .pred %p0; .reg .b32 %r<2>; .reg .b64 %d0;
{text} ld.param.u64 %d0, [out]; st.global.b32 [%d0], %r1; ret; }}""",
            None,
            1,
            1,
            [out],
        )
        found.append(int(out[0]))
    assert found == [1, 0, 0, 0]


def test_modes_that_are_not_there() -> None:
    x = np.zeros(1, np.uint32)
    run_one("prmt.b32.rc8 d0, a0, a0, a0;", [x], np.uint32)
    with pytest.raises(UnsupportedError):
        run_one("prmt.b32.xyz d0, a0, a0, a0;", [x], np.uint32)
