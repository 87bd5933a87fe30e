"""The machine's own findings about small programs, as PTX, are exactly what an enumeration of all schedules finds."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from order_explorer import Answer, TooBig, explore
from order_programs import APART, Program, either_waits, mixed_tests, programs, single_tests, written
from order_ptx import GUARDS, misuses, racing, ran, stuck

LENIENT = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def explored(program: Program) -> Answer:
    try:
        return explore(program)
    except TooBig:
        assume(False)
        raise


def in_turn(program: Program) -> bool:
    """Whether who waits for a phase has waited for the one before: a parity says no more."""
    waits = [[(op.id, op.count) for op in ops if op.kind == "mb_wait"] for ops in program.threads]
    return all(count == 0 or (number, count - 1) in before[:i] for before in waits for i, (number, count) in enumerate(before))


def agree(program: Program) -> None:
    assume(in_turn(program))
    answer = explored(program)
    execution, ops = ran(program)
    if answer.blocked or stuck(execution.findings):
        assert answer.broken and (stuck(execution.findings) or misuses(execution.findings))
        return
    assert misuses(execution.findings) == answer.broken
    if not answer.broken:
        assert racing(execution.findings, ops) == answer.pairs and execution.schedule_dependent == []


def agree_on_tests(program: Program, guards: str, *, exact: bool) -> None:
    """Several tests have more outcomes than are tried: then what is found is true, and anything else is said to be unknown. So has one
    where something is done after a failure only: a few schedules are tried, and not in all programs does the test fail in one."""
    exact = exact and not any(op.unless >= 0 for ops in program.threads for op in ops)
    agree_on_outcomes(program, guards, exact=exact)


def agree_on_outcomes(program: Program, guards: str, *, exact: bool) -> None:
    """As far as all outcomes of tests are tried (``exact``), or none matters, what is found is all there is."""
    answer = explored(program)
    execution, ops = ran(program, guards)
    if answer.broken or stuck(execution.findings):
        assert answer.broken and (stuck(execution.findings) or misuses(execution.findings))
        return
    assert not misuses(execution.findings)
    found = racing(execution.findings, ops)
    assert found <= answer.pairs
    if exact or not execution.schedule_dependent:
        assert found == answer.pairs


@settings(max_examples=60, deadline=None, suppress_health_check=LENIENT)
@given(programs(shapes=APART))
def test_agrees_with_all_schedules_as_ptx(program: Program) -> None:
    agree(program)


@settings(max_examples=30, deadline=None, suppress_health_check=LENIENT)
@given(single_tests(), st.sampled_from(GUARDS))
def test_agrees_on_what_follows_a_single_test(program: Program, guards: str) -> None:
    agree_on_tests(program, guards, exact=True)


@settings(max_examples=40, deadline=None, suppress_health_check=LENIENT)
@given(mixed_tests(), st.sampled_from(GUARDS))
def test_agrees_where_a_test_and_waits_for_the_same_phase_are_mixed(program: Program, guards: str) -> None:
    agree_on_tests(program, guards, exact=True)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=1_000, deadline=None, suppress_health_check=LENIENT)
@given(mixed_tests(3), st.sampled_from(GUARDS))
def test_finds_nothing_untrue_where_tests_and_waits_are_mixed(program: Program, guards: str) -> None:
    agree_on_tests(program, guards, exact=sum(op.kind == "mb_test" for ops in program.threads for op in ops) == 1)


@settings(max_examples=40, deadline=None, suppress_health_check=LENIENT)
@given(either_waits(), st.sampled_from(GUARDS))
def test_finds_nothing_untrue_behind_loops_that_either_of_two_mbarriers_ends(program: Program, guards: str) -> None:
    agree_on_tests(program, guards, exact=False)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=2_000, deadline=None, suppress_health_check=LENIENT)
@given(either_waits(), st.sampled_from(GUARDS))
def test_finds_nothing_untrue_behind_many_such_loops(program: Program, guards: str) -> None:
    agree_on_tests(program, guards, exact=False)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=2_000, deadline=None, suppress_health_check=LENIENT)
@given(programs(items=6, shapes=APART))
def test_agrees_with_all_schedules_of_larger_programs_as_ptx(program: Program) -> None:
    agree(program)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=1_000, deadline=None, suppress_health_check=LENIENT)
@given(single_tests(4), st.sampled_from(GUARDS))
def test_finds_nothing_untrue_about_several_tests(program: Program, guards: str) -> None:
    agree_on_tests(program, guards, exact=False)


#: (threads, racing pairs): thread t's operation n has instruction number 100 t + n; ``given=n`` only if its operation n has succeeded
TESTED = {
    "guarded": (["st s0; mb_arrive 1 1", "mb_test 1 0; ld s0 given=0"], set()),
    "guarded too late": (["mb_arrive 1 1; st s0", "mb_test 1 0; ld s0 given=0"], {(1, 101)}),
    "not guarded": (["st s0; mb_arrive 1 1", "mb_test 1 0; ld s0"], {(0, 101)}),
    "guarded, then not": (["st s0; mb_arrive 1 1", "mb_test 1 0; ld s0 given=0; ld s0"], {(0, 102)}),
    "not guarded, then guarded": (["st s0; mb_arrive 1 1", "mb_test 1 0; ld s4; ld s0 given=0"], set()),
    "by one of two": (["st s0; mb_arrive 1 2", "st s4; mb_arrive 1 2; mb_test 1 0; ld s0 given=2; st s4 given=2"], set()),
    "a copy": (["copy s0 g0; copy_arrive 1 1", "mb_test 1 0; ld s0 given=0"], set()),
    "a copy not arrived": (["copy s0 g0; mb_arrive 1 1", "mb_test 1 0; ld s0 given=0"], {(0, 101)}),
    "a copy, and a barrier": (["copy s0 g0; copy_arrive 1 1; mb_test 1 0; bar 1 2; ld s0 given=2", "bar 1 2"], set()),
    "a copy not arrived, and a barrier": (["copy s0 g0; mb_arrive 1 1; mb_test 1 0; bar 1 2; ld s0 given=2", "bar 1 2"], {(0, 4)}),
    #: all tests succeed that are tried, as copies arrive at once there
    "a copy, then not guarded": (["copy s0 g0; copy_arrive 1 1; bar 1 2", "bar 1 2; mb_test 1 0; ld s0 given=1; st s4; ld s0"], {(0, 104)}),
    #: a wait that is always executed orders what follows it, whatever else tests for the phase
    "a test, then a wait": (["st s0; mb_arrive 1 1", "mb_test 1 0; ld s4; mb_wait 1 0; ld s0"], set()),
    "a test, then a wait too late": (["mb_arrive 1 1; st s0", "mb_test 1 0; ld s4; mb_wait 1 0; ld s0"], {(1, 103)}),
    "a test by another thread": (["st s0; mb_arrive 1 1; mb_test 1 0", "mb_wait 1 0; ld s0; bar 1 2", "bar 1 2; ld s0"], set()),
    "a wait, then a test": (["st s0; mb_arrive 1 1", "mb_wait 1 0; mb_test 1 0; ld s0; bar 1 2", "bar 1 2; ld s0"], set()),
    #: and one that is executed by who has failed, together with the test that others have passed
    "a wait after a failure": (
        ["st s0; mb_arrive 1 1", "mb_test 1 0; ld s4; mb_wait 1 0 unless=0; ld s0; bar 1 2", "bar 1 2; ld s0"],
        set(),
    ),
    "a wait after a failure, and before": (
        ["st s0; mb_arrive 1 1", "mb_test 1 0; ld s0; mb_wait 1 0 unless=0; bar 1 2", "bar 1 2; ld s0"],
        {(0, 101)},
    ),
    #: but not one that is executed by who has succeeded
    "a wait after a success": (["st s0; mb_arrive 1 1", "mb_test 1 0; ld s4; mb_wait 1 0 given=0; ld s0"], {(0, 103)}),
    "what follows a failure": (["st s0; mb_arrive 1 1", "mb_test 1 0; mb_wait 1 0 unless=0; ld s0 unless=0"], set()),
    "what follows a failure at once": (["st s0; mb_arrive 1 1", "mb_test 1 0; ld s0 unless=0; mb_wait 1 0 unless=0"], {(0, 101)}),
    "told on by a barrier": (["st s0; mb_arrive 1 1", "mb_test 1 0; ld s0 given=0; bar 1 2", "bar 1 2; ld s0"], {(0, 201)}),
}


@pytest.mark.parametrize("guards", GUARDS)
@pytest.mark.parametrize("name", TESTED)
def test_what_a_success_orders(name: str, guards: str) -> None:
    lines, expected = TESTED[name]
    program = written(lines, warp_size=1)
    assert {pair[:2] for pair in explore(program).pairs} == expected
    execution, ops = ran(program, guards)
    assert {pair[:2] for pair in racing(execution.findings, ops)} == expected
    decides = any(op.kind != "mb_wait" and max(op.given, op.unless) >= 0 for op in ops.values())
    assert bool(execution.schedule_dependent) == decides


@pytest.mark.parametrize("between", ["", "ld s0; "])
def test_arrivals_alone_complete_a_barrier_before_the_next_of_their_threads(between: str) -> None:
    execution, _ = ran(written([f"arrive 3 1; {between}arrive 3 1", "ld s0"], warp_size=1))
    assert execution.findings == []
    apart, _ = ran(written([f"arrive 3 2; {between}arrive 3 2", f"arrive 3 2; {between}arrive 3 2"], warp_size=1))
    assert misuses(apart.findings)
