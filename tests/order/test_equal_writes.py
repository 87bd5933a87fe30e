"""Stores of one value from many threads: counted as a whole, with the counts and verdicts of all pairs one by one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptx_engine.findings import Finding, Severity
from ptx_engine.launch import BoundLaunch, Launch, Role, TensorArg, bind
from ptx_engine.order import OrderChecker, Space
from ptx_engine.terms.arena import Arena

#: (write, threads, byte offsets, width, values), one per executed instruction
Event = tuple[bool, np.ndarray, np.ndarray, int, np.ndarray]


def pairs_up(values: np.ndarray) -> np.ndarray:
    """2k and 2k + 1 are one value, as x + y and y + x are."""
    return (values // 2).astype(np.uint64)


def launched(per_cta: int, ctas: int, keyed: bool) -> tuple[BoundLaunch, OrderChecker]:
    bound = bind(Launch((ctas, 1, 1), (per_cta, 1, 1), (TensorArg("C", "f32", (64,), Role.OUT),)), Arena())
    return bound, OrderChecker(bound.launch, 256, bound.buffers, value_keys=(pairs_up,) if keyed else ())


def run(events: list[Event], per_cta: int, ctas: int, shared: bool, keyed: bool) -> list[Finding]:
    bound, checker = launched(per_cta, ctas, keyed)
    space, base = (Space.SHARED, 0) if shared else (Space.GLOBAL, bound.by_name["C"].address)
    checker.begin_batch(np.arange(ctas, dtype=np.int32))
    for instruction, (write, threads, offsets, nbytes, values) in enumerate(events):
        if write:
            checker.write(space, instruction, threads, base + offsets, nbytes, values)
        else:
            checker.read(space, instruction, threads, base + offsets, nbytes)
    checker.end_batch()
    return checker.finish()


def one_by_one(events: list[Event], per_cta: int, shared: bool, keyed: bool) -> Counter[tuple[int, int, bool]]:
    rows = [(i, w, *row) for i, (w, ts, offsets, n, values) in enumerate(events) for row in zip(ts, offsets, [n] * len(ts), values)]
    found: Counter[tuple[int, int, bool]] = Counter()
    for x, (i, w, t, a, n, v) in enumerate(rows):
        for i2, w2, t2, a2, n2, v2 in rows[:x]:
            if t == t2 or not (w or w2) or (shared and t // per_cta != t2 // per_cta) or a >= a2 + n2 or a2 >= a + n:
                continue
            alike = v // 2 == v2 // 2 if keyed else v == v2
            found[(int(i2), int(i), bool(w and w2 and n == n2 and alike))] += 1
    return found


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Event], int, int]:
    per_cta, ctas = draw(st.sampled_from([(8, 1), (40, 1), (6, 3), (1, 5)]))
    random = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    few_values, places = draw(st.integers(1, 3)), draw(st.integers(1, 6))
    events: list[Event] = []
    for _ in range(draw(st.integers(1, 3))):
        threads = np.sort(random.choice(per_cta * ctas, random.integers(1, per_cta * ctas + 1), replace=False)).astype(np.int32)
        nbytes = int(random.choice([4, 4, 8]))
        offsets = nbytes * random.integers(0, places, len(threads))
        events.append((bool(random.integers(0, 4)), threads, offsets, nbytes, random.integers(0, few_values, len(threads))))
    return events, per_cta, ctas


@settings(max_examples=150, deadline=None)
@given(cases(), st.booleans(), st.booleans())
def test_counts_are_those_of_all_pairs(case: tuple[list[Event], int, int], shared: bool, keyed: bool) -> None:
    events, per_cta, ctas = case
    found: Counter[tuple[int, int, bool]] = Counter()
    for finding in run(events, per_cta, ctas, shared, keyed):
        low, high = sorted(site.instruction for site in finding.sites[:2])
        found[(low, high, finding.severity is Severity.NOTE)] += finding.count
    assert found == one_by_one(events, per_cta, shared, keyed)


def everyone_writes(per_cta: int, ctas: int, values: np.ndarray, reader: bool = False) -> list[Finding]:
    threads = np.arange(per_cta * ctas, dtype=np.int32)
    events: list[Event] = [(True, threads, np.zeros(len(threads), np.int64), 4, values)]
    if reader:
        events.append((False, threads[:1], np.zeros(1, np.int64), 4, values[:1]))
    return run(events, per_cta, ctas, shared=False, keyed=False)


@pytest.mark.timeout(60)  # one by one these are 134 million pairs
def test_a_flag_that_the_whole_grid_sets_is_counted_at_once() -> None:
    findings = everyone_writes(256, 64, np.full(256 * 64, 7))
    assert {f.missing: f.count for f in findings} == {
        "no barrier between them": 64 * (256 * 255 // 2),
        "no order exists between CTAs of a grid": 64 * 63 // 2 * 256 * 256,
    }
    assert {f.severity for f in findings} == {Severity.NOTE}


@pytest.mark.parametrize("odd", [0, 100, 383])
def test_one_thread_with_another_value_is_a_race(odd: int) -> None:
    values = np.full(3 * 128, 7)
    values[odd] = 8
    findings = everyone_writes(128, 3, values)
    assert sum(f.count for f in findings if f.severity is Severity.ERROR) == 3 * 128 - 1


def test_a_reader_of_the_same_bytes_is_a_race_with_each_writer() -> None:
    race, *notes = everyone_writes(64, 1, np.full(64, 7), reader=True)
    assert (race.severity, race.count) == (Severity.ERROR, 63)
    assert sum(note.count for note in notes) == 64 * 63 // 2


def test_the_worked_example_is_of_two_warps_where_there_are_two() -> None:
    (note,) = everyone_writes(64, 1, np.full(64, 7))
    assert [(s.warp, s.lane) for s in note.sites] == [(0, 0), (1, 31)]
    (note,) = everyone_writes(32, 1, np.full(32, 7))
    assert note.missing.startswith("no bar.warp.sync between two lanes")
