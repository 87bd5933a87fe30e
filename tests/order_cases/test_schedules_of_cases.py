"""Confluence on the small cases: a clean one gives the same terms in every schedule, a faulty one is refuted in every schedule.

What a fault leads to (a value that was not stored yet, a CTA that is the last one) depends on the schedule; that there is one does not.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from case_files import CLEAN, Case, all_cases
from schedules import Backwards, Shuffled
from term_digest import TermDigest

from ptx_engine.findings import Severity
from ptx_engine.launch import bind
from ptx_engine.machine import execute
from ptx_engine.machine.schedule import LowestFirst, Schedule
from ptx_engine.syntax import parse
from ptx_engine.terms import Arena
from volta_pass.spec import read_spec

SCHEDULES: dict[str, Callable[[], Schedule]] = {
    "backwards": Backwards,
    "shuffled": lambda: Shuffled(1),
    "shuffled otherwise": lambda: Shuffled(2),
}


def run(case: Case, schedule: Callable[[], Schedule]) -> tuple[set[str], dict[str, tuple[bytes, bytes]]]:
    """Kinds of errors, and for every output its elements and the digests of their terms."""
    arena = Arena()
    bound = bind(read_spec(str(case.spec)).candidate.launch, arena)
    done = execute(parse(case.path.read_text(encoding="utf-8")), None, bound, schedule=schedule)
    digest = TermDigest(arena)
    outputs = {name: (f.index.tobytes(), digest.of(f.ids).tobytes()) for name, f in done.footprints.items()}
    return {f.kind for f in done.findings if f.severity is Severity.ERROR}, outputs


@pytest.mark.parametrize("case", [case for case in all_cases() if case.verdict == CLEAN], ids=lambda case: case.name)
def test_clean_cases_give_the_same_terms(case: Case) -> None:
    usual = run(case, LowestFirst)
    assert usual[0] == set()
    for schedule in SCHEDULES.values():
        assert run(case, schedule) == usual


@pytest.mark.parametrize("case", [case for case in all_cases() if case.faulty], ids=lambda case: case.name)
def test_faulty_cases_are_refuted(case: Case) -> None:
    for schedule in SCHEDULES.values():
        assert run(case, schedule)[0]
