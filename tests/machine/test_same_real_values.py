"""Lanes that store one real number computed in two ways, as the lanes of a butterfly that merges means do: a note, if it is proved."""

from __future__ import annotations

import pytest
from machine_kernels import kinds, module, out, run

from ptx_engine.findings import Severity
from ptx_engine.launch import Role, TensorArg
from ptx_engine.machine import Execution

LOAD = """ld.param.u64 %d0, [out];
ld.param.u64 %d1, [x];
mov.u32 %r0, %tid.x;
mad.wide.s32 %d2, %r0, 4, %d1;
ld.global.f32 %f0, [%d2];
shfl.sync.bfly.b32 %r1, %f0, 1, 31, 0xffffffff;
mov.b32 %f1, %r1;
and.b32 %r2, %r0, 1;
setp.eq.u32 %p0, %r2, 0;
"""
#: each lane begins with its own mean and goes towards the other's by its part of the weights, 1 : 2
MERGE = """sub.f32 %f2, %f1, %f0;
selp.f32 %f3, 0f40000000, 0f3F800000, %p0;
mov.f32 %f5, 0f40400000;
div.rn.f32 %f3, %f3, %f5;
fma.rn.f32 %f4, %f2, %f3, %f0;
"""
STORE = """shr.u32 %r3, %r0, 1;
mad.wide.s32 %d3, %r3, 4, %d0;
st.global.f32 [%d3], %f4;
"""
#: two instructions, one for each lane of a pair
STORES = STORE.replace("st.global", "@%p0 st.global") + "@!%p0 st.global.f32 [%d3], %f4;\n"
#: x * (1 - 2^-20) * (1 + 2^-20) in every second lane: 2^-40 less than the other lane's x, which float32 does not tell apart
NEARLY = """min.f32 %f5, %f0, %f1;
mul.f32 %f6, %f5, 0f3F7FFFF0;
mul.f32 %f6, %f6, 0f3F800008;
selp.f32 %f4, %f5, %f6, %p0;
"""


def executed(body: str) -> Execution:
    return run(module(body, ("u64 out", "u64 x")), [out(16, "f32"), TensorArg("x", "f32", (32,), Role.IN)])[0]


def test_one_mean_merged_from_both_ends_is_a_note() -> None:
    """Of some pairs the two ways come out alike in double precision."""
    execution = executed(LOAD + MERGE + STORE)
    assert {(note.kind, note.severity) for note in execution.findings} == {("same-value write", Severity.NOTE)}
    assert sum(note.count for note in execution.findings) == 16
    assert any("which of their roundings stays is up to chance" in note.message for note in execution.findings)
    assert execution.schedule_dependent == []


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(LOAD + MERGE.replace("0f3F800000", "0f3F000000") + STORE, id="another weight"),
        pytest.param(LOAD + MERGE + STORES, id="two instructions"),
    ],
)
def test_other_values_and_other_instructions_race(body: str) -> None:
    assert "data race" in kinds(executed(body))


def test_values_that_only_rounding_makes_equal_are_not_taken_for_equal() -> None:
    execution = executed(LOAD + NEARLY + STORE)
    assert any("not proved equal" in reason for reason in execution.schedule_dependent)
