"""What findings say, wide columns against a quadratic judge, batches, thinning out, and the places where order is easily lost."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from order_driver import check, pairs
from order_explorer import TooBig, explore
from order_programs import Program, programs

from ptx_engine.findings import Finding, Severity
from ptx_engine.launch import BoundLaunch, Launch, Role, TensorArg, bind
from ptx_engine.order import WAIT_ALL, AtomicKind, Blocked, MemoryOrder, Observation, OrderChecker, Scope, Space, deadlock_finding
from ptx_engine.order import globals as global_log
from ptx_engine.order import shared as shared_log
from ptx_engine.terms.arena import Arena

ACQUIRE, RELEASE = MemoryOrder.ACQUIRE, MemoryOrder.RELEASE


def launched(threads: int = 128, ctas: int = 1) -> tuple[BoundLaunch, OrderChecker]:
    args = (
        TensorArg("A", "f32", (64, 64), Role.IN),
        TensorArg("C", "f16", (64, 64), Role.OUT),
        TensorArg("flags", "s32", (16,), Role.INOUT),
    )
    bound = bind(Launch((ctas, 1, 1), (threads, 1, 1), args), Arena())
    return bound, OrderChecker(bound.launch, 4096, bound.buffers)


def column(*threads: int) -> np.ndarray:
    return np.array(threads, np.int32)


def all_threads(threads: int = 128, ctas: int = 1) -> np.ndarray:
    return np.arange(threads * ctas, dtype=np.int32)


def finish(checker: OrderChecker) -> list[Finding]:
    checker.end_batch()
    return checker.finish()


# --- what findings say ------------------------------------------------------------------------------


def test_a_shared_race_names_offset_threads_and_instructions() -> None:
    _, checker = launched()
    checker.begin_batch(column(0))
    threads = all_threads()
    checker.write(Space.SHARED, 12, threads, threads.astype(np.int64) * 4, 4, threads)
    checker.read(Space.SHARED, 14, column(70), np.array([20]), 4)
    (finding,) = finish(checker)
    assert (finding.kind, finding.space, finding.address_offset, finding.width_bytes) == ("data race", "shared", 20, 4)
    assert [(s.role, s.cta, s.warp, s.lane, s.instruction) for s in finding.sites] == [
        ("store", (0, 0, 0), 0, 5, 12),
        ("load", (0, 0, 0), 2, 6, 14),
    ]
    assert finding.missing == "no barrier between them"
    assert finding.count == 1


def test_pairs_of_two_instructions_are_one_finding_with_a_count() -> None:
    _, checker = launched()
    checker.begin_batch(column(0))
    threads = all_threads()
    addresses = threads.astype(np.int64) * 4
    checker.write(Space.SHARED, 1, threads, addresses, 4, None)
    checker.read(Space.SHARED, 2, threads, addresses[::-1].copy(), 4)
    (finding,) = finish(checker)
    assert finding.count == 128


def test_a_global_race_names_tensor_and_index_and_says_that_ctas_are_unordered() -> None:
    bound, checker = launched(32, 6)
    address = bound.by_name["C"].address + 2 * (3 * 64 + 5)
    for cta in (1, 4):  # in two batches
        checker.begin_batch(column(cta))
        checker.write(Space.GLOBAL, 7, column(9), address, 2, np.array([cta]))
        checker.end_batch()
    (finding,) = checker.finish()
    assert (finding.tensor, finding.index, finding.address_offset) == ("C", (3, 5), 2 * (3 * 64 + 5))
    assert [s.cta for s in finding.sites] == [(1, 0, 0), (4, 0, 0)]
    assert finding.missing == "no order exists between CTAs of a grid"


def test_same_value_writes_are_notes_and_come_last() -> None:
    _, checker = launched()
    checker.begin_batch(column(0))
    checker.write(Space.SHARED, 1, all_threads(), 0, 4, np.zeros(128, np.int64))
    checker.write(Space.SHARED, 2, column(0, 1), 8, 4, np.array([5, 6]))
    race, note = finish(checker)
    assert (race.kind, race.severity, race.count) == ("data race", Severity.ERROR, 1)
    assert note.kind == "same-value write"
    assert note.severity is Severity.NOTE


def test_same_value_writes_to_one_granule_count_all_pairs() -> None:
    _, checker = launched(32)
    checker.begin_batch(column(0))
    checker.write(Space.SHARED, 1, all_threads(32), 0, 4, np.zeros(32, np.int64))
    (note,) = finish(checker)
    assert note.count == 32 * 31 // 2


@pytest.mark.parametrize(
    ("steps", "missing"),
    [
        ("copy", "no cp.async.wait_group for the group that wrote it"),
        ("copy wait", "waited for by the thread that issued the copy, but no barrier after the wait orders it for another thread"),
    ],
)
def test_a_copy_read_too_early_names_the_missing_step(steps: str, missing: str) -> None:
    bound, checker = launched()
    checker.begin_batch(column(0))
    checker.async_copy(3, column(0), 16, bound.by_name["A"].address, 16)
    if "wait" in steps:
        checker.wait_group(4, column(0), WAIT_ALL)
    checker.read(Space.SHARED, 5, column(64), 20, 4)
    (finding,) = finish(checker)
    assert finding.missing == missing
    assert finding.sites[0].role == "cp.async write"


def test_a_copy_over_bytes_still_read_names_the_missing_barrier() -> None:
    bound, checker = launched()
    checker.begin_batch(column(0))
    checker.read(Space.SHARED, 5, column(64), 20, 4)
    checker.async_copy(3, column(0), 16, bound.by_name["A"].address, 16)
    (finding,) = finish(checker)
    assert finding.missing == "no barrier between the access and the cp.async that overwrites its bytes"


def test_a_barrier_reached_by_too_few_warps_is_named() -> None:
    _, checker = launched()
    checker.begin_batch(column(0))
    checker.write(Space.SHARED, 1, column(5), 0, 4, None)
    checker.cta_barrier(2, all_threads(64), 1, 64)
    checker.read(Space.SHARED, 3, column(70), 0, 4)
    checker.read(Space.SHARED, 4, column(40), 0, 4)  # ordered by the barrier
    (finding,) = finish(checker)
    assert finding.missing == "no barrier between them: barrier 1 between them is reached by warps 0-1 only"
    assert [(s.role, s.instruction) for s in finding.sites] == [("store", 1), ("load", 3), ("barrier", 2)]


def test_a_deadlock_says_who_waits_where_and_for_whom() -> None:
    launch = Launch((2, 1, 1), (96, 1, 1), ())
    waits = Blocked(1, np.arange(33, 65), 8, "bar.sync 1, count 64", "32 of 64 threads have arrived")
    finding = deadlock_finding(launch, [waits])
    assert finding.kind == "deadlock"
    assert finding.severity is Severity.ERROR
    assert (finding.sites[0].cta, finding.sites[0].warp, finding.sites[0].lane) == ((1, 0, 0), 1, 1)
    assert "threads 33-64 wait at bar.sync 1, count 64: 32 of 64 threads have arrived" in finding.message


# --- buffers, batches, columns ----------------------------------------------------------------------


def test_read_only_buffers_are_tracked_from_the_first_write_on() -> None:
    bound, checker = launched()
    address = bound.by_name["A"].address
    checker.begin_batch(column(0))
    checker.write(Space.GLOBAL, 1, column(0), address, 4, None)
    checker.read(Space.GLOBAL, 2, column(1), address, 4)
    assert len(finish(checker)) == 1


def test_a_column_over_two_buffers_is_told_apart() -> None:
    bound, checker = launched()
    addresses = np.array([bound.by_name["A"].address, bound.by_name["C"].address])
    checker.begin_batch(column(0))
    checker.read(Space.GLOBAL, 1, column(0, 1), addresses, 2)
    checker.write(Space.GLOBAL, 2, column(2), int(addresses[1]), 2, None)
    (finding,) = finish(checker)
    assert (finding.tensor, finding.count) == ("C", 1)


def test_local_memory_needs_no_order() -> None:
    _, checker = launched()
    checker.begin_batch(column(0))
    checker.write(Space.LOCAL, 1, all_threads(), 0, 4, None)
    assert finish(checker) == []


def test_one_thread_needs_no_checker() -> None:
    assert not launched(1, 1)[1].needed
    assert launched(1, 2)[1].needed
    assert launched(2, 1)[1].needed


def flag_handshake(overwritten: bool) -> list[Finding]:
    """CTA 0 releases a flag, and perhaps stores over it plainly; CTA 1, in a later batch, acquires it."""
    bound, checker = launched(32, 2)
    data, flag = bound.by_name["C"].address, bound.by_name["flags"].address
    checker.begin_batch(column(0))
    checker.write(Space.GLOBAL, 1, column(0), data, 2, None)
    checker.atomic(Space.GLOBAL, 2, column(0), flag, 4, Scope.GPU, RELEASE, AtomicKind.STORE)
    if overwritten:
        checker.write(Space.GLOBAL, 3, column(0), flag, 4, None)
    checker.end_batch()
    checker.begin_batch(column(1))
    checker.atomic(Space.GLOBAL, 4, column(0), flag, 4, Scope.GPU, ACQUIRE, AtomicKind.LOAD)
    checker.read(Space.GLOBAL, 5, column(0), data, 2)
    return finish(checker)


def test_a_flag_orders_two_batches() -> None:
    assert flag_handshake(overwritten=False) == []


def test_a_plain_store_over_a_flag_ends_what_it_released() -> None:
    found = {tuple(s.instruction for s in f.sites) for f in flag_handshake(overwritten=True)}
    assert found == {(3, 4), (1, 5)}


def test_order_taken_from_a_flag_is_an_assumption() -> None:
    bound, checker = launched(32, 2)
    data, flag = bound.by_name["C"].address, bound.by_name["flags"].address
    checker.begin_batch(column(0, 1))
    checker.write(Space.GLOBAL, 1, column(0), data, 2, None)
    checker.atomic(Space.GLOBAL, 2, column(0), flag, 4, Scope.GPU, RELEASE, AtomicKind.STORE)
    assert checker.assumptions == []
    checker.atomic(Space.GLOBAL, 4, column(32), flag, 4, Scope.GPU, ACQUIRE, AtomicKind.LOAD)
    checker.read(Space.GLOBAL, 5, column(32), data, 2)
    assert finish(checker) == []
    assert checker.assumptions == ["atomics exchange the values of the schedule that ran"]


def test_an_acquire_whose_value_nobody_looks_at_orders_nothing() -> None:
    bound, checker = launched(32, 2)
    data, flag = bound.by_name["C"].address, bound.by_name["flags"].address
    checker.begin_batch(column(0, 1))
    checker.write(Space.GLOBAL, 1, column(0), data, 2, None)
    checker.atomic(Space.GLOBAL, 2, column(0), flag, 4, Scope.GPU, RELEASE, AtomicKind.STORE)
    checker.atomic(Space.GLOBAL, 4, column(32), flag, 4, Scope.GPU, ACQUIRE, AtomicKind.LOAD, Observation.IGNORED)
    checker.read(Space.GLOBAL, 5, column(32), data, 2)
    assert [f.kind for f in finish(checker)] == ["data race"]


def split_k(fenced: bool) -> list[Finding]:
    """Each CTA stores a partial sum, counts itself, and the last one reads all of them."""
    bound, checker = launched(64, 4)
    data, counter = bound.by_name["C"].address, bound.by_name["flags"].address
    threads = all_threads(64)
    for cta in range(4):
        checker.begin_batch(column(cta))
        checker.write(Space.GLOBAL, 1, threads, data + 2 * (cta * 64 + threads.astype(np.int64)), 2, None)
        checker.cta_barrier(2, threads, 0, None)
        if fenced:
            checker.fence(3, column(0), Scope.GPU)
        checker.atomic(Space.GLOBAL, 4, column(0), counter, 4, Scope.GPU, MemoryOrder.RELAXED)
        if fenced:
            checker.fence(5, column(0), Scope.GPU)
        checker.cta_barrier(6, threads, 0, None)
        if cta == 3:
            for other in range(4):
                checker.read(Space.GLOBAL, 7, threads, data + 2 * (other * 64 + threads[::-1].astype(np.int64)), 2)
        checker.end_batch()
    return checker.finish()


def test_split_k_with_fences_is_ordered() -> None:
    assert split_k(fenced=True) == []


def test_split_k_without_fences_races_with_the_other_ctas() -> None:
    (finding,) = split_k(fenced=False)
    assert finding.count == 3 * 64
    assert {s.instruction for s in finding.sites} == {1, 7}


# --- wide columns against a quadratic judge ---------------------------------------------------------


def quadratic(events: list[tuple[int, bool, np.ndarray, np.ndarray, int, int]], per_cta: int, shared: bool) -> Counter[tuple[int, int]]:
    """Racing pairs by instruction pair; an event is (interval, write, threads, addresses, bytes, instruction)."""
    rows = [(k, w, int(t), int(a), n, i) for k, w, ts, addresses, n, i in events for t, a in zip(ts, addresses)]
    found: Counter[tuple[int, int]] = Counter()
    for x, (k, w, t, a, n, i) in enumerate(rows):
        for k2, w2, t2, a2, n2, i2 in rows[:x]:
            same_cta = t // per_cta == t2 // per_cta
            overlap = a < a2 + n2 and a2 < a + n and (same_cta or not shared)
            if overlap and t != t2 and (w or w2) and not (same_cta and k != k2):
                found[(min(i, i2), max(i, i2))] += 1
    return found


@pytest.mark.parametrize("seed", range(24))
def test_wide_columns_agree_with_all_pairs(seed: int) -> None:
    random = np.random.default_rng(seed)
    per_cta, ctas = [(32, 1), (40, 2), (16, 3)][seed % 3]
    shared = seed % 2 == 0
    bound, checker = launched(per_cta, ctas)
    base = 0 if shared else bound.by_name["C"].address
    checker.begin_batch(np.arange(ctas, dtype=np.int32))
    events = []
    for instruction in range(8):
        threads = np.sort(random.choice(per_cta * ctas, random.integers(1, per_cta * ctas), replace=False)).astype(np.int32)
        nbytes = int(random.choice([1, 2, 4, 8, 16]))
        addresses = base + nbytes * random.integers(0, 1024 // nbytes, len(threads))
        write = bool(random.integers(0, 2))
        events.append((instruction // 3, write, threads, addresses, nbytes, instruction))
        space = Space.SHARED if shared else Space.GLOBAL
        if write:
            checker.write(space, instruction, threads, addresses, nbytes, None)
        else:
            checker.read(space, instruction, threads, addresses, nbytes)
        if instruction % 3 == 2:
            checker.cta_barrier(100, all_threads(per_cta, ctas), 0, None)
    found: Counter[tuple[int, int]] = Counter()
    for finding in finish(checker):
        low, high = sorted(site.instruction for site in finding.sites[:2])
        found[(low, high)] += finding.count
    assert found == quadratic(events, per_cta, shared)


# --- thinning out -----------------------------------------------------------------------------------


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.integers(0, 1 << 16))
def test_thinning_out_changes_no_verdict(program: Program, seed: int) -> None:
    try:
        answer = explore(program, 2000)
    except TooBig:
        assume(False)
        raise
    assume(not answer.broken)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_log, "MOST", 24)
        patch.setattr(global_log, "LIMIT", 2)
        patch.setattr(global_log, "WITHIN_BATCH", 1)
        patch.setattr(global_log, "GATHERED", 1)
        found = pairs(check(program, seed))
    assert found <= answer.pairs | {(a, b, False) for a, b, _ in answer.pairs}
    assert any(not same for *_, same in found) == any(not same for *_, same in answer.pairs)


def test_the_scope_of_an_atomic_is_known_when_its_own_arrival_thins_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(global_log, "LIMIT", 1)
    monkeypatch.setattr(global_log, "WITHIN_BATCH", 1)
    monkeypatch.setattr(global_log, "GATHERED", 1)
    bound, checker = launched(32, 2)
    checker.begin_batch(column(0, 1))
    counter = bound.by_name["flags"].address
    checker.atomic(Space.GLOBAL, 1, column(0, 32), counter, 4, Scope.CTA, MemoryOrder.RELAXED)
    (finding,) = finish(checker)
    assert finding.missing == "atomics of scope cta do not exclude those of another CTA"


def test_repeated_accesses_without_barriers_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_log, "MOST", 16_000)
    _, checker = launched()
    checker.begin_batch(column(0))
    threads = all_threads()
    own = threads.astype(np.int64) * 4
    for _ in range(200):
        checker.write(Space.SHARED, 1, threads, own, 4, threads)
        checker.read(Space.SHARED, 2, threads, own, 4)
    assert checker.shared_accesses_held <= 2000
    checker.read(Space.SHARED, 3, column(0), 4, 4)
    (finding,) = finish(checker)
    assert {s.instruction for s in finding.sites} == {1, 3}


def test_two_instructions_are_one_finding_whichever_came_first() -> None:
    _, checker = launched(threads=64)
    checker.begin_batch(np.zeros(1, np.int32))
    first, second = np.arange(32, dtype=np.int32), np.arange(32, 64, dtype=np.int32)
    for _ in range(2):
        checker.read(Space.SHARED, 1, first, first.astype(np.int64) * 4, 4)
        checker.write(Space.SHARED, 2, second, first.astype(np.int64) * 4, 4)
    (finding,) = finish(checker)
    assert finding.count == 4 * 32 and {site.instruction for site in finding.sites} == {1, 2}
