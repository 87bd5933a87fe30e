"""Small kernels with one fault each, through ``volta-pass race``: kind, both lines, advice, exit code; and their clean twins.

What each file must give stands in its own header (see ``case_files``). A faulty file differs from its twin in one instruction.
"""

from __future__ import annotations

import difflib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from case_files import CLEAN, ONE_SCHEDULE, Case, Expected, all_cases, finding, header, marked_lines, read_case

from ptx_engine.syntax import flatten, parse
from ptx_engine.syntax.printer import print_instruction
from volta_pass.cli import main

CASES = all_cases()
FAULTY = [case for case in CASES if case.faulty]
ALL = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
EXIT_CODES = {"": 1, CLEAN: 0, ONE_SCHEDULE: 3}


def race(case: Case, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON of the command."""
    code = main(["race", str(case.path), "--spec", str(case.spec), "--json"])
    return code, json.loads(capsys.readouterr().out)


def line_of(site: dict[str, Any], case: Case) -> int:
    """The line of a site in the file that a person wrote."""
    if case.source == case.path:
        return int(site["ptx_line"])
    file, line, _ = str(site["user_loc"]).rsplit(":", 2)
    assert Path(file).name == case.source.name
    return int(line)


def found(row: dict[str, Any], case: Case) -> Expected:
    """A finding of the JSON in the words of the headers; a third site (the barrier that too few reached) is no part of the pair."""
    lines = tuple(sorted(line_of(site, case) for site in row["sites"][:2]))
    return Expected(row["kind"], row["space"], row["details"].get("conflict", ""), lines, row["missing"])


@ALL
def test_the_command_says_what_the_header_says(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = race(case, capsys)
    rows = {severity: {found(row, case) for row in report["findings"] if row["severity"] == severity} for severity in ("error", "note")}
    assert rows["error"] == case.findings
    assert rows["note"] == case.notes
    assert (code, report["verdict"]) == (EXIT_CODES[case.verdict], {"": "refuted", CLEAN: "proved", ONE_SCHEDULE: "unknown"}[case.verdict])
    assert bool(report["reason"]) == (case.verdict == ONE_SCHEDULE)
    assert report["errors"] == [] and report["ctas"]["executed"] == report["ctas"]["total"]


@pytest.mark.parametrize("case", FAULTY, ids=lambda case: case.name)
def test_a_finding_names_its_instructions_and_what_would_order_them(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    text = case.path.read_text(encoding="utf-8").splitlines()
    advice = case.advice()
    for row in race(case, capsys)[1]["findings"]:
        assert all(text[site["ptx_line"] - 1].strip() == site["ptx_text"] for site in row["sites"])
        assert row["count"] > 0 and row["message"]
        if row["severity"] == "error":
            assert any(words in row["missing"] for words in advice[found(row, case)])


def instructions(path: Path) -> list[str]:
    """The parsed instructions of the only kernel, without places in the text."""
    module = parse(path.read_text(encoding="utf-8"))
    (function,) = [f for f in module.functions if f.body]
    return [print_instruction(instruction) for instruction in flatten(function, module).instructions]


def difference(a: Path, b: Path) -> list[tuple[list[str], list[str]]]:
    """Runs of instructions of the one that stand as others in the other."""
    one, two = instructions(a), instructions(b)
    blocks = difflib.SequenceMatcher(None, one, two, autojunk=False).get_opcodes()
    return [(one[i:j], two[k:m]) for tag, i, j, k, m in blocks if tag != "equal"]


@pytest.mark.parametrize("case", FAULTY, ids=lambda case: case.name)
def test_a_fault_is_one_instruction(case: Case) -> None:
    twin = read_case(case.path.with_name(case.twin))
    assert not twin.faulty and twin.verdict and twin.spec == case.spec
    changes = difference(case.path, twin.path)
    assert sum(max(len(here), len(there)) for here, there in changes) == case.differs_by


def test_more_than_one_instruction_is_synchronisation_and_what_the_compiler_makes_of_it() -> None:
    """Kernels that rely on lockstep are repaired by a synchronisation for each step; without one the compiler drops stores that no
    other thread could see in time."""
    lockstep = [case for case in FAULTY if case.differs_by > 1]
    assert [case.name for case in lockstep] == ["reduce_5_lockstep", "reduce_6_lockstep", "reduce_7_lockstep", "reduce_volatile_lockstep"]
    for case in lockstep:
        changes = difference(case.path, case.path.with_name(case.twin))
        assert all(here == [] for here, _ in changes)
        added = Counter(line.split()[0] for _, there in changes for line in there)
        assert added == ({"bar.warp.sync": 12} if "volatile" in case.name else {"bar.warp.sync": 9, "st.shared.f32": 4})


def test_every_clean_file_has_a_faulty_twin() -> None:
    twins = {case.twin for case in FAULTY}
    assert {case.path.name for case in CASES if not case.faulty and case.path.name not in twins} == set()


def test_the_suite_meets_every_kind_of_finding() -> None:
    kinds = {expected.kind for case in CASES for expected in case.findings | case.notes}
    assert kinds >= {"data race", "same-value write", "deadlock", "barrier misuse", "out of bounds", "misaligned", "uninitialised"}
    assert len({words for case in CASES for said in case.advice().values() for words in said}) >= 6


def test_specs_and_sources_belong_to_cases() -> None:
    folder = CASES[0].path.parent
    assert {path.name for path in folder.glob("*.toml")} == {case.spec.name for case in CASES}
    assert {path.name for path in folder.glob("*.cu")} == {case.source.name for case in CASES} - {case.path.name for case in CASES}
    for case in CASES:
        assert f'ptx = "{case.spec.stem}.ptx"' in case.spec.read_text(encoding="utf-8")


# --- the reader itself ----------------------------------------------------------------------------


def test_headers_are_read_word_by_word() -> None:
    marks = marked_lines("first\nld.x;  // @Load\nst.y;  // @Store \n")
    assert marks == {"Load": 2, "Store": 3}
    expected = finding("data race shared R/W @Store @Load (no barrier)", marks)
    assert expected == Expected("data race", "shared", "R/W", (2, 3)) and expected.missing == "no barrier"
    assert finding("same-value write global W/W @Store @Store", marks) == Expected("same-value write", "global", "W/W", (3, 3))
    assert finding("deadlock @Load", marks) == Expected("deadlock", "", "", (2,))
    assert header("// about\n// expect: a\n// expect: b\n// spec: s.toml\n") == {"expect": ["a", "b"], "spec": ["s.toml"]}


@pytest.mark.parametrize("words", ["data race shared", "data race shared R/R @Load", "@Load", "data race @Load (open"])
def test_words_that_are_no_finding(words: str) -> None:
    with pytest.raises(ValueError, match="not a finding"):
        finding(words, {"Load": 1})


def test_a_mark_stands_once() -> None:
    with pytest.raises(ValueError, match="stands twice"):
        marked_lines("a // @A\nb // @A\n")
