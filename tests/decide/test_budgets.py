"""Budgets hold: a problem beyond all bounds ends as unknown, with the budget that ran out, for bounded work and memory."""

from __future__ import annotations

import resource
import sys
import time

import numpy as np
import pytest

from ptx_engine.decide import budget as budgets
from ptx_engine.decide.budget import BudgetSpent, Meter, ProofBudget
from ptx_engine.decide.driver import Budget, decide
from ptx_engine.launch import Footprint
from ptx_engine.terms import Arena
from ptx_engine.verdict import Status, Verdict


def _product(arena: Arena, factors: np.ndarray) -> int:
    total = int(factors[0])
    for factor in factors[1:].tolist():
        total = int(np.asarray(arena.mul(total, factor)))
    return total


def _monster(factors: int, budget: Budget) -> Verdict:
    """prod (x + y) * prod (x - y) against prod (x^2 - y^2): 2^factors terms when multiplied out."""
    arena = Arena()
    x, y = (np.asarray(arena.add_input(name, factors, "f32").ids(np.arange(factors))) for name in "xy")
    reference = arena.mul(*(_product(arena, np.asarray(f(x, y))) for f in (arena.add, arena.sub)))
    squares = np.asarray(arena.sub(arena.mul(x, x), arena.mul(y, y)))
    candidate = _product(arena, squares)
    sides = [{"out": Footprint(np.zeros(1, np.int64), np.array([int(np.asarray(i))], np.int32))} for i in (reference, candidate)]
    return decide(arena, *sides, budget=budget)


def test_the_small_one_is_proved() -> None:
    assert _monster(5, Budget()).status is Status.PROVED


def test_terms_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """No meter counts more than its terms, and few meters are made."""
    meters: list[Meter] = []
    init = Meter.__init__

    def counted(self: Meter, budget: ProofBudget, deadline: float) -> None:
        init(self, budget, deadline)
        meters.append(self)

    monkeypatch.setattr(Meter, "__init__", counted)
    verdict = _monster(40, Budget(terms=20_000, witness_seconds=0.1))
    assert verdict.status is Status.UNKNOWN and "ran out (20000 terms)" in verdict.reason and "fingerprints agree" in verdict.reason
    assert 0 < len(meters) < 10 and all(meter.spent <= 20_000 for meter in meters)


def test_time_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that goes a millisecond a look: the work between two looks is bounded, so the looks are what to count."""
    now, looks = [0.0], [0]

    def clock() -> float:
        now[0] += 0.001
        looks[0] += 1
        return now[0]

    monkeypatch.setattr(time, "thread_time", clock)
    verdict = _monster(40, Budget(seconds=0.03, witness_seconds=0.01))
    assert verdict.status is Status.UNKNOWN and "ran out (time)" in verdict.reason
    assert looks[0] < 120


def test_a_clock_on_the_wall_takes_nothing_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hours between two looks, as on a machine that does other things: what is proved in a moment's work stays proved."""
    now = [0.0]

    def clock() -> float:
        now[0] += 3600.0
        return now[0]

    for name in ("monotonic", "perf_counter", "time"):
        monkeypatch.setattr(time, name, clock)
    assert _monster(5, Budget()).status is Status.PROVED
    monkeypatch.setattr(time, "thread_time", clock)
    assert _monster(5, Budget()).status is Status.UNKNOWN


def test_memory_runs_out_by_the_figures_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "resident_bytes", lambda: 2 << 20)
    meter = Meter(ProofBudget(bytes=1 << 20), float("inf"))
    with pytest.raises(BudgetSpent, match="memory"):
        for _ in range(100):
            meter.spend(1000)
    assert meter.spent <= 70_000
    free = Meter(ProofBudget(), float("inf"))
    for _ in range(100):
        free.spend(1000)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="resident memory is read from /proc")
def test_memory_stays_within_its_bound() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    verdict = _monster(40, Budget(mib=48.0, witness_seconds=0.1))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert verdict.status is Status.UNKNOWN and "ran out (memory)" in verdict.reason
    assert grown < 48 + 64
