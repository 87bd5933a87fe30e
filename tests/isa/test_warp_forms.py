"""Warp collectives beyond their case files: on symbolic data, and without .sync."""

from __future__ import annotations

import numpy as np
import pytest
from one_instruction import run

from ptx_engine.errors import NotStructuredError, UnsupportedError
from ptx_engine.launch import Launch, Role, TensorArg, bind
from ptx_engine.machine import execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena

VALUES = np.arange(64, dtype=np.uint32)


def test_redux_of_symbolic_integers() -> None:
    text = (
        ".version 8.4\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x, .param .u64 o)\n{\n"
        ".reg .b32 %r<4>; .reg .b64 %d<5>;\n"
        "ld.param.u64 %d0, [x]; ld.param.u64 %d1, [o]; mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 4; add.s64 %d3, %d0, %d2; ld.global.b32 %r1, [%d3];\n"
        "redux.sync.OP %r2, %r1, -1; add.s64 %d3, %d1, %d2; st.global.b32 [%d3], %r2; ret;\n}\n"
    )

    def outputs(op: str) -> set[int]:
        arena = Arena()
        args = (TensorArg("x", "s32", (32,), Role.IN), TensorArg("o", "s32", (32,), Role.OUT))
        done = execute(parse(text.replace("OP", op)), None, bind(Launch((1, 1, 1), (32, 1, 1), args), arena))
        return set(done.footprints["o"].ids.tolist())

    assert len(outputs("max.s32")) == 1
    with pytest.raises(NotStructuredError, match="redux"):
        outputs("xor.b32")


def test_collectives_without_sync_are_refused() -> None:
    for text in ("vote.ballot.b32 d0, p0;", "shfl.up.b32 d0, a0, 1, 0;"):
        with pytest.raises(UnsupportedError):
            run(".reg .b32 %x; setp.eq.u32 p0, a0, 0; " + text, [VALUES], [np.uint32])
