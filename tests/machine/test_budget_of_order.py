"""Looking for races stays within the budget of seconds: thousands of threads that store to one place make pairs without end."""

import time
from pathlib import Path

import pytest

from ptx_engine.errors import BudgetError
from ptx_engine.launch import Launch, Role, ScalarArg, TensorArg, bind
from ptx_engine.machine import Budget, execute
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
