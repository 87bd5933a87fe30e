"""A bf16 widened by moves and stored to f32 is the same real number; any other half-words are no float."""

from __future__ import annotations

import pytest

from ptx_engine.errors import NotStructuredError
from ptx_engine.launch import Launch, Role, TensorArg, bind
from ptx_engine.machine import execute
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena

TEXT = """\
.version 8.4
.target sm_80
.address_size 64
.visible .entry widen(.param .u64 x, .param .u64 y)
{
.reg .b64 %d<3>; .reg .b16 %h<3>; .reg .b32 %r<3>;
ld.param.u64 %d0, [x]; ld.param.u64 %d1, [y]; mov.u16 %h1, 0;
ld.global.b16 %h0, [%d0];
mov.b32 %r0, {LOW, HIGH};
st.global.b32 [%d1], %r0;
ret;
}
"""


def stored(low: str, high: str, dtype: str) -> int:
    args = (TensorArg("x", dtype, (1,), Role.IN), TensorArg("y", "f32", (1,), Role.OUT))
    text = TEXT.replace("LOW", low).replace("HIGH", high)
    done = execute(parse(text), None, bind(Launch((1, 1, 1), (1, 1, 1), args), Arena()), source=text)
    return int(done.footprints["y"].ids[0])


def test_a_bf16_above_zeros_is_itself() -> None:
    assert stored("%h1", "%h0", "bf16") == -1  # the first input


@pytest.mark.parametrize(("low", "high", "dtype"), [("%h0", "%h1", "bf16"), ("%h0", "%h0", "bf16"), ("%h1", "%h0", "f16")])
def test_other_halves_are_no_float(low: str, high: str, dtype: str) -> None:
    with pytest.raises(NotStructuredError, match="part of an element"):
        stored(low, high, dtype)
