"""Looking for races stays within the budget of seconds: thousands of threads that store to one place make pairs without end."""

import time
from pathlib import Path

import numpy as np
import pytest

from ptx_engine.errors import BudgetError
from ptx_engine.launch import Launch, Role, ScalarArg, TensorArg, bind
from ptx_engine.machine import Budget, execute, executor
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena

PTX = (Path(__file__).parents[2] / "configs" / "examples" / "scale_add_vector.ptx").read_text()
ARGS = (
    TensorArg("x", "f32", (1000,), Role.IN), TensorArg("y", "f32", (1000,), Role.IN), TensorArg("out", "f32", (1000,), Role.OUT),
    ScalarArg("alpha", "f32", "symbolic"), ScalarArg("n", "u32", 1000),
)  # fmt: skip


def run(copies: int, seconds: float):
    """Every element is stored by so many CTAs, each with the same value."""
    launch = Launch((2, 1, copies), (128, 1, 1), ARGS)
    return execute(parse(PTX), None, bind(launch, Arena()), budget=Budget(seconds=seconds))


def test_it_ends_soon_after_the_budget():
    start = time.process_time()
    with pytest.raises(BudgetError, match="accesses were compared") as raised:
        run(1024, 2.0)
    assert time.process_time() - start < 15 and raised.value.hint
    assert isinstance(raised.value.findings, tuple)


def test_a_budget_that_suffices_changes_nothing():
    notes = [(f.kind, f.severity, f.count) for f in run(16, 60.0).findings]
    assert notes and notes == [(f.kind, f.severity, f.count) for f in run(16, 1e6).findings]


#: a thread of each CTA stores, and raises a flag for the next one; the last one then goes round a loop that never ends
HANDED_ON = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data, .param .u64 flags) {
  .reg .b64 %d<8>; .reg .b32 %r<8>; .reg .pred %p<4>;
  ld.param.u64 %d0, [data]; ld.param.u64 %d1, [flags]; mov.u32 %r0, %ctaid.x; mad.wide.u32 %d2, %r0, 4, %d1; setp.eq.u32 %p0, %r0, 0; @%p0 bra S;
L: ld.acquire.gpu.global.u32 %r1, [%d2+-4]; setp.eq.u32 %p1, %r1, 0; @%p1 bra L;
S: st.global.u32 [%d0], %r0; st.release.gpu.global.u32 [%d2], 1; setp.ne.u32 %p2, %r0, 7; @%p2 ret; mov.u32 %r2, 0;
T: add.u32 %r2, %r2, 1; bra T;
}"""


@pytest.mark.parametrize(("grace", "kinds"), [(0.25, {"data race"}), (0.0, set())])
def test_what_was_found_when_the_budget_ran_out(grace, kinds, monkeypatch):
    """The accesses so far are compared in a part of the budget more; where there is none, it is the first error that is raised."""
    monkeypatch.setattr(executor, "GRACE", grace)
    text = HANDED_ON.replace("st.release.gpu", "st.relaxed.gpu")
    flags = TensorArg("flags", "u32", (8,), Role.INOUT, contents=np.zeros(8, np.uint32))
    launch = Launch((8, 1, 1), (1, 1, 1), (TensorArg("data", "u32", (1,), Role.OUT), flags))
    with pytest.raises(BudgetError, match="thread-instructions") as raised:
        execute(parse(text), None, bind(launch, Arena()), budget=Budget(seconds=20.0, thread_instructions=10_000))
    assert {f.kind for f in raised.value.findings} == kinds
