"""``volta-pass bench paper``: every row has its spec and announces the verdict that the spec announces; what counts as met."""

from __future__ import annotations

import io
import json
import subprocess

import pytest
from rich.console import Console
from suite import SPECS, expected

from ptx_engine.verdict import Status
from volta_pass.cli import bench, bench_paper, main
from volta_pass.cli.bench_paper import PAIRS, Pair, PaperRow, measure, print_rows, row_of
from volta_pass.kernel_report import KernelReport

SMALL = (Pair("reduce3", 3600.0), Pair("reduce5", 3600.0, expected="refuted"), Pair("reduce1", 1e-9))


def test_rows_are_the_suites() -> None:
    assert {pair.name for pair in PAIRS} <= set(SPECS)
    assert all(pair.expected == expected(pair.name) for pair in PAIRS)
    families = {name.partition("_")[0].rstrip("1234567") for name in SPECS}
    assert families == {pair.name.partition("_")[0].rstrip("1234567") for pair in PAIRS}


def test_met_is_the_right_verdict_in_time() -> None:
    report = KernelReport("k", status=Status.PROVED, seconds={"validate": 5.0, "parse": 1.0, "decode": 1.0, "execute": 1.0, "decide": 2.0})
    row = row_of(Pair("k", 100.0, 10.0), report, 2.0, 50.4)
    assert (row.figure, row.target, row.ratio, row.met, row.execute_s, row.decide_s, row.wall_s) == (2.0, 10.0, 50.0, True, 3.0, 2.0, 5.0)
    assert not row_of(Pair("k", 100.0, 100.0), report, 2.0, 50.4).met
    wrong = row_of(Pair("k", 100.0, expected="refuted"), report, 2.0, 50.4)
    assert not wrong.met and wrong.verdict == "proved, not refuted"


def test_a_short_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(bench.BENCHES, "paper", lambda: [*measure(SMALL)])
    monkeypatch.setattr(bench_paper, "Z3_PAIRS", ())
    assert main(["bench", "paper", "--json"]) == 1  # one target is out of reach
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert [rows[name]["met"] for name in ("reduce3", "reduce5", "reduce1")] == [True, True, False]
    assert rows["reduce3"]["outputs"] == 1 and rows["reduce3"]["thread_instructions"] > 1000
    assert rows["the whole table"]["figure"] > 0 and 50 < rows["peak memory"]["figure"] < 2048
    assert main(["bench", "paper"]) == 1
    assert "reduce5" in (shown := capsys.readouterr().out) and "refuted" in shown


@pytest.mark.parametrize(
    ("found", "unit"),
    [
        ('{"answer": "proved", "seconds": 0.25, "version": "5"}', "s (proved)"),
        (subprocess.TimeoutExpired("z3", 70), "s (stopped)"),
        (subprocess.CalledProcessError(-9, "z3"), "failed (-9)"),
    ],
)
def test_what_z3_says_is_shown_and_never_judged(found: "str | Exception", unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def child(*arguments: str, timeout_s: float) -> str:
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(bench_paper, "child", child)
    row = bench_paper._z3_row("reduce3")
    assert row.unit == unit and row.target is None and row.met
    text = io.StringIO()
    print_rows([row, PaperRow("k", 1.0, "s", 2.0, True, "proved")], Console(file=text, width=140))
    assert unit in text.getvalue() and "yes" in text.getvalue()
