"""Generic addresses of every state space: made by cvta, read, told apart by isspacep; kernel parameters are read-only."""

from __future__ import annotations

import numpy as np
import pytest

from ptx_engine import emulate
from ptx_engine.errors import UnsupportedError

SPACES = ("global", "const", "shared", "local", "param")
HEAD = """.version 8.0
.target sm_80
.address_size 64
.const .b32 table[4] = {10, 20, 30, 40};
.global .b32 word = 7;
.visible .entry k(.param .u64 out, .param .align 8 .b8 structure[16]) {
.reg .b64 %d<8>; .reg .b32 %r<8>; .reg .pred %p<2>;
.shared .align 4 .b32 tile[4]; .local .align 4 .b32 own[4];
ld.param.u64 %d0, [out]; mov.b32 %r0, 5; st.shared.b32 [tile+4], %r0; mov.b32 %r0, 6; st.local.b32 [own+4], %r0;
"""
NAMES = {"global": "word", "const": "table", "shared": "tile", "local": "own", "param": "structure"}
STRUCTURE = np.array([1, 2, 3, 4], np.uint32).tobytes()


def run(body: str) -> np.ndarray:
    out = np.zeros(5, np.uint32)
    assert not emulate(f"{HEAD}{body}\nret; }}\n", "k", 1, 1, [out, STRUCTURE]).findings
    return out


def generic(space: str) -> str:
    """The generic address of a space's variable in %d2."""
    return f"mov.b64 %d1, {NAMES[space]}; cvta.{space}.u64 %d2, %d1;"


@pytest.mark.parametrize("space", SPACES)
def test_spaces_are_told_apart(space: str) -> None:
    """PTX ISA, isspacep: an address is in the one space whose window holds it, and global where no window does."""
    tests = "".join(
        f"isspacep.{other} %p0, %d2; selp.b32 %r1, 1, 0, %p0; st.global.b32 [%d0+{4 * i}], %r1;" for i, other in enumerate(SPACES)
    )
    assert run(generic(space) + tests).tolist() == [int(other == space) for other in SPACES]


@pytest.mark.parametrize(
    ("space", "offset", "wanted"), [("global", 0, 7), ("const", 8, 30), ("shared", 4, 5), ("local", 4, 6), ("param", 12, 4)]
)
def test_generic_loads(space: str, offset: int, wanted: int) -> None:
    back = f"cvta.to.{space}.u64 %d3, %d2; ld.{space}.b32 %r2, [%d3+{offset}]; st.global.b32 [%d0+4], %r2;"
    found = run(f"{generic(space)} ld.b32 %r1, [%d2+{offset}]; st.global.b32 [%d0], %r1; {back}")
    assert found.tolist() == [wanted, wanted, 0, 0, 0]


@pytest.mark.parametrize("store", ["st.b32 [%d2], %r0;", "atom.add.u32 %r1, [%d2], 1;"])
def test_parameters_are_not_written(store: str) -> None:
    with pytest.raises(UnsupportedError, match="generic"):
        run(f"{generic('param')} {store}")
    assert run(f"{generic('global')} {store}").tolist() == [0] * 5


def test_the_fourth_element_of_thread_and_grid_vectors_is_zero() -> None:
    body = "".join(
        f"mov.u32 %r1, %{name}.w; add.u32 %r1, %r1, {i}; st.global.b32 [%d0+{4 * i}], %r1;"
        for i, name in enumerate(("tid", "ntid", "ctaid", "nctaid"))
    )
    assert run(body).tolist() == [0, 1, 2, 3, 0]
